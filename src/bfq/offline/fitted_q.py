"""Fitted Q evaluation: several critics for each policy, trained on logged transitions.

    y = r + γ · mask · Q_φ′(s′, a′),  a′ ~ π(s′)
    φ ← Adam on E (Q_φ(s, a) − y)²,  φ′ ← (1 − ρ) φ′ + ρ φ

Critics start from different weights and see different batches. Critic k of every policy starts from the same
weights and sees the same batches: policies differ by their actions only. Targets are clipped to what the
rewards allow. For the log itself a′ is the next logged action, and rows without one are left out.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bfq.data.dataset import Floats
from bfq.offline.log import SplitLog
from bfq.offline.training import (
    BATCH,
    EstimatorSizes,
    Networks,
    Work,
    descend_once,
    mlps,
    train_networks,
)

RHO = 0.03  # of the target networks


def fit_values(
    log: SplitLog, following: Floats, known: Floats, settings: EstimatorSizes, work: Work
) -> Any:
    """The critics of every policy, with axes (policies, critics).

    `following` (policies, rows, draws, a) holds actions at the next observations, within ±1; `known`
    (policies, rows) is 0 where there is none.
    """
    policies, rows, draws, a = following.shape
    data = {name: jnp.asarray(column) for name, column in log.columns(log.fit).items()}
    flat = following.reshape(policies, rows, draws * a)
    packed = jnp.asarray(np.concatenate([flat, known[..., None]], axis=-1))
    (low, high), key = log.bounds, jax.random.key(settings.seed)
    shape = (settings.networks, BATCH)

    def init() -> Networks:
        fan_in = data["observations"].shape[1] + a
        critics = mlps(settings, settings.networks, fan_in, 1)
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * policies), critics)

    def update(states: Networks, step: Any, data: Any) -> Networks:
        columns, after = data
        drawn = jax.random.fold_in(jax.random.fold_in(key, settings.networks), step)
        row_key, draw_key = jax.random.split(drawn)
        index = jax.random.randint(row_key, shape, 0, rows)
        draw = jax.random.randint(draw_key, shape, 0, draws)[None, :, :, None, None]
        batch = {name: column[index] for name, column in columns.items()}
        taken = after[:, index]
        acts = taken[..., :-1].reshape(policies, *shape, draws, a)
        acts = jnp.take_along_axis(acts, draw, axis=3)[..., 0, :]

        def one(networks: Networks, batch: Any, acts: Any, known: Any) -> Networks:
            later = critic_value(networks.average, batch["next_observations"], acts)
            target = batch["rewards"] + log.discount * batch["masks"] * later
            target = jnp.clip(target, low, high)
            weight = jnp.maximum(known, 1.0 - batch["masks"])

            def loss(params: Any) -> Any:
                error = critic_value(params, batch["observations"], batch["actions"]) - target
                return (weight * jnp.square(error)).mean()

            return descend_once(networks, loss, step, settings.updates, RHO)

        each = jax.vmap(jax.vmap(one), in_axes=(0, None, 0, 0))
        return each(states, batch, acts, taken[..., -1])

    return train_networks("critics", init, update, (data, packed), settings.updates, work)


def critic_value(critic: Any, observations: Any, actions: Any) -> Any:
    """q(s, a) of one critic."""
    return critic(jnp.concatenate([observations, actions], axis=-1))[..., 0]


@jax.jit
def _values(critics: Any, observations: Any, actions: Any) -> Any:
    return jax.vmap(jax.vmap(critic_value, in_axes=(0, None, None)))(critics, observations, actions)


def q_values(critics: Any, observations: Floats, actions: Floats, rows: int = 4096) -> Floats:
    """q (policies, critics, rows): the mean over the draws of actions (policies, rows, draws, a).

    `observations` are normalized: (rows, s), or (policies, rows, s) if they differ.
    """
    policies, count, draws, _ = actions.shape
    observations = np.broadcast_to(observations, (policies, count, observations.shape[-1]))
    parts = []
    for begin in range(0, count, rows):
        some = slice(begin, begin + rows)
        each = [_values(critics, observations[:, some], actions[:, some, k]) for k in range(draws)]
        parts.append(np.mean(each, axis=0))
    return np.concatenate(parts, axis=-1)
