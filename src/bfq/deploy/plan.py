"""A policy of one network call as a chain of array operations, shared by all export formats.

    x = [(s − mean) / std, temperature · ε]
    x = activation_k(x W_k + b_k)            for each layer k
    y = x | tanh(x) | temperature · ε − x    the output rule
    a = low + ½ (clip(y, −1, 1) + 1) (high − low)

The embeddings of the times (r, t) = (0, 1) are constants, added to the bias of the first layer.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Agent
from bfq.agents.registry import agent_names, get_agent
from bfq.data.transforms import Transforms
from bfq.errors import BadInput
from bfq.nets.mlp import MLP
from bfq.nets.policies import Deterministic, Gaussian, Squashed
from bfq.nets.velocity import EmbeddedVelocity, FlowNet, RawTimeVelocity

Floats = npt.NDArray[np.float32]


class Layer(NamedTuple):
    """activation(x W + b)."""

    weight: Floats
    bias: Floats
    activation: str  # a name of bfq.nets.mlp.ACTIVATIONS, or none


@dataclass(frozen=True)
class PolicyPlan:
    """All numbers of a policy, in the order of their use."""

    layers: tuple[Layer, ...]
    output: str  # plain | tanh | noise_minus
    noise_dim: int  # standard normal numbers per action; 0 for a deterministic policy
    temperature: float  # factor on this noise
    transforms: Transforms

    @property
    def observation_dim(self) -> int:
        """Numbers in an observation."""
        return len(self.transforms.observation_mean)

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return len(self.transforms.action_low)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the NumPy runtime needs besides the arrays."""
        return {
            "noise_dim": self.noise_dim,
            "temperature": float(self.temperature),
            "activations": [layer.activation for layer in self.layers],
            "output": self.output,
        }


def plan_of(
    agent: Agent, state: Any, policy: str, temperature: float, transforms: Transforms
) -> tuple[PolicyPlan, str]:
    """Return the plan of one member, and whether it is the "ema" or the "online" policy."""
    sizes = len(transforms.observation_mean), len(transforms.action_low)
    acting = agent.network(state, policy) if agent.network else None
    try:
        if acting is None:
            raise ValueError("acts in several network calls")
        layers, noise_dim, output = _chain(acting[0], *sizes)
    except ValueError as error:
        names = ", ".join(name for name in agent_names() if get_agent(name).network)
        raise BadInput(
            f"this {agent.name} {error}, but an exported policy is one call of an MLP without layer "
            f"norm: choose other settings of {names}, or name such a network as `network` in the "
            "registration of your agent."
        ) from error
    if not all(np.isfinite(part).all() for layer in layers for part in layer[:2]):
        raise BadInput("this member's weights are not finite: its training has diverged.")
    temperature = temperature if noise_dim else 0.0
    return PolicyPlan(layers, output, noise_dim, temperature, transforms), acting[1]


def _chain(network: Any, s: int, a: int) -> tuple[tuple[Layer, ...], int, str]:
    """The layers of a network on [s, noise], the numbers of noise, and the output rule."""
    kind = type(network)
    if kind is EmbeddedVelocity:  # [a_t, embedding of t, embedding of r, s] with t = 1, r = 0
        code = network.code(jnp.zeros(()), jnp.ones(()))
        rows = [slice(-s, None), slice(0, a)]
        return _layers(network.trunk, rows, slice(a, -s), code), a, "noise_minus"
    if kind is RawTimeVelocity:  # [s, a_t, t, r] with t = 1, r = 0
        times = np.array([1.0, 0.0])
        layers = _layers(network.trunk, [slice(0, s + a)], slice(s + a, None), times)
        return layers, a, "noise_minus"
    if kind is FlowNet and len(network.trunk.hidden[0].weight) == s + a:  # [s, z]: one step
        return _layers(network.trunk, [slice(0, s + a)]), a, "plain"
    if kind in (Deterministic, Gaussian):
        bounded = kind is Deterministic or network.tanh_mean
        return _layers(network.mean, [slice(0, s)]), 0, "tanh" if bounded else "plain"
    if kind is Squashed:  # the other half of the last layer is log σ
        *hidden, last = _layers(network.net, [slice(0, s)])
        mean = Layer(last.weight[:, :a].copy(), last.bias[:a], last.activation)
        return (*hidden, mean), 0, "tanh"
    raise ValueError(f"acts with a {kind.__name__}, or in several network calls")


def _layers(
    mlp: MLP, rows: list[slice], constant: slice | None = None, code: Any = None
) -> tuple[Layer, ...]:
    """The MLP's layers; `rows` of the first layer are kept in this order, others are constant."""
    if mlp.norm != "none":
        raise ValueError("acts with a network that has layer norm")
    linears = [*mlp.hidden, mlp.output]
    weights = [np.asarray(linear.weight, np.float64) for linear in linears]
    biases = [np.asarray(linear.bias, np.float64) for linear in linears]
    if constant is not None:
        biases[0] = biases[0] + np.asarray(code, np.float64) @ weights[0][constant]
    weights[0] = np.concatenate([weights[0][kept] for kept in rows])
    parts = zip(weights, biases, (*mlp.activations, "none"), strict=True)
    return tuple(
        Layer(np.ascontiguousarray(weight, np.float32), bias.astype(np.float32), activation)
        for weight, bias, activation in parts
    )
