"""Cells of a log as they stand there: numbers, times and words, and a list of those that cannot be used."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Arrays, Doubles, Flags
from bfq.data.defects import refuse
from bfq.data.readers import Table
from bfq.errors import BadInput, counted
from bfq.files import check_place, make_folder, write_bytes
from bfq.run import LARGEST_FLOAT32

COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
BOOLEANS = {"true": 1.0, "false": 0.0}
MISSING = ("", "nan", "None", "NaT", "<NA>")  # what an empty cell becomes as text
LISTED = 20  # defects in a sentence
# What is wrong with a cell, as the end of a sentence that begins with its column.
WORDS = {
    "empty-cell": "has no value",
    "nan": "is NaN",
    "infinite": "is infinite",
    "beyond-float32": "is too large for float32",
    "decimal-comma": "has a decimal comma",
    "text": "is not a number",
    "not-a-time": "is not a time",
    "time-not-rising": "is not later than in the row before",
    "repeated-row": "repeats the row before",
    "gap-in-time": "follows a gap",
    "unknown-category": "is no known category",
    "ragged-row": "has another number of cells than the header",
}


class BadCell(NamedTuple):
    """A cell that cannot be used."""

    row: int  # counted from 0
    line: int | None  # of a CSV file, counted from 1
    column: str
    kind: str  # a key of WORDS
    value: str
    file: str = ""


class Cells(NamedTuple):
    """Columns of text, of numbers, or of objects with None where nothing is."""

    columns: Arrays
    lines: npt.NDArray[np.intp] | None = None  # of each row in a CSV file
    ragged: Sequence[BadCell] = ()  # rows with too few or too many cells

    def defects(self, name: str, wrong: Flags, kind: str = "") -> Iterator[BadCell]:
        """The defects in these rows of a column: of this kind, or of the kind of the cell."""
        for row in np.flatnonzero(wrong).tolist():
            values = np.ravel(self.columns[name][row]).tolist()
            found = [(_kind(value), str(value)) for value in values]
            held = (kind, str(values[0])) if kind else next(one for one in found if one[0])
            yield BadCell(row, self.line(row), name, held[0], held[1][:30])

    def line(self, row: int) -> int | None:
        """The line of a row in a CSV file."""
        return None if self.lines is None else int(self.lines[row])


def read_cells(table: Table, names: Sequence[str]) -> Cells:
    """The columns of a table as they stand, with whatever is wrong in them."""
    found: Cells = table.cells(names) if table.cells else Cells(table.read(names))
    return found


def _kind(cell: Any) -> str:
    """What is wrong with a cell that should be a number; empty if nothing is."""
    if cell is None or (isinstance(cell, str) and not cell) or str(cell) in MISSING[2:]:
        return "empty-cell"
    value = _number(cell)
    if value is None:
        return "decimal-comma" if COMMA.fullmatch(str(cell)) else "text"
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "infinite"
    return "beyond-float32" if abs(value) > LARGEST_FLOAT32 else ""


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def as_numbers(cells: npt.NDArray[Any]) -> Doubles:
    """The cells as numbers, NaN where a cell is none; a column that begins with a boolean holds them."""
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError):
        flags = BOOLEANS if str(cells.flat[0]).lower() in BOOLEANS else {}
        found = (flags.get(str(cell).lower(), _number(cell)) for cell in cells.ravel().tolist())
        return np.array([np.nan if x is None else x for x in found]).reshape(cells.shape)


def as_words(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The cells as text, with numbers spelled alike in every format; empty where there is nothing."""

    def word(cell: Any) -> str:
        text, value = str(cell).strip(), _number(cell)
        if text in MISSING:
            return ""
        return text if value is None or isinstance(cell, bool) else f"{value:.15g}"

    known = {cell: word(cell) for cell in set(cells.tolist())}
    return np.array([known[cell] for cell in cells.tolist()], object)


def as_seconds(cells: npt.NDArray[Any]) -> Doubles:
    """Times in seconds, from numbers or ISO 8601 date-times; NaN where a cell is neither."""
    if cells.dtype.kind == "M":
        seconds = cells.astype("M8[ns]").astype(np.int64) / 1e9
        return np.where(np.isnat(cells), np.nan, seconds)
    numbers = as_numbers(cells)
    return numbers if np.isfinite(numbers).any() else np.array(list(map(_second, cells.tolist())))


def _second(cell: Any) -> float:
    try:
        moment = cell if hasattr(cell, "timestamp") else datetime.fromisoformat(str(cell))
        return float((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return np.nan


def refuse_defect(defect: BadCell, file: str, rows: int, known: str = "") -> BadInput:
    """The exception for the first of several defects, which lie in so many rows."""
    in_all = f"{counted(rows, 'row')} in all, " if rows else ""
    where = f"row {defect.row} of {file} ({in_all}counted from 0)"
    if defect.line is not None:
        where = f"line {defect.line} of {file} (row {defect.row}, {in_all}counted from 0)"
    held = repr(defect.value)
    return refuse(
        defect.kind,
        {
            "empty-cell": f"{where} has no value for {defect.column}",
            "nan": f"{where} holds NaN for {defect.column}",
            "infinite": f"{where} holds an infinite value for {defect.column}",
            "ragged-row": f"{where} has {defect.value}",
            "text": f"{where} holds {held} for {defect.column}, not a number",
            "unknown-category": f"{where} holds {held} for {defect.column}, which has {known} only",
            "repeated-row": f"{where} repeats the row before it",
        }.get(defect.kind, f"{where}: {defect.column} {WORDS[defect.kind]} ({held})"),
    )


def list_defects(defects: Sequence[BadCell]) -> str:
    """The first of the defects, by column and line: `temp has no value in lines 4, 9; …`."""
    groups: dict[tuple[str, str], list[BadCell]] = {}
    for one in sorted(defects)[:LISTED]:
        groups.setdefault((one.column, one.kind), []).append(one)
    texts = []
    for (column, kind), several in groups.items():
        noun = "row" if several[0].line is None else "line"
        places = [str(one.row if one.line is None else one.line) for one in several]
        plural = "s" if len(places) > 1 else ""
        texts.append(f"{column} {WORDS[kind]} in {noun}{plural} {', '.join(places)}".strip())
    more = f"; and {len(defects) - LISTED:,} more" if len(defects) > LISTED else ""
    return "; ".join(texts) + more


@contextmanager
def collecting(report: str | Path | list[BadCell] | None) -> Iterator[dict[str, list[BadCell]]]:
    """The option `report` with a list; what is in it at the end, in any case, is written to the file `report`."""
    if not isinstance(report, str | Path):
        yield {} if report is None else {"report": report}
        return
    check_place(Path(report).absolute().parent)
    found: list[BadCell] = []
    try:
        yield {"report": found}
    finally:
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(("file", "line", "row", "column", "defect", "value"))
        table.writerows((one.file, one.line, one.row, *one[2:5]) for one in found)
        make_folder(Path(report).absolute().parent)
        write_bytes(Path(report), text.getvalue().encode())
