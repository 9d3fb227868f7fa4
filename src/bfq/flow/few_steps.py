"""Other ways to sample in one or a few steps: MeanFlow, consistency models and shortcut models.

MeanFlow learns the average velocity u(a_t, r, t) = (1/(t − r)) ∫_r^t v dτ from its own derivative in time.
Along the path u = v − (t − r) du/dt with du/dt = v · ∂_a u + ∂_t u: no integral and no teacher is needed.

A consistency model sends every noisy action of a path to the path's beginning. The path is a_t = a + t z with
t from ε = 0.002 to T = 80. f_θ(a_t, t) = c_skip(t) a_t + c_out(t) F_θ(a_t, t) is the identity at t = ε for any
network, and is trained to agree with itself at neighboring times.

A shortcut model is a velocity that receives the length of its step. Time runs forward: t = 0 is noise x0, t = 1
is data x1. A step of index k has length 2^−k, so k = log2 M for M equal steps. The shortest, of length
1/`finest`, is learned from the data, each longer one from two of half its length. `finest` is a power of two.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bfq.flow import maps
from bfq.flow.maps import Action, Number, Observation, Row, Scalar, Velocity
from bfq.flow.matching import push
from bfq.nets.primitives import forward_mode

LOCATION, SCALE = -0.4, 1.0  # of the normal whose sigmoid a time is
SMALL = 1e-3  # c of the adaptive weight


def logit_normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """sigmoid(x), x ~ N(−0.4, 1): more times near the action than near the noise."""
    return jax.nn.sigmoid(LOCATION + SCALE * jax.random.normal(key, shape))


DISTRIBUTIONS: dict[str, Callable[[PRNGKeyArray, tuple[int, ...]], Array]] = {
    "logit_normal": logit_normal,
    "uniform": jax.random.uniform,
}


def interval_times(
    key: PRNGKeyArray, count: int, flow_ratio: Number, distribution: str
) -> tuple[Row, Row]:
    """(r, t): two draws, sorted; the first flow_ratio · count samples have r = t."""
    r, t = jnp.sort(DISTRIBUTIONS[distribution](key, (2, count)), axis=0)
    return jnp.where(jnp.arange(count) < flow_ratio * count, t, r), t


def average_velocity(
    velocity: Velocity, a_t: Action, r: Row, t: Row, observation: Observation, path_velocity: Action
) -> tuple[Action, Action]:
    """u_θ(a_t, r, t; s) and its target sg[v − (t − r) du_θ/dt].

    du/dt is one Jacobian-vector product with the tangent (v, 0, 1) of (a_t, r, t).
    """
    tangents = (path_velocity, jnp.zeros_like(r), jnp.ones_like(t))
    with forward_mode():
        u, du_dt = jax.jvp(lambda x, r, t: velocity(x, r, t, observation), (a_t, r, t), tangents)
    return u, jax.lax.stop_gradient(path_velocity - (t - r)[..., None] * du_dt)


def meanflow_loss(
    velocity: Velocity,
    action: Action,
    observation: Observation,
    key: PRNGKeyArray,
    flow_ratio: Number = 0.5,
    distribution: str = "logit_normal",
    adaptive_power: Number = 0.0,
) -> Scalar:
    """E w ‖u_θ(a_t, r, t; s) − u_tgt‖², mean over action dimensions, w = sg (‖·‖² + c)^(−p); p = 0: w = 1."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, action.shape)
    r, t = interval_times(time_key, len(action), flow_ratio, distribution)
    a_t, v = maps.noisy_action(action, noise, t), maps.conditional_velocity(action, noise)
    u, target = average_velocity(velocity, a_t, r, t, observation, v)
    error = jnp.square(u - target).mean(-1)
    return (jax.lax.stop_gradient((error + SMALL) ** (-adaptive_power)) * error).mean()


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


def consistency_function(net: Consistency, x: Action, t: Float[Array, "..."]) -> Action:
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


def neighboring_times(key: PRNGKeyArray, count: int, size: Int[Array, ""] | int) -> tuple[Row, Row]:
    """(t_i, t_{i+1}) for i uniform on 0 … N − 2."""
    i = jax.random.randint(key, (count,), 0, size - 1)
    return karras_time(i, size), karras_time(i + 1, size)


def consistency_loss(
    online: Consistency,
    teacher: Consistency,
    action: Action,
    noise: Action,
    earlier: Row,
    later: Row,
    scaled: bool = True,
) -> Scalar:
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
    denoise: Consistency, noise: Action, times: Sequence[float], key: PRNGKeyArray
) -> Action:
    """x = f(T z, t_1); then, for each later time, noise again and f again: x ← f(x + √(t² − ε²) z′, t)."""
    x = denoise(MOST * noise, jnp.asarray(times[0]))
    for k, t in enumerate(times[1:]):
        fresh = jax.random.normal(jax.random.fold_in(key, k), noise.shape)
        x = denoise(x + (t**2 - LEAST**2) ** 0.5 * fresh, jnp.asarray(t))
    return x


Shortcut = Callable[[Array, Array, Array, Array], Array]  # (x_t, t, k, s) -> v
REMAINDER = 1e-5  # share of the noise that is left at t = 1


def levels(finest: int) -> int:
    """log2 of the number of the finest steps, which is their index."""
    return finest.bit_length() - 1


def shortcut_point(x0: Action, x1: Action, t: Row) -> Action:
    """x_t = (1 − (1 − ϵ) t) x0 + t x1."""
    return (1.0 - (1.0 - REMAINDER) * t[:, None]) * x0 + t[:, None] * x1


def finest_times(key: PRNGKeyArray, count: int, finest: int) -> Row:
    """t uniform on {0, …, M − 1}/M: where the shortest steps begin."""
    return jax.random.randint(key, (count,), 0, finest) / finest


def step_indices(count: int, finest: int) -> Row:
    """k of each row: an equal share for log2 M − 1, …, 1, 0 in this order; what remains has k = 0."""
    longer = levels(finest)
    k = jnp.repeat(
        jnp.arange(longer)[::-1], count // longer, total_repeat_length=longer * (count // longer)
    )
    return jnp.concatenate([k, jnp.zeros(count - len(k))])


def step_times(key: PRNGKeyArray, k: Row) -> Row:
    """t uniform on the multiples of 2^−k below 1: where steps of index k begin."""
    sections = jnp.exp2(k)
    return jax.random.randint(key, k.shape, 0, sections.astype(jnp.int32)) / sections


def finest_steps_loss(
    velocity: Shortcut, x0: Action, x1: Action, t: Row, s: Observation, finest: int
) -> Scalar:
    """L_flow = E ‖v(x_t, t, log2 M; s) − (x1 − (1 − ϵ) x0)‖² (mean over action dimensions)."""
    k = jnp.full_like(t, levels(finest))
    output = velocity(shortcut_point(x0, x1, t), t, k, s)
    return jnp.square(output - (x1 - (1.0 - REMAINDER) * x0)).mean()


def half_steps_loss(
    velocity: Shortcut, target: Shortcut, x0: Action, x1: Action, t: Row, k: Row, s: Observation
) -> Scalar:
    """L_cons = E ‖v(x_t, t, k; s) − sg ½(v₁ + v₂)‖², v₁ and v₂ two half steps (index k + 1) of the target."""
    x_t, half = shortcut_point(x0, x1, t), 0.5 * jnp.exp2(-k)
    first = target(x_t, t, k + 1.0, s)
    second = target(x_t + half[:, None] * first, t + half, k + 1.0, s)
    average = jax.lax.stop_gradient(0.5 * (first + second))
    return jnp.square(velocity(x_t, t, k, s) - average).mean()


def shortcut_losses(
    velocity: Shortcut, target: Shortcut, x1: Action, s: Observation, key: PRNGKeyArray, finest: int
) -> tuple[Scalar, Scalar]:
    """L_flow and L_cons on the same data, each with its own noise and times.

    The target is a slowly moving copy of the velocity. Without a state, the observation has width 0.
    """
    flow_noise, flow_time, noise_key, time_key = jax.random.split(key, 4)
    count = len(x1)
    x0, t = jax.random.normal(flow_noise, x1.shape), finest_times(flow_time, count, finest)
    flow = finest_steps_loss(velocity, x0, x1, t, s, finest)
    k = step_indices(count, finest)
    x0, t = jax.random.normal(noise_key, x1.shape), step_times(time_key, k)
    return flow, half_steps_loss(velocity, target, x0, x1, t, k, s)


def jump(velocity: Shortcut, x0: Action, observation: Observation, steps: int) -> Action:
    """x ← x + v(x, i/M, log2 M; s)/M for i = 0 … M − 1, differentiable and not clipped."""
    k = jnp.full((), levels(steps), jnp.float32)
    return push(lambda x, t, s: velocity(x, t, k, s), x0, observation, steps)
