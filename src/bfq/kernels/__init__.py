"""Faster versions of the formulas in `bfq.nets`, above all kernels for NVIDIA GPUs.

They compute what the plain formulas compute, to rounding. `install` puts them in place; whether kernels run is
decided when a program is traced.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bfq.nets.primitives import in_forward_mode, replace


class Use(NamedTuple):
    """How kernels are used by the program that is being traced."""

    kernels: bool
    members: int = 1  # traced for one member, run for so many at once: decides the size of a piece
    interpreted: bool = False  # on any device, slowly: for tests
    half: bool = False  # products of bfloat16 numbers, summed in float32
    backward: bool = False  # training: only gradients are taken, so products may have their own

    @property
    def dtype(self) -> Any:
        """The numbers that products multiply."""
        return jnp.bfloat16 if self.half else jnp.float32


_use: ContextVar[Use | None] = ContextVar("kernels", default=None)


def use() -> Use:
    """The current choice: kernels where they can run, unless $BFQ_NO_KERNELS is 1."""
    current = _use.get() or Use(available())
    return current._replace(kernels=False, backward=False) if in_forward_mode() else current


def available() -> bool:
    """Whether the first device of this machine runs the kernels, and the user allows it."""
    if os.environ.get("BFQ_NO_KERNELS") == "1":
        return False
    device = jax.devices()[0]
    version = str(getattr(device, "compute_capability", ""))  # "9.0"; a word for AMD GPUs
    return device.platform == "gpu" and version.replace(".", "").isdigit() and float(version) >= 8.0


@contextmanager
def using(**changes: Any) -> Iterator[None]:
    """Change the use of kernels for programs that are traced inside."""
    token = _use.set(use()._replace(**changes))
    try:
        yield
    finally:
        _use.reset(token)


def install() -> None:
    """Replace the plain formulas by the fastest ones for this device."""
    from bfq.kernels import leaves, networks

    replace(
        use_kernels=lambda plain: use().kernels,
        map_leaves=leaves.map_in_few_launches,
        apply_layers=networks.fast_layers,
        block_linear=networks.half_linear,
        row_mean=networks.mean_by_product,
        mish=networks.fast_mish,
    )
