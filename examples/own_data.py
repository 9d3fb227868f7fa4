"""From a machine's log to a policy: an oven whose operators keep its temperature, as a CSV file.

Run it with `python examples/own_data.py`, about a minute on two cores. `--agent bc` imitates the operators.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

import bfq


def write_log(path: Path, runs: int = 60, length: int = 100) -> None:
    """Operators of different skill heat an oven; a run is stopped when it overheats, or after 100 minutes."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run", "minute", "error", "drift", "power", "reward", "overheated"])
        for run in range(runs):
            gain, error, drift = rng.uniform(-0.05, 0.2), rng.normal(0, 3), 0.0
            for minute in range(length):
                power = np.clip(0.5 - gain * error + rng.normal(0, 0.15), 0, 1)
                after = error + drift + 2.0 * (power - 0.5) + rng.normal(0, 0.1)
                overheated = after > 10
                numbers = (f"{value:.4f}" for value in (error, drift, power, -abs(after)))
                table.writerow([run, minute, *numbers, overheated])
                if overheated:
                    break
                error, drift = after, 0.8 * drift + rng.normal(0, 0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--log", type=Path, default=Path("oven.csv"), help="where the made-up log goes"
    )
    parser.add_argument("--agent", default="bfq")
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    write_log(args.log)

    data = bfq.load_dataset(
        args.log,
        {
            "observations": "error+drift",
            "actions": "power",
            "rewards": "reward",
            "terminals": "overheated",
            "episode_ids": "run",
        },
        action_low=0.0,
        action_high=1.0,
        name="oven",
    )
    print(data)

    result = bfq.train(
        data,
        args.agent,
        seeds=1,
        steps=args.steps,
        values={"width": 64} if args.agent == "bc" else {"width": 64, "critic_width": 64},
        quiet=True,
    )
    print(f"the run is in {result.folder}")
    policy = result.policy()
    for error in (-3.0, 0.0, 3.0):
        powers = policy(np.tile([error, 0.0], (500, 1)))  # 500 answers to the same question
        print(f"{error:+.0f} degrees from the set point: power {powers.mean():.2f}")


if __name__ == "__main__":
    main()
