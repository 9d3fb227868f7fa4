"""A log for offline evaluation: episodes to fit on, held-out episodes, and the scale of values.

All values are discounted returns in the units of the log. A time-out does not end the future: after it, the
policy goes on. Estimators learn q with Q = center + scale · q, so that their networks see numbers of order one:

    r' = (r − (1 − γ · mask) · center) / scale,  center = mean(r) / (1 − γ)

Q is the value of the rewards r exactly if q is that of the rewards r'. A constant that is added to all
rewards, or a factor, changes center and scale only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, Doubles, Floats
from bfq.data.transforms import Transforms, apply_transforms, fit_transforms
from bfq.errors import BadInput

LEAST_EPISODES = 4
Rows = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class SplitLog:
    """The fitted and the held-out part of a dataset, and the scale of its values."""

    whole: Dataset
    fit: Dataset
    held: Dataset
    discount: float

    @cached_property
    def transforms(self) -> Transforms:
        """Standardized observations and actions in [−1, 1], fitted without the held-out episodes."""
        return fit_transforms(self.fit)

    @cached_property
    def center(self) -> float:
        """The value of receiving the mean reward forever."""
        return self.fit.summary.reward_mean / (1.0 - self.discount)

    @cached_property
    def scale(self) -> float:
        """The standard deviation of discounted returns around the center."""
        spread = float(returns_to_go(self.fit, self._shifted(self.fit), self.discount).std())
        return spread if spread > 1e-9 * max(1.0, abs(self.center)) else 1.0

    def _shifted(self, part: Dataset) -> Doubles:
        ahead = self.discount * np.asarray(part.masks, np.float64)
        return part.rewards - (1.0 - ahead) * self.center

    def columns(self, part: Dataset) -> dict[str, Floats]:
        """A part as the networks see it, with the rewards r'."""
        rewards = (self._shifted(part) / self.scale).astype(np.float32)
        return {**apply_transforms(self.transforms, part), "rewards": rewards}

    def in_units(self, q: Any) -> Any:
        """A value in the units of the log."""
        return self.center + self.scale * np.asarray(q, np.float64)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest q that the rewards allow."""
        rewards = (self.fit.summary.reward_low, self.fit.summary.reward_high)
        low, high = (bound / (1.0 - self.discount) for bound in rewards)
        if self.fit.terminals.any():
            low, high = min(low, 0.0), max(high, 0.0)
        return (low - self.center) / self.scale, (high - self.center) / self.scale


def split_log(dataset: Dataset, discount: float, held_out: float = 0.2, seed: int = 0) -> SplitLog:
    """Hold out a share of the episodes, drawn at random."""
    count = len(dataset.last_rows)
    if count < LEAST_EPISODES:
        raise BadInput(
            f"{dataset.name} has {count} of at least {LEAST_EPISODES} episodes that offline evaluation needs, "
            "since some are held out: log more, or mark where one attempt ends and the next begins."
        )
    if not 0.0 <= discount < 1.0:
        raise BadInput(f"discount must be at least 0 and below 1, not {discount:g}.")
    if not 0.0 < held_out < 1.0:
        raise BadInput(f"held_out must be a share between 0 and 1, not {held_out:g}.")
    held = min(max(round(held_out * count), 2), count - 2)
    return SplitLog(dataset, *dataset.split(held / count, seed), discount)


def first_rows(part: Dataset) -> Rows:
    """The row in which each episode begins."""
    return np.append(0, part.last_rows[:-1] + 1)


def returns_to_go(part: Dataset, rewards: Any, discount: float) -> Doubles:
    """Σ γ^k r to the end of each episode, from every row on."""
    factors, following = discount * np.asarray(part.masks, np.float64), 0.0
    factors[part.last_rows] = 0.0
    found = np.empty(len(factors))
    rows = list(zip(rewards.tolist(), factors.tolist(), strict=True))
    for row in range(len(rows) - 1, -1, -1):
        reward, factor = rows[row]
        following = found[row] = reward + factor * following
    return found


def by_episode(part: Dataset, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of shape (…, rows) as (…, episodes, steps), with zeros where an episode is shorter."""
    starts, ends = first_rows(part), part.last_rows
    rows = starts[:, None] + np.arange((ends - starts).max() + 1)
    return np.where(rows <= ends[:, None], values[..., np.minimum(rows, len(part) - 1)], 0.0)
