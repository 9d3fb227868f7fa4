"""The paper's numbers as printed, from published.toml.

A wrong or doubtful number stays as printed and has a note. Rows and columns use this project's names of tasks
and agents; `agent-n` is an agent with n steps.
"""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from statistics import fmean
from typing import Any, NamedTuple

Place = tuple[str, str]  # row, column
EMPTY = "–"


class PaperNumber(NamedTuple):
    """A mean and the number after ±."""

    value: float
    deviation: float | None = None


class Note(NamedTuple):
    """A correction or a doubt about some numbers, or about the whole table."""

    text: str
    cells: tuple[Place, ...] = ()  # empty: the whole table


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper."""

    cells: dict[Place, PaperNumber]
    averages: dict[Place, PaperNumber]  # as printed
    groups: dict[str, tuple[str, ...]]  # the rows of each average
    notes: tuple[Note, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows in printed order, without averages."""
        return tuple(dict.fromkeys(row for row, _ in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in printed order."""
        return tuple(dict.fromkeys(column for _, column in self.cells))

    def get(self, row: str, column: str) -> PaperNumber | None:
        """The number printed in a cell or as an average."""
        return self.cells.get((row, column)) or self.averages.get((row, column))

    def notes_on(self, row: str, column: str) -> list[Note]:
        """The notes about a cell, including those about the whole table."""
        return [note for note in self.notes if not note.cells or (row, column) in note.cells]

    def recomputed(self, average: str, column: str) -> float:
        """The mean of the printed rows of an average."""
        return fmean(self.cells[row, column].value for row in self.groups[average])


def read_tables(text: str) -> dict[str, PaperTable]:
    """The tables in the form of published.toml."""
    described = tomllib.loads(text)
    notes = described.pop("notes")
    return {
        name: _table(entry["table"], [note for note in notes if name in note["tables"]])
        for name, entry in described.items()
    }


def _table(text: str, notes: list[dict[str, Any]]) -> PaperTable:
    printed, groups = _read(text)
    return PaperTable(
        cells={cell: number for cell, number in printed.items() if cell[0] not in groups},
        averages={cell: number for cell, number in printed.items() if cell[0] in groups},
        groups=groups,
        notes=tuple(
            Note(note["text"], _matching(note.get("cells", []), printed)) for note in notes
        ),
    )


def _read(text: str) -> tuple[dict[Place, PaperNumber], dict[str, tuple[str, ...]]]:
    """The number in each cell, and the rows of each average: those since the previous average."""
    heading, *lines = (re.split(r"\s{2,}", line.strip()) for line in text.strip("\n").splitlines())
    printed: dict[Place, PaperNumber] = {}
    groups: dict[str, tuple[str, ...]] = {}
    above: list[str] = []
    for row, *numbers in lines:
        cells = zip(heading, numbers, strict=True)
        printed |= {(row, column): _number(text) for column, text in cells if text != EMPTY}
        if row.startswith("Average"):
            groups[row], above = tuple(above), []
        else:
            above.append(row)
    return printed, groups


def _number(text: str) -> PaperNumber:
    mean, _, deviation = text.partition("±")
    return PaperNumber(float(mean), float(deviation) if deviation else None)


def _matching(patterns: list[list[str]], cells: Collection[Place]) -> tuple[Place, ...]:
    found = [
        [cell for cell in cells if all(map(fnmatchcase, cell, pattern))] for pattern in patterns
    ]
    if not all(found):  # an empty match would become a note on the whole table
        raise ValueError(f"a pattern among {patterns} matches no cell of the table.")
    return tuple(cell for group in found for cell in group)


PAPER = read_tables((files(__package__) / "published.toml").read_text("utf-8"))
