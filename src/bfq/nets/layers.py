"""The two layers and the activations that every network here is made of.

Layers act on the last axis and accept any leading axes, so a batch needs no vmap.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.primitives import replaceable

Initializer = Callable[[PRNGKeyArray, int, int], tuple[Float[Array, "i o"], Float[Array, " o"]]]


def variance_scaling(scale: float) -> Initializer:
    """Uniform weights of variance scale / fan-average with zero biases, as in the FQL family."""

    def initialize(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        bound = (3.0 * scale * 2.0 / (fan_in + fan_out)) ** 0.5
        weight = jax.random.uniform(key, (fan_in, fan_out), minval=-bound, maxval=bound)
        return weight, jnp.zeros(fan_out)

    return initialize


def small_normal(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Truncated normal weights of variance 0.01 / fan-in with zero biases, as MeanFlowQL's policy."""
    weight = jax.nn.initializers.variance_scaling(0.01, "fan_in", "truncated_normal")(
        key, (fan_in, fan_out)
    )
    return weight, jnp.zeros(fan_out)


def uniform(bound: float | None = None, bias: float | None = None) -> Initializer:
    """Weights from U(±bound), by default ±1/√fan_in; biases one constant, by default from the same law."""

    def initialize(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        most = fan_in**-0.5 if bound is None else bound
        weight_key, bias_key = jax.random.split(key)
        weight = jax.random.uniform(weight_key, (fan_in, fan_out), minval=-most, maxval=most)
        if bias is not None:
            return weight, jnp.full(fan_out, bias)
        return weight, jax.random.uniform(bias_key, (fan_out,), minval=-most, maxval=most)

    return initialize


torch_uniform = uniform()  # PyTorch's Linear: CleanDiffuser, DQL, TD3-BC


def orthogonal(gain: float) -> Initializer:
    """Weights with orthogonal rows or columns of length `gain`, and zero biases, as IQL."""

    def initialize(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        tall = jax.random.normal(key, (max(fan_in, fan_out), min(fan_in, fan_out)))
        weight = nearest_orthogonal(tall)
        return gain * (weight if fan_in >= fan_out else weight.T), jnp.zeros(fan_out)

    return initialize


def nearest_orthogonal(tall: Float[Array, "n m"], iterations: int = 40) -> Float[Array, "n m"]:
    """The matrix of orthonormal columns nearest to this one, of a Gaussian a uniformly random one.

    Newton and Schulz's X ← X (3 − XᵀX)/2 drives every singular value to 1. It needs products only: JAX's QR,
    mapped over members, waits for ever on a CPU of two cores.
    """
    x = tall / jnp.linalg.norm(tall)

    def closer(_: Array, x: Array) -> Array:
        squares = jnp.matmul(x.T, x, precision="highest")
        return 1.5 * x - 0.5 * jnp.matmul(x, squares, precision="highest")

    return jax.lax.fori_loop(0, iterations, closer, x)


def zeros(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Nothing at first: the layer's output starts at exactly 0."""
    return jnp.zeros((fan_in, fan_out)), jnp.zeros(fan_out)


class Linear(eqx.Module):
    """y = x W + b."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"]

    def __init__(
        self, key: PRNGKeyArray, fan_in: int, fan_out: int, initialize: Initializer = torch_uniform
    ):
        self.weight, self.bias = initialize(key, fan_in, fan_out)

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Applies the map to the last axis."""
        return x @ self.weight + self.bias


@replaceable
def inner(linear: Linear, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
    """The linear map within a residual block."""
    return linear(x)


class LayerNorm(eqx.Module):
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts."""

    scale: Float[Array, " d"]
    shift: Float[Array, " d"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float = 1e-5):
        self.scale, self.shift, self.epsilon = jnp.ones(width), jnp.zeros(width), epsilon

    def __call__(self, x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        """Normalizes each vector by its own statistics."""
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


def drop(x: Float[Array, "*b d"], rate: float, key: PRNGKeyArray | None) -> Float[Array, "*b d"]:
    """Sets a share `rate` of the numbers to 0 and divides the others by 1 − rate; without a key, x itself."""
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1.0 - rate, x.shape), x / (1.0 - rate), 0.0)


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
