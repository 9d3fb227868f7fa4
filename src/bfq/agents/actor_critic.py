"""State, update and acting of agents with a policy, its moving average and two critics.

An agent defines how its policy samples and its two losses; everything else is shared.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import learning
from bfq.agents.contract import Acting, Actions, Batch, Key, Loss, Metrics, Observations, Spec
from bfq.agents.learning import Learner, Number, Step, due, learning_rate
from bfq.nets import Critics

Sample = Callable[[Any, Array, Key], Array]  # (policy, s, key) -> a in [−1, 1]
CriticLoss = Callable[[Any, Any, Batch, Key, Any], tuple[Array, Metrics]]  # (φ, state, …)
PolicyLoss = Callable[[Any, Critics, Batch, Key, Any], tuple[Array, Metrics]]  # (θ, φ, …)
Config = Any  # the agent's own Config, which has the common names of targets, critics and backups


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: Any  # θ′
    critics: Learner  # φ
    critics_target: Critics  # φ′
    step: Step


def initial_state(policy: Any, key: Key, spec: Spec, config: Config) -> State:
    """The policy and random critics, targets equal to them."""
    critics = Critics(key, *spec, config.critic, config.critic_width, config.critic_depth)
    zero = jnp.zeros((), jnp.int32)
    return State(learning.learner(policy), policy, learning.learner(critics), critics, zero)


def backup_target(
    state: State, batch: Batch, key: Key, config: Config, sample: Sample
) -> Float[Array, " b"]:
    """y = r + γ · mask · min_i Q_φi′(s′, a′), a′ ~ π_θ′; of several a′ the best one."""
    next_values = learning.backup_values(
        state.critics_target,
        lambda s, k: sample(state.policy_target, s, k),
        batch.next_observations,
        key,
        config.backup_samples,
        config.backup_best,
    )
    return learning.td_target(
        batch.rewards, batch.masks, next_values, config.discount, config.aggregation
    )


def fit_critics(critics: Critics, batch: Batch, target: Float[Array, " b"]) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)²."""
    q = critics(batch.observations, batch.actions)
    return learning.critic_loss(q, target), {"q": q.mean()}


def update_networks(
    state: State,
    batch: Batch,
    key: Key,
    config: Config,
    critic_loss: CriticLoss,
    policy_loss: PolicyLoss,
    critic_learning_rate: Number | None = None,
    weight_decay: float = 0.0,
    critic_schedule: str | None = None,
) -> tuple[State, Metrics]:
    """Update the critics, then the policy with the new critics, and move both targets.

    Critics use the policy's learning rate and schedule unless their own are given. Weight decay applies to
    the policy only.
    """
    critic_key, policy_key = jax.random.split(key)
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    base = config.learning_rate if critic_learning_rate is None else critic_learning_rate
    critic_rate = learning_rate(base, critic_schedule or config.schedule, state.step, config.steps)
    policy_due = due(state.step, config.policy_target_every, config.policy_target_start)
    critic_due = due(state.step, config.critic_target_every)
    critics, critics_target, q_loss, q_metrics = learning.descend_with_target(
        state.critics,
        state.critics_target,
        lambda phi: critic_loss(phi, state, batch, critic_key, config),
        critic_rate,
        config.critic_target_rate * critic_due,
        config.critic_clip_norm,
    )
    policy, policy_target, pi_loss, pi_metrics = learning.descend_with_target(
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
    """The network that acts, for policies of one network call."""
    return (state.policy.params, "online") if policy == "online" else (state.policy_target, "ema")


def select(
    state: State,
    observations: Observations,
    key: Key,
    config: Config,
    acting: Acting,
    sample: Sample,
) -> Actions:
    """Best of N samples of the EMA or the online policy, by the target critics."""
    policy, _ = acting_network(state, acting.policy)
    return learning.best_of_n(
        lambda s, k: sample(policy, s, k),
        lambda s, a: learning.aggregate(state.critics_target(s, a), config.aggregation),
        observations,
        key,
        acting,
    )
