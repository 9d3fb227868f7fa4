"""The checkerboard experiment: generative methods from the same network, the same data and the same budget.

Seeds train at once, one compiled call an epoch.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from bfq.agents.learning import Learner, Step, descend, learner, learning_rate
from bfq.nets.velocity import RawTimeVelocity, Velocity
from bfq_paper.checkerboard_data import checkerboard
from bfq_paper.toy_methods import METHODS, PAPER, Loss, Settings

DIM = 2  # of the plane
ARCHITECTURE = "raw_time"  # the paper's 3 × 64 MLP on the point and its times, and nothing more

Progress = Callable[[int, Mapping[str, float]], None]


class Clouds(NamedTuple):
    """What the experiment yields; seeds along the first axis."""

    truth: Float[Array, "s n 2"]
    samples: dict[str, dict[int, Float[Array, "s n 2"]]]  # by method and network calls
    train_seconds: dict[str, float]


def stream(seed_keys: Key[Array, " s"], purpose: int) -> Key[Array, " s"]:
    """Each seed's randomness for one purpose: 0 the network, 1 the updates, 2 the samples."""
    return jax.vmap(lambda key: jax.random.fold_in(key, purpose))(seed_keys)


def start(key: PRNGKeyArray, settings: Settings) -> Learner:
    """A random network on (a_t, t, r); all methods begin with the same."""
    return learner(
        RawTimeVelocity(key, 0, DIM, settings.width, settings.depth, settings.activation)
    )


def update(
    state: Learner, key: PRNGKeyArray, step: Step, loss: Loss, settings: Settings
) -> tuple[Learner, Float[Array, ""]]:
    """One Adam step on fresh points, drawn from (seed, number of the update) alone."""
    data_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
    points = checkerboard(data_key, settings.batch_size)
    total = settings.epochs * settings.batches
    rate = learning_rate(settings.learning_rate, settings.schedule, step, total)
    state, value, _ = descend(
        state, lambda net: (loss(net, points, loss_key, step, settings), None), rate
    )
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


@partial(jax.jit, static_argnums=2)
def sample(
    nets: dict[str, Velocity], seed_keys: Key[Array, " s"], settings: Settings
) -> tuple[Float[Array, "s n 2"], dict[str, dict[int, Float[Array, "s n 2"]]]]:
    """Points of the board, and of every method from the same noise, for each seed."""

    def one(
        nets: dict[str, Velocity], key: PRNGKeyArray
    ) -> tuple[Array, dict[str, dict[int, Array]]]:
        noise_key, truth_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (settings.samples, DIM))
        clouds = {
            name: {k: METHODS[name].sample(net, noise, jax.random.fold_in(key, k), k, settings)
                   for k in METHODS[name].steps}
            for name, net in nets.items()
        }  # fmt: skip
        return checkerboard(truth_key, settings.samples), clouds

    return jax.vmap(one)(nets, seed_keys)


def experiment(
    seeds: Sequence[int], settings: Settings, progress: Progress, names: Sequence[str] = PAPER
) -> Clouds:
    """Trains the methods one after another and samples from them; progress counts the updates of all."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    budget = settings.epochs * settings.batches
    nets, seconds = {}, {}
    for k, name in enumerate(names):

        def tell(step: int, losses: Mapping[str, float], before: int = k * budget) -> None:
            progress(before + step, losses)

        nets[name], seconds[name] = train(METHODS[name].loss, keys, settings, tell)
    truth, clouds = sample(nets, stream(keys, 2), settings)
    return Clouds(truth, {name: clouds[name] for name in names}, seconds)
