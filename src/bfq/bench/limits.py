"""What the device can do at best, measured with the two simplest programs there are."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bfq.bench.timing import timed


class Limits(NamedTuple):
    """The most that one could hope for."""

    flops: (
        float  # float32 operations a second, in one large matrix product at JAX's default precision
    )
    bytes: float  # bytes a second, read and written by one large addition


@cache
def limits() -> Limits:
    """The limits of the default device, measured once a process."""
    large = jax.default_backend() != "cpu"
    size, count = (8192, 2**28) if large else (1536, 2**25)
    product = jax.jit(lambda a: a @ a)
    square = jnp.ones((size, size))
    addition = jax.jit(lambda x: x + 1.0)
    line = jnp.ones(count)
    best_product = timed(lambda: product(square), 5).low
    best_addition = timed(lambda: addition(line), 5).low
    return Limits(2.0 * size**3 / best_product, 8.0 * count / best_addition)
