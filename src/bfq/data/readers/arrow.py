"""Parquet and Feather files and Arrow tables: columns of numbers, words, or lists of equal length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.cells import Cells, read_cells
from bfq.data.dataset import Arrays
from bfq.data.defects import describe_rows, refuse
from bfq.data.readers import Table, parsing
from bfq.errors import BadInput


def import_pyarrow() -> Any:
    """The package with the modules that are used here, or a sentence that names the extra."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput(
            "Parquet and Arrow files need pyarrow: pip install 'bfq-rl[parquet]'."
        ) from error
    return pyarrow


@contextmanager
def open_parquet(path: Path) -> Iterator[Table]:
    """The columns of a Parquet file."""
    pyarrow = import_pyarrow()
    with parsing(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:

        def read(names: Sequence[str]) -> Arrays:
            return as_table(file.read(columns=list(names))).read(names)

        def cells(names: Sequence[str]) -> Cells:
            return read_cells(as_table(file.read(columns=list(names))), names)

        yield Table(as_table(file.schema_arrow.empty_table()).names, read, True, cells)


@contextmanager
def open_feather(path: Path) -> Iterator[Table]:
    """The columns of a Feather file, which is an Arrow file, or of an Arrow stream."""
    pyarrow = import_pyarrow()
    with parsing(path, "Arrow"), pyarrow.memory_map(str(path)) as source:
        try:
            file = pyarrow.ipc.open_file(source)
        except pyarrow.ArrowInvalid:
            file = pyarrow.ipc.open_stream(source)
        table = file.read_all()
        table.validate(full=True)  # a damaged file may point outside its buffers
        yield as_table(table)


def as_table(table: Any) -> Table:
    """The columns of an Arrow table; those of a struct are called struct.field."""
    is_struct = import_pyarrow().types.is_struct
    while any(is_struct(field.type) for field in table.schema):
        table = table.flatten()

    def read(names: Sequence[str]) -> Arrays:
        return {name: as_numpy(name, table[name].combine_chunks()) for name in names}

    def cells(names: Sequence[str]) -> Cells:
        return Cells({name: _with_nulls(name, table[name].combine_chunks()) for name in names})

    return Table(list(table.column_names), read, by_column=True, cells=cells)


def _with_nulls(name: str, column: Any) -> npt.NDArray[Any]:
    """The array as it stands, with NaN or None where there is no value."""
    types = import_pyarrow().types
    if types.is_dictionary(column.type):
        return _with_nulls(name, column.dictionary_decode())
    if types.is_nested(column.type) or types.is_decimal(column.type):
        return as_numpy(name, column)
    return column.to_numpy(zero_copy_only=False)


def as_numpy(name: str, column: Any) -> npt.NDArray[Any]:
    """An Arrow array as a NumPy array; a column of lists becomes a matrix."""
    types = import_pyarrow().types
    if column.null_count:
        rows = describe_rows(np.asarray(column.is_null()))
        raise refuse("empty-cell", f"the column {name} has no value in {rows}")
    lists = types.is_fixed_size_list, types.is_list, types.is_large_list
    if any(is_list(column.type) for is_list in lists):
        return _matrix(name, column)
    if types.is_dictionary(column.type):
        return as_numpy(name, column.dictionary_decode())
    words = types.is_string, types.is_large_string, types.is_string_view
    if any(is_word(column.type) for is_word in words):
        return np.asarray(column.to_pylist(), np.str_)
    if types.is_decimal(column.type):
        return np.asarray(column.cast("float64"))
    return column.to_numpy(zero_copy_only=False)


def _matrix(name: str, column: Any) -> npt.NDArray[Any]:
    """Lists of equal length as rows; lists of lists as arrays, which the checks then refuse."""
    widths = np.asarray(import_pyarrow().compute.list_value_length(column))
    other = widths != widths[:1]
    if other.any():
        found = f"the column {name} has {widths[0]} values in row 0 but {widths[other][0]}"
        raise refuse("mixed-widths", f"{found} in {describe_rows(other)}")
    values = as_numpy(name, column.flatten())
    width = int(widths[0]) if len(widths) else 0
    return values.reshape(len(widths), width, *values.shape[1:])
