"""A hidden layer with what follows its product in one launch: bias, layer norm, activation, all gradients.

    forward   z = x W,   h = f(z + b; …)
    backward  δ = f′(z + b; …) · ∂h,   ∂x = δ Wᵀ,   ∂W = xᵀ δ,   and ∂b and the norm's own as sums over rows

A program of the kernel keeps some whole rows on the chip. XLA would read and write them several times, and
its gradient of a layer norm takes ten times as long. The products are XLA's: TF32, or bfloat16 with float32
sums, for which z, h and δ are also stored in half the bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels.device import use
from bfq.kernels.elementwise import halved

_shape: Any = jax.ShapeDtypeStruct
Finish = Callable[..., Array]  # f(z, *parameters), row by row, built of what a kernel can do
WIDEST = 1024  # numbers of a row that fit on the chip


def suits(x: Float[Array, "r i"], width: int) -> bool:
    """Whether the kernels can do it: many rows, and a width that is a power of two and not too large."""
    return x.ndim == 2 and len(x) >= 16 and 16 <= width <= WIDEST and width & (width - 1) == 0


class Weight(NamedTuple):
    """The weights of a layer, and what products multiply: themselves, or their bfloat16 values."""

    kept: Float[Array, "i o"]
    multiplied: Float[Array, "i o"]


def weights(kept: Sequence[Float[Array, "i o"]]) -> list[Weight]:
    """The weights of a network's layers, rounded in one launch if products are of bfloat16 numbers."""
    rounded = halved([jax.lax.stop_gradient(w) for w in kept]) if use().half else kept
    return [Weight(*both) for both in zip(kept, rounded, strict=True)]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def layer(
    finish: Finish,
    x: Float[Array, "r i"],
    weight: Weight,
    bias: Float[Array, " o"],
    *parameters: Float[Array, " o"],
) -> Float[Array, "r o"]:
    """F(x W + b; parameters)."""
    return _forward(finish, x, weight, bias, *parameters)[0]


def _forward(finish: Finish, x: Array, weight: Weight, *parameters: Array) -> tuple[Array, Any]:
    z = _product(x, weight.multiplied, use().dtype)
    rows = _rows(*z.shape)

    def kernel(z_ref: Any, *refs: Any) -> None:
        *told, h_ref = refs
        bias, *rest = (ref[:] for ref in told)
        place, inside = _place(z_ref, rows)
        h = finish(_load(z_ref.at[place], inside) + bias, *rest)
        triton.store(h_ref.at[place], h.astype(h_ref.dtype), mask=inside)

    shape = _shape(z.shape, use().dtype)
    h = _launch(kernel, [shape], pl.cdiv(len(z), rows), "finish")(z, *parameters)[0]
    return h, (x, weight.multiplied, z, parameters)


def _backward(finish: Finish, saved: Any, upstream: Float[Array, "r o"]) -> tuple[Any, ...]:
    x, multiplied, z, parameters = saved
    delta, *sums = _gradient(finish, z, parameters, upstream)
    weight = Weight(_product(x.T, delta, jnp.float32), jnp.zeros_like(multiplied))
    return _product(delta, multiplied.T, x.dtype), weight, *(part.sum(0) for part in sums)


layer.defvjp(_forward, _backward)


def _gradient(finish: Finish, z: Array, parameters: tuple[Array, ...], upstream: Array) -> list[Array]:
    """δ, and the gradients of b and the other parameters, summed over the rows of each program."""
    rows, count = _rows(*z.shape), len(parameters)
    tiles = pl.cdiv(len(z), rows)

    def kernel(z_ref: Any, up_ref: Any, *refs: Any) -> None:
        told, (delta_ref, *sum_refs) = refs[:count], refs[count:]
        place, inside = _place(z_ref, rows)
        _, pull = jax.vjp(
            lambda zs, bias, *rest: finish(zs + bias, *rest),
            _load(z_ref.at[place], inside),
            *(ref[:] for ref in told),
        )
        delta, *sums = pull(_load(up_ref.at[place], inside))
        triton.store(delta_ref.at[place], delta.astype(delta_ref.dtype), mask=inside)
        for ref, value in zip(sum_refs, sums, strict=True):
            ref[pl.program_id(0)] = value

    shapes = [_shape(z.shape, use().dtype), *(_shape((tiles, z.shape[1]), jnp.float32) for _ in parameters)]
    return _launch(kernel, shapes, tiles, "finish_gradient")(z, upstream, *parameters)


def _product(a: Float[Array, "m k"], b: Float[Array, "k n"], dtype: Any) -> Float[Array, "m n"]:
    """A b, summed in float32 and then rounded to `dtype`."""
    a, b = a.astype(use().dtype), b.astype(use().dtype)
    if use().interpreted:  # a CPU rounds to bfloat16 but cannot multiply it
        return jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32)).astype(dtype)
    return jnp.matmul(a, b, preferred_element_type=dtype)


def _rows(rows: int, width: int) -> int:
    """Rows for one program: few while the chip is not full, for then more programs share the work."""
    most = max(2048 // width, 1)
    few = pl.next_power_of_2(max(rows * use().members // 256, 1))
    return min(most, few)


def _place(ref: Any, rows: int) -> tuple[Any, Any]:
    """The rows of this program, and which of them exist if not all do."""
    top, (count, width) = pl.program_id(0) * rows, ref.shape
    place = pl.ds(top, rows), pl.ds(0, width)
    if count % rows == 0:
        return place, None
    return place, jnp.broadcast_to((top + jnp.arange(rows) < count)[:, None], (rows, width))


def _load(ref: Any, inside: Any) -> Array:
    other = None if inside is None else jnp.zeros((), ref.dtype)
    return triton.load(ref, mask=inside, other=other).astype(jnp.float32)


def _launch(kernel: Any, shapes: Any, programs: int, name: str) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=(programs,),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=use().interpreted,
        name=name,
    )
