"""What every kind of work shares: where it is kept, under which name, and what it borrows from above."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bfq.data.dataset import Dataset
from bfq.errors import BadInput
from bfq.progress import announced, data_bar
from bfq.run import RUNS, RunRecord
from bfq.tasks.sources import load_dataset
from bfq_paper.results.cells import Cell

AT_WORK = "another process is at work in {folder}."  # what is said of a folder that is held


@dataclass
class Bench:
    """Where work is done, and what is at hand."""

    # Scores a run's last checkpoint again, as `bfq evaluate`: it belongs to a higher layer and is lent.
    evaluate: Callable[..., RunRecord]
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


def state(work: Work, bench: Bench) -> str:
    """How far some work is, in words; data that cannot be read fails its own row when its turn comes."""
    try:
        folder = work.folder(bench)
    except BadInput:
        return "its data is damaged"
    if folder is None or not folder.exists():
        return "not begun"
    return "finished" if (folder / "result.json").exists() else "begun"
