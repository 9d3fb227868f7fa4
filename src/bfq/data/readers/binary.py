"""npz, Parquet and HDF5 files: only arrays are read, nothing is unpickled or executed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from bfq.data.checks import describe_rows
from bfq.data.dataset import Arrays
from bfq.data.defects import refuse
from bfq.data.readers import parsing
from bfq.errors import BadInput

MOST_SWELLING = 200  # the largest factor by which compressed arrays may exceed the file size
SMALL = 2**30  # bytes that any file may declare


def npz_names(path: Path) -> list[str]:
    """The names of the arrays."""
    with _open_npz(path) as archive:
        return list(archive.files)


def read_npz(path: Path, names: Sequence[str] | None = None) -> Arrays:
    """The arrays of these names (all arrays for None); others are not unpacked."""
    with _open_npz(path) as archive:
        return {name: archive[name] for name in (archive.files if names is None else names)}


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    # NumPy leaves its own file open on failure.
    with parsing(path, "npz"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        yield archive


def parquet_names(path: Path) -> list[str]:
    """The names of the columns."""
    with _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def read_parquet(path: Path, names: Sequence[str]) -> Arrays:
    """The columns of these names; a column of lists becomes a matrix."""
    with _open_parquet(path) as file:
        table = file.read(columns=list(names))
        return {name: _parquet_array(name, table[name].combine_chunks()) for name in names}


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("Parquet files need pyarrow: pip install 'bfq-rl[parquet]'.") from error
    with parsing(path, "Parquet"), parquet.ParquetFile(path) as file:
        yield file


def _parquet_array(name: str, column: Any) -> npt.NDArray[Any]:
    from pyarrow import types

    if column.null_count:
        rows = describe_rows(np.asarray(column.is_null()))
        raise refuse("empty-cell", f"the column {name} has no value in {rows}")
    lists = types.is_fixed_size_list, types.is_list, types.is_large_list
    if any(is_list(column.type) for is_list in lists):
        return _parquet_matrix(name, column)
    if types.is_dictionary(column.type):
        return _parquet_array(name, column.dictionary_decode())
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.asarray(column.to_pylist(), np.str_)
    if types.is_decimal(column.type):
        return np.asarray(column.cast("float64"))
    return column.to_numpy(zero_copy_only=False)


def _parquet_matrix(name: str, column: Any) -> npt.NDArray[Any]:
    """Lists of equal length as rows; lists of lists as arrays, which the checks then refuse."""
    import pyarrow.compute as pc

    widths = np.asarray(pc.list_value_length(column))
    other = widths != widths[:1]
    if other.any():
        found = f"the column {name} has {widths[0]} values in row 0 but {widths[other][0]}"
        raise refuse("mixed-widths", f"{found} in {describe_rows(other)}")
    values = _parquet_array(name, column.flatten())
    width = int(widths[0]) if len(widths) else 0
    return values.reshape(len(widths), width, *values.shape[1:])


def read_hdf5(path: Path, names: Sequence[str] | None = None) -> Arrays:
    """The arrays of these names (such as infos/qpos; all arrays for None); missing ones are left out.

    Links, arrays in other files, virtual arrays and implausible sizes are refused.
    """
    with open_hdf5(path) as file:
        wanted = _names(file) if names is None else names
        found = {name: owned_array(file, name) for name in wanted}
        arrays = {name: array for name, array in found.items() if array is not None}
        check_claim(file, sum(array.nbytes for array in arrays.values()))
        return {name: read_values(array) for name, array in arrays.items()}


def hdf5_names(path: Path) -> list[str]:
    """The names of all arrays in the file, with the path of groups; links are not followed."""
    with open_hdf5(path) as file:
        return _names(file)


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """The open file; any failure becomes BadInput."""
    with parsing(path, "HDF5"), h5py.File(path, "r") as file:
        yield file


def owned(group: h5py.Group, name: str) -> Any:
    """The array or group that the file itself holds under this name, or None."""
    at: Any = group
    for part in name.split("/"):
        link = at.get(part, getlink=True) if isinstance(at, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{name} is a link, and links are not followed")
        at = at[part]
    return at


def owned_array(group: h5py.Group, name: str) -> h5py.Dataset | None:
    """The array that the file itself holds under this name, not yet read, or None."""
    found = owned(group, name)
    if found is None:
        return None
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError(f"{name} is not an array of the file's own")
    return found


def check_claim(file: h5py.File, claimed: int) -> None:
    """Refuse arrays that declare more bytes than the file can hold, before memory is allocated."""
    size = file.id.get_filesize()
    if claimed > max(SMALL, MOST_SWELLING * size):
        raise ValueError(f"its arrays declare {claimed:,} bytes in a file of {size:,}")


def read_values(array: h5py.Dataset) -> npt.NDArray[Any]:
    """The numbers of an array, or text of a fixed length.

    Text of variable length and other objects are refused: in a damaged file, the HDF5 library can loop
    forever on them.
    """
    if array.shape is None or array.dtype.kind == "O":
        raise ValueError(f"{array.name} holds neither numbers nor text of a fixed length")
    found = np.asarray(array[()])
    return np.char.decode(found, "utf-8", "replace") if found.dtype.kind == "S" else found


def _names(file: h5py.File) -> list[str]:
    found: list[str] = []

    def collect(name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and isinstance(name, str):  # a damaged name is in bytes
            found.append(name)

    file.visititems(collect)
    return found
