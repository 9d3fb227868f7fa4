"""Model-based evaluation: an ensemble of learned dynamics, and episodes of each policy in it.

Each network predicts the change of the state, the reward and, if the log has true ends, whether the episode
goes on. Networks start from different weights and see different batches; where they disagree, the estimate
is uncertain. Predicted states stay within the range of the log, with a tenth of it on each side.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bfq.data.dataset import Doubles, Floats
from bfq.evaluation.rollout import Act
from bfq.offline.log import SplitLog, by_episode, first_rows
from bfq.offline.record import Calibration
from bfq.offline.support import calibrate
from bfq.offline.training import EstimatorSizes, Work, fit_ensemble
from bfq.progress import reporting

MARGIN = 0.1  # of the range of each observation
LONGEST = 1000  # steps of an episode in the model


class Model(NamedTuple):
    """Networks, and what their outputs mean."""

    networks: Any
    low: Floats  # of normalized observations
    high: Floats
    mean: Floats  # of changes and rewards
    std: Floats
    ends: bool  # whether episodes can end


def fit_model(log: SplitLog, settings: EstimatorSizes, work: Work) -> Model:
    """Train the ensemble on the fitted part of the log."""
    part = log.columns(log.fit)
    now, after = part["observations"], part["next_observations"]
    found = np.column_stack([after - now, log.fit.rewards])
    mean, std, ends = found.mean(0), np.maximum(found.std(0), 1e-6), bool(log.fit.terminals.any())

    def loss(net: Any, inputs: Any, outputs: Any) -> Any:
        predicted, going = net(inputs), outputs[:, -1]
        error = jnp.square(predicted[:, :-1] - outputs[:, :-1]).mean()
        missed = jax.nn.softplus(predicted[:, -1]) - going * predicted[:, -1]
        return error + (missed.mean() if ends else 0.0)

    inputs = np.concatenate([now, part["actions"]], axis=1)
    outputs = np.column_stack([(found - mean) / std, part["masks"]])
    networks = fit_ensemble("model", inputs, outputs, loss, outputs.shape[1], settings, work)
    low, high = np.minimum(now.min(0), after.min(0)), np.maximum(now.max(0), after.max(0))
    room = MARGIN * (high - low)
    return Model(networks, low - room, high + room, mean, std, ends)


@jax.jit
def predict(model: Model, states: Any, actions: Any) -> tuple[Any, Any, Any]:
    """Next normalized states, rewards in the units of the log, and whether the episode goes on.

    `states` (policies, networks, rows, s) and `actions` (policies, networks, rows, a).
    """

    def one(net: Any, states: Any, actions: Any) -> Any:
        return net(jnp.concatenate([states, actions], axis=-1))

    found = jax.vmap(one, in_axes=(0, 1, 1), out_axes=1)(model.networks, states, actions)
    change = model.mean + model.std * found[..., :-1]
    going = jnp.where(jnp.logical_and(model.ends, found[..., -1] < 0.0), 0.0, 1.0)
    return jnp.clip(states + change[..., :-1], model.low, model.high), change[..., -1], going


class Rollouts(NamedTuple):
    """Episodes in the model: (policies, networks, starts)."""

    discounted: Doubles  # with the value of what comes after the last step
    undiscounted: Doubles
    steps: int


def rollouts(
    log: SplitLog, model: Model, act: Act, starts: Floats, policies: int,
    tail: Callable[[Floats, int], Any], quiet: bool,
) -> Rollouts:  # fmt: skip
    """Run every policy in every network from every start, for as long as the longest logged episode.

    `tail` values what comes then, at observations (policies, rows, s), in the units of the log.
    """
    steps = min(LONGEST, int(np.diff(log.whole.last_rows, prepend=-1).max()))
    transforms, shape = log.transforms, (policies, len(model.networks.output.bias), len(starts))
    states: Any = np.broadcast_to(transforms.normalize(starts), (*shape, starts.shape[1]))
    alive, discounted, undiscounted = np.ones(shape), np.zeros(shape), np.zeros(shape)

    def in_units(states: Any) -> Floats:
        rows = np.asarray(states).reshape(policies, -1, starts.shape[1])
        return (rows * transforms.observation_std + transforms.observation_mean).astype(np.float32)

    with reporting("rollouts", steps, quiet) as reporter:
        for time in range(steps):
            actions = transforms.to_unit(act(in_units(states), time)).reshape(*shape, -1)
            states, rewards, going = predict(model, states, actions)
            earned = alive * np.asarray(rewards, np.float64)
            discounted += log.discount**time * earned
            undiscounted += earned
            alive = alive * np.asarray(going)
            reporter.show(time + 1, {})
    after = np.asarray(tail(in_units(states), steps)).reshape(shape)
    return Rollouts(discounted + log.discount**steps * alive * after, undiscounted, steps)


def replay_log(log: SplitLog, model: Model) -> Calibration:
    """Replay the logged actions of held-out episodes for 1/(1 − γ) steps, and compare the returns."""
    part, starts = log.columns(log.held), first_rows(log.held)
    actions = np.moveaxis(by_episode(log.held, part["actions"].T), 0, -1)
    steps = min(actions.shape[1], math.ceil(1.0 / (1.0 - log.discount)))
    rewards = by_episode(log.held, np.asarray(log.held.rewards, np.float64))[:, :steps]
    inside = by_episode(log.held, np.ones(len(log.held)))[:, :steps]
    shape = (1, len(model.networks.output.bias), len(starts))
    states: Any = np.broadcast_to(part["observations"][starts], (*shape, len(model.low)))
    found = np.zeros(shape)
    for time in range(steps):
        taken = np.broadcast_to(actions[:, time], (*shape, actions.shape[-1]))
        states, earned, _ = predict(model, states, taken)
        found += log.discount**time * inside[:, time] * np.asarray(earned, np.float64)
    ahead = log.discount ** np.arange(steps)
    return calibrate(found[0].mean(0), (ahead * rewards).sum(1))
