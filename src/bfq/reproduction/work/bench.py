"""What every kind of work shares: where it is kept, under which name, and what it borrows from above."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bfq.data.dataset import Dataset
from bfq.data.sources import load_dataset
from bfq.errors import BadInput
from bfq.experiment import RUNS
from bfq.reproduction.results.cells import Cell
from bfq.training.progress import announced, data_bar

ADDED = {"squares": "mean"}  # words that came later, each with what it was before
AT_WORK = "another process is at work in {folder}."  # what is said of a folder that is held


@dataclass
class Bench:
    """Where work is done, and what is at hand."""

    # Scores a run's last checkpoint again, as `bfq evaluate`: it belongs to a higher layer and is lent.
    evaluate: Callable[..., dict[str, Any]]
    quiet: bool = False
    runs: Path = RUNS
    _shelf: dict[str, Dataset] = field(default_factory=dict)

    def data(self, name: str) -> Dataset:
        """The data of a task, read once as long as no other is asked for."""
        if name not in self._shelf:
            self._shelf.clear()
            with announced(f"reading {name}", self.quiet):
                self._shelf[name] = load_dataset(name, data_bar)
        return self._shelf[name]


class Work(Protocol):
    """A piece of an experiment that is done or not done as a whole."""

    @property
    def row(self) -> str:
        """The row it fills, or helps to fill."""

    @property
    def name(self) -> str:
        """What it does, in a few words."""

    @property
    def size(self) -> str:
        """How much of it."""

    @property
    def waiting(self) -> list[Cell]:
        """Its cells before it is done."""

    def folder(self, bench: Bench) -> Path | None:
        """Where it is kept, as far as that is known before its data is made."""

    def would_make(self, cell: Cell, bench: Bench) -> bool:
        """Whether a cell from elsewhere has the settings and the data of this, as far as these are known."""

    def fill(self, bench: Bench) -> list[Cell]:
        """Does what has not been done yet, and tells what came of it."""


def place(runs: Path, words: str, settings: dict[str, Any]) -> Path:
    """The folder of some work: other settings, another folder."""
    stem = words.replace("/", "-").replace(" ", "-")
    return runs / f"{stem}-{fingerprint(settings)}"


def fingerprint(settings: dict[str, Any]) -> str:
    """A short name of settings: others have another.

    What is off (0, False, None, nothing, or a word as it was before there was a choice) is left out. A switch
    that is added later and is off changes nothing of what runs before it have found: it changes no name.
    """
    told = json.dumps(_that_are_on(settings), sort_keys=True, default=list)
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def _that_are_on(settings: dict[str, Any]) -> dict[str, Any]:
    told = {k: _that_are_on(v) if isinstance(v, dict) else v for k, v in settings.items()}
    return {name: value for name, value in told.items() if value and value != ADDED.get(name)}


def state(work: Work, bench: Bench) -> str:
    """How far some work is, in words; data that cannot be read fails its own row when its turn comes."""
    try:
        folder = work.folder(bench)
    except BadInput:
        return "its data is damaged"
    if folder is None or not folder.exists():
        return "not begun"
    return "finished" if (folder / "result.json").exists() else "begun"
