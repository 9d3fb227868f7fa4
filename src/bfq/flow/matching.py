"""Flow matching and Euler steps.

Here as in the FQL family t = 0 is noise x0, t = 1 is data x1, and steps add. Only `euler` runs the paper's way
(t = 0 is the action, and steps subtract); do not mix the two.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.primitives import scan_steps

UNROLLED = 20  # steps in one turn of a GPU's loop; more take long to compile
Vectors = Float[Array, "*b a"]
Observations = Float[Array, "*b s"]
ForwardField = Callable[[Array, Array, Array], Array]  # (x_t, t, s) -> v


def between(x0: Vectors, x1: Vectors, t: Float[Array, "*b"]) -> Vectors:
    """x_t = (1 − t) x0 + t x1."""
    return (1.0 - t[..., None]) * x0 + t[..., None] * x1


def matching_errors(
    velocity: ForwardField,
    x0: Vectors,
    x1: Vectors,
    t: Float[Array, " b"],
    observation: Observations,
) -> Float[Array, " b"]:
    """‖v(x_t, t; s) − (x1 − x0)‖² of each sample (mean over action dimensions)."""
    return jnp.square(velocity(between(x0, x1, t), t, observation) - (x1 - x0)).mean(-1)


def random_matching_errors(
    velocity: ForwardField, x1: Vectors, observation: Observations, key: PRNGKeyArray
) -> Float[Array, " b"]:
    """The matching errors at x0 ~ N(0, I), t ~ U(0, 1); their mean is L_flow."""
    noise_key, time_key = jax.random.split(key)
    x0 = jax.random.normal(noise_key, x1.shape)
    t = jax.random.uniform(time_key, x1.shape[:1])
    return matching_errors(velocity, x0, x1, t, observation)


def push(velocity: ForwardField, x0: Vectors, observation: Observations, steps: int) -> Vectors:
    """x ← x + v(x, i/K; s)/K for i = 0 … K − 1: differentiable through all K steps, not clipped."""

    def step(x: Array, t: Array) -> tuple[Array, None]:
        return x + velocity(x, t, observation) / steps, None

    return scan_steps(step, x0, jnp.arange(steps) / steps, UNROLLED)


def sample(
    velocity: ForwardField,
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    action_dim: int,
    steps: int,
    temperature: float = 1.0,
) -> Float[Array, "b a"]:
    """One action per state: K Euler steps from temperature · N(0, I), clipped at the end only."""
    noise = temperature * jax.random.normal(key, (len(observation), action_dim))
    return jnp.clip(push(velocity, noise, observation, steps), -1.0, 1.0)


def euler(velocity: Callable[[Array, Array], Array], noise: Vectors, steps: int) -> Vectors:
    """a_{t−Δ} = a_t − Δ v(a_t, t) with Δ = 1/steps, from noise at t = 1 to the action at t = 0."""
    delta = 1.0 / steps

    def step(k: Array, x: Array) -> Array:
        return x - delta * velocity(x, jnp.full(x.shape[:-1], 1.0 - k * delta))

    return jax.lax.fori_loop(0, steps, step, noise)
