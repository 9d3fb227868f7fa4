"""ReBRAC: TD3-BC with deep normalized critics and a second penalty, inside the TD target.

    initialize π_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′, a′) from the data, a′ the action logged after s′
        ã  = clip(π_θ′(s′) + clip(0.2 · N(0, I), ±0.5), ±1)
        y  = r + γ · mask · (min_i Q_φi′(s′, ã) − α₂ ‖ã − a′‖²)
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)²
        at every 2nd update:
            θ  ← Adam on α₁ E ‖π_θ(s) − a‖² − E Q / sg E|Q|,  Q = min_i Q_φi(s, π_θ(s))
            θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ

As in the authors' code, the first update already moves the policy, which sees the critics after their step;
φ′ follows the new φ, but θ′ the θ before its step. `joint` is the FQL family's code instead: one Adam over
the sum of the losses, so the policy sees the critics before their step, both targets follow the parameters
before the update, the critics' losses are averaged, the first policy step is that of the second update, and
an update without one still moves θ by Adam's momentum, with a gradient of zero.
Deviations: where the episode ends before a′ the α₂ penalty is left out. The references take whatever row
comes next; in D4RL's files that is a true a′ before a time-out (0.1 % of HalfCheetah's rows), since the row
that the time-out drops has an action. 1e-6 is added to E|Q|; the data's actions are not clipped to
±(1 − 1e-5), as the FQL family does.
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
from bfq.agents.learning import Learner, descend, every, learning_rate, own_or, towards
from bfq.errors import BadInput
from bfq.nets.critic import Critics
from bfq.nets.policies import KINDS as POLICY_KINDS
from bfq.nets.policies import Deterministic


@hyperparameters
class Config:
    """Hyperparameters of ReBRAC."""

    steps: int = 1_000_000  # updates of the critics
    batch_size: int = 1024  # transitions an update
    discount: float = 0.99  # γ
    policy_penalty: float = (
        1.0  # α₁, on the policy's distance from the data's action; each task has its own
    )
    critic_penalty: float = 1.0  # α₂, on its distance from the data's next action
    target_noise: float = 0.2  # standard deviation of the noise on ã
    target_noise_bound: float = 0.5  # bound on that noise
    policy_every: int = 2  # updates between two steps of the policy and of both targets
    joint: bool = (
        False  # every loss, and both targets, see the parameters before the update (FQL family)
    )

    # Optimization
    learning_rate: float = 1e-3  # Adam, for the policy
    critic_learning_rate: float = 0.0  # for the critics; 0: as the policy's
    schedule: str = "constant"  # constant | cosine | warmup_cosine
    critic_target_rate: float = 0.005  # ρ for φ′
    policy_target_rate: float = 0.005  # ρ for θ′

    # Networks
    policy: str = "rebrac"  # rebrac (ReLU, last layer near zero) | fql (GELU) | relu | iql
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 3  # hidden layers of the policy
    critic: str = "rebrac"  # rebrac (ReLU and LayerNorm) | fql (GELU and LayerNorm) | …
    critic_width: int = 256  # units of a hidden layer of a critic
    critic_depth: int = 3  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        one_of("policy", self.policy, POLICY_KINDS)


def target_penalty(following: Float[Array, "b a"], batch: Batch) -> Float[Array, " b"]:
    """‖ã − a′‖², summed over dimensions; 0 where the log ends before a′."""
    if batch.next_actions is None or batch.next_known is None:
        raise BadInput(
            "rebrac needs the action logged after each transition, and whether there is one."
        )
    return batch.next_known * jnp.square(following - batch.next_actions).sum(-1)


def critic_loss(
    critics: Critics, state: deterministic.State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ (min_j Q_φj′(s′, ã) − α₂ ‖ã − a′‖²))²."""
    following = deterministic.smoothed_target(state, batch, key, config)
    penalty = target_penalty(following, batch)
    next_values = (
        state.critics_target(batch.next_observations, following) - config.critic_penalty * penalty
    )
    target = values.td_target(batch.rewards, batch.masks, next_values, config.discount, "min")
    q = critics(batch.observations, batch.actions)
    loss = values.critic_loss(q, target, averaged=config.joint)
    return loss, {"q": q.mean(), "target_penalty": penalty.mean()}


def policy_loss(
    policy: Deterministic, critics: Critics, batch: Batch, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L(θ) = α₁ E ‖π_θ(s) − a‖² − E Q / sg E|Q|, Q = min_i Q_φi(s, π_θ(s))."""
    actions = policy(batch.observations)
    q = critics(batch.observations, actions)
    bc_loss = jnp.square(actions - batch.actions).sum(-1).mean()
    loss = config.policy_penalty * bc_loss - values.in_its_size(q.min(0))
    return loss, {"bc_loss": bc_loss, "q_policy": q.min(0).mean()}


def coast(policy: Learner, rate: Float[Array, ""]) -> Learner:
    """An Adam step on no loss at all: the moments fade and still move θ."""
    return descend(policy, lambda theta: (jnp.zeros(()), None), rate)[0]


def update(
    state: deterministic.State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[deterministic.State, Metrics]:
    """One update of the critics; at every second one, of policy and targets too."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    base = own_or(config.critic_learning_rate, config.learning_rate)
    critic_rate = learning_rate(base, config.schedule, state.step, config.steps)
    critics, q_loss, q_metrics = descend(
        state.critics, lambda phi: critic_loss(phi, state, batch, key, config), critic_rate
    )
    seen = state.critics.params if config.joint else critics.params
    idle = state._replace(critics=critics)

    def improve(at: deterministic.State) -> deterministic.State:
        policy, loss, metrics = descend(
            state.policy, lambda theta: policy_loss(theta, seen, batch, config), rate
        )
        return at._replace(
            policy=policy,
            policy_target=towards(at.policy_target, state.policy.params, config.policy_target_rate),
            critics_target=towards(at.critics_target, seen, config.critic_target_rate),
            told={"policy_loss": loss, **metrics},
        )

    if config.joint:
        idle = idle._replace(policy=coast(state.policy, rate))
    new = every(state.step + config.joint, config.policy_every, improve, idle)
    return new._replace(step=state.step + 1), {"critic_loss": q_loss, **q_metrics, **new.told}


REFERENCE = (
    "Tarasov, Kurenkov, Nikulin and Kolesnikov, Revisiting the Minimalist Approach to Offline "
    "Reinforcement Learning, NeurIPS 2023"
)
AGENT = Agent(
    "rebrac",
    "Revisited BRAC",
    Config,
    deterministic.begin,
    update,
    deterministic.act,
    chooses=False,
    ignores=lambda config: ("policy", "temperature"),
    needs=("next_actions",),
    network=online_network,
    reference=REFERENCE,
    defaults="the authors' code for D4RL locomotion",
)
