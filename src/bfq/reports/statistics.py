"""Statistics over seeds: a seed is the unit, never an episode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

Array = npt.NDArray[np.float64]
Values = Sequence[float] | Array
Scores = Mapping[str, Values]  # of one method: the seeds of each task
Statistic = Callable[[Array], float]
LEVEL = 0.95  # of every interval, as all captions say
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # the quantiles at its ends


class Interval(NamedTuple):
    """Two ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one number over seeds."""

    mean: float
    std: float  # of the seeds, with n − 1 below; 0 for one seed
    n: int
    interval: (
        Interval | None
    )  # 95% for the mean; None for one seed, which says nothing of its spread


class Estimate(NamedTuple):
    """A number over tasks."""

    value: float
    interval: Interval | None  # None where a task has one seed, which says nothing of its spread


class Profile(NamedTuple):
    """The share of runs above each threshold."""

    thresholds: Array
    share: Array
    band: tuple[Array, Array] | None  # pointwise; None where a task has one seed


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
    """Percentile interval of a statistic of all values, seeds drawn anew within each group (a task, say)."""
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
    """The mean of the tasks' means with its interval; of one task it is that of `summarize`.

    Tasks differ in their spread, so the variances s²/n add up and Student's t has the degrees of freedom
    of Welch and Satterthwaite. Bootstrap intervals are too narrow for a handful of seeds; this is not.
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
    """The share of runs above τ, every task weighing the same: mean over tasks of the mean of 1[x > τ].

    The band holds at each τ alone, and is too narrow for a handful of seeds of a single task.
    """
    tau = _array(thresholds)
    tasks = _tasks(scores)
    above = [np.greater.outer(x, tau).astype(np.float64) for x in tasks]
    share = np.mean([runs.mean(0) for runs in above], axis=0)
    if not _spreads(tasks):
        return Profile(tau, share, None)
    random = np.random.default_rng(seed)
    draws = sum(_counts(random, len(runs), resamples) @ runs / len(runs) for runs in above) / len(
        above
    )
    low, high = np.quantile(draws, TAILS, axis=0)
    return Profile(tau, share, (low, high))


def probability_of_improvement(
    ours: Scores, theirs: Scores, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 for a run X of ours and a run Y of theirs, mean over tasks.

    On a task it is Mann and Whitney's U / (n m). Both methods' seeds are drawn anew within each task.
    """
    if set(ours) != set(theirs):
        raise ValueError(
            f"only one method has scores on {', '.join(sorted(set(ours) ^ set(theirs)))}."
        )
    pairs = list(zip(_tasks(ours), _tasks({task: theirs[task] for task in ours}), strict=True))
    wins = [(np.sign(np.subtract.outer(x, y)) + 1) / 2 for x, y in pairs]  # 1, or ½ for a tie, or 0
    value = float(np.mean([won.mean() for won in wins]))
    if not all(_spreads(pair) for pair in pairs):
        return Estimate(value, None)
    random = np.random.default_rng(seed)
    draws = [
        np.sum(
            _counts(random, len(won), resamples) @ won * _counts(random, len(won.T), resamples),
            axis=1,
        )
        / won.size
        for won in wins
    ]
    low, high = np.quantile(np.mean(draws, axis=0), TAILS)
    return Estimate(value, Interval(float(low), float(high)))


def wilson(successes: int, n: int) -> Interval:
    """Wilson's interval for a success rate: it stays in [0, 1] and has a width at 0 and at 1."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes in {n} trials cannot be.")
    z, rate = float(ndtri(TAILS[1])), successes / n
    center = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    return Interval(max(0.0, center - half), min(1.0, center + half))


def _tasks(scores: Scores) -> list[Array]:
    """The seeds of each task, all of them numbers: a run without a score is no run of score 0."""
    if not scores:
        raise ValueError("no tasks: nothing to say about them.")
    tasks = [_array(values) for values in scores.values()]
    for name, x in zip(scores, tasks, strict=True):
        if not np.isfinite(x).all():
            raise ValueError(f"{name} has a score that is not a number.")
    return tasks


def _spreads(tasks: Sequence[Array]) -> bool:
    return all(len(x) > 1 for x in tasks)


def _counts(random: np.random.Generator, n: int, resamples: int) -> Array:
    """How often each of n seeds comes in n draws with replacement, a row a resample.

    What is linear in the seeds' weights is thus a product of matrices for all resamples at once.
    """
    return random.multinomial(n, np.full(n, 1 / n), resamples).astype(np.float64)


def _array(values: Values) -> Array:
    x = np.asarray(values, np.float64)
    if x.size == 0:
        raise ValueError("no values: nothing to say about them.")
    return x
