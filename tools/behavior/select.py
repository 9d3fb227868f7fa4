"""Select the policies to ship from packs of snapshots, by their measured returns.

`python -m tools.behavior.select PACK.npz … --out DIR` writes ROBOT-expert.npz (the best), ROBOT-medium.npz
(about a third of its return) and ROBOT-replay-00.npz … (evenly spaced up to medium). For the
directional Ant, only the best is written, as ant-direction.npz.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bfq.data.dataset import Floats
from bfq.errors import BadInput
from bfq.tasks.weights import GaussianPolicy, load_weights
from tools.behavior.robots import ParallelRobots, episode_returns, get_robot
from tools.behavior.saving import save_weights

REPLAY = 8  # snapshots before medium
CONTENDERS = (
    4  # snapshots measured as candidates for expert; at least as many of each run for medium
)
TOLERANCE = 0.1  # relative distance from a third of the expert's return that counts as exact

Measure = Callable[[int], dict[str, Any]]  # measures the return of a snapshot


class Pack(NamedTuple):
    """All snapshots of a robot, and those of each run in the order of training."""

    weights: GaussianPolicy
    runs: list[list[int]]

    def facts(self, k: int) -> Any:
        """What training recorded about a snapshot."""
        return self.weights.meta["snapshots"][k]

    def level(self, k: int) -> float:
        """The training return of a snapshot, once an episode has ended."""
        level = self.facts(k)["training_return"]
        return -np.inf if level is None else float(level)


def join(packs: Sequence[GaussianPolicy]) -> Pack:
    """Join the packs of one robot, without the repeated snapshots from before the first update."""
    if len({pack.meta["robot"] for pack in packs}) != 1:
        raise BadInput("the packs are of different robots: give the packs of one robot.")
    arrays = {
        name: np.concatenate([pack.arrays[name] for pack in packs]) for name in packs[0].arrays
    }
    facts = [{**fact, "recipe": p.meta["recipe"]} for p in packs for fact in p.meta["snapshots"]]
    runs: dict[tuple[str, int], list[int]] = {}
    for k, fact in enumerate(facts):
        run = runs.setdefault((fact["recipe"], fact["seed"]), [])
        if not run or (arrays["mean_b"][k] != arrays["mean_b"][run[0]]).any():
            run.append(k)
    return Pack(GaussianPolicy(arrays, {**packs[0].meta, "snapshots": facts}), list(runs.values()))


def expert(pack: Pack, measure: Measure) -> int:
    """Return the best of the snapshots with the highest training returns and of the last ones."""
    candidates = sorted((k for run in pack.runs for k in run), key=pack.level)[-CONTENDERS:]
    return max(
        {*candidates, *(run[-1] for run in pack.runs)},
        key=lambda k: float(measure(k)["return_mean"]),
    )


def medium(pack: Pack, wanted: float, measure: Measure) -> list[int]:
    """Return a run up to the snapshot whose return is about `wanted`.

    Among snapshots within the tolerance, it is the one with the most snapshots before it.
    """
    paths = []
    for run in pack.runs:
        reached = next((i for i, k in enumerate(run) if pack.level(k) >= wanted), len(run) - 1)
        last = min(reached + 1, len(run) - 1)
        for i in range(last, 0, -1):
            paths.append(run[: i + 1])
            # Training returns are those of episodes that started earlier, so they may lag far behind.
            if measure(run[i])["return_mean"] < wanted and last - i + 1 >= CONTENDERS:
                break

    def distance(path: list[int]) -> tuple[float, int]:
        off = abs(float(measure(path[-1])["return_mean"]) - wanted) / wanted
        return max(off, TOLERANCE), -len(path)

    return min(paths, key=distance)


def replay(pack: Pack, path: list[int]) -> list[int]:
    """Select different snapshots on the path to medium, as evenly spaced in time as possible."""
    chosen: list[int] = []
    end = pack.facts(path[-1])["env_steps"]
    for wanted in np.linspace(0.0, end, min(REPLAY, len(path) - 1), endpoint=False):
        distances = {
            abs(pack.facts(k)["env_steps"] - wanted): k for k in path[:-1] if k not in chosen
        }
        chosen.append(distances[min(distances)])
    return sorted(chosen)


def measured(robots: ParallelRobots, act: Callable[[Floats], Floats]) -> dict[str, Any]:
    """Return the mean and standard deviation of one episode in each environment."""
    returns = episode_returns(robots, act)
    mean, std = round(float(returns.mean()), 1), round(float(returns.std()), 1)
    return {"return_mean": mean, "return_std": std, "episodes": len(returns)}


def select(pack: Pack, robots: ParallelRobots, seed: int) -> dict[str, GaussianPolicy]:
    """Return the policies to ship by file name, each with its level and measured return."""
    name, rng = pack.weights.meta["robot"], np.random.default_rng(seed)
    known: dict[int, dict[str, Any]] = {}

    def measure(k: int) -> dict[str, Any]:
        if k not in known:
            policy = pack.weights.snapshot(k)
            known[k] = measured(robots, lambda s: policy.act(s, rng))
        return known[k]

    shape = (robots.count, get_robot(name).action_dim)
    uniform = measured(robots, lambda s: 2.0 * rng.random(shape, np.float32) - 1.0)["return_mean"]
    best = expert(pack, measure)
    chosen = [(name, "expert", best)]
    if name != "ant-direction":
        path = medium(pack, measure(best)["return_mean"] / 3.0, measure)
        chosen = [(f"{name}-expert", "expert", best), (f"{name}-medium", "medium", path[-1])]
        chosen += [
            (f"{name}-replay-{i:02d}", "replay", k) for i, k in enumerate(replay(pack, path))
        ]
    common = {"random_return": uniform, "gymnasium": version("gymnasium")}
    policies = {}
    for file, level, k in chosen:
        policy = pack.weights.snapshot(k)
        policies[file] = GaussianPolicy(
            policy.arrays, {**policy.meta, "level": level, **measure(k), **common}
        )
    return policies


def main() -> None:
    """Select the policies, write them and print their returns."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.behavior.select", description="Select policies to ship."
    )
    parser.add_argument("pack", type=Path, nargs="+", help="packs of one robot")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weight files")
    parser.add_argument("--episodes", type=int, default=24, help="episodes per measurement")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    try:
        pack = join([load_weights(path) for path in a.pack])
    except BadInput as error:
        parser.error(str(error))
    a.out.mkdir(parents=True, exist_ok=True)
    robots = ParallelRobots([pack.weights.meta["robot"]] * a.episodes, a.seed, a.processes)
    for name, policy in select(pack, robots, a.seed).items():
        save_weights(a.out / f"{name}.npz", policy)
        facts = policy.meta
        print(f"{name}: {facts['return_mean']} ± {facts['return_std']}, {facts['env_steps']} steps")
    robots.close()


if __name__ == "__main__":
    main()
