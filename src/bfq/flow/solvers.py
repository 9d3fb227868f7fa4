"""Numerical integration of a learned velocity field from noise (t = 1) to action (t = 0)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def euler(
    velocity: Callable[[Float[Array, "*b a"], Float[Array, "*b"]], Float[Array, "*b a"]],
    noise: Float[Array, "*b a"],
    steps: int,
) -> Float[Array, "*b a"]:
    """a_{t−Δ} = a_t − Δ v(a_t, t) with Δ = 1/steps, from t = 1 down to 0."""
    delta = 1.0 / steps

    def step(k: Array, x: Array) -> Array:
        t = jnp.full(x.shape[:-1], 1.0 - k * delta)
        return x - delta * velocity(x, t)

    return jax.lax.fori_loop(0, steps, step, noise)
