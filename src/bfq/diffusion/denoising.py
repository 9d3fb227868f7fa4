"""What a diffusion policy learns: from a_t = α_t a + σ_t ε, the noise ε or the action a.

A prediction is called as `predict(noisy_action, index)`. The index counts the schedule's times from 0, the
least noise, as a float: one number a row, or one number for all rows.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.diffusion.schedules import Schedule

Predict = Callable[[Array, Array], Array]  # (a_t, index) -> ε̂ or â
PREDICTIONS = ("noise", "action")


def noised(
    action: Float[Array, "*b a"],
    noise: Float[Array, "*b a"],
    alpha: Float[Array, "..."],
    sigma: Float[Array, "..."],
) -> Float[Array, "*b a"]:
    """a_t = α_t a + σ_t ε."""
    return alpha[..., None] * action + sigma[..., None] * noise


def action_from_noise(
    noisy: Float[Array, "*b a"],
    noise: Float[Array, "*b a"],
    alpha: Float[Array, "..."],
    sigma: Float[Array, "..."],
) -> Float[Array, "*b a"]:
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


class Draw(NamedTuple):
    """Actions with noise at a random time each."""

    noisy: Float[Array, "b a"]  # a_t
    noise: Float[Array, "b a"]  # ε
    told: Float[Array, " b"]  # t as the network is told it: an index, uniform on 0 … T − 1


def draw(schedule: Schedule, actions: Float[Array, "b a"], key: PRNGKeyArray) -> Draw:
    """Noise and a time for each action: what a loss is taken on."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, actions.shape)
    k = jax.random.randint(time_key, actions.shape[:1], 0, schedule.times)
    noisy = noised(actions, noise, schedule.alpha[k], schedule.sigma[k])
    return Draw(noisy, noise, k.astype(actions.dtype))


def squared_error(
    predicted: Float[Array, "b a"], wanted: Float[Array, "b a"], total: bool = False
) -> Float[Array, ""]:
    """E ‖x̂ − x‖²: mean over action dimensions, or their sum if `total`."""
    squares = jnp.square(predicted - wanted)
    return squares.sum(-1).mean() if total else squares.mean()


def noise_loss(
    predict: Predict,
    schedule: Schedule,
    actions: Float[Array, "b a"],
    key: PRNGKeyArray,
    total: bool = False,
) -> Float[Array, ""]:
    """E ‖ε̂(a_t, t) − ε‖², t uniform."""
    drawn = draw(schedule, actions, key)
    return squared_error(predict(drawn.noisy, drawn.told), drawn.noise, total)
