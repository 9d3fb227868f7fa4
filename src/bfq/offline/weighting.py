"""Importance sampling and doubly robust estimates, with a fitted density of the logged actions.

The density of the log is a Gaussian with diagonal covariance; mean and variance are networks of the state,
fitted by maximum likelihood. Its standard deviations are then scaled so that held-back residuals have
variance 1. The density of a policy is a Gaussian as well, with the mean of its actions; its standard deviation
is that of the log where its own is smaller. So a deterministic policy is judged as if it acted with the noise
of the log.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Doubles, Floats
from bfq.offline.log import SplitLog, by_episode
from bfq.offline.training import EstimatorSizes, Work, fit_ensemble

WIDTH = 64  # of the density's network, which is trained for half as many updates as critics are
LOG_STD = (-5.0, 1.0)  # of actions within ±1
MOST = 50.0  # the largest logarithm of a weight: weights stay finite
RESAMPLES = 1000
Interval = tuple[float, float, float]  # estimate, and the ends of its 95% interval
Counts = npt.NDArray[np.floating[Any]]  # (resamples, episodes): how often each episode counts


class Density(NamedTuple):
    """A Gaussian with diagonal covariance that depends on the state."""

    network: Any
    scale: Floats  # factor on the standard deviations

    def __call__(self, observations: Any) -> tuple[Any, Any]:
        """Mean and standard deviation of the actions, within ±1, at normalized observations."""
        mean, log_std = _heads(self.network, jnp.asarray(observations))
        return np.asarray(mean), np.asarray(jnp.exp(log_std) * self.scale)


def _heads(network: Any, observations: Any) -> tuple[Any, Any]:
    mean, log_std = jnp.split(network(observations), 2, axis=-1)
    return jnp.tanh(mean), jnp.clip(log_std, *LOG_STD)


def fit_density(log: SplitLog, settings: EstimatorSizes, work: Work) -> Density:
    """Fit the density of the logged actions, and scale it on every tenth row, which is held back."""
    part = log.columns(log.fit)
    states, actions = part["observations"], part["actions"]
    apart = np.arange(len(states)) % 10 == 9

    def loss(net: Any, states: Any, actions: Any) -> Any:
        mean, log_std = _heads(net, states)
        z = (actions - mean) * jnp.exp(-log_std)
        return (0.5 * jnp.square(z) + log_std).sum(-1).mean()

    half = (settings.updates + 1) // 2
    fan_out, sizes = 2 * actions.shape[1], settings._replace(networks=1, updates=half, width=WIDTH)
    found = fit_ensemble("density", states[~apart], actions[~apart], loss, fan_out, sizes, work)
    density = Density(jax.tree.map(lambda leaf: leaf[0], found), np.ones(1, np.float32))
    mean, std = density(states[apart])
    z = (actions[apart] - mean) / std
    return density._replace(scale=np.sqrt(np.square(z).mean(0)).astype(np.float32))


def log_ratios(density: Density, states: Floats, logged: Floats, drawn: Floats) -> Doubles:
    """log π(a|s) − log π_log(a|s) of every policy at logged actions.

    `drawn` (policies, rows, draws, a) are actions of the policies.
    """
    mean, std = (part.astype(np.float64) for part in density(states))
    own_mean, own_std = drawn.mean(2, dtype=np.float64), drawn.std(2, dtype=np.float64)
    own_std = np.maximum(own_std, std)
    ours, theirs = (logged - own_mean) / own_std, (logged - mean) / std
    found = 0.5 * (theirs**2 - ours**2) + np.log(std / own_std)
    return np.asarray(found.sum(-1))


class Weighting:
    """Importance sampling and doubly robust estimates on held-out episodes; policy 0 is the log itself."""

    def __init__(self, log: SplitLog, ratios: Doubles, q: Floats, later: Floats, first: Floats):
        """`ratios` are log π − log π_log of every row; the others are values by the critics.

        `q` of the logged actions, `later` of the next states, `first` of the first states.
        """
        held, rewards = log.held, log.columns(log.held)["rewards"]
        ahead = log.discount * np.asarray(held.masks) * later
        last = np.zeros(len(held))
        last[held.last_rows] = 1.0
        self._log, self._first = log, np.asarray(first, np.float64)
        weights = np.cumsum(by_episode(held, ratios), axis=-1)
        self._weights = np.exp(np.clip(weights, -MOST, MOST))
        self.rewards = rewards + last * ahead  # (policies, rows), with the value after a time-out
        self._rewards = by_episode(held, self.rewards)
        self._errors = by_episode(held, rewards + ahead - q)

    @property
    def logged(self) -> Doubles:
        """The discounted return of every held-out episode, with the critic's value after a time-out."""
        ahead = self._log.discount ** np.arange(self._rewards.shape[-1])
        return np.asarray(self._log.in_units((ahead * self._rewards[0]).sum(1)))

    def effective_episodes(self, policy: int) -> float:
        """(Σ w)² / Σ w² of the weights at the last step: on how many episodes an estimate rests."""
        last = self._weights[policy, :, -1] / self._weights[policy, :, -1].max()
        return float(last.sum() ** 2 / np.square(last).sum())

    def estimates(self, policy: int) -> dict[str, Interval]:
        """Per-decision importance sampling, plain and weighted, and the doubly robust estimate."""
        rewards, errors, base = (x[policy] for x in (self._rewards, self._errors, self._first))
        kinds = {
            "is": (rewards, 0.0 * base, False),
            "wis": (rewards, 0.0 * base, True),
            "dr": (errors, base, True),
        }
        random, episodes = np.random.default_rng(0), len(base)
        drawn = random.multinomial(episodes, np.full(episodes, 1 / episodes), RESAMPLES)
        counts = np.concatenate([np.ones((1, episodes)), drawn])
        found = {}
        for name, kind in kinds.items():
            sums = weighted_sum(self._weights[policy], *kind, self._log.discount, counts)
            value, *resampled = self._log.in_units(sums)
            low, high = np.quantile(resampled, (0.025, 0.975))
            found[name] = (value, low, high)
        return found


def weighted_sum(
    weights: Doubles, terms: Doubles, base: Doubles, normalized: bool, discount: float,
    counts: Counts,
) -> Doubles:  # fmt: skip
    """mean(base) + Σ_t γ^t Σ_e w_t^e x_t^e / n, over episodes e; n = Σ_e w_t^e if `normalized`.

    With rewards as terms x this is per-decision importance sampling, weighted if normalized. With the errors
    r + γ V(s′) − Q(s, a), and V of the first state as base, it is the doubly robust estimate. The result has
    a number for each row of `counts`.
    """
    total = counts.sum(1, keepdims=True)
    below = counts @ weights if normalized else total
    means = counts @ (weights * terms) / np.maximum(below, 1e-300)
    return counts @ base / total[:, 0] + means @ discount ** np.arange(weights.shape[1])


def two_way_interval(values: Doubles, seed: int = 0) -> Interval:
    """The mean of values (networks, episodes); networks and episodes are resampled."""
    random, shape = np.random.default_rng(seed), values.shape
    first, second = (random.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n for n in shape)
    low, high = np.quantile(np.einsum("rn,ne,re->r", first, values, second), (0.025, 0.975))
    return float(values.mean()), float(low), float(high)
