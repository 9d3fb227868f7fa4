"""The multi-layer perceptron, with the three places where reference codes put their layer norm."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.kernels.device import use
from bfq.kernels.layers import layers, suits
from bfq.nets.layers import ACTIVATIONS, Initialiser, LayerNorm, Linear, normalised, torch_uniform


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
        initialise: Initialiser = torch_uniform,
        initialise_output: Initialiser | None = None,
        norm_epsilon: float = 1e-5,
    ):
        keys = jax.random.split(key, depth + 1)
        sizes = [fan_in] + [width] * depth
        self.hidden = tuple(
            Linear(k, i, o, initialise) for k, (i, o) in zip(keys[:-1], pairwise(sizes), strict=True)
        )
        self.norms = () if norm == "none" else tuple(LayerNorm(width, norm_epsilon) for _ in range(depth))
        self.output = Linear(keys[-1], sizes[-1], fan_out, initialise_output or initialise)
        self.activations = (first_activation or activation,) + (activation,) * (depth - 1)
        self.norm = norm

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Maps the last axis."""
        return self.output(hidden_layers(self.hidden, self.activations, self.norms, self.norm, x))


class Finish(NamedTuple):
    """What follows the bias in a hidden layer."""

    activation: str
    norm: str
    epsilon: float

    def __call__(self, z: Float[Array, "*b o"], *norm: Float[Array, "... o"]) -> Float[Array, "*b o"]:
        """F(z), with the scale and the shift of the norm if there is one, for all rows or for each."""
        z = normalised(z, self.epsilon, *norm) if self.norm == "before" else z
        h = ACTIVATIONS[self.activation](z)
        return normalised(h, self.epsilon, *norm) if self.norm == "after" else h


def hidden_layers(
    linears: Sequence[Linear],
    activations: Sequence[str],
    norms: Sequence[LayerNorm],
    order: str,
    x: Float[Array, "*b i"],
) -> Float[Array, "*b o"]:
    """Products, their biases, and what follows: on a GPU in one kernel after each product."""
    told: list[tuple[Array, ...]] = [(norm.scale, norm.shift) for norm in norms] or [()] * len(linears)
    epsilon = norms[0].epsilon if norms else 0.0
    finishes = [Finish(activation, order, epsilon) for activation in activations]
    if use().kernels and suits(x, linears[0].weight.shape[1]):
        weights = tuple(linear.weight for linear in linears)
        parameters = tuple((linear.bias, *norm) for linear, norm in zip(linears, told, strict=True))
        return layers(tuple(finishes), x, weights, parameters)
    for linear, finish, norm in zip(linears, finishes, told, strict=True):
        x = finish(linear(x), *norm)
    return x
