"""Checkpoints: safetensors and JSON, written atomically, verified on reading, the last few kept.

A checkpoint is a folder `step-000001000` with the state of all members and a note. It is written under
another name and renamed, so a folder with this name is complete; a hash detects later damage.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.numpy import load, save

from bfq.errors import BadInput, DiskTrouble, say
from bfq.files import write_bytes, write_json
from bfq.records import decode, read_text
from bfq.run import Numbers, json_numbers

Count = Annotated[int, Meta(ge=0)]
CHECKPOINTS, BEST = "checkpoints", "best"  # folders of a run


@dataclasses.dataclass(frozen=True)
class Clock:
    """Seconds spent in updates by all processes of a run, without compilation and evaluation."""

    train_seconds: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    steps: Count = 0

    def add(self, seconds: float, steps: int) -> "Clock":
        """The clock after some more updates."""
        return Clock(self.train_seconds + seconds, self.steps + steps)

    @property
    def microseconds_per_step(self) -> float:
        """Time of one update of the whole population."""
        return 1e6 * self.train_seconds / max(self.steps, 1)


@dataclasses.dataclass(frozen=True)
class MetricSums:
    """Sums of the metrics since the last row of metrics.jsonl, so that a row is the mean over its updates."""

    count: Count = 0
    sums: dict[str, Numbers] = dataclasses.field(default_factory=dict)

    def add(self, metrics: dict[str, npt.NDArray[Any]]) -> "MetricSums":
        """The sums after some more updates, from metrics of shape (updates, members)."""
        before = {name: np.asarray(total, np.float64) for name, total in self.sums.items()}
        sums = {
            name: json_numbers(before.get(name, 0.0) + values.astype(np.float64).sum(0))
            for name, values in metrics.items()
        }
        return MetricSums(self.count + len(next(iter(metrics.values()))), sums)

    @property
    def means(self) -> dict[str, Numbers]:
        """The mean of each member."""
        totals = {name: np.asarray(total, np.float64) for name, total in self.sums.items()}
        return {name: json_numbers(total / self.count) for name, total in totals.items()}


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a run is, besides its state: the size of metrics.jsonl, the unfinished row, the clock."""

    metrics_bytes: Count = 0
    means: MetricSums = MetricSums()
    clock: Clock = Clock()


START = Position()


class Checkpoint(NamedTuple):
    """The state of all members after some updates."""

    step: int
    states: Any
    position: Position = START


@dataclasses.dataclass(frozen=True)
class CheckpointNote:
    """The content of note.json."""

    step: Count
    sha256: str
    position: Position


def _named(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _hash(content: bytes, step: int, position: Position) -> str:
    note = json.dumps([step, dataclasses.asdict(position)], sort_keys=True)
    return hashlib.sha256(content + note.encode()).hexdigest()


def checkpoint_folders(checkpoints: Path) -> list[Path]:
    """All checkpoints, newest first."""
    return sorted(checkpoints.glob("step-*"), reverse=True)


def save_checkpoint(
    checkpoints: Path, step: int, states: Any, position: Position = START, keep: int = 2
) -> None:
    """Write the checkpoint of a step, and remove all but the last `keep`."""
    final = checkpoints / f"step-{step:09d}"
    part = checkpoints / f".part-{step:09d}"
    content = save({name: np.asarray(leaf, order="C") for name, leaf in _named(states).items()})
    note = CheckpointNote(step, _hash(content, step, position), position)
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        for old in [*checkpoints.glob(".part-*"), *([final] if final.exists() else [])]:
            shutil.rmtree(old)
        part.mkdir()
        write_bytes(part / "state.safetensors", content)
        write_json(part / "note.json", dataclasses.asdict(note))
        os.rename(part, final)
    except (OSError, DiskTrouble) as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(part, ignore_errors=True)
        kept = [folder.name for folder in checkpoint_folders(checkpoints)]
        left = f"{kept[0]} is kept" if kept else "there is no earlier checkpoint"
        raise DiskTrouble(
            f"the checkpoint of step {step} was not saved ({error}); {left}."
        ) from error
    for old in checkpoint_folders(checkpoints)[keep:]:
        shutil.rmtree(old, ignore_errors=True)


def read_checkpoint(folder: Path, like: Any) -> Checkpoint:
    """Read and verify a checkpoint whose states have the shapes of `like`."""
    note = decode(read_text(folder / "note.json"), CheckpointNote, str(folder / "note.json"))
    content = read_text(folder / "state.safetensors")
    expected = _hash(content, note.step, note.position)
    if expected != note.sha256 or folder.name != f"step-{note.step:09d}":
        raise BadInput(f"the checkpoint {folder} is damaged: its content does not match its hash.")
    try:
        arrays = load(content)
    except (SafetensorError, KeyError) as error:  # KeyError: an unknown type
        raise BadInput(f"the checkpoint {folder} is damaged: {error}.") from error
    wanted = _named(like)
    if wanted.keys() != arrays.keys() or any(
        arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype
        for name, leaf in wanted.items()
    ):
        raise BadInput(f"the checkpoint {folder} does not fit the configuration in config.json.")
    leaves = [jax.numpy.asarray(arrays[name]) for name in wanted]
    _check_position(note, len(leaves[0]), folder)
    states = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return Checkpoint(note.step, states, note.position)


def _check_position(note: CheckpointNote, members: int, folder: Path) -> None:
    """Check what the types of the note do not express."""
    means, clock = note.position.means, note.position.clock
    counts_fit = max(means.count, clock.steps) <= note.step
    if not counts_fit or any(len(row) != members for row in means.sums.values()):
        raise BadInput(f"the checkpoint {folder} is damaged: its note contradicts its state.")


def latest_checkpoint(checkpoints: Path, like: Any) -> Checkpoint | None:
    """The newest usable checkpoint, or None; each damaged one is reported."""
    folders = checkpoint_folders(checkpoints)
    for folder in folders:
        try:
            return read_checkpoint(folder, like)
        except BadInput as error:
            say(f"{error} Trying the previous one.")
    if folders:
        raise BadInput(
            f"no checkpoint in {checkpoints} can be used: remove that folder to start over."
        )
    return None
