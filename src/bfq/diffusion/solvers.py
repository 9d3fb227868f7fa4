"""From noise to action by a learned prediction of the action: five rules with one signature.

Every rule is a list of linear steps,

    x ← keep · x + pull · clip(â(x, t), −1, 1) + past · (the â before) + fresh · N(0, I),

so that a rule is nothing but its coefficients, and one loop runs them all. ε̂ never appears: it is
(x − α â)/σ with the clipped â, which is also what CleanDiffuser's clipping of ε̂ amounts to.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.diffusion.denoising import Predict, action_predictor
from bfq.diffusion.schedules import Schedule
from bfq.nets.primitives import scan_steps

UNROLLED = 10  # steps that are written out, which is faster, above all for their gradient
Sampler = Callable[[Predict, Schedule, Array, PRNGKeyArray, int], Array]


class Path(NamedTuple):
    """The times that a sampler visits, from the most noise to the least."""

    told: Float[Array, " n"]  # the index that the network is told, at all but the last
    alpha: Float[Array, " m"]  # m = n + 1
    sigma: Float[Array, " m"]


class Steps(NamedTuple):
    """The coefficients of each step; None where a rule never has the term."""

    keep: Float[Array, " n"]
    pull: Float[Array, " n"]
    past: Float[Array, " n"] | None = None
    fresh: Float[Array, " n"] | None = None


def path(schedule: Schedule, steps: int) -> Path:
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
    return Path(jnp.asarray(index[:-1], jnp.float32), alpha, sigma)


def walk(
    predict_action: Predict,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    told: Float[Array, " n"],
    steps: Steps,
    clips: str = "prediction",
) -> Float[Array, "*b a"]:
    """Runs the steps from `noise`, which stands at the first time.

    What is kept in [−1, 1] is the prediction â, or, as IDQL has it, x after each step ("state").
    """
    keys = jax.random.split(key, len(told))

    def step(
        carry: tuple[Array, Array], row: tuple[Array, Steps, PRNGKeyArray]
    ) -> tuple[tuple[Array, Array], None]:
        (x, before), (t, by, k) = carry, row
        action = predict_action(x, t)
        action = jnp.clip(action, -1.0, 1.0) if clips == "prediction" else action
        x = by.keep * x + by.pull * action
        x = x if by.past is None else x + by.past * before
        x = x if by.fresh is None else x + by.fresh * jax.random.normal(k, x.shape)
        x = jnp.clip(x, -1.0, 1.0) if clips == "state" else x
        return (x, action), None

    start = (noise, jnp.zeros_like(noise))
    x, _ = scan_steps(step, start, (told, steps, keys), UNROLLED, UNROLLED)
    return x


def _posterior_steps(alpha: Float[Array, " m"], sigma: Float[Array, " m"]) -> Steps:
    """Mean and deviation of q(x_s | x_t, â), where x_t = (α_t/α_s) x_s + noise of variance v."""
    ratio, shrunk = alpha[:-1] / alpha[1:], jnp.square(sigma[1:] / sigma[:-1])
    v = jnp.square(sigma[:-1]) - jnp.square(ratio * sigma[1:])
    return Steps(ratio * shrunk, alpha[1:] * v / jnp.square(sigma[:-1]), fresh=jnp.sqrt(v * shrunk))


def _ddim_steps(alpha: Float[Array, " m"], sigma: Float[Array, " m"]) -> Steps:
    """x_s = α_s â + σ_s ε̂."""
    keep = sigma[1:] / sigma[:-1]
    return Steps(keep, alpha[1:] - alpha[:-1] * keep)


def posterior(
    predict_action: Predict,
    schedule: Schedule,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    steps: int,
) -> Float[Array, "*b a"]:
    """DDPM: each step draws from q(x_s | x_t, â), as official DQL."""
    times = path(schedule, steps)
    return walk(predict_action, noise, key, times.told, _posterior_steps(times.alpha, times.sigma))


def ancestral(
    predict_action: Predict,
    schedule: Schedule,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    steps: int,
) -> Float[Array, "*b a"]:
    """DDPM as CleanDiffuser writes it: x_s = α_s â + √(σ_s² − v + 10⁻⁸) ε̂ + √v N(0, I), v the posterior's.

    The last of its steps adds no noise. With as many steps as times that is the one that changes nothing.
    """
    times = path(schedule, steps)
    fresh = (
        (1.0 - jnp.square(times.alpha[:-1] / times.alpha[1:])) ** 0.5
        * times.sigma[1:]
        / times.sigma[:-1]
    )
    keep = jnp.sqrt(jnp.square(times.sigma[1:]) - jnp.square(fresh) + 1e-8) / times.sigma[:-1]
    fresh = fresh.at[-1].set(0.0) if steps < schedule.times else fresh
    by = Steps(keep, times.alpha[1:] - times.alpha[:-1] * keep, fresh=fresh)
    return walk(predict_action, noise, key, times.told, by)


def ddim(
    predict_action: Predict,
    schedule: Schedule,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    steps: int,
) -> Float[Array, "*b a"]:
    """DDIM, without fresh noise; in one step, α_0 â + σ_0 ε̂."""
    times = path(schedule, steps)
    return walk(predict_action, noise, key, times.told, _ddim_steps(times.alpha, times.sigma))


def dpm_solver(
    predict_action: Predict,
    schedule: Schedule,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    steps: int,
) -> Float[Array, "*b a"]:
    """DPM-Solver++(2M): DDIM with â replaced by its line through the last two predictions in λ = log(α/σ).

    x_s = (σ_s/σ_t) x − α_s(e^(−h) − 1) D with D = â + (h/2h′)(â − â′), h and h′ being this step and the one
    before in λ; the first step, and one that ends at the action itself (h = ∞), have D = â.
    """
    times = path(schedule, steps)
    straight = _ddim_steps(times.alpha, times.sigma)
    ends = times.sigma[1:] == 0.0
    h = jnp.diff(jnp.log(times.alpha / jnp.where(times.sigma == 0.0, 1.0, times.sigma)))
    # Beyond 186 times, the cosine schedule has its noisiest twice: a step that goes nowhere has no slope.
    slope = jnp.where(h[:-1] > 0.0, 0.5 * h[1:] / jnp.where(h[:-1] > 0.0, h[:-1], 1.0), 0.0)
    slope = jnp.concatenate([jnp.zeros(1), slope])
    slope = jnp.where(ends, 0.0, slope)
    by = Steps(straight.keep, (1.0 + slope) * straight.pull, past=-slope * straight.pull)
    return walk(predict_action, noise, key, times.told, by)


def sqrt_beta(
    predict_action: Predict,
    schedule: Schedule,
    noise: Float[Array, "*b a"],
    key: PRNGKeyArray,
    steps: int,
) -> Float[Array, "*b a"]:
    """DDPM as official IDQL: x ← clip((x − (β/σ_t) ε̂)/√(1 − β) + √β N(0, I), −1, 1), the last without noise.

    1 − β = (α_t/α_s)², and ε̂ is that of an â which is not clipped.
    """
    times = path(schedule, steps)
    ratio, variance = times.alpha[:-1] / times.alpha[1:], jnp.square(times.sigma[:-1])
    beta = 1.0 - jnp.square(ratio)
    keep, pull = (1.0 - beta / variance) / ratio, beta * times.alpha[:-1] / (variance * ratio)
    by = Steps(keep, pull, fresh=jnp.sqrt(beta).at[-1].set(0.0))
    return walk(predict_action, noise, key, times.told, by, clips="state")


SAMPLERS: dict[str, Sampler] = {
    "posterior": posterior,
    "ancestral": ancestral,
    "ddim": ddim,
    "dpm_solver": dpm_solver,
    "sqrt_beta": sqrt_beta,
}


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
    key: PRNGKeyArray,
    recipe: Recipe,
    temperature: float | Float[Array, ""] = 1.0,
) -> Float[Array, "b a"]:
    """Actions from temperature · N(0, I), clipped to [−1, 1]."""
    start_key, chain_key = jax.random.split(key)
    noise = temperature * jax.random.normal(start_key, (len(observations), action_dim))
    predict = action_predictor(
        lambda x, t: net(x, t, observations), recipe.schedule, recipe.predicts
    )
    actions = SAMPLERS[recipe.sampler](predict, recipe.schedule, noise, chain_key, recipe.steps)
    return jnp.clip(actions, -1.0, 1.0)
