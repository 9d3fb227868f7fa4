"""The checkerboard experiment: flow matching and the BFQ flow map, from the same network and data.

Neither sees a state: the observation has width 0. Seeds are trained at once, an epoch a compiled call.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents.learning import descend, learner, learning_rate
from bfq.data.checkerboard import checkerboard
from bfq.flow.maps import TimeRule, bootstrap_loss, boundary_loss
from bfq.nets.velocity import EmbeddedVelocity, RawTimeVelocity, Velocity

FM_STEPS = (1, 2, 5, 10)

Loss = Callable[[Velocity, Float[Array, "n 2"], PRNGKeyArray], Float[Array, ""]]
Progress = Callable[[int, float], None]


class Settings(NamedTuple):
    """The same for both methods."""

    epochs: int = 100
    batches: int = 40  # an epoch
    batch_size: int = 2048
    width: int = 64
    depth: int = 3
    architecture: str = "raw_time"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    boundary_ratio: float = 0.5  # λ
    mixing: str = "both"
    time_rule: str = "nested"
    samples: int = 10_000  # a method and seed, for the metrics and the figure


def unconditional(points: Float[Array, "n 2"]) -> Float[Array, "n 0"]:
    """The observation of a task without one."""
    return jnp.zeros((len(points), 0))


def network(key, s) -> Velocity:
    if s.architecture == "raw_time":
        return RawTimeVelocity(key, 0, 2, s.width, s.depth, "mish")
    scale = float(s.architecture.split("-")[1])
    return EmbeddedVelocity(key, 0, 2, s.width, s.depth, scale, int(s.architecture.split("-")[2]))


def flow_matching_loss(velocity, points, key, settings):
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, points.shape)
    t = jax.random.uniform(time_key, (len(points),))
    return boundary_loss(velocity, points, noise, t, t, unconditional(points))


def flow_map_loss(velocity, points, key, settings):
    loss, _ = bootstrap_loss(
        velocity,
        points,
        unconditional(points),
        key,
        settings.boundary_ratio,
        settings.mixing,
        TimeRule(settings.time_rule),
    )
    return loss


def train(loss, seeds, s, progress=lambda e, l: None):
    keys = jnp.stack([jax.random.key(x) for x in seeds])
    states = jax.jit(jax.vmap(lambda key: learner(network(jax.random.fold_in(key, 0), s))))(keys)
    total = s.epochs * s.batches

    def update(state, key, step):
        data_key, loss_key = jax.random.split(jax.random.fold_in(key, step + 1))
        points = checkerboard(data_key, s.batch_size)
        rate = learning_rate(s.learning_rate, s.schedule, step, total)
        state, value, _ = descend(state, lambda v: (loss(v, points, loss_key, s), None), rate)
        return state, value

    @jax.jit
    def epoch(states, start):
        return jax.lax.scan(
            lambda c, i: jax.vmap(update, (0, 0, None))(c, keys, i), states, start + jnp.arange(s.batches)
        )

    began = time.monotonic()
    for e in range(s.epochs):
        states, values = epoch(states, jnp.int32(e * s.batches))
        values.block_until_ready()
        progress(e, float(values.mean()))
    return states.params, time.monotonic() - began
