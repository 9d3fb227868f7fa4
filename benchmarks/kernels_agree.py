"""Compare updates with and without kernels on a GPU; the tests can only interpret the kernels.

    python benchmarks/kernels_agree.py --agent bfq,fql

Small networks of width 64, three members, 20 updates on random data, at full float32 precision. Prints the
largest difference of any metric and of any number of the state, relative to the largest in its array.
"""

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents.contract import Agent, Spec
from bfq.agents.registry import get_agent
from bfq.bench.measure import Sizes, compile_population, random_transitions, resize
from bfq.settings import compose
from bfq.training.compilation import CONFIG

TASK, UPDATES, MEMBERS = "halfcheetah-medium-v2", 20, 3


def outcome(agent: Agent, kernels: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The metrics and the state after the updates."""
    os.environ["BFQ_NO_KERNELS"] = "0" if kernels else "1"
    base = compose(TASK, agent.name).config
    config = resize(agent, base, {"steps": 2 * UPDATES}, width=64, batch=64)
    sizes = Sizes(MEMBERS, 1000, Spec(17, 6), UPDATES)
    rows = random_transitions(sizes, agent.needs)
    compiled = compile_population(agent, config, rows, sizes)
    states, metrics = compiled.program(compiled.states, rows, jnp.int32(0))
    return tuple(
        [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
        for tree in (metrics, states)
    )


def difference(ours: list[np.ndarray], plain: list[np.ndarray]) -> float:
    return max(
        np.abs(a - b).max() / (np.abs(b).max() + 1e-9) for a, b in zip(ours, plain, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default="bfq", metavar="NAME[,NAME…]")
    CONFIG.update("jax_default_matmul_precision", "highest")
    for name in parser.parse_args().agent.split(","):
        ours, plain = (outcome(get_agent(name), kernels) for kernels in (True, False))
        metrics, state = (difference(a, b) for a, b in zip(ours, plain, strict=True))
        print(f"{name}: metrics {metrics:.1e}, state {state:.1e}", flush=True)


if __name__ == "__main__":
    main()
