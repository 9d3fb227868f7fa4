"""What the FQL family shares: one Adam over all networks, a target that lags, and acting by Euler steps.

Every loss of an update sees the parameters before it, and so does the target: it follows the critics as they
were before the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Metrics, learning, values
from bfq.agents.learning import Learner, Step, descend, learning_rate, towards
from bfq.flow.forward import sample
from bfq.nets.critic import Critics
from bfq.nets.flow_nets import FlowNet

Config = Any  # the agent's own, with the common names


class State(NamedTuple):
    """Everything that training changes."""

    networks: Learner  # the agent's own tuple of networks, with critics φ in it
    critics_target: Critics  # φ′
    step: Step


def begin(networks: Any) -> State:
    """Fresh networks, the target equal to the critics."""
    return State(learning.learner(networks), networks.critics, jnp.zeros((), jnp.int32))


def improve(
    state: State, loss: Callable[[Any], tuple[Array, Metrics]], config: Config
) -> tuple[State, Metrics]:
    """One Adam step on the sum of the losses; φ′ ← (1 − ρ) φ′ + ρ φ with φ before the step."""
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    networks, _, metrics = descend(state.networks, loss, rate)
    target = towards(state.critics_target, state.networks.params.critics, config.critic_target_rate)
    return State(networks, target, state.step + 1), metrics


def act(
    critics: Critics,
    flow: FlowNet,
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    acting: Acting,
    flow_steps: int,
    aggregation: str,
) -> Float[Array, "b a"]:
    """Euler steps from temperature · N(0, I); with N candidates, these critics choose among them."""
    steps = acting.sampling_steps or flow_steps
    return values.choose(
        lambda s, k: sample(flow, s, k, flow.action_dim, steps, acting.temperature),
        lambda s, a: values.aggregate(critics(s, a), aggregation),
        observations,
        key,
        acting,
    )
