"""MeanFlow: learning the average velocity over [r, t] from its own derivative in time.

The average velocity of the flow is u(a_t, r, t) = (1/(t − r)) ∫_r^t v dτ. Differentiated along the path it
obeys u = v − (t − r) du/dt, with du/dt = v · ∂_a u + ∂_t u: a target that needs no integral and no teacher.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.flow.path import conditional_velocity, noisy_action
from bfq.flow.times import Number
from bfq.nets.primitives import forward_mode
from bfq.nets.velocity import Velocity

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
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """(r, t): two draws, sorted; the first flow_ratio · count samples have r = t."""
    r, t = jnp.sort(DISTRIBUTIONS[distribution](key, (2, count)), axis=0)
    return jnp.where(jnp.arange(count) < flow_ratio * count, t, r), t


def average_velocity(
    velocity: Velocity,
    a_t: Float[Array, "b a"],
    r: Float[Array, " b"],
    t: Float[Array, " b"],
    observation: Float[Array, "b s"],
    path_velocity: Float[Array, "b a"],
) -> tuple[Float[Array, "b a"], Float[Array, "b a"]]:
    """u_θ(a_t, r, t; s) and its target sg[v − (t − r) du_θ/dt].

    du/dt is one Jacobian-vector product with the tangent (v, 0, 1) of (a_t, r, t).
    """
    tangents = (path_velocity, jnp.zeros_like(r), jnp.ones_like(t))
    with forward_mode():
        u, du_dt = jax.jvp(lambda x, r, t: velocity(x, r, t, observation), (a_t, r, t), tangents)
    return u, jax.lax.stop_gradient(path_velocity - (t - r)[..., None] * du_dt)


def meanflow_loss(
    velocity: Velocity,
    action: Float[Array, "b a"],
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    flow_ratio: Number = 0.5,
    distribution: str = "logit_normal",
    adaptive_power: Number = 0.0,
) -> Float[Array, ""]:
    """E w ‖u_θ(a_t, r, t; s) − u_tgt‖², mean over action dimensions, w = sg (‖·‖² + c)^(−p); p = 0: w = 1."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, action.shape)
    r, t = interval_times(time_key, len(action), flow_ratio, distribution)
    a_t, v = noisy_action(action, noise, t), conditional_velocity(action, noise)
    u, target = average_velocity(velocity, a_t, r, t, observation, v)
    error = jnp.square(u - target).mean(-1)
    return (jax.lax.stop_gradient((error + SMALL) ** (-adaptive_power)) * error).mean()
