"""Implicit Q-learning (IQL): values by expectile regression, a policy by weighted imitation.

    initialize V_ψ, critics Q_φ1, Q_φ2, a copy φ′, and a Gaussian policy π_θ
    for each update:
        draw (s, a, r, s′) from the data
        u  = min_i Q_φi′(s, a) − V_ψ(s)
        ψ  ← Adam on E |κ − 1[u < 0]| u²                              only logged actions are used
        θ  ← Adam on −E min(exp(β (min_i Q_φi′(s, a) − V_ψ(s))), 100) log π_θ(a | s)
        φ  ← Adam on Σ_i E (Q_φi(s, a) − r − γ · mask · V_ψ(s′))²
        φ′ ← (1 − ρ) φ′ + ρ φ

The defaults are the authors' code on D4RL: policy and critics use ψ after its step, only the policy's rate
follows a cosine, μ = tanh(·) with a learned σ. The FQL family's code is another set of hyperparameters:
`joint` (one Adam over the sum of the losses, so each loss uses the parameters before the update, and φ′
follows the φ before the update), `advantage = "online"`, `unit_std`, no `tanh_mean`, `policy` and `critic`
"fql". Deviation: the data's actions are not clipped to ±(1 − 1e-5), as they are in both codes.

IDQL, IFQL, SRPO and FAWAC use the losses of this file.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import Agent, Batch, Key, Loss, Metrics, Spec
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.learning import Evaluate, Learner, Number, Step, descend, learning_rate, polyak
from bfq.nets import Critics, Value, make_critics, make_policy, style
from bfq.nets.policies import Gaussian

LARGEST_WEIGHT = 100.0


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of IQL."""

    expectile: fields.Fraction = 0.7  # κ: ½ is the mean over the data's actions, 1 their best
    beta: fields.NonNegative = 3.0  # β, how strongly better actions are preferred
    advantage: Literal["target", "online"] = "target"  # critics in the weights; online: FQL family
    joint: bool = False  # losses and the target use the parameters before the update (FQL family)
    schedule: fields.Schedule = "cosine"  # of the policy only: cosine to 0 over `steps`

    # Networks
    policy: fields.PolicyKind = "iql"  # iql (ReLU, orthogonal) | fql (GELU)
    unit_std: bool = False  # σ = 1 instead of a learned σ for each action dimension
    tanh_mean: bool = True  # μ = tanh(·); the distribution itself is not squashed
    dropout: bool = False  # drop a tenth of the policy's hidden units (the authors' on Adroit)
    critic: fields.CriticKind = "iql"  # of Q and V: iql (ReLU, orthogonal) | fql


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    value: Learner  # ψ
    critics: Learner  # φ
    critics_target: Critics  # φ′
    step: Step


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to its original."""
    policy_key, value_key, critic_key = jax.random.split(key, 3)
    mean = make_policy("policy", config.policy, policy_key, spec, config)
    value = make_value(value_key, spec, config)
    critics = make_critics(critic_key, spec, config)
    return State(
        learning.learner(Gaussian(mean, config.unit_std, config.tanh_mean)),
        learning.learner(value),
        learning.learner(critics),
        critics,
        jnp.zeros((), jnp.int32),
    )


def make_value(key: Key, spec: Spec, config: Any) -> Value:
    """A random V, of the same kind as the critics."""
    own = style(config.critic_activation, config.critic_norm)
    return Value(key, spec[0], config.critic, config.critic_width, config.critic_depth, **own)


def check_one_width(config: Any) -> None:
    """Refuse several widths for a network whose layers all have one."""
    if isinstance(config.width, str):
        raise ValueError("a residual network has one width: give a number, and its depth.")


def expectile_loss(difference: Float[Array, "*b"], expectile: Number) -> Float[Array, ""]:
    """E |κ − 1[u < 0]| u²: its minimizer is the κ-expectile, the mean at κ = ½ and the maximum at κ → 1."""
    weight = jnp.where(difference < 0.0, 1.0 - expectile, expectile)
    return (weight * jnp.square(difference)).mean()


def expectile_value_loss(
    value: Any, targets: Evaluate, batch: Batch, expectile: Number, *how: Any
) -> Loss:
    """L_V = E |κ − 1[u < 0]| u², u = min_i Q_i′(s, a) − V(s); `how` to aggregate instead of min."""
    q = targets(batch.observations, batch.actions)
    q = jax.lax.stop_gradient(learning.aggregate(q, *(how or ("min",))))
    v = value(batch.observations)
    loss = expectile_loss(q - v, expectile)
    return loss, {"value_loss": loss, "v": v.mean()}


def fit_value(
    state: Any, batch: Batch, config: Any, rate: Number
) -> tuple[Learner, Float[Array, ""], Metrics]:
    """One Adam step of V on the target critics."""
    given = (state.critics_target, batch, config.expectile, config.aggregation, config.pessimism)
    return descend(state.value, lambda psi: expectile_value_loss(psi, *given), rate)


def value_backup_loss(critics: Evaluate, value: Any, batch: Batch, discount: Number) -> Loss:
    """L_Q = Σ_i E (Q_i(s, a) − r − γ · mask · V(s′))², without gradient into V."""
    next_values = value(batch.next_observations)[None]
    target = learning.td_target(batch.rewards, batch.masks, next_values, discount, "min")
    q = critics(batch.observations, batch.actions)
    loss = learning.critic_loss(q, target)
    return loss, {"critic_loss": loss, "q": q.mean()}


def advantage_weights(advantage: Float[Array, " b"], temperature: Number) -> Float[Array, " b"]:
    """min(exp(β A), 100), without gradient: the weight of a logged action in imitation."""
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(temperature * advantage), LARGEST_WEIGHT))


def policy_loss(
    policy: Gaussian, critics: Critics, value: Value, batch: Batch, key: Key, config: Config
) -> Loss:
    """L_π(θ) = −E min(exp(β (min_i Q_i(s, a) − V(s))), 100) log π_θ(a | s)."""
    q = learning.aggregated(critics(batch.observations, batch.actions), config)
    advantage = q - value(batch.observations)
    weights = advantage_weights(advantage, config.beta)
    log_prob = policy.log_prob(batch.observations, batch.actions, key if config.dropout else None)
    metrics = {"bc_loss": -log_prob.mean(), "advantage": advantage.mean(), "weight": weights.mean()}
    return -(weights * log_prob).mean(), metrics


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of value, policy, critics and target, in that order or all at once."""
    constant = learning_rate(config.critic_rate(), "constant", state.step, config.steps)
    falling = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    value, _, v_metrics = fit_value(state, batch, config, constant)
    current = state.value.params if config.joint else value.params
    judge = state.critics.params if config.advantage == "online" else state.critics_target
    policy, pi_loss, pi_metrics = descend(
        state.policy, lambda theta: policy_loss(theta, judge, current, batch, key, config), falling
    )
    critics, _, q_metrics = descend(
        state.critics, lambda phi: value_backup_loss(phi, current, batch, config.discount), constant
    )
    followed = state.critics.params if config.joint else critics.params
    target = polyak(state.critics_target, followed, config.critic_target_rate)
    new = State(policy, value, critics, target, state.step + 1)
    return new, {"policy_loss": pi_loss, **v_metrics, **pi_metrics, **q_metrics}


AGENT = Agent(
    "iql",
    "Implicit Q-learning",
    Config,
    init,
    update,
    reference="Kostrikov, Nair and Levine, Offline Reinforcement Learning with Implicit Q-Learning, "
    "ICLR 2022",
    defaults="the authors' code for D4RL locomotion",
    **DETERMINISTIC,
)
