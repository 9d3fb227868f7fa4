"""Transforms of data before training, and of observations and actions when the policy acts.

Transforms are fitted once, stored with the run, and saved with the policy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, Floats
from bfq.errors import unknown
from bfq.run import RewardTransform, TransformsRecord

CONSTANTS = {  # scale and shift
    "none": (1.0, 0.0),
    "minus_one": (1.0, -1.0),  # IQL, AntMaze
    "cql_antmaze": (4.0, -2.0),  # 4 (r − ½)
    "hundredfold": (100.0, 0.0),  # ReBRAC, AntMaze
}
REWARDS = (*CONSTANTS, "return_range", "standardize", "min_max")
VECTORS = ("observation_mean", "observation_std", "action_low", "action_high")
OBSERVATIONS = ("none", "standardize", "standardize_padded")
CONSTANT = 1e-6  # a smaller standard deviation is rounding of a constant, as in MeanFlowQL


@dataclass(frozen=True)
class Transforms:
    """The map between the units of the log and those of the agent."""

    observation_mean: Floats
    observation_std: Floats
    action_low: Floats
    action_high: Floats
    reward: RewardTransform
    observations: str  # the rule behind mean and std

    def normalize(self, observations: npt.NDArray[Any]) -> Floats:
        """Observations as the agent sees them: (s − μ) / σ."""
        return ((observations - self.observation_mean) / self.observation_std).astype(np.float32)

    def to_unit(self, actions: Floats) -> Floats:
        """Actions as the agent sees them, in [−1, 1]."""
        scaled = 2.0 * (actions - self.action_low) / (self.action_high - self.action_low) - 1.0
        return np.clip(scaled, -1.0, 1.0).astype(np.float32)

    def from_unit(self, actions: Floats) -> Floats:
        """Actions in the units of the environment."""
        return self.action_low + 0.5 * (actions + 1.0) * (self.action_high - self.action_low)

    def record(self) -> TransformsRecord:
        """The transforms as config.json holds them; float32 survives the way through JSON unchanged."""
        vectors = {name: getattr(self, name).tolist() for name in VECTORS}
        return TransformsRecord(observations=self.observations, reward=self.reward, **vectors)

    @classmethod
    def from_record(cls, record: TransformsRecord) -> "Transforms":
        """The transforms in a run's config.json."""
        vectors = {name: np.asarray(getattr(record, name), np.float32) for name in VECTORS}
        return cls(reward=record.reward, observations=record.observations, **vectors)


def fit_transforms(
    dataset: Dataset, observations: str = "standardize", reward: str = "none"
) -> Transforms:
    """Fit the chosen transforms to a dataset."""
    if observations not in OBSERVATIONS:
        raise unknown("observation transform", observations, OBSERVATIONS)
    mean, std = np.zeros(dataset.observation_dim), np.ones(dataset.observation_dim)
    if observations != "none":
        mean = np.array(dataset.summary.observation_mean)
        std = np.array(dataset.summary.observation_std)
    if observations == "standardize_padded":  # TD3-BC
        std += 1e-3
    center, scale = mean.astype(np.float32), std.astype(np.float32)
    if observations == "standardize":
        scale = np.where(scale < CONSTANT, np.float32(1.0), scale)
    low, high, rewards = dataset.action_low, dataset.action_high, fit_rewards(dataset, reward)
    return Transforms(center, scale, low, high, rewards, observations)


def fit_rewards(dataset: Dataset, name: str) -> RewardTransform:
    """The reward transforms of the literature, by name."""
    if name not in REWARDS:
        raise unknown("reward transform", name, REWARDS)
    scale, shift = CONSTANTS.get(name, (1.0, 0.0))
    if name == "return_range":  # IQL, locomotion
        spread = float(np.ptp(dataset.episode_returns))
        scale = 1000.0 / spread if spread > 0 else 1.0
    if name == "min_max":  # EDP's code, Adroit: from the smallest reward, −1, to the largest, 1
        low, high = dataset.summary.reward_low, dataset.summary.reward_high
        scale = 2.0 / (high - low) if high > low else 1.0
        shift = -1.0 - scale * low
    if name == "standardize":
        std = dataset.summary.reward_std or 1.0
        scale, shift = 1.0 / std, -dataset.summary.reward_mean / std
    return RewardTransform(name, scale, shift)


def apply_transforms(transforms: Transforms, dataset: Dataset) -> dict[str, Floats]:
    """The arrays of a dataset in the units of the agent."""
    return {
        "observations": transforms.normalize(dataset.observations),
        "actions": transforms.to_unit(dataset.actions),
        "rewards": transforms.reward(dataset.rewards),
        "next_observations": transforms.normalize(dataset.next_observations),
        "masks": np.asarray(dataset.masks),
    }
