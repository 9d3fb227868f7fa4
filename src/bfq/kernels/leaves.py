"""Weights beside their bfloat16 copies, and one launch for many leaves of a tree."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from bfq.kernels import use
from bfq.nets.mlp import MLP, Linear
from bfq.nets.residual import Block, ResidualBlock
from bfq.nets.velocity import TimeEmbedding

T = TypeVar("T")
_shape: Any = jax.ShapeDtypeStruct


def launch(kernel: Any, shapes: Any, grid: tuple[int, ...], name: str, **options: Any) -> Any:
    """A Pallas kernel that returns arrays of these shapes."""
    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=grid,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=use().interpreted,
        name=name,
        **options,
    )


@partial(jax.tree_util.register_dataclass, data_fields=["full", "half"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Rounded:
    """A weight as training changes it, and its bfloat16 copy as products read it."""

    full: Float[Array, "..."]
    half: Float[Array, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return self.full.shape

    def __rmatmul__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """x W, where no kernel reads the copy."""
        return x @ self.full


WIDEST = 1024  # numbers of a row that fit on the chip
Weight = Float[Array, "..."] | Rounded


def suitable(width: int) -> bool:
    """Whether kernels can compute layers of this width: a power of two, not too large."""
    return 16 <= width <= WIDEST and width & (width - 1) == 0


def is_rounded(leaf: Any) -> bool:
    """Whether this is a weight with its copy, for trees in which it counts as a leaf."""
    return isinstance(leaf, Rounded)


def full(weight: Weight) -> Float[Array, "..."]:
    """The weight as training changes it."""
    return weight.full if isinstance(weight, Rounded) else weight


def half(weight: Weight) -> Float[Array, "..."]:
    """The weight in bfloat16."""
    return weight.half if isinstance(weight, Rounded) else weight.astype(jnp.bfloat16)


def rounded(weight: Float[Array, "..."]) -> Weight:
    """The weight with its copy, if the kernels' layers could use it."""
    return with_copy(weight) if suitable(weight.shape[-1]) else weight


def with_copy(weight: Float[Array, "..."]) -> Rounded:
    """The weight with its copy."""
    return Rounded(weight, half(weight))


def as_gradient(gradient: Float[Array, "..."], copied: bool) -> Weight:
    """The gradient of a weight; that of its copy is 0."""
    return Rounded(gradient, jnp.zeros_like(gradient, jnp.bfloat16)) if copied else gradient


def without_copies(tree: Any) -> Any:
    """The tree with plain weights."""
    return jax.tree.map(full, tree, is_leaf=is_rounded)


def _weights(*layers: Linear) -> list[Any]:
    return [layer.weight for layer in layers]


# For each kind of network: the weights that kernels multiply, and the function that gives them a copy.
MULTIPLIED: dict[type, tuple[Callable[[Any], list[Any]], Callable[[Array], Any]]] = {
    MLP: (lambda net: _weights(*net.hidden), rounded),
    TimeEmbedding: (lambda net: _weights(net.first), rounded),
    ResidualBlock: (
        lambda net: _weights(net.modulation, net.value, net.project, net.expand, net.contract),
        with_copy,
    ),
    Block: (lambda net: _weights(net.expand, net.contract), with_copy),
}


def with_copies(state: T) -> T:
    """The state with bfloat16 copies of the weights that kernels multiply; moments have none."""

    def copied(node: Any) -> Any:
        for kind, (multiplied, copy) in MULTIPLIED.items():
            if isinstance(node, kind):
                return eqx.tree_at(multiplied, node, replace_fn=copy)
        return node

    kinds = (*MULTIPLIED, optax.ScaleByAdamState)
    return jax.tree.map(copied, state, is_leaf=lambda node: isinstance(node, kinds))


BLOCK = 1024  # numbers per program of the kernel
MOST_POINTERS = 400  # arguments of a kernel; 4 kB always fit

Formula = Callable[..., tuple[Array, ...]]  # (scalars…, numbers…) -> new numbers for the last trees
Column = tuple[Weight, ...]  # the leaves at one place of all trees


def map_in_few_launches(
    plain: Callable[..., tuple[Any, ...]],
    formula: Formula,
    scalars: Sequence[Any],
    *trees: Any,
    changed: int,
    unmoved_at_zero: Sequence[int | None] = (),
) -> tuple[Any, ...]:
    """`map_leaves` in few launches: Adam and moving averages change dozens of small arrays per update.

    A tree whose scalar is 0 is not touched; bfloat16 copies are rounded again.
    """
    if not use().kernels:
        return plain(formula, scalars, *trees, changed=changed, unmoved_at_zero=unmoved_at_zero)
    flat = (jax.tree.flatten(tree, is_leaf=is_rounded) for tree in trees)
    leaves, structures = zip(*flat, strict=True)
    columns: list[Column] = list(zip(*leaves, strict=True))
    numbers = jnp.stack([jnp.asarray(scalar, jnp.float32) for scalar in scalars])
    moved_by = list(unmoved_at_zero) or [None] * changed
    most = MOST_POINTERS // (2 * (len(trees) + changed))
    groups = [columns[k : k + most] for k in range(0, len(columns), most)]
    new = [row for group in groups for row in _map_columns(formula, numbers, group, moved_by)]
    return tuple(map(jax.tree.unflatten, structures[-changed:], zip(*new, strict=True)))


def _map_columns(
    formula: Formula,
    numbers: Float[Array, " k"],
    columns: list[Column],
    moved_by: Sequence[int | None],
) -> list[list[Weight]]:
    """The columns' last leaves, changed in place."""
    still = len(columns[0]) - len(moved_by)
    read = [[full(leaf) for leaf in column[:still]] for column in columns]
    old = [list(column[still:]) for column in columns]
    blocks = [-(-full(column[0]).size // BLOCK) for column in columns]
    ends = list(accumulate(blocks))

    def kernel(numbers_ref: Any, read_refs: Any, old_refs: Any, *new_refs: Any) -> None:
        scalars, program = [numbers_ref[k] for k in range(len(numbers))], pl.program_id(0)
        for end, count, *refs in zip(ends, blocks, read_refs, old_refs, new_refs, strict=True):
            here = program - (end - count)
            change = partial(_block, formula, scalars, moved_by, here, *refs)
            pl.when((here >= 0) & (here < count))(change)

    flat_read, flat_old = jax.tree.map(lambda leaf: leaf.reshape(-1), (read, old))
    first = 1 + len(jax.tree.leaves(read))
    shapes = jax.tree.map(lambda leaf: _shape(leaf.shape, leaf.dtype), flat_old)
    in_place = {first + k: k for k in range(len(jax.tree.leaves(old)))}
    call = launch(kernel, shapes, (ends[-1],), "map_leaves", input_output_aliases=in_place)
    new = call(numbers, flat_read, flat_old)
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
    """Write one block of a column from the references `read` and `old` to `new`."""
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
    """The reference by which a kernel addresses numbers of a leaf."""
    return leaf.at
