"""OGBench's files: trajectories of states, read as the transitions and rewards of one fixed task.

A trajectory of n + 1 states gives n transitions: the last state is only ever a next one, and the action
stored with it is dropped. Success does not stop a trajectory, so a mask may be 0 in the middle of an episode.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, from_arrays
from bfq.data.relabel import RewardOn, World, relabel, world_and_goal
from bfq.errors import BadInput

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
