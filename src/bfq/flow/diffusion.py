"""Diffusion: noise schedules, what a denoiser learns, and the rules that sample actions from it.

a_t = α_t a + σ_t ε with α² + σ² = 1. Schedules are indexed from 0, the least noise, to T − 1, the most. A
prediction is called as `predict(noisy_action, index)`; the index is a float, one per row or one for all rows.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.flow.loops import scan_steps

Action = Float[Array, "*b a"]
Time = Float[Array, "*b"]
Factor = Float[Array, "..."]  # one per row, or one for all rows
Predict = Callable[[Array, Array], Array]  # (a_t, index) -> ε̂ or â
PREDICTIONS = ("noise", "action")
UNROLLED = 10  # sampling steps that are unrolled, which is faster, above all for their gradient


class Schedule(NamedTuple):
    """Signal and noise at each of T times."""

    alpha: Float[Array, " T"]
    sigma: Float[Array, " T"]
    ends_noisy: bool = True  # noise is left at index 0: samplers take one more step, to the action

    @property
    def times(self) -> int:
        """T."""
        return self.alpha.shape[0]


def _schedule(alpha: Float[np.ndarray, " T"], ends_noisy: bool) -> Schedule:
    """σ from α in double precision: where α is near 1, single precision would lose half of σ's digits."""
    sigma = np.sqrt(1.0 - alpha**2)
    return Schedule(jnp.asarray(alpha, jnp.float32), jnp.asarray(sigma, jnp.float32), ends_noisy)


def from_betas(betas: Float[np.ndarray, " T"]) -> Schedule:
    """α_t² = Π_{i ≤ t} (1 − β_i)."""
    return _schedule(np.sqrt(np.cumprod(1.0 - betas)), ends_noisy=True)


def vp_schedule(count: int, least: float = 0.1, most: float = 10.0) -> Schedule:
    """β_i = 1 − exp(−β_min/T − ½(β_max − β_min)(2i − 1)/T²), i = 1 … T: official DQL and IDQL."""
    i = np.arange(1, count + 1)
    return from_betas(1.0 - np.exp(-least / count - 0.5 * (most - least) * (2 * i - 1) / count**2))


def linear_schedule(count: int) -> Schedule:
    """β from 10⁻⁴ to 0.02 in equal steps, both times 1000/T: official EDP."""
    scale = 1000.0 / count
    return from_betas(np.linspace(scale * 1e-4, scale * 0.02, count))


def cosine_schedule(count: int, offset: float = 0.008, latest: float = 0.9946) -> Schedule:
    """α(t) = cos(π/2 · (t + s)/(1 + s)) / cos(π/2 · s/(1 + s)) at T times from 10⁻³ to 1: CleanDiffuser.

    No time is later than 0.9946. CleanDiffuser's code moves only the last one there, which is the same up to
    T = 186; beyond, its noise would fall again at the end.
    """
    t = np.minimum(np.linspace(1e-3, 1.0, count), latest)
    alpha = np.cos(np.pi / 2 * (t + offset) / (1 + offset)) / np.cos(
        np.pi / 2 * offset / (1 + offset)
    )
    return _schedule(alpha, ends_noisy=False)


def vp_sde(t: Time, least: float = 0.1, most: float = 20.0) -> tuple[Time, Time]:
    """α and σ at any t ∈ (0, 1]: log α(t) = −t²(β_max − β_min)/4 − β_min t/2 (SRPO)."""
    log_alpha = -(t**2) * (most - least) / 4 - 0.5 * least * t
    return jnp.exp(log_alpha), jnp.sqrt(-jnp.expm1(2.0 * log_alpha))


SCHEDULES = {"vp": vp_schedule, "cosine": cosine_schedule, "linear": linear_schedule}


def add_noise(action: Action, noise: Action, alpha: Factor, sigma: Factor) -> Action:
    """a_t = α_t a + σ_t ε."""
    return alpha[..., None] * action + sigma[..., None] * noise


def action_from_noise(noisy: Action, noise: Action, alpha: Factor, sigma: Factor) -> Action:
    """â = (a_t − σ_t ε̂) / α_t."""
    return (noisy - sigma[..., None] * noise) / alpha[..., None]


def action_predictor(predict: Predict, schedule: Schedule, predicts: str = "noise") -> Predict:
    """The prediction of the action, â, from a network that predicts the noise or the action itself."""
    if predicts == "action":
        return predict

    def predict_action(noisy: Array, index: Array) -> Array:
        k = index.astype(jnp.int32)
        return action_from_noise(noisy, predict(noisy, index), schedule.alpha[k], schedule.sigma[k])

    return predict_action


class NoisyActions(NamedTuple):
    """Actions with noise at a random time each."""

    noisy: Action  # a_t
    noise: Action  # ε
    time: Float[Array, " b"]  # its index, uniform on 0 … T − 1


def draw_noisy(schedule: Schedule, actions: Action, key: Key) -> NoisyActions:
    """Noise and a time for each action."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, actions.shape)
    k = jax.random.randint(time_key, actions.shape[:1], 0, schedule.times)
    noisy = add_noise(actions, noise, schedule.alpha[k], schedule.sigma[k])
    return NoisyActions(noisy, noise, k.astype(actions.dtype))


def squared_error(predicted: Action, wanted: Action, total: bool = False) -> Float[Array, ""]:
    """E ‖x̂ − x‖²: mean over action dimensions, or their sum if `total`."""
    squares = jnp.square(predicted - wanted)
    return squares.sum(-1).mean() if total else squares.mean()


def noise_loss(
    predict: Predict, schedule: Schedule, actions: Action, key: Key, total: bool = False
) -> Float[Array, ""]:
    """E ‖ε̂(a_t, t) − ε‖², t uniform."""
    at = draw_noisy(schedule, actions, key)
    return squared_error(predict(at.noisy, at.time), at.noise, total)


def denoise(
    sampler: str, predict_action: Predict, schedule: Schedule, noise: Action, key: Key, steps: int
) -> Action:
    """From noise to action by the rule `sampler`.

    The prediction â is clipped to [−1, 1], or in IDQL's rule the state x after each step.
    """
    # The rules are found by name: training by one of them does not depend on the others.
    times, rule = import_module("bfq.flow.samplers").plan_steps(sampler, schedule, steps)
    keys = jax.random.split(key, len(times))
    clip_state = sampler == "sqrt_beta"

    def step(
        carry: tuple[Array, Array], row: tuple[Array, Any, Key]
    ) -> tuple[tuple[Array, Array], None]:
        (x, previous), (time, by, k) = carry, row
        action = predict_action(x, time)
        action = action if clip_state else jnp.clip(action, -1.0, 1.0)
        x = by.keep * x + by.pull * action
        x = x if by.past is None else x + by.past * previous
        x = x if by.fresh is None else x + by.fresh * jax.random.normal(k, x.shape)
        return (jnp.clip(x, -1.0, 1.0) if clip_state else x, action), None

    start, rows = (noise, jnp.zeros_like(noise)), (times, rule, keys)
    x, _ = scan_steps(step, start, rows, UNROLLED, UNROLLED)
    return x


class Recipe(NamedTuple):
    """How a denoiser turns noise into an action."""

    schedule: Schedule
    sampler: str
    steps: int
    predicts: str = "noise"  # what the network was trained for: noise | action


def generate(
    net: Callable[[Array, Array, Array], Array],
    observations: Float[Array, "b s"],
    action_dim: int,
    key: Key,
    recipe: Recipe,
    temperature: float | Float[Array, ""] = 1.0,
) -> Action:
    """Actions from temperature · N(0, I), clipped to [−1, 1]."""
    start_key, chain_key = jax.random.split(key)
    noise = temperature * jax.random.normal(start_key, (len(observations), action_dim))
    predict = action_predictor(
        lambda x, t: net(x, t, observations), recipe.schedule, recipe.predicts
    )
    actions = denoise(recipe.sampler, predict, recipe.schedule, noise, chain_key, recipe.steps)
    return jnp.clip(actions, -1.0, 1.0)
