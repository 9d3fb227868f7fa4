"""The multi-layer perceptron, with the three places where reference codes put their layer norm."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import (
    ACTIVATIONS,
    Initializer,
    LayerNorm,
    Linear,
    normalized,
    torch_uniform,
)
from bfq.nets.primitives import replaceable


class MLP(eqx.Module):
    """`depth` hidden layers of `width`, then a linear output.

    `norm` is "none", "before" (Linear, LayerNorm, activation: CleanDiffuser) or "after" (Linear,
    activation, LayerNorm: FQL, ReBRAC). `first_activation` is CleanDiffuser's Tanh in its critic.
    """

    hidden: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]
    output: Linear
    activations: tuple[str, ...] = eqx.field(static=True)
    norm: str = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        fan_in: int,
        fan_out: int,
        width: int,
        depth: int,
        activation: str,
        norm: str = "none",
        first_activation: str = "",
        initialize: Initializer = torch_uniform,
        initialize_output: Initializer | None = None,
        norm_epsilon: float = 1e-5,
    ):
        keys = jax.random.split(key, depth + 1)
        sizes = [fan_in] + [width] * depth
        self.hidden = tuple(
            Linear(k, i, o, initialize)
            for k, (i, o) in zip(keys[:-1], pairwise(sizes), strict=True)
        )
        self.norms = (
            () if norm == "none" else tuple(LayerNorm(width, norm_epsilon) for _ in range(depth))
        )
        self.output = Linear(keys[-1], sizes[-1], fan_out, initialize_output or initialize)
        self.activations = (first_activation or activation,) + (activation,) * (depth - 1)
        self.norm = norm

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Map the last axis."""
        epsilon = self.norms[0].epsilon if self.norms else 0.0
        finishes = [Finish(activation, self.norm, epsilon) for activation in self.activations]
        norms: list[tuple[Array, ...]] = [(norm.scale, norm.shift) for norm in self.norms] or [
            ()
        ] * len(self.hidden)
        return apply_layers(self.hidden, finishes, norms, self.output, x)


class Finish(NamedTuple):
    """What follows the bias in a hidden layer: the activation, and the layer norm if there is one."""

    activation: str
    norm: str = "none"
    epsilon: float = 0.0

    def __call__(self, z: Float[Array, "*b o"], *norm: Float[Array, " o"]) -> Float[Array, "*b o"]:
        """The hidden units; `norm` holds the scale and the shift of the layer norm."""
        z = normalized(z, self.epsilon, *norm) if self.norm == "before" else z
        h = ACTIVATIONS[self.activation](z)
        return normalized(h, self.epsilon, *norm) if self.norm == "after" else h


@replaceable
def apply_layers(
    hidden: Sequence[Linear],
    finishes: Sequence[Finish],
    norms: Sequence[tuple[Array, ...]],
    output: Linear,
    x: Float[Array, "*b i"],
) -> Float[Array, "*b o"]:
    """h ← finish(h W + b) for each hidden layer, then the linear output."""
    for linear, finish, norm in zip(hidden, finishes, norms, strict=True):
        x = finish(linear(x), *norm)
    return output(x)
