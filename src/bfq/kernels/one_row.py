"""Two layers of one row in one launch: the code of a time that serves all rows of a batch.

A product of one row is a sum that XLA spreads over four launches, each waiting for the one before.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels.device import use

_shape: Any = jax.ShapeDtypeStruct
LARGEST = 2**14  # numbers of a weight that fit on the chip


def fits(*weights: Float[Array, "i o"]) -> bool:
    """Whether a kernel can hold the weights: not too large, and every side a power of two."""
    sides = {side for weight in weights for side in weight.shape}
    return max(weight.size for weight in weights) <= LARGEST and not any(
        side & (side - 1) for side in sides
    )


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def two_layers(
    activation: Callable[[Array], Array],
    x: Float[Array, " i"],
    first: tuple[Float[Array, "i h"], Float[Array, " h"]],
    second: tuple[Float[Array, "h o"], Float[Array, " o"]],
) -> Float[Array, " o"]:
    """f(x W₁ + b₁) W₂ + b₂."""

    def kernel(x_ref: Any, w1_ref: Any, b1_ref: Any, w2_ref: Any, b2_ref: Any, y_ref: Any) -> None:
        y_ref[:] = _formula(activation, x_ref[:], (w1_ref[:], b1_ref[:]), (w2_ref[:], b2_ref[:]))

    return pl.pallas_call(
        kernel,
        out_shape=_shape(second[1].shape, jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=use().interpreted,
        name="two_layers",
    )(x, *first, *second)


def _formula(activation: Callable[[Array], Array], x: Array, first: Any, second: Any) -> Array:
    (w1, b1), (w2, b2) = first, second
    h = activation((x[:, None] * w1).sum(0) + b1)
    return (h[:, None] * w2).sum(0) + b2


def _forward(activation: Any, *inputs: Any) -> tuple[Array, Any]:
    return two_layers(activation, *inputs), inputs


def _backward(activation: Any, inputs: Any, upstream: Float[Array, " o"]) -> tuple[Any, ...]:
    """Of the plain formula: it is rare that one row learns."""
    return jax.vjp(partial(_formula, activation), *inputs)[1](upstream)


two_layers.defvjp(_forward, _backward)
