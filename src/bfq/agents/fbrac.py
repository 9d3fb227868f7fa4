"""Flow behavior-regularized actor-critic (FBRAC): a flow policy that maximizes Q through all of its steps.

    for each update, every loss uses the parameters before it:
        # policy evaluation
        a′ = clip(K Euler steps of v_θ from z′),  y = r + γ · mask · Q̄_φ′(s′, a′)      no copy of the policy
        L_Q = mean_i E (Q_φi(s, a) − y)²
        # imitation and improvement
        L_flow = E ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        a^π = clip(K Euler steps of v_θ from z)               backpropagation through all K steps
        L_π = α L_flow − E Q̄_φ(s, a^π) [/ sg E|Q̄_φ|]          no gradient into φ
        (φ, θ) ← one Adam on L_Q + L_π
        φ′ ← (1 − ρ) φ′ + ρ φ                                 with φ before the step

The published comparison on locomotion (OFQL's) trains with `flow_steps = 5` and acts with
`sampling_steps = 1`; by default, training and acting use the same ten steps, as in FQL's paper.

FQL's authors released no code for FBRAC: this is their paper's text in the frame of their FQL, as in
reimplementations. The normalized Q (`normalize_q`) and its α are not published for locomotion and were chosen
here. Deviations: 1e-6 is added to E|Q̄|; logged actions are not clipped to ±(1 − 1e-5). With several
candidates, the online critics select.
"""

from functools import partial

import jax

from bfq.agents import fields, fql
from bfq.agents.contract import Agent, Batch, Key, Loss, Spec
from bfq.agents.fql import Networks, State
from bfq.flow.matching import random_matching_errors, sample
from bfq.nets import ActionNetwork, Critics, make_critics, make_policy


@fields.hyperparameters
class Config(fql.FlowConfig):
    """Hyperparameters of FBRAC."""

    alpha: fields.NonNegative = 1.0  # α, the strength of imitation
    normalize_q: bool = True  # divide by sg E|Q̄|; FQL's paper does not


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, flow_key = jax.random.split(key)
    critics = make_critics(critic_key, spec, config)
    flow = make_policy("flow", "fql", flow_key, spec, config, 1)
    return fql.joint_state(Networks(critics, flow))


def policy_loss(
    flow: ActionNetwork, critics: Critics, batch: Batch, key: Key, config: Config
) -> Loss:
    """L_π = α L_flow − E Q̄_φ(s, a^π), the last divided by sg E|Q̄_φ| if normalized."""
    flow_key, action_key = jax.random.split(key)
    bc_loss = random_matching_errors(flow, batch.actions, batch.observations, flow_key).mean()
    actions = sample(flow, batch.observations, action_key, flow.action_dim, config.flow_steps)
    q = critics(batch.observations, actions)
    loss = config.alpha * bc_loss - fql.mean_value(q, config.normalize_q)
    return loss, {"policy_loss": loss, "bc_loss": bc_loss, "q_policy": q.mean()}


def total_loss(networks: Networks, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q + L_π; targets, and the critics inside L_π, are those before the step."""
    critic_key, policy_key = jax.random.split(key)
    before = state.networks.params
    proposal = partial(fql.propose, before, steps=config.flow_steps)
    td = fql.td_loss(networks.critics, state.critics_target, proposal, batch, critic_key, config)
    return fql.added(td, policy_loss(networks.flow, before.critics, batch, policy_key, config))


AGENT = Agent(
    "fbrac",
    "Flow BRAC",
    Config,
    init,
    partial(fql.joint_update, total_loss),
    fql.act,
    samplers=("euler",),
    ignores=lambda config: ("policy",),
    reference="Park, Li and Levine, Flow Q-Learning, ICML 2025, where it is a baseline",
    defaults="FQL's frame",
)
