"""A policy of one network pass as a chain of array operations, which every exported format shares.

    x = [(s − mean) / std, temperature · ε]
    x = activation_k(x W_k + b_k)            for each layer k
    y = x | tanh(x) | temperature · ε − x    the output rule
    a = low + ½ (clip(y, −1, 1) + 1) (high − low)

The embeddings of the times (r, t) = (0, 1) are constants and stand in the first layer's bias.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.agents import Agent
from bfq.data.transforms import Transforms
from bfq.errors import BadInput
from bfq.nets.mlp import MLP, FlowNet
from bfq.nets.policies import Deterministic, Gaussian
from bfq.nets.velocity import EmbeddedVelocity, RawTimeVelocity

Floats = npt.NDArray[np.float32]


class Layer(NamedTuple):
    """activation(x W + b)."""

    weight: Floats
    bias: Floats
    activation: str  # a name of bfq.nets.mlp.ACTIVATIONS, or none


@dataclass(frozen=True)
class Plan:
    """All numbers of a policy, and in which order they meet."""

    layers: tuple[Layer, ...]
    output: str  # plain | tanh | noise_minus
    noise_dim: (
        int  # standard normal numbers an action is drawn with; 0: it follows from the observation
    )
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


EXPORTABLE = (
    "a file holds one call of an MLP: bfq and ofql (embedded or raw_time), fql, iql, td3_bc, rebrac, srpo "
    "and bc (gaussian or deterministic) can be exported, and an agent of your own if `network` in its "
    "registration returns such a network"
)


def plan_of(
    agent: Agent, state: Any, policy: str, temperature: float, transforms: Transforms
) -> tuple[Plan, str]:
    """The plan of one member, and whether it is the "ema" or the "online" policy."""
    acting = agent.network(state, policy) if agent.network else None
    if acting is None:
        raise BadInput(
            f"this {agent.name} cannot be exported, it acts in several calls; {EXPORTABLE}."
        )
    network, which = acting
    sizes = len(transforms.observation_mean), len(transforms.action_low)
    if type(network) not in _PASSES:
        kind = type(network).__name__
        raise BadInput(
            f"this {agent.name} cannot be exported, it acts by its {kind}; {EXPORTABLE}."
        )
    layers, noise_dim, output = _PASSES[type(network)](network, *sizes)
    if not all(np.isfinite(part).all() for layer in layers for part in layer[:2]):
        raise BadInput("this member's weights are not finite: its training has diverged.")
    return Plan(layers, output, noise_dim, temperature if noise_dim else 0.0, transforms), which


Pass = tuple[tuple[Layer, ...], int, str]  # layers, numbers of noise, output rule


def _embedded(network: EmbeddedVelocity, s: int, a: int) -> Pass:
    """[a_t, embedding of t, embedding of r, s] with t = 1, r = 0."""
    code = network.code(jnp.zeros(()), jnp.ones(()))
    return (
        _chain(network.trunk, [slice(-s, None), slice(0, a)], slice(a, -s), code),
        a,
        "noise_minus",
    )


def _raw_time(network: RawTimeVelocity, s: int, a: int) -> Pass:
    """[s, a_t, t, r] with t = 1, r = 0."""
    layers = _chain(network.trunk, [slice(0, s + a)], slice(s + a, None), np.array([1.0, 0.0]))
    return layers, a, "noise_minus"


def _noise_first(network: FlowNet, s: int, a: int) -> Pass:
    """[s, z]: FQL's one-step policy."""
    if len(network.trunk.hidden[0].weight) != s + a:
        raise BadInput(f"a FlowNet that is told times acts in several passes; {EXPORTABLE}.")
    return _chain(network.trunk, [slice(0, s + a)]), a, "plain"


def _deterministic(network: Deterministic, s: int, a: int) -> Pass:
    return _chain(network.mean, [slice(0, s)]), 0, "tanh"


def _gaussian(network: Gaussian, s: int, a: int) -> Pass:
    return _chain(network.mean, [slice(0, s)]), 0, "tanh" if network.tanh_mean else "plain"


_PASSES: dict[type, Callable[..., Pass]] = {
    EmbeddedVelocity: _embedded,
    RawTimeVelocity: _raw_time,
    FlowNet: _noise_first,
    Deterministic: _deterministic,
    Gaussian: _gaussian,
}


def _chain(
    mlp: MLP, rows: list[slice], constant: slice | None = None, code: Any = None
) -> tuple[Layer, ...]:
    """The MLP's layers; of the first one's inputs some are kept, in this order, and some are constant."""
    if mlp.norm != "none":
        raise BadInput("a policy with layer norm cannot be exported.")
    linears = [*mlp.hidden, mlp.output]
    weights = [np.asarray(linear.weight, np.float64) for linear in linears]
    biases = [np.asarray(linear.bias, np.float64) for linear in linears]
    if constant is not None:
        biases[0] = biases[0] + np.asarray(code, np.float64) @ weights[0][constant]
    weights[0] = np.concatenate([weights[0][kept] for kept in rows])
    return tuple(
        Layer(np.ascontiguousarray(weight, np.float32), bias.astype(np.float32), activation)
        for weight, bias, activation in zip(
            weights, biases, (*mlp.activations, "none"), strict=True
        )
    )
