"""D4RL's HDF5 files: one long log of rows, turned into transitions by D4RL's own rule.

Row i of N gives (obs[i], act[i], rew[i], obs[i+1], terminals[i]) for i = 0 … N−2, except rows with
timeouts[i], which have no logged successor. The published results follow this rule. (Later versions of D4RL
use next_observations if a file has them, which changes terminal rows only, and otherwise drop terminal rows,
which would remove every reward of AntMaze.)
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from bfq.data.arrays import from_arrays
from bfq.data.checks import Rows, as_flags, as_rows, check_lengths
from bfq.data.dataset import Arrays, Column, Dataset, Flags
from bfq.data.readers.binary import hdf5_names, read_hdf5
from bfq.errors import BadInput, counted
from bfq.files import write_bytes

NEEDED = ("observations", "actions", "rewards", "terminals")
COLUMNS = (*NEEDED, "timeouts", "next_observations", "action_low", "action_high")
ROUNDING = 2e-4  # beyond ±1: from_arrays accepts it as rounding
CLIPPED = 2.0  # D4RL's simulators clip actions to ±1, and logs of people reach beyond it
INFOS = "infos/"
STATE = ("qpos", "qvel")
SAME = 1e-6  # observations nearer than this are the same
MAZES = {"u-maze": "umaze", "big-maze": "medium", "hardest-maze": "large"}


def read_d4rl(
    path: Path, episode_steps: int | None = None, name: str | None = None, **limits: npt.ArrayLike
) -> Dataset:
    """Read the transitions of a D4RL file, row for row as D4RL forms them.

    A file without `timeouts` needs `episode_steps`, the length at which an episode is cut off. `limits` are
    action_low and action_high, if they are neither ±1 nor in the file.

    An episode ends at a terminal row, at the row before a time-out row, and at the last row: exactly where
    IQL finds an end by a terminal or by obs[i+1] ≠ next_obs[i]. AntMaze marks every row at the goal as
    terminal while the log continues, so each of these after the first is an episode of one row.
    """
    arrays = _arrays(path) | {bound: np.asarray(limit) for bound, limit in limits.items()}
    notes = list(_clip(arrays))
    terminal = as_flags("terminals", arrays["terminals"])
    timeouts = _timeouts(arrays, terminal, episode_steps, path.name)
    kept = np.flatnonzero(~timeouts[:-1])
    if len(kept) == 0:
        rows = counted(len(timeouts), "row")
        raise BadInput(f"{path.name} has {rows} and no transition: no row has a successor.")
    cut = np.append(timeouts[1:], False)  # the row before a dropped one is the last of its episode
    infos = _infos(arrays)
    unflagged = _unflagged_ends(arrays, _state(infos), kept[~terminal[kept]])
    notes += [*_repair_states(infos, arrays["observations"]), *_notes(terminal, kept, unflagged)]
    dataset = from_arrays(
        arrays["observations"][kept],
        arrays["actions"][kept],
        arrays["rewards"][kept],
        terminal[kept],
        (cut & ~terminal)[kept],
        arrays["observations"][kept + 1],
        infos={key: column[kept] for key, column in infos.items()},
        action_low=arrays.get("action_low", -1.0),
        action_high=arrays.get("action_high", 1.0),
        name=name or task_name(path),
        source=f"file {path.name} in D4RL's layout",
    )
    return replace(dataset, notes=(*notes, *dataset.notes))


def is_d4rl(path: Path) -> bool:
    """Whether a file has D4RL's arrays and one of its marks, so that D4RL's rule applies.

    A file with timeouts and next_observations but no infos or metadata is a plain table: it has all
    successors, so no row needs to be dropped.
    """
    try:
        names = set(hdf5_names(path))
    except BadInput:
        return False
    marked = any(name.startswith((INFOS, "metadata/")) for name in names)
    return names.issuperset(NEEDED) and (
        marked or ("timeouts" in names and "next_observations" not in names)
    )


def task_name(path: Path) -> str:
    """The task of a D4RL file, such as halfcheetah-medium-v2 for halfcheetah_medium-v2.hdf5."""
    maze = re.fullmatch(
        r"Ant_maze_(?P<maze>[a-z-]+)_noisy_multistart_(True|False)_multigoal_(?P<many>True|False)_sparse"
        r"(?P<fixed>_fixed)?",
        path.stem,
    )
    if not maze or maze["maze"] not in MAZES:
        return path.stem.replace("_", "-")
    kind = "-diverse" if maze["many"] == "True" else "-play"
    if maze["maze"] == "u-maze":  # its plain kind has no suffix
        kind = kind.removesuffix("-play")
    return f"antmaze-{MAZES[maze['maze']]}{kind}-{'v2' if maze['fixed'] else 'v0'}"


def write_d4rl(dataset: Dataset, path: Path) -> None:
    """Write a dataset as a file in D4RL's layout, atomically.

    Every row is written. D4RL's rule, and so `read_d4rl`, leaves out the rows that end in a time-out and the
    last row, although their next observations are in the file.
    """
    columns = {
        "observations": dataset.observations,
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        "next_observations": dataset.next_observations,
        "terminals": dataset.masks == 0,
        "timeouts": dataset.episode_ends & (dataset.masks == 1),
        "action_low": dataset.action_low,
        "action_high": dataset.action_high,
        **{INFOS + name: column for name, column in dataset.infos.items()},
    }
    image = BytesIO()
    with h5py.File(image, "w") as file:
        for name, column in columns.items():
            file[name] = column
    write_bytes(path, image.getvalue())


def _arrays(path: Path) -> Arrays:
    held = hdf5_names(path)
    infos = [name for name in held if name.startswith(INFOS)]
    arrays = read_hdf5(path, [*COLUMNS, *infos])
    for needed in NEEDED:
        if needed not in arrays:
            raise BadInput(
                f"{path.name} has no {needed}: it holds {', '.join(held[:12]) or 'nothing'}; a D4RL file has "
                f"{', '.join(NEEDED)}."
            )
    for name in {*NEEDED, "timeouts"} & arrays.keys():
        arrays[name] = as_rows(name, arrays[name])
    check_lengths({name: arrays[name] for name in (*NEEDED, "timeouts") if name in arrays})
    return arrays


def _clip(arrays: Arrays) -> Iterator[str]:
    """Clip actions a little beyond ±1, as D4RL's simulators do, unless the file has its own range."""
    actions = np.abs(arrays["actions"])
    most = float(actions.max(initial=0))
    if "action_low" in arrays or "action_high" in arrays or not 1 + ROUNDING < most < np.inf:
        return
    if most > CLIPPED:
        raise BadInput(
            f"actions reach {most:.4g}, but those of D4RL lie within ±1: store their true range in the file "
            "as action_low and action_high."
        )
    beyond = int((actions > 1 + ROUNDING).any(1).sum())
    arrays["actions"] = np.clip(arrays["actions"], -1.0, 1.0)
    yield f"Actions of {counted(beyond, 'row')}, up to ±{most:.3g}, were clipped to ±1, as D4RL's simulators do."


def _timeouts(arrays: Arrays, terminal: Flags, episode_steps: int | None, file: str) -> Flags:
    """The rows that end an episode by its length: by the file's own flags, or counted from its first row.

    (D4RL starts counting at 1 after a terminal, which cuts such episodes one row early and joins two of them.)
    """
    if "timeouts" in arrays:
        return as_flags("timeouts", arrays["timeouts"])
    if episode_steps is None or episode_steps < 1:
        raise BadInput(
            f"{file} has no timeouts: give episode_steps, the number of steps at which an episode is cut off."
        )
    rows = np.arange(len(terminal))
    begins = np.append(True, terminal[:-1])
    step = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return (step + 1) % episode_steps == 0


def _infos(arrays: Arrays) -> Arrays:
    """The extra columns with one row per step; qpos for infos/qpos."""
    return {
        key.removeprefix(INFOS): array
        for key, array in arrays.items()
        if key.startswith(INFOS)
        and array.shape[:1] == arrays["rewards"].shape
        and array.dtype.kind in "fiub"
        and key.removeprefix(INFOS).replace("_", "").isalnum()
    }


def _repair_states(infos: Arrays, observations: Column) -> Iterator[str]:
    """Make qpos and qvel the state before the action of each row, or leave them out."""
    state = _state(infos)
    if state is None:
        return
    moved = (observations[1:] != observations[:-1]).any(1)
    still = (state[1:] == state[:-1]).all(1)
    if moved.mean() > 0.5 and still[moved].mean() > 0.5:
        del infos["qpos"], infos["qvel"]
        yield "infos/qpos and infos/qvel were left out: they are constant while the observations change."
    elif _is_late(state, observations):
        shapes, cut = [infos[key].shape for key in STATE], infos["qpos"][0].size
        infos["qpos"] = observations[:, :cut].reshape(shapes[0])
        infos["qvel"] = observations[:, cut:].reshape(shapes[1])
        yield (
            "infos/qpos and infos/qvel are one row late in the file (the state after the action): they were "
            "taken from the observations, which contain the full state."
        )


def _state(infos: Arrays) -> Column | None:
    if not infos.keys() >= set(STATE):
        return None
    return np.concatenate([infos[key].reshape(len(infos[key]), -1) for key in STATE], axis=1)


def _is_late(state: Column, observations: Column) -> bool:
    """Whether row i holds the state of observation i + 1, as in AntMaze."""
    if state.shape != observations.shape:
        return False
    now, late = (state[:-1] == observations[:-1]).all(1), (state[:-1] == observations[1:]).all(1)
    return bool(late.mean() > 0.5 > now.mean())


def _unflagged_ends(arrays: Arrays, state: Column | None, rows: Rows) -> Rows:
    """Unflagged rows with a next observation that is not that of the row below."""
    observations = arrays["observations"]
    late = state if state is not None and _is_late(state, observations) else None
    after = arrays.get("next_observations", late)
    if after is None or after.shape != observations.shape or after.dtype.kind not in "fiub":
        return rows[:0]
    with np.errstate(invalid="ignore", over="ignore"):  # non-finite values are refused later
        return rows[np.abs(after[rows] - observations[rows + 1]).max(1) > SAME]


def _notes(terminal: Flags, kept: Rows, unflagged: Rows) -> Iterator[str]:
    yield (
        f"{len(kept)} of {len(terminal)} rows are transitions by D4RL's rule: "
        f"{counted(len(terminal) - 1 - len(kept), 'row')} with a time-out and the last row have no logged successor."
    )
    if len(unflagged):
        yield (
            f"Another episode begins after {counted(len(unflagged), 'row')} (first: row {unflagged[0]} of the file) "
            "that the file does not flag as ends; they are kept, as in D4RL."
        )
    repeated = int((terminal[kept] & terminal[kept - 1] & (kept > 0)).sum())
    if repeated:
        yield (
            f"Terminal rows right after another: {repeated}. The log continues past the goal, and each of them "
            "counts as an episode."
        )
