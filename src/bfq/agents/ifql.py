"""Implicit Flow Q-Learning (IFQL): IQL's values, a flow that imitates, and the best of N of its actions.

    for each update, every loss uses the parameters before it:
        L_V = E |κ − 1[u < 0]| u²,  u = min_i Q_φi′(s, a) − V_ψ(s)
        L_Q = Σ_i E (Q_φi(s, a) − r − γ · mask · V_ψ(s′))²                no gradient into ψ
        L_flow = E ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        (φ, ψ, θ) ← one Adam on L_V + L_Q + L_flow
        φ′ ← (1 − ρ) φ′ + ρ φ                                             with φ before the step
    act: K Euler steps from each of N noises, clip, and take the action with the largest min_i Q_φi

The values never use an action of the policy, so there is no strength of guidance: N takes its place.

Deviation: logged actions are not clipped to ±(1 − 1e-5).
"""

from functools import partial

import jax

from bfq.agents import fields, fql, iql
from bfq.agents.contract import Agent, Batch, Key, Loss, Spec
from bfq.agents.fql import Networks, State
from bfq.flow.matching import random_matching_errors
from bfq.nets import make_critics, make_policy


@fields.hyperparameters
class Config(fql.FlowConfig):
    """Hyperparameters of IFQL."""

    expectile: fields.Fraction = 0.9  # κ
    flow_steps: fields.Count = 10  # K, Euler steps of acting
    aggregation: fields.Aggregation = "min"  # in V's target and among candidates


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, value_key, flow_key = jax.random.split(key, 3)
    critics = make_critics(critic_key, spec, config)
    value = iql.make_value(value_key, spec, config)
    flow = make_policy("flow", "fql", flow_key, spec, config, 1)
    return fql.joint_state(Networks(critics, flow, value=value))


def total_loss(networks: Networks, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_V + L_Q + L_flow, three losses that share no parameter."""
    before = state.networks.params.value
    how = (config.expectile, config.aggregation, config.pessimism)
    fitted, _ = iql.expectile_value_loss(networks.value, state.critics_target, batch, *how)
    td, metrics = iql.value_backup_loss(networks.critics, before, batch, config.discount)
    bc_loss = random_matching_errors(networks.flow, batch.actions, batch.observations, key).mean()
    return fitted + td + bc_loss, {"value_loss": fitted, "bc_loss": bc_loss, **metrics}


AGENT = Agent(
    "ifql",
    "Implicit Flow Q-Learning",
    Config,
    init,
    partial(fql.joint_update, total_loss),
    fql.act,
    samplers=("euler",),
    ignores=lambda config: ("policy",),
    reference="Park, Li and Levine, Flow Q-Learning, ICML 2025, where it is a baseline",
    defaults="the FQL family's code",
)
