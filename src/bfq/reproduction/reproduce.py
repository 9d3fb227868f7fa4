"""An experiment from its plan to its results: what can be filled is, and the rest says why it is not."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jax.errors import JaxRuntimeError

from bfq.errors import BadInput
from bfq.reporting import prose
from bfq.reproduction.cells import Cell, Outcome, empty
from bfq.reproduction.experiments import Experiment
from bfq.reproduction.results import write_numbers, write_pictures
from bfq.reproduction.scores import trainings
from bfq.reproduction.sources import Source, source_of
from bfq.reproduction.speed import measurements
from bfq.reproduction.toy import boards
from bfq.reproduction.work import Bench, Work, state

Say = Callable[[str], None]


class Plan(NamedTuple):
    """What an experiment will do, settled before anything is written."""

    experiment: Experiment
    sources: tuple[Source, ...]  # of its rows; none for what needs no data
    works: tuple[Work, ...]

    def describe(self, bench: Bench) -> dict[str, Any]:
        """For programs."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.heading,
            "sources": [source._asdict() for source in self.sources],
            "parts": [
                {"row": w.row, "name": w.name, "size": w.size, "state": state(w, bench)} for w in self.works
            ],
        }

    def tell(self, bench: Bench) -> str:
        """For people: row by row, what is of one size in one line."""
        told = self.describe(bench)
        parts, lines = told["parts"], [told["title"]]
        for row in dict.fromkeys([*(source.task for source in self.sources), *(p["row"] for p in parts)]):
            lines += [f"  {source.words}" for source in self.sources if source.task == row]
            lines += _lines([part for part in parts if part["row"] == row])
        return "\n".join(lines)


def _lines(parts: list[dict[str, Any]]) -> list[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        alike.setdefault((part["size"], part["state"]), []).append(part["name"])
    return [
        f"    {prose.counted(len(names), 'part')} of {size}, {how_far}: {'; '.join(names)}"
        for (size, how_far), names in alike.items()
    ]


def plan(experiment: Experiment) -> Plan:
    """Finds the data of every row and describes every run; what cannot be is refused here."""
    if experiment.kind != "scores":
        works = {"speed": measurements, "toy": boards}[experiment.kind](experiment)
        return Plan(experiment, (), tuple(works))
    sources = tuple(map(source_of, experiment.usual or experiment.rows))
    return Plan(experiment, sources, tuple(trainings(experiment, sources)))


def reproduce(made: Plan, bench: Bench, out: Path, command: str, say: Say) -> Outcome:
    """Does all work in turn, writing the numbers after each; a failed one is told, and the others go on."""
    began, outcome = time.monotonic(), _begin(made)
    rows = list(dict.fromkeys(work.row for work in made.works))
    for k, work in enumerate(made.works, 1):
        say(
            f"{made.experiment.name}: row {rows.index(work.row) + 1} of {len(rows)}, "
            f"part {k} of {len(made.works)}: {work.name}, {work.size}"
        )
        cells = _filled(work, bench)
        for cell in cells:
            if cell.state == "failed":
                say(f"{cell.row}, {cell.column} failed: {cell.why}")
        outcome = _with(outcome, cells)
        write_numbers(outcome, out, command, time.monotonic() - began)
    write_numbers(outcome, out, command, time.monotonic() - began)
    write_pictures(outcome, out)
    return outcome


def _begin(made: Plan) -> Outcome:
    """Every cell, waiting for its turn or out of reach; in the order of the sources."""
    waiting = [cell for work in made.works for cell in work.waiting]
    gone = [
        cell
        for source in made.sources
        if not source.data
        for cell in empty(source.task, made.experiment.columns, "unfilled", source.words)
    ]
    cells: list[Cell] = [*waiting, *gone]
    rows = [source.task for source in made.sources] or list(dict.fromkeys(cell.row for cell in cells))
    columns = [column.label for column in made.experiment.columns] or [cell.column for cell in cells]
    ordered = sorted(cells, key=lambda cell: (rows.index(cell.row), columns.index(cell.column)))
    return Outcome(made.experiment, made.sources, tuple(ordered))


def _filled(work: Work, bench: Bench) -> list[Cell]:
    try:
        return work.fill(bench)
    except (BadInput, JaxRuntimeError, MemoryError) as error:  # the device's memory may be too small for one
        why = " ".join(str(error).split())
        return [replace(cell, state="failed", why=why) for cell in work.waiting]


def _with(outcome: Outcome, cells: list[Cell]) -> Outcome:
    new = {(cell.row, cell.column): cell for cell in cells}
    merged = tuple(new.get((cell.row, cell.column), cell) for cell in outcome.cells)
    folders = [cell.provenance["run"] for cell in cells if "run" in cell.provenance]
    return replace(outcome, cells=merged, folders=tuple(dict.fromkeys((*outcome.folders, *folders))))
