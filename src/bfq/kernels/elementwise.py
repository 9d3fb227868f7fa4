"""One launch for many leaves of a tree: Adam and moving averages touch dozens of small arrays an update."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels.device import use
from bfq.kernels.rounded import Rounded, Weight, full, is_rounded

_shape: Any = jax.ShapeDtypeStruct
BLOCK = 1024  # numbers a program of the kernel works on
MOST_POINTERS = 400  # that a kernel is given; 4 kB of arguments always fit

Formula = Callable[..., tuple[Array, ...]]  # (scalars…, numbers…) -> new numbers for the last trees
Column = tuple[Weight, ...]  # the leaves at one place of all trees


def map_leaves(
    plain: Callable[..., tuple[Any, ...]],
    formula: Formula,
    scalars: Sequence[Any],
    *trees: Any,
    changed: int,
    unmoved_at_zero: Sequence[int | None] = (),
) -> tuple[Any, ...]:
    """The same in few launches. A tree whose scalar is 0 is not touched; bfloat16 copies are renewed."""
    if not use().kernels:
        return plain(formula, scalars, *trees, changed=changed, unmoved_at_zero=unmoved_at_zero)
    leaves, structures = zip(
        *(jax.tree.flatten(tree, is_leaf=is_rounded) for tree in trees), strict=True
    )
    columns: list[Column] = list(zip(*leaves, strict=True))
    numbers = jnp.stack([jnp.asarray(scalar, jnp.float32) for scalar in scalars])
    new = _in_few_launches(formula, numbers, columns, list(unmoved_at_zero) or [None] * changed)
    rows = zip(*new, strict=True)
    return tuple(
        jax.tree.unflatten(s, row) for s, row in zip(structures[-changed:], rows, strict=True)
    )


def _in_few_launches(
    formula: Formula,
    numbers: Float[Array, " k"],
    columns: list[Column],
    moved_by: Sequence[int | None],
) -> list[list[Weight]]:
    most = MOST_POINTERS // (2 * (len(columns[0]) + len(moved_by)))
    groups = [columns[k : k + most] for k in range(0, len(columns), most)]
    return [new for group in groups for new in _launch(formula, numbers, group, moved_by)]


def _launch(
    formula: Formula,
    numbers: Float[Array, " k"],
    columns: list[Column],
    moved_by: Sequence[int | None],
) -> list[list[Weight]]:
    """The columns' last leaves, changed in place."""
    still = len(columns[0]) - len(moved_by)
    read, old = (
        [[full(leaf) for leaf in c[:still]] for c in columns],
        [list(c[still:]) for c in columns],
    )
    blocks = [-(-full(column[0]).size // BLOCK) for column in columns]
    ends = list(accumulate(blocks))

    def kernel(numbers_ref: Any, read_refs: Any, old_refs: Any, *new_refs: Any) -> None:
        scalars, program = [numbers_ref[k] for k in range(len(numbers))], pl.program_id(0)
        for end, count, *refs in zip(ends, blocks, read_refs, old_refs, new_refs, strict=True):
            here = program - (end - count)
            pl.when((here >= 0) & (here < count))(
                partial(_block, formula, scalars, moved_by, here, *refs)
            )

    flat_read, flat_old = jax.tree.map(lambda leaf: leaf.reshape(-1), (read, old))
    first = 1 + len(jax.tree.leaves(read))
    new = pl.pallas_call(
        kernel,
        out_shape=jax.tree.map(lambda leaf: _shape(leaf.shape, leaf.dtype), flat_old),
        grid=(ends[-1],),
        input_output_aliases={first + k: k for k in range(len(jax.tree.leaves(old)))},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=use().interpreted,
        name="map_leaves",
    )(numbers, flat_read, flat_old)
    return jax.tree.map(lambda leaf, before: leaf.reshape(before.shape), list(new), old)


def _block(
    formula: Formula,
    scalars: list[Array],
    moved_by: Sequence[int | None],
    which: Array,
    read: list[Any],
    old: list[Any],
    new: list[Any],
) -> None:
    """Some numbers of one column, from the refs `read` and `old` to `new`."""
    here = pl.ds(which * BLOCK, BLOCK)
    inside = which * BLOCK + jnp.arange(BLOCK) < full(old[0]).shape[0]
    moving = [inside if by is None else inside & (scalars[by] != 0.0) for by in moved_by]
    masks = [inside] * len(read) + moving
    given = [
        triton.load(_ref(full(leaf))[here], mask=mask, other=0.0)
        for leaf, mask in zip([*read, *old], masks, strict=True)
    ]
    for leaf, value, mask in zip(new, formula(*scalars, *given), moving, strict=True):
        triton.store(_ref(full(leaf))[here], value, mask=mask)
        if isinstance(leaf, Rounded):
            triton.store(_ref(leaf.half)[here], value.astype(jnp.bfloat16), mask=mask)


def _ref(leaf: Any) -> Any:
    """Inside a kernel a leaf is a reference, of which numbers are addressed."""
    return leaf.at
