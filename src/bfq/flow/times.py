"""Where on the path the losses look: draws of (r, t) for the boundary and (r, m, t) for the composition."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Times = tuple[Float[Array, " b"], Float[Array, " b"], Float[Array, " b"]]
Number = float | Float[Array, ""]


def boundary_times(
    key: PRNGKeyArray, count: int, max_offset: Number
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """(r, t): t ~ U(0, 1), Δ ~ U(0, Δ_max), r = max(t − Δ, 0)."""
    u = jax.random.uniform(key, (2, count))
    t = u[0]
    return jnp.maximum(t - max_offset * u[1], 0.0), t


def nested_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's algorithm: t ~ U(0, 1), r ~ U(0, t − Δ_max), m ~ U(r, t)."""
    u = jax.random.uniform(key, (3, count))
    t = u[0]
    r = u[1] * jnp.maximum(t - max_offset, 0.0)
    return r, r + u[2] * (t - r), t


def ordered_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's text: three uniforms, sorted. The density of t is 3t², its mean ¾."""
    u = jnp.sort(jax.random.uniform(key, (3, count)), axis=0)
    return u[0], u[1], u[2]


def sorted_below_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's table: t ~ U(0, 1), then r ≤ m from two uniforms below t, sorted."""
    u = jax.random.uniform(key, (3, count))
    below = jnp.sort(u[1:] * u[0], axis=0)
    return below[0], below[1], u[0]


COMPOSITION_TIMES: dict[str, Callable[[PRNGKeyArray, int, Number], Times]] = {
    "nested": nested_times,
    "ordered": ordered_times,
    "sorted_below": sorted_below_times,
}


def with_full_spans(key: PRNGKeyArray, times: Times, share: float) -> Times:
    """Moves a share of the draws to (r, t) = (0, 1), the pair that acts, m keeping its place between them."""
    if share == 0.0:
        return times
    r, m, t = times
    fraction = jnp.where(t > r, (m - r) / jnp.where(t > r, t - r, 1.0), 0.5)
    moved = jax.random.uniform(key, t.shape) < share
    return jnp.where(moved, 0.0, r), jnp.where(moved, fraction, m), jnp.where(moved, 1.0, t)
