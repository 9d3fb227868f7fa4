"""TD3-BC: a deterministic policy that climbs Q and stays close to the data's actions.

    initialize π_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        ã  = clip(π_θ′(s′) + clip(0.2 · N(0, I), ±0.5), ±1)
        y  = r + γ · mask · min_i Q_φi′(s′, ã)
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)²
        at every 2nd update:
            θ  ← Adam on E ‖π_θ(s) − a‖² / d − α E Q_φ1(s, π_θ(s)) / sg E|Q_φ1(s, π_θ(s))|
            θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ

As in the authors' code, the policy uses the critics after their step, the first policy step is in the second
update, and the targets follow the new parameters. α is called `eta`, as in the other agents. Deviation: 1e-6
is added to E|Q|. The method has no published settings for OGBench; the presets there use the FQL family's
networks.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import Actions, Agent, Batch, Key, Loss, Metrics, Spec
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.learning import Learner, Step, descend, learning_rate, polyak
from bfq.nets import Critics, make_critics, make_policy
from bfq.nets.policies import Deterministic


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of TD3-BC."""

    eta: fields.NonNegative = 2.5  # α, the strength of value guidance
    target_noise: fields.NonNegative = 0.2  # standard deviation of the noise on ã
    target_noise_bound: fields.NonNegative = 0.5  # bound on that noise
    policy_every: fields.Count = 2  # updates between two steps of the policy and of both targets

    policy_target_rate: fields.Fraction = 0.005  # ρ for θ′

    # Networks
    policy: fields.PolicyKind = "relu"  # relu (the authors') | fql (GELU, as the FQL family)
    critic: fields.CriticKind = "relu"  # relu (the authors') | fql (GELU and LayerNorm)


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    policy_target: Deterministic  # θ′
    critics: Learner  # φ
    critics_target: Critics  # φ′
    told: Metrics  # metrics of the last policy step, repeated until the next one
    step: Step


def init(key: Key, spec: Spec, config: Any) -> State:
    """Random networks, targets equal to them."""
    policy_key, critic_key = jax.random.split(key)
    mean = make_policy("policy", config.policy, policy_key, spec, config)
    policy, critics = Deterministic(mean), make_critics(critic_key, spec, config)
    metrics = {name: jnp.zeros(()) for name in ("policy_loss", "bc_loss", "q_policy")}
    step = jnp.zeros((), jnp.int32)
    return State(
        learning.learner(policy), policy, learning.learner(critics), critics, metrics, step
    )


def smoothed_target(state: State, batch: Batch, key: Key, config: Any) -> Actions:
    """ã = clip(π_θ′(s′) + clip(target_noise · N(0, I), ±target_noise_bound), ±1)."""
    return state.policy_target.smoothed(
        batch.next_observations, key, config.target_noise, config.target_noise_bound
    )


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, ã))²."""
    following = smoothed_target(state, batch, key, config)
    next_values = state.critics_target(batch.next_observations, following)
    target = learning.backup(batch, next_values, config)
    q = critics(batch.observations, batch.actions)
    return learning.critic_loss(q, target), {"q": q.mean()}


def policy_loss(policy: Deterministic, critics: Critics, batch: Batch, config: Config) -> Loss:
    """L(θ) = E ‖π_θ(s) − a‖² / d − α E Q_φ1(s, π_θ(s)) / sg E|Q_φ1(s, π_θ(s))|."""
    actions = policy(batch.observations)
    q = critics(batch.observations, actions)
    bc_loss = jnp.square(actions - batch.actions).mean()
    loss = bc_loss - config.eta * learning.normalize_by_magnitude(q[0])
    return loss, {"bc_loss": bc_loss, "q_policy": q[0].mean()}


def update_policy(state: State, batch: Batch, rate: Float[Array, ""], config: Config) -> State:
    """One step of the policy, then of both targets."""
    policy, loss, metrics = descend(
        state.policy, lambda theta: policy_loss(theta, state.critics.params, batch, config), rate
    )
    return state._replace(
        policy=policy,
        policy_target=polyak(state.policy_target, policy.params, config.policy_target_rate),
        critics_target=polyak(
            state.critics_target, state.critics.params, config.critic_target_rate
        ),
        told={"policy_loss": loss, **metrics},
    )


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of the critics; at every second one, of policy and targets too."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    critics, q_loss, q_metrics = descend(
        state.critics,
        lambda phi: critic_loss(phi, state, batch, key, config),
        learning_rate(config.critic_rate(), config.schedule, state.step, config.steps),
    )
    count = state.step + 1  # the authors count from 1, so the policy waits for the second update
    new = learning.every(
        count,
        config.policy_every,
        lambda now: update_policy(now, batch, rate, config),
        state._replace(critics=critics),
    )
    return new._replace(step=count), {"critic_loss": q_loss, **q_metrics, **new.told}


AGENT = Agent(
    "td3_bc",
    "TD3 with behavior cloning",
    Config,
    init,
    update,
    reference="Fujimoto and Gu, A Minimalist Approach to Offline Reinforcement Learning, NeurIPS 2021",
    defaults="the authors' code",
    **DETERMINISTIC,
)
