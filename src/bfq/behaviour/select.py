"""Chooses from a pack of snapshots the policies that are worth shipping, by what they really return.

`python -m bfq.behaviour.select PACK.npz --out DIR` writes ROBOT-expert.npz (the best), ROBOT-medium.npz
(about a third of its return) and ROBOT-replay-00.npz … (evenly along the way to medium). Of the directional
Ant only the best is kept, as ant-direction.npz.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bfq.behaviour.robots import get_robot
from bfq.behaviour.weights import Floats, Weights, load, save
from bfq.behaviour.workers import Workers, episode_returns

REPLAY = 8  # snapshots on the way to medium
CONTENDERS = 4  # snapshots that are measured for the title of expert, and as many for medium

Measure = Callable[[int], dict[str, Any]]  # the measured return of a snapshot, by its index


def expert(snapshots: Sequence[dict[str, Any]], measure: Measure) -> int:
    """The best of those that returned most while training, and of the last."""
    known = [k for k, fact in enumerate(snapshots) if fact["training_return"] is not None]
    likely = sorted(known, key=lambda k: float(snapshots[k]["training_return"]))[-CONTENDERS:]
    best = snapshots[likely[-1]]["seed"]
    last = max(k for k in known if snapshots[k]["seed"] == best)
    return max({*likely, last}, key=lambda k: float(measure(k)["return_mean"]))


def medium(snapshots: Sequence[dict[str, Any]], best: int, measure: Measure) -> int:
    """The snapshot of the expert's run whose return is nearest to a third of the expert's."""
    wanted = measure(best)["return_mean"] / 3.0
    run = [k for k in range(best) if snapshots[k]["seed"] == snapshots[best]["seed"]]
    # Returns while training are of episodes that began earlier: the right snapshot is at or before the first
    # that reaches the level.
    reached = next(k for k in run if (snapshots[k]["training_return"] or -np.inf) >= wanted)
    near = [k for k in run if reached - CONTENDERS < k <= reached]
    return min(near, key=lambda k: abs(float(measure(k)["return_mean"]) - wanted))


def replay(snapshots: Sequence[dict[str, Any]], middle: int) -> list[int]:
    """Different snapshots of the run, as even in time as there are, from its beginning to before medium."""
    run = [k for k in range(middle) if snapshots[k]["seed"] == snapshots[middle]["seed"]]
    chosen: list[int] = []
    for wanted in np.linspace(0.0, snapshots[middle]["env_steps"], min(REPLAY, len(run)), endpoint=False):
        free = [k for k in run if k not in chosen]
        chosen.append(min(free, key=lambda k, at=wanted: abs(float(snapshots[k]["env_steps"]) - at)))  # type: ignore[misc]
    return sorted(chosen)


def measured(workers: Workers, act: Callable[[Floats], Floats]) -> dict[str, Any]:
    """Mean and spread of one episode in each simulator."""
    returns = episode_returns(workers, act)
    mean, spread = round(float(returns.mean()), 1), round(float(returns.std()), 1)
    return {"return_mean": mean, "return_std": spread, "episodes": len(returns)}


def select(pack: Weights, episodes: int, processes: int, seed: int) -> dict[str, Weights]:
    """The policies to ship by the names of their files, each with its level and measured return."""
    name, snapshots = pack.meta["robot"], pack.meta["snapshots"]
    workers, rng = Workers([name] * episodes, seed, processes), np.random.default_rng(seed)
    seen: dict[int, dict[str, Any]] = {}

    def measure(k: int) -> dict[str, Any]:
        policy = pack.snapshot(k)
        seen[k] = seen.get(k) or measured(workers, lambda s: policy.act(s, rng))
        return seen[k]

    shape = (episodes, get_robot(name).action_dim)
    uniform = measured(workers, lambda s: 2.0 * rng.random(shape, np.float32) - 1.0)["return_mean"]
    best = expert(snapshots, measure)
    chosen = [(name, "expert", best)]
    if name != "ant-direction":
        middle = medium(snapshots, best, measure)
        chosen = [(f"{name}-expert", "expert", best), (f"{name}-medium", "medium", middle)]
        for i, k in enumerate(replay(snapshots, middle)):
            chosen.append((f"{name}-replay-{i:02d}", "replay", k))
    common = {"random_return": uniform, "gymnasium": version("gymnasium")}
    policies = {}
    for file, level, k in chosen:
        policy = pack.snapshot(k)
        policies[file] = Weights(policy.arrays, {**policy.meta, "level": level, **measure(k), **common})
    workers.close()
    return policies


def main() -> None:
    """Chooses as the command line says and prints what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bfq.behaviour.select", description="Chooses policies.")
    parser.add_argument("pack", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the weight files")
    parser.add_argument("--episodes", type=int, default=24, help="episodes a policy is measured on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for name, policy in select(load(a.pack), a.episodes, a.processes, a.seed).items():
        save(a.out / f"{name}.npz", policy)
        facts = policy.meta
        print(f"{name}: {facts['return_mean']} ± {facts['return_std']}, {facts['env_steps']} steps")


if __name__ == "__main__":
    main()
