"""Statistics over seeds: a seed is the unit, never an episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

Values = Sequence[float] | npt.NDArray[np.float64]
Statistic = Callable[[npt.NDArray[np.float64]], float]


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
    interval: Interval | None  # 95% for the mean; None for one seed, which says nothing of its spread


def summarise(values: Values) -> Summary:
    """The mean over seeds with its Student-t interval: x̄ ± t_{n−1, 0.975} s / √n."""
    x = _array(values)
    mean, n = float(x.mean()), len(x)
    if n == 1:
        return Summary(mean, 0.0, 1, None)
    std = float(x.std(ddof=1))
    half = float(stdtrit(n - 1, 0.975)) * std / n**0.5
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
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic of all values, seeds drawn anew within each group (a task, say)."""
    random = np.random.default_rng(seed)
    strata = [_array(group) for group in groups]
    draws = [np.concatenate([random.choice(x, len(x)) for x in strata]) for _ in range(resamples)]
    low, high = np.quantile([statistic(draw) for draw in draws], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's interval for a success rate: it stays in [0, 1] and has a width at 0 and at 1."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes in {n} trials cannot be.")
    z, rate = float(ndtri((1 + level) / 2)), successes / n
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _array(values: Values) -> npt.NDArray[np.float64]:
    x = np.asarray(values, np.float64)
    if x.size == 0:
        raise ValueError("no values: nothing to say about them.")
    return x
