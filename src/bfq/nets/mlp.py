"""The multi-layer perceptron, with the three places where reference codes put their layer norm."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.kernels.device import use
from bfq.kernels.layers import layers, suits
from bfq.kernels.rounded import full
from bfq.nets.layers import (
    ACTIVATIONS,
    Initializer,
    LayerNorm,
    Linear,
    normalized,
    product,
    torch_uniform,
)


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
        """Maps the last axis."""
        layers = self.hidden, self.activations, self.norms, self.norm, x
        if in_kernels(self.hidden, x) and self.output.weight.shape[1] == 1:
            return hidden_layers(*layers, self.output.weight[:, 0])[..., None] + self.output.bias
        return self.output(hidden_layers(*layers))


class Finish(NamedTuple):
    """What follows the bias in a hidden layer."""

    activation: str
    norm: str
    epsilon: float
    headed: bool = False  # whether the weights of an output of one unit are told too, and applied

    def __call__(self, z: Float[Array, "*b o"], *told: Float[Array, " o"]) -> Float[Array, "..."]:
        """F(z), with the scale and the shift of the norm if there is one."""
        norm, head = (told[:-1], told[-1]) if self.headed else (told, None)
        z = normalized(z, self.epsilon, *norm) if self.norm == "before" else z
        h = ACTIVATIONS[self.activation](z)
        h = normalized(h, self.epsilon, *norm) if self.norm == "after" else h
        return h if head is None else (h * head).sum(-1)


def in_kernels(linears: Sequence[Linear], x: Float[Array, "*b i"]) -> bool:
    """Whether hidden layers of these rows are computed in kernels."""
    return use().kernels and suits(x, linears[0].weight.shape[1])


def hidden_layers(
    linears: Sequence[Linear],
    activations: Sequence[str],
    norms: Sequence[LayerNorm],
    order: str,
    x: Float[Array, "*b i"],
    head: Float[Array, " o"] | None = None,
) -> Float[Array, "..."]:
    """Products, their biases, and what follows: on a GPU in one kernel after each product.

    In kernels, an output of one unit without its bias may be part of the last: `head` are its weights.
    """
    told: list[tuple[Array, ...]] = [(norm.scale, norm.shift) for norm in norms] or [()] * len(
        linears
    )
    epsilon = norms[0].epsilon if norms else 0.0
    finishes = [Finish(activation, order, epsilon) for activation in activations]
    if in_kernels(linears, x):
        weights = tuple(linear.weight for linear in linears)
        parameters = [(linear.bias, *norm) for linear, norm in zip(linears, told, strict=True)]
        if head is not None:
            finishes[-1] = finishes[-1]._replace(headed=True)
            parameters[-1] += (head,)
        return layers(tuple(finishes), x, weights, tuple(parameters))
    own = use().backward and x.ndim == 2
    for linear, finish, norm in zip(linears, finishes, told, strict=True):
        z = product(x, full(linear.weight)) + linear.bias if own else linear(x)
        x = finish(z, *norm)
    return x
