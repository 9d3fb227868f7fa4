"""The formulas of `bfq.nets`, by kernels where they run, and in the order that XLA is fastest at elsewhere."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.kernels import use
from bfq.kernels.layers import fits, half_product, layers, suits, two_layers
from bfq.kernels.leaves import full
from bfq.nets.mlp import ACTIVATIONS, Finish


def fast_layers(
    plain: Callable[..., Array],
    hidden: Sequence[Any],
    finishes: Sequence[Finish],
    norms: Sequence[tuple[Array, ...]],
    output: Any,
    x: Float[Array, "*b i"],
) -> Float[Array, "*b o"]:
    """Hidden layers and the output: one kernel after each product, or one for two layers of a single row.

    An output of one unit, without its bias, is part of the last kernel.
    """
    weights = tuple(linear.weight for linear in hidden)
    same_width = len({weight.shape[1] for weight in weights}) == 1
    if use().kernels and suits(x, weights[0].shape[1]) and same_width:
        parameters = [(linear.bias, *norm) for linear, norm in zip(hidden, norms, strict=True)]
        if output.weight.shape[1] != 1:
            return output(layers(tuple(finishes), x, weights, tuple(parameters)))
        parameters[-1] += (output.weight[:, 0],)
        headed = (*finishes[:-1], Headed(finishes[-1]))
        return layers(headed, x, weights, tuple(parameters))[..., None] + output.bias
    if use().kernels and x.ndim == 1 and len(hidden) == 1 and finishes[0].norm == "none":
        first = full(weights[0]), hidden[0].bias
        if fits(first[0], output.weight):
            activation = ACTIVATIONS[finishes[0].activation]
            return two_layers(activation, x, first, (output.weight, output.bias))
    if not use().backward or x.ndim != 2:
        return plain(hidden, finishes, norms, output, x)
    for linear, finish, norm in zip(hidden, finishes, norms, strict=True):
        x = finish(product(x, full(linear.weight)) + linear.bias, *norm)
    return output(x)


class Headed(NamedTuple):
    """A hidden layer's finish, followed by an output of one unit without its bias."""

    finish: Finish

    def __call__(self, z: Float[Array, "*b o"], *parameters: Float[Array, " o"]) -> Array:
        """One number for each row; the last parameter holds the weights of the output."""
        *norm, head = parameters
        return (self.finish(z, *norm) * head).sum(-1)


def half_linear(plain: Callable[..., Array], linear: Any, x: Float[Array, "*b i"]) -> Array:
    """The linear map within a residual block, as a bfloat16 product where those were asked for."""
    if use().kernels and use().half and x.ndim == 2:
        return half_product(x, linear.weight) + linear.bias
    return plain(linear, x)


def mean_by_product(plain: Callable[[Array], Array], x: Float[Array, "*b d"]) -> Array:
    """On a CPU as a product, since XLA's sums along rows are slow there."""
    if use().kernels or jax.default_backend() != "cpu":
        return plain(x)
    return x @ jnp.full((x.shape[-1], 1), 1.0 / x.shape[-1])


@jax.custom_vjp
def product(x: Float[Array, "r i"], weight: Float[Array, "i o"]) -> Float[Array, "r o"]:
    """X W, with a gradient for W that is stored in the same order as W.

    JAX's own is the transpose of δᵀx, and XLA leaves the transposing to Adam's loops, which it slows down.
    """
    return x @ weight


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight, (x, weight)


def _product_backward(saved: tuple[Array, Array], upstream: Array) -> tuple[Array, Array]:
    """δ Wᵀ and xᵀ δ, as contractions: written with .T they would be transposed again."""
    x, weight = saved
    of_x = jax.lax.dot_general(upstream, weight, (((1,), (1,)), ((), ())))
    of_weight = jax.lax.dot_general(x, upstream, (((0,), (0,)), ((), ())))
    return of_x, of_weight


product.defvjp(_product_forward, _product_backward)


def fast_mish(plain: Callable[[Array], Array], x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Mish with one exponential instead of three transcendentals, and the same for its derivative."""
    return _mish(x)


@jax.custom_jvp
def _mish(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """tanh(log(1 + e)) = e(e + 2) / (e(e + 2) + 2) for e = exp(x).

    Beyond x = 20 it is 1 to rounding, and the exponent is capped there so that e² stays finite.
    """
    e = jnp.exp(jnp.minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


@_mish.defjvp
def _mish_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Mish′(x) = T + x · 4e(e + 1)/(n + 2)² with T = n/(n + 2): one exponential and one division for both."""
    (x,), (dx,) = primals, tangents
    e = jnp.exp(jnp.minimum(x, 20.0))
    n = e * (e + 2.0)
    inverse = 1.0 / (n + 2.0)
    t = n * inverse
    slope = t + x * (4.0 * (e * inverse)) * ((e + 1.0) * inverse)
    return x * t, slope * dx
