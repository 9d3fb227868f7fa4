"""What agents of TD3's kind share: a deterministic policy and two critics with their targets, ã, and acting.

An agent says what its two losses are, and in which order policy, critics and targets move.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Batch, Metrics, Spec, learning
from bfq.agents.learning import Learner, Step
from bfq.nets.critic import Critics
from bfq.nets.policies import KINDS, Deterministic

Config = Any  # the agent's own, with the common names of networks and of the noise on ã


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: Deterministic  # θ′
    critics: Learner  # φ
    critics_target: Critics  # φ′
    told: Metrics  # what the policy's last step reported, repeated until the next
    step: Step


def begin(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    policy = Deterministic(KINDS[config.policy](policy_key, *spec, config.width, config.depth))
    critics = Critics(critic_key, *spec, config.critic, config.critic_width, config.critic_depth)
    told = {name: jnp.zeros(()) for name in ("policy_loss", "bc_loss", "q_policy")}
    step = jnp.zeros((), jnp.int32)
    return State(learning.learner(policy), policy, learning.learner(critics), critics, told, step)


def smoothed_target(
    state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> Float[Array, "b a"]:
    """ã = clip(π_θ′(s′) + clip(target_noise · N(0, I), ±target_noise_bound), ±1)."""
    return state.policy_target.smoothed(
        batch.next_observations, key, config.target_noise, config.target_noise_bound
    )


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """a = π_θ(s), of the online policy."""
    return jnp.clip(state.policy.params(observations), -1.0, 1.0)
