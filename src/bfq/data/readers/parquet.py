"""Parquet files: columns of numbers, or of lists that all have one length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.defects import refuse
from bfq.errors import BadInput


def names_in(path: Path) -> list[str]:
    """The names of the columns."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """The columns of these names; a column of lists becomes a matrix."""
    with _opened(path) as file:
        table = file.read(columns=list(names))
        return {name: _array(name, table[name].combine_chunks()) for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("Parquet files need pyarrow: pip install 'bfq-rl[parquet]'.") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except BadInput:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        told = str(error).split("\n")[0] or type(error).__name__
        raise refuse(
            "unreadable-file", f"{path.name} is not a readable Parquet file ({told})"
        ) from error


def _array(name: str, column: Any) -> npt.NDArray[Any]:
    from pyarrow import types

    if column.null_count:
        row = int(np.asarray(column.is_null()).argmax())
        raise refuse("empty-cell", f"the column {name} has no value in row {row} (counted from 0)")
    if any(
        is_one(column.type)
        for is_one in (types.is_fixed_size_list, types.is_list, types.is_large_list)
    ):
        return _matrix(name, column)
    if types.is_dictionary(column.type):
        return _array(name, column.dictionary_decode())
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.asarray(column.to_pylist(), np.str_)
    if types.is_decimal(column.type):
        return np.asarray(column.cast("float64"))
    return column.to_numpy(zero_copy_only=False)


def _matrix(name: str, column: Any) -> npt.NDArray[Any]:
    """Lists of one length as rows; lists of lists as arrays, which the checks then take for pictures."""
    import pyarrow.compute as pc

    widths = np.asarray(pc.list_value_length(column))
    other = widths != widths[:1]
    if other.any():
        row = int(other.argmax())
        found = f"the column {name} has {widths[0]} values in row 0 but {widths[row]} in row {row}"
        raise refuse("mixed-widths", f"{found} (counted from 0)")
    values = _array(name, column.flatten())
    width = int(widths[0]) if len(widths) else 0
    return values.reshape(len(widths), width, *values.shape[1:])
