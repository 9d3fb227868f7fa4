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

REWARDS = (
    "none",
    "return_range",
    "minus_one",
    "cql_antmaze",
    "standardize",
    "hundredfold",
    "min_max",
)
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
        return TransformsRecord(
            self.observations,
            self.reward,
            self.observation_mean.tolist(),
            self.observation_std.tolist(),
            self.action_low.tolist(),
            self.action_high.tolist(),
        )

    @classmethod
    def from_record(cls, record: TransformsRecord) -> "Transforms":
        """The transforms in a run's config.json."""
        return cls(
            np.asarray(record.observation_mean, np.float32),
            np.asarray(record.observation_std, np.float32),
            np.asarray(record.action_low, np.float32),
            np.asarray(record.action_high, np.float32),
            record.reward,
            record.observations,
        )


def fit_transforms(
    dataset: Dataset, observations: str = "standardize", reward: str = "none"
) -> Transforms:
    """Fit the chosen transforms to a dataset."""
    if observations not in OBSERVATIONS:
        raise unknown("observation transform", observations, OBSERVATIONS)
    mean = np.zeros(dataset.observation_dim, np.float32)
    std = np.ones(dataset.observation_dim, np.float32)
    if observations == "standardize":
        mean = dataset.summary.observation_mean.astype(np.float32)
        std = dataset.summary.observation_std.astype(np.float32)
        std = np.where(std < CONSTANT, np.float32(1.0), std)
    if observations == "standardize_padded":  # TD3-BC
        mean = dataset.summary.observation_mean.astype(np.float32)
        std = (dataset.summary.observation_std + 1e-3).astype(np.float32)
    return Transforms(
        mean, std, dataset.action_low, dataset.action_high, _reward(dataset, reward), observations
    )


def _reward(dataset: Dataset, name: str) -> RewardTransform:
    """The reward transforms of the literature, by name."""
    returns = dataset.episode_returns
    spread = float(np.ptp(returns))
    scales = {
        "none": (1.0, 0.0),
        "return_range": (1000.0 / spread if spread > 0 else 1.0, 0.0),  # IQL, locomotion
        "minus_one": (1.0, -1.0),  # IQL, AntMaze
        "cql_antmaze": (4.0, -2.0),  # 4 (r − ½)
        "hundredfold": (100.0, 0.0),  # ReBRAC, AntMaze
    }
    if name == "min_max":  # EDP's code, Adroit: from the smallest reward, −1, to the largest, 1
        low, high = dataset.summary.reward_low, dataset.summary.reward_high
        scale = 2.0 / (high - low) if high > low else 1.0
        return RewardTransform(name, scale, -1.0 - scale * low)
    if name == "standardize":
        std = dataset.summary.reward_std or 1.0
        return RewardTransform(name, 1.0 / std, -dataset.summary.reward_mean / std)
    if name not in scales:
        raise unknown("reward transform", name, REWARDS)
    return RewardTransform(name, *scales[name])


def apply_transforms(transforms: Transforms, dataset: Dataset) -> dict[str, Floats]:
    """The arrays of a dataset in the units of the agent."""
    return {
        "observations": transforms.normalize(dataset.observations),
        "actions": transforms.to_unit(dataset.actions),
        "rewards": transforms.reward(dataset.rewards),
        "next_observations": transforms.normalize(dataset.next_observations),
        "masks": np.asarray(dataset.masks),
    }
