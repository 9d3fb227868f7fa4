"""The checkerboard: eight filled squares in the plane, the paper's test of expressiveness."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

STD = 4.0 / 3.0**0.5  # of either coordinate, uniform on [−4, 4]
SQUARES = 8


def checkerboard(key: PRNGKeyArray, count: int) -> Float[Array, "n 2"]:
    """Points on the filled 2×2 squares of [−4, 4]², divided by their standard deviation.

    x₁ = 4u − 2, x₂ = u′ − 2b + (⌊x₁⌋ mod 2) with b ∈ {0, 1}, then both doubled.
    """
    u = jax.random.uniform(key, (3, count))
    x1 = 4.0 * u[0] - 2.0
    x2 = u[1] - 2.0 * (u[2] < 0.5) + jnp.floor(x1) % 2
    return 2.0 * jnp.stack([x1, x2], axis=-1) / STD


def cells(points: Float[Array, "n 2"]) -> Int[Array, "n 2"]:
    """The column and row of each point's square, 0 to 3 inside the board."""
    return jnp.floor(points * STD / 2.0).astype(jnp.int32) + 2


def on_filled(points: Float[Array, "n 2"]) -> Bool[Array, " n"]:
    """Whether each point lies on a filled square; half of any uniform scatter does."""
    column, row = cells(points).T
    inside = (column >= 0) & (column < 4) & (row >= 0) & (row < 4)
    return inside & ((column + row) % 2 == 0)
