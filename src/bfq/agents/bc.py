"""Behavior cloning (BC): imitation of the data, without a critic.

for each update:
    draw (s, a) from the data
    gaussian:       θ ← Adam on −log N(a; μ_θ(s), σ_θ² I)        σ learned; or 1, as the FQL family has it
    deterministic:  θ ← Adam on ‖tanh μ_θ(s) − a‖²
    flow:           θ ← Adam on ‖v_θ(a_t, t; s) − (ε − a)‖²      conditional flow matching
act: the mean; or K Euler steps a ← a − v_θ(a, t; s)/K from noise at t = 1 to t = 0

The flow uses BFQ's networks with r = t, so the two methods differ in nothing else; the reference has no r.
Logged actions are not clipped to ±(1 − 1e-5), unlike in the FQL family.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning
from bfq.agents.contract import Acting, Actions, Agent, Batch, Key, Metrics, Observations, Spec
from bfq.agents.learning import Learner, Step, descend, learning_rate
from bfq.flow.matching import euler, matching_loss
from bfq.nets import constructor, style
from bfq.nets.policies import Deterministic, Gaussian


@fields.hyperparameters
class Config:
    """Hyperparameters of BC."""

    steps: fields.Count = 1_000_000  # gradient updates
    batch_size: fields.Count = 256  # transitions per update
    kind: Literal["gaussian", "deterministic", "flow"] = "gaussian"  # form of the policy
    unit_std: bool = False  # gaussian: σ = 1 and FQL's initial weights, not a learned σ
    flow_steps: fields.Count = 10  # flow: K, Euler steps of acting
    learning_rate: fields.NonNegative = 3e-4  # Adam
    schedule: fields.Schedule = "constant"  # of the learning rate
    discount: fields.Fraction = 0.99  # γ; only reports use it
    activation: fields.Activation = "relu"  # of the gaussian and the deterministic policy
    norm: fields.OwnNorm = ""  # layer norm of the gaussian and the deterministic policy
    width: fields.Width = 256  # units of a hidden layer; 256x128: of each one
    depth: fields.Depth = 2  # hidden layers
    architecture: fields.Architecture = "embedded"  # flow: network of the velocity
    time_scale: fields.Count = 10  # flow: factor on t before its sinusoidal embedding

    check = fields.check_residual


class State(NamedTuple):
    """The policy, its moments, and the number of updates."""

    policy: Learner
    step: Step


def init(key: Key, spec: Spec, config: Config) -> State:
    """A random policy of the chosen kind."""
    policy: Any
    if config.kind == "flow":
        policy = constructor("velocity", config.architecture)(
            key, *spec, config.width, config.depth, config.time_scale
        )
    else:
        make = constructor("policy", "fql" if config.unit_std else "relu")
        own = style(config.activation, config.norm)
        mean = make(key, *spec, config.width, config.depth, **own)
        policy = (
            Deterministic(mean)
            if config.kind == "deterministic"
            else Gaussian(mean, config.unit_std)
        )
    return State(learning.learner(policy), jnp.zeros((), jnp.int32))


def policy_loss(policy: Any, batch: Batch, key: Key, kind: str) -> Float[Array, ""]:
    """−E log N(a; μ(s), σ²I), E ‖tanh μ(s) − a‖², or L_CFM = E ‖v_θ(a_t, t; s) − (ε − a)‖²."""
    if kind == "gaussian":
        return -policy.log_prob(batch.observations, batch.actions).mean()
    if kind == "deterministic":
        return jnp.square(policy(batch.observations) - batch.actions).mean()
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, batch.actions.shape)
    t = jax.random.uniform(time_key, batch.rewards.shape)
    return matching_loss(policy, batch.actions, noise, t, batch.observations)


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One gradient step on the loss of the chosen kind."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    policy, value, _ = descend(
        state.policy, lambda theta: (policy_loss(theta, batch, key, config.kind), None), rate
    )
    return State(policy, state.step + 1), {"bc_loss": value}


def act(
    state: State, observations: Observations, key: Key, config: Config, acting: Acting
) -> Actions:
    """The mean action; a flow integrates from temperature · N(0, I) in K steps."""
    policy = state.policy.params
    if config.kind == "flow":
        noise = acting.temperature * jax.random.normal(key, (len(observations), policy.action_dim))
        action = euler(lambda x, t: policy(x, t, t, observations), noise, config.flow_steps)
    else:
        action = policy(observations)
    return jnp.clip(action, -1.0, 1.0)


def one_pass(state: State, policy: str) -> tuple[Any, str] | None:
    """The policy, unless it is a flow, which acts in several network calls."""
    network = state.policy.params
    return (network, "online") if isinstance(network, Deterministic | Gaussian) else None


AGENT = Agent(
    "bc",
    "Behavior cloning",
    Config,
    init,
    update,
    act,
    chooses=False,
    network=one_pass,
    defaults="CORL's sizes",
    ignores=lambda config: ("policy",) if config.kind == "flow" else ("policy", "temperature"),
)
