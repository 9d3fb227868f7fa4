"""A weight beside its bfloat16 copy: rounded where it is changed, not wherever it is read."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@partial(jax.tree_util.register_dataclass, data_fields=["full", "half"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Rounded:
    """A weight as training changes it, and as products read it."""

    full: Float[Array, "..."]
    half: Float[Array, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the weight."""
        return self.full.shape

    def __rmatmul__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """x W, where no kernel reads the copy."""
        return x @ self.full


WIDEST = 1024  # numbers of a row that fit on the chip
Weight = Float[Array, "..."] | Rounded


def suitable(width: int) -> bool:
    """Whether layers so wide can be computed in kernels: a power of two, not too large."""
    return 16 <= width <= WIDEST and width & (width - 1) == 0


def is_rounded(leaf: Any) -> bool:
    """Whether this is a weight with its copy: for trees, of which it is a leaf."""
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
    """That of a weight; a copy has none of its own."""
    return Rounded(gradient, jnp.zeros_like(gradient, jnp.bfloat16)) if copied else gradient


def without_copies(tree: Any) -> Any:
    """The tree with plain weights."""
    return jax.tree.map(full, tree, is_leaf=is_rounded)
