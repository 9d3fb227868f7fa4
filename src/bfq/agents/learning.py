"""Gradient steps, learning-rate schedules and target networks: shared by all agents, tested once."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

T = TypeVar("T")
Number = float | Float[Array, ""]
Step = Int[Array, ""]
SCHEDULES = ("cosine", "constant", "warmup_cosine")

_adam = optax.scale_by_adam()


class Learner(NamedTuple):
    """Parameters and their Adam moments."""

    params: Any
    moments: Any


def learner(params: Any) -> Learner:
    """Begins the optimisation of `params`."""
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
    (value, extra), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(state.params)
    if clip_norm:
        gradient = _bounded(gradient, clip_norm)
    direction, moments = _adam.update(gradient, state.moments)
    if weight_decay:
        direction = jax.tree.map(lambda d, p: d + weight_decay * p, direction, state.params)
    params = jax.tree.map(lambda p, d: p - rate * d, state.params, direction)
    return Learner(params, moments), value, extra


def _bounded(gradient: T, most: float) -> T:
    """The gradient, shortened to a norm of `most` where it is longer."""
    norm = optax.tree.norm(gradient)
    factor = jnp.where(norm > most, most / jnp.maximum(norm, 1e-12), 1.0)
    return jax.tree.map(lambda g: factor * g, gradient)


def towards(target: T, online: T, rate: Number) -> T:
    """Polyak averaging: target ← (1 − rate) · target + rate · online."""
    return jax.tree.map(lambda a, b: (1.0 - rate) * a + rate * b, target, online)


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
