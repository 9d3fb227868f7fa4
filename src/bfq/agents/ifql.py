"""Implicit Flow Q-Learning (IFQL): IQL's values, a flow that imitates, and the best of N of its actions.

    for each update, every loss at the parameters before it:
        L_V = E |κ − 1[u < 0]| u²,  u = min_i Q_φi′(s, a) − V_ψ(s)
        L_Q = Σ_i E (Q_φi(s, a) − r − γ · mask · V_ψ(s′))²                no gradient into ψ
        L_flow = E ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        (φ, ψ, θ) ← one Adam on L_V + L_Q + L_flow
        φ′ ← (1 − ρ) φ′ + ρ φ                                             with φ before the step
    act: K Euler steps from each of N noises, clip, and take the action with the largest min_i Q_φi

The values never see an action of the policy, so there is no strength of guidance: N has that part.

Deviations from the reference: none in the update. Logged actions are not pulled in to ±(1 − 1e-5).
"""

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Agent, Batch, Metrics, Spec, hyperparameters, joint, values
from bfq.agents.checks import check_common
from bfq.agents.joint import State
from bfq.flow.forward import drawn_errors
from bfq.nets.critic import Critics, Value
from bfq.nets.flow_nets import FlowNet


@hyperparameters
class Config:
    """Hyperparameters of IFQL."""

    steps: int = (
        1_000_000  # updates; the same for all methods here, FQL's paper has half of them on D4RL
    )
    batch_size: int = 256  # transitions an update
    expectile: float = 0.9  # κ
    flow_steps: int = 10  # K, Euler steps of acting
    discount: float = 0.99  # γ
    learning_rate: float = 3e-4  # Adam
    schedule: str = "constant"  # constant | cosine | warmup_cosine
    critic_target_rate: float = 0.005  # ρ for φ′
    width: int = 512  # units of a hidden layer of the policy
    depth: int = 4  # hidden layers of the policy
    critic: str = "fql"  # Linear, GELU, LayerNorm
    critic_width: int = 512  # units of a hidden layer of a critic, and of V
    critic_depth: int = 4  # hidden layers of a critic, and of V

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)


class Networks(NamedTuple):
    """What the one optimizer moves."""

    critics: Critics  # φ
    value: Value  # ψ
    flow: FlowNet  # θ


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, value_key, flow_key = jax.random.split(key, 3)
    sizes = (config.critic, config.critic_width, config.critic_depth)
    critics = Critics(critic_key, spec.observation_dim, spec.action_dim, *sizes)
    value = Value(value_key, spec.observation_dim, *sizes)
    flow = FlowNet(flow_key, *spec, config.width, config.depth, numbers=1)
    return joint.begin(Networks(critics, value, flow))


def total_loss(
    networks: Networks, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_V + L_Q + L_flow, three losses that share no parameter."""
    before = state.networks.params.value
    fitted, _ = values.expectile_value_loss(
        networks.value, state.critics_target, batch, config.expectile
    )
    td, told = values.value_backup_loss(networks.critics, before, batch, config.discount)
    bc_loss = drawn_errors(networks.flow, batch.actions, batch.observations, key).mean()
    return fitted + td + bc_loss, {"value_loss": fitted, "bc_loss": bc_loss, **told}


def update(state: State, batch: Batch, key: PRNGKeyArray, config: Config) -> tuple[State, Metrics]:
    """One Adam step on the sum of the losses; the target follows the critics as they were before it."""
    return joint.improve(state, lambda now: total_loss(now, state, batch, key, config), config)


def act(
    state: State,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    config: Config,
    acting: Acting,
) -> Float[Array, "b a"]:
    """Euler steps from temperature · N(0, I); with N candidates, the online critics choose among them."""
    networks = state.networks.params
    return joint.act(
        networks.critics, networks.flow, observations, key, acting, config.flow_steps, "min"
    )


REFERENCE = "Park, Li and Levine, Flow Q-Learning, ICML 2025, where it is a baseline"
AGENT = Agent(
    "ifql",
    "Implicit Flow Q-Learning",
    Config,
    init,
    update,
    act,
    samplers=("euler",),
    ignores=lambda config: ("policy",),
    reference=REFERENCE,
    defaults="the FQL family's code",
)
