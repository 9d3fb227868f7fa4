"""Where episodes end, and how: by flags, by ids, by lengths.

A terminal ends the future, a time-out only the log. A flag called `done` does not say which of the two it is:
rows at the common longest length of many episodes are taken as time-outs, the other ends as terminals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.defects import MAP, note, refuse

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
FLAGS = ("terminals", "timeouts", "dones", "episode_starts")
LONG = 20  # rows: episodes shorter than this may share their longest length by chance
SHARE = 0.1  # of the episodes: as many as this end at the time limit, if there is one


@dataclass(frozen=True)
class Marked:
    """The two kinds of end, and what was taken for them."""

    terminal: Flags
    timeout: Flags
    notes: tuple[str, ...]


def mark_ends(
    size: int,
    flags: Mapping[str, Flags],
    ids: npt.NDArray[Any] | None = None,
    lengths: npt.NDArray[Any] | None = None,
) -> Marked:
    """Terminals and time-outs of `size` rows from whatever marks there are."""
    terminal = flags.get("terminals", np.zeros(size, bool)).copy()
    timeout = flags.get("timeouts", np.zeros(size, bool)).copy()
    notes: list[str] = []
    if "dones" in flags:
        notes += _take_dones(flags, terminal, timeout)
    bounds = _boundaries(size, flags.get("episode_starts"), ids, lengths)
    if bounds is not None:
        notes += _take_boundaries(bounds, flags, terminal, timeout)
    return Marked(terminal, timeout, tuple(notes))


def _take_dones(flags: Mapping[str, Flags], terminal: Flags, timeout: Flags) -> list[str]:
    """Sorts ends of unknown kind into the two kinds, in place."""
    dones = flags["dones"]
    if "terminals" in flags:
        timeout |= dones & ~terminal
        return []
    if "timeouts" in flags:
        terminal |= dones & ~timeout
        return []
    last = np.flatnonzero(dones)
    if not len(last):
        return []
    at_limit = last[_limited(np.diff(last, prepend=-1))]
    timeout[at_limit] = True
    terminal |= dones & ~timeout
    return [_told(len(last), len(at_limit))]


def _told(ends: int, limited: int) -> str:
    if ends == 1:
        what = f"its only one is taken as a {'time-out' if limited else 'terminal'}"
    elif limited == ends:
        what = (
            f"all {ends} episodes that it ends have the same length, so they are taken as time-outs"
        )
    elif limited:
        what = f"{limited} of {ends}, at the longest length, are taken as time-outs, others as terminals"
    else:
        what = f"its {ends} ends are taken as terminals"
    return (
        f"The flag of episode ends does not say of which kind they are: {what}. To say it yourself, give the "
        f"flag as terminals or as timeouts ({MAP} terminals=… or timeouts=…)."
    )


def _limited(lengths: Rows) -> Flags:
    """Which episodes end at a time limit: those of the longest length, if many share it."""
    longest = lengths == lengths.max()
    if longest.all() and lengths[0] > 1:
        return longest
    shared = lengths.max() >= LONG and longest.sum() >= max(3, SHARE * len(lengths))
    return longest if shared else np.zeros(len(lengths), bool)


def at_time_limit(lengths: Rows) -> Flags:
    """Which episodes have a length that looks like a time limit; none where there are fewer than three."""
    return (
        _limited(lengths)
        if len(lengths) > 2 and lengths.max() >= LONG
        else np.zeros(len(lengths), bool)
    )


def _boundaries(
    size: int, starts: Flags | None, ids: npt.NDArray[Any] | None, lengths: npt.NDArray[Any] | None
) -> Flags | None:
    """The last rows of episodes by starts, ids or lengths; None where none of them is given."""
    given = []
    if starts is not None:
        given.append(np.append(starts[1:], True))
    if ids is not None:
        given.append(_changes(ids))
    if lengths is not None:
        given.append(_sums(size, lengths))
    return np.logical_or.reduce(given) if given else None


def _changes(ids: npt.NDArray[Any]) -> Flags:
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.dtype.kind == "O":  # as pandas keeps words
        ids = ids.astype(np.str_)
    if ids.ndim != 1 or ids.dtype.kind not in "fiubUS":
        raise refuse(
            "wrong-shape",
            f"episode_ids have shape {ids.shape} and type {ids.dtype}, not one id a row",
        )
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise refuse(
            "nan", f"episode_ids hold NaN in row {int(np.isnan(ids).argmax())} (counted from 0)"
        )
    last = np.append(ids[1:] != ids[:-1], True)
    begins = np.flatnonzero(np.append(True, last[:-1]))
    _, first = np.unique(ids[begins], return_index=True)
    if len(first) < len(begins):
        again = begins[np.setdiff1d(np.arange(len(begins)), first)[0]]
        raise refuse(
            "episode-id-comes-back",
            f"the episode id {ids[again]} comes back in row {again} (counted from 0) after another episode",
        )
    return last


def _sums(size: int, lengths: npt.NDArray[Any]) -> Flags:
    wrong = "episode_lengths must be whole numbers from 1 up"
    if lengths.ndim != 1 or lengths.dtype.kind not in "fiu" or len(lengths) == 0:
        raise refuse(
            "lengths-do-not-sum", f"{wrong}, not of shape {lengths.shape} and type {lengths.dtype}"
        )
    bad = ~((lengths >= 1) & (lengths <= size) & (lengths % 1 == 0))
    if bad.any():
        raise refuse(
            "lengths-do-not-sum",
            f"{wrong} and at most {size}, but number {int(bad.argmax())} is {lengths[bad][0]:g}",
        )
    ends = np.cumsum(lengths.astype(np.int64))
    if ends[-1] != size:
        raise refuse(
            "lengths-do-not-sum", f"episode_lengths add up to {ends[-1]}, but there are {size} rows"
        )
    return np.isin(np.arange(size), ends - 1)


def _take_boundaries(
    bounds: Flags, flags: Mapping[str, Flags], terminal: Flags, timeout: Flags
) -> list[str]:
    """Makes every boundary an end: a time-out, unless it is marked as a terminal."""
    notes, inside = [], terminal & ~bounds
    if inside.any():
        first = int(inside.argmax())
        found = f"{int(inside.sum())} terminals (first: row {first}) come before their episode's last row"
        notes.append(note("terminal-inside-episode", found))
    timeout |= bounds & ~terminal
    if not {"terminals", "dones"} & flags.keys():
        notes.append(
            f"No terminals are given: the ends of all {int(bounds.sum())} episodes are taken as time-outs. "
            "If the world ended them, add terminals."
        )
    return notes
