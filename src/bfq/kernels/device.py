"""Whether kernels are used, and for how many members at once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bfq.nets.primitives import in_forward_mode


class Use(NamedTuple):
    """How the program that is being traced uses kernels."""

    kernels: bool
    members: int = 1  # traced for one member, run for so many at once: decides how the work is cut
    interpreted: bool = False  # on any device, slowly: for tests
    half: bool = False  # products of bfloat16 numbers, summed in float32
    backward: bool = (
        False  # training: gradients are all that is taken, so products may have their own
    )

    @property
    def dtype(self) -> Any:
        """What products multiply."""
        return jnp.bfloat16 if self.half else jnp.float32


_use: ContextVar[Use | None] = ContextVar("kernels", default=None)


def use() -> Use:
    """What was asked for; else kernels where they can run, unless $BFQ_NO_KERNELS is 1."""
    current = _use.get() or Use(available())
    return current._replace(kernels=False, backward=False) if in_forward_mode() else current


def available() -> bool:
    """Whether this machine's first device runs the kernels, and the user lets it."""
    if os.environ.get("BFQ_NO_KERNELS") == "1":
        return False
    device = jax.devices()[0]
    version = str(getattr(device, "compute_capability", ""))  # "9.0"; of AMD's GPUs a word
    return device.platform == "gpu" and version.replace(".", "").isdigit() and float(version) >= 8.0


@contextmanager
def using(**changes: Any) -> Iterator[None]:
    """Changes the use of kernels for what is traced inside."""
    token = _use.set(use()._replace(**changes))
    try:
        yield
    finally:
        _use.reset(token)
