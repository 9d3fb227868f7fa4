"""Gradient steps, learning-rate schedules and target networks: shared by all agents, tested once."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from bfq.nets.primitives import map_leaves

T = TypeVar("T")
Number = float | Float[Array, ""]
Step = Int[Array, ""]
SCHEDULES = ("cosine", "constant", "warmup_cosine")

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's usual numbers

_adam = optax.scale_by_adam(BETA_1, BETA_2, EPSILON)


class Learner(NamedTuple):
    """Parameters and their Adam moments."""

    params: Any
    moments: Any


def learner(params: Any) -> Learner:
    """Begins the optimization of `params`."""
    return Learner(params, _adam.init(params))


def learning_rate(base: Number, schedule: str, step: Step, steps: int) -> Float[Array, ""]:
    """The rate of update `step` (from 0).

    - "constant": base;
    - "cosine": base · ½(1 + cos(π step / steps)), 0 at the end;
    - "warmup_cosine": linear from 0 over the first 5 %, then a cosine down to 10 % of base (MeanFlowQL).
    """
    if schedule == "constant":
        return jnp.asarray(base, jnp.float32)
    progress = step.astype(jnp.float32) / steps
    if schedule == "cosine":
        return base * 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    falling = 0.1 + 0.45 * (1.0 + jnp.cos(jnp.pi * (progress - 0.05) / 0.95))
    return base * jnp.where(progress < 0.05, progress / 0.05, falling)


def own_or(own: Number, usual: Number) -> Float[Array, ""]:
    """A rate of its own where one is given, else the usual one: 0 stands for none."""
    return jnp.where(jnp.asarray(own) > 0.0, own, usual)


def descend(
    state: Learner,
    loss: Callable[[Any], tuple[Array, T]],
    rate: Number,
    clip_norm: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Learner, Float[Array, ""], T]:
    """One Adam step on `loss(params) -> (value, extra)`.

    `clip_norm` > 0 bounds the gradient's norm; `weight_decay` shrinks the parameters apart from it (AdamW).
    """
    gradient, value, extra = _gradient(loss, state.params, clip_norm)
    new, _ = _adam_step(state, gradient, rate, weight_decay)
    return new, value, extra


def descend_and_follow(
    state: Learner,
    target: Any,
    loss: Callable[[Any], tuple[Array, T]],
    rate: Number,
    target_rate: Number,
    clip_norm: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Learner, Any, Float[Array, ""], T]:
    """One Adam step, and the target moved towards the new parameters in the same pass over the memory."""
    gradient, value, extra = _gradient(loss, state.params, clip_norm)
    new, (moved,) = _adam_step(state, gradient, rate, weight_decay, (target, target_rate))
    return new, moved, value, extra


def _gradient(
    loss: Callable[[Any], tuple[Array, T]], params: Any, clip_norm: float
) -> tuple[Any, Float[Array, ""], T]:
    (value, extra), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(params)
    return _bounded(gradient, clip_norm) if clip_norm else gradient, value, extra


def _adam_step(
    state: Learner, gradient: Any, rate: Number, weight_decay: float, *followers: tuple[Any, Number]
) -> tuple[Learner, list[Any]]:
    """Adam as optax has it, written out so that every array is read and written once."""
    count = optax.safe_increment(state.moments.count)
    scalars = (rate, 1.0 - BETA_1**count, 1.0 - BETA_2**count, *(rho for _, rho in followers))
    old = (state.params, state.moments.mu, state.moments.nu, *(target for target, _ in followers))

    def step(rate: Array, c_1: Array, c_2: Array, *rest: Array) -> tuple[Array, ...]:
        rhos, (g, p, mu, nu, *targets) = rest[: len(followers)], rest[len(followers) :]
        mu = BETA_1 * mu + (1.0 - BETA_1) * g
        nu = BETA_2 * nu + (1.0 - BETA_2) * g * g
        direction = (mu / c_1) / (jnp.sqrt(nu / c_2) + EPSILON)
        p = p - rate * (direction + weight_decay * p if weight_decay else direction)
        return p, mu, nu, *((1.0 - rho) * t + rho * p for rho, t in zip(rhos, targets, strict=True))

    unmoved_at_zero = [None, None, None, *range(3, len(scalars))]
    params, mu, nu, *moved = map_leaves(
        step, scalars, gradient, *old, changed=len(old), unmoved_at_zero=unmoved_at_zero
    )
    return Learner(params, optax.ScaleByAdamState(count, mu, nu)), moved


def _bounded(gradient: T, most: float) -> T:
    """The gradient, shortened to a norm of `most` where it is longer."""
    norm = optax.tree.norm(gradient)
    factor = jnp.where(norm > most, most / jnp.maximum(norm, 1e-12), 1.0)
    return jax.tree.map(lambda g: factor * g, gradient)


def towards(target: T, online: T, rate: Number) -> T:
    """Polyak averaging: target ← (1 − rate) · target + rate · online."""

    def closer(rho: Array, b: Array, a: Array) -> tuple[Array]:
        return ((1.0 - rho) * a + rho * b,)

    return map_leaves(closer, (rate,), online, target, changed=1, unmoved_at_zero=[0])[0]


def every(step: Step, interval: int, do: Callable[[T], T], state: T) -> T:
    """`do(state)` at each update whose number divides by the interval, else the state as it is.

    The number of the update is one for all members of a population, so what is not due is not computed.
    """
    if interval == 1:
        return do(state)
    return jax.lax.cond(step % interval == 0, do, lambda unchanged: unchanged, state)


def due(step: Step, every: int, start: int = 0) -> Float[Array, ""]:
    """1 when something done every so many updates from `start` on is due at update `step`, else 0."""
    return ((step % every == 0) & (step >= start)).astype(jnp.float32)
