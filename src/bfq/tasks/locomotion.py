"""Locomotion data: episodes of the policies that ship with bfq, or of policies in files."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, Floats
from bfq.data.readers import check_exists
from bfq.envs.robots import GYMNASIUM, MAX_STEPS, OLD_MASSES, ROBOTS, Robots
from bfq.errors import BadInput, unknown
from bfq.tasks.recipes import DataRecipe, RecipePart, block_data
from bfq.tasks.weights import GaussianPolicy, load_weights, read_stored_policy

MOST_EPISODES = 16  # in a block; they share each call of the policy
LEAST_EPISODES = 8  # in a block, unless the part has fewer
BLOCKS = 64  # in a part at least, unless it is small: enough to share among many cores
MILLION = 1_000_000
SNAPSHOTS = 8
SIZES = {  # transitions, as in D4RL; a million otherwise
    "halfcheetah-medium-replay": 200_000,
    "hopper-medium-replay": 400_000,
    "walker2d-medium-replay": 300_000,
    "ant-medium-replay": 300_000,
    "halfcheetah-mini": 40_000,  # five episodes of each snapshot
    **{f"{robot}-medium-expert": 2 * MILLION for robot in ROBOTS},
}
ACTIONS = {"halfcheetah": 6, "hopper": 3, "walker2d": 6, "ant": 8}  # motors
REROLLED, OLD = "rerolled/", "-old-masses"


@dataclass(frozen=True)
class UniformPolicy:
    """Uniformly random actions."""

    action_dim: int

    def act(self, observations: Floats, rng: np.random.Generator) -> Floats:
        """Draw an action for each observation."""
        return rng.uniform(-1.0, 1.0, (len(observations), self.action_dim)).astype(np.float32)


Policy = GaussianPolicy | UniformPolicy


@dataclass(frozen=True)
class LocomotionBlock:
    """Whole episodes of a policy with sampled actions: a function of (seed, index)."""

    simulator: str
    policy: Policy
    episodes: int

    def __call__(self, seed: int, index: int) -> Dataset:
        """Generate the block with this index."""
        rng = np.random.default_rng([seed, index])
        seeds = rng.integers(0, 2**31 - 1, self.episodes).tolist()
        robots = Robots(self.simulator, seeds, threads=1)
        rows: list[tuple[npt.NDArray[np.generic], ...]] = []
        observations = robots.reset()
        while robots.running.any():
            running, qpos, qvel = robots.running.copy(), robots.qpos.copy(), robots.qvel.copy()
            # Ended episodes get an action too: rounding in a matrix product depends on its shape.
            actions = self.policy.act(observations, rng)
            following, rewards, terminated, truncated = robots.step(actions)
            ended = terminated | truncated
            rows.append((
                running, observations, actions, rewards, following, ~terminated, ended, qpos, qvel,
            ))  # fmt: skip
            observations = following
        running, *columns = (np.stack(column, axis=1) for column in zip(*rows, strict=True))
        chosen = np.asarray(running, bool)  # (episodes, steps)
        *columns, ends, qpos, qvel = (column[chosen] for column in columns)
        return block_data(columns, ends, {"qpos": qpos, "qvel": qvel})


def locomotion_recipe(name: str, size: int | None = None, seed: int = 0) -> DataRecipe:
    """The recipe of `local/ROBOT-LEVEL`; `size` is the number of transitions in all."""
    key = name.removeprefix("local/")
    robot, _, level = key.partition("-")
    level = "medium-replay" if level == "mini" else level
    policies, simulator = behavior_policies(robot, level), GYMNASIUM[robot]
    source = (
        f"rolled out locally from bfq's {level} policies of {simulator}, sampled; not D4RL's data"
    )
    about = {"policies": list(policies)}
    size = SIZES.get(key, MILLION) if size is None else size
    return DataRecipe(name, source, _parts(simulator, policies, size), seed, simulator, about)


def _parts(simulator: str, policies: Mapping[str, Policy], size: int) -> tuple[RecipePart, ...]:
    """Episodes of several policies in sequence, each with an equal share of the transitions."""
    parts = []
    shares = np.diff(np.linspace(0, size, len(policies) + 1).astype(int)).tolist()
    for policy, share in zip(policies.values(), shares, strict=True):
        # Episodes in a block depend on the size alone, since data must not depend on cores.
        whole = -(-share // MAX_STEPS)
        episodes = min(MOST_EPISODES, max(-(-whole // BLOCKS), min(LEAST_EPISODES, whole)))
        block = LocomotionBlock(simulator, policy, episodes)
        parts.append(RecipePart(block, share, episodes * MAX_STEPS))
    return tuple(parts)


def behavior_policies(robot: str, level: str) -> Mapping[str, Policy]:
    """Load the policies of a level that ship with bfq, by file name."""
    if level == "random":
        return {"uniform actions": UniformPolicy(ACTIONS[robot])}
    names = {
        "medium": [f"{robot}-medium"],
        "expert": [f"{robot}-expert"],
        "medium-expert": [f"{robot}-medium", f"{robot}-expert"],
        "medium-replay": [f"{robot}-replay-{k:02d}" for k in range(SNAPSHOTS)],
    }[level]
    return {name: load_weights(policy_file(name)) for name in names}


def policy_file(name: str) -> Path:
    """Return the weight file of a policy that ships with bfq."""
    return Path(str(files("bfq.tasks") / "policies" / f"{name}.npz"))


def reroll_recipe(
    paths: Sequence[Path],
    name: str | None = None,
    robot: str | None = None,
    size: int | None = None,
    seed: int = 0,
    old_masses: bool = False,
) -> DataRecipe:
    """The recipe for policies in D4RL's files or weight files; a million transitions each."""
    if name is None and len(paths) > 1:
        raise BadInput("several policies give a dataset without a name: add --as NAME.")
    for path in paths:
        check_exists(path)
    policies = {
        path.name: load_weights(path) if path.suffix == ".npz" else read_stored_policy(path)
        for path in paths
    }
    file = paths[0].name
    robot = robot or next((known for known in ROBOTS if file.lower().startswith(known)), None)
    if robot is None:
        robots = ", ".join(ROBOTS)
        raise BadInput(f"the name of {file} does not begin with a robot: add --robot {robots}.")
    if robot not in ROBOTS:
        raise unknown("robot", robot, ROBOTS)
    for file, policy in policies.items():
        _check_policy(file, policy, robot)
    simulator = (OLD_MASSES if old_masses else GYMNASIUM)[robot]
    stem = paths[0].stem.replace("_", "-").removesuffix("-v2")
    listed = ", ".join(policies)
    return DataRecipe(
        name or f"{REROLLED}{stem}{OLD if old_masses else ''}",
        f"re-rolled in {simulator} from the policy in {listed}, sampled; not the data of that file",
        _parts(simulator, policies, size or MILLION * len(policies)),
        seed,
        simulator,
        {"policies": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}},
    )


def _check_policy(file: str, policy: GaussianPolicy, robot: str) -> None:
    robots = Robots(GYMNASIUM[robot], [0])
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            action = policy.act(robots.reset())
    except (ValueError, KeyError) as error:
        raise BadInput(f"the policy in {file} is not for the {robot}: {error}.") from error
    if action.shape != (1, robots.action_dim):
        raise BadInput(
            f"the policy in {file} moves {action.shape[1]} motors, the {robot} has {robots.action_dim}."
        )
    if not np.isfinite(action).all():
        raise BadInput(f"the policy in {file} returns NaN: its weights are too large.")
