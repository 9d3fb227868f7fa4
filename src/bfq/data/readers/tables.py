"""Tables of a user: files and data frames with any column names.

Columns are those that the user names, or those with our own names or names in common use. Nothing in a file
is executed, and only the columns that are needed are read.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.arrays import from_arrays
from bfq.data.checks import MATRICES, NEEDED, as_array
from bfq.data.cleaning import MARKS, TIME, clean
from bfq.data.dataset import Arrays, Dataset
from bfq.data.defects import refuse
from bfq.data.labels import label_columns, split_units, without_units
from bfq.data.ranges import BOUNDS
from bfq.data.readers import FORMATS, Format, Table, check_exists, reader
from bfq.errors import BadInput, unknown

Theirs = str | Sequence[str] | Callable[[Any], npt.ArrayLike]
Chosen = tuple[str, ...] | Callable[[Any], npt.ArrayLike]
Columns = Mapping[str, Theirs]
MOST = 20  # columns listed in a sentence
NONE = "none"  # after =: the file has no such column
LABELS = ("name", "source")  # optional text in npz files
# First bytes of files that contradict their suffix.
SIGNATURES = {b"PK\x03\x04": ".npz", b"\x89HDF": ".hdf5", b"PAR1": ".parquet", b"\x1f\x8b": ".gz"}
# The first name of each is ours; the others are common elsewhere.
NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "acts", "act"),
    "rewards": ("rewards", "reward", "rews", "rew"),
    "next_observations": (
        "next_observations", "next_observation", "next_obs", "new_obs", "obs_next", "next_states",
        "next_state", "new_states", "new_state",
    ),
    "terminals": ("terminals", "terminal", "terminated", "terminateds", "terminations", "termination"),
    "timeouts": ("timeouts", "timeout", "truncated", "truncations", "truncation", "truncateds"),
    "dones": ("dones", "done", "episode_terminals"),
    "episode_ids": (
        "episode_ids", "episode_id", "episodes", "episode", "trajectory_ids", "trajectory_id", "trajectory",
        "traj_id", "traj", "eps_id",
    ),
    "episode_lengths": ("episode_lengths", "trajectory_lengths", "path_lengths", "traj_lengths"),
    "episode_starts": ("episode_starts", "episode_start", "is_first"),
    TIME: (),  # only if the user names it
}  # fmt: skip


def read_table(path: str | Path, columns: Columns | None = None, **options: Any) -> Dataset:
    """Read the dataset in a file; `columns` and the options are those of `from_table`."""
    path = Path(path).expanduser()
    with reader(_check_format(path).opener)(path) as table:
        return from_table(table, path.name, columns, **options)


def from_table(
    table: Table,
    title: str,
    columns: Columns | None = None,
    *,
    action_low: npt.ArrayLike | None = None,
    action_high: npt.ArrayLike | None = None,
    name: str | None = None,
    source: str | None = None,
    units: Mapping[str, str] | None = None,
    **cleaning: Any,
) -> Dataset:
    """Build the dataset in a table; `columns` says which columns are observations, actions and so on.

    A value of `columns` is the name of a column, a prefix (obs_ for obs_0, obs_1, …), several of these
    joined by +, `none`, or a function of the table that returns one row or number per row. Other columns are
    found by name. Without bounds, the range of the actions is the one in the file, or else inferred. `units`
    completes those of the header, and the options of cleaning are those of `clean`; without them the log must be
    right as it is.
    """
    table, short, known = split_units(table, units)
    columns = {word: without_units(theirs, short) for word, theirs in (columns or {}).items()}
    chosen, recognized = choose_columns(title, table.names, columns)
    extra = [word for word in (*BOUNDS, *LABELS) if word in table.names and not table.by_column]
    facts = table.read(extra) if extra else {}
    categories: dict[str, list[str]] = {}
    ends: Arrays = {}
    notes: tuple[str, ...] = ()
    wanted = [column for theirs in chosen.values() if not callable(theirs) for column in theirs]
    if cleaning or TIME in chosen:
        cleaned = clean(table, title, chosen, **cleaning)
        table, categories, notes = cleaned.table, cleaned.categories, cleaned.notes
        ends = {"terminals": cleaned.terminals, "timeouts": cleaned.timeouts}
        dropped = (TIME, *MARKS, *(("next_observations",) if cleaning.get("resample") else ()))
        chosen = {word: theirs for word, theirs in chosen.items() if word not in dropped}
    used = [column for theirs in chosen.values() if not callable(theirs) for column in theirs]
    read = table.read(used)
    arrays: dict[str, Any] = {
        word: as_array(word, theirs(Log(table)))
        if callable(theirs)
        else _stack(word, [read[column] for column in theirs], table.by_column)
        for word, theirs in chosen.items()
    }
    given = {"action_low": action_low, "action_high": action_high}
    limits: dict[str, Any] = {
        bound: facts.get(bound) if given[bound] is None else given[bound] for bound in BOUNDS
    }
    layout: tuple[str, ...] = ()
    if np.ndim(arrays["observations"]) == 3 and (layout := reader("buffers:unstack")(arrays)):
        layout += tuple(reader("buffers:scale_actions")(arrays, limits))
    texts = {word: facts[word] for word in LABELS if word in extra and facts[word].ndim == 0}
    labels = {word: " ".join(str(text).split())[:200] for word, text in texts.items()}
    dataset = from_arrays(
        **{**arrays, **ends},
        **limits,
        labels=label_columns(chosen, read, known, categories, table.by_column),
        name=name or labels.get("name") or title.removesuffix(".gz").rpartition(".")[0] or title,
        source=source or labels.get("source") or f"file {title}",
    )
    rest = [name for name in table.names if name and name not in (*wanted, *extra)]
    unused = (f"Columns not used: {_listed(rest)}.",) if rest else ()
    return replace(dataset, notes=(*recognized, *unused, *notes, *layout, *dataset.notes))


class Log(Mapping[str, npt.NDArray[Any]]):
    """The columns of a table, read when a function asks for them."""

    def __init__(self, table: Table):
        self._table = table

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._table.names:
            raise _unknown_column(name, self._table.names)
        return self._table.read([name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


def _check_format(path: Path) -> Format:
    """The format of an existing file by its suffix, checked against its first bytes."""
    check_exists(path)
    form = next((FORMATS[end] for end in FORMATS if path.name.lower().endswith(end)), None)
    if form is None:
        ending = path.suffix or "nothing"
        raise refuse("unknown-format", f"{path.name} ends in {ending}, which bfq does not read")
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from error
    if not begin:
        raise refuse("empty-file", f"{path.name} is empty")
    if re.match(rb"\x80[\x02-\x05]", begin):
        raise refuse("pickled-objects", f"{path.name} is a pickle, and pickles are never loaded")
    kinds = (kind for start, kind in SIGNATURES.items() if begin.startswith(start))
    kind = next(kinds, form.begins)
    if kind != form.begins:
        raise refuse("wrong-ending", f"{path.name} begins like a {kind} file")
    return form


def _stack(word: str, parts: list[npt.NDArray[Any]], by_column: bool) -> npt.NDArray[Any]:
    """Columns and matrices side by side; a single one in a table of columns becomes a matrix."""
    if len(parts) == 1 and not (by_column and word in MATRICES and parts[0].ndim == 1):
        return parts[0]
    if len({part.shape[:1] for part in parts}) > 1 or any(
        part.ndim not in (1, 2) for part in parts
    ):
        shapes = ", ".join(str(part.shape) for part in parts[:5])
        raise refuse("wrong-shape", f"the columns of {word} cannot be joined: shapes {shapes}")
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def choose_columns(
    file: str, names: Sequence[str], given: Columns | None
) -> tuple[dict[str, Chosen], tuple[str, ...]]:
    """The columns for each of our names, and a note on those recognized by name."""
    for name in _repeated(names):  # first: no other message about columns would be reliable
        raise refuse("column-twice", f"several columns have the name {name}")
    mapped = our_names(given or {})
    columns: dict[str, Chosen] = {
        word: theirs if callable(theirs) else _find(word, theirs, names)
        for word, theirs in mapped.items()
        if theirs != NONE
    }
    taken = {name for chosen in columns.values() if not callable(chosen) for name in chosen}
    free = [name for name in names if name not in taken]
    recognized = []
    for word in NAMES:
        found = _recognized(word, free) if word not in mapped else ()
        if found:
            columns[word] = found
            if found[0] not in (word, f"{word}_0"):
                recognized.append(f"{_short(found)} as {word}")
    for word in NEEDED:
        if word not in columns:
            raise refuse("missing-column", f"{file} has no {word}: it holds {_listed(names)}")
    lists = {word: chosen for word, chosen in columns.items() if not callable(chosen)}
    for name in _repeated(chain.from_iterable(lists.values())):
        words = " and ".join(word for word, chosen in lists.items() if name in chosen)
        raise refuse("column-twice", f"the column {name} is used more than once, for {words}")
    notes = (f"Recognized by name: {', '.join(recognized)}.",) if recognized else ()
    return columns, notes


def our_names(columns: Columns) -> dict[str, Theirs]:
    """The given columns with common names replaced by ours."""
    ours: dict[str, Theirs] = {}
    for given, theirs in columns.items():
        word = next((word for word, synonyms in NAMES.items() if given in (word, *synonyms)), None)
        if word is None:
            raise unknown("name before = in columns", given, NAMES)
        if word in ours:
            raise BadInput(f"columns names {word} twice: {given} means the same.")
        ours[word] = theirs
    return ours


def _find(word: str, theirs: str | Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a name, a prefix of numbered columns, or several of these joined by +."""
    if isinstance(theirs, str) and theirs in names:
        return (theirs,)
    parts = theirs.split("+") if isinstance(theirs, str) else list(theirs)
    found: list[str] = []
    for part in parts:
        exact = (part,) if part in names else _numbered(part, names)
        if not exact:
            raise _unknown_column(part, names)
        found.extend(exact)
    if len(found) > 1 and word not in MATRICES:
        several = ", ".join(found[:5])
        raise refuse("ambiguous-columns", f"{word} are one column, but {several} are {len(found)}")
    return tuple(found)


def _unknown_column(part: str, names: Sequence[str]) -> BadInput:
    """The exception for an unknown column, with the nearest name or an explanation of prefixes."""
    begun = [name for name in names if part and name.startswith(part)]
    if len(begun) > 1:
        return refuse(
            "unknown-column",
            f"no column is called {part!r}, and a prefix means numbered columns only (such as obs_0, "
            f"obs_1); {_listed(begun)} begin like this and can be joined by + ({begun[0]}+{begun[1]})",
        )
    near = get_close_matches(part, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}" if near else f"there are: {_listed(names)}"
    return refuse("unknown-column", f"unknown column {part!r}: {hint}")


def _recognized(word: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns with one of the names of a word; our own name has priority."""
    lower = {name.strip().lower(): name for name in reversed(names) if name}
    found = []
    for synonym in NAMES[word]:
        exact = (lower[synonym],) if synonym in lower else ()
        numbered = _numbered(synonym, list(lower)) if word in MATRICES and not exact else ()
        several = exact or tuple(lower[name] for name in numbered)
        if several and synonym == word:
            return several
        if several:
            found.append(several)
    if len(found) > 1:
        listed = " and ".join(_short(several) for several in found)
        raise refuse("ambiguous-columns", f"{listed} could all be {word}")
    return found[0] if found else ()


def _numbered(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns prefix0, prefix1, … (or prefix_0, prefix[0], …) in the order of their numbers."""
    pattern = re.compile(rf"{re.escape(prefix)}[_.\[ ]?(\d{{1,6}})\]?")
    found = ((pattern.fullmatch(name), name) for name in names)
    matches = sorted((int(match[1]), name) for match, name in found if match)
    numbers = [number for number, _ in matches]
    if not numbers:
        return ()
    if len(set(numbers)) < len(numbers):
        raise refuse("column-twice", f"two of the columns {prefix}… have the same number")
    first = numbers[0] if numbers[0] <= 1 else 0
    missing = set(range(first, numbers[-1])) - set(numbers)
    if missing:
        gap = f"among the columns {prefix}… number {min(missing)} is missing"
        raise refuse("columns-with-gaps", gap)
    return tuple(name for _, name in matches)


def _short(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{columns[0]} to {columns[-1]}"


def _listed(names: Sequence[str]) -> str:
    """The names in the order of the file, with a count of those left out."""
    held = [name for name in names if name]
    more = f" and {len(held) - MOST} more" if len(held) > MOST else ""
    return f"{', '.join(held[:MOST])}{more}" if held else "nothing"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(filter(None, names)).items() if count > 1]
