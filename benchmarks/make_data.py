"""How fast data is made: rows a second, the share of the simulator's own speed, and how busy the cores are.

    python benchmarks/make_data.py --size 1000000 --out benchmarks/make_data.json

The simulator's own speed is MuJoCo's `mj_step` alone, with the same actions, on every core at once.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data import store
from bfq.envs.robots import MAX_STEPS
from bfq.envs.worker_pool import cores
from bfq.files import write_json
from bfq.run import versions
from bfq.tasks.locomotion import LocomotionBlock
from bfq.tasks.recipes import generate_dataset, recipe_for

RAW = """
import sys, time, mujoco, numpy as np
from bfq.envs.robots import Robots
simulator, seconds, folder = sys.argv[1], float(sys.argv[2]), sys.argv[3]
actions = np.load(folder + "/actions.npy").astype(np.float64)
robots = Robots(simulator, np.load(folder + "/seeds.npy").tolist())
step, model, skip = mujoco.mj_step, robots.model, robots.robot.frame_skip
count, time_step, end = 0, 0, time.monotonic() + seconds
while time.monotonic() < end and time_step < actions.shape[1]:
    for k, data in enumerate(robots.data):
        data.ctrl[:] = actions[k, time_step]
        step(model, data, skip)
        count += 1
    time_step += 1
print(count / (seconds - max(end - time.monotonic(), 0.0)))
"""


def raw_speed(block: LocomotionBlock, seconds: float = 5.0) -> float:
    """MuJoCo's own steps a second on all cores, along the very episodes of a block."""
    log = block(0, 0)
    if len(log) != block.episodes * MAX_STEPS:
        raise SystemExit("robots that fall are not measured: choose the HalfCheetah")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/actions.npy", log.actions.reshape(block.episodes, MAX_STEPS, -1))
        seeds = np.random.default_rng([0, 0]).integers(0, 2**31 - 1, block.episodes)
        np.save(f"{folder}/seeds.npy", seeds)
        return on_all_cores([sys.executable, "-c", RAW, block.simulator, str(seconds), folder])


GYM = """
import sys, time, warnings, numpy as np, gymnasium
warnings.simplefilter("ignore")
environment, seconds = gymnasium.make(sys.argv[1]), float(sys.argv[2])
environment.reset(seed=0)
action, count, end = np.zeros(environment.action_space.shape, np.float32), 0, time.monotonic() + seconds
while time.monotonic() < end:
    *_, terminated, truncated, _ = environment.step(action)
    count += 1
    if terminated or truncated:
        environment.reset()
print(count / seconds)
"""


def gymnasium_speed(block: LocomotionBlock, seconds: float = 5.0) -> float:
    """Steps a second of Gymnasium's own loop on all cores, a robot standing still: the least it can take."""
    return on_all_cores([sys.executable, "-c", GYM, block.simulator, str(seconds)])


def on_all_cores(command: list[str]) -> float:
    """The sum of what a process on each core prints."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=alone)
        for _ in range(cores())
    ]
    return sum(float(process.communicate()[0]) for process in processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="local/halfcheetah-medium")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    recipe = recipe_for(args.name, args.size)
    row: dict[str, Any] = {
        "name": args.name,
        "size": args.size,
        "cores": cores(),
        "versions": versions(),
    }
    with tempfile.TemporaryDirectory() as folder:
        before, began = busy_seconds(), time.monotonic()
        dataset = generate_dataset(recipe, Path(folder) / "set")
        wall = time.monotonic() - began
        row |= {"seconds": wall, "rows_per_second": args.size / wall, "sha256": dataset.sha256}
        row["cores_busy"] = (busy_seconds() - before) / wall / cores()
        began = time.monotonic()
        loaded = store.open_dataset(Path(folder) / "set")
        row["load_seconds"] = time.monotonic() - began
        total = float(loaded.observations.sum() + loaded.rewards.sum())  # every row is read
        row["load_and_read_seconds"] = time.monotonic() - began
        assert total == total
    block = recipe.parts[0].block
    if isinstance(block, LocomotionBlock):
        row["simulator_rows_per_second"] = raw_speed(block)
        row["share_of_simulator"] = row["rows_per_second"] / row["simulator_rows_per_second"]
        row["gymnasium_rows_per_second"] = gymnasium_speed(block)
        row["share_of_gymnasium"] = row["rows_per_second"] / row["gymnasium_rows_per_second"]
    row["command"] = shlex.join(["python", *sys.argv])
    print(json.dumps(row, indent=1))
    if args.out:
        write_json(args.out, [row])


def busy_seconds() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
