"""The checkerboard experiment: flow matching and BFQ's flow map, from the same network and the same data.

Neither sees a state: the observation has width 0. Seeds train at once, one compiled call an epoch.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from bfq.agents.learning import Learner, Step, descend, learner, learning_rate
from bfq.data.checkerboard import checkerboard
from bfq.flow.maps import TimeRule, bootstrap_loss, boundary_loss, one_step
from bfq.flow.solvers import euler
from bfq.nets.velocity import RawTimeVelocity, Velocity

FM_STEPS = (1, 2, 5, 10)
DIM = 2  # of the plane
ARCHITECTURE = "raw_time"  # the paper's 3 × 64 MLP on the point and its times, and nothing more


class Settings(NamedTuple):
    """The same for both methods, as far as it concerns both. The paper does not say those marked "chosen".

    They were chosen on seeds 100 and 101, which are not reported.
    """

    epochs: int = 100
    batches: int = 40  # an epoch
    batch_size: int = 2048  # fresh points, no finite data set
    width: int = 64
    depth: int = 3
    activation: str = "mish"
    learning_rate: float = 1e-2  # chosen; at 1e-3 neither method is done after 4,000 updates
    schedule: str = "cosine"  # chosen; at a constant rate FM depends on where it happens to stop
    boundary_ratio: float = 0.5  # λ
    mixing: str = "split"  # chosen; "both" puts a few more points on filled squares in twice the time
    time_rule: str = "ordered"  # chosen among the paper's three
    samples: int = 10_000  # of each method and seed, to look at


class Clouds(NamedTuple):
    """What the experiment yields; seeds along the first axis."""

    truth: Float[Array, "s n 2"]
    fm: dict[int, Float[Array, "s n 2"]]  # by Euler steps
    bfq: dict[int, Float[Array, "s n 2"]]  # by calls of the flow map
    train_seconds: dict[str, float]


Loss = Callable[[Velocity, Float[Array, "n 2"], PRNGKeyArray, Settings], Float[Array, ""]]
Progress = Callable[[int, Mapping[str, float]], None]


def unconditional(points: Float[Array, "n 2"]) -> Float[Array, "n 0"]:
    """The observations of a task that has none."""
    return jnp.zeros((len(points), 0))


def flow_matching_loss(
    velocity: Velocity, points: Float[Array, "n 2"], key: PRNGKeyArray, settings: Settings
) -> Float[Array, ""]:
    """E ‖v_θ(a_t, t, t) − (ε − a)‖²: the boundary loss with intervals of length 0."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, points.shape)
    t = jax.random.uniform(time_key, (len(points),))
    return boundary_loss(velocity, points, noise, t, t, unconditional(points))


def flow_map_loss(
    velocity: Velocity, points: Float[Array, "n 2"], key: PRNGKeyArray, settings: Settings
) -> Float[Array, ""]:
    """L_BC = (1 − λ) L_comp + λ L_bnd."""
    ratio, mixing, times = settings.boundary_ratio, settings.mixing, TimeRule(settings.time_rule)
    loss, _ = bootstrap_loss(velocity, points, unconditional(points), key, ratio, mixing, times)
    return loss


def stream(seed_keys: Key[Array, " s"], purpose: int) -> Key[Array, " s"]:
    """Each seed's randomness for one purpose: 0 the network, 1 the updates, 2 the samples."""
    return jax.vmap(lambda key: jax.random.fold_in(key, purpose))(seed_keys)


def start(key: PRNGKeyArray, settings: Settings) -> Learner:
    """A random network on (a_t, t, r); both methods begin with the same."""
    return learner(RawTimeVelocity(key, 0, DIM, settings.width, settings.depth, settings.activation))


def update(
    state: Learner, key: PRNGKeyArray, step: Step, loss: Loss, settings: Settings
) -> tuple[Learner, Float[Array, ""]]:
    """One Adam step on fresh points, drawn from (seed, number of the update) alone."""
    data_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
    points = checkerboard(data_key, settings.batch_size)
    total = settings.epochs * settings.batches
    rate = learning_rate(settings.learning_rate, settings.schedule, step, total)
    state, value, _ = descend(state, lambda net: (loss(net, points, loss_key, settings), None), rate)
    return state, value


def train(
    loss: Loss, seed_keys: Key[Array, " s"], settings: Settings, progress: Progress
) -> tuple[Velocity, float]:
    """The trained networks with a seed axis on every leaf, and the seconds it took with compilation."""
    began = time.monotonic()
    states = jax.jit(jax.vmap(partial(start, settings=settings)))(stream(seed_keys, 0))
    update_keys = stream(seed_keys, 1)
    every_seed = jax.vmap(partial(update, loss=loss, settings=settings), in_axes=(0, 0, None))

    @partial(jax.jit, donate_argnums=0)
    def epoch(states: Learner, first: Step) -> tuple[Learner, Float[Array, "b s"]]:
        steps = first + jnp.arange(settings.batches)
        return jax.lax.scan(lambda carry, step: every_seed(carry, update_keys, step), states, steps)

    for done in range(0, settings.epochs * settings.batches, settings.batches):
        states, losses = epoch(states, jnp.int32(done))
        progress(done + settings.batches, {"loss": float(losses.mean())})
    return states.params, time.monotonic() - began


def sample_fm(velocity: Velocity, noise: Float[Array, "n 2"], steps: int) -> Float[Array, "n 2"]:
    """Euler's method on v_θ(a_t, t, t)."""
    return euler(lambda x, t: velocity(x, t, t, unconditional(x)), noise, steps)


def sample_bfq(velocity: Velocity, noise: Float[Array, "n 2"]) -> Float[Array, "n 2"]:
    """π_θ(ε, 0, 1), not clipped: the board is wider than [−1, 1]."""
    return one_step(velocity, noise, unconditional(noise))


@partial(jax.jit, static_argnums=3)
@partial(jax.vmap, in_axes=(0, 0, 0, None))
def sample(fm: Velocity, bfq: Velocity, key: PRNGKeyArray, count: int) -> tuple[Any, Any, Any]:
    """Points of the board, and of both methods from the same noise, for each seed."""
    noise_key, truth_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (count, DIM))
    by_steps = {steps: sample_fm(fm, noise, steps) for steps in FM_STEPS}
    return checkerboard(truth_key, count), by_steps, {1: sample_bfq(bfq, noise)}


def experiment(seeds: Sequence[int], settings: Settings, progress: Progress) -> Clouds:
    """Trains both methods and samples from them; progress counts the updates of both."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    half = settings.epochs * settings.batches
    fm, fm_seconds = train(flow_matching_loss, keys, settings, progress)
    bfq, bfq_seconds = train(flow_map_loss, keys, settings, lambda step, loss: progress(half + step, loss))
    truth, fm_points, bfq_points = sample(fm, bfq, stream(keys, 2), settings.samples)
    return Clouds(truth, fm_points, bfq_points, {"fm": fm_seconds, "bfq": bfq_seconds})
