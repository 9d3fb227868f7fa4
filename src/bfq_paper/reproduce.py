"""An experiment from its plan to its results: what can be filled is, and the rest says why it is not."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from jax.errors import JaxRuntimeError

from bfq.errors import BadInput, Busy, counted
from bfq.settings import check_precision
from bfq_paper.book import Book
from bfq_paper.plan.experiments import Experiment, get_experiment
from bfq_paper.plan.sources import Source, source_of
from bfq_paper.results.cells import Cell, Outcome, empty
from bfq_paper.work.bench import Bench, Work, state
from bfq_paper.work.scores import trainings
from bfq_paper.work.speed import measurements
from bfq_paper.work.toy import boards

Say = Callable[[str], None]
ELSEWHERE = "finished elsewhere"
DONE = ("finished", ELSEWHERE)
PATIENCE_S = 5.0  # between two looks at what other commands are at


class Plan(NamedTuple):
    """What an experiment will do, settled before anything is written."""

    experiment: Experiment
    sources: tuple[Source, ...]  # of its rows; none for what needs no data
    works: tuple[Work, ...]
    earlier: Outcome | None = None  # what commands of before left, here or on another machine
    again: bool = False  # whether what is finished only elsewhere is run anew

    def state(self, work: Work, bench: Bench) -> str:
        """How far some work is, in words: numbers of another run stay, those of a run here are read again."""
        here, found = state(work, bench), [self._before(cell) for cell in work.waiting]
        if self.again or not all(
            cell is not None and work.would_make(cell, bench) for cell in found
        ):
            return here
        folder = work.folder(bench) if here == "finished" else None
        own = folder and {Path(cell.provenance["run"]).name for cell in found if cell} == {
            folder.name
        }
        return here if own else ELSEWHERE

    def check(self, bench: Bench) -> None:
        """Refuses a precision that this machine cannot train in, unless all that trains is done already."""
        if not all(self.state(work, bench) in DONE for work in self.works):
            check_precision(self.experiment.precision)

    def _before(self, cell: Cell) -> Cell | None:
        """The numbers that stand in the place of a cell already."""
        found = self.earlier.at(cell.row, cell.column) if self.earlier else None
        return found if found and found.readings else None

    @property
    def unfilled(self) -> list[Cell]:
        """The cells of the rows that cannot be filled here."""
        return [
            cell
            for source in self.sources
            if not source.data
            for cell in empty(source.task, self.experiment.columns, "unfilled", source.words)
        ]

    def describe(self, bench: Bench) -> dict[str, Any]:
        """For programs."""
        parts = [
            {"row": w.row, "name": w.name, "size": w.size, "state": self.state(w, bench)}
            for w in self.works
        ]
        needed = {part["row"] for part in parts if part["state"] not in DONE}
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.heading,
            "sources": [
                s._asdict() for each in self.sources for s in self._told(each, each.task in needed)
            ],
            "parts": parts,
            "kept": [{"row": c.row, "column": c.column} for c in self.unfilled if self._before(c)],
        }

    def _told(self, source: Source, needed: bool) -> list[Source]:
        """What a row learns from, or has learned from where nothing is to be done."""
        filled = self.earlier if source.data and not needed else None
        found = filled.sources_of(source.task) if filled else []
        return found or [source if needed else source.used]

    def tell(self, bench: Bench) -> str:
        """For people: row by row, what is of one size in one line."""
        told = self.describe(bench)
        parts, lines = told["parts"], [told["title"]]
        for row in dict.fromkeys(
            [*(source.task for source in self.sources), *(p["row"] for p in parts)]
        ):
            lines += [f"  {source['words']}" for source in told["sources"] if source["task"] == row]
            lines += _lines([part for part in parts if part["row"] == row])
            kept = [cell["column"] for cell in told["kept"] if cell["row"] == row]
            lines += [f"    {ELSEWHERE} and kept: {', '.join(kept)}"] if kept else []
        return "\n".join(lines)


def _lines(parts: list[dict[str, Any]]) -> list[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        alike.setdefault((part["size"], part["state"]), []).append(part["name"])
    return [
        f"    {counted(len(names), 'part')} of {size}, {how_far}: {'; '.join(names)}"
        for (size, how_far), names in alike.items()
    ]


class Done(NamedTuple):
    """What came of a plan."""

    outcome: Outcome
    failed: list[Cell]  # what was asked for and tried in vain


def plan(experiment: Experiment, earlier: Outcome | None = None, again: bool = False) -> Plan:
    """Finds the data of every row and describes every run; what cannot be is refused here."""
    if experiment.kind != "scores":
        works = {"speed": measurements, "toy": boards}[experiment.kind](experiment)
        return Plan(experiment, (), tuple(works), earlier, again)
    sources = tuple(map(source_of, experiment.usual or experiment.rows))
    return Plan(experiment, sources, tuple(trainings(experiment, sources)), earlier, again)


def reproduce(made: Plan, bench: Bench, out: Path, command: str, say: Say) -> Done:
    """Does all work in turn, writing the numbers after each; a failed one is told, and the others go on.

    What another command is at work on is left to it and looked at again in the end: its numbers are taken, or
    if it was killed, its work.
    """
    book = Book(
        replace(get_experiment(made.experiment.name), quick=made.experiment.quick), out, command
    )
    waiting = [cell for work in made.works for cell in work.waiting]
    doing = _Doing(made, bench, book, say, book.add([*waiting, *made.unfilled], made.sources))
    _until_done(made.works, doing.done)
    return Done(book.close(), doing.failed)


def share(made: Plan, bench: Bench) -> None:
    """Does the work that no other command is at, and leaves telling of it to the one that asked for all."""

    def done(work: Work) -> bool:
        try:
            _filled(work, bench)
        except Busy:
            return False
        return True

    _until_done([work for work in made.works if made.state(work, bench) != ELSEWHERE], done)


def _until_done(works: Iterable[Work], done: Callable[[Work], bool]) -> None:
    """Does one after the other; what another command is at is tried again, until all are done."""
    left = list(works)
    while left:
        before, left = left, [work for work in left if not done(work)]
        if left == before:
            time.sleep(PATIENCE_S)


@dataclass
class _Doing:
    """A plan in the middle of being carried out."""

    made: Plan
    bench: Bench
    book: Book
    say: Say
    outcome: Outcome
    failed: list[Cell] = field(default_factory=list)
    put_off: list[Work] = field(default_factory=list)  # told once, however often it is tried

    def done(self, work: Work) -> bool:
        """Does it, unless another command is at it: then False."""
        kept = self.made.state(work, self.bench) == ELSEWHERE
        if work not in self.put_off:
            self.say(self._place(work) + (f": {ELSEWHERE}; --again runs it anew" if kept else ""))
        try:
            cells = _kept(work, self.outcome) if kept else _filled(work, self.bench)
        except Busy as busy:
            if work not in self.put_off:
                self.say(f"{work.row}, {work.name}: {busy} It is looked at again in the end.")
                self.put_off.append(work)
            return False
        for cell in (cell for cell in cells if cell.state == "failed"):
            self.say(f"{cell.row}, {cell.column} failed: {cell.why}")
            self.failed.append(cell)
        self.outcome = self.outcome if kept else self.book.add(cells)
        return True

    def _place(self, work: Work) -> str:
        works, rows = self.made.works, list(dict.fromkeys(each.row for each in self.made.works))
        return (
            f"{self.made.experiment.name}: row {rows.index(work.row) + 1} of {len(rows)}, part "
            f"{works.index(work) + 1} of {len(works)}: {work.name}, {work.size}"
        )


def _kept(work: Work, outcome: Outcome) -> list[Cell]:
    """What was found elsewhere, with its failures."""
    return [cell for each in work.waiting if (cell := outcome.at(each.row, each.column))]


def _filled(work: Work, bench: Bench) -> list[Cell]:
    try:
        return work.fill(bench)
    except Busy:
        raise
    except (
        BadInput,
        JaxRuntimeError,
        MemoryError,
    ) as error:  # the device's memory may be too small for one
        why = " ".join(str(error).split())
        return [replace(cell, state="failed", why=why) for cell in work.waiting]
