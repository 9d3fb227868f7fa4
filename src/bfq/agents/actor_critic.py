"""State, update and acting of agents with a policy, its moving average and two critics.

An agent defines how its policy samples and its two losses; everything else is shared.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import Acting, Actions, Batch, Key, Loss, Metrics, Observations, Spec
from bfq.agents.learning import Learner, Step, due, learning_rate
from bfq.nets import Critics, make_critics, make_policy

CriticLoss = Callable[[Any, Any, Batch, Key, Any], Loss]  # (φ, state, …)
PolicyLoss = Callable[[Any, Critics, Batch, Key, Any], Loss]  # (θ, φ, …)
Sample = Callable[..., Actions]  # (θ, s, key, config), and how to act if not as in training


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters that these agents share; an agent adds its own and may change defaults."""

    # Value
    eta: fields.NonNegative = 1.0  # η, the strength of value guidance
    guidance: fields.Guidance = "random"  # random (Q_k over |Q_j|) | mean | unnormalized (FQL)
    backup_samples: fields.Count = 1  # 10: max-Q backup (AntMaze)
    backup_best: fields.BackupBest = "each"  # each critic's maximum | together: of their mean

    # Optimization
    schedule: fields.Schedule = "cosine"  # to 0 over `steps`; warmup_cosine: MeanFlowQL
    clip_norm: fields.Fixed = 0.0  # bound on the policy's gradient norm; 0: none
    critic_clip_norm: fields.Fixed = 0.0  # bound on the critics' gradient norm; 0: none

    # Targets
    critic_target_every: fields.Count = 1  # updates between two moves of φ′
    policy_target_rate: fields.Fraction = 0.005  # ρ for θ′
    policy_target_every: fields.Count = 5  # updates between two moves of θ′
    policy_target_start: fields.StartStep = 1000  # first update at which θ′ moves

    # Networks
    depth: fields.Depth = 3  # hidden layers, or residual blocks, of the policy
    critic: fields.CriticKind = "clean_diffuser"  # clean_diffuser | plain (official DQL, CAC)
    critic_depth: fields.Depth = 3  # hidden layers of a critic

    # Not hyperparameters, except of agents that declare them.
    weight_decay = 0.0
    constant_critic_rate = False

    def check(self) -> None:
        """Refuse to draw one of two critics where there are more or fewer."""
        if self.guidance == "random" and self.critic_count != 2:
            raise ValueError("guidance random needs two critics: choose mean, min or first.")


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: Any  # θ′
    critics: Learner  # φ
    critics_target: Critics  # φ′
    step: Step


def initial_state(role: str, kind: str, key: Key, spec: Spec, config: Config, *more: Any) -> State:
    """A random policy, a network of this role and kind, and random critics; targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    policy = make_policy(role, kind, policy_key, spec, config, *more)
    critics = make_critics(critic_key, spec, config)
    zero = jnp.zeros((), jnp.int32)
    return State(learning.learner(policy), policy, learning.learner(critics), critics, zero)


def backup_target(
    sample: Sample, state: State, batch: Batch, key: Key, config: Config
) -> Float[Array, " b"]:
    """y = r + γ · mask · min_i Q_φi′(s′, a′), a′ ~ π_θ′; of several a′ the best one."""
    next_values = learning.backup_values(
        state.critics_target,
        lambda s, k: sample(state.policy_target, s, k, config),
        batch.next_observations,
        key,
        config.backup_samples,
        config.backup_best,
    )
    return learning.backup(batch, next_values, config)


def fit_critics(critics: Critics, batch: Batch, target: Float[Array, " b"]) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)²."""
    q = critics(batch.observations, batch.actions)
    return learning.critic_loss(q, target), {"q": q.mean()}


def update_networks(
    critic_loss: CriticLoss,
    policy_loss: PolicyLoss,
    state: State,
    batch: Batch,
    key: Key,
    config: Config,
) -> tuple[State, Metrics]:
    """Update the critics, then the policy with the new critics, and move both targets."""
    critic_key, policy_key = jax.random.split(key)
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    schedule = "constant" if config.constant_critic_rate else config.schedule
    critic_rate = learning_rate(config.critic_rate(), schedule, state.step, config.steps)
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
        config.weight_decay,
    )
    new = State(policy, policy_target, critics, critics_target, state.step + 1)
    return new, {"critic_loss": q_loss, "policy_loss": pi_loss, **q_metrics, **pi_metrics}


def acting_network(state: State, policy: str) -> tuple[Any, str]:
    """The network that acts, for policies of one network call."""
    return (state.policy.params, "online") if policy == "online" else (state.policy_target, "ema")


def select(
    sample: Sample, state: State, observations: Observations, key: Key, config: Any, acting: Acting
) -> Actions:
    """Best of N samples of the EMA or the online policy, by the target critics."""
    policy, _ = acting_network(state, acting.policy)
    return learning.best_of_n(
        lambda s, k: sample(policy, s, k, config, acting),
        lambda s, a: learning.aggregated(state.critics_target(s, a), config),
        observations,
        key,
        acting,
    )
