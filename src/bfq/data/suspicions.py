"""Data that is allowed but looks wrong: each suspicion is a note, shown when the data is used.

Next observations must also be those that followed: inside an episode, the observation of the row below.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bfq.data.checks import Logged, at_time_limit, blocks
from bfq.data.dataset import Flags, Floats
from bfq.data.defects import count_rows, note, refuse

MOST = 0.9  # of the informative rows: enough to say what a column is
SAME = 1e-3  # of the spread of a column: values closer than this differ by rounding only
STEADY = 0.99  # of the steps: rewards that go one way as often as this may be sums
FAR = {"observations": 1000.0, "rewards": 1000.0, "actions": 20.0}  # times the others' spread
MOST_NAMES = 20  # in a sentence
RARE = 10_000  # one row in so many may be an outlier; more frequent values belong to the data
NARROW = 0.1  # of the range


def check_succession(log: Logged) -> Iterator[str]:
    """Refuse next observations of another row; note those that differ from the row below."""
    now, following = log.observations, log.next_observations
    if following is None or len(log) < 2:
        return
    # Only rows where the observation changes are informative: a constant one equals all rows around it.
    moves = ~_equal(now[1:], now[:-1])
    follows, inside = _equal(following[:-1], now[1:]), ~log.ends[:-1]
    if not _mostly(follows, moves & inside):
        _refuse_other_rows(log, following, moves)
    if not follows[inside].all():
        sample = now[:: max(1, len(now) // 10_000)]
        slack = SAME * sample.std(0) + 1e-6 * np.abs(sample).max(0)
        broken = np.flatnonzero(inside & ~_equal(following[:-1], now[1:], slack))
        if len(broken):
            which = count_rows(broken, int(inside.sum()), "rows inside episodes")
            found = f"In {which} the next observation is not that of the row below"
            yield note("rows-not-in-order", found)
    yield from _crossings(log, now, following)


def _refuse_other_rows(log: Logged, following: Floats, moves: Flags) -> None:
    """Refuse next observations that are those of the same row, the row before or two further on."""
    now = log.observations
    informative = np.append(moves, bool(moves.any()))
    informative[log.last] |= bool(moves.any())  # in a shuffled log every row may be an end
    informative &= ~log.terminal  # nothing follows a terminal, so any value is allowed there
    inside = moves & ~log.ends[:-1]
    both = inside[1:] & inside[:-1]
    for defect, which, first, same, some in (
        ("next-not-shifted", "same row", 0, _equal(following, now), informative),
        ("next-shifted-wrongly", "row before", 1, _equal(following[1:-1], now[:-2]), both),
        ("next-shifted-wrongly", "row two further on", 0, _equal(following[:-2], now[2:]), both),
    ):
        if _mostly(same, some):
            raise refuse(
                defect,
                f"next_observations are the observations of the {which} in {same[some].mean():.0%} of the rows "
                f"where these change (first: row {int((same & some).argmax()) + first}, counted from 0)",
            )


def _mostly(found: Flags, informative: Flags) -> bool:
    return bool(informative.any()) and bool(found[informative].mean() >= MOST)


def _crossings(log: Logged, now: Floats, following: Floats) -> Iterator[str]:
    """Time-outs followed by the first observation of the next episode: a log shifted as a whole."""
    cut = log.last[:-1][~log.terminal[log.last[:-1]]]
    if len(cut) < 2:
        return
    crossing = _equal(following[cut], now[cut + 1]) & ~_equal(now[cut], now[cut + 1])
    if crossing.mean() >= MOST:
        which = count_rows(cut[crossing], len(cut), "time-outs")
        found = f"After {which} the next observation is the first of the next episode"
        yield note("next-from-another-episode", found)


def _equal(one: Floats, other: Floats, slack: npt.ArrayLike = 0.0) -> Flags:
    """Which rows agree in every number, up to `slack`."""
    near = [(np.abs(one[block] - other[block]) <= slack).all(1) for block in blocks(len(one))]
    return np.concatenate([np.zeros(0, bool), *near])


def _copies(log: Logged) -> Iterator[str]:
    """Rows that repeat an earlier one, together with the row before or after them.

    A robot at rest repeats its last row many times; only stretches of equal length are copies.
    """
    _, first, which_key = np.unique(row_keys(log), return_index=True, return_inverse=True)
    distance = np.arange(len(log)) - first[which_key]
    together = (distance[1:] > 0) & (distance[1:] == distance[:-1])
    copied = np.append(together, False) | np.append(False, together)
    if copied.mean() >= 0.2:
        which = count_rows(np.flatnonzero(copied), len(log), "rows")
        yield note("copied-rows", f"{which} repeat an earlier stretch of rows exactly")


def row_keys(log: Logged) -> npt.NDArray[np.uint64]:
    """A hash of each row: Σ w_j x_j over its bits x, modulo 2⁶⁴."""
    parts = [log.observations, log.actions, log.rewards[:, None]]
    if log.next_observations is not None:
        parts.append(log.next_observations)
    rng = np.random.default_rng(0)
    weights = [rng.integers(1, 2**63, part.shape[1], dtype=np.uint64) * 2 + 1 for part in parts]
    keys = np.zeros(len(log), np.uint64)
    for part, weight in zip(parts, weights, strict=True):
        for block in blocks(len(log)):
            bits = np.ascontiguousarray(part[block]).view(np.uint32).astype(np.uint64)
            keys[block] += bits @ weight
    return keys


def find_suspicions(log: Logged, left_out: int) -> Iterator[str]:
    """Note every suspicion; `left_out` is the number of rows without a next observation."""
    if left_out:
        yield note(
            "unseen-successor",
            f"left out {left_out} of {len(log)} rows, which end an episode by time-out, because the "
            "observation after them was not logged",
        )
    for check in (
        _flags, _lengths, _constant, _counters, _returns, _outliers, _actions, _copies
    ):  # fmt: skip
        yield from check(log)


def _flags(log: Logged) -> Iterator[str]:
    if not (log.terminal | log.timeout).any():
        yield note("no-end-marked", "No episode end is marked, so all rows count as one episode")
    if len(log) > 1 and log.terminal.mean() > 0.5:
        which = count_rows(np.flatnonzero(log.terminal), len(log), "rows")
        yield note("terminals-everywhere", f"{which} are terminal")
    both, timeouts = np.flatnonzero(log.terminal & log.timeout), int(log.timeout.sum())
    if len(both) and len(both) >= 0.5 * timeouts:
        which = count_rows(both, timeouts, "time-outs")
        yield note("both-flags", f"{which} are marked as terminals too")


def _lengths(log: Logged) -> Iterator[str]:
    single = log.lengths[:-1] == 1  # the last episode may merely have begun
    if single.sum() > 0.01 * len(single) and log.terminal.mean() <= 0.5:  # else already noted
        which = count_rows(log.last[:-1][single], len(log.lengths), "episodes")
        yield note("one-row-episodes", f"{which} have a single row")
    last = log.last[(log.terminal | log.timeout)[log.last]]
    lengths = np.diff(last, prepend=-1)
    limited = last[at_time_limit(lengths)]
    if len(limited) and (log.terminal & ~log.timeout)[limited].all():
        which = count_rows(limited, len(last), "episodes")
        found = f"{which} end in a terminal after exactly {lengths.max()} rows"
        yield note("terminals-at-time-limit", found)


def _constant(log: Logged) -> Iterator[str]:
    if len(log) < 2:
        return
    for name, values in (("observations", log.observations), ("actions", log.actions)):
        constant = np.flatnonzero(values.min(0) == values.max(0))
        if len(constant):
            runs = np.split(constant, np.flatnonzero(np.diff(constant) > 1) + 1)
            listed = ", ".join(
                f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs
            )
            if log.labels:
                listed = ", ".join(log.name(name, column) for column in constant[:MOST_NAMES])
            found = f"Constant {name} columns ({listed}), which carry no information"
            yield note(f"constant-{name}", found)
    if (log.rewards == log.rewards[0]).all():
        yield note("constant-rewards", f"All rewards are {log.rewards[0]:g}")


def _counters(log: Logged) -> Iterator[str]:
    """Columns that grow by the same step in every row and restart in every episode."""
    begins = np.append(0, log.last[:-1] + 1)
    if len(begins) < 2 or len(log) < 4 * len(begins):
        return
    inside = np.flatnonzero(~log.ends[:-1])
    sample = inside[:: max(1, len(inside) // 10_000)]
    steps = log.observations[sample + 1] - log.observations[sample]
    first = log.observations[begins]
    rounding = 1e-5 * np.abs(log.observations[sample + 1]).max(0)
    counts = (
        (np.ptp(steps, axis=0) <= rounding)
        & (np.abs(steps[0]) > 2 * rounding)
        & (np.ptp(first, axis=0) <= rounding)
    )
    for column in np.flatnonzero(counts):
        yield note(
            "step-counter",
            f"In every row, {log.name('observations', int(column))} grows by {steps[0, column]:.4g}, and it begins "
            f"at {first[0, column]:.4g} in every episode",
        )


def _returns(log: Logged) -> Iterator[str]:
    """Rewards that only rise or fall within episodes, from (or to) the size of a single step."""
    long = np.flatnonzero(log.lengths >= 10)
    inside = ~log.ends[:-1]
    if len(long) < 2 or inside.sum() < 0.9 * len(log):
        return
    steps = np.diff(log.rewards)
    walked = steps[inside]
    up, down = (walked >= 0).mean(), (walked <= 0).mean()
    if max(up, down) < STEADY or (walked == 0).mean() > 0.5:
        return
    last = log.last[long]
    first, final = np.abs(log.rewards[last - log.lengths[long] + 1]), np.abs(log.rewards[last])
    size = 5 * np.median(np.abs(walked))  # of a single step's reward
    for begin, end, kind in (
        (first, final, "sums of rewards so far"),
        (final, first, "returns still to come"),
    ):
        if (begin <= size).mean() >= 0.9 and np.median(end) > 2 * size:
            yield note(
                "rewards-are-returns",
                f"Rewards {'rise' if up >= down else 'fall'} steadily within episodes (as from row "
                f"{last[0] - log.lengths[long][0] + 1} on), like {kind}",
            )
            return


def _outliers(log: Logged) -> Iterator[str]:
    for name, times in FAR.items():
        values = getattr(log, name).reshape(len(log), -1)
        for column in _wide(values, times):
            found = _far(values[:, column], times)
            if found is not None:
                where = name if name == "rewards" else log.name(name, column)
                yield note(
                    "outlier",
                    f"The value {values[found, column]:.4g} of {where} in row {found} is farther from all "
                    f"others than {times:g} times their spread",
                )


def _wide(values: Floats, times: float) -> npt.NDArray[np.intp]:
    """The columns that may hold an outlier, by a sample: sorting every column is slow."""
    if len(values) < 10:
        return np.zeros(0, np.intp)
    sample = values[:: max(1, len(values) // 10_000)]
    spread = np.ptp(np.quantile(sample, (0.01, 0.99), axis=0), axis=0)
    return np.flatnonzero(values.max(0) - values.min(0) > times * spread)


def _far(values: Floats, times: float) -> int | None:
    """The row of the farthest value, if it is far beyond all but a few others."""
    few = -(-len(values) // RARE)
    middle = np.partition(values, (few, len(values) - 1 - few)).astype(np.float64)
    least, most = middle[few], middle[-1 - few]
    below, above = least - values.min(), values.max() - most
    if least == most or max(below, above) <= times * (most - least):
        return None
    return int(values.argmin() if below > above else values.argmax())


def _actions(log: Logged) -> Iterator[str]:
    low, high = log.actions.min(0), log.actions.max(0)
    share = ((high - low) / (log.action_high - log.action_low)).max()
    if 0 < share < NARROW:
        yield note(
            "narrow-actions",
            f"All actions lie between {low.min():.4g} and {high.max():.4g}, {share:.1%} of their range of "
            f"{log.action_low.min():.4g} to {log.action_high.max():.4g}",
        )
    whole = log.actions.shape[1] == 1 and bool((log.actions % 1 == 0).all())
    if whole and high[0] > low[0] >= 0:
        yield note("discrete-actions", f"Actions are whole numbers from {low[0]:g} to {high[0]:g}")
