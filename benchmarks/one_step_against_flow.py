"""How far the one-step action of a trained BFQ lies from its own flow: what guidance did to it.

    python benchmarks/one_step_against_flow.py RUN

The velocity that the boundary loss anchors to the data, followed in 20 Euler steps, makes actions like the
data's whatever the critics say; they pull at the displacement over (0, 1) alone. On 2,000 states of the run's
data, 16 actions each: errors against the logged action, spread, and the distance of the two means.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bfq.cli.words import Parser, exit_code
from bfq.errors import BadInput
from bfq.flow.maps import flow_map, one_step
from bfq.flow.matching import euler
from bfq.tasks.sources import load_dataset
from bfq.trained import load_trained

STATES, DRAWS, STEPS = 2000, 16, 20


def main(words: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder of bfq with its last checkpoint")
    parser.add_argument("--states", type=int, default=STATES, metavar="N", help=f"default {STATES}")
    asked = parser.parse_args(words)
    return exit_code(lambda: tell(asked.run, asked.states))


def tell(folder: Path, states: int = STATES) -> None:
    """A line a member."""
    trained = load_trained(folder)
    run = trained.run
    if run.agent != "bfq":
        raise BadInput(f"the run in {folder} is one of {run.agent}, not of bfq.")
    data = load_dataset(run.task)
    count = min(states, len(data.rewards))
    rows = np.sort(np.random.default_rng(0).choice(len(data.rewards), count, replace=False))
    observations = trained.transforms.normalize(np.asarray(data.observations[rows]))
    actions = jnp.asarray(trained.transforms.to_unit(np.asarray(data.actions[rows])))
    for k, member in enumerate(trained.population.members):
        state, config = trained.member(k)
        distances = compared(
            state.policy_target, jnp.asarray(observations), actions, config.preconditioned
        )
        print(json.dumps({**asdict(member), **distances}), flush=True)


def compared(
    policy: Any, observations: Array, actions: Array, preconditioned: bool
) -> dict[str, Any]:
    """Both ways from the same noise."""
    states = jnp.repeat(observations, DRAWS, axis=0)
    noise = jax.random.normal(jax.random.key(0), (len(states), actions.shape[-1]))
    ways = {
        "one step": one_step(policy, noise, states, preconditioned),
        f"{STEPS} steps": euler(lambda x, t: policy(x, t, t, states), noise, STEPS),
        f"{STEPS} maps": _by_maps(policy, noise, states, preconditioned),
    }
    drawn = {name: jnp.clip(x, -1, 1).reshape(len(actions), DRAWS, -1) for name, x in ways.items()}
    flow = drawn[f"{STEPS} steps"].mean(1)
    return {
        name: {
            "error_of_a_draw": _rounded(jnp.square(x - actions[:, None]).mean()),
            "error_of_the_mean": _rounded(jnp.square(x.mean(1) - actions).mean()),
            "spread": _rounded(x.std(1).mean()),
            "from_the_flow": _rounded(jnp.abs(x.mean(1) - flow).mean()),
        }
        for name, x in drawn.items()
    }


def _by_maps(policy: Any, x: Array, states: Array, preconditioned: bool) -> Array:
    """Short displacements, one after the other."""
    for k in range(STEPS, 0, -1):
        x = flow_map(
            policy, x, jnp.asarray((k - 1) / STEPS), jnp.asarray(k / STEPS), states, preconditioned
        )
    return x


def _rounded(value: Array) -> float:
    return round(float(value), 5)


if __name__ == "__main__":
    sys.exit(main())
