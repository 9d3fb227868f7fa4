"""SAC-N: soft actor-critic with N critics; the least of them is the value, which is low where data is rare.

    initialize a squashed Gaussian π_θ, critics Q_φ1 … Q_φN, a copy φ′, and log α = 0
    for each update:
        draw (s, a, r, s′) from the data
        ã ~ π_θ(s),   θ ← Adam on E [α log π_θ(ã | s) − min_i Q_φi(s, ã)]
        log α ← Adam on −log α · E [log π_θ(ã | s) + H̄],  H̄ = −d                   d numbers per action
        a′ ~ π_θ(s′), y = r + γ · mask · (min_i Q_φi′(s′, a′) − α log π_θ(a′ | s′))
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)²
        φ′ ← (1 − ρ) φ′ + ρ φ
    act: tanh μ_θ(s)

The order of the steps is that of the EDAC authors' code: policy and α with the critics before their step, the
critics with the policy and α after theirs. Deviations: α is moved by the draw of the policy's loss, after it;
log(1 − tanh² u) is exact, not log(1 − tanh² u + 1e-6); one layer gives μ and log σ; 1,000,000 updates, not
3,000,000. The published comparison on locomotion needs up to 500 critics (Hopper); EDAC needs at most 50.

This file also holds what EDAC and CQL share with it: the state, the policy's and the temperature's step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import Agent, Batch, Key, Loss, Metrics, Spec
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.learning import Learner, Step, descend, learning_rate
from bfq.nets import Critics, make_critics, make_policy
from bfq.nets.policies import Squashed


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of SAC-N."""

    critic_count: fields.Count = 10  # N, critics
    critic_learning_rate: fields.NonNegative = 0.0  # Adam, for the critics; 0: as the policy

    # Networks
    policy: fields.PolicyKind = "rebrac"  # ReLU, biases of 0.1, last layer near zero
    depth: fields.Depth = 3  # hidden layers of the policy
    critic: fields.CriticKind = "edac"  # ReLU, biases of 0.1, last layer near zero
    critic_depth: fields.Depth = 3  # hidden layers of a critic

    critic_rate = learning.varied_critic_rate


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    critics: Learner  # φ
    critics_target: Critics  # φ′
    temperature: Learner  # log α
    step: Step


def init(key: Key, spec: Spec, config: Any, least: float = -5.0, shift: float = 0.0) -> State:
    """Random networks, the target equal to the critics, α = 1; `least` and `shift` are those of log σ."""
    policy_key, critic_key = jax.random.split(key)
    s, a = spec
    net = make_policy("policy", config.policy, policy_key, Spec(s, 2 * a), config)
    critics = make_critics(critic_key, spec, config)
    policy, temperature = Squashed(net, least, shift), jnp.zeros(())
    zero = jnp.zeros((), jnp.int32)
    learners = [learning.learner(one) for one in (policy, critics, temperature)]
    return State(learners[0], learners[1], critics, learners[2], zero)


def policy_loss(policy: Squashed, state: State, batch: Batch, key: Key, config: Any) -> Loss:
    """L(θ) = E [α log π_θ(ã | s) − min_i Q_φi(s, ã)], ã ~ π_θ."""
    actions, log_prob = policy.draw(batch.observations, key)
    q = learning.aggregated(state.critics.params(batch.observations, actions), config)
    loss = (jnp.exp(state.temperature.params) * log_prob - q).mean()
    return loss, {"q_policy": q.mean(), "entropy": -log_prob.mean()}


def temperature_loss(
    log_alpha: Float[Array, ""], entropy: Float[Array, ""], action_dim: int
) -> tuple[Float[Array, ""], None]:
    """L(log α) = log α · (H(π_θ) − H̄): α falls while the entropy is above H̄ = −d."""
    return log_alpha * jax.lax.stop_gradient(entropy + action_dim), None


def soft_target(state: State, batch: Batch, key: Key, config: Any) -> Float[Array, " b"]:
    """y = r + γ · mask · (min_i Q_φi′(s′, a′) − α log π_θ(a′ | s′)), a′ ~ π_θ."""
    actions, log_prob = state.policy.params.draw(batch.next_observations, key)
    values = state.critics_target(batch.next_observations, actions)
    soft = values - jnp.exp(state.temperature.params) * log_prob
    return learning.backup(batch, soft, config)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Any) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)²."""
    q = critics(batch.observations, batch.actions)
    return learning.critic_loss(q, soft_target(state, batch, key, config)), {"q": q.mean()}


def update(
    critic_loss: Callable[..., Loss], state: State, batch: Batch, key: Key, config: Any
) -> tuple[State, Metrics]:
    """One step of the policy, of α, of the critics and of their target, in this order."""
    policy_key, critic_key = jax.random.split(key)
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    critic_rate = learning_rate(config.critic_rate(), config.schedule, state.step, config.steps)
    policy, pi_loss, pi_metrics = descend(
        state.policy, lambda theta: policy_loss(theta, state, batch, policy_key, config), rate
    )
    entropy, action_dim = pi_metrics["entropy"], batch.actions.shape[-1]
    temperature, _, _ = descend(
        state.temperature, lambda log: temperature_loss(log, entropy, action_dim), rate
    )
    now = state._replace(policy=policy, temperature=temperature)
    critics, target, q_loss, q_metrics = learning.descend_with_target(
        state.critics,
        state.critics_target,
        lambda phi: critic_loss(phi, now, batch, critic_key, config),
        critic_rate,
        config.critic_target_rate,
    )
    new = State(policy, critics, target, temperature, state.step + 1)
    metrics = {"policy_loss": pi_loss, "alpha": jnp.exp(temperature.params), "critic_loss": q_loss}
    return new, {**metrics, **pi_metrics, **q_metrics}


AGENT = Agent(
    "sac_n",
    "SAC-N, soft actor-critic with an ensemble",
    Config,
    init,
    partial(update, critic_loss),
    reference="An, Moon, Kim and Song, Uncertainty-Based Offline Reinforcement Learning with Diversified "
    "Q-Ensemble, NeurIPS 2021",
    defaults="the authors' for D4RL's HalfCheetah",
    **DETERMINISTIC,
)
