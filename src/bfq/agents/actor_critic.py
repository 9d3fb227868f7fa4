"""What agents with a policy, its moving average and two critics share: state, update, acting.

An agent says how its policy samples and what its two losses are; the rest is the same for all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Batch, Metrics, Spec, learning, values
from bfq.agents.learning import Learner, Number, Step, descend_and_follow, due, learning_rate
from bfq.nets.critic import Critics

Sample = Callable[[Any, Array, PRNGKeyArray], Array]  # (policy, s, key) -> a in [−1, 1]
CriticLoss = Callable[[Any, Any, Batch, PRNGKeyArray, Any], tuple[Array, Metrics]]  # (φ, state, …)
PolicyLoss = Callable[[Any, Critics, Batch, PRNGKeyArray, Any], tuple[Array, Metrics]]  # (θ, φ, …)
Config = Any  # the agent's own, with the common names of targets, critics and backups


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: Any  # θ′
    critics: Learner  # φ
    critics_target: Critics  # φ′
    step: Step


def begin(policy: Any, key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """A policy and random critics, targets equal to them."""
    critics = Critics(key, *spec, config.critic, config.critic_width, config.critic_depth)
    zero = jnp.zeros((), jnp.int32)
    return State(learning.learner(policy), policy, learning.learner(critics), critics, zero)


def td_target(
    state: State, batch: Batch, key: PRNGKeyArray, config: Config, sample: Sample
) -> Float[Array, " b"]:
    """y = r + γ · mask · min_i Q_φi′(s′, a′), a′ ~ π_θ′; with several a′ the best of them."""
    next_values = values.backup_values(
        state.critics_target,
        lambda s, k: sample(state.policy_target, s, k),
        batch.next_observations,
        key,
        config.backup_samples,
        config.backup_best,
    )
    return values.td_target(
        batch.rewards, batch.masks, next_values, config.discount, config.aggregation
    )


def fit(
    critics: Critics, batch: Batch, target: Float[Array, " b"]
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)²."""
    q = critics(batch.observations, batch.actions)
    return values.critic_loss(q, target), {"q": q.mean()}


def improve(
    state: State,
    batch: Batch,
    key: PRNGKeyArray,
    config: Config,
    critic_loss: CriticLoss,
    policy_loss: PolicyLoss,
    critic_learning_rate: Number | None = None,
    weight_decay: float = 0.0,
    critic_schedule: str | None = None,
) -> tuple[State, Metrics]:
    """Critics, then the policy with the new critics, then both targets.

    The critics' rate and schedule are the policy's unless they are given; the decay is of the policy alone.
    """
    critic_key, policy_key = jax.random.split(key)
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    base = config.learning_rate if critic_learning_rate is None else critic_learning_rate
    critic_rate = learning_rate(base, critic_schedule or config.schedule, state.step, config.steps)
    policy_due = due(state.step, config.policy_target_every, config.policy_target_start)
    critic_due = due(state.step, config.critic_target_every)
    critics, critics_target, q_loss, q_metrics = descend_and_follow(
        state.critics,
        state.critics_target,
        lambda phi: critic_loss(phi, state, batch, critic_key, config),
        critic_rate,
        config.critic_target_rate * critic_due,
        config.critic_clip_norm,
    )
    policy, policy_target, pi_loss, pi_metrics = descend_and_follow(
        state.policy,
        state.policy_target,
        lambda theta: policy_loss(theta, critics.params, batch, policy_key, config),
        rate,
        config.policy_target_rate * policy_due,
        config.clip_norm,
        weight_decay,
    )
    new = State(policy, policy_target, critics, critics_target, state.step + 1)
    return new, {"critic_loss": q_loss, "policy_loss": pi_loss, **q_metrics, **pi_metrics}


def acting_network(state: State, policy: str) -> tuple[Any, str]:
    """The network that acts, for policies of one call."""
    return (state.policy.params, "online") if policy == "online" else (state.policy_target, "ema")


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
    sample: Sample,
) -> Float[Array, "b a"]:
    """A sample of the EMA or the online policy; with N candidates, the target critics choose among N."""
    policy = state.policy.params if acting.policy == "online" else state.policy_target
    return values.choose(
        lambda s, k: sample(policy, s, k),
        lambda s, a: values.aggregate(state.critics_target(s, a), config.aggregation),
        observations,
        key,
        acting,
    )
