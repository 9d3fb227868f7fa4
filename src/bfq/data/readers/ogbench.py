"""Rewards for one fixed task of OGBench, worked out from logged simulator states alone.

A goal has parts, each of which holds in a state or does not:
reward = (parts that hold) − (parts), mask = 0 where all hold.

OGBench's files: trajectories of states, read as the transitions and rewards of one fixed task.

A trajectory of n + 1 states gives n transitions: the last state is only ever a next one, and the action
stored with it is dropped. Success does not stop a trajectory, so a mask may be 0 in the middle of an episode.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, from_arrays
from bfq.errors import BadInput, unknown

States = npt.NDArray[np.floating]
RewardOn = Literal["state", "next_state"]
CELL, OFFSET = 4.0, 4.0  # side of a maze's cell, and how far its first corner lies from the origin
CUBE = 14  # where the cube's position begins in qpos, after the arm's six and the gripper's eight joints
DRAWER, WINDOW = 23, 24  # after the cube's pose and the two buttons
NEAR = 0.04  # meters

_Point = tuple[float, ...]


class Goal(NamedTuple):
    """What must hold in a state."""

    start: int  # a point of qpos, from here on …
    point: _Point  # … lies at this place,
    tolerance: float  # or so far from it
    buttons: tuple[int, ...] = ()  # the buttons are in these states
    joints: tuple[tuple[int, float], ...] = ()  # these numbers of qpos have these values, to NEAR


class World(NamedTuple):
    """What the files of one world look like, and its five tasks, of which one is meant by default."""

    observation: int  # numbers in an observation
    qpos: int  # … and in a simulator state
    goals: tuple[Goal, ...]
    default: int


_CELLS = {  # the goals' (row, column)
    "medium": ((6, 6), (1, 6), (4, 2), (6, 1), (1, 1)),
    "large": ((7, 10), (7, 1), (1, 10), (5, 4), (5, 4)),
    "giant": ((10, 14), (10, 1), (1, 1), (5, 12), (3, 8)),
    "teleport": ((7, 1), (7, 10), (7, 10), (7, 10), (7, 1)),
}
_BODIES = {"pointmaze": (2, 2, 1.0), "antmaze": (29, 15, 0.5), "humanoidmaze": (69, 28, 0.5)}
_CUBE_PLACES = ((0.425, -0.1), (0.5, 0.0), (0.35, 0.0), (0.5, 0.2), (0.5, -0.2))
_SCENES = (  # cube, buttons, drawer, window
    ((0.35, 0.05, 0.02), (1, 1), -0.16, 0.2),
    ((0.35, -0.05, 0.02), (0, 0), 0.0, 0.0),
    ((0.4, 0.15, 0.02), (1, 1), -0.16, 0.0),
    ((0.33, -0.356, 0.065986), (1, 0), 0.0, 0.0),
    ((0.33, -0.356, 0.065986), (0, 0), 0.0, 0.2),
)


def _maze(body: str, size: str) -> World:
    observation, qpos, tolerance = _BODIES[body]
    places = [(column * CELL - OFFSET, row * CELL - OFFSET) for row, column in _CELLS[size]]
    return World(observation, qpos, tuple(Goal(0, place, tolerance) for place in places), 1)


WORLDS = {f"{body}-{size}": _maze(body, size) for body in _BODIES for size in _CELLS} | {
    "cube-single": World(
        28, 21, tuple(Goal(CUBE, (*place, 0.02), NEAR) for place in _CUBE_PLACES), 2
    ),
    "scene": World(
        40,
        25,
        tuple(
            Goal(CUBE, cube, NEAR, buttons, ((DRAWER, drawer), (WINDOW, window)))
            for cube, buttons, drawer, window in _SCENES
        ),
        2,
    ),
}
_TASK = re.compile(
    r"(.+?)(?:-(?:navigate|stitch|explore|play|noisy))?-singletask(?:-task([1-5]))?-v0"
)


def world_and_goal(task: str) -> tuple[World, Goal]:
    """Of a name such as antmaze-large-navigate-singletask-v0 or cube-single-singletask-task2-v0."""
    match = _TASK.fullmatch(task)
    if match is None:
        raise BadInput(
            f"{task!r} is no single task of OGBench, such as cube-single-play-singletask-task2-v0."
        )
    if match[1] not in WORLDS:
        raise unknown("world of OGBench", match[1], WORLDS)
    world = WORLDS[match[1]]
    return world, world.goals[int(match[2] or world.default) - 1]


def relabel(
    goal: Goal, qpos: States, buttons: npt.NDArray[np.generic] | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(rewards, masks), one of each for every state."""
    point = qpos[:, goal.start : goal.start + len(goal.point)]
    parts = [np.linalg.norm(point - np.array(goal.point), axis=-1) <= goal.tolerance]
    parts += [np.abs(qpos[:, index] - value) <= NEAR for index, value in goal.joints]
    if goal.buttons:
        if buttons is None or buttons.shape[1] != len(goal.buttons):
            raise BadInput(
                "a scene's reward needs button_states, one column for each of its two buttons."
            )
        parts += [buttons[:, k] == state for k, state in enumerate(goal.buttons)]
    held = np.sum(parts, axis=0)
    return (held - len(parts)).astype(np.float32), (held < len(parts)).astype(np.float32)


NEEDED = ("observations", "actions", "terminals", "qpos", "qvel")
Arrays = dict[str, npt.NDArray[Any]]
CONVENTIONS = {
    "state": "Rewards and masks are of the state before the action, as OGBench's own loader has them.",
    "next_state": "Rewards and masks are of the state after the action, as a world of OGBench 1.1 pays them.",
}


def read(path: Path, task: str, reward_on: RewardOn = "state") -> Dataset:
    """The transitions of a file of OGBench, with the rewards and masks of one of its tasks."""
    if reward_on not in CONVENTIONS:
        raise BadInput(f"rewards are of the 'state' or of the 'next_state', not of {reward_on!r}.")
    world, goal = world_and_goal(task)
    arrays = _arrays(path)
    _check(arrays, world, path.name, task)
    last = arrays["terminals"].astype(bool)
    rows = np.flatnonzero(~last)
    rewards, masks = relabel(goal, arrays["qpos"], arrays.get("button_states"))
    judged = rows if reward_on == "state" else rows + 1
    dataset = from_arrays(
        arrays["observations"][rows],
        arrays["actions"][rows],
        rewards[judged],
        timeouts=last[rows + 1],
        next_observations=arrays["observations"][rows + 1],
        infos={
            name: arrays[name][rows] for name in ("qpos", "qvel", "button_states") if name in arrays
        },
        name=task,
        source=f"OGBench's file {path.name}, rewards of {task} on the {reward_on.replace('_', ' ')}",
    )
    return dataclasses.replace(
        dataset, masks=masks[judged], notes=(*dataset.notes, CONVENTIONS[reward_on])
    )


def _arrays(path: Path) -> Arrays:
    """The arrays we know by name; others are not even unpacked, and nothing is executed."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = [name for name in (*NEEDED, "button_states") if name in archive]
            held = list(archive)
            arrays = {name: archive[name] for name in names}
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}.") from None
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        raise BadInput(
            f"{path.name} is not a readable npz file of plain arrays: {error}"
        ) from error
    missing = [name for name in NEEDED if name not in arrays]
    if missing or "next_observations" in held:
        raise BadInput(
            f"{path.name} is not laid out as OGBench's files are: it holds {', '.join(held) or 'nothing'}, "
            f"and {', '.join(NEEDED)} are wanted, with one state more than transitions in every trajectory."
        )
    return arrays


def _check(arrays: Arrays, world: World, file: str, task: str) -> None:
    size = len(arrays["terminals"]) if arrays["terminals"].ndim == 1 else 0
    for name, array in arrays.items():
        if array.ndim != (1 if name == "terminals" else 2) or len(array) != size:
            raise BadInput(
                f"{name} in {file} have shape {array.shape}, where one row a state is needed."
            )
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise BadInput(f"{name} in {file} hold something other than finite numbers.")
    seen, state = arrays["observations"].shape[1], arrays["qpos"].shape[1]
    if (seen, state) != (world.observation, world.qpos):
        raise BadInput(
            f"{file} has {seen} numbers an observation and {state} a simulator state, but {task} has "
            f"{world.observation} and {world.qpos}: it is a file of another world."
        )
    if not np.isin(arrays["terminals"], (0, 1)).all() or not arrays["terminals"][-1:].any():
        raise BadInput(
            f"the last row of {file} does not end a trajectory: the file is cut off or damaged."
        )
