"""Flow matching and Euler steps.

Here as in the FQL family t = 0 is noise x0, t = 1 is data x1, and steps add. Only `matching_loss` and `euler` have
the paper's way (t = 0 is the action, and steps subtract); do not mix the two.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.flow.loops import scan_steps

UNROLLED = 20  # steps in one turn of a GPU's loop; more take long to compile
Vectors = Float[Array, "*b a"]
Observations = Float[Array, "*b s"]
Row = Float[Array, " b"]
Field = Callable[[Array, Array, Array], Array]  # (x_t, t, s) -> v


def matching_errors(velocity: Field, x0: Vectors, x1: Vectors, t: Row, s: Observations) -> Row:
    """‖v(x_t, t; s) − (x1 − x0)‖² at x_t = (1 − t) x0 + t x1 (mean over action dimensions)."""
    x_t = (1.0 - t[..., None]) * x0 + t[..., None] * x1
    return jnp.square(velocity(x_t, t, s) - (x1 - x0)).mean(-1)


def random_matching_errors(velocity: Field, x1: Vectors, s: Observations, key: PRNGKeyArray) -> Row:
    """The matching errors at x0 ~ N(0, I), t ~ U(0, 1); their mean is L_flow."""
    noise_key, time_key = jax.random.split(key)
    x0 = jax.random.normal(noise_key, x1.shape)
    t = jax.random.uniform(time_key, x1.shape[:1])
    return matching_errors(velocity, x0, x1, t, s)


def push(velocity: Field, x0: Vectors, s: Observations, steps: int) -> Vectors:
    """x ← x + v(x, i/K; s)/K for i = 0 … K − 1: differentiable through all K steps, not clipped."""

    def step(x: Array, t: Array) -> tuple[Array, None]:
        return x + velocity(x, t, s) / steps, None

    return scan_steps(step, x0, jnp.arange(steps) / steps, UNROLLED)


def sample(
    velocity: Field,
    s: Observations,
    key: PRNGKeyArray,
    action_dim: int,
    steps: int,
    temperature: float = 1.0,
) -> Vectors:
    """One action per state: K Euler steps from temperature · N(0, I), clipped at the end only."""
    noise = temperature * jax.random.normal(key, (len(s), action_dim))
    return jnp.clip(push(velocity, noise, s, steps), -1.0, 1.0)


def matching_loss(
    velocity: Callable[..., Array], action: Vectors, noise: Vectors, t: Row, s: Observations
) -> Float[Array, ""]:
    """E ‖v(a_t, t, t; s) − (ε − a)‖², a_t = (1 − t) a + t ε: flow matching for a network that also has r."""
    a_t = (1.0 - t[..., None]) * action + t[..., None] * noise
    return jnp.square(velocity(a_t, t, t, s) - (noise - action)).mean()


def euler(velocity: Callable[[Array, Array], Array], noise: Vectors, steps: int) -> Vectors:
    """a_{t−Δ} = a_t − Δ v(a_t, t) with Δ = 1/steps, from noise at t = 1 to the action at t = 0."""
    delta = 1.0 / steps

    def step(k: Array, x: Array) -> Array:
        return x - delta * velocity(x, jnp.full(x.shape[:-1], 1.0 - k * delta))

    return jax.lax.fori_loop(0, steps, step, noise)
