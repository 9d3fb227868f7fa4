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

As in the authors' code, the first update already moves the policy, which uses the critics after their step;
φ′ follows the new φ, but θ′ follows θ before its step. `joint` selects the FQL family's code instead: one
Adam over the sum of the losses, so the policy uses the critics before their step, both targets follow the
parameters before the update, the critics' losses are averaged, the first policy step is in the second update,
and an update without one still moves θ by Adam's momentum, with a gradient of zero.
Deviations: the α₂ penalty is left out where the episode ends before a′. The references use the next row
instead; in D4RL's files that is a true a′ before a time-out (0.1 % of HalfCheetah's rows), because the row
that the time-out drops has an action. 1e-6 is added to E|Q|; the data's actions are not clipped to
±(1 − 1e-5), as they are in the FQL family.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning, td3_bc
from bfq.agents.contract import Actions, Agent, Batch, Key, Loss, Metrics
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.learning import Learner, descend, learning_rate, polyak
from bfq.agents.td3_bc import State
from bfq.errors import BadInput
from bfq.nets import Critics
from bfq.nets.policies import Deterministic


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of ReBRAC."""

    batch_size: fields.Count = 1024  # transitions per update
    policy_penalty: fields.NonNegative = 1.0  # α₁, on ‖π_θ(s) − a‖²; each task has its own
    critic_penalty: fields.NonNegative = 1.0  # α₂, on the distance from the data's next action
    target_noise: fields.NonNegative = 0.2  # standard deviation of the noise on ã
    target_noise_bound: fields.NonNegative = 0.5  # bound on that noise
    policy_every: fields.Count = 2  # updates between two steps of the policy and of both targets
    joint: bool = False  # losses and targets use the parameters before the update (FQL family)

    # Optimization
    learning_rate: fields.NonNegative = 1e-3  # Adam, for the policy
    critic_learning_rate: fields.NonNegative = 0.0  # for the critics; 0: as the policy
    policy_target_rate: fields.Fraction = 0.005  # ρ for θ′

    # Networks
    policy: fields.PolicyKind = "rebrac"  # rebrac (ReLU, last layer near zero) | fql (GELU)
    depth: fields.Depth = 3  # hidden layers of the policy
    critic: fields.CriticKind = "rebrac"  # rebrac (ReLU and LayerNorm) | fql (GELU and LayerNorm)
    critic_depth: fields.Depth = 3  # hidden layers of a critic

    critic_rate = learning.varied_critic_rate


def target_penalty(following: Actions, batch: Batch) -> Float[Array, " b"]:
    """‖ã − a′‖², summed over dimensions; 0 where the log ends before a′."""
    if batch.next_actions is None or batch.next_known is None:
        raise BadInput(
            "rebrac needs the action logged after each transition, and whether there is one."
        )
    return batch.next_known * jnp.square(following - batch.next_actions).sum(-1)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ (min_j Q_φj′(s′, ã) − α₂ ‖ã − a′‖²))²."""
    following = td3_bc.smoothed_target(state, batch, key, config)
    penalty = target_penalty(following, batch)
    next_values = (
        state.critics_target(batch.next_observations, following) - config.critic_penalty * penalty
    )
    target = learning.backup(batch, next_values, config)
    q = critics(batch.observations, batch.actions)
    loss = learning.critic_loss(q, target, averaged=config.joint)
    return loss, {"q": q.mean(), "target_penalty": penalty.mean()}


def policy_loss(policy: Deterministic, critics: Critics, batch: Batch, config: Config) -> Loss:
    """L(θ) = α₁ E ‖π_θ(s) − a‖² − E Q / sg E|Q|, Q = min_i Q_φi(s, π_θ(s))."""
    actions = policy(batch.observations)
    q = critics(batch.observations, actions)
    bc_loss = jnp.square(actions - batch.actions).sum(-1).mean()
    lowest = learning.aggregated(q, config)
    loss = config.policy_penalty * bc_loss - learning.normalize_by_magnitude(lowest)
    return loss, {"bc_loss": bc_loss, "q_policy": lowest.mean()}


def coast(policy: Learner, rate: Float[Array, ""]) -> Learner:
    """An Adam step with a gradient of zero: the moments decay and still move θ."""
    return descend(policy, lambda theta: (jnp.zeros(()), None), rate)[0]


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of the critics; at every second one, of policy and targets too."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    critic_rate = learning_rate(config.critic_rate(), config.schedule, state.step, config.steps)
    critics, q_loss, q_metrics = descend(
        state.critics, lambda phi: critic_loss(phi, state, batch, key, config), critic_rate
    )
    judge = state.critics.params if config.joint else critics.params
    idle = state._replace(critics=critics)

    def update_policy(now: State) -> State:
        policy, loss, metrics = descend(
            state.policy, lambda theta: policy_loss(theta, judge, batch, config), rate
        )
        return now._replace(
            policy=policy,
            policy_target=polyak(now.policy_target, state.policy.params, config.policy_target_rate),
            critics_target=polyak(now.critics_target, judge, config.critic_target_rate),
            told={"policy_loss": loss, **metrics},
        )

    if config.joint:
        idle = idle._replace(policy=coast(state.policy, rate))
    new = learning.every(state.step + config.joint, config.policy_every, update_policy, idle)
    return new._replace(step=state.step + 1), {"critic_loss": q_loss, **q_metrics, **new.told}


AGENT = Agent(
    "rebrac",
    "Revisited BRAC",
    Config,
    td3_bc.init,
    update,
    needs=("next_actions",),
    reference="Tarasov, Kurenkov, Nikulin and Kolesnikov, Revisiting the Minimalist Approach to Offline "
    "Reinforcement Learning, NeurIPS 2023",
    defaults="the authors' code for D4RL locomotion",
    **DETERMINISTIC,
)
