"""Training of the estimators' networks: chunks of updates, saved now and then, resumed after a kill."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bfq.agents.learning import Learner, descend_with_target, learner, learning_rate
from bfq.nets.mlp import MLP
from bfq.progress import reporting
from bfq.training.checkpoint import latest_checkpoint, save_checkpoint
from bfq.training.compilation import compiler_options, enable_compilation_cache

BATCH = 128
RATE = 1e-3  # Adam's learning rate, which falls to 0 along a cosine
SAVE_S = 60.0  # seconds between checkpoints
CALL_S = 2.0  # seconds that a compiled call may take: Ctrl-C waits for it
LONGEST = 1024  # updates in one compiled call


class EstimatorSizes(NamedTuple):
    """EstimatorSizes of the estimators."""

    networks: int = 5  # critics of each policy, and networks of the model
    updates: int = 10_000
    width: int = 128
    seed: int = 0


class Work(NamedTuple):
    """Where states are kept and whether progress is shown."""

    folder: Path | None  # None: nothing is kept
    quiet: bool


class Networks(NamedTuple):
    """Networks in training and their moving averages, which make the estimates."""

    learner: Learner
    average: Any


Update = Callable[[Networks, Any, Any], Networks]  # networks, number of the update, data


def mlps(settings: EstimatorSizes, count: int, fan_in: int, fan_out: int) -> Networks:
    """Networks with two hidden layers, each with weights of its own, along the first axis."""

    def one(k: Any) -> Networks:
        key = jax.random.fold_in(jax.random.key(settings.seed), k)
        net = MLP(key, fan_in, fan_out, settings.width, 2, "relu", "after")
        return Networks(learner(net), net)

    return jax.vmap(one)(jnp.arange(count))


def descend_once(
    networks: Networks, loss: Callable[[Any], Any], step: Any, steps: int, rho: float
) -> Networks:
    """One Adam step on loss(params), and one step of the moving average."""
    rate = learning_rate(RATE, "cosine", step, steps)
    state, average, _, _ = descend_with_target(
        networks.learner, networks.average, lambda params: (loss(params), ()), rate, rho
    )
    return Networks(state, average)


def train_networks(
    name: str, init: Callable[[], Any], update: Update, data: Any, steps: int, work: Work
) -> Any:
    """The moving averages after `steps` updates; continued where a killed process stopped."""
    enable_compilation_cache()
    folder = None if work.folder is None else work.folder / name
    found = latest_checkpoint(folder, jax.eval_shape(init)) if folder else None
    states, done = (found.states, found.step) if found else (jax.jit(init)(), 0)

    @partial(jax.jit, donate_argnums=0, compiler_options=compiler_options())
    def run(states: Any, begin: Any, length: Any, data: Any) -> Any:
        def body(k: Any, states: Any) -> Any:
            return update(states, begin + k, data)

        return jax.lax.fori_loop(0, length, body, states)

    length, saved = 8, time.monotonic()
    with reporting(name, steps, work.quiet, unit="updates") as reporter:
        reporter.resume(done)
        while done < steps:
            length, began = min(length, steps - done), time.monotonic()
            states = run(states, jnp.int32(done), jnp.int32(length), data)
            jax.tree.leaves(states)[0].block_until_ready()
            done, now = done + length, time.monotonic()
            reporter.show(done, {})
            length *= 2 if now - began < CALL_S / 2 and length < LONGEST else 1
            if folder and (now - saved > SAVE_S or done == steps):
                save_checkpoint(folder, done, states, keep=1)
                saved = now
    return states.average


def fit_ensemble(
    name: str, inputs: Any, outputs: Any, loss: Callable[[Any, Any, Any], Any], fan_out: int,
    settings: EstimatorSizes, work: Work,
) -> Any:  # fmt: skip
    """Networks that minimize loss(net, inputs, outputs), each with weights and batches of its own."""
    count, key = settings.networks, jax.random.key(settings.seed)

    def update(states: Networks, step: Any, data: Any) -> Networks:
        drawn = jax.random.fold_in(jax.random.fold_in(key, count), step)
        index = jax.random.randint(drawn, (count, BATCH), 0, len(inputs))

        def one(networks: Networks, rows: Any) -> Networks:
            x, y = data[0][rows], data[1][rows]
            return descend_once(
                networks, lambda net: loss(net, x, y), step, settings.updates, 0.005
            )

        return jax.vmap(one)(states, index)

    def init() -> Networks:
        return mlps(settings, count, inputs.shape[1], fan_out)

    data = jnp.asarray(inputs, jnp.float32), jnp.asarray(outputs, jnp.float32)
    return train_networks(name, init, update, data, settings.updates, work)
