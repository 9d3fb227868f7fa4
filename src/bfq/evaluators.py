"""Evaluators that need no environment, for `bfq.train(…, evaluators={"error": bfq.evaluators.action_error})`.

Each is a function of a policy and a dataset, by default the training data. For held-out data:
`lambda policy, data: td_error(policy, held_out)`.
"""

import numpy as np

from bfq.data.dataset import Dataset
from bfq.evaluation.policy import Policy

ROWS = 10_000  # the most rows of a dataset that are looked at, evenly spread


def _spread(dataset: Dataset) -> Dataset:
    count = min(ROWS, len(dataset))
    return dataset.take(np.linspace(0, len(dataset) - 1, count).astype(np.int64))


def action_error(policy: Policy, dataset: Dataset) -> float:
    """The mean squared distance between the policy's and the logged actions, in half action ranges."""
    rows = _spread(dataset)
    scale = 0.5 * (dataset.action_high - dataset.action_low)
    distance = (policy(rows.observations) - rows.actions) / scale
    return float(np.square(distance).sum(-1).mean())


def value(policy: Policy, dataset: Dataset) -> float:
    """The critic's value of the policy where episodes start, in units of the log's return."""
    starts = np.append(0, dataset.last_rows[:-1] + 1)
    return float(np.mean(policy.value(dataset.take(starts[:ROWS]).observations)))


def td_error(policy: Policy, dataset: Dataset) -> float:
    """The mean squared error of Q(s, a) against r + γ Q(s′, π(s′)), in units of the log's return."""
    rows = _spread(dataset)
    future = policy.discount * rows.masks * policy.value(rows.next_observations)
    error = rows.rewards + future - policy.value(rows.observations, rows.actions)
    return float(np.square(error).mean())
