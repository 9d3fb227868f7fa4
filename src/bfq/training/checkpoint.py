"""Checkpoints: safetensors and JSON, atomic, checked on reading, the last few kept.

A checkpoint is a folder `step-000001000` with the members' state and a note that holds the state's hash.
It is written under another name and renamed, so a folder with the right name is whole; a hash guards
against what the disk does later.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from bfq.errors import BadInput, DiskTrouble
from bfq.files import check_regular, read_json, write_bytes, write_json

Say = Callable[[str], None]


class Checkpoint(NamedTuple):
    """A state and what goes with it."""

    step: int
    states: Any
    extra: dict[str, Any]


def _named(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _fingerprint(content: bytes, step: int, extra: dict[str, Any]) -> str:
    """A hash of the state and of what goes with it."""
    return hashlib.sha256(content + json.dumps([step, extra], sort_keys=True).encode()).hexdigest()


def folders(checkpoints: Path) -> list[Path]:
    """The checkpoints there are, newest first."""
    return sorted(checkpoints.glob("step-*"), reverse=True)


def save_checkpoint(
    checkpoints: Path, step: int, states: Any, extra: dict[str, Any], keep: int
) -> Path:
    """Writes the checkpoint of a step and removes all but the last `keep`."""
    final = checkpoints / f"step-{step:09d}"
    part = checkpoints / f".part-{step:09d}"
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _named(states).items()}
    content = save(arrays)
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        for old in [*checkpoints.glob(".part-*"), *([final] if final.exists() else [])]:
            shutil.rmtree(old)
        part.mkdir()
        write_bytes(part / "state.safetensors", content)
        write_json(
            part / "note.json",
            {"step": step, "sha256": _fingerprint(content, step, extra), "extra": extra},
        )
        os.rename(part, final)
    except (OSError, DiskTrouble) as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(part, ignore_errors=True)
        kept = folders(checkpoints)
        stands = f"the one before, {kept[0].name}, stands" if kept else "there is none before it"
        raise DiskTrouble(
            f"the checkpoint of step {step} was not saved ({error}); {stands}."
        ) from error
    for old in folders(checkpoints)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def read_checkpoint(folder: Path, like: Any) -> Checkpoint:
    """The checkpoint of a folder, in the shape of `like`, or a sentence saying why it cannot be used."""
    note = read_json(folder / "note.json")
    check_regular(folder / "state.safetensors")
    try:
        content = (folder / "state.safetensors").read_bytes()
        step, sha256, extra = int(note["step"]), note["sha256"], dict(note["extra"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the checkpoint {folder} is incomplete: {error!r}.") from error
    if _fingerprint(content, step, extra) != sha256 or folder.name != f"step-{step:09d}":
        raise BadInput(f"the checkpoint {folder} is damaged: its content does not match its hash.")
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise BadInput(f"the checkpoint {folder} is damaged: {error}.") from error
    states = _shaped(arrays, like, folder)
    if not _usable(extra, step, states):
        raise BadInput(
            f"the checkpoint {folder} is damaged: its note does not tell where the run stood."
        )
    return Checkpoint(step, states, extra)


LARGEST = float(np.finfo(np.float64).max)


def _usable(extra: dict[str, Any], step: int, states: Any) -> bool:
    """Whether a run could go on from what goes with the state, if anything does."""
    if not extra:
        return True
    try:
        means, clock = extra["means"], extra["clock"]
        members = len(jax.tree.leaves(states)[0])
        return (
            _is_number(extra["metrics_bytes"], int)
            and _is_number(means["count"], int, most=step)
            and all(_is_row(row, members) for row in means["sums"].values())
            and _is_number(clock["train_seconds"], int | float)
            and _is_number(clock["steps"], int, least=1, most=step)
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _is_row(row: Any, members: int) -> bool:
    """Whether it is a list of one number a member; null is for what is not finite."""
    whole = isinstance(row, list) and len(row) == members
    return whole and all(value is None or _is_number(value, int | float, -LARGEST) for value in row)


def _is_number(value: Any, kind: Any, least: float = 0, most: float = LARGEST) -> bool:
    """Whether it is a number of that kind within its bounds; yes and no are none."""
    return isinstance(value, kind) and not isinstance(value, bool) and bool(least <= value <= most)


def _stacked(
    arrays: dict[str, npt.NDArray[Any]], wanted: dict[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays under today's names: the two embeddings of a velocity were once kept apart."""
    for name in set(wanted) - set(arrays):
        before = [name.replace(".embed.", f".embed_{time}.") for time in "tr"]
        if all(old in arrays for old in before):
            arrays = {**arrays, name: np.stack([arrays[old] for old in before], axis=1)}
            arrays = {old: array for old, array in arrays.items() if old not in before}
    return arrays


def _shaped(arrays: dict[str, npt.NDArray[Any]], like: Any, folder: Path) -> Any:
    wanted = _named(like)
    arrays = _stacked(arrays, wanted)
    fits = wanted.keys() == arrays.keys() and all(
        arrays[name].shape == leaf.shape and arrays[name].dtype == leaf.dtype
        for name, leaf in wanted.items()
    )
    if not fits:
        raise BadInput(
            f"the checkpoint {folder} is of another configuration than the run's config.json."
        )
    return jax.tree.unflatten(
        jax.tree.structure(like), [jax.numpy.asarray(arrays[name]) for name in wanted]
    )


def latest_checkpoint(checkpoints: Path, like: Any, say: Say) -> Checkpoint | None:
    """The newest checkpoint that can be used; each one that cannot is said. None where there is none."""
    candidates = folders(checkpoints)
    for folder in candidates:
        try:
            return read_checkpoint(folder, like)
        except BadInput as error:
            say(f"{error} Trying the one before.")
    if candidates:
        raise BadInput(
            f"no checkpoint in {checkpoints} can be used: remove that folder to begin anew."
        )
    return None
