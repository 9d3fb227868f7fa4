"""Hidden layers with what follows each product in one launch: bias, layer norm, activation, all gradients.

    forward   z_l = h_{l−1} W_l,   h_l = f_l(z_l + b_l; …)
    backward  δ_l = f_l′(z_l + b_l; …) · ∂h_l,   ∂h_{l−1} = δ_l W_lᵀ,   ∂W_l = h_{l−1}ᵀ δ_l,
              and those of b_l and of the norm as sums over rows, for all layers in one launch,
              unless only ∂x is needed

A program of a kernel keeps some whole rows on the chip. XLA would read and write them several times, and its
gradient of a layer norm takes ten times as long. XLA computes the products: in TF32, or in
bfloat16 with float32 sums, where z, h and δ are also stored in half the bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, DTypeLike, Float

from bfq.kernels import use
from bfq.kernels.leaves import Weight, as_gradient, full, half, is_rounded, launch, suitable

_shape: Any = jax.ShapeDtypeStruct
# f(z, *parameters), row by row, of operations that a kernel has; the last may return one number per row.
Finish = Callable[..., Array]
Finishes = tuple[Finish, ...]
Parameters = tuple[Float[Array, " o"], ...]  # b, and those of f
TALL, WIDE = 64, 64  # of the pieces in which sums over rows are added up


def suits(x: Float[Array, "r i"], width: int) -> bool:
    """Whether the kernels apply: many rows, of a suitable width."""
    return x.ndim == 2 and len(x) >= 16 and suitable(width)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def layers(
    finishes: Finishes,
    x: Float[Array, "r i"],
    weights: tuple[Weight, ...],
    parameters: tuple[Parameters, ...],
) -> Float[Array, "r ..."]:
    """h_L, from h_0 = x."""
    return _forward(finishes, x, weights, parameters)[-1][-1]


def _forward(finishes: Finishes, x: Array, weights: Any, parameters: Any) -> tuple[Any, ...]:
    """W_l as they are multiplied, z_l, and h_l from h_0 on."""
    multiplied = [half(weight) if use().half else full(weight) for weight in weights]
    products, outputs = [], [x]
    for finish, weight, own in zip(finishes, multiplied, parameters, strict=True):
        products.append(dot(outputs[-1], weight, use().dtype))
        outputs.append(_finished(finish, products[-1], own))
    return multiplied, products, outputs


def _remembered(finishes: Finishes, *inputs: Any) -> tuple[Array, Any]:
    """h_L and what the gradient needs; JAX marks the inputs for which a gradient is needed."""
    x, weights, parameters = jax.tree.map(lambda marked: marked.value, inputs)
    multiplied, products, outputs = _forward(finishes, x, weights, parameters)
    learns = any(marked.perturbed for marked in jax.tree.leaves(inputs[1:]))
    copies = [is_rounded(weight) for weight in weights]
    asked = _Asked(learns, tuple(copies))
    return outputs[-1], (asked, (outputs[:-1], products, multiplied, parameters))


@jax.tree_util.register_static
class _Asked(NamedTuple):
    """The parts of a gradient that are needed."""

    learns: bool  # whether weights and parameters need one, or only x
    copies: tuple[bool, ...]  # which weights have a bfloat16 copy, whose gradient is 0


def _backward(finishes: Finishes, saved: Any, upstream: Float[Array, "r ..."]) -> tuple[Any, ...]:
    asked, values = saved
    gradients, sums = [], []
    for finish, x, z, weight, own in reversed(list(zip(finishes, *values, strict=True))):
        delta, *parts = _gradient(finish, z, own, upstream, asked.learns)
        upstream = dot(delta, weight.T, x.dtype)
        gradients.append(dot(x.T, delta, jnp.float32))
        sums.append(parts)
    if not asked.learns:
        return upstream, None, None
    wrapped = tuple(map(as_gradient, reversed(gradients), asked.copies))
    return upstream, wrapped, tuple(reversed(_added_up(sums)))


layers.defvjp(_remembered, _backward, symbolic_zeros=True)


def _finished(finish: Finish, z: Array, parameters: Parameters) -> Float[Array, "r ..."]:
    """f(z + b; …)."""
    rows = _rows(*z.shape)

    def kernel(z_ref: Any, *refs: Any) -> None:
        *parameter_refs, h_ref = refs
        bias, *rest = (ref[:] for ref in parameter_refs)
        _store(h_ref, rows, finish(_load(z_ref, rows) + bias, *rest))

    # A row of one number is an output, which formulas use in float32; a longer one is multiplied next.
    shape = jax.eval_shape(lambda *inputs: finish(*inputs), z, *parameters[1:]).shape
    shapes = [_shape(shape, use().dtype if len(shape) == 2 else jnp.float32)]
    return launch(kernel, shapes, (pl.cdiv(len(z), rows),), "finish")(z, *parameters)[0]


def _gradient(
    finish: Finish, z: Array, parameters: Parameters, upstream: Array, learns: bool
) -> list[Array]:
    """δ and, if needed, the gradients of b and the other parameters, summed over each program's rows."""
    rows, count = _rows(*z.shape), len(parameters)
    tiles = pl.cdiv(len(z), rows)

    def kernel(z_ref: Any, up_ref: Any, *refs: Any) -> None:
        parameter_refs, (delta_ref, *sum_refs) = refs[:count], refs[count:]
        _, pull = jax.vjp(
            lambda zs, bias, *rest: finish(zs + bias, *rest),
            _load(z_ref, rows),
            *(ref[:] for ref in parameter_refs),
        )
        delta, *sums = pull(_load(up_ref, rows))
        _store(delta_ref, rows, delta)
        if learns:
            for ref, value in zip(sum_refs, sums, strict=True):
                ref[pl.program_id(0)] = value

    sums = [_shape((tiles, z.shape[1]), jnp.float32) for _ in parameters] if learns else []
    shapes = [_shape(z.shape, use().dtype), *sums]
    return launch(kernel, shapes, (tiles,), "finish_gradient")(z, upstream, *parameters)


def _added_up(several: Sequence[Sequence[Float[Array, "t o"]]]) -> list[Parameters]:
    """The sums of the programs added up, for all parameters of all layers in one launch."""
    parts = [part for one in several for part in one]
    width = parts[0].shape[1]
    wide = min(WIDE, width)

    def kernel(*refs: Any) -> None:
        which, left = pl.program_id(0), pl.program_id(1) * wide
        for k, (part_ref, sum_ref) in enumerate(
            zip(refs[: len(parts)], refs[len(parts) :], strict=True)
        ):

            @pl.when(which == k)
            def _(part_ref: Any = part_ref, sum_ref: Any = sum_ref) -> None:
                def add(step: Array, total: Array) -> Array:
                    top = step * TALL
                    inside = jnp.broadcast_to(
                        (top + jnp.arange(TALL) < part_ref.shape[0])[:, None], (TALL, wide)
                    )
                    piece = part_ref.at[pl.ds(top, TALL), pl.ds(left, wide)]
                    return total + triton.load(piece, mask=inside, other=0.0).sum(0)

                steps = pl.cdiv(part_ref.shape[0], TALL)
                sum_ref[pl.ds(left, wide)] = jax.lax.fori_loop(0, steps, add, jnp.zeros(wide))

    shapes = [_shape((width,), jnp.float32) for _ in parts]
    sums = iter(launch(kernel, shapes, (len(parts), width // wide), "added_up")(*parts))
    return [tuple(next(sums) for _ in one) for one in several]


def _rows(rows: int, width: int) -> int:
    """Rows per program: few while the chip is not full, so that more programs share the work."""
    most = max(2048 // width, 1)
    few = pl.next_power_of_2(max(rows * use().members // 256, 1))
    return min(most, few)


def _place(ref: Any, rows: int) -> tuple[Any, Any]:
    """The rows of this program, and a mask if some of them do not exist."""
    top, (count, *width) = pl.program_id(0) * rows, ref.shape
    place = (pl.ds(top, rows), *(pl.ds(0, w) for w in width))
    if count % rows == 0:
        return place, None
    inside = (top + jnp.arange(rows) < count).reshape(rows, *(1 for _ in width))
    return place, jnp.broadcast_to(inside, (rows, *width))


def _load(ref: Any, rows: int) -> Array:
    place, inside = _place(ref, rows)
    other = None if inside is None else jnp.zeros((), ref.dtype)
    return triton.load(ref.at[place], mask=inside, other=other).astype(jnp.float32)


def _store(ref: Any, rows: int, value: Array) -> None:
    place, inside = _place(ref, rows)
    triton.store(ref.at[place], value.astype(ref.dtype), mask=inside)


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


def _half_forward(x: Array, weight: Weight) -> tuple[Array, tuple[Array, Weight]]:
    return half_product(x, weight), (x.astype(jnp.bfloat16), weight)


def _half_backward(saved: tuple[Array, Weight], upstream: Array) -> tuple[Array, Weight]:
    """δ Wᵀ and xᵀ δ."""
    x, weight = saved
    to_x = dot(upstream, half(weight).T, jnp.bfloat16).astype(jnp.float32)
    return to_x, as_gradient(dot(x.T, upstream, jnp.float32), is_rounded(weight))


half_product.defvjp(_half_forward, _half_backward)


LARGEST = 2**14  # numbers of a weight that fit on the chip


def fits(*weights: Float[Array, "i o"]) -> bool:
    """Whether a kernel can hold the weights: not too large, and every side a power of two."""
    uneven = any(side & (side - 1) for weight in weights for side in weight.shape)
    return not uneven and max(weight.size for weight in weights) <= LARGEST


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def two_layers(
    activation: Callable[[Array], Array],
    x: Float[Array, " i"],
    first: tuple[Float[Array, "i h"], Float[Array, " h"]],
    second: tuple[Float[Array, "h o"], Float[Array, " o"]],
) -> Float[Array, " o"]:
    """f(x W₁ + b₁) W₂ + b₂."""

    def kernel(x_ref: Any, w1_ref: Any, b1_ref: Any, w2_ref: Any, b2_ref: Any, y_ref: Any) -> None:
        both = (w1_ref[:], b1_ref[:]), (w2_ref[:], b2_ref[:])
        y_ref[:] = _two_layers_formula(activation, x_ref[:], *both)

    shape = _shape(second[1].shape, jnp.float32)
    return launch(kernel, shape, (), "two_layers")(x, *first, *second)


def _two_layers_formula(activation: Any, x: Array, first: Any, second: Any) -> Array:
    (w1, b1), (w2, b2) = first, second
    h = activation((x[:, None] * w1).sum(0) + b1)
    return (h[:, None] * w2).sum(0) + b2


def _two_layers_forward(activation: Any, *inputs: Any) -> tuple[Array, Any]:
    return two_layers(activation, *inputs), inputs


def _two_layers_backward(activation: Any, inputs: Any, upstream: Array) -> tuple[Any, ...]:
    """The gradient of the plain formula: it is rarely needed for a single row."""
    return jax.vjp(partial(_two_layers_formula, activation), *inputs)[1](upstream)


two_layers.defvjp(_two_layers_forward, _two_layers_backward)
