"""One launch for many leaves of a tree: Adam and moving averages touch dozens of small arrays an update."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels.device import use
from bfq.kernels.rounded import Rounded, Weight, full, is_rounded, like

_shape: Any = jax.ShapeDtypeStruct
BLOCK = 1024  # numbers a program of the kernel works on
MOST_POINTERS = 400  # that a kernel is given; 4 kB of arguments always fit

Formula = Callable[..., tuple[Array, ...]]  # (scalars…, numbers…) -> new numbers for the last trees
Column = tuple[Weight, ...]  # the leaves at one place of all trees


def map_leaves(
    formula: Formula, scalars: Sequence[Any], *trees: Any, changed: int, moved_by: Sequence[int | None] = ()
) -> tuple[Any, ...]:
    """Applies formula(*scalars, *numbers) to every leaf; its results replace the last `changed` trees.

    `moved_by` says for each of these which scalar, if any, leaves it as it is by being 0: it is then neither
    read nor written. Weights that have a bfloat16 copy get a new one.
    """
    leaves, structures = zip(*(jax.tree.flatten(tree, is_leaf=is_rounded) for tree in trees), strict=True)
    columns: list[Column] = list(zip(*leaves, strict=True))
    numbers = jnp.stack([jnp.asarray(scalar, jnp.float32) for scalar in scalars])
    moved_by = list(moved_by) or [None] * changed
    if use().kernels:
        new = _in_few_launches(formula, numbers, columns, moved_by)
    else:
        new = [_plainly(formula, numbers, column, changed) for column in columns]
    rows = zip(*new, strict=True)
    return tuple(jax.tree.unflatten(s, row) for s, row in zip(structures[-changed:], rows, strict=True))


def _plainly(formula: Formula, numbers: Float[Array, " k"], column: Column, changed: int) -> list[Weight]:
    new = formula(*numbers, *map(full, column))
    return [like(old, value) for old, value in zip(column[-changed:], new, strict=True)]


def _in_few_launches(
    formula: Formula, numbers: Float[Array, " k"], columns: list[Column], moved_by: Sequence[int | None]
) -> list[list[Weight]]:
    most = MOST_POINTERS // (2 * (len(columns[0]) + len(moved_by)))
    groups = [columns[k : k + most] for k in range(0, len(columns), most)]
    return [new for group in groups for new in _launch(formula, numbers, group, moved_by)]


def _launch(
    formula: Formula, numbers: Float[Array, " k"], columns: list[Column], moved_by: Sequence[int | None]
) -> list[list[Weight]]:
    """The columns' last leaves, changed in place."""
    still, changed = len(columns[0]) - len(moved_by), len(moved_by)
    sizes = [full(column[0]).size for column in columns]
    ends = list(accumulate(-(-size // BLOCK) for size in sizes))
    read = [leaf for column in columns for leaf in column[:still]]
    copied = [[k for k, leaf in enumerate(column[still:]) if is_rounded(leaf)] for column in columns]
    written = [array for column in columns for array in _arrays(column[still:])]

    def kernel(numbers_ref: Any, *refs: Any) -> None:
        scalars = [numbers_ref[k] for k in range(len(numbers))]
        read_refs, old_refs, new_refs = (
            iter(refs[: len(read)]), iter(refs[len(read) : -len(written)]), iter(refs[-len(written) :]),
        )  # fmt: skip
        program = pl.program_id(0)
        for begin, end, size, copies in zip([0, *ends], ends, sizes, copied, strict=False):
            inputs = [next(read_refs) for _ in range(still)] + [next(old_refs) for _ in range(changed)]
            _ = [next(old_refs) for _ in copies]
            outputs = [next(new_refs) for _ in range(changed)]
            halves = [next(new_refs) for _ in copies]

            @pl.when((program >= begin) & (program < end))
            def _(
                begin: int = begin,
                size: int = size,
                copies: list[int] = copies,
                inputs: list[Any] = inputs,
                outputs: list[Any] = outputs,
                halves: list[Any] = halves,
            ) -> None:
                here = pl.ds((program - begin) * BLOCK, BLOCK)
                inside = (program - begin) * BLOCK + jnp.arange(BLOCK) < size
                moving = [inside if by is None else inside & (scalars[by] != 0.0) for by in moved_by]
                masks = [inside] * still + moving
                given = [
                    triton.load(ref.at[here], mask=mask, other=0.0)
                    for ref, mask in zip(inputs, masks, strict=True)
                ]
                new = formula(*scalars, *given)
                for ref, value, mask in zip(outputs, new, moving, strict=True):
                    triton.store(ref.at[here], value, mask=mask)
                for ref, k in zip(halves, copies, strict=True):
                    triton.store(ref.at[here], new[k].astype(ref.dtype), mask=moving[k])

    made = iter(
        pl.pallas_call(
            kernel,
            out_shape=[_shape((array.size,), array.dtype) for array in written],
            grid=(ends[-1],),
            input_output_aliases={1 + len(read) + k: k for k in range(len(written))},
            compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
            interpret=use().interpreted,
            name="map_leaves",
        )(numbers, *(array.reshape(-1) for array in [*map(full, read), *written]))
    )
    return [_rebuilt(column[still:], made) for column in columns]


def _arrays(weights: Sequence[Weight]) -> list[Float[Array, "..."]]:
    """The weights, then the copies of those that have one."""
    return [*map(full, weights), *(leaf.half for leaf in weights if isinstance(leaf, Rounded))]


def _rebuilt(old: Sequence[Weight], arrays: Iterator[Array]) -> list[Weight]:
    """What `_arrays` took apart, from flat arrays."""
    whole = [next(arrays).reshape(leaf.shape) for leaf in old]
    return [
        Rounded(value, next(arrays).reshape(leaf.shape)) if isinstance(leaf, Rounded) else value
        for leaf, value in zip(old, whole, strict=True)
    ]
