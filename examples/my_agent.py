"""Regularized actor-critic: a policy that imitates the data and climbs Q, the smallest such agent.

    for each update:
        draw (s, a, r, s′) from the data
        y  = r + γ · mask · min_i Q_φi′(s′, π_θ(s′))
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)²
        θ  ← Adam on E ‖π_θ(s) − a‖² / d − η E Q̄_φ(s, π_θ(s)) / sg E|Q̄_φ|
        φ′ ← (1 − ρ) φ′ + ρ φ

Train it with `bfq train --agent examples/my_agent.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

import bfq
from bfq.agents import fields, learning
from bfq.nets import Critics
from bfq.nets.mlp import MLP
from bfq.nets.policies import Deterministic


@bfq.hyperparameters
class Config:
    """Numbers are checked against their types; each can have several values in one run."""

    steps: fields.Count = 100_000  # gradient updates
    batch_size: fields.Count = 256  # transitions per update
    discount: fields.Fraction = 0.99  # γ
    learning_rate: fields.NonNegative = 3e-4  # Adam
    eta: fields.NonNegative = 1.0  # η, the strength of value guidance
    target_rate: fields.Fraction = 0.005  # ρ
    width: fields.Width = 256  # units of a hidden layer


class State(NamedTuple):
    """Everything that training changes: a pytree of arrays with a `step`."""

    policy: learning.Learner  # θ and its Adam moments
    critics: learning.Learner  # φ
    critics_target: Critics  # φ′
    step: jax.Array


def init(key, spec, config):
    """Random networks; `spec` has the numbers of an observation and of an action."""
    policy_key, critic_key = jax.random.split(key)
    policy = Deterministic(MLP(policy_key, *spec, config.width, 2, "relu"))  # tanh of an MLP
    critics = Critics(critic_key, *spec, "fql", config.width, 2)
    start = jnp.zeros((), jnp.int32)
    return State(learning.learner(policy), learning.learner(critics), critics, start)


def critic_loss(critics, state, batch, config):
    """Σ_i E (Q_φi(s, a) − y)²."""
    next_actions = state.policy.params(batch.next_observations)
    next_values = state.critics_target(batch.next_observations, next_actions)
    y = learning.td_target(batch.rewards, batch.masks, next_values, config.discount, "min")
    q = critics(batch.observations, batch.actions)
    return learning.critic_loss(q, y), q.mean()


def policy_loss(policy, critics, batch, config):
    """E ‖π_θ(s) − a‖² / d − η E Q̄ / sg E|Q̄|."""
    actions = policy(batch.observations)
    q = critics(batch.observations, actions).mean(0)
    bc_loss = jnp.square(actions - batch.actions).mean()
    return bc_loss - config.eta * learning.normalize_by_magnitude(q), bc_loss


def update(state, batch, key, config):
    """One update: the new state, and scalars to record; one of them at least is named `…loss`."""
    rate, rho = config.learning_rate, config.target_rate
    critics, critics_target, q_loss, q = learning.descend_with_target(
        state.critics, state.critics_target, lambda phi: critic_loss(phi, state, batch, config), rate, rho
    )  # fmt: skip
    policy, _, bc_loss = learning.descend(
        state.policy, lambda theta: policy_loss(theta, critics.params, batch, config), rate
    )
    metrics = {"critic_loss": q_loss, "bc_loss": bc_loss, "q": q}
    return State(policy, critics, critics_target, state.step + 1), metrics


def act(state, observations, key, config, acting):
    """Actions in [−1, 1]; `acting` has the candidates and the temperature of the evaluation."""
    return state.policy.params(observations)


AGENT = bfq.Agent(
    name="my_agent",
    title="Regularized actor-critic",
    config=Config,
    init=init,
    update=update,
    act=act,
    chooses=False,  # always one candidate
    ignores=lambda config: ("policy", "temperature"),  # no moving average of the policy, no noise
    network=lambda state, policy: (state.policy.params, "online"),  # for `bfq export`
)
