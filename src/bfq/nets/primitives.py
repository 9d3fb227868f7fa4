"""Formulas that a device may replace: `bfq.kernels.install` fills the table, else all run as written.

A replacement computes the same numbers to rounding. It receives the plain formula as its first argument, so
that it can fall back on it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

P = ParamSpec("P")
T = TypeVar("T")

_REPLACEMENTS: dict[str, Callable[..., Any]] = {}
_FORWARD_MODE: ContextVar[bool] = ContextVar("forward_mode", default=False)


def replaceable(formula: Callable[P, T]) -> Callable[P, T]:
    """Mark a formula that `replace` may exchange; its name is the key."""
    name = formula.__name__

    @wraps(formula)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        faster = _REPLACEMENTS.get(name)
        return faster(formula, *args, **kwargs) if faster else formula(*args, **kwargs)

    return call


def replace(**replacements: Callable[..., Any]) -> None:
    """Exchange formulas by name."""
    _REPLACEMENTS.update(replacements)


@contextmanager
def forward_mode() -> Iterator[None]:
    """Use only formulas that have Jacobian-vector products; kernels have gradients alone."""
    token = _FORWARD_MODE.set(True)
    try:
        yield
    finally:
        _FORWARD_MODE.reset(token)


def in_forward_mode() -> bool:
    """Whether the code that is being traced needs Jacobian-vector products."""
    return _FORWARD_MODE.get()


@replaceable
def use_kernels() -> bool:
    """Whether kernels run here: then few large launches are faster than many small ones."""
    return False


@replaceable
def map_leaves(
    formula: Callable[..., tuple[Array, ...]],
    scalars: Sequence[Any],
    *trees: Any,
    changed: int,
    unmoved_at_zero: Sequence[int | None] = (),
) -> tuple[Any, ...]:
    """Apply formula(*scalars, *leaves) at every leaf; its results replace the last `changed` trees.

    `unmoved_at_zero` names for each of these the scalar, if any, that leaves it as it is by being 0.
    """
    numbers = jnp.stack([jnp.asarray(scalar, jnp.float32) for scalar in scalars])
    leaves, structures = zip(*map(jax.tree.flatten, trees), strict=True)
    new = [formula(*numbers, *column) for column in zip(*leaves, strict=True)]
    return tuple(
        jax.tree.unflatten(structure, row)
        for structure, row in zip(structures[-changed:], zip(*new, strict=True), strict=True)
    )
