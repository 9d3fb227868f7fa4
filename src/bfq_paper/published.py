"""The numbers of the paper as data, as it prints them: what a result here is compared with.

They are in `published.toml`. A number that is wrong or doubtful stays as printed, and a note says so. Rows
and columns have the names of tasks and agents here; `agent-n` is an agent with n steps, where the paper
prints it with several.
"""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from statistics import fmean
from typing import Any, NamedTuple

from bfq.errors import unknown

Cell = tuple[str, str]  # row, column
ABSENT = "–"
SCORES = ("main", "full", "ogbench")  # the tables of scores by task and agent
# Where the paper prints an agent at several steps and none by its plain name: the steps it takes here.
AS_HERE = {"cac": "cac-2", "sorl": "sorl-8"}


class Figure(NamedTuple):
    """A mean, and what stands behind its ±."""

    value: float
    deviation: float | None = None


class Note(NamedTuple):
    """A correction or a doubt, and the cells it concerns; none: the whole table."""

    text: str
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    caption: str  # what it measures, by the paper
    unit: str
    units: dict[str, str]  # of rows and columns that have another
    cells: dict[Cell, Figure]
    averages: dict[Cell, Figure]  # as printed, right or wrong
    groups: dict[str, tuple[str, ...]]  # the rows that an average is of
    notes: tuple[Note, ...]

    def rows(self) -> tuple[str, ...]:
        """The rows in printed order, without averages."""
        return tuple(dict.fromkeys(row for row, _ in self.cells))

    def columns(self) -> tuple[str, ...]:
        """The columns in printed order."""
        return tuple(dict.fromkeys(column for _, column in self.cells))

    def get(self, row: str, column: str) -> Figure | None:
        """What is printed in a cell or for an average, if anything."""
        return self.cells.get((row, column)) or self.averages.get((row, column))

    def unit_of(self, row: str, column: str) -> str:
        """The unit of a cell."""
        return self.units.get(row) or self.units.get(column) or self.unit

    def notes_on(self, row: str, column: str) -> list[Note]:
        """The notes that concern a cell, those on the whole table among them."""
        return [note for note in self.notes if not note.cells or (row, column) in note.cells]

    def recomputed(self, average: str, column: str) -> float:
        """An average from the printed rows."""
        return fmean(self.cells[row, column].value for row in self.groups[average])


def table(name: str) -> Table:
    """A table by its name, or a sentence with the nearest name."""
    if name not in TABLES:
        raise unknown("table of the paper", name, TABLES)
    return TABLES[name]


def place(task: str, agent: str) -> tuple[Table, str] | None:
    """The table that has an agent's score on a task, and the column."""
    for column in (agent, AS_HERE.get(agent, agent)):
        for name in SCORES:
            if (task, column) in TABLES[name].cells:
                return TABLES[name], column
    return None


def score(task: str, agent: str) -> Figure | None:
    """The printed score of an agent on a task, with as many steps as it takes here if it is not told."""
    found = place(task, agent)
    return found[0].cells[task, found[1]] if found else None


def _tables(text: str) -> dict[str, Table]:
    described = tomllib.loads(text)
    notes = described.pop("notes")
    return {
        name: _table(name, entry, [note for note in notes if name in note["tables"]])
        for name, entry in described.items()
    }


def _table(name: str, entry: dict[str, Any], notes: list[dict[str, Any]]) -> Table:
    printed, groups = _read(entry["table"])
    return Table(
        name=name,
        title=entry["title"],
        caption=entry["caption"],
        unit=entry["unit"],
        units=entry.get("units", {}),
        cells={cell: figure for cell, figure in printed.items() if cell[0] not in groups},
        averages={cell: figure for cell, figure in printed.items() if cell[0] in groups},
        groups=groups,
        notes=tuple(
            Note(note["text"], _matching(note.get("cells", []), printed)) for note in notes
        ),
    )


def _read(text: str) -> tuple[dict[Cell, Figure], dict[str, tuple[str, ...]]]:
    """What is printed in each cell, and the rows of each average: those since the one before."""
    heading, *lines = map(_words, text.strip("\n").splitlines())
    printed: dict[Cell, Figure] = {}
    groups: dict[str, tuple[str, ...]] = {}
    above: list[str] = []
    for row, *figures in lines:
        cells = zip(heading, figures, strict=True)
        printed |= {(row, column): _figure(figure) for column, figure in cells if figure != ABSENT}
        if row.startswith("Average"):
            groups[row], above = tuple(above), []
        else:
            above.append(row)
    return printed, groups


def _words(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def _figure(text: str) -> Figure:
    mean, _, deviation = text.partition("±")
    return Figure(float(mean), float(deviation) if deviation else None)


def _matching(patterns: list[list[str]], cells: Collection[Cell]) -> tuple[Cell, ...]:
    found = [
        [cell for cell in cells if all(map(fnmatchcase, cell, pattern))] for pattern in patterns
    ]
    if not all(found):  # a note on no cell would read as one on the whole table
        raise ValueError(f"a pattern among {patterns} matches no cell of the table.")
    return tuple(cell for group in found for cell in group)


TABLES = _tables((files(__package__) / "published.toml").read_text("utf-8"))
