"""Consistency models: one function that sends every noisy action of a path to the path's beginning.

The path is a_t = a + t z with t from ε = 0.002 to T = 80. f_θ(a_t, t) = c_skip(t) a_t + c_out(t) F_θ(a_t, t)
is the identity at t = ε whatever the network says, and is trained to agree with itself at neighboring times.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

LEAST, MOST = 0.002, 80.0  # ε and T
LAST = 2.0  # the last time of a sample in several steps
FEWEST, FINEST = 2, 150  # times of the grid at the curriculum's beginning and end
RHO = 7.0  # of the grid
DATA_STD = 0.5  # σ that the data are taken to have

Consistency = Callable[[Array, Array], Array]  # (a_t, t) -> a


def c_skip(t: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """σ² / ((t − ε)² + σ²): 1 at t = ε."""
    return DATA_STD**2 / (jnp.square(t - LEAST) + DATA_STD**2)


def c_out(t: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """σ (t − ε) / √(t² + σ²): 0 at t = ε."""
    return DATA_STD * (t - LEAST) / jnp.sqrt(jnp.square(t) + DATA_STD**2)


def consistency(
    net: Consistency, x: Float[Array, "*b a"], t: Float[Array, "..."]
) -> Float[Array, "*b a"]:
    """f_θ(a_t, t) = c_skip(t) a_t + c_out(t) F_θ(a_t, t); t is one number a row, or one for all rows."""
    return c_skip(t)[..., None] * x + c_out(t)[..., None] * net(x, t)


def karras_time(index: Int[Array, "*b"], count: Int[Array, ""] | int) -> Float[Array, "*b"]:
    """t_i = (ε^(1/7) + i/(N − 1) (T^(1/7) − ε^(1/7)))^7, i = 0 … N − 1."""
    low, high = LEAST ** (1.0 / RHO), MOST ** (1.0 / RHO)
    return (low + index / (count - 1) * (high - low)) ** RHO


def grid_size(step: Int[Array, ""], updates: int) -> Int[Array, ""]:
    """N(k) = ⌈√(k (150² − 2²)/K + 2²) − 1⌉ + 1, from 2 times at k = 0 to 150 at k = K.

    Counted by the last k of each N in whole numbers, so that rounding never decides.
    """
    n = np.arange(FEWEST, FINEST, dtype=np.int64)
    last = (n**2 - FEWEST**2) * updates // (FINEST**2 - FEWEST**2)
    return FEWEST + (jnp.asarray(last, jnp.int32) < step).sum()


def neighboring_times(
    key: PRNGKeyArray, count: int, size: Int[Array, ""] | int
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """(t_i, t_{i+1}) for i uniform on 0 … N − 2."""
    i = jax.random.randint(key, (count,), 0, size - 1)
    return karras_time(i, size), karras_time(i + 1, size)


def consistency_loss(
    online: Consistency,
    teacher: Consistency,
    action: Float[Array, "b a"],
    noise: Float[Array, "b a"],
    earlier: Float[Array, " b"],
    later: Float[Array, " b"],
    scaled: bool = True,
) -> Float[Array, ""]:
    """E w ‖f_θ(a + t′ z, t′) − sg f_θ′(a + t z, t)‖², mean over action dimensions; w = 100/(t′ − t), or 1."""
    target = jax.lax.stop_gradient(teacher(action + earlier[..., None] * noise, earlier))
    error = jnp.square(online(action + later[..., None] * noise, later) - target).mean(-1)
    return (100.0 / (later - earlier) * error).mean() if scaled else error.mean()


def sampling_times(steps: int, literal: bool = False) -> tuple[float, ...]:
    """T … 2 in equal steps; in one step T, or, taken literally as official code does, 2."""
    if steps == 1:
        return (LAST if literal else MOST,)
    return tuple(float(t) for t in np.linspace(MOST, LAST, steps))


def multistep(
    denoise: Consistency, noise: Float[Array, "*b a"], times: Sequence[float], key: PRNGKeyArray
) -> Float[Array, "*b a"]:
    """x = f(T z, t_1); then, for each later time, noise again and f again: x ← f(x + √(t² − ε²) z′, t)."""
    x = denoise(MOST * noise, jnp.asarray(times[0]))
    for k, t in enumerate(times[1:]):
        fresh = jax.random.normal(jax.random.fold_in(key, k), noise.shape)
        x = denoise(x + (t**2 - LEAST**2) ** 0.5 * fresh, jnp.asarray(t))
    return x
