"""Soft actor-critic with a learned temperature, the method that D4RL's own behavior policies come from.

    for each update:
        draw (s, a, r, s′) from the replay memory
        a′ ~ π_θ(s′),  y = r + γ · mask · (min_i Q_φi′(s′, a′) − α log π_θ(a′|s′))
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        ã ~ π_θ(s),    θ ← Adam on E[α log π_θ(ã|s) − min_i Q_φi(s, ã)]
        log α ← Adam on −log α · E[log π_θ(ã|s) + H̄],  H̄ = −(number of joints)
        φ′ ← (1 − ρ) φ′ + ρ φ

Robots of different sizes train together as one population, each member with its own replay memory. Missing
observations are padded with 0, and `joints` is 0 for actions that a robot does not have.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bfq.agents import learning
from bfq.agents.contract import Batch, Metrics, Spec
from bfq.agents.learning import Learner, descend, polyak
from bfq.nets.mlp import MLP
from tools.behavior.robots import Arrays, Floats

LOG_STD_RANGE = (-20.0, 2.0)
Joints = Float[Array, " a"]  # 1 for an action that the robot has, 0 for padding
JointsOfAll = Float[Array, "m a"]


@dataclass(frozen=True)
class Config:
    """Hyperparameters of SAC."""

    batch_size: int = 256
    discount: float = 0.99  # γ
    target_rate: float = 0.005  # ρ
    learning_rate: float = 3e-4  # Adam, for policy, critics and temperature
    width: int = 256  # units of a hidden layer
    depth: int = 2  # hidden layers
    critic_norm: str = "before"  # layer norm of the critics: none | before | after their ReLU


class State(NamedTuple):
    """Everything that an update changes."""

    policy: Learner  # θ, an MLP with outputs [mean, log std]
    critics: Learner  # φ, two MLPs with stacked parameters
    critics_target: MLP  # φ′
    temperature: Learner  # log α


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to the critics, α = 1."""
    policy_key, critic_key = jax.random.split(key)
    size, depth = config.width, config.depth
    policy = MLP(policy_key, spec.observation_dim, 2 * spec.action_dim, size, depth, "relu")
    fan_in = sum(spec)
    critics = jax.vmap(lambda k: MLP(k, fan_in, 1, size, depth, "relu", config.critic_norm))(
        jax.random.split(critic_key, 2)
    )
    target = jax.tree.map(jnp.copy, critics)  # separate buffers, so that both can be donated
    temperature = learning.learner(jnp.zeros(()))
    return State(learning.learner(policy), learning.learner(critics), target, temperature)


def gaussian(policy: MLP, observations: Float[Array, "*b s"]) -> tuple[Array, Array]:
    """(μ(s), log σ(s)) of the Gaussian before its squash."""
    mean, log_std = jnp.split(policy(observations), 2, axis=-1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def log_probability(
    pre_action: Float[Array, "*b a"],
    mean: Float[Array, "*b a"],
    log_std: Float[Array, "*b a"],
    joints: Joints,
) -> Float[Array, "*b"]:
    """The squashed log π(tanh u) = Σ_j log N(u_j; μ_j, σ_j) − log(1 − tanh² u_j), over the robot's joints.

    log(1 − tanh² u) is written as 2 (log 2 − u − softplus(−2u)), which stays finite for large |u|.
    """
    normal = jax.scipy.stats.norm.logpdf(pre_action, mean, jnp.exp(log_std))
    squash = 2.0 * (jnp.log(2.0) - pre_action - jax.nn.softplus(-2.0 * pre_action))
    return (joints * (normal - squash)).sum(-1)


def sample(
    policy: MLP, observations: Float[Array, "*b s"], key: PRNGKeyArray, joints: Joints
) -> tuple[Float[Array, "*b a"], Float[Array, "*b"]]:
    """Draw a = tanh(μ + σ ε) and compute log π(a|s)."""
    mean, log_std = gaussian(policy, observations)
    pre_action = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    return joints * jnp.tanh(pre_action), log_probability(pre_action, mean, log_std, joints)


def q_values(
    critics: MLP, observations: Float[Array, "*b s"], actions: Float[Array, "*b a"]
) -> Float[Array, "2 *b"]:
    """Q_i(s, a), with the critics along the first axis."""
    inputs = jnp.concatenate([observations, actions], axis=-1)
    return jax.vmap(lambda net: net(inputs))(critics)[..., 0]


def soft_target(
    state: State, batch: Batch, key: PRNGKeyArray, joints: Joints, discount: float
) -> Float[Array, " b"]:
    """The target y = r + γ · mask · (min_i Q_φi′(s′, a′) − α log π(a′|s′)), a′ ~ π."""
    actions, log_prob = sample(state.policy.params, batch.next_observations, key, joints)
    soft = q_values(state.critics_target, batch.next_observations, actions)
    soft = soft - jnp.exp(state.temperature.params) * log_prob
    return learning.td_target(batch.rewards, batch.masks, soft, discount, "min")


def policy_loss(
    policy: MLP, state: State, batch: Batch, key: PRNGKeyArray, joints: Joints
) -> tuple[Float[Array, ""], Float[Array, " b"]]:
    """L(θ) = E[α log π_θ(ã|s) − min_i Q_φi(s, ã)], ã ~ π_θ; and log π_θ(ã|s)."""
    actions, log_prob = sample(policy, batch.observations, key, joints)
    q = q_values(state.critics.params, batch.observations, actions).min(0)
    return (jnp.exp(state.temperature.params) * log_prob - q).mean(), log_prob


def temperature_loss(
    log_alpha: Float[Array, ""], log_prob: Float[Array, " b"], joints: Joints
) -> tuple[Float[Array, ""], None]:
    """L(log α) = −log α · E[log π + H̄]: α falls while the entropy is above H̄ = −(number of joints)."""
    return -log_alpha * jax.lax.stop_gradient(log_prob - joints.sum()).mean(), None


def update(
    state: State, batch: Batch, key: PRNGKeyArray, joints: Joints, config: Config
) -> tuple[State, Metrics]:
    """Update the critics, the policy, the temperature and the targets, in this order."""
    target_key, policy_key = jax.random.split(key)
    rate = config.learning_rate
    target = soft_target(state, batch, target_key, joints, config.discount)

    def critic_loss(critics: MLP) -> tuple[Array, Array]:
        q = q_values(critics, batch.observations, batch.actions)
        return learning.critic_loss(q, target), q.mean()

    critics, q_loss, q = descend(state.critics, critic_loss, rate)
    state = state._replace(critics=critics)
    policy, _, log_prob = descend(
        state.policy, lambda theta: policy_loss(theta, state, batch, policy_key, joints), rate
    )
    temperature, _, _ = descend(
        state.temperature, lambda log_alpha: temperature_loss(log_alpha, log_prob, joints), rate
    )
    moved = polyak(state.critics_target, critics.params, config.target_rate)
    metrics = {
        "critic_loss": q_loss,
        "q": q,
        "entropy": -log_prob.mean(),
        "alpha": jnp.exp(temperature.params),
    }
    return State(policy, critics, moved, temperature), metrics


def policy_arrays(policy: MLP) -> dict[str, Any]:
    """The arrays of the policy under their names in a weight file; the output layer is [mean, log std]."""
    names: dict[str, Any] = {}
    for k, layer in enumerate(policy.hidden):
        names |= {f"hidden_{k}_w": layer.weight, f"hidden_{k}_b": layer.bias}
    mean_w, log_std_w = jnp.split(policy.output.weight, 2, axis=-1)
    mean_b, log_std_b = jnp.split(policy.output.bias, 2, axis=-1)
    return names | {
        "mean_w": mean_w,
        "mean_b": mean_b,
        "log_std_w": log_std_w,
        "log_std_b": log_std_b,
    }


class Memory(NamedTuple):
    """The replay memory of each member: rows [s, a, s′, r, mask], of which the oldest are overwritten."""

    rows: Float[Array, "m c d"]
    filled: Int[Array, ""]
    position: Int[Array, ""]


@partial(jax.jit, static_argnums=(1, 2, 3))
def init_members(key: PRNGKeyArray, members: int, spec: Spec, config: Config) -> State:
    """Members with different random networks."""
    return jax.vmap(lambda k: init(k, spec, config))(jax.random.split(key, members))


def empty_memory(members: int, capacity: int, spec: Spec) -> Memory:
    """A memory on the device for `capacity` transitions per member."""
    width = 2 * spec.observation_dim + spec.action_dim + 2
    filled, position = jnp.zeros(2, jnp.int32)  # two buffers, so that both can be donated
    return Memory(jnp.zeros((members, capacity, width)), filled, position)


def memory_rows(observations: Floats, arrays: Arrays, members: int) -> Floats:
    """The rows [s, a, s′, r, mask] of one step for each member; a time-out keeps its mask at 1."""
    last = np.stack([arrays.rewards, 1.0 - arrays.terminated], axis=-1)
    rows = np.concatenate([observations, arrays.actions, arrays.next_observations, last], axis=-1)
    return rows.reshape(members, -1, rows.shape[-1])


def batch_of(rows: Float[Array, "*b d"], spec: Spec) -> Batch:
    """Split rows of the memory into a batch."""
    s, a = spec
    observations, actions, following, last = jnp.split(rows, [s, s + a, 2 * s + a], axis=-1)
    return Batch(observations, actions, last[..., 0], following, last[..., 1])


@partial(jax.jit, donate_argnums=0)
def remember(memory: Memory, fresh: Float[Array, "m n d"]) -> Memory:
    """Write new rows; the capacity is a multiple of their number, so they never wrap."""
    capacity, count = memory.rows.shape[1], fresh.shape[1]
    rows = jax.lax.dynamic_update_slice(memory.rows, fresh, (0, memory.position, 0))
    filled = jnp.minimum(memory.filled + count, capacity)
    return Memory(rows, filled, (memory.position + count) % capacity)


@partial(jax.jit, static_argnames=("updates", "spec", "config"), donate_argnums=0)
def update_members(
    states: State,
    memory: Memory,
    joints: JointsOfAll,
    key: PRNGKeyArray,
    step: int,
    *,
    updates: int,
    spec: Spec,
    config: Config,
) -> tuple[State, Metrics]:
    """Run several updates of every member; drawing all batches at once saves small kernels."""
    index_key, update_key = jax.random.split(jax.random.fold_in(key, step))
    members, size = len(joints), config.batch_size
    chosen = jax.random.randint(index_key, (members, updates * size), 0, memory.filled)
    rows = jax.vmap(lambda table, index: table[index])(memory.rows, chosen)
    rows = rows.reshape(members, updates, size, -1).swapaxes(0, 1)
    keys = jax.random.split(update_key, (updates, members))
    each = jax.vmap(partial(update, config=config))

    def one(states: State, drawn: tuple[Array, PRNGKeyArray]) -> tuple[State, Metrics]:
        return each(states, batch_of(drawn[0], spec), drawn[1], joints)

    states, metrics = jax.lax.scan(one, states, (rows, keys))
    return states, jax.tree.map(lambda x: x[-1], metrics)


@jax.jit
def sample_actions(
    policies: Any,
    observations: Float[Array, "m n s"],
    joints: JointsOfAll,
    key: PRNGKeyArray,
    step: int,
) -> Float[Array, "m n a"]:
    """Sample an action for each environment."""
    keys = jax.random.split(jax.random.fold_in(key, step), len(joints))
    return jax.vmap(sample)(policies, observations, keys, joints)[0]


@jax.jit
def mean_actions(
    policies: Any, observations: Float[Array, "m n s"], joints: JointsOfAll
) -> Float[Array, "m n a"]:
    """tanh(μ(s))."""
    mean, _ = jax.vmap(gaussian)(policies, observations)
    return joints[:, None] * jnp.tanh(mean)
