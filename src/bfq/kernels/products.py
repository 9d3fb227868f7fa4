"""Products of what was asked for, bfloat16 or float32 numbers, summed in float32."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from bfq.kernels.device import use
from bfq.kernels.rounded import Weight, as_gradient, half, is_rounded


def dot(a: Float[Array, "m k"], b: Float[Array, "k n"], dtype: DTypeLike) -> Float[Array, "m n"]:
    """A b, summed in float32 and then rounded to `dtype`."""
    a, b = a.astype(use().dtype), b.astype(use().dtype)
    if use().interpreted:  # a CPU rounds to bfloat16 but cannot multiply it
        return jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32)).astype(dtype)
    return jnp.matmul(a, b, preferred_element_type=dtype)


@jax.custom_vjp
def half_product(x: Float[Array, "r i"], weight: Weight) -> Float[Array, "r o"]:
    """X W of bfloat16 numbers, rounded to such, so that XLA may store it in half the bytes.

    So is δ in the gradient; JAX's own would multiply a float32 δ by bfloat16 numbers.
    """
    return dot(x, half(weight), jnp.bfloat16).astype(jnp.float32)


def _forward(x: Array, weight: Weight) -> tuple[Array, tuple[Array, Weight]]:
    return half_product(x, weight), (x.astype(jnp.bfloat16), weight)


def _backward(saved: tuple[Array, Weight], upstream: Float[Array, "r o"]) -> tuple[Array, Weight]:
    """δ Wᵀ and xᵀ δ."""
    x, weight = saved
    of_x = dot(upstream, half(weight).T, jnp.bfloat16).astype(jnp.float32)
    return of_x, as_gradient(dot(x.T, upstream, jnp.float32), is_rounded(weight))


half_product.defvjp(_forward, _backward)
