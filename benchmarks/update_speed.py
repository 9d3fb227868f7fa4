"""Microseconds of one update of a whole population, from drawing the batch to moving the targets.

Run: python benchmarks/update_speed.py --members 1 6 42 --out benchmarks/update_speed.json
The sizes are the paper's: 17 observations, 6 actions, batch 256, four hidden layers of 256. Data: a million
transitions.
"""

import argparse
import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents import get_agent
from bfq.agents.agent import configure
from bfq.provenance import versions
from bfq.training.population import Program, initial_states, members_of, pack, populate

OBSERVATIONS, ACTIONS = 17, 6


def transitions(count):
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(count, OBSERVATIONS)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (count, ACTIONS)).astype(np.float32),
        "next_observations": rng.normal(size=(count, OBSERVATIONS)).astype(np.float32),
        "rewards": rng.normal(size=count).astype(np.float32),
        "masks": np.ones(count, np.float32),
    }


def measure(members, rows, args):
    agent = get_agent("bfq")
    sizes = {"width": args.width, "critic_width": args.width, "depth": args.depth, "critic_depth": args.depth}
    config = configure(agent, {**sizes, "batch_size": args.batch})
    population = populate(agent, config, members_of(range(members), {}))
    states, program = initial_states(population, rows.spec), Program(population, args.chunk)
    began = time.monotonic()
    program.compile(states, rows)
    compile_seconds, times = time.monotonic() - began, []
    for k in range(args.repeats + 1):
        began = time.monotonic()
        states, metrics = program(states, rows, jnp.int32(k * args.chunk))
        jax.block_until_ready(metrics)
        times.append(1e6 * (time.monotonic() - began) / args.chunk)
    warm = times[1:]
    return {
        "agent": "bfq",
        "members": members,
        "batch": args.batch,
        "width": args.width,
        "depth": args.depth,
        "transitions": len(rows.packed),
        "device": jax.devices()[0].device_kind,
        "microseconds_per_update": statistics.median(warm),
        "spread": [min(warm), max(warm)],
        "compile_seconds": compile_seconds,
        "versions": versions(),
        "command": "python benchmarks/update_speed.py " + " ".join(sys.argv[1:]),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, nargs="+", default=[1, 6, 42])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = pack(transitions(args.transitions))
    table = []
    for members in args.members:
        table.append(measure(members, rows, args))
        print(f"{members:4} members: {table[-1]['microseconds_per_update']:9.1f} µs an update", flush=True)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
