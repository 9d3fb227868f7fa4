"""One launch for all leaves of a tree: Adam and moving averages touch dozens of small arrays an update."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels.device import use

_shape: Any = jax.ShapeDtypeStruct
BLOCK = 1024  # numbers a program of the kernel works on
MOST_POINTERS = 400  # that a kernel is given; 4 kB of arguments always fit

Formula = Callable[..., tuple[Array, ...]]  # (scalars…, numbers…) -> new numbers for the last trees


def map_leaves(formula: Formula, scalars: Sequence[Any], *trees: Any, changed: int) -> tuple[Any, ...]:
    """Applies formula(*scalars, *numbers) to every leaf; its results replace the last `changed` trees."""
    leaves, structure = zip(*(jax.tree.flatten(tree) for tree in trees), strict=True)
    run = _in_one_launch if use().kernels else _one_by_one
    new = run(formula, [jnp.asarray(scalar, jnp.float32) for scalar in scalars], leaves, changed)
    return tuple(jax.tree.unflatten(structure[-1], mine) for mine in new)


def _one_by_one(formula: Formula, scalars: list[Array], trees: Any, changed: int) -> Any:
    return zip(*(formula(*scalars, *numbers) for numbers in zip(*trees, strict=True)), strict=True)


def _in_one_launch(formula: Formula, scalars: list[Array], trees: Any, changed: int) -> Any:
    new = _launch(formula, scalars, trees, [jnp.float32] * changed, in_place=True)
    return [[leaf.reshape(old.shape) for leaf, old in zip(leaves, trees[0], strict=True)] for leaves in new]


def halved(leaves: Sequence[Float[Array, "..."]]) -> list[Float[Array, "..."]]:
    """The leaves in bfloat16, all in one launch."""
    (new,) = _launch(lambda x: (x,), [], [list(leaves)], [jnp.bfloat16], in_place=False)
    return [leaf.reshape(old.shape) for leaf, old in zip(new, leaves, strict=True)]


def _launch(
    formula: Formula, scalars: list[Array], trees: Sequence[list[Array]], dtypes: list[Any], in_place: bool
) -> list[list[Array]]:
    """Flat leaves of a result for each dtype; in place, they take the memory of the last trees."""
    most = MOST_POINTERS // (len(trees) + len(dtypes))
    if len(trees[0]) > most:
        parts = [[tree[:most] for tree in trees], [tree[most:] for tree in trees]]
        head, tail = (_launch(formula, scalars, part, dtypes, in_place) for part in parts)
        return [a + b for a, b in zip(head, tail, strict=True)]
    sizes, count = [leaf.size for leaf in trees[0]], len(trees[0])
    ends = list(accumulate(-(-size // BLOCK) for size in sizes))

    def kernel(*refs: Any) -> None:
        told, rest = refs[: len(scalars)], refs[len(scalars) :]
        inputs, outputs = rest[: len(trees) * count], rest[len(trees) * count :]
        numbers = [ref[0] for ref in told]
        program = pl.program_id(0)
        for k, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):

            @pl.when((program >= begin) & (program < end))
            def _(k: int = k, begin: int = begin) -> None:
                here = pl.ds((program - begin) * BLOCK, BLOCK)
                inside = (program - begin) * BLOCK + jnp.arange(BLOCK) < sizes[k]
                read = [triton.load(ref.at[here], mask=inside, other=0.0) for ref in inputs[k::count]]
                for ref, value in zip(outputs[k::count], formula(*numbers, *read), strict=True):
                    triton.store(ref.at[here], value.astype(ref.dtype), mask=inside)

    first = len(scalars) + (len(trees) - len(dtypes)) * count
    new = pl.pallas_call(
        kernel,
        out_shape=[_shape((size,), dtype) for dtype in dtypes for size in sizes],
        grid=(ends[-1],),
        input_output_aliases={first + k: k for k in range(len(dtypes) * count)} if in_place else {},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=use().interpreted,
        name="map_leaves" if in_place else "halved",
    )(*(scalar.reshape(1) for scalar in scalars), *(leaf.reshape(-1) for tree in trees for leaf in tree))
    return [list(new[k : k + count]) for k in range(0, len(new), count)]
