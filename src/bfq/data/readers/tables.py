"""Files of a user's own: npz, CSV, Parquet and HDF5, with whatever names their columns have.

Nothing in a file is executed, and only the arrays that are needed are read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.checks import BOUNDS, as_array, completed
from bfq.data.dataset import Dataset, from_arrays
from bfq.data.defects import refuse
from bfq.data.readers import delimited, hdf5, npz, parquet
from bfq.data.readers.columns import MATRICES, Theirs, choose
from bfq.errors import BadInput

Arrays = dict[str, npt.NDArray[Any]]
WORDS = ("name", "source")  # written by write_npz, so that a dataset keeps its origin
# How a file begins that is of another kind than its ending says.
BEGINNINGS = {b"PK\x03\x04": ".npz", b"\x89HDF": ".hdf5", b"PAR1": ".parquet", b"\x1f\x8b": ".gz"}


class Reader(NamedTuple):
    """How files of one kind are read."""

    names: Callable[[Path], list[str]]
    arrays: Callable[[Path, Sequence[str]], Arrays]
    by_column: bool  # a table of single columns, where even one column of observations is a matrix
    begins: str  # the beginning that such a file has


def read_table(
    path: Path,
    mapping: Mapping[str, Theirs] | None = None,
    *,
    action_low: npt.ArrayLike | None = None,
    action_high: npt.ArrayLike | None = None,
    name: str | None = None,
    source: str | None = None,
) -> Dataset:
    """The dataset in a file; `mapping` says which of its columns are observations, actions and so on.

    On the right of the mapping stands a column's name, a prefix (obs_ for obs_0, obs_1, …), several of these
    joined by +, or `none`. What it leaves out is found by name. Without bounds the range of the actions is
    the file's own, or taken from the data.
    """
    reader = _reader(path)
    names = reader.names(path)
    chosen = choose(path.name, names, mapping)
    extra = [] if reader.by_column else [word for word in (*BOUNDS, *WORDS) if word in names]
    wanted = [column for theirs in chosen.columns.values() for column in theirs]
    found = reader.arrays(path, [*wanted, *extra])
    columns: dict[str, Any] = {
        word: _joined(word, [found[column] for column in theirs], reader.by_column)
        for word, theirs in chosen.columns.items()
    }
    limits, told = _range(
        columns["actions"], {"action_low": action_low, "action_high": action_high}, found
    )
    words = {word: _words(found[word]) for word in WORDS if word in extra}
    dataset = from_arrays(
        **columns,
        **limits,
        name=name or words.get("name") or path.name.removesuffix(".gz").rpartition(".")[0],
        source=source or words.get("source") or f"file {path.name}",
    )
    unused = _unused(names, chosen.columns) if reader.by_column else ()
    return replace(dataset, notes=(*chosen.notes, *unused, *told, *dataset.notes))


READERS = {
    ".npz": Reader(npz.names_in, npz.read_arrays, False, ".npz"),
    ".csv": Reader(delimited.names_in, delimited.read_arrays, True, ""),
    ".csv.gz": Reader(delimited.names_in, delimited.read_arrays, True, ".gz"),
    ".parquet": Reader(parquet.names_in, parquet.read_arrays, True, ".parquet"),
    ".hdf5": Reader(hdf5.names_in, hdf5.read_arrays, False, ".hdf5"),
    ".h5": Reader(hdf5.names_in, hdf5.read_arrays, False, ".hdf5"),
}


def _reader(path: Path) -> Reader:
    """The reader for a file's ending, once the file is seen to be there and not to be something else."""
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise BadInput(f"there is no file {path}.")
    reader = next(
        (READERS[ending] for ending in READERS if path.name.lower().endswith(ending)), None
    )
    if reader is None:
        ending = path.suffix or "nothing"
        raise refuse("unknown-format", f"{path.name} ends in {ending}, which bfq does not read")
    _look(path, reader)
    return reader


def _look(path: Path, reader: Reader) -> None:
    """Looks at the first bytes."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from error
    if not begin:
        raise refuse("empty-file", f"{path.name} is empty")
    if re.match(rb"\x80[\x02-\x05]", begin):
        raise refuse("pickled-objects", f"{path.name} is a pickle, which is never loaded")
    kind = next(
        (kind for start, kind in BEGINNINGS.items() if begin.startswith(start)), reader.begins
    )
    if kind != reader.begins:
        raise refuse("wrong-ending", f"{path.name} begins like a {kind} file")


def _words(found: npt.NDArray[Any]) -> str:
    return " ".join(str(found).split())[:200] if found.ndim == 0 else ""


def _joined(word: str, parts: list[npt.NDArray[Any]], by_column: bool) -> npt.NDArray[Any]:
    """Several columns side by side; one as it is, except that in a table it is a matrix of one column."""
    if len(parts) == 1 and not (by_column and word in MATRICES and parts[0].ndim == 1):
        return parts[0]
    if any(part.ndim != 1 for part in parts) or len({len(part) for part in parts}) > 1:
        told = ", ".join(str(part.shape) for part in parts[:5])
        raise refuse(
            "wrong-shape", f"the columns of {word} cannot be put side by side, with shapes {told}"
        )
    return np.stack(parts, axis=1)


def _range(
    actions: npt.NDArray[Any], given: Mapping[str, npt.ArrayLike | None], found: Arrays
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The bounds of the actions: as given, as the file says, or from the data, which is then told."""
    limits = {bound: found.get(bound) if given[bound] is None else given[bound] for bound in BOUNDS}
    values = as_array("actions", actions)
    # What is wrong with the actions themselves is said by the checks that follow.
    sound = values.dtype.kind in "fiub" and values.ndim in (1, 2) and values.size > 0
    sound = sound and bool(np.isfinite(values).all())
    if not sound or all(limit is not None for limit in limits.values()):
        return {bound: limit for bound, limit in limits.items() if limit is not None}, ()
    low, high, told = completed(values.reshape(len(values), -1), **limits)
    return {"action_low": low, "action_high": high}, (told,) if told else ()


def _unused(names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    used = {name for several in columns.values() for name in several}
    rest = [name for name in names if name and name not in used]
    more = f" and {len(rest) - 10} more" if len(rest) > 10 else ""
    return (f"Columns not used: {', '.join(rest[:10])}{more}.",) if rest else ()
