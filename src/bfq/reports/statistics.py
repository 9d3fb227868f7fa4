"""Statistics over seeds and their text: a seed is the unit, never an episode."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

Array = npt.NDArray[np.float64]
Values = Sequence[float] | Array
Scores = Mapping[str, Values]  # of one method: the seeds of each task
Statistic = Callable[[Array], float]
LEVEL = 0.95  # of every interval
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # the quantiles at its ends
ABSENT = "–"


class Interval(NamedTuple):
    """Two ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one number over seeds."""

    mean: float
    std: float  # over seeds, with n − 1 in the denominator; 0 for one seed
    n: int
    interval: Interval | None  # of the mean, 95%; None for one seed


class Estimate(NamedTuple):
    """A number over tasks."""

    value: float
    interval: Interval | None  # None if a task has only one seed


class Profile(NamedTuple):
    """The share of runs above each threshold."""

    thresholds: Array
    share: Array
    band: tuple[Array, Array] | None  # pointwise; None if a task has only one seed


def summarize(values: Values) -> Summary:
    """The mean over seeds with its Student-t interval: x̄ ± t_{n−1, 0.975} s / √n."""
    x = _array(values)
    mean, n = float(x.mean()), len(x)
    if n == 1:
        return Summary(mean, 0.0, 1, None)
    std = float(x.std(ddof=1))
    half = float(stdtrit(n - 1, TAILS[1])) * std / n**0.5
    return Summary(mean, std, n, Interval(mean - half, mean + half))


def interquartile_mean(values: Values) -> float:
    """The mean without the lowest and the highest ⌊n/4⌋ values."""
    x = np.sort(_array(values))
    cut = len(x) // 4
    return float(x[cut : len(x) - cut].mean())


def stratified_bootstrap(
    groups: Sequence[Values],
    statistic: Statistic = interquartile_mean,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic of all values, resampled within each group."""
    random = np.random.default_rng(seed)
    strata = [_array(group) for group in groups]
    draws = np.concatenate([random.choice(x, (resamples, len(x))) for x in strata], axis=1)
    low, high = np.quantile([statistic(draw) for draw in draws], TAILS)
    return Interval(float(low), float(high))


def pooled_interquartile_mean(scores: Scores) -> Estimate:
    """The interquartile mean of the seeds of all tasks, with its stratified bootstrap interval.

    The interval is too narrow for a handful of seeds of a single task.
    """
    tasks = _tasks(scores)
    value = interquartile_mean(np.concatenate(tasks))
    return Estimate(value, stratified_bootstrap(tasks) if _spreads(tasks) else None)


def mean_over_tasks(scores: Scores) -> Estimate:
    """The mean of the tasks' means with its interval; for one task it equals `summarize`.

    Tasks differ in their spread, so the variances s²/n add up and Student's t has Welch and
    Satterthwaite's degrees of freedom. Bootstrap intervals are too narrow for a handful of seeds.
    """
    tasks = _tasks(scores)
    mean = float(np.mean([x.mean() for x in tasks]))
    if not _spreads(tasks):
        return Estimate(mean, None)
    n = np.array([len(x) for x in tasks])
    variance = np.array([x.var(ddof=1) for x in tasks]) / n
    total = variance.sum()
    if total == 0:
        return Estimate(mean, Interval(mean, mean))
    freedom = 1 / np.sum((variance / total) ** 2 / (n - 1))
    half = float(stdtrit(freedom, TAILS[1]) * np.sqrt(total)) / len(tasks)
    return Estimate(mean, Interval(mean - half, mean + half))


def performance_profile(
    scores: Scores, thresholds: Values, resamples: int = 2000, seed: int = 0
) -> Profile:
    """The share of runs above τ with equal weight per task: mean over tasks of the mean of 1[x > τ].

    The band is pointwise, and too narrow for a handful of seeds of a single task.
    """
    tau = _array(thresholds)
    tasks = _tasks(scores)
    above = [np.greater.outer(x, tau).astype(np.float64) for x in tasks]
    share = np.mean([runs.mean(0) for runs in above], axis=0)
    if not _spreads(tasks):
        return Profile(tau, share, None)
    random = np.random.default_rng(seed)
    draws = sum(_counts(random, len(runs), resamples) @ runs / len(runs) for runs in above)
    low, high = np.quantile(draws / len(above), TAILS, axis=0)
    return Profile(tau, share, (low, high))


def probability_of_improvement(
    ours: Scores, theirs: Scores, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 for a run X of ours and a run Y of theirs, mean over tasks.

    On one task it is Mann and Whitney's U / (n m). Both methods' seeds are resampled within each task.
    """
    if alone := set(ours) ^ set(theirs):
        raise ValueError(f"only one method has scores on {', '.join(sorted(alone))}.")
    pairs = list(zip(_tasks(ours), _tasks({task: theirs[task] for task in ours}), strict=True))
    wins = [(np.sign(np.subtract.outer(x, y)) + 1) / 2 for x, y in pairs]  # 1, or ½ for a tie, or 0
    value = float(np.mean([won.mean() for won in wins]))
    if not all(_spreads(pair) for pair in pairs):
        return Estimate(value, None)
    random = np.random.default_rng(seed)
    draws = []
    for won in wins:
        ours_drawn, theirs_drawn = (_counts(random, n, resamples) for n in won.shape)
        draws.append(np.sum(ours_drawn @ won * theirs_drawn, axis=1) / won.size)
    low, high = np.quantile(np.mean(draws, axis=0), TAILS)
    return Estimate(value, Interval(float(low), float(high)))


def wilson(successes: int, n: int) -> Interval:
    """Wilson's interval for a success rate; it stays in [0, 1] and has a width at 0 and at 1."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes in {n} trials are impossible.")
    z, rate = float(ndtri(TAILS[1])), successes / n
    center = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    return Interval(max(0.0, center - half), min(1.0, center + half))


def _tasks(scores: Scores) -> list[Array]:
    """The seeds of each task; a missing score is refused, not counted as 0."""
    if not scores:
        raise ValueError("there are no tasks.")
    tasks = [_array(values) for values in scores.values()]
    for name, x in zip(scores, tasks, strict=True):
        if not np.isfinite(x).all():
            raise ValueError(f"{name} has a score that is not a number.")
    return tasks


def _spreads(tasks: Sequence[Array]) -> bool:
    return all(len(x) > 1 for x in tasks)


def _counts(random: np.random.Generator, n: int, resamples: int) -> Array:
    """How often each of n seeds occurs in n draws with replacement, one row per resample.

    Statistics that are linear in the seeds' weights are then matrix products over all resamples.
    """
    return random.multinomial(n, np.full(n, 1 / n), resamples).astype(np.float64)


def _array(values: Values) -> Array:
    x = np.asarray(values, np.float64)
    if x.size == 0:
        raise ValueError("there are no values.")
    return x


def mean_text(summary: Summary | None, unit: str, spread: bool = True) -> str:
    """Mean ± std; only the mean for one seed or without `spread`."""
    if summary is None:
        return ABSENT
    digits = decimal_places(summary.mean, unit)
    std = f" ± {number_text(summary.std, digits)}" if spread and summary.interval else ""
    return f"{number_text(summary.mean, digits)}{std}"


def interval_text(summary: Summary | None, unit: str) -> str:
    """The interval, with as many digits as the mean."""
    if summary is None or summary.interval is None:
        return ABSENT
    low, high = (number_text(end, decimal_places(summary.mean, unit)) for end in summary.interval)
    return f"[{low}, {high}]"


def estimate_text(estimate: Estimate, digits: int = 1) -> str:
    """A number over tasks, with its interval if it has one."""
    value, interval = estimate
    ends = [number_text(end, digits) for end in interval or ()]
    return number_text(value, digits) + (f" [{', '.join(ends)}]" if ends else "")


def decimal_places(size: float, unit: str = "return") -> int:
    """Digits after the point: one for a normalized score, otherwise depending on the size."""
    if unit == "normalized":
        return 1
    return sum(abs(size) < most for most in (10_000, 10, 1))


def number_text(value: float, digits: int) -> str:
    """A number with thousands separators and a true minus sign."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text if any(c in "123456789" for c in text) else text.removeprefix("−")


def value_text(value: Any) -> str:
    """A value from JSON with a true minus sign."""
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−")
    if isinstance(value, int):
        return str(value).replace("-", "−")
    return ABSENT if value is None else str(value)


def range_text(counts: Iterable[int], noun: str) -> str:
    """`6 seeds`, or `2 to 6 seeds` if the counts differ."""
    least, *_, most = sorted((*counts,) * 2)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{number} {noun}{'' if most == 1 else 's'}"
