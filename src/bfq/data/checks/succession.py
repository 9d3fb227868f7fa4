"""Whether next observations are what followed: inside an episode, the observation of the row below."""

from collections.abc import Iterator

import numpy as np

from bfq.data.checks.defects import note, refuse
from bfq.data.checks.logged import Flags, Floats, Logged, blocks

MOST = 0.9  # of the rows that can tell: enough to say what a column is
ROUNDING = 1e-3  # of a column's spread: less than this apart is the same value, rounded otherwise


def check_succession(log: Logged) -> Iterator[str]:
    """Refuses next observations that are those of another row; tells where they do not fit the row below."""
    now, then = log.observations, log.next_observations
    if then is None or len(log) < 2:
        return
    # Only rows where the observation moves can tell: one that stands still equals every row around it.
    moves = ~_equal(now[1:], now[:-1])
    follows, inside = _equal(then[:-1], now[1:]), ~log.ends[:-1]
    if not _mostly(follows, moves & inside):
        _refuse_same_row(log, _equal(then, now), moves)
        _refuse_other_row(then, now, moves & inside)
    if not follows[inside].all():
        yield from _breaks(log, _near(now, then))
    yield from _crossings(log, now, then)


def _refuse_same_row(log: Logged, same: Flags, moves: Flags) -> None:
    telling = np.append(moves, bool(moves.any()))
    telling[log.last] |= bool(moves.any())  # in a shuffled log every row may be an end
    telling &= ~log.terminal  # where nothing follows, anything may be written
    if _mostly(same, telling):
        raise refuse(
            "next-not-shifted",
            f"next_observations are the same row's observations in {same[telling].mean():.0%} of the rows "
            f"where these change (the first is row {int((same & telling).argmax())}, counted from 0)",
        )


def _refuse_other_row(then: Floats, now: Floats, moves: Flags) -> None:
    both = moves[1:] & moves[:-1]
    if _mostly(_equal(then[1:-1], now[:-2]), both):
        raise refuse("next-shifted-wrongly", _shifted("before", int(both.argmax()) + 1))
    if _mostly(_equal(then[:-2], now[2:]), both):
        raise refuse("next-shifted-wrongly", _shifted("two further on", int(both.argmax())))


def _shifted(where: str, first: int) -> str:
    return f"next_observations are the observations of the row {where} (as in row {first}, counted from 0)"


def _mostly(found: Flags, telling: Flags) -> bool:
    return bool(telling.any()) and bool(found[telling].mean() >= MOST)


def _breaks(log: Logged, follows: Flags) -> Iterator[str]:
    broken = ~follows & ~log.ends[:-1]
    if broken.any():
        yield note(
            "rows-not-in-order",
            f"In {int(broken.sum()):,} of {int((~log.ends).sum()):,} rows inside episodes (the first is row "
            f"{int(broken.argmax())}) the next observation is not that of the row below",
        )


def _crossings(log: Logged, now: Floats, then: Floats) -> Iterator[str]:
    """Time-outs whose next observation is the first of the next episode: a log shifted as one piece."""
    cut = log.last[:-1][~log.terminal[log.last[:-1]]]
    if len(cut) < 2:
        return
    crossing = _equal(then[cut], now[cut + 1]) & ~_equal(now[cut], now[cut + 1])
    if crossing.mean() >= MOST:
        yield note(
            "next-from-another-episode",
            f"After {int(crossing.sum()):,} of {len(cut):,} time-outs (first: row {cut[crossing][0]}) the "
            "next observation is the first of the next episode",
        )


def _equal(one: Floats, other: Floats) -> Flags:
    """Which rows are the same in every number."""
    return np.concatenate(
        [(one[block] == other[block]).all(1) for block in blocks(len(one))] or [np.zeros(0, bool)]
    )


def _near(now: Floats, then: Floats) -> Flags:
    """Which rows' next observation is the observation of the row below, up to rounding."""
    sample = now[:: max(1, len(now) // 10_000)]
    slack = ROUNDING * sample.std(0) + 1e-6 * np.abs(sample).max(0)
    near = [
        (np.abs(then[block] - now[1:][block]) <= slack).all(1) for block in blocks(len(now) - 1)
    ]
    return np.concatenate(near)
