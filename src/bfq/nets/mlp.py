"""Layers, activations and multi-layer perceptrons.

Layers act on the last axis and accept any leading axes, so a batch needs no vmap.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.primitives import replaceable

Initializer = Callable[[Key, int, int], tuple[Float[Array, "i o"], Float[Array, " o"]]]


def uniform(bound: float | None = None, bias: float | None = None) -> Initializer:
    """Weights from U(±bound), ±1/√fan_in by default; constant biases, or biases from the same law."""

    def initialize(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        most = fan_in**-0.5 if bound is None else bound
        weight_key, bias_key = jax.random.split(key)
        weight = jax.random.uniform(weight_key, (fan_in, fan_out), minval=-most, maxval=most)
        if bias is not None:
            return weight, jnp.full(fan_out, bias)
        return weight, jax.random.uniform(bias_key, (fan_out,), minval=-most, maxval=most)

    return initialize


torch_uniform = uniform()  # PyTorch's Linear: CleanDiffuser, DQL, TD3-BC


def variance_scaling(scale: float) -> Initializer:
    """Uniform weights of variance scale / fan-average with zero biases, as in the FQL family."""

    def initialize(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        bound = (3.0 * scale * 2.0 / (fan_in + fan_out)) ** 0.5
        weight = jax.random.uniform(key, (fan_in, fan_out), minval=-bound, maxval=bound)
        return weight, jnp.zeros(fan_out)

    return initialize


@replaceable
def mish(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Mish(x) = x · tanh(softplus(x))."""
    return x * jnp.tanh(jax.nn.softplus(x))


def gelu(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """GELU in its tanh approximation, which is what the FQL family uses."""
    return jax.nn.gelu(x, approximate=True)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "mish": mish,
    "gelu": gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
}


class Linear(eqx.Module):
    """y = x W + b."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"]

    def __init__(
        self, key: Key, fan_in: int, fan_out: int, initialize: Initializer = torch_uniform
    ):
        self.weight, self.bias = initialize(key, fan_in, fan_out)

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Apply the map to the last axis."""
        return x @ self.weight + self.bias


class LayerNorm(eqx.Module):
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts."""

    scale: Float[Array, " d"]
    shift: Float[Array, " d"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float = 1e-5):
        self.scale, self.shift, self.epsilon = jnp.ones(width), jnp.zeros(width), epsilon

    def __call__(self, x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Normalize each vector by its own statistics."""
        return normalized(x, self.epsilon, self.scale, self.shift)


def normalized(
    x: Float[Array, "*b d"], epsilon: float, scale: Float[Array, " d"], shift: Float[Array, " d"]
) -> Float[Array, "*b d"]:
    """(x − mean) / √(variance + ε) · scale + shift over the last axis."""
    centered = x - row_mean(x)
    variance = row_mean(jnp.square(centered))
    return centered * jax.lax.rsqrt(variance + epsilon) * scale + shift


@replaceable
def row_mean(x: Float[Array, "*b d"]) -> Float[Array, "*b 1"]:
    """The mean over the last axis, which is kept."""
    return x.mean(-1, keepdims=True)


class MLP(eqx.Module):
    """`depth` hidden layers of `width`, or layers of widths such as 256x128, then a linear output.

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
        key: Key,
        fan_in: int,
        fan_out: int,
        width: int | str,
        depth: int,
        activation: str,
        norm: str = "none",
        first_activation: str = "",
        initialize: Initializer = torch_uniform,
        initialize_output: Initializer | None = None,
        norm_epsilon: float = 1e-5,
    ):
        widths = [width] * depth if isinstance(width, int) else list(map(int, width.split("x")))
        *keys, output_key = jax.random.split(key, len(widths) + 1)
        sizes = pairwise([fan_in, *widths])
        self.hidden = tuple(
            Linear(k, i, o, initialize) for k, (i, o) in zip(keys, sizes, strict=True)
        )
        normed = widths if norm != "none" else []
        self.norms = tuple(LayerNorm(one, norm_epsilon) for one in normed)
        self.output = Linear(output_key, widths[-1], fan_out, initialize_output or initialize)
        self.activations = (first_activation or activation,) + (activation,) * (len(widths) - 1)
        self.norm = norm

    @property
    def fan_out(self) -> int:
        """The number of outputs."""
        return self.output.bias.shape[-1]

    def layers(self) -> list[tuple[Linear, "Finish", tuple[Array, ...]]]:
        """Each hidden layer with what follows its bias, and the parameters of its layer norm."""
        epsilon = self.norms[0].epsilon if self.norms else 0.0
        finishes = [Finish(activation, self.norm, epsilon) for activation in self.activations]
        norms: list[Any] = [(norm.scale, norm.shift) for norm in self.norms]
        norms = norms or [()] * len(finishes)
        return list(zip(self.hidden, finishes, norms, strict=True))

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Map the last axis."""
        hidden, finishes, norms = zip(*self.layers(), strict=True)
        return apply_layers(hidden, finishes, norms, self.output, x)


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
