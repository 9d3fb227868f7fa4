"""NumPy's own files of several arrays, read without unpickling anything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.defects import refuse


def names_in(path: Path) -> list[str]:
    """The names of the arrays."""
    with _opened(path) as archive:
        return list(archive.files)


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of these names (all arrays for None); others are not even unpacked."""
    with _opened(path) as archive:
        return {name: archive[name] for name in (archive.files if names is None else names)}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as file:  # NumPy leaves its own file open where it fails
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            yield archive
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        if "Object arrays" in str(error):
            raise refuse(
                "pickled-objects",
                f"{path.name} is not an npz file of plain arrays, and pickled objects are never loaded",
            ) from error
        told = str(error).rstrip(".") or type(error).__name__
        raise refuse(
            "unreadable-file", f"{path.name} is not a readable npz file ({told})"
        ) from error
