"""A log that has been checked: what datasets are built from and what suspicions are raised on.

The range of the actions: as it is given, or as far as the data tells.

What cannot be learned from: each defect of logged arrays is refused, with the row and the remedy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.defects import note, refuse
from bfq.data.episodes import FLAGS, Flags, Rows, mark_ends
from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
BLOCK = 1 << 16  # rows worked on at a time, so that checks need little memory beside the data


@dataclass(frozen=True)
class Logged:
    """Rows in the order they were logged, in float32, with flags that are flags."""

    observations: Floats  # (N, s)
    actions: Floats  # (N, a), inside their range
    rewards: Floats  # (N,)
    next_observations: Floats | None  # (N, s)
    terminal: Flags  # (N,)
    timeout: Flags  # (N,)
    action_low: Floats  # (a,)
    action_high: Floats  # (a,)

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def ends(self) -> Flags:
        """The last row of each episode; the last row of all ends one in any case."""
        ends = self.terminal | self.timeout
        ends[-1] = True
        return ends

    @cached_property
    def last(self) -> Rows:
        """The number of each episode's last row."""
        return np.flatnonzero(self.ends)

    @cached_property
    def lengths(self) -> Rows:
        """The number of rows of each episode."""
        return np.diff(self.last, prepend=-1)


def blocks(size: int) -> Iterator[slice]:
    """All rows, a block at a time."""
    for begin in range(0, size, BLOCK):
        yield slice(begin, min(begin + BLOCK, size))


def row(which: Flags) -> str:
    """The first row of some, and how many there are in all."""
    count = int(which.sum())
    return f"row {int(which.argmax())} ({count:,} row{'s' * (count > 1)} in all, counted from 0)"


BOUNDS = ("action_low", "action_high")
ROUNDING = 1e-4  # of the range: what rounding may add beyond a bound
USED = 0.1  # of ±1: data that stays closer to 0 than this has another range
EVEN = 0.8  # bounds whose sizes differ by less than this factor are meant to be the same
MOST = 6  # ranges that a sentence tells


def bounds(low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> tuple[Floats, Floats]:
    """The given bounds, one number for each action dimension."""
    try:
        lows, highs = (np.asarray(x).astype(np.float32, casting="same_kind") for x in (low, high))
    except (TypeError, ValueError) as error:
        raise BadInput(f"action_low and action_high must be numbers: {error}.") from error
    for name, bound in (("action_low", lows), ("action_high", highs)):
        if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != width):
            held = f"is of shape {bound.shape}" if bound.ndim > 1 else f"has {_count(len(bound))}"
            raise BadInput(
                f"{name} {held}, but an action has {_count(width)}: give one number for all of them, or "
                "one for each."
            )
    lows, highs = np.broadcast_to(lows, (width,)).copy(), np.broadcast_to(highs, (width,)).copy()
    if not (np.isfinite(lows) & np.isfinite(highs) & (lows < highs)).all():
        raise BadInput("action_low must be below action_high in every dimension, and both finite.")
    return lows, highs


def from_data(actions: npt.NDArray[Any]) -> tuple[Floats, Floats, str]:
    """A range that holds all actions, and a sentence about it unless it is the usual one.

    ±1 where the actions fit and use both sides of it. Otherwise the least and greatest of each dimension,
    rounded outward to two figures, and the same on both sides where they nearly are.
    """
    low, high = actions.min(0).astype(np.float64), actions.max(0).astype(np.float64)
    most = float(np.maximum(-low, high).max())
    if USED <= most <= 1.0 + 2 * ROUNDING and low.min() < 0.0 < high.max():
        return np.full(len(low), -1.0, np.float32), np.full(len(low), 1.0, np.float32), ""
    pairs = [_rounded(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    lows, highs = (bound.copy() for bound in np.array(pairs, np.float32).T)
    return lows, highs, _sentence(actions, lows, highs, BOUNDS)


def completed(
    actions: npt.NDArray[Any], action_low: npt.ArrayLike | None, action_high: npt.ArrayLike | None
) -> tuple[Floats, Floats, str]:
    """The range with what was not given of it taken from the data, which a sentence then tells."""
    low, high, told = from_data(actions)
    if action_low is None and action_high is None:
        return low, high, told
    missing = "action_low" if action_low is None else "action_high"
    low, high = bounds(
        low if action_low is None else action_low,
        high if action_high is None else action_high,
        actions.shape[1],
    )
    return low, high, _sentence(actions, low, high, [missing])


def _count(numbers: int) -> str:
    return f"{numbers} number{'s' * (numbers != 1)}"


def _rounded(low: float, high: float) -> tuple[float, float]:
    if low == high:
        return low - 1.0, high + 1.0  # a dimension that never moved tells nothing about its range
    if min(-low, high) >= EVEN * max(-low, high):
        high = max(-low, high)
        low = -high
    figures = 1 - int(np.floor(np.log10(high - low)))  # decimals that keep two figures of the range
    step = 10.0**-figures
    slack = ROUNDING * (high - low) / step
    return round(np.floor(low / step + slack) * step, figures), round(
        np.ceil(high / step - slack) * step, figures
    )


def _sentence(actions: npt.NDArray[Any], low: Floats, high: Floats, missing: Sequence[str]) -> str:
    """What was not given, what the actions reach, and what the range is now."""
    lacking = "The range of the actions" if len(missing) > 1 else f"The {missing[0]} of the actions"
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
    return (
        f"{lacking} was not given. They reach from {actions.min():.4g} to {actions.max():.4g}, so the range "
        f"was taken as {_ranges(low, high)}. To give the true one: {flags} of bfq data import (in Python, "
        f"{' and '.join(missing)})."
    )


def _ranges(low: Floats, high: Floats) -> str:
    """Each range once, with the numbers of the action it is for where there are several."""
    numbers: dict[str, list[int]] = {}
    for k, (a, b) in enumerate(zip(low, high, strict=True)):
        numbers.setdefault(f"{a:g} to {b:g}", []).append(k)
    if len(numbers) == 1:
        return next(iter(numbers))
    told = [f"{span} for {_which(where)}" for span, where in list(numbers.items())[:MOST]]
    more = ", and others for the rest" if len(numbers) > MOST else ""
    return f"{', '.join(told)}{more} (numbers of an action, counted from 0)"


def _which(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(last)]))


Array = npt.NDArray[Any]
NEEDED = ("observations", "actions", "rewards")
MATRICES = ("observations", "actions", "next_observations")
TOLERANCE = ROUNDING  # of the action range: what may lie beyond a bound and is clipped


def check(
    columns: Mapping[str, npt.ArrayLike | None],
    action_low: npt.ArrayLike,
    action_high: npt.ArrayLike,
) -> tuple[Logged, tuple[str, ...]]:
    """The columns as a checked log with what there is to say about it, or a sentence on the first defect."""
    for name in NEEDED:
        if columns.get(name) is None:
            raise refuse("missing-column", f"{name} are missing")
    arrays = {
        name: as_array(name, column) for name, column in columns.items() if column is not None
    }
    lengths, ids = arrays.pop("episode_lengths", None), arrays.pop("episode_ids", None)
    shaped = {name: _shaped(name, _kind(name, column)) for name, column in arrays.items()}
    _same_lengths(shaped if ids is None else {**shaped, "episode_ids": ids})
    checked = {name: _float32(name, column) for name, column in shaped.items() if name not in FLAGS}
    flags = {name: _flags(name, column) for name, column in shaped.items() if name in FLAGS}
    after = checked.get("next_observations")
    if after is not None:
        _same_widths(checked["observations"], after)
    elif not flags and ids is None and lengths is None:
        raise refuse("no-episode-end", "no episode end is given")
    marked = mark_ends(len(checked["rewards"]), flags, ids, lengths)
    low, high = bounds(action_low, action_high, checked["actions"].shape[1])
    log = Logged(
        checked["observations"], _inside(checked["actions"], low, high), checked["rewards"], after,
        marked.terminal, marked.timeout, low, high,
    )  # fmt: skip
    return log, (*marked.notes, *_lost("observations", shaped["observations"], log.observations))


def as_array(name: str, column: npt.ArrayLike) -> Array:
    """The column as an array, if it is one: not masked, not ragged."""
    if isinstance(column, np.ma.MaskedArray):
        raise refuse("masked-array", f"{name} are a masked array, whose mask would be lost")
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise _ragged(name, column) or refuse(
            "not-numbers", f"{name} are no array ({error})"
        ) from error
    if array.dtype.kind == "O" and array.ndim == 1:
        found = _ragged(name, array)
        if found:
            raise found
    return array


def _ragged(name: str, column: Any) -> Exception | None:
    widths = np.array([len(value) if hasattr(value, "__len__") else -1 for value in column])
    other = widths != widths[:1]
    if isinstance(column[0], str | bytes) or not other.any():
        return None
    first = int(other.argmax())
    return refuse(
        "mixed-widths",
        f"{name} have {_values(widths[0])} in row 0 but {_values(widths[first])} in {row(other)}",
    )


def _values(width: int) -> str:
    return "a single number" if width < 0 else f"{width} values"


def _kind(name: str, column: Array) -> Array:
    if column.dtype.kind in "fiub":
        return column
    if column.dtype.kind == "c":
        raise refuse(
            "complex-numbers",
            f"{name} hold values of type {column.dtype}, which are not numbers on a line",
        )
    if column.dtype.kind in "US" and column.size:
        at = _first_word(column)
        where = at // max(column.size // column.shape[0], 1) if column.ndim else 0
        word = str(column.flat[at])[:30]
        raise refuse(
            "text",
            f"{name} hold text, not numbers, such as {word!r} in row {where} (counted from 0)",
        )
    raise refuse("not-numbers", f"{name} hold values of type {column.dtype}, not numbers")


def _first_word(column: Array) -> int:
    """Where the first text stands that is no number; the very first where all could be."""
    for at, value in enumerate(column.flat):
        try:
            float(value)
        except ValueError:
            return at
    return 0


def _shaped(name: str, column: Array) -> Array:
    shape = f"{name} have shape {column.shape}"
    if name in MATRICES:
        if column.ndim == 1 and name == "actions":
            return column[:, None]
        if column.ndim > 2:
            raise refuse("images", f"{shape}, but one row a transition is needed, (N, dimension)")
        if column.ndim != 2 or column.shape[1] == 0:
            raise refuse(
                "wrong-shape", f"{shape}, but one row a transition is needed, (N, dimension)"
            )
        return column
    if column.ndim == 2 and column.shape[1] == 1:
        return column[:, 0]
    if column.ndim != 1:
        raise refuse("wrong-shape", f"{shape}, but one number a transition is needed, (N,)")
    return column


def _same_lengths(columns: Mapping[str, Array]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise refuse("different-lengths", f"the columns differ in length ({told})")
    if lengths["rewards"] == 0:
        raise refuse("no-rows", "there is no transition in it")


def _float32(name: str, column: Array) -> Floats:
    """The column in float32, where every value fits and is finite."""
    with np.errstate(over="ignore"):
        converted = column.astype(np.float32)
    finite = np.concatenate([_finite(converted[block]) for block in blocks(len(converted))])
    if finite.all():
        return converted
    for defect, what, rows in (
        ("nan", "NaN", np.isnan(column)),
        ("infinite", "an infinite value", np.isinf(column)),
        (
            "beyond-float32",
            "a value too large for float32 (it would become infinite)",
            np.isinf(converted),
        ),
    ):
        bad: Flags = np.any(rows.reshape(len(rows), -1), axis=1)
        if bad.any():
            raise refuse(defect, f"{name} hold {what} in {row(bad)}")
    raise AssertionError("what is not finite is NaN or infinite")


def _lost(name: str, given: Array, converted: Floats) -> Iterator[str]:
    """Columns of which float32 keeps less than three figures of the changes; told by a sample."""
    if given.dtype == np.float32 or len(given) < 2:
        return
    some = slice(None, None, max(1, len(given) // 10_000))
    exact = given[some].astype(np.float64)
    lost = np.abs(exact - converted[some]).max(0) / np.maximum(exact.std(0), 1e-300)
    for column in np.flatnonzero((lost > 1e-3) & (np.ptp(exact, axis=0) > 0)):
        yield note(
            "lost-precision",
            f"{name.capitalize()} column {column} holds numbers near {exact[0, column]:.4g} that differ by "
            f"about {exact[:, column].std():.2g}, of which float32 rounds away {min(lost[column], 1):.1%}",
        )


def _finite(values: Floats) -> Flags:
    finite: Flags = np.all(np.isfinite(values).reshape(len(values), -1), axis=1)
    return finite


def _flags(name: str, column: Array) -> Flags:
    bad = (column != 0) & (column != 1)
    if bad.any():
        value = column[int(bad.argmax())]
        raise refuse("not-a-flag", f"{name} must be 0 or 1, but hold {value:g} in {row(bad)}")
    return column.astype(bool)


def _same_widths(now: Floats, then: Floats) -> None:
    if now.shape[1] != then.shape[1]:
        raise refuse(
            "mixed-widths",
            f"observations have {now.shape[1]} numbers a row but next_observations have {then.shape[1]}",
        )


def _inside(actions: Floats, low: Floats, high: Floats) -> Floats:
    slack = TOLERANCE * (high - low)
    outside: Flags = np.any((actions < low - slack) | (actions > high + slack), axis=1)
    if outside.any():
        raise refuse(
            "action-beyond-range",
            f"actions leave their range in {row(outside)}, for they span {actions.min():.4g} to "
            f"{actions.max():.4g} and the range is {low.min():.4g} to {high.max():.4g}",
        )
    return np.clip(actions, low, high)
