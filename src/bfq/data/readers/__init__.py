"""Readers of files, found through a table of names so that only those in use are imported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bfq.data.dataset import Arrays
from bfq.data.defects import refuse
from bfq.envs.make import resolve
from bfq.errors import BadInput


class Table(NamedTuple):
    """Columns by name that are read when they are needed."""

    names: list[str]
    read: Callable[[Sequence[str]], Arrays]
    by_column: bool = False  # columns of single numbers, so one column of observations is a matrix
    cells: Callable[[Sequence[str]], Any] | None = None  # for bfq.data.cells.read_cells


class Format(NamedTuple):
    """How files with one suffix are read."""

    opener: str  # `module:function`, a context manager that gives a Table
    begins: str = ""  # the kind of its first bytes


_CSV, _JSON = "delimited:open_csv", "json_lines:open_json"
FORMATS = {
    ".npz": Format("binary:open_npz", ".npz"),
    ".csv": Format(_CSV),
    ".csv.gz": Format(_CSV, ".gz"),
    ".parquet": Format("arrow:open_parquet", ".parquet"),
    ".feather": Format("arrow:open_feather"),
    ".arrow": Format("arrow:open_feather"),
    ".hdf5": Format("binary:open_arrays", ".hdf5"),
    ".h5": Format("binary:open_arrays", ".hdf5"),
    ".jsonl": Format(_JSON),
    ".json": Format(_JSON),
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
