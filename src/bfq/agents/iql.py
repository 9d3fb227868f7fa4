"""Implicit Q-learning (IQL): values by expectile regression, a policy by weighted imitation.

    initialize V_ψ, critics Q_φ1, Q_φ2, a copy φ′, and a Gaussian policy π_θ
    for each update:
        draw (s, a, r, s′) from the data
        u  = min_i Q_φi′(s, a) − V_ψ(s)
        ψ  ← Adam on E |κ − 1[u < 0]| u²                              no action beyond the data is asked
        θ  ← Adam on −E min(exp(β (min_i Q_φi′(s, a) − V_ψ(s))), 100) log π_θ(a | s)
        φ  ← Adam on Σ_i E (Q_φi(s, a) − r − γ · mask · V_ψ(s′))²
        φ′ ← (1 − ρ) φ′ + ρ φ

The defaults are the authors' code on D4RL: policy and critics see ψ after its step, only the policy's rate
falls as a cosine, μ = tanh(·) with a learned σ. The FQL family's code is another set of switches: `joint` (one
Adam over the sum of the losses, so each sees the parameters before the update, and φ′ follows the φ before
the update), `advantage = "online"`, `unit_std`, no `tanh_mean`, `policy` and `critic` "fql".
Deviations: the data's actions are not clipped to ±(1 − 1e-5), as both codes do.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import (
    Acting,
    Agent,
    Batch,
    Metrics,
    Spec,
    hyperparameters,
    learning,
    one_of,
    online_network,
    values,
)
from bfq.agents.checks import check_common
from bfq.agents.learning import Learner, Step, descend, learning_rate, towards
from bfq.nets.critic import Critics, Value
from bfq.nets.policies import KINDS as POLICY_KINDS
from bfq.nets.policies import Gaussian

ADVANTAGES = ("target", "online")


@hyperparameters
class Config:
    """Hyperparameters of IQL."""

    steps: int = 1_000_000  # updates, and the horizon of the policy's cosine schedule
    batch_size: int = 256  # transitions an update
    discount: float = 0.99  # γ
    expectile: float = 0.7  # κ: ½ is the mean over the data's actions, towards 1 their best
    beta: float = 3.0  # β, how sharply better actions are preferred
    advantage: str = (
        "target"  # target | online (FQL family): the critics in the weight of an action
    )
    joint: bool = (
        False  # every loss, and the target, sees the parameters before the update (FQL family)
    )

    # Optimization
    learning_rate: float = 3e-4  # Adam, for all networks
    schedule: str = (
        "cosine"  # of the policy alone: cosine to 0 over `steps` | constant | warmup_cosine
    )
    critic_target_rate: float = 0.005  # ρ for φ′

    # Networks
    policy: str = "iql"  # iql (ReLU, orthogonal) | fql (GELU) | relu | rebrac
    unit_std: bool = False  # σ = 1 instead of a learned σ for each action dimension
    tanh_mean: bool = True  # μ = tanh(·); the distribution itself is never squashed
    dropout: bool = (
        False  # a tenth of the policy's hidden units left out in training (the authors' on Adroit)
    )
    width: int = 256  # units of a hidden layer of the policy
    depth: int = 2  # hidden layers of the policy
    critic: str = "iql"  # of Q and V: iql (ReLU, orthogonal) | fql (GELU and LayerNorm) | …
    critic_width: int = 256  # units of a hidden layer of Q and V
    critic_depth: int = 2  # hidden layers of Q and V

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)
        one_of("advantage", self.advantage, ADVANTAGES)
        one_of("policy", self.policy, POLICY_KINDS)


class State(NamedTuple):
    """Everything that training changes."""

    policy: Learner  # θ
    value: Learner  # ψ
    critics: Learner  # φ
    critics_target: Critics  # φ′
    step: Step


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to its original."""
    policy_key, value_key, critic_key = jax.random.split(key, 3)
    mean = POLICY_KINDS[config.policy](policy_key, *spec, config.width, config.depth)
    size = (config.critic_width, config.critic_depth)
    value = Value(value_key, spec.observation_dim, config.critic, *size)
    critics = Critics(critic_key, *spec, config.critic, *size)
    return State(
        learning.learner(Gaussian(mean, config.unit_std, config.tanh_mean)),
        learning.learner(value),
        learning.learner(critics),
        critics,
        jnp.zeros((), jnp.int32),
    )


def policy_loss(
    policy: Gaussian,
    critics: Critics,
    value: Value,
    batch: Batch,
    key: PRNGKeyArray,
    config: Config,
) -> tuple[Float[Array, ""], Metrics]:
    """L_π(θ) = −E min(exp(β (min_i Q_i(s, a) − V(s))), 100) log π_θ(a | s)."""
    q = values.aggregate(critics(batch.observations, batch.actions), "min")
    advantage = q - value(batch.observations)
    weights = values.advantage_weights(advantage, config.beta)
    log_prob = policy.log_prob(batch.observations, batch.actions, key if config.dropout else None)
    told = {"bc_loss": -log_prob.mean(), "advantage": advantage.mean(), "weight": weights.mean()}
    return -(weights * log_prob).mean(), told


def update(state: State, batch: Batch, key: PRNGKeyArray, config: Config) -> tuple[State, Metrics]:
    """One update of value, policy, critics and target, in that order or all at once."""
    constant = learning_rate(config.learning_rate, "constant", state.step, config.steps)
    falling = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    value, _, v_metrics = descend(
        state.value,
        lambda psi: values.expectile_value_loss(psi, state.critics_target, batch, config.expectile),
        constant,
    )
    seen = state.value.params if config.joint else value.params
    judges = state.critics.params if config.advantage == "online" else state.critics_target
    policy, pi_loss, pi_metrics = descend(
        state.policy, lambda theta: policy_loss(theta, judges, seen, batch, key, config), falling
    )
    critics, _, q_metrics = descend(
        state.critics,
        lambda phi: values.value_backup_loss(phi, seen, batch, config.discount),
        constant,
    )
    followed = state.critics.params if config.joint else critics.params
    target = towards(state.critics_target, followed, config.critic_target_rate)
    new = State(policy, value, critics, target, state.step + 1)
    return new, {"policy_loss": pi_loss, **v_metrics, **pi_metrics, **q_metrics}


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """a = clip(μ_θ(s), ±1)."""
    return jnp.clip(state.policy.params(observations), -1.0, 1.0)


REFERENCE = (
    "Kostrikov, Nair and Levine, Offline Reinforcement Learning with Implicit Q-Learning, ICLR 2022"
)
AGENT = Agent(
    "iql",
    "Implicit Q-learning",
    Config,
    init,
    update,
    act,
    chooses=False,
    ignores=lambda config: ("policy", "temperature"),
    network=online_network,
    reference=REFERENCE,
    defaults="the authors' code for D4RL locomotion",
)
