"""OGBench's files: trajectories of states, read as transitions with the rewards of one fixed task.

Rewards are computed from logged simulator states. A goal has conditions:
reward = (conditions met) − (conditions), mask = 0 where all are met.

A trajectory of n + 1 states gives n transitions: the last state is only a next one, and the action stored
with it is dropped. Success does not stop a trajectory, so a mask may be 0 in the middle of an episode.
"""

import dataclasses
import re
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.arrays import from_arrays
from bfq.data.dataset import Arrays, Dataset
from bfq.data.readers.binary import open_npz
from bfq.errors import BadInput, unknown

States = npt.NDArray[np.floating]
RewardOn = Literal["state", "next_state"]
CELL, OFFSET = 4.0, 4.0  # side of a maze cell, and distance of its first corner from the origin
CUBE = 14  # index of the cube's position in qpos, after 6 joints of the arm and 8 of the gripper
DRAWER, WINDOW = 23, 24  # after the pose of the cube and the two buttons
NEAR = 0.04  # meters

_Point = tuple[float, ...]


class Goal(NamedTuple):
    """The conditions that a state must meet."""

    start: int  # qpos from this index on …
    point: _Point  # … is at this point,
    tolerance: float  # up to this distance
    buttons: tuple[int, ...] = ()  # states of the buttons
    joints: tuple[tuple[int, float], ...] = ()  # indices of qpos and their values, up to NEAR


class OgbenchLayout(NamedTuple):
    """The shapes in the files of one environment, and its five tasks with the default one."""

    observation: int  # numbers in an observation
    qpos: int  # numbers in a simulator state
    goals: tuple[Goal, ...]
    default: int


_CELLS = {  # the goals' (row, column)
    "medium": ((6, 6), (1, 6), (4, 2), (6, 1), (1, 1)),
    "large": ((7, 10), (7, 1), (1, 10), (5, 4), (5, 4)),
    "giant": ((10, 14), (10, 1), (1, 1), (5, 12), (3, 8)),
    "teleport": ((7, 1), (7, 10), (7, 10), (7, 10), (7, 1)),
}
_BODIES = {"pointmaze": (2, 2, 1.0), "antmaze": (29, 15, 0.5), "humanoidmaze": (69, 28, 0.5)}
_CUBES = tuple(
    Goal(CUBE, (x, y, 0.02), NEAR)
    for x, y in ((0.425, -0.1), (0.5, 0.0), (0.35, 0.0), (0.5, 0.2), (0.5, -0.2))
)
_SCENES = tuple(
    Goal(CUBE, cube, NEAR, buttons, ((DRAWER, drawer), (WINDOW, window)))
    for cube, buttons, drawer, window in (
        ((0.35, 0.05, 0.02), (1, 1), -0.16, 0.2),
        ((0.35, -0.05, 0.02), (0, 0), 0.0, 0.0),
        ((0.4, 0.15, 0.02), (1, 1), -0.16, 0.0),
        ((0.33, -0.356, 0.065986), (1, 0), 0.0, 0.0),
        ((0.33, -0.356, 0.065986), (0, 0), 0.0, 0.2),
    )
)


def _maze(body: str, size: str) -> OgbenchLayout:
    observation, qpos, tolerance = _BODIES[body]
    places = [(column * CELL - OFFSET, row * CELL - OFFSET) for row, column in _CELLS[size]]
    return OgbenchLayout(observation, qpos, tuple(Goal(0, place, tolerance) for place in places), 1)


LAYOUTS = {f"{body}-{size}": _maze(body, size) for body in _BODIES for size in _CELLS} | {
    "cube-single": OgbenchLayout(28, 21, _CUBES, 2),
    "scene": OgbenchLayout(40, 25, _SCENES, 2),
}
_TASK = re.compile(
    r"(.+?)(?:-(?:navigate|stitch|explore|play|noisy))?-singletask(?:-task([1-5]))?-v0"
)


def layout_and_goal(task: str) -> tuple[OgbenchLayout, Goal]:
    """The layout and goal of a task such as antmaze-large-navigate-singletask-v0."""
    match = _TASK.fullmatch(task)
    if match is None:
        raise BadInput(
            f"{task!r} is not a single task of OGBench, such as cube-single-play-singletask-task2-v0."
        )
    if match[1] not in LAYOUTS:
        raise unknown("environment of OGBench", match[1], LAYOUTS)
    layout = LAYOUTS[match[1]]
    return layout, layout.goals[int(match[2] or layout.default) - 1]


def relabel(
    goal: Goal, qpos: States, buttons: npt.NDArray[np.generic] | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(rewards, masks) of every state."""
    point = qpos[:, goal.start : goal.start + len(goal.point)]
    parts = [np.linalg.norm(point - np.array(goal.point), axis=-1) <= goal.tolerance]
    parts += [np.abs(qpos[:, index] - value) <= NEAR for index, value in goal.joints]
    if goal.buttons:
        if buttons is None or buttons.shape[1] != len(goal.buttons):
            raise BadInput("rewards of a scene need button_states with one column per button.")
        parts += [buttons[:, k] == state for k, state in enumerate(goal.buttons)]
    held = np.sum(parts, axis=0)
    return (held - len(parts)).astype(np.float32), (held < len(parts)).astype(np.float32)


NEEDED = ("observations", "actions", "terminals", "qpos", "qvel")
INFOS = ("qpos", "qvel", "button_states")
CONVENTIONS = {
    "state": "Rewards and masks belong to the state before the action, as in OGBench's own loader.",
    "next_state": "Rewards and masks belong to the state after the action, as in OGBench 1.1.",
}


def read_ogbench(path: Path, task: str, reward_on: RewardOn = "state") -> Dataset:
    """Read the transitions of an OGBench file, with the rewards and masks of one of its tasks."""
    if reward_on not in CONVENTIONS:
        raise BadInput(f"rewards belong to 'state' or to 'next_state', not to {reward_on!r}.")
    layout, goal = layout_and_goal(task)
    arrays = _arrays(path)
    _check(arrays, layout, path.name, task)
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
        infos={name: arrays[name][rows] for name in INFOS if name in arrays},
        name=task,
        source=f"OGBench's file {path.name}, rewards of {task} on the {reward_on.replace('_', ' ')}",
    )
    return dataclasses.replace(
        dataset, masks=masks[judged], notes=(*dataset.notes, CONVENTIONS[reward_on])
    )


def _arrays(path: Path) -> Arrays:
    """The arrays with known names; others are not unpacked, and nothing is executed."""
    with open_npz(path) as table:
        held = table.names
        arrays = table.read([name for name in dict.fromkeys((*NEEDED, *INFOS)) if name in held])
    missing = [name for name in NEEDED if name not in arrays]
    if missing or "next_observations" in held:
        raise BadInput(
            f"{path.name} does not have the layout of OGBench's files: it holds {', '.join(held) or 'nothing'}, "
            f"but needs {', '.join(NEEDED)}, with one more state than transitions in every trajectory."
        )
    return arrays


def _check(arrays: Arrays, layout: OgbenchLayout, file: str, task: str) -> None:
    size = len(arrays["terminals"]) if arrays["terminals"].ndim == 1 else 0
    for name, array in arrays.items():
        if array.ndim != (1 if name == "terminals" else 2) or len(array) != size:
            raise BadInput(f"{name} in {file} have shape {array.shape}, not one row per state.")
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise BadInput(f"{name} in {file} hold something other than finite numbers.")
    seen, state = arrays["observations"].shape[1], arrays["qpos"].shape[1]
    if (seen, state) != (layout.observation, layout.qpos):
        raise BadInput(
            f"{file} has {seen} numbers per observation and {state} per simulator state, but {task} has "
            f"{layout.observation} and {layout.qpos}: it is a file of another environment."
        )
    if not np.isin(arrays["terminals"], (0, 1)).all() or not arrays["terminals"][-1:].any():
        raise BadInput(f"the last row of {file} does not end a trajectory: it is truncated.")
