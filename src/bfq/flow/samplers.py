"""Rules that sample from a denoiser: the times they visit, and the coefficients of each step.

x ← keep · x + pull · clip(â(x, t), −1, 1) + past · (the previous â) + fresh · N(0, I); see `bfq.flow.diffusion`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bfq.flow.diffusion import Schedule


class SamplingTimes(NamedTuple):
    """The times that a sampler visits, from the most noise to the least."""

    time: Float[Array, " n"]  # the indices of all but the last
    alpha: Float[Array, " m"]  # m = n + 1
    sigma: Float[Array, " m"]
    all_visited: bool  # as many steps as times


class Steps(NamedTuple):
    """The coefficients of each step of a sampler; a term that a rule never has is None.

    ε̂ never appears: it is (x − α â)/σ with the clipped â, which is also what CleanDiffuser's clipping of ε̂
    amounts to.
    """

    keep: Float[Array, " n"]
    pull: Float[Array, " n"]
    past: Float[Array, " n"] | None = None
    fresh: Float[Array, " n"] | None = None


def sampling_indices(schedule: Schedule, steps: int) -> SamplingTimes:
    """`steps` + 1 equally spaced times, truncated to whole indices, each visited once.

    Where the schedule ends noisy, the last time is the action itself (α = 1, σ = 0), one below index 0.
    CleanDiffuser's schedule begins next to the action, and its samplers stop there. Its 5 steps on 5 times
    go 4, 3, 2, 1, 0, 0; the last changes nothing and is left out, with its call of the network.
    """
    lowest = -1 if schedule.ends_noisy else 0
    spaced = np.trunc(np.linspace(0, schedule.times - 1 - lowest, steps + 1) + 1e-9).astype(int)
    index = np.unique(spaced)[::-1] + lowest
    alpha, sigma = schedule.alpha[np.maximum(index, 0)], schedule.sigma[np.maximum(index, 0)]
    if schedule.ends_noisy:
        alpha, sigma = alpha.at[-1].set(1.0), sigma.at[-1].set(0.0)
    visited = jnp.asarray(index[:-1], jnp.float32)
    return SamplingTimes(visited, alpha, sigma, steps >= schedule.times)


def posterior_steps(times: SamplingTimes) -> Steps:
    """DDPM: each step draws from q(x_s | x_t, â), as official DQL.

    x_t = (α_t/α_s) x_s + noise of variance v.
    """
    alpha, sigma = times.alpha, times.sigma
    ratio, shrunk = alpha[:-1] / alpha[1:], jnp.square(sigma[1:] / sigma[:-1])
    v = jnp.square(sigma[:-1]) - jnp.square(ratio * sigma[1:])
    return Steps(ratio * shrunk, alpha[1:] * v / jnp.square(sigma[:-1]), fresh=jnp.sqrt(v * shrunk))


def ancestral_steps(times: SamplingTimes) -> Steps:
    """DDPM as CleanDiffuser writes it: x_s = α_s â + √(σ_s² − v + 10⁻⁸) ε̂ + √v N(0, I), v the posterior's.

    The last of its steps adds no noise. With as many steps as times that is the one that changes nothing.
    """
    alpha, sigma = times.alpha, times.sigma
    fresh = (1.0 - jnp.square(alpha[:-1] / alpha[1:])) ** 0.5 * sigma[1:] / sigma[:-1]
    keep = jnp.sqrt(jnp.square(sigma[1:]) - jnp.square(fresh) + 1e-8) / sigma[:-1]
    fresh = fresh if times.all_visited else fresh.at[-1].set(0.0)
    return Steps(keep, alpha[1:] - alpha[:-1] * keep, fresh=fresh)


def ddim_steps(times: SamplingTimes) -> Steps:
    """DDIM, without fresh noise: x_s = α_s â + σ_s ε̂."""
    keep = times.sigma[1:] / times.sigma[:-1]
    return Steps(keep, times.alpha[1:] - times.alpha[:-1] * keep)


def dpm_solver_steps(times: SamplingTimes) -> Steps:
    """DPM-Solver++(2M): DDIM with â replaced by its line through the last two predictions in λ = log(α/σ).

    x_s = (σ_s/σ_t) x − α_s(e^(−h) − 1) D with D = â + (h/2h′)(â − â′), where h and h′ are the lengths in λ of
    this step and the previous one; the first step, and one that ends at the action (h = ∞), have D = â.
    """
    straight = ddim_steps(times)
    ends = times.sigma[1:] == 0.0
    h = jnp.diff(jnp.log(times.alpha / jnp.where(times.sigma == 0.0, 1.0, times.sigma)))
    # Beyond 186 times the cosine schedule has its noisiest time twice, and a step of length 0 has no slope.
    slope = jnp.where(h[:-1] > 0.0, 0.5 * h[1:] / jnp.where(h[:-1] > 0.0, h[:-1], 1.0), 0.0)
    slope = jnp.where(ends, 0.0, jnp.concatenate([jnp.zeros(1), slope]))
    return Steps(straight.keep, (1.0 + slope) * straight.pull, past=-slope * straight.pull)


def sqrt_beta_steps(times: SamplingTimes) -> Steps:
    """DDPM as official IDQL: x ← clip((x − (β/σ_t) ε̂)/√(1 − β) + √β N(0, I), −1, 1), the last without noise.

    1 − β = (α_t/α_s)², and ε̂ belongs to an â that is not clipped.
    """
    ratio, variance = times.alpha[:-1] / times.alpha[1:], jnp.square(times.sigma[:-1])
    beta = 1.0 - jnp.square(ratio)
    keep, pull = (1.0 - beta / variance) / ratio, beta * times.alpha[:-1] / (variance * ratio)
    return Steps(keep, pull, fresh=jnp.sqrt(beta).at[-1].set(0.0))


SAMPLERS: dict[str, Callable[[SamplingTimes], Steps]] = {
    "posterior": posterior_steps,
    "ancestral": ancestral_steps,
    "ddim": ddim_steps,
    "dpm_solver": dpm_solver_steps,
    "sqrt_beta": sqrt_beta_steps,
}


def plan_steps(sampler: str, schedule: Schedule, steps: int) -> tuple[Float[Array, " n"], Steps]:
    """The times that a rule visits, and its coefficients there."""
    times = sampling_indices(schedule, steps)
    return times.time, SAMPLERS[sampler](times)
