"""Check logged columns and find where episodes end.

A terminal ends the future, a time-out only the log. A flag called `done` does not say which of the two it is:
ends at the longest length, if many episodes share it, count as time-outs, the others as terminals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Flags, Floats
from bfq.data.defects import NAME_COLUMNS, count_rows, describe_rows, note, refuse
from bfq.data.ranges import clip_actions, complete_range
from bfq.records import Labels

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]
NEEDED = ("observations", "actions", "rewards")
MATRICES = ("observations", "actions", "next_observations")
FLAGS = ("terminals", "timeouts", "dones", "episode_starts")
BLOCK = 1 << 16  # rows processed at a time, so that checks need little extra memory
LONG = 20  # rows: shorter episodes may share their longest length by accident
SHARE = 0.1  # of the episodes: as many as this end at the time limit, if there is one


@dataclass(frozen=True)
class Logged:
    """Rows in the order they were logged, in float32, with boolean flags."""

    observations: Floats  # (N, s)
    actions: Floats  # (N, a), within their range
    rewards: Floats  # (N,)
    next_observations: Floats | None  # (N, s)
    terminal: Flags  # (N,)
    timeout: Flags  # (N,)
    action_low: Floats  # (a,)
    action_high: Floats  # (a,)
    labels: Labels | None = None

    def name(self, word: str, column: int) -> str:
        """The user's name of a column, such as temp; else `observations column 3`."""
        known = getattr(self.labels, word, None)
        return known[column].name if known else f"{word} column {column}"

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def ends(self) -> Flags:
        """The last row of each episode; the very last row always ends one."""
        ends = self.terminal | self.timeout
        ends[-1] = True
        return ends

    @cached_property
    def last(self) -> Rows:
        """The index of the last row of each episode."""
        return np.flatnonzero(self.ends)

    @cached_property
    def lengths(self) -> Rows:
        """The number of rows of each episode."""
        return np.diff(self.last, prepend=-1)


def blocks(size: int) -> Iterator[slice]:
    """All rows, a block at a time."""
    for begin in range(0, size, BLOCK):
        yield slice(begin, min(begin + BLOCK, size))


def is_number(cell: str) -> bool:
    """Whether text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def check_columns(
    columns: Mapping[str, npt.ArrayLike | None],
    action_low: npt.ArrayLike | None,
    action_high: npt.ArrayLike | None,
) -> tuple[Logged, tuple[str, ...]]:
    """Return the checked log and notes about it; BadInput for the first defect that is refused."""
    for name in NEEDED:
        if columns.get(name) is None:
            raise refuse("missing-column", f"{name} are missing")
    arrays = {name: as_array(name, given) for name, given in columns.items() if given is not None}
    lengths = arrays.pop("episode_lengths", None)
    ids = _reshape("episode_ids", arrays.pop("episode_ids")) if "episode_ids" in arrays else None
    shaped = {name: as_rows(name, column) for name, column in arrays.items()}
    check_lengths(shaped if ids is None else {**shaped, "episode_ids": ids})
    checked = {name: _float32(name, column) for name, column in shaped.items() if name not in FLAGS}
    flags = {name: as_flags(name, column) for name, column in shaped.items() if name in FLAGS}
    following = checked.get("next_observations")
    if following is not None:
        one, other = checked["observations"].shape[1], following.shape[1]
        if one != other:
            found = f"observations have {one} numbers per row but next_observations {other}"
            raise refuse("mixed-widths", found)
    elif not flags and ids is None and lengths is None:
        raise refuse("no-episode-end", "no episode end is given")
    terminal, timeout, notes = mark_ends(len(checked["rewards"]), flags, ids, lengths)
    low, high, inferred = complete_range(checked["actions"], action_low, action_high)
    log = Logged(
        checked["observations"], clip_actions(checked["actions"], low, high), checked["rewards"], following,
        terminal, timeout, low, high,
    )  # fmt: skip
    return log, (*inferred, *notes, *_lost_precision(shaped["observations"], log.observations))


def as_array(name: str, column: npt.ArrayLike) -> Array:
    """The column as an array; masked and ragged ones are refused."""
    if isinstance(column, np.ma.MaskedArray):
        raise refuse("masked-array", f"{name} are a masked array, and the mask would be lost")
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise _ragged(name, column) or refuse("not-numbers", f"{name}: {error}") from error
    if array.dtype.kind == "O" and array.ndim == 1 and (found := _ragged(name, array)):
        raise found
    return array


def _ragged(name: str, column: Any) -> Exception | None:
    widths = np.array([len(value) if hasattr(value, "__len__") else -1 for value in column])
    other = widths != widths[:1]
    if isinstance(column[0], str | bytes) or not other.any():
        return None
    kinds = ("a single number" if n < 0 else f"{n} values" for n in (widths[0], widths[other][0]))
    found = "{} in row 0 but {} in ".format(*kinds) + describe_rows(other)
    return refuse("mixed-widths", f"{name} have {found}")


def as_rows(name: str, column: Array) -> Array:
    """Numbers, one row or one number per transition as the name of the column requires."""
    return _reshape(name, _numeric(name, column))


def _numeric(name: str, column: Array) -> Array:
    kind = column.dtype.kind
    if kind in "fiub":
        return column
    if kind == "c":
        raise refuse("complex-numbers", f"{name} hold values of type {column.dtype}")
    if kind in "US" and column.size:
        index = next((k for k, word in enumerate(column.flat) if not is_number(word)), 0)
        row = index // max(column.size // column.shape[0], 1) if column.ndim else 0
        word = str(column.flat[index])[:30]
        raise refuse("text", f"{name} hold text, such as {word!r} in row {row} (counted from 0)")
    raise refuse("not-numbers", f"{name} hold values of type {column.dtype}, not numbers")


def _reshape(name: str, column: Array) -> Array:
    shape = f"{name} have shape {column.shape}"
    if name in MATRICES:
        if column.ndim == 1 and name == "actions":
            return column[:, None]
        if column.ndim != 2 or column.shape[1] == 0:
            defect = "images" if column.ndim > 2 else "wrong-shape"
            raise refuse(defect, f"{shape}, but one row per transition is needed, (N, dimension)")
        return column
    if column.ndim == 2 and column.shape[1] == 1:
        return column[:, 0]
    if column.ndim != 1:
        raise refuse("wrong-shape", f"{shape}, but one number per transition is needed, (N,)")
    return column


def check_lengths(columns: Mapping[str, Array]) -> None:
    """Refuse columns without rows or of different lengths."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise refuse("different-lengths", f"the columns differ in length ({listed})")
    if lengths["rewards"] == 0:
        raise refuse("no-rows", "there is no transition in it")


def _float32(name: str, column: Array) -> Floats:
    """The column in float32, if every value fits and is finite."""
    with np.errstate(over="ignore"):
        converted = column.astype(np.float32)
    if all(np.isfinite(converted[block]).all() for block in blocks(len(converted))):
        return converted
    for defect, what, values in (
        ("nan", "NaN", np.isnan(column)),
        ("infinite", "an infinite value", np.isinf(column)),
        ("beyond-float32", "a value that is infinite in float32", np.isinf(converted)),
    ):
        bad: Flags = np.any(values.reshape(len(values), -1), axis=1)
        if bad.any():
            raise refuse(defect, f"{name} hold {what} in {describe_rows(bad)}")
    raise AssertionError("what is not finite is NaN or infinite")


def _lost_precision(given: Array, converted: Floats) -> Iterator[str]:
    """Note observations of which float32 keeps less than three digits of the changes, by a sample."""
    if given.dtype == np.float32 or len(given) < 2:
        return
    some = slice(None, None, max(1, len(given) // 10_000))
    exact = given[some].astype(np.float64)
    lost = np.abs(exact - converted[some]).max(0) / np.maximum(exact.std(0), 1e-300)
    for column in np.flatnonzero((lost > 1e-3) & (np.ptp(exact, axis=0) > 0)):
        yield note(
            "lost-precision",
            f"Observations column {column} holds numbers near {exact[0, column]:.4g} that differ by "
            f"about {exact[:, column].std():.2g}; float32 rounds away {min(lost[column], 1):.1%} of that",
        )


def as_flags(name: str, column: Array) -> Flags:
    """A column of 0 and 1, of any numeric type, as booleans."""
    bad = (column != 0) & (column != 1)
    if bad.any():
        found = f"{name} must be 0 or 1, not {column[bad][0]:g} as in {describe_rows(bad)}"
        raise refuse("not-a-flag", found)
    return column.astype(bool)


def mark_ends(
    size: int, flags: Mapping[str, Flags], ids: Array | None = None, lengths: Array | None = None
) -> tuple[Flags, Flags, list[str]]:
    """Terminals and time-outs of `size` rows, and notes, from flags, ids or lengths of episodes."""
    terminal = flags.get("terminals", np.zeros(size, bool)).copy()
    timeout = flags.get("timeouts", np.zeros(size, bool)).copy()
    notes: list[str] = []
    if "dones" in flags:
        notes += _split_dones(flags, terminal, timeout)
    given = [np.append(flags["episode_starts"][1:], True)] if "episode_starts" in flags else []
    given += [] if ids is None else [_id_changes(ids)]
    given += [] if lengths is None else [_ends_from_lengths(size, lengths)]
    if given:
        notes += _add_boundaries(np.logical_or.reduce(given), flags, terminal, timeout)
    return terminal, timeout, notes


def _split_dones(flags: Mapping[str, Flags], terminal: Flags, timeout: Flags) -> list[str]:
    """Divide ends of unknown kind into the two kinds, in place."""
    dones = flags["dones"]
    if "terminals" in flags:
        timeout |= dones & ~terminal
        return []
    if "timeouts" in flags or not dones.any():
        terminal |= dones & ~timeout
        return []
    last = np.flatnonzero(dones)
    lengths = np.diff(last, prepend=-1)
    alike = lengths.min() == lengths.max() > 1
    at_limit = last if alike else last[at_time_limit(lengths)]
    timeout[at_limit] = True
    terminal |= dones & ~timeout
    return [
        "The flag of episode ends does not say of which kind they are: "
        f"{len(at_limit)} of {len(last)}, at the longest length, count as time-outs, the others as terminals. "
        f"To decide yourself, give the flag as terminals or as timeouts ({NAME_COLUMNS} terminals=… or timeouts=…)."
    ]


def at_time_limit(lengths: Rows) -> Flags:
    """Which episodes end at a time limit: those of the longest length, if many share it."""
    most = lengths.max(initial=0)
    longest = lengths == most
    many = most >= LONG and longest.sum() >= max(3, SHARE * len(lengths))
    return longest if many else np.zeros(len(lengths), bool)


def _id_changes(ids: Array) -> Flags:
    if ids.dtype.kind == "O":  # pandas keeps words as objects
        ids = ids.astype(np.str_)
    if ids.dtype.kind not in "fiubUS":
        raise refuse("wrong-shape", f"episode_ids have type {ids.dtype}, not one id per row")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise refuse("nan", f"episode_ids hold NaN in {describe_rows(np.isnan(ids))}")
    last = np.append(ids[1:] != ids[:-1], True)
    begins = np.flatnonzero(np.append(True, last[:-1]))
    _, first = np.unique(ids[begins], return_index=True)
    if len(first) < len(begins):
        row = begins[np.setdiff1d(np.arange(len(begins)), first)[0]]
        what = f"the episode id {ids[row]} comes back in row {row} (counted from 0) after another episode"
        raise refuse("episode-id-comes-back", what)
    return last


def _ends_from_lengths(size: int, lengths: Array) -> Flags:
    wrong = "episode_lengths must be whole numbers from 1 up"
    if lengths.ndim != 1 or lengths.dtype.kind not in "fiu" or len(lengths) == 0:
        found = f"{wrong}, not of shape {lengths.shape} and type {lengths.dtype}"
        raise refuse("lengths-do-not-sum", found)
    bad = ~((lengths >= 1) & (lengths <= size) & (lengths % 1 == 0))
    if bad.any():
        found = f"{wrong} and at most {size}, but number {int(bad.argmax())} is {lengths[bad][0]:g}"
        raise refuse("lengths-do-not-sum", found)
    ends = np.cumsum(lengths.astype(np.int64))
    if ends[-1] != size:
        found = f"episode_lengths add up to {ends[-1]}, but there are {size} rows"
        raise refuse("lengths-do-not-sum", found)
    return np.isin(np.arange(size), ends - 1)


def _add_boundaries(
    bounds: Flags, flags: Mapping[str, Flags], terminal: Flags, timeout: Flags
) -> list[str]:
    """Make every boundary an end: a time-out, unless it is marked as a terminal."""
    notes, inside = [], np.flatnonzero(terminal & ~bounds)
    if len(inside):
        which = count_rows(inside, int(terminal.sum()), "terminals")
        found = f"{which} come before their episode's last row"
        notes.append(note("terminal-inside-episode", found))
    timeout |= bounds & ~terminal
    if not {"terminals", "dones"} & flags.keys():
        notes.append(
            f"No terminals are given: the ends of all {int(bounds.sum())} episodes count as time-outs. "
            "If the environment ended them, add terminals."
        )
    return notes
