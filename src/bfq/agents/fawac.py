"""Flow AWAC (FAWAC): a flow imitates logged actions, the better ones more.

    for each update, every loss at the parameters before it:
        # policy evaluation
        a′ = clip(K Euler steps of v_θ from z′),  y = r + γ · mask · Q̄_φ′(s′, a′)      no copy of the policy
        L_Q = mean_i E (Q_φi(s, a) − y)²
        # advantage-weighted imitation
        V(s) = Q̄_φ(s, clip(K Euler steps of v_θ from z))      one sample of the policy; or a network
        w = sg min(exp(α (Q̄_φ(s, a) − V(s))), 100)
        L_π = E w ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        (φ, θ) ← one Adam on L_Q + L_π
        φ′ ← (1 − ρ) φ′ + ρ φ                                 with φ before the step

FQL's authors released no code for FAWAC, and their paper does not say what V is. Two readings:
`baseline = "policy"` is AWAC's V, the value of the policy's own action, by one sample; `baseline = "network"`
is a network V_ψ(s) with the loss E (V_ψ(s) − Q̄_φ′(s, a))² in the same optimizer, as others have rebuilt it.
The limit of 100 on the weights is IQL's. Q̄ is the critics' mean here, also where the TD target takes their
least. With several candidates, the online critics choose. Logged actions are not pulled in to ±(1 − 1e-5), as
in FQL's frame.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Agent, Batch, Metrics, Spec, hyperparameters, joint, one_of, values
from bfq.agents.checks import check_common
from bfq.agents.joint import State
from bfq.flow.forward import drawn_errors, sample
from bfq.nets.critic import Critics, Value
from bfq.nets.flow_nets import FlowNet

BASELINES = ("policy", "network")


@hyperparameters
class Config:
    """Hyperparameters of FAWAC."""

    steps: int = (
        1_000_000  # updates; the same for all methods here, FQL's paper has half of them on D4RL
    )
    batch_size: int = 256  # transitions an update
    alpha: float = 3.0  # α, the inverse temperature of the weights
    baseline: str = "policy"  # what V is: policy (one sample, as AWAC) | network (regressed on Q)
    flow_steps: int = 10  # K, Euler steps of the policy in training
    discount: float = 0.99  # γ
    aggregation: str = (
        "mean"  # mean | min (clipped double Q), in the TD target and among candidates
    )
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
        one_of("baseline", self.baseline, BASELINES)


class Networks(NamedTuple):
    """What the one optimizer moves."""

    critics: Critics  # φ
    flow: FlowNet  # θ
    value: Value | None  # ψ, where V is a network


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, flow_key, value_key = jax.random.split(key, 3)
    critics = Critics(critic_key, *spec, config.critic, config.critic_width, config.critic_depth)
    flow = FlowNet(flow_key, *spec, config.width, config.depth, numbers=1)
    value = None
    if config.baseline == "network":
        value = Value(
            value_key, spec.observation_dim, config.critic, config.critic_width, config.critic_depth
        )
    return joint.begin(Networks(critics, flow, value))


def baseline(
    networks: Networks, observations: Float[Array, "b s"], key: PRNGKeyArray, flow_steps: int
) -> Float[Array, " b"]:
    """V_ψ(s) where there is such a network, else Q̄_φ(s, a^π) with one a^π of the policy."""
    if networks.value is not None:
        return networks.value(observations)
    actions = sample(networks.flow, observations, key, networks.flow.action_dim, flow_steps)
    return networks.critics(observations, actions).mean(0)


def policy_loss(
    flow: FlowNet, before: Networks, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_π = E min(exp(α (Q̄_φ(s, a) − V(s))), 100) ‖v_θ(x_t, t; s) − (a − x0)‖²."""
    flow_key, action_key = jax.random.split(key)
    errors = drawn_errors(flow, batch.actions, batch.observations, flow_key)
    v = baseline(before, batch.observations, action_key, config.flow_steps)
    advantage = before.critics(batch.observations, batch.actions).mean(0) - v
    weights = values.advantage_weights(advantage, config.alpha)
    loss = (weights * errors).mean()
    told = {"policy_loss": loss, "bc_loss": errors.mean(), "v": v.mean(), "weight": weights.mean()}
    return loss, told


def value_loss(value: Value | None, targets: Critics, batch: Batch) -> Float[Array, ""]:
    """E (V_ψ(s) − Q̄_φ′(s, a))², where V is a network."""
    if value is None:
        return jnp.zeros(())
    q = targets(batch.observations, batch.actions).mean(0)
    return jnp.square(value(batch.observations) - q).mean()


def total_loss(
    networks: Networks, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q + L_V + L_π; what makes targets and weights is as it was before the step."""
    critic_key, policy_key = jax.random.split(key)
    before = state.networks.params
    td, td_metrics = values.td_loss(
        networks.critics,
        state.critics_target,
        lambda s, k: sample(before.flow, s, k, before.flow.action_dim, config.flow_steps),
        batch,
        critic_key,
        config.discount,
        config.aggregation,
    )
    fitted = value_loss(networks.value, state.critics_target, batch)
    imitation, metrics = policy_loss(networks.flow, before, batch, policy_key, config)
    return td + fitted + imitation, {**td_metrics, **metrics}


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
        networks.critics,
        networks.flow,
        observations,
        key,
        acting,
        config.flow_steps,
        config.aggregation,
    )


REFERENCE = "Park, Li and Levine, Flow Q-Learning, ICML 2025, where it is a baseline"
AGENT = Agent(
    "fawac",
    "Flow AWAC",
    Config,
    init,
    update,
    act,
    samplers=("euler",),
    ignores=lambda config: ("policy",),
    reference=REFERENCE,
    defaults="FQL's frame",
)
