"""npz and HDF5 files: only arrays are read, nothing is unpickled or executed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Arrays
from bfq.data.readers import Table, parsing

MOST_SWELLING = 200  # the largest factor by which compressed arrays may exceed the file size
SMALL = 2**30  # bytes that any file may declare


@contextmanager
def open_npz(path: Path) -> Iterator[Table]:
    """The arrays in the file; those that are not read are not unpacked."""
    # NumPy leaves its own file open on failure.
    with parsing(path, "npz"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        yield Table(list(archive.files), lambda names: {name: archive[name] for name in names})


def read_npz(path: Path) -> Arrays:
    """All arrays in the file."""
    with open_npz(path) as table:
        return table.read(table.names)


@contextmanager
def open_arrays(path: Path) -> Iterator[Table]:
    """The arrays in an HDF5 file by their paths, such as infos/qpos; missing ones are left out.

    Links, arrays in other files, virtual arrays and implausible sizes are refused.
    """
    with open_hdf5(path) as file:
        held: list[str] = []

        def collect(name: str | bytes, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and isinstance(name, str):  # damaged names are bytes
                held.append(name)

        def read(names: Sequence[str]) -> Arrays:
            found = {name: owned_array(file, name) for name in names}
            arrays = {name: array for name, array in found.items() if array is not None}
            check_claim(file, sum(array.nbytes for array in arrays.values()))
            return {name: read_values(array) for name, array in arrays.items()}

        file.visititems(collect)  # links are not followed
        yield Table(held, read)


def read_hdf5(path: Path, names: Sequence[str] | None = None) -> Arrays:
    """The arrays of these names, or all arrays in the file."""
    with open_arrays(path) as table:
        return table.read(table.names if names is None else names)


def hdf5_names(path: Path) -> list[str]:
    """The names of all arrays in the file."""
    with open_arrays(path) as table:
        return table.names


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
