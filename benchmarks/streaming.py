"""Training from a memory-mapped set against training from memory: time of an update, and resident memory.

    python benchmarks/streaming.py --gigabytes 10 --out benchmarks/streaming.json

A set of that size is written (random numbers in HalfCheetah's shapes), then two processes train on it: one
with all of a smaller set in memory, one streaming the large one. Resident memory is the peak of the process
less that of one that trains on a set of 1000 rows, which is JAX's own.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.files import write_json
from bfq.run import versions

WIDTH, ACTS = 17, 6
ROW_BYTES = 4 * (2 * WIDTH + ACTS + 2)
TRAIN = """
import json, sys
import bfq
folder, steps, chunk = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = bfq.load_dataset(folder)
result = bfq.train(folder, "bfq", seeds=1, steps=steps, chunk=chunk, quiet=True, out=sys.argv[4])
status = dict(line.split(":") for line in open("/proc/self/status").read().splitlines())
peak = int(status["VmHWM"].split()[0]) / 2**20  # getrusage would tell the parent's, where that was more
took = result.record.microseconds_per_step
print(json.dumps({"rows": len(data), "microseconds_per_update": took, "peak_gb": peak}))
"""


def piece(rows: int, rng: np.random.Generator) -> Dataset:
    observations, following = rng.standard_normal((2, rows, WIDTH), np.float32)
    actions = rng.uniform(-1, 1, (rows, ACTS)).astype(np.float32)
    ends = np.arange(1, rows + 1) % 1000 == 0
    bound = np.ones(ACTS, np.float32)
    rewards = rng.standard_normal(rows, np.float32)
    return Dataset(
        observations,
        actions,
        rewards,
        following,
        np.ones(rows, np.float32),
        ends,
        -bound,
        bound,
        "noise",
        "dice",
    )


def write(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    with store.Writer(folder) as writer:
        while writer.rows < rows:
            writer.append(piece(min(200_000, rows - writer.rows), rng))
        writer.finish("noise", "dice")


def train(folder: Path, args: argparse.Namespace, out: Path, limit_gb: float) -> dict[str, Any]:
    settings = {**os.environ, "BFQ_MEMORY_GB": str(limit_gb)}
    words = [sys.executable, "-c", TRAIN, str(folder), str(args.steps), str(args.chunk), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, env=settings, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--chunk", type=int, default=20)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        sizes = {"tiny": 1000, "small": 1_000_000, "large": int(args.gigabytes * 2**30 / ROW_BYTES)}
        for name, rows in sizes.items():
            write(Path(folder) / f"{name}.store", rows)
        tiny = train(Path(folder) / "tiny.store", args, Path(folder) / "a", 1.0)
        memory = train(Path(folder) / "small.store", args, Path(folder) / "b", 1.0)
        streamed = train(Path(folder) / "large.store", args, Path(folder) / "c", 0.1)
    row = {
        "gigabytes": args.gigabytes,
        "from_memory": memory,
        "streamed": streamed,
        "slowdown": streamed["microseconds_per_update"] / memory["microseconds_per_update"],
        "resident_gb_beyond_jax": streamed["peak_gb"] - tiny["peak_gb"],
        "versions": versions(),
        "command": shlex.join(["python", *sys.argv]),
    }
    print(json.dumps(row, indent=1))
    if args.out:
        write_json(args.out, [row])


if __name__ == "__main__":
    main()
