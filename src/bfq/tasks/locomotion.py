"""Running robots: episodes of Gaussian policies, and the datasets of D4RL's shape made from ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bfq.envs.robots import GYMNASIUM, MAX_STEPS, OLD_MASSES, ROBOTS, Robots
from bfq.tasks.catalog import MINI
from bfq.tasks.harness import Part, Recipe
from bfq.tasks.log import Log
from bfq.tasks.weights import Weights, load

Floats = npt.NDArray[np.float32]
MOST_EPISODES = 16  # of a block, which share each call of the policy
LEAST_EPISODES = 8  # of a block, where there are so many at all
BLOCKS = 64  # of a part, at least, where it is not small: enough to share out over many cores
MILLION = 1_000_000
REPLAY_SIZES = {
    "halfcheetah": 200_000,
    "hopper": 400_000,
    "walker2d": 300_000,
    "ant": 300_000,
}  # as D4RL's
SNAPSHOTS = 8
MINI_SIZE = 40_000  # five episodes of each snapshot
LEVELS = ("random", "medium-replay", "medium", "medium-expert", "expert")


@dataclass(frozen=True)
class Uniform:
    """Any action, uniformly."""

    action_dim: int

    def act(self, observations: Floats, rng: np.random.Generator) -> Floats:
        """Actions that do not look at anything."""
        return rng.uniform(-1.0, 1.0, (len(observations), self.action_dim)).astype(np.float32)


@dataclass(frozen=True)
class Episodes:
    """Whole episodes of a policy, its actions sampled."""

    robot: str
    policy: Weights | Uniform
    episodes: int
    old_masses: bool = False  # as heavy as when D4RL was made

    def __call__(self, seed: int, index: int) -> Log:
        """Block `index` of the data of this seed."""
        rng = np.random.default_rng([seed, index])
        seeds = rng.integers(0, 2**31 - 1, self.episodes).tolist()
        runners = Robots(self.robot, seeds, self.old_masses)
        rows: list[tuple[npt.NDArray[np.generic], ...]] = []
        observations = runners.observations
        while runners.running.any():
            was, qpos, qvel = runners.running.copy(), runners.qpos.copy(), runners.qvel.copy()
            # Every robot gets an action, also one that is done: sums in a product depend on its shape.
            actions = self.policy.act(observations, rng)
            step, seen = runners.step(actions), runners.observations
            rows.append(
                (
                    was,
                    observations,
                    actions,
                    step.rewards,
                    seen,
                    step.terminated,
                    step.truncated,
                    qpos,
                    qvel,
                )
            )
            observations = seen
        was, *columns = (
            np.stack(column, axis=1) for column in zip(*rows, strict=True)
        )  # (episodes, steps, …)
        ran = np.asarray(was, bool)
        observed, acted, rewards, following, fell, late, qpos, qvel = (
            column[ran] for column in columns
        )
        return Log(
            observed,
            acted,
            rewards.astype(np.float32),
            following,
            fell,
            late,
            {"qpos": qpos, "qvel": qvel},
        )


def recipe(name: str, size: int | None = None, seed: int = 0) -> Recipe:
    """What `local/ROBOT-LEVEL` is made of; `size` is the number of transitions in all."""
    robot, _, level = name.removeprefix("local/").partition("-")
    usual = {"medium-replay": REPLAY_SIZES[robot], "medium-expert": 2 * MILLION, "mini": MINI_SIZE}
    level = "medium-replay" if level == "mini" else level
    policies = behavior(robot, level)
    return rolled(
        name,
        robot,
        policies,
        usual.get(name.rpartition(f"{robot}-")[2], MILLION) if size is None else size,
        seed,
        f"rolled out here from bfq's own {level} policies of {GYMNASIUM[robot]}, sampled; not D4RL's data",
        {"policies": list(policies)},
    )


def rolled(
    name: str,
    robot: str,
    policies: Mapping[str, Weights | Uniform],
    size: int,
    seed: int,
    source: str,
    about: Mapping[str, object],
    old_masses: bool = False,
) -> Recipe:
    """Episodes of several policies one after the other, an equal share of the transitions each."""
    shares = np.diff(np.linspace(0, size, len(policies) + 1).astype(int)).tolist()
    parts = []
    for policy, share in zip(policies.values(), shares, strict=True):
        episodes = _episodes(share)
        block = Episodes(robot, policy, episodes, old_masses)
        parts.append(Part(block, share, episodes * MAX_STEPS))
    world = (OLD_MASSES if old_masses else GYMNASIUM)[robot]
    return Recipe(name, source, tuple(parts), seed, world, about)


def _episodes(size: int) -> int:
    """How many episodes make a block: by the part's size alone, since bytes must not depend on cores."""
    whole = -(-size // MAX_STEPS)
    return min(MOST_EPISODES, max(-(-whole // BLOCKS), min(LEAST_EPISODES, whole)))


def behavior(robot: str, level: str) -> Mapping[str, Weights | Uniform]:
    """The shipped policies behind a level, by file name."""
    if level == "random":
        return {
            "uniform actions": Uniform(
                {"halfcheetah": 6, "hopper": 3, "walker2d": 6, "ant": 8}[robot]
            )
        }
    names = {
        "medium": [f"{robot}-medium"],
        "expert": [f"{robot}-expert"],
        "medium-expert": [f"{robot}-medium", f"{robot}-expert"],
        "medium-replay": [f"{robot}-replay-{k:02d}" for k in range(SNAPSHOTS)],
    }[level]
    return {name: load(shipped(name)) for name in names}


def shipped(name: str) -> Path:
    """The weight file of a policy that comes with the package."""
    return Path(str(files("bfq.tasks") / "policies" / f"{name}.npz"))


NAMES = (*(f"local/{robot}-{level}" for robot in ROBOTS for level in LEVELS), MINI)
