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

As in the authors' code, the policy sees the critics after their step, the first policy step is that of the
second update, and the targets follow the new parameters. α is called `eta`, as in the other agents.
Deviations: 1e-6 is added to E|Q|. The method has no published settings for OGBench; the presets there take
the FQL family's networks.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import (
    Agent,
    Batch,
    Metrics,
    deterministic,
    hyperparameters,
    one_of,
    online_network,
    values,
)
from bfq.agents.checks import check_common
from bfq.agents.learning import descend, every, learning_rate, towards
from bfq.nets.critic import Critics
from bfq.nets.policies import KINDS as POLICY_KINDS
from bfq.nets.policies import Deterministic


@hyperparameters
class Config:
    """Hyperparameters of TD3-BC."""

    steps: int = 1_000_000  # updates of the critics
    batch_size: int = 256  # transitions an update
    discount: float = 0.99  # γ
    eta: float = 2.5  # α, the strength of value guidance
    target_noise: float = 0.2  # standard deviation of the noise on ã
    target_noise_bound: float = 0.5  # bound on that noise
    policy_every: int = 2  # updates between two steps of the policy and of both targets

    # Optimization
    learning_rate: float = 3e-4  # Adam, for policy and critics
    schedule: str = "constant"  # constant | cosine | warmup_cosine
    critic_target_rate: float = 0.005  # ρ for φ′
    policy_target_rate: float = 0.005  # ρ for θ′

    # Networks
    policy: str = "relu"  # relu (the authors') | fql (GELU, as the FQL family) | iql | rebrac
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 2  # hidden layers of the policy
    critic: str = (
        "relu"  # relu (the authors') | fql (GELU and LayerNorm) | …, as nets/critic.py has them
    )
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 2  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        one_of("policy", self.policy, POLICY_KINDS)


def critic_loss(
    critics: Critics, state: deterministic.State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, ã))²."""
    following = deterministic.smoothed_target(state, batch, key, config)
    next_values = state.critics_target(batch.next_observations, following)
    target = values.td_target(batch.rewards, batch.masks, next_values, config.discount, "min")
    q = critics(batch.observations, batch.actions)
    return values.critic_loss(q, target), {"q": q.mean()}


def policy_loss(
    policy: Deterministic, critics: Critics, batch: Batch, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = E ‖π_θ(s) − a‖² / d − α E Q_φ1(s, π_θ(s)) / sg E|Q_φ1(s, π_θ(s))|."""
    actions = policy(batch.observations)
    q = critics(batch.observations, actions)
    bc_loss = jnp.square(actions - batch.actions).mean()
    loss = bc_loss - config.eta * values.in_its_size(q[0])
    return loss, {"bc_loss": bc_loss, "q_policy": q[0].mean()}


def improve(
    state: deterministic.State, batch: Batch, rate: Float[Array, ""], config: Config
) -> deterministic.State:
    """One step of the policy, then of both targets."""
    policy, loss, metrics = descend(
        state.policy, lambda theta: policy_loss(theta, state.critics.params, batch, config), rate
    )
    return state._replace(
        policy=policy,
        policy_target=towards(state.policy_target, policy.params, config.policy_target_rate),
        critics_target=towards(
            state.critics_target, state.critics.params, config.critic_target_rate
        ),
        told={"policy_loss": loss, **metrics},
    )


def update(
    state: deterministic.State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[deterministic.State, Metrics]:
    """One update of the critics; at every second one, of policy and targets too."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    critics, q_loss, q_metrics = descend(
        state.critics, lambda phi: critic_loss(phi, state, batch, key, config), rate
    )
    count = state.step + 1  # the authors count from 1, so the policy waits for the second update
    new = every(
        count,
        config.policy_every,
        lambda at: improve(at, batch, rate, config),
        state._replace(critics=critics),
    )
    return new._replace(step=count), {"critic_loss": q_loss, **q_metrics, **new.told}


REFERENCE = "Fujimoto and Gu, A Minimalist Approach to Offline Reinforcement Learning, NeurIPS 2021"
AGENT = Agent(
    "td3_bc",
    "TD3 with behavior cloning",
    Config,
    deterministic.begin,
    update,
    deterministic.act,
    chooses=False,
    ignores=lambda config: ("policy", "temperature"),
    network=online_network,
    reference=REFERENCE,
    defaults="the authors' code",
)
