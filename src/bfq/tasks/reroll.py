"""Data rolled out anew from policies that others trained: those inside D4RL's files, or weight files."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bfq.envs.robots import GYMNASIUM, OLD_MASSES, ROBOTS, Robots
from bfq.errors import BadInput, unknown
from bfq.tasks import weights
from bfq.tasks.harness import Recipe
from bfq.tasks.locomotion import MILLION, rolled
from bfq.tasks.stored_policy import stored_policy
from bfq.tasks.weights import Weights

PREFIX, SUFFIX = "rerolled/", "-old-masses"


def recipe(
    paths: Sequence[Path],
    name: str | None = None,
    robot: str | None = None,
    size: int | None = None,
    seed: int = 0,
    old_masses: bool = False,
) -> Recipe:
    """Episodes of the policies in these files, an equal share each; usually a million transitions each."""
    if name is None and len(paths) > 1:
        raise BadInput("several policies make a set of their own: name it with --as.")
    policies = {path.name: _policy(path) for path in paths}
    robot = robot or _robot(paths[0])
    if robot not in ROBOTS:
        raise unknown("robot", robot, ROBOTS)
    for file, policy in policies.items():
        _check(file, policy, robot)
    world = (OLD_MASSES if old_masses else GYMNASIUM)[robot]
    usual = (
        PREFIX
        + paths[0].stem.replace("_", "-").removesuffix("-v2")
        + (SUFFIX if old_masses else "")
    )
    return rolled(
        name or usual,
        robot,
        policies,
        size or MILLION * len(policies),
        seed,
        f"re-rolled in {world} from the policy in {', '.join(policies)}, sampled; not the data of that file",
        {"policies": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}},
        old_masses,
    )


def _policy(path: Path) -> Weights:
    if not path.is_file():
        raise BadInput(f"there is no file {path}.")
    return weights.load(path) if path.suffix == ".npz" else stored_policy(path)


def _robot(path: Path) -> str:
    for robot in ROBOTS:
        if path.name.lower().startswith(robot):
            return robot
    raise BadInput(
        f"the name of {path.name} does not tell its robot: add --robot {', '.join(ROBOTS)}."
    )


def _check(file: str, policy: Weights, robot: str) -> None:
    runners = Robots(robot, [0])
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            action = policy.act(runners.observations)
    except (ValueError, KeyError) as error:
        raise BadInput(f"the policy in {file} is not one for the {robot}: {error}.") from error
    if action.shape != (1, runners.action_dim):
        raise BadInput(
            f"the policy in {file} moves {action.shape[1]} motors, the {robot} has {runners.action_dim}."
        )
    if not np.isfinite(action).all():
        raise BadInput(
            f"the policy in {file} gives actions that are no numbers: its weights are too large."
        )
