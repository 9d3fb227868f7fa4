"""Shortcut models: a velocity that is told the length of its step and learns long steps from two halves.

Time runs forward: t = 0 is noise x0, t = 1 is data x1. A step of index k has length 2^−k, so k = log2 M for M
equal steps. The shortest, of length 1/`finest`, is learned from the data; each longer one from two of half its
length. `finest` is a power of two.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.flow.forward import push

ShortcutField = Callable[[Array, Array, Array, Array], Array]  # (x_t, t, k, s) -> v
REMAINDER = 1e-5  # share of the noise that is left at t = 1


def levels(finest: int) -> int:
    """log2 of the number of the finest steps, which is their index."""
    return finest.bit_length() - 1


def noisy(
    x0: Float[Array, "b a"], x1: Float[Array, "b a"], t: Float[Array, " b"]
) -> Float[Array, "b a"]:
    """x_t = (1 − (1 − ϵ) t) x0 + t x1."""
    return (1.0 - (1.0 - REMAINDER) * t[:, None]) * x0 + t[:, None] * x1


def flow_times(key: PRNGKeyArray, count: int, finest: int) -> Float[Array, " b"]:
    """t uniform on {0, …, M − 1}/M: where the shortest steps begin."""
    return jax.random.randint(key, (count,), 0, finest) / finest


def step_indices(count: int, finest: int) -> Float[Array, " b"]:
    """k of each row: an equal share for log2 M − 1, …, 1, 0 in this order; what remains has k = 0."""
    longer = levels(finest)
    k = jnp.repeat(
        jnp.arange(longer)[::-1], count // longer, total_repeat_length=longer * (count // longer)
    )
    return jnp.concatenate([k, jnp.zeros(count - len(k))])


def consistency_times(key: PRNGKeyArray, k: Float[Array, " b"]) -> Float[Array, " b"]:
    """t uniform on the multiples of 2^−k below 1: where steps of index k begin."""
    sections = jnp.exp2(k)
    return jax.random.randint(key, k.shape, 0, sections.astype(jnp.int32)) / sections


def flow_loss(
    velocity: ShortcutField,
    x0: Float[Array, "b a"],
    x1: Float[Array, "b a"],
    t: Float[Array, " b"],
    observation: Float[Array, "b s"],
    finest: int,
) -> Float[Array, ""]:
    """L_flow = E ‖v(x_t, t, log2 M; s) − (x1 − (1 − ϵ) x0)‖² (mean over action dimensions)."""
    k = jnp.full_like(t, levels(finest))
    output = velocity(noisy(x0, x1, t), t, k, observation)
    return jnp.square(output - (x1 - (1.0 - REMAINDER) * x0)).mean()


def consistency_loss(
    velocity: ShortcutField,
    target: ShortcutField,
    x0: Float[Array, "b a"],
    x1: Float[Array, "b a"],
    t: Float[Array, " b"],
    k: Float[Array, " b"],
    observation: Float[Array, "b s"],
) -> Float[Array, ""]:
    """L_cons = E ‖v(x_t, t, k; s) − sg ½(v₁ + v₂)‖², v₁ and v₂ two half steps (index k + 1) of the target."""
    x_t, half = noisy(x0, x1, t), 0.5 * jnp.exp2(-k)
    first = target(x_t, t, k + 1.0, observation)
    second = target(x_t + half[:, None] * first, t + half, k + 1.0, observation)
    average = jax.lax.stop_gradient(0.5 * (first + second))
    return jnp.square(velocity(x_t, t, k, observation) - average).mean()


def shortcut_losses(
    velocity: ShortcutField,
    target: ShortcutField,
    x1: Float[Array, "b a"],
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    finest: int,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """L_flow and L_cons on the same data, each with its own noise and times.

    The target is a slowly moving copy of the velocity. Without a state, the observation has width 0.
    """
    flow_noise, flow_time, noise_key, time_key = jax.random.split(key, 4)
    count = len(x1)
    flow = flow_loss(
        velocity,
        jax.random.normal(flow_noise, x1.shape),
        x1,
        flow_times(flow_time, count, finest),
        observation,
        finest,
    )
    k = step_indices(count, finest)
    x0, t = jax.random.normal(noise_key, x1.shape), consistency_times(time_key, k)
    return flow, consistency_loss(velocity, target, x0, x1, t, k, observation)


def jump(
    velocity: ShortcutField,
    x0: Float[Array, "*b a"],
    observation: Float[Array, "*b s"],
    steps: int,
) -> Float[Array, "*b a"]:
    """x ← x + v(x, i/M, log2 M; s)/M for i = 0 … M − 1, differentiable and not clipped."""
    k = jnp.full((), levels(steps), jnp.float32)
    return push(lambda x, t, s: velocity(x, t, k, s), x0, observation, steps)
