"""HDF5 files from anywhere: only arrays that the file itself holds are read, and nothing is executed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

ENDINGS = (".hdf5", ".h5")
MOST_SWELLING = 200  # how many times a file's size its arrays may take, by compression
SMALL = 2**30  # bytes that any file may claim


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of these names (such as infos/qpos; all arrays for None), those that are missing left out.

    Links, arrays kept in other files and virtual arrays are refused, and so are sizes out of all proportion.
    """
    with opened(path) as file:
        wanted = _names(file) if names is None else names
        found = {name: own_array(file, name) for name in wanted}
        arrays = {name: array for name, array in found.items() if array is not None}
        check_claim(file, sum(array.nbytes for array in arrays.values()))
        return {name: values(array) for name, array in arrays.items()}


def names_in(path: Path) -> list[str]:
    """The names of all arrays of the file, those in groups with their path; links are not followed."""
    with opened(path) as file:
        return _names(file)


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """The open file; whatever goes wrong with it is said in a sentence."""
    if not _is_file(path):
        raise BadInput(f"there is no file {path}.")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except BadInput:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        told = str(error) or type(error).__name__
        raise BadInput(f"{path.name} is not a readable HDF5 file: {told.rstrip('.')}.") from error


def own(group: h5py.Group, name: str) -> Any:
    """What the file itself holds under that name, an array or a group; None where there is nothing."""
    at: Any = group
    for part in name.split("/"):
        link = at.get(part, getlink=True) if isinstance(at, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{name} is a link, and links are not followed")
        at = at[part]
    return at


def own_array(group: h5py.Group, name: str) -> h5py.Dataset | None:
    """The array of that name, not yet read, if the file itself holds it; None where there is none."""
    found = own(group, name)
    if found is None:
        return None
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError(f"{name} is not an array of the file's own")
    return found


def check_claim(file: h5py.File, claimed: int) -> None:
    """Refuses arrays of more bytes than the file can have filled, before memory is asked for them."""
    size = file.id.get_filesize()
    if claimed > max(SMALL, MOST_SWELLING * size):
        raise ValueError(f"its arrays claim {claimed:,} bytes in a file of {size:,}")


def values(array: h5py.Dataset) -> npt.NDArray[Any]:
    """An array's numbers, or words of a fixed length.

    Words of any length and other objects are refused: where a file is damaged, the HDF5 library can go round
    in circles for ever among them.
    """
    if array.shape is None or array.dtype.kind == "O":
        raise ValueError(f"{array.name} holds neither numbers nor words of a fixed length")
    found = np.asarray(array[()])
    return np.char.decode(found, "utf-8", "replace") if found.dtype.kind == "S" else found


def _names(file: h5py.File) -> list[str]:
    found: list[str] = []

    def note(name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and isinstance(
            name, str
        ):  # a damaged name comes as bytes
            found.append(name)

    file.visititems(note)
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
