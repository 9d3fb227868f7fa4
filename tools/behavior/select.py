"""Chooses from packs of snapshots the policies that are worth shipping, by what they really return.

`python -m tools.behavior.select PACK.npz … --out DIR` writes ROBOT-expert.npz (the best), ROBOT-medium.npz
(about a third of its return) and ROBOT-replay-00.npz … (evenly along the way to medium). Of the directional
Ant only the best is kept, as ant-direction.npz.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bfq.errors import BadInput
from bfq.tasks.weights import Floats, GaussianPolicy, load_policy, save_policy
from tools.behavior.robots import get_robot
from tools.behavior.workers import Workers, episode_returns

REPLAY = 8  # snapshots on the way to medium
CONTENDERS = 4  # snapshots that are measured for the title of expert; at least as many of each run for medium
TOLERANCE = 0.1  # a medium so far from a third of the expert's return is as good as an exact one

Measure = Callable[[int], dict[str, Any]]  # the measured return of a snapshot, by its index


class Pack(NamedTuple):
    """All snapshots of a robot, and which of them belong together, in the order of training."""

    weights: GaussianPolicy
    runs: list[list[int]]

    def facts(self, k: int) -> Any:
        """What training noted about a snapshot."""
        return self.weights.meta["snapshots"][k]

    def level(self, k: int) -> float:
        """Its return while training, from when an episode had ended."""
        noted = self.facts(k)["training_return"]
        return -np.inf if noted is None else float(noted)


def join(packs: Sequence[GaussianPolicy]) -> Pack:
    """Packs of one robot as one, without the snapshots from before learning began, which are all alike."""
    if len({pack.meta["robot"] for pack in packs}) != 1:
        raise BadInput(
            "the packs are of different robots: choose from one robot's packs at a time."
        )
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
    """The best of those that returned most while training, and of the ends of the runs."""
    likely = sorted((k for run in pack.runs for k in run), key=pack.level)[-CONTENDERS:]
    return max(
        {*likely, *(run[-1] for run in pack.runs)}, key=lambda k: float(measure(k)["return_mean"])
    )


def medium(pack: Pack, wanted: float, measure: Measure) -> list[int]:
    """The run up to the snapshot that returns about what is wanted, that snapshot being the last.

    Among snapshots within the tolerance, it is the one with the most others on its way.
    """
    ways = []
    for run in pack.runs:
        reached = next((i for i, k in enumerate(run) if pack.level(k) >= wanted), len(run) - 1)
        last = min(reached + 1, len(run) - 1)
        for i in range(last, 0, -1):
            ways.append(run[: i + 1])
            # What is noted while training is of episodes that began earlier: it may be far behind.
            if measure(run[i])["return_mean"] < wanted and last - i + 1 >= CONTENDERS:
                break

    def badness(way: list[int]) -> tuple[float, int]:
        off = abs(float(measure(way[-1])["return_mean"]) - wanted) / wanted
        return max(off, TOLERANCE), -len(way)

    return min(ways, key=badness)


def replay(pack: Pack, way: list[int]) -> list[int]:
    """Different snapshots of the way to medium, as even in time as there are."""
    chosen: list[int] = []
    end = pack.facts(way[-1])["env_steps"]
    for wanted in np.linspace(0.0, end, min(REPLAY, len(way) - 1), endpoint=False):
        away = {abs(pack.facts(k)["env_steps"] - wanted): k for k in way[:-1] if k not in chosen}
        chosen.append(away[min(away)])
    return sorted(chosen)


def measured(workers: Workers, act: Callable[[Floats], Floats]) -> dict[str, Any]:
    """Mean and spread of one episode in each simulator."""
    returns = episode_returns(workers, act)
    mean, spread = round(float(returns.mean()), 1), round(float(returns.std()), 1)
    return {"return_mean": mean, "return_std": spread, "episodes": len(returns)}


def select(pack: Pack, workers: Workers, seed: int) -> dict[str, GaussianPolicy]:
    """The policies to ship by the names of their files, each with its level and measured return."""
    name, rng = pack.weights.meta["robot"], np.random.default_rng(seed)
    known: dict[int, dict[str, Any]] = {}

    def measure(k: int) -> dict[str, Any]:
        if k not in known:
            policy = pack.weights.snapshot(k)
            known[k] = measured(workers, lambda s: policy.act(s, rng))
        return known[k]

    shape = (len(workers.arrays.rewards), get_robot(name).action_dim)
    uniform = measured(workers, lambda s: 2.0 * rng.random(shape, np.float32) - 1.0)["return_mean"]
    best = expert(pack, measure)
    chosen = [(name, "expert", best)]
    if name != "ant-direction":
        way = medium(pack, measure(best)["return_mean"] / 3.0, measure)
        chosen = [(f"{name}-expert", "expert", best), (f"{name}-medium", "medium", way[-1])]
        chosen += [(f"{name}-replay-{i:02d}", "replay", k) for i, k in enumerate(replay(pack, way))]
    common = {"random_return": uniform, "gymnasium": version("gymnasium")}
    policies = {}
    for file, level, k in chosen:
        policy = pack.weights.snapshot(k)
        policies[file] = GaussianPolicy(
            policy.arrays, {**policy.meta, "level": level, **measure(k), **common}
        )
    return policies


def main() -> None:
    """Chooses as the command line says and prints what was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.behavior.select", description="Chooses policies."
    )
    parser.add_argument("pack", type=Path, nargs="+", help="packs of one robot")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weight files")
    parser.add_argument("--episodes", type=int, default=24, help="episodes a policy is measured on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    try:
        pack = join([load_policy(path) for path in a.pack])
    except BadInput as error:
        parser.error(str(error))
    a.out.mkdir(parents=True, exist_ok=True)
    workers = Workers([pack.weights.meta["robot"]] * a.episodes, a.seed, a.processes)
    for name, policy in select(pack, workers, a.seed).items():
        save_policy(a.out / f"{name}.npz", policy)
        facts = policy.meta
        print(f"{name}: {facts['return_mean']} ± {facts['return_std']}, {facts['env_steps']} steps")
    workers.close()


if __name__ == "__main__":
    main()
