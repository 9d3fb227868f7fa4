"""What stands in a cell of a table: numbers a seed, where they come from, and the paper's beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple

from bfq.reports.statistics import Summary, summarize
from bfq_paper.plan.experiments import Column, Experiment
from bfq_paper.plan.sources import Source
from bfq_paper.published import TABLES, Figure, Note

NEAR = 2.0  # points of a normalized score that are no difference worth a color
TIMED = 0.05  # the same for times, as a share of the paper's


@dataclass(frozen=True)
class Reading:
    """One way of scoring a cell: a number a seed (or a robot, of what is timed), None where one has none."""

    name: str
    values: tuple[float | None, ...]
    record: dict[str, Any] = field(
        default_factory=dict
    )  # its protocol, and whatever else was measured

    @property
    def summary(self) -> Summary | None:
        """Mean and spread of the numbers there are."""
        found = [value for value in self.values if value is not None]
        return summarize(found) if found else None

    def describe(self) -> dict[str, Any]:
        """For result.json."""
        told = self.summary
        spread = {"mean": told.mean, "std": told.std, "n": told.n} if told else None
        return {"name": self.name, "values": list(self.values), "summary": spread, **self.record}


@dataclass(frozen=True)
class Cell:
    """One cell: done, failed, unfilled (no data) or waiting (its turn has not come)."""

    row: str
    column: str
    state: str
    why: str = ""  # of what is not done
    unit: str = "normalized score"
    readings: tuple[Reading, ...] = ()  # the first as the paper's table has it
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> Summary | None:
        """The score that is compared with the paper's."""
        return self.readings[0].summary if self.readings else None

    @property
    def spent(self) -> tuple[str, str]:
        """How many numbers stand behind the score, and how many updates behind each."""
        told = self.ours
        numbers = f"{told.n} of {len(self.readings[0].values)}" if told else "–"
        whole = told is not None and told.n == len(self.readings[0].values)
        steps = self.provenance.get("steps")
        return (str(told.n) if told and whole else numbers), (f"{steps:,}" if steps else "–")


class Average(NamedTuple):
    """The mean over a group of rows."""

    name: str
    column: str
    ours: float
    paper: float  # of its own rows
    printed: float  # as its table has it, right or wrong


@dataclass(frozen=True)
class Outcome:
    """An experiment with all its cells, as far as they are filled."""

    experiment: Experiment
    sources: tuple[Source, ...]  # a row each, as the last command that asked for it found them
    cells: tuple[Cell, ...]
    calls: tuple[
        dict[str, Any], ...
    ] = ()  # the commands behind the cells: words, device, versions, seconds

    @property
    def rows(self) -> list[str]:
        """The rows that have cells, in order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """The columns that have cells, in the experiment's order."""
        found = dict.fromkeys(cell.column for cell in self.cells)
        order = [column.label for column in self.experiment.columns]
        return sorted(found, key=lambda name: order.index(name) if name in order else len(order))

    @property
    def units(self) -> str:
        """What its numbers are, in words."""
        return " or ".join(dict.fromkeys(cell.unit for cell in self.cells if cell.ours))

    @property
    def foremost(self) -> str:
        """The column that the experiment is about: BFQ's, else the first."""
        return "bfq" if "bfq" in self.columns else next(iter(self.columns), "")

    @property
    def failed(self) -> list[Cell]:
        """What was tried in vain."""
        return [cell for cell in self.cells if cell.state == "failed"]

    def sources_of(self, row: str) -> list[Source]:
        """What the cells of a row learned from, each once; of a row without numbers, what it would."""
        cells = [cell for cell in self.of(row) if "source" in cell.provenance]
        told = [Source.told(cell.provenance["source"]) for cell in cells]
        found = {source.data: source for source in told}
        return list(found.values()) or [source for source in self.sources if source.task == row]

    def of(self, row: str) -> list[Cell]:
        """The cells of a row."""
        return [cell for cell in self.cells if cell.row == row]

    def at(self, row: str, column: str) -> Cell | None:
        """One cell."""
        return next((cell for cell in self.of(row) if cell.column == column), None)

    def taken(self, cells: Sequence[Cell], sources: Sequence[Source] = ()) -> "Outcome":
        """The same with these cells in their places: what has no numbers does not replace what has."""
        found = {(cell.row, cell.column): cell for cell in self.cells}
        for cell in cells:
            before = found.get((cell.row, cell.column))
            if cell.readings or not (before and before.readings):
                found[cell.row, cell.column] = cell
        whole = replace(self, cells=tuple(found.values()))
        order = list(dict.fromkeys((*self.experiment.rows, *whole.rows)))
        columns = whole.columns
        ordered = sorted(
            found.values(), key=lambda cell: (order.index(cell.row), columns.index(cell.column))
        )
        return replace(whole, cells=tuple(ordered), sources=self._sources(sources, order))

    def _sources(self, sources: Sequence[Source], order: Sequence[str]) -> tuple[Source, ...]:
        """A row's last source; one without data tells nothing of a row that had some."""
        found = {source.task: source for source in self.sources}
        for source in sources:
            if source.data or not found.get(source.task, source).data:
                found[source.task] = source
        return tuple(sorted(found.values(), key=lambda source: order.index(source.task)))

    def paper(self, cell: Cell) -> Figure | None:
        """The paper's number for a cell."""
        place = self._place(cell)
        return TABLES[self.experiment.table].get(*place) if self.experiment.table else None

    def notes(self, cell: Cell) -> list[Note]:
        """What is wrong or doubtful about the paper's number."""
        if not self.experiment.table or self.paper(cell) is None:
            return []
        return TABLES[self.experiment.table].notes_on(*self._place(cell))

    def difference(self, cell: Cell) -> float | None:
        """Ours less the paper's; None where there are not both, and of a quick run, which has none."""
        figure = self.paper(cell)
        if cell.ours is None or figure is None or self.experiment.quick:
            return None
        return cell.ours.mean - figure.value

    def verdict(self, cell: Cell) -> str:
        """gain, loss or same, by a difference that is worth a color; nothing without one."""
        difference, figure = self.difference(cell), self.paper(cell)
        if difference is None or figure is None:
            return ""
        timed = self.experiment.kind == "speed"
        near = TIMED * abs(figure.value) if timed else NEAR
        if abs(difference) <= near:
            return "same"
        better = difference < 0 if cell.unit == "hours" else difference > 0
        return "gain" if better else "loss"

    def averages(self) -> list[Average]:
        """The paper's groups of rows, of the columns in which each of their rows is filled."""
        if not self.experiment.table or self.experiment.quick:
            return []
        printed = TABLES[self.experiment.table]
        found = []
        for name, rows in printed.groups.items():
            for column in self.columns:
                means = [
                    cell.ours.mean for row in rows if (cell := self.at(row, column)) and cell.ours
                ]
                if len(means) == len(rows) and (name, column) in printed.averages:
                    paper = printed.recomputed(name, column), printed.averages[name, column].value
                    found.append(Average(name, column, fmean(means), *paper))
        return found

    def _place(self, cell: Cell) -> tuple[str, str]:
        """Where the paper has it: its table of times has a row a method."""
        speed = self.experiment.kind == "speed"
        return (cell.column, cell.row) if speed else (cell.row, cell.column)


def empty(row: str, columns: Sequence[Column], state: str, why: str) -> list[Cell]:
    """Cells without numbers."""
    return [Cell(row, column.label, state, why) for column in columns]
