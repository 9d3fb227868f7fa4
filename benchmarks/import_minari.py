"""Seconds to read a Minari dataset of a million transitions: 1000 episodes, 17 observations, 6 actions.

Run: python benchmarks/import_minari.py --out benchmarks/import_minari.json
The dataset is made in a temporary folder, in the layout that Minari writes (one HDF5 group an episode, double
precision observations), and is in the system's file cache when it is read.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from bfq.data.readers.minari import read_minari
from bfq.files import write_json
from bfq.run import versions

OBSERVATIONS, ACTIONS = 17, 6


def box(width, bound, dtype):
    bounds = {"low": [-bound] * width, "high": [bound] * width}
    return json.dumps({"type": "Box", "dtype": dtype, "shape": [width], **bounds})


def make_store(folder, episodes, steps):
    data = folder / "data"
    data.mkdir()
    card = {
        "data_format": "hdf5",
        "dataset_id": "benchmark/random-v0",
        "observation_space": box(OBSERVATIONS, float("inf"), "float64"),
        "action_space": box(ACTIONS, 1.0, "float32"),
    }
    (data / "metadata.json").write_text(json.dumps(card))
    rng = np.random.default_rng(0)
    with h5py.File(data / "main_data.hdf5", "w", track_order=True) as file:
        for k in range(episodes):
            columns = {
                "observations": rng.normal(size=(steps + 1, OBSERVATIONS)),
                "actions": rng.uniform(-1, 1, (steps, ACTIONS)).astype(np.float32),
                "rewards": rng.normal(size=steps),
                "terminations": np.zeros(steps, bool),
                "truncations": np.arange(steps) == steps - 1,
            }
            for name, column in columns.items():
                growing = (None, *column.shape[1:])
                file.create_dataset(
                    f"episode_{k}/{name}", data=column, chunks=True, maxshape=growing
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    times = []
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder), args.episodes, args.steps)
        for _ in range(args.repeats):
            began = time.monotonic()
            dataset = read_minari(Path(folder))
            times.append(time.monotonic() - began)
    result = {
        "transitions": len(dataset),
        "episodes": len(dataset.episode_returns),
        "observations": OBSERVATIONS,
        "actions": ACTIONS,
        "seconds": statistics.median(times),
        "spread": [min(times), max(times)],
        "milliseconds_per_episode": 1000 * statistics.median(times) / args.episodes,
        "device": platform.machine(),
        "versions": {**versions(), "h5py": h5py.__version__},
        "command": " ".join(["python", *sys.argv]),
    }
    print(json.dumps(result, indent=1))
    if args.out:
        write_json(args.out, result)


if __name__ == "__main__":
    main()
