"""Cleaning of a log: rows that cannot be used, columns of categories, and its clock.

Nothing is repaired. A row that cannot be used is dropped and its episode is cut there: the row above ends a
piece as a time-out, so rows that do not follow each other are never joined. A gap in time cuts as well.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.cells import (
    BadCell,
    Cells,
    as_numbers,
    as_words,
    collecting,
    list_defects,
    read_cells,
    refuse_defect,
)
from bfq.data.checks import FLAGS, Rows, as_flags, mark_ends
from bfq.data.clock import LogClock, TimeGrid
from bfq.data.dataset import Arrays, Flags
from bfq.data.defects import note, refuse
from bfq.data.readers import Table
from bfq.errors import BadInput
from bfq.run import LARGEST_FLOAT32

TIME = "time"
KEPT = ("actions",)  # resampled rows have the values of the row before
MARKS = (*FLAGS, "episode_ids", "episode_lengths")  # columns that say where episodes end
Chosen = Mapping[str, tuple[str, ...] | Callable[[Any], npt.ArrayLike]]


class Clean(NamedTuple):
    """The rows that are left, and where their episodes end."""

    table: Table  # numbers; a column of categories is a matrix with a single 1 in every row
    words: Arrays  # the categories as text
    terminals: Flags
    timeouts: Flags
    categories: dict[str, list[str]]
    notes: tuple[str, ...]


def clean(
    table: Table,
    file: str,
    chosen: Chosen,
    more: Sequence[str] = (),
    *,
    report: str | Path | list[BadCell] | None = None,
    **options: Any,
) -> Clean:
    """Drop the rows that cannot be used, or refuse the first of them.

    `more` are columns that are needed besides those chosen. All defects are written to the file `report`, or
    appended to that list, in any case.
    """
    columns = {word: theirs for word, theirs in chosen.items() if not callable(theirs)}
    needed = [name for names in columns.values() for name in names]
    _check_settings(columns, **options)
    log = _Log(read_cells(table, list(dict.fromkeys([*needed, *more]))), file, columns)
    with collecting(report) as lists:
        try:
            return _clean(table, log, **options)
        finally:
            for found in lists.values():
                found += [one._replace(file=file) for one in sorted(log.defects)]


def _check_settings(
    columns: Mapping[str, Sequence[str]],
    categorical: Sequence[str] = (),
    resample: float | None = None,
    **_: Any,
) -> None:
    """Refuse settings that the columns do not allow."""
    if not {TIME, "next_observations", *MARKS} & columns.keys():
        raise refuse("no-episode-end", "no episode end is given")
    if resample and TIME not in columns:
        raise BadInput("resampling needs the times of the rows: name their column, time=….")
    for name in categorical:
        if name not in columns.get("observations", ()):
            raise BadInput(f"{name} is not among the observations, so it cannot be categorical.")


def _clean(
    table: Table,
    log: "_Log",
    *,
    drop_bad_rows: bool = False,
    categorical: Mapping[str, Sequence[str]] | None = None,
    resample: float | None = None,
) -> Clean:
    log.read_cells(categorical or {})
    terminal, timeout, notes = log.mark_ends()
    clock = LogClock(log.cells, log.columns[TIME][0], log.bad) if TIME in log.columns else None
    repeated = log.check_clock(clock, terminal | timeout) if clock else np.zeros(log.size, bool)
    notes += log.drop(drop_bad_rows)
    rows, terminal, timeout = _cut(log.bad, repeated, terminal, timeout)
    grid = TimeGrid(rows, rows, np.zeros(len(rows)))
    if clock:
        timeout, remarks, gaps = clock.cut_gaps(rows, terminal, timeout)
        notes += remarks
        log.defects += log.cells.defects(clock.name, gaps, "gap-in-time")
    if clock and resample:
        grid, terminal, timeout = clock.resample(rows, terminal, timeout, resample)
    return Clean(*log.select(table, grid), terminal, timeout, log.categories, tuple(notes))


def _cut(bad: Flags, repeated: Flags, terminal: Flags, timeout: Flags) -> tuple[Rows, Flags, Flags]:
    """The rows to keep, with an end above each hole; a repeated row is no hole and leaves its end to the first."""
    owner = np.maximum.accumulate(np.where(repeated, 0, np.arange(len(bad))))
    ends = np.zeros((2, len(bad)), bool)
    for end, flags in zip(ends, (terminal, timeout), strict=True):
        np.logical_or.at(end, owner, flags)
    rows = np.flatnonzero(~(bad | repeated))
    holes = np.append(np.cumsum(bad)[rows], bad.sum())
    terminal, timeout = ends[:, rows]
    return rows, terminal, timeout | (np.diff(holes) > 0) & ~terminal


class _Log:
    """The columns of a log in the order of its file, with what is wrong in them."""

    def __init__(self, cells: Cells, file: str, columns: Mapping[str, tuple[str, ...]]):
        self.cells, self.columns, self._file = cells, columns, file
        lengths = columns.get("episode_lengths", ())
        sizes = {len(cells.columns[name]) for name in cells.columns if name not in lengths}
        if len(sizes) > 1 or any(column.ndim > 2 for column in cells.columns.values()):
            raise refuse("different-lengths", f"{file} has columns without one row per step")
        self.size = sizes.pop()
        self.defects = list(cells.ragged)
        self.bad = np.zeros(self.size, bool)
        self.bad[[one.row for one in self.defects]] = True
        self._numbers: Arrays = {}
        self._words: Arrays = {}
        self.categories: dict[str, list[str]] = {}

    def read_cells(self, categorical: Mapping[str, Sequence[str]]) -> None:
        """Turn cells into numbers or words, and note those that are neither."""
        ids = self.columns.get("episode_ids", ())
        skipped = (*self.columns.get(TIME, ()), *self.columns.get("episode_lengths", ()))
        ragged = self.bad.copy()
        for name, cells in self.cells.columns.items():
            if name in skipped:
                continue
            if name in categorical or name in ids:
                self._words[name] = as_words(cells)
                self._note(name, (self._words[name] == "") & ~ragged, "empty-cell")
            else:
                self._numbers[name] = numbers = as_numbers(cells)
                whole = np.abs(numbers.reshape(len(cells), -1)).max(1, initial=0.0)
                wrong = ~(whole <= LARGEST_FLOAT32) & ~ragged
                self._check_kind(name, wrong | ragged)
                self._note(name, wrong)
        for name, given in categorical.items():
            self.categories[name] = self._encode(name, list(given))

    def _check_kind(self, name: str, wrong: Flags) -> None:
        """Refuse a column of text: its rows are not bad, it needs another use."""
        if wrong.all():
            held = str(np.ravel(self.cells.columns[name])[0])[:30]
            raise BadInput(
                f"the column {name} of {self._file} holds a number in no row, but words such as {held!r}: choose "
                f"another column, or encode it with --categorical {name}."
            )

    def _encode(self, name: str, given: list[str]) -> list[str]:
        """The categories in their order: as given, or sorted, numbers as numbers."""
        words = self._words[name]
        held = {str(word) for word in words[~self.bad]}
        if not given:
            known = sorted(held)
            return sorted(known, key=float) if all(map(_is_number, known)) else known
        unknown = ~np.isin(words.astype(str), [*given, ""])
        for one in self.cells.defects(name, unknown, "unknown-category"):
            raise refuse_defect(one, self._file, int(unknown.sum()), ", ".join(given))
        return given

    def _note(self, name: str, wrong: Flags, kind: str = "") -> None:
        self.defects += self.cells.defects(name, wrong, kind)
        self.bad |= wrong

    def mark_ends(self) -> tuple[Flags, Flags, list[str]]:
        """Terminals and time-outs of all rows of the file; in bad rows there are none."""
        flags = {
            word: as_flags(word, np.where(self.bad, 0.0, self._numbers[name]))
            for word, (name, *_) in self.columns.items()
            if word in FLAGS
        }
        lengths, ids = (
            self.cells.columns[self.columns[word][0]] if word in self.columns else None
            for word in ("episode_lengths", "episode_ids")
        )
        if ids is not None:  # a bad row has the id of the last good one, or of the first
            good = np.where(self.bad, 0, np.arange(self.size))
            good[: np.argmin(self.bad)] = np.argmin(self.bad)
            ids = self._words[self.columns["episode_ids"][0]][np.maximum.accumulate(good)]
        return mark_ends(self.size, flags, ids, lengths)

    def check_clock(self, clock: LogClock, ends: Flags) -> Flags:
        """Note times that do not rise within episodes; the rows that only repeat the one above."""
        self._note(clock.name, clock.unread, "not-a-time")
        clock.find_late(self.bad, ends, any(word in self.columns for word in MARKS))
        same = [
            np.all((column[1:] == column[:-1]).reshape(self.size - 1, -1), axis=1)
            for name, column in self.cells.columns.items()
            if name not in self.columns.get("episode_lengths", ())
        ]
        repeated = np.append(False, np.logical_and.reduce(same)) & clock.late
        self.defects += self.cells.defects(clock.name, repeated, "repeated-row")
        self._note(clock.name, clock.late & ~repeated, "time-not-rising")
        return repeated

    def drop(self, allowed: bool) -> list[str]:
        """A note on the rows with defects, or the exception for the first of them."""
        if not self.defects:
            return []
        rows = len({one.row for one in self.defects})
        if not allowed:
            raise refuse_defect(min(self.defects), self._file, rows)
        if rows == self.size:
            raise refuse("no-transition-left", f"every row of {self._file} has a defect")
        return [
            note(
                "dropped-rows",
                f"Dropped {rows:,} of {self.size:,} rows with {len(self.defects):,} defects and cut their "
                f"episodes there: {list_defects(self.defects)}",
            )
        ]

    def select(self, table: Table, grid: TimeGrid) -> tuple[Table, Arrays]:
        """The table on the grid, and its words."""
        words = {name: column[grid.left] for name, column in self._words.items()}
        held = {name for word in KEPT for name in self.columns.get(word, ())}

        def column(name: str) -> npt.NDArray[Any]:
            if name in self.categories:
                return (words[name][:, None] == np.array(self.categories[name], object)) * 1.0
            numbers = self._numbers.get(name)
            if numbers is None:
                numbers = as_numbers(read_cells(table, [name]).columns[name])
            return numbers[grid.left] if name in held else grid.interpolate(numbers)

        def read(names: Sequence[str]) -> Arrays:
            return {name: column(name) for name in names}

        return Table(table.names, read, table.by_column), words


def _is_number(word: str) -> bool:
    return bool(np.isfinite(as_numbers(np.array([word], object))).all())
