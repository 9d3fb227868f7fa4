"""The generative methods of the checkerboard: the loss and the sampler of each.

There are no states: observations have width 0. All methods use BFQ's network of a point and two numbers;
methods with a single time pass it twice.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import bfq
from bfq.agents.learning import Step
from bfq.flow import few_steps
from bfq.flow.diffusion import SCHEDULES, Schedule, action_predictor, denoise, noise_loss
from bfq.flow.maps import Velocity, one_step
from bfq.flow.matching import euler, matching_loss

HALVED = 0.5  # diffusion expects data within ±1 with a deviation of ½; the board has 1.7 and 1


class Settings(NamedTuple):
    """Settings of all methods. The paper does not give those marked "chosen".

    They were chosen on seeds 100 and 101, which are not reported.
    """

    epochs: int = 100
    batches: int = 40  # per epoch
    batch_size: int = 2048  # fresh points; there is no finite dataset
    width: int = 64
    depth: int = 3
    activation: str = "mish"
    learning_rate: float = 1e-2  # chosen; at 1e-3 neither FM nor BFQ converges in 4,000 updates
    schedule: str = "cosine"  # chosen; at a constant rate FM varies between its last updates
    boundary_ratio: float = 0.5  # BFQ: λ
    mixing: str = "split"  # BFQ, chosen; "both" fills a few more squares in twice the time
    time_rule: str = "ordered"  # BFQ, chosen from the paper's three
    noise_schedule: str = "cosine"  # DDPM, chosen; half the distance of "vp" at 50 steps
    noise_times: int = 50  # DDPM: T; fewer steps use some of them
    scaled: bool = True  # consistency, chosen: CAC's weight 100/(t′ − t)
    finest: int = 64  # shortcut, chosen: the shortest step is 1/64; SORL uses 1/8
    flow_ratio: float = 0.75  # MeanFlow, chosen: share of r = t
    interval_rule: str = "uniform"  # MeanFlow, chosen
    samples: int = 10_000  # per method and seed


Points = Float[Array, "n 2"]
Loss = Callable[[Velocity, Points, PRNGKeyArray, Step, Settings], Float[Array, ""]]
Sampler = Callable[[Velocity, Points, PRNGKeyArray, int, Settings], Points]


class Method(NamedTuple):
    """How a network is trained on the board and sampled."""

    title: str
    loss: Loss  # (network, points, key, step, settings)
    sample: Sampler  # (network, noise, key, calls, settings)
    steps: tuple[int, ...]  # network calls in the table


def unconditional(points: Points) -> Float[Array, "n 0"]:
    """Observations of width 0."""
    return jnp.zeros((len(points), 0))


def flow_matching_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """E ‖v_θ(a_t, t, t) − (ε − a)‖²: the boundary loss with intervals of length 0."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, points.shape)
    t = jax.random.uniform(time_key, (len(points),))
    return matching_loss(velocity, points, noise, t, unconditional(points))


def sample_flow(
    velocity: Velocity, noise: Points, key: PRNGKeyArray, steps: int, settings: Settings
) -> Points:
    """Euler's method on v_θ(a_t, t, t)."""
    return euler(lambda x, t: velocity(x, t, t, unconditional(x)), noise, steps)


def flow_map_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """L_BC = (1 − λ) L_comp + λ L_bnd."""
    choices = {name: getattr(settings, name) for name in ("boundary_ratio", "mixing", "time_rule")}
    config = bfq.Config(**choices)
    loss, _, _ = bfq.bootstrap_loss(velocity, points, unconditional(points), key, config)
    return loss


def average_velocity_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """MeanFlow's loss."""
    ratio, rule = settings.flow_ratio, settings.interval_rule
    return few_steps.meanflow_loss(velocity, points, unconditional(points), key, ratio, rule)


def sample_map(
    velocity: Velocity, noise: Points, key: PRNGKeyArray, steps: int, settings: Settings
) -> Points:
    """π_θ(ε, 0, 1), one call, not clipped: the board is wider than [−1, 1]."""
    return one_step(velocity, noise, unconditional(noise))


def noise_predictor(
    velocity: Velocity, settings: Settings
) -> tuple[few_steps.Consistency, Schedule]:
    """ε̂(x, i), whose network gets i/T, and its noise schedule."""
    times = settings.noise_times

    def predict(x: Array, index: Array) -> Array:
        return velocity(x, index / times, index / times, unconditional(x))

    return predict, SCHEDULES[settings.noise_schedule](times)


def denoising_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """E ‖ε̂ − ε‖² on the halved board."""
    return noise_loss(*noise_predictor(velocity, settings), HALVED * points, key)


def sample_denoising(
    velocity: Velocity, noise: Points, key: PRNGKeyArray, steps: int, settings: Settings
) -> Points:
    """DDPM's posterior sampling."""
    predict, schedule = noise_predictor(velocity, settings)
    halved = denoise("posterior", action_predictor(predict, schedule), schedule, noise, key, steps)
    return halved / HALVED


def consistent(velocity: Velocity) -> few_steps.Consistency:
    """f_θ(x, t), whose network gets x at unit deviation and ¼ log t."""

    def net(x: Array, t: Array) -> Array:
        code = 0.25 * jnp.log(t)
        return velocity(x / jnp.sqrt(t**2 + HALVED**2)[..., None], code, code, unconditional(x))

    return lambda x, t: few_steps.consistency_function(net, x, t)


def consistency_training_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """The loss of consistency training on the halved board; the teacher is the network itself."""
    noise_key, time_key = jax.random.split(key)
    noise, f = jax.random.normal(noise_key, points.shape), consistent(velocity)
    size = few_steps.grid_size(step, settings.epochs * settings.batches)
    times = few_steps.neighboring_times(time_key, len(points), size)
    return few_steps.consistency_loss(f, f, HALVED * points, noise, *times, settings.scaled)


def sample_consistency(
    velocity: Velocity, noise: Points, key: PRNGKeyArray, steps: int, settings: Settings
) -> Points:
    """One call, or two with new noise in between."""
    return (
        few_steps.multistep(consistent(velocity), noise, few_steps.sampling_times(steps), key)
        / HALVED
    )


def shortcut_field(velocity: Velocity) -> Velocity:
    """v(x, t, k; s) with time from noise to the board."""
    return lambda x, t, k, s: velocity(x, k, t, s)


def shortcut_loss(
    velocity: Velocity, points: Points, key: PRNGKeyArray, step: Step, settings: Settings
) -> Float[Array, ""]:
    """L_flow + L_cons; the half steps are the network's own, detached."""
    field, none = shortcut_field(velocity), unconditional(points)
    flow, halves = few_steps.shortcut_losses(field, field, points, none, key, settings.finest)
    return flow + halves


def sample_shortcut(
    velocity: Velocity, noise: Points, key: PRNGKeyArray, steps: int, settings: Settings
) -> Points:
    """Steps of length 1/steps, which is an input of the network."""
    return few_steps.jump(shortcut_field(velocity), noise, unconditional(noise), steps)


METHODS: dict[str, Method] = {
    "fm": Method("FM", flow_matching_loss, sample_flow, (1, 2, 5, 10)),
    "ddpm": Method("DDPM", denoising_loss, sample_denoising, (5, 10, 50)),
    "consistency": Method("Consistency", consistency_training_loss, sample_consistency, (1, 2)),
    "shortcut": Method("Shortcut", shortcut_loss, sample_shortcut, (1, 8)),
    "meanflow": Method("MeanFlow", average_velocity_loss, sample_map, (1,)),
    "bfq": Method("BFQ", flow_map_loss, sample_map, (1,)),
}
PAPER_METHODS = ("fm", "bfq")  # those of the paper's figure
