"""The time of one gradient update in two versions of this repository, measured in turns.

    git worktree add /tmp/before 62440b2
    python benchmarks/update_ratio.py /tmp/before/src src --agent bfq,fql,dql --seeds 1,6

Each version runs in its own process on the CPU, with the agent's default sizes and random transitions. The two
run short blocks in alternation, so that both see the same load of the machine. Printed are the best time per
update of each version, the median over rounds of the ratio new/old, and whether both versions end with exactly
the same weights.
"""

import argparse
import hashlib
import importlib
import os
import statistics
import subprocess
import sys
import time
from typing import Any

ROWS, OBSERVATION_DIM, ACTION_DIM = 10_000, 17, 6  # as HalfCheetah


def first_of(places: list[tuple[str, str]]) -> Any:
    """The first of several names, each in a module, that this version has."""
    for module, name in places:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"This version has none of {places}.")


def prepare(agent_name: str, seeds: int, updates: int) -> Any:
    """A compiled block of updates: each call runs one and returns the states after it."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    population = "bfq.training.population"
    get_agent = first_of([("bfq.agents.registry", "get_agent"), ("bfq.agents.agent", "get_agent")])
    members_of = first_of([("bfq.run", "members_of"), (population, "members_of")])
    create = first_of([(population, "create_population"), (population, "populate")])
    program_class = first_of([("bfq.training.program", "Program"), (population, "Program")])
    pack, initial_states = (first_of([(population, name)]) for name in ("pack", "initial_states"))

    rng = np.random.default_rng(0)
    sizes = {"observations": OBSERVATION_DIM, "actions": ACTION_DIM, "rewards": 1,
             "next_observations": OBSERVATION_DIM}  # fmt: skip
    arrays = {
        name: rng.normal(size=(ROWS, size)).astype(np.float32) for name, size in sizes.items()
    }
    arrays["actions"] = np.tanh(arrays["actions"])
    arrays["rewards"], arrays["masks"] = arrays["rewards"][:, 0], np.ones(ROWS, np.float32)
    rows, agent = pack(arrays), get_agent(agent_name)
    members = create(agent, agent.config(), members_of(range(seeds), {}))
    states, program = initial_states(members, rows.spec), program_class(members, updates)
    program.compile(states, rows)
    start = 0

    def block() -> Any:
        nonlocal states, start
        states, metrics = program(states, rows, jnp.int32(start))
        start += updates
        jax.block_until_ready((states, metrics))
        return states

    return block


def work() -> None:
    """Serve one version: `prepare AGENT SEEDS UPDATES`, `run`, or `digest` per line of standard input."""
    block, states, updates = None, None, 1
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "prepare":
            updates = int(words[2])
            block = prepare(words[0], int(words[1]), updates)
            answer = "ready"
        elif verb == "run":
            began = time.perf_counter()
            states = block()
            answer = f"{(time.perf_counter() - began) / updates:.9f}"
        else:
            import jax
            import numpy as np

            numbers = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(states)]
            answer = hashlib.sha256(b"".join(numbers)).hexdigest()
        print(f"@{answer}", flush=True)


class Version:
    """A process that runs one source tree."""

    def __init__(self, source: str):
        environment = {**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, line: str) -> str:
        """Send a line and wait for the answer."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        for answer in self._process.stdout:
            if answer.startswith("@"):
                return answer[1:].strip()
        raise SystemExit(f"A worker ended at: {line}")

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def compare(old: Version, new: Version, agent: str, seeds: int, updates: int, rounds: int) -> str:
    """One row of the table."""
    for version in (old, new):
        version.ask(f"prepare {agent} {seeds} {updates}")
        version.ask("run")
    times = []
    for k in range(rounds):
        pair = [float(version.ask("run")) for version in ((old, new) if k % 2 else (new, old))]
        times.append(pair if k % 2 else pair[::-1])
    best = [1e6 * min(column) for column in zip(*times, strict=True)]
    ratio = statistics.median(new_time / old_time for old_time, new_time in times)
    same = "yes" if old.ask("digest") == new.ask("digest") else "no"
    return (
        f"{agent:8}{seeds:6}{best[0]:12.0f}{best[1]:12.0f}{best[1] / best[0]:10.3f}"
        f"{ratio:10.3f}{same:>8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="src folder of the old version")
    parser.add_argument("new", help="src folder of the new version")
    parser.add_argument("--agent", default="bfq,fql,dql", metavar="NAME[,NAME…]")
    parser.add_argument("--seeds", default="1,6", metavar="N[,N…]")
    parser.add_argument("--updates", type=int, default=20, help="per block")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    old, new = Version(os.path.abspath(given.old)), Version(os.path.abspath(given.new))
    print("agent    seeds   old, µs     new, µs  of best    median    same", flush=True)
    for agent in given.agent.split(","):
        for seeds in map(int, given.seeds.split(",")):
            print(compare(old, new, agent, seeds, given.updates, given.rounds), flush=True)
    old.close()
    new.close()


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--work"] else main()
