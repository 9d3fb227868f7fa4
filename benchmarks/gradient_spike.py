"""What one outsized gradient does to a flow map in training, with and without a bound on the gradient's norm.

    python benchmarks/gradient_spike.py

A network learns L_BC alone, by the preset of OGBench's cube but for the critics. Then the loss of one update,
and so its gradient, is multiplied by 10,000, and training goes on for 500 updates, without a bound on its
norm and with the preset's. Told are the norms of the last 500 gradients before, and the mean of both losses
over the last 50 updates before and after.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from bfq.agents import bfq
from bfq.agents.contract import Spec
from bfq.agents.learning import Learner, descend
from bfq.agents.registry import configure
from bfq.cli.words import Parser, exit_code
from bfq.data import transforms
from bfq.errors import BadInput
from bfq.settings import compose
from bfq.tasks.sources import load_dataset

TASK = "local/cube-single-play"
SPIKE, CHUNK, LAST = 1e4, 500, 50
Updates = Callable[[Learner, Array, float], tuple[Learner, dict[str, Array]]]


def main(words: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default=TASK, help=f"whose data is learned from; default {TASK}")
    parser.add_argument(
        "--updates", type=int, default=4000, help="before the spike, in chunks of 500"
    )
    parser.add_argument("--width", type=int, default=512, help="units of a hidden layer")
    return exit_code(lambda: tell(**vars(parser.parse_args(words))))


def tell(task: str, updates: int, width: int) -> None:
    """A line before the spike, and one for each bound after it."""
    if updates < CHUNK or updates % CHUNK:
        raise BadInput(f"--updates takes multiples of {CHUNK}, not {updates}.")
    run = compose(TASK, "bfq")
    config = configure(bfq.AGENT, {**run.config, "width": width})
    data = load_dataset(task)
    seen = transforms.apply_transforms(transforms.fit_transforms(data, **run.data), data)
    rows = {name: jnp.asarray(seen[name]) for name in ("observations", "actions")}
    free, bounded = (_updates(rows, config, bound) for bound in (0.0, config.clip_norm))

    state = bfq.init(jax.random.key(0), Spec(data.observation_dim, data.action_dim), config).policy
    for k in range(updates // CHUNK):
        state, metrics = free(state, jax.random.split(jax.random.key(k), CHUNK), 1.0)
    norms = metrics["norm"]
    print(
        json.dumps({"norms": [float(norms.min()), float(norms.max())], **_means(metrics)}),
        flush=True,
    )
    for bound, step in ((0.0, free), (config.clip_norm, bounded)):
        knocked, _ = step(state, jax.random.split(jax.random.key(-1), 1), SPIKE)
        _, metrics = step(knocked, jax.random.split(jax.random.key(-2), CHUNK), 1.0)
        print(json.dumps({"clip_norm": bound, **_means(metrics)}), flush=True)


def _updates(rows: dict[str, Array], config: Any, bound: float) -> Updates:
    """As many updates as there are keys, with the loss multiplied by a factor."""

    def update(state: Learner, key: Array, factor: float) -> tuple[Learner, dict[str, Array]]:
        row_key, loss_key = jax.random.split(key)
        drawn = jax.random.randint(row_key, (config.batch_size,), 0, len(rows["actions"]))
        actions, observations = rows["actions"][drawn], rows["observations"][drawn]

        def loss(policy: Any) -> tuple[Array, dict[str, Array]]:
            value, parts, _ = bfq.bootstrap_loss(policy, actions, observations, loss_key, config)
            return factor * value, parts

        norm = optax.global_norm(jax.grad(lambda policy: loss(policy)[0])(state.params))
        state, _, parts = descend(state, loss, config.learning_rate, bound)
        return state, {**parts, "norm": norm}

    @jax.jit
    def many(state: Learner, keys: Array, factor: float) -> tuple[Learner, dict[str, Array]]:
        return jax.lax.scan(lambda carried, key: update(carried, key, factor), state, keys)

    return many


def _means(metrics: dict[str, Array]) -> dict[str, float]:
    return {
        name: float(metrics[name][-LAST:].mean()) for name in ("boundary_loss", "composition_loss")
    }


if __name__ == "__main__":
    sys.exit(main())
