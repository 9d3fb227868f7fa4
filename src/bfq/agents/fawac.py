"""Flow AWAC (FAWAC): a flow imitates logged actions, better ones more strongly.

    for each update, every loss uses the parameters before it:
        # policy evaluation
        a′ = clip(K Euler steps of v_θ from z′),  y = r + γ · mask · Q̄_φ′(s′, a′)      no copy of the policy
        L_Q = mean_i E (Q_φi(s, a) − y)²
        # advantage-weighted imitation
        V(s) = Q̄_φ(s, clip(K Euler steps of v_θ from z))      one sample of the policy; or a network
        w = sg min(exp(α (Q̄_φ(s, a) − V(s))), 100)
        L_π = E w ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        (φ, θ) ← one Adam on L_Q + L_π
        φ′ ← (1 − ρ) φ′ + ρ φ                                 with φ before the step

FQL's authors released no code for FAWAC, and their paper does not define V. There are two readings:
`baseline = "policy"` is AWAC's V, the value of the policy's own action, by one sample; `baseline = "network"`
is a network V_ψ(s) with the loss E (V_ψ(s) − Q̄_φ′(s, a))² in the same optimizer, as in reimplementations.
The limit of 100 on the weights is IQL's. Q̄ is the mean over critics here, also where the TD target uses their
min. With several candidates, the online critics select. Logged actions are not clipped to ±(1 − 1e-5), unlike
in FQL's code.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, fql, iql
from bfq.agents.contract import Agent, Batch, Key, Loss, Observations, Spec
from bfq.agents.fql import Networks, State
from bfq.flow.matching import random_matching_errors
from bfq.nets import ActionNetwork, Critics, Value, make_critics, make_policy


@fields.hyperparameters
class Config(fql.FlowConfig):
    """Hyperparameters of FAWAC."""

    alpha: fields.NonNegative = 3.0  # α, the inverse temperature of the weights
    baseline: Literal["policy", "network"] = "policy"  # V: one sample, as AWAC | regressed on Q


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, flow_key, value_key = jax.random.split(key, 3)
    critics = make_critics(critic_key, spec, config)
    flow = make_policy("flow", "fql", flow_key, spec, config, 1)
    value = None
    if config.baseline == "network":
        value = iql.make_value(value_key, spec, config)
    return fql.joint_state(Networks(critics, flow, value=value))


def baseline(
    networks: Networks, observations: Observations, key: Key, flow_steps: int
) -> Float[Array, " b"]:
    """V_ψ(s) if there is such a network, else Q̄_φ(s, a^π) with one a^π of the policy."""
    if networks.value is not None:
        return networks.value(observations)
    actions = fql.propose(networks, observations, key, flow_steps)
    return networks.critics(observations, actions).mean(0)


def policy_loss(
    flow: ActionNetwork, before: Networks, batch: Batch, key: Key, config: Config
) -> Loss:
    """L_π = E min(exp(α (Q̄_φ(s, a) − V(s))), 100) ‖v_θ(x_t, t; s) − (a − x0)‖²."""
    flow_key, action_key = jax.random.split(key)
    errors = random_matching_errors(flow, batch.actions, batch.observations, flow_key)
    v = baseline(before, batch.observations, action_key, config.flow_steps)
    advantage = before.critics(batch.observations, batch.actions).mean(0) - v
    weights = iql.advantage_weights(advantage, config.alpha)
    loss = (weights * errors).mean()
    parts = {"bc_loss": errors.mean(), "v": v.mean(), "weight": weights.mean()}
    return loss, {"policy_loss": loss, **parts}


def value_loss(value: Value | None, targets: Critics, batch: Batch) -> Float[Array, ""]:
    """E (V_ψ(s) − Q̄_φ′(s, a))², if V is a network."""
    if value is None:
        return jnp.zeros(())
    q = targets(batch.observations, batch.actions).mean(0)
    return jnp.square(value(batch.observations) - q).mean()


def total_loss(networks: Networks, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q + L_V + L_π; targets and weights use the networks before the step."""
    critic_key, policy_key = jax.random.split(key)
    before = state.networks.params
    proposal = partial(fql.propose, before, steps=config.flow_steps)
    td = fql.td_loss(networks.critics, state.critics_target, proposal, batch, critic_key, config)
    fitted = value_loss(networks.value, state.critics_target, batch)
    imitation = policy_loss(networks.flow, before, batch, policy_key, config)
    return fql.added(td, (fitted, {}), imitation)


AGENT = Agent(
    "fawac",
    "Flow AWAC",
    Config,
    init,
    partial(fql.joint_update, total_loss),
    fql.act,
    samplers=("euler",),
    ignores=lambda config: ("policy",),
    reference="Park, Li and Levine, Flow Q-Learning, ICML 2025, where it is a baseline",
    defaults="FQL's frame",
)
