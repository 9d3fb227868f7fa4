"""Results that several commands write at once: each adds to what is there at that moment, one at a time."""

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bfq.errors import BadInput
from bfq.files import in_place, open_lock
from bfq_paper.plan.experiments import Experiment
from bfq_paper.plan.sources import Source
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.stored import called, earlier_of, folder_of
from bfq_paper.shown.written import write_numbers, write_pictures


@dataclass(frozen=True)
class Book:
    """What one command adds to the results of an experiment, which others may change in between."""

    experiment: Experiment  # with all its rows and columns, whatever the command asks for
    out: Path
    command: str
    _began: float = field(default_factory=time.monotonic)

    def add(self, cells: Sequence[Cell], sources: Sequence[Source] = ()) -> Outcome:
        """Puts cells in their places in the file, and tells what it holds then."""
        with alone(folder_of(self.experiment, self.out)):
            return self._add(cells, sources)

    def close(self) -> Outcome:
        """Draws all that the file holds; others wait, so that no page is older than its numbers."""
        with alone(folder_of(self.experiment, self.out)):
            outcome = self._add((), ())
            write_pictures(outcome, self.out)
        return outcome

    def _add(self, cells: Sequence[Cell], sources: Sequence[Source]) -> Outcome:
        found = earlier_of(self.experiment, self.out) or Outcome(self.experiment, (), ())
        spent = time.monotonic() - self._began
        outcome = called(found.taken(cells, sources), self.command, spent)
        write_numbers(outcome, self.out)
        return outcome


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits for those that write to a folder, then holds it; nothing of the lock is left in it."""
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _held(path)
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder {folder}: {error.strerror or error}."
        ) from error
    with file:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _held(path: Path) -> IO[bytes]:
    """The lock's file, held; another is made if its last holder has removed this one meanwhile."""
    while True:
        file = open_lock(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        if in_place(file, path):
            return file
        file.close()
