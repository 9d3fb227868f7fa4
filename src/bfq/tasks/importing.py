"""Any file of transitions, recognized by what is in it; and several of them into one dataset kept here."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.data.published import REMOTES, remotes_for
from bfq.data.readers import d4rl, minari, ogbench
from bfq.data.readers.hdf5 import ENDINGS
from bfq.data.readers.tables import read_table
from bfq.data.store import dataset_folder
from bfq.errors import BadInput
from bfq.tasks.catalog import PUBLISHED, SIZES, TASKS, Task

OURS = ("local/", "rerolled/")


def read_any(
    path: Path,
    task: Task | None = None,
    mapping: Mapping[str, str] | None = None,
    reward_on: Literal["state", "next_state"] = "state",
    **bounds: Any,
) -> Dataset:
    """The dataset in a file (npz, CSV, Parquet, HDF5), in a folder of a store, or of Minari by folder or id.

    `task` says what a published file is to be read as; without it, the file's own marks decide. `reward_on`
    is for OGBench: whether the state before the action earns the reward, or the one after.
    """
    if path.is_dir():
        return store.load(path) if store.exists(path) else minari.read(path)
    if not path.exists() and not path.suffix:
        return minari.read(minari.find(str(path)))
    if task is not None and task.family == "ogbench":
        return ogbench.read(path, task.like, reward_on)
    if path.suffix in ENDINGS and not mapping and (task is not None or d4rl.is_d4rl(path)):
        return d4rl.read(path, task.episode_steps if task else None)
    return read_table(path, mapping, **bounds)


def _check_sizes(piece: Dataset, task: Task | None) -> None:
    """Refuses data that cannot be a published task's."""
    sizes = (piece.observation_dim, piece.action_dim)
    wanted = SIZES.get(task.name.split("-")[0], sizes) if task else sizes
    if sizes != wanted:
        raise BadInput(
            f"{piece.name} has {sizes[0]} observations and {sizes[1]} actions, but such a task has "
            f"{wanted[0]} and {wanted[1]}: choose another --as."
        )


def _check_name(path: Path, task: Task | None) -> None:
    """Refuses a file of D4RL's that bears the name of another task."""
    own = d4rl.task_name(path)
    if task is not None and own != task.name and own in {remote.name for remote in REMOTES}:
        raise BadInput(
            f"{path.name} is by its name of {own} and not of {task.name}: choose another --as."
        )


def _is_published(paths: Sequence[Path], task: Task | None) -> bool | None:
    """Whether these are a task's published files, by their SHA-256; None where none is published."""
    try:
        known = {remote.sha256 for remote in remotes_for(task.name)} if task else {None}
    except BadInput:  # nobody tells where the files of this task are
        return None
    if None in known or not all(path.is_file() for path in paths):
        return None
    return {_sha256(path) for path in paths} <= known


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_target(
    name: str, task: Task | None, paths: Sequence[Path], mapping: Mapping[str, str] | None
) -> None:
    """Reserve the names of built-in tasks for the data they were published with."""
    if name.startswith(OURS) or (task is not None and name not in PUBLISHED):
        raise BadInput(f"{name} is reserved for data that bfq generates: choose another --as.")
    if task is None:
        return
    endings = (".npz",) if task.family == "ogbench" else ENDINGS
    if mapping or not all(path.suffix in endings for path in paths):
        raise BadInput(
            f"{name} is a built-in task, for its published files ({', '.join(endings)}) only: "
            "choose another --as."
        )


def import_files(
    paths: Sequence[Path],
    name: str,
    mapping: Mapping[str, str] | None = None,
    replace: bool = False,
    **settings: Any,
) -> Dataset:
    """Reads files one after the other, each in memory alone, into a dataset kept under `name`."""
    folder, task = dataset_folder(name), TASKS.get(name)
    _check_target(name, task, paths, mapping)
    if store.exists(folder) and not replace:
        raise BadInput(f"there is a dataset {name} already: add --replace, or choose another --as.")
    notes: dict[str, None] = {}
    with store.Writer(folder, replace=replace) as writer:
        for path in paths:
            _check_name(path, task)
            piece = read_any(path, task, mapping, **settings)
            _check_sizes(piece, task)
            notes.update(dict.fromkeys(piece.notes))
            writer.append(piece)
        source = (
            piece.source
            if len(paths) == 1
            else f"{len(paths)} files, {paths[0].name} to {paths[-1].name}"
        )
        published = _is_published(paths, task)
        if published is False:
            notes[f"Not the file that is published as {name}: its SHA-256 is another."] = None
        told = {"files": [path.name for path in paths], "published": published}
        return writer.finish(name, source, tuple(notes), told)
