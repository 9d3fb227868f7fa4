"""Readers of files, found through a table of names so that only those in use are imported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bfq.data.defects import refuse
from bfq.envs.make import resolve
from bfq.errors import BadInput


class Format(NamedTuple):
    """How files with one suffix are read: functions as `module:function`."""

    names: str  # lists the columns
    arrays: str  # reads some of them
    by_column: bool  # a table of single columns, so one column of observations is a matrix as well
    begins: str  # the kind of its first bytes


_CSV = ("delimited:csv_names", "delimited:read_csv", True)
_HDF5 = ("binary:hdf5_names", "binary:read_hdf5", False)
FORMATS = {
    ".npz": Format("binary:npz_names", "binary:read_npz", False, ".npz"),
    ".csv": Format(*_CSV, ""),
    ".csv.gz": Format(*_CSV, ".gz"),
    ".parquet": Format("binary:parquet_names", "binary:read_parquet", True, ".parquet"),
    ".hdf5": Format(*_HDF5, ".hdf5"),
    ".h5": Format(*_HDF5, ".hdf5"),
}


def reader(name: str) -> Any:
    """The function called `module:function` in this package, such as `d4rl:read_d4rl`."""
    return resolve(f"{__name__}.{name}")


def check_exists(path: Path) -> None:
    """Refuse a path that is not a file."""
    try:
        there = path.is_file()
    except (OSError, ValueError):  # an impossible name
        there = False
    if not there:
        raise BadInput(f"there is no file {path}.")


@contextmanager
def parsing(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on an untrusted file, which must exist, into BadInput."""
    check_exists(path)
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file may raise anything
        defect = "pickled-objects" if "Object arrays" in str(error) else "unreadable-file"
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        raise refuse(defect, f"{path.name} is not a readable {kind} file ({reason})") from error
