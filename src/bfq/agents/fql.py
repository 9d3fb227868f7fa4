"""Flow Q-Learning (FQL): a flow imitates the data, and a one-step policy is distilled from it and raises Q.

    for each update, every loss at the parameters before it:
        # policy evaluation
        a′ = clip(μ_ω(z′; s′)),  y = r + γ · mask · Q̄_φ′(s′, a′)      the one-step policy itself, no copy
        L_Q = mean_i E (Q_φi(s, a) − y)²
        # imitation
        L_flow = E ‖v_θ(x_t, t; s) − (a − x0)‖²,  x_t = (1 − t) x0 + t a
        # distillation and improvement
        μ = sg clip(K Euler steps of v_θ from z)
        L_distil = E ‖μ_ω(z; s) − μ‖²                                  the student's output is not clipped
        L_π = L_flow + α L_distil − E Q̄_φ(s, clip μ_ω(z; s)) [/ sg E|Q̄_φ|]      no gradient into φ
        (φ, θ, ω) ← one Adam on L_Q + L_π
        φ′ ← (1 − ρ) φ′ + ρ φ                                          with φ before the step

FQL's authors give no locomotion settings. The paper's numbers there are a port by OFQL's authors with
normalized Q and an α for each task; that is the default here. Other tasks have FQL's raw Q (`normalize_q`).

Deviations from the reference: none in the update but 1e-6 added to E|Q̄| in the normalization. Logged actions
are not pulled in to ±(1 − 1e-5). With several candidates, the online critics choose, as in IFQL.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Agent, Batch, Metrics, Spec, hyperparameters, joint, values
from bfq.agents.checks import check_common
from bfq.agents.joint import State
from bfq.flow.forward import drawn_errors, push
from bfq.nets.critic import Critics
from bfq.nets.flow_nets import FlowNet


@hyperparameters
class Config:
    """Hyperparameters of FQL; the defaults are those of the port to locomotion."""

    steps: int = (
        1_000_000  # updates; the same for all methods here, FQL itself has half of them on D4RL
    )
    batch_size: int = 256  # transitions an update
    alpha: float = 1.0  # α, the strength of the distillation
    normalize_q: bool = True  # divide by sg E|Q̄|; FQL itself does not
    flow_steps: int = 10  # K, Euler steps of the distillation's target
    discount: float = 0.99  # γ
    aggregation: str = (
        "mean"  # mean | min (clipped double Q), in the TD target and among candidates
    )
    learning_rate: float = 3e-4  # Adam
    schedule: str = "constant"  # constant | cosine | warmup_cosine
    critic_target_rate: float = 0.005  # ρ for φ′
    width: int = 512  # units of a hidden layer of the flow and of the one-step policy
    depth: int = 4  # their hidden layers
    critic: str = "fql"  # Linear, GELU, LayerNorm
    critic_width: int = 512  # units of a hidden layer of a critic
    critic_depth: int = 4  # hidden layers of a critic

    def check(self) -> None:
        """Refuses words that are no choice and numbers that cannot be."""
        check_common(self)


class Networks(NamedTuple):
    """What the one optimizer moves."""

    critics: Critics  # φ
    flow: FlowNet  # θ
    policy: FlowNet  # ω


def init(key: PRNGKeyArray, spec: Spec, config: Config) -> State:
    """Random networks, the target equal to the critics."""
    critic_key, flow_key, policy_key = jax.random.split(key, 3)
    critics = Critics(critic_key, *spec, config.critic, config.critic_width, config.critic_depth)
    flow = FlowNet(flow_key, *spec, config.width, config.depth, numbers=1)
    policy = FlowNet(policy_key, *spec, config.width, config.depth)
    return joint.begin(Networks(critics, flow, policy))


def sample(
    policy: FlowNet, observations: Float[Array, "b s"], key: PRNGKeyArray, temperature: float = 1.0
) -> Float[Array, "b a"]:
    """a = clip(μ_ω(z; s), −1, 1), z ~ temperature · N(0, I): one network call."""
    noise = temperature * jax.random.normal(key, (len(observations), policy.action_dim))
    return jnp.clip(policy(noise, observations), -1.0, 1.0)


def distillation(
    policy: FlowNet,
    flow: FlowNet,
    observations: Float[Array, "b s"],
    noise: Float[Array, "b a"],
    flow_steps: int,
) -> tuple[Float[Array, ""], Float[Array, "b a"]]:
    """L_distil = E ‖μ_ω(z; s) − sg clip(flow_θ(z; s))‖² and the student's actions, not clipped."""
    taught = jnp.clip(push(flow, noise, observations, flow_steps), -1.0, 1.0)
    actions = policy(noise, observations)
    return jnp.square(actions - jax.lax.stop_gradient(taught)).mean(), actions


def policy_loss(
    networks: Networks, before: Networks, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_π = L_flow + α L_distil − E Q̄_φ(s, clip μ_ω(z; s)), the last divided by its size if normalized.

    The critics and the flow that teaches are those `before` the step, so that no gradient reaches them.
    """
    flow_key, noise_key = jax.random.split(key)
    bc_loss = drawn_errors(networks.flow, batch.actions, batch.observations, flow_key).mean()
    noise = jax.random.normal(noise_key, batch.actions.shape)
    distil_loss, actions = distillation(
        networks.policy, before.flow, batch.observations, noise, config.flow_steps
    )
    q = before.critics(batch.observations, jnp.clip(actions, -1.0, 1.0))
    loss = bc_loss + config.alpha * distil_loss - values.improvement(q, config.normalize_q)
    told = {
        "policy_loss": loss,
        "bc_loss": bc_loss,
        "distil_loss": distil_loss,
        "q_policy": q.mean(),
    }
    return loss, told


def total_loss(
    networks: Networks, state: State, batch: Batch, key: PRNGKeyArray, config: Config
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q + L_π."""
    critic_key, policy_key = jax.random.split(key)
    before = state.networks.params
    td, td_metrics = values.td_loss(
        networks.critics,
        state.critics_target,
        lambda s, k: sample(before.policy, s, k),
        batch,
        critic_key,
        config.discount,
        config.aggregation,
    )
    improvement, metrics = policy_loss(networks, before, batch, policy_key, config)
    return td + improvement, {**td_metrics, **metrics}


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
    """One network call an action; with N candidates, the online critics choose among N of them."""
    networks = state.networks.params
    return values.choose(
        lambda s, k: sample(networks.policy, s, k, acting.temperature),
        lambda s, a: values.aggregate(networks.critics(s, a), config.aggregation),
        observations,
        key,
        acting,
    )


REFERENCE = "Park, Li and Levine, Flow Q-Learning, ICML 2025"
AGENT = Agent(
    "fql",
    "Flow Q-Learning",
    Config,
    init,
    update,
    act,
    network=lambda state, policy: (state.networks.params.policy, "online"),
    watched=("distil_loss",),
    reference=REFERENCE,
    defaults="OFQL's port of FQL to locomotion",
    ignores=lambda config: ("policy",),
)
