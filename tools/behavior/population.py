"""A population of SAC members with their replay memories, as a few compiled programs."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bfq.agents import Batch, Metrics, Spec
from tools.behavior import sac
from tools.behavior.workers import Arrays, Floats

Joints = Float[Array, "m a"]


class Memory(NamedTuple):
    """Each member's transitions, as rows [s, a, s′, r, mask]; the oldest are overwritten."""

    rows: Float[Array, "m c d"]
    filled: Int[Array, ""]
    position: Int[Array, ""]


@partial(jax.jit, static_argnums=(1, 2, 3))
def start(key: PRNGKeyArray, members: int, spec: Spec, config: sac.Config) -> sac.State:
    """Members that differ by their random networks."""
    return jax.vmap(lambda k: sac.init(k, spec, config))(jax.random.split(key, members))


def empty(members: int, capacity: int, spec: Spec) -> Memory:
    """A memory on the device for so many transitions a member."""
    width = 2 * spec.observation_dim + spec.action_dim + 2
    filled, position = jnp.zeros(2, jnp.int32)  # two buffers, so that both can be donated
    return Memory(jnp.zeros((members, capacity, width)), filled, position)


def transitions(observations: Floats, arrays: Arrays, members: int) -> Floats:
    """A step's rows [s, a, s′, r, mask] for each member; a time-out keeps its mask at 1."""
    last = np.stack([arrays.rewards, 1.0 - arrays.terminated], axis=-1)
    rows = np.concatenate([observations, arrays.actions, arrays.next_observations, last], axis=-1)
    return rows.reshape(members, -1, rows.shape[-1])


def batch_of(rows: Float[Array, "*b d"], spec: Spec) -> Batch:
    """Cuts rows of the memory into their parts."""
    s, a = spec
    observations, actions, following, last = jnp.split(rows, [s, s + a, 2 * s + a], axis=-1)
    return Batch(observations, actions, last[..., 0], following, last[..., 1])


@partial(jax.jit, donate_argnums=0)
def remember(memory: Memory, fresh: Float[Array, "m n d"]) -> Memory:
    """Writes new rows; the capacity is a multiple of their number, so that they never wrap."""
    capacity, count = memory.rows.shape[1], fresh.shape[1]
    rows = jax.lax.dynamic_update_slice(memory.rows, fresh, (0, memory.position, 0))
    filled = jnp.minimum(memory.filled + count, capacity)
    return Memory(rows, filled, (memory.position + count) % capacity)


@partial(jax.jit, static_argnames=("updates", "spec", "config"), donate_argnums=0)
def learn(
    states: sac.State,
    memory: Memory,
    joints: Joints,
    key: PRNGKeyArray,
    step: int,
    *,
    updates: int,
    spec: Spec,
    config: sac.Config,
) -> tuple[sac.State, Metrics]:
    """Several updates of every member; their batches are drawn at once, which saves small kernels."""
    index_key, update_key = jax.random.split(jax.random.fold_in(key, step))
    members, size = len(joints), config.batch_size
    chosen = jax.random.randint(index_key, (members, updates * size), 0, memory.filled)
    rows = jax.vmap(lambda table, index: table[index])(memory.rows, chosen)
    rows = rows.reshape(members, updates, size, -1).swapaxes(0, 1)
    keys = jax.random.split(update_key, (updates, members))
    each = jax.vmap(partial(sac.update, config=config))

    def one(states: sac.State, drawn: tuple[Array, PRNGKeyArray]) -> tuple[sac.State, Metrics]:
        return each(states, batch_of(drawn[0], spec), drawn[1], joints)

    states, metrics = jax.lax.scan(one, states, (rows, keys))
    return states, jax.tree.map(lambda x: x[-1], metrics)


@jax.jit
def act(
    policies: Any, observations: Float[Array, "m n s"], joints: Joints, key: PRNGKeyArray, step: int
) -> Float[Array, "m n a"]:
    """One sampled action for each simulator."""
    keys = jax.random.split(jax.random.fold_in(key, step), len(joints))
    return jax.vmap(sac.sample)(policies, observations, keys, joints)[0]


@jax.jit
def act_best(
    policies: Any, observations: Float[Array, "m n s"], joints: Joints
) -> Float[Array, "m n a"]:
    """tanh(μ(s)), the middle of the policy."""
    mean, _ = jax.vmap(sac.gaussian)(policies, observations)
    return joints[:, None] * jnp.tanh(mean)
