"""CSV files, plain or gzipped: read fast, and once more cell by cell if something is wrong.

The first line holds the names; cells are separated by commas, semicolons or tabs. pyarrow reads the file if
it is installed, otherwise NumPy does; the numbers are the same.
"""

import csv
import gzip
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bfq.data.cells import BOOLEANS, COMMA, BadCell, Cells, as_numbers, refuse_defect
from bfq.data.checks import is_number
from bfq.data.dataset import Arrays
from bfq.data.defects import refuse
from bfq.data.readers import Table, parsing
from bfq.errors import BadInput

SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Head:
    """What the first two lines contain."""

    names: list[str]
    kinds: list[str]  # number, bool or text, by the first row
    separator: str


def has_pyarrow() -> bool:
    """Whether the faster reader is installed."""
    return importlib.util.find_spec("pyarrow") is not None


@contextmanager
def open_csv(path: Path) -> Iterator[Table]:
    """The columns of a CSV file: numbers as float64, everything else as text."""
    head = _head(path)
    yield Table(
        head.names,
        lambda names: _read(path, head, names),
        by_column=True,
        cells=lambda names: _cells(path, head, names),
    )


def _read(path: Path, head: Head, names: Sequence[str]) -> Arrays:
    places = [head.names.index(name) for name in names]
    columns = _by_pyarrow(path, head, places) if has_pyarrow() else None
    if columns is None:
        columns = _by_numpy(path, head, places)
    columns = [column.astype(np.str_) if column.dtype == object else column for column in columns]
    bad = [~np.isfinite(column) for column in columns if column.dtype.kind == "f"]
    count = int(np.count_nonzero(np.any(bad, axis=0)))
    # NaN and infinite numbers are refused here, where their line and column are known.
    if count and (found := _first_defect(path, head, places, count)):
        raise found
    return dict(zip(names, columns, strict=True))


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """The lines of the file as text, without a byte order mark."""
    kind = "UTF-8 encoded CSV"
    with (
        parsing(path, kind),
        gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw,
    ):
        yield TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _head(path: Path) -> Head:
    with _opened(path) as file:
        line = file.readline()
        separator = max(SEPARATORS, key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
        if not any(names) or all(_kind(name) != "text" for name in names):
            begin = line.strip()[:40]
            raise refuse("no-header", f"the first line of {path.name}, {begin!r}, holds no names")
        first = next((row for row in csv.reader(file, delimiter=separator) if row), None)
    if first is None:
        raise refuse("no-rows", f"there is no row below the names in {path.name}")
    kinds = [_kind(cell.strip()) for cell in first] + ["number"] * (len(names) - len(first))
    return Head(names, kinds[: len(names)], separator)


def _kind(cell: str) -> str:
    """The kind of a cell; empty cells and decimal commas were meant to be numbers."""
    if cell.lower() in BOOLEANS:
        return "bool"
    return "number" if is_number(cell) or not cell or COMMA.fullmatch(cell) else "text"


def _by_pyarrow(path: Path, head: Head, places: Sequence[int]) -> list[npt.NDArray[Any]] | None:
    """The columns, or None if anything is unusual: the other reader then finds out what."""
    import pyarrow as pa
    from pyarrow import csv as reader

    types = {"number": pa.float64(), "bool": pa.bool_(), "text": pa.string()}
    labels = [str(place) for place in range(len(head.names))]  # names may repeat
    try:
        table = reader.read_csv(
            path,
            reader.ReadOptions(column_names=labels, skip_rows=1),
            reader.ParseOptions(delimiter=head.separator),
            reader.ConvertOptions(
                include_columns=[labels[place] for place in dict.fromkeys(places)],
                column_types={labels[place]: types[head.kinds[place]] for place in places},
                null_values=[],
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
    except (pa.ArrowException, OSError, ValueError):
        return None
    return [table[labels[place]].to_numpy() for place in places]


def _by_numpy(path: Path, head: Head, places: Sequence[int]) -> list[npt.NDArray[Any]]:
    kinds = [(str(place), object if head.kinds[place] == "text" else float) for place in places]
    bools: Any = {place: _boolean for place in places if head.kinds[place] == "bool"}
    try:
        with _opened(path) as file:
            file.readline()
            table = np.loadtxt(
                _whole(file, head), kinds, comments=None, delimiter=head.separator, usecols=places, ndmin=1,
                converters=bools or None, quotechar='"',
            )  # fmt: skip
    except BadInput as error:
        raise (_first_defect(path, head, places) or error) from error.__cause__
    return [table[name].copy() for name, _ in kinds]


def _whole(lines: IO[str], head: Head) -> Iterator[str]:
    """The lines, checked to have as many cells as the first: NumPy accepts longer ones."""
    count = len(head.names) - 1
    for line in lines:
        if line.count(head.separator) != count and '"' not in line and line.strip():
            raise ValueError("lines differ in their number of cells")
        yield line


def _boolean(cell: str) -> float:
    word = cell.strip().strip('"').lower()
    return BOOLEANS[word] if word in BOOLEANS else float(cell)


def _cells(path: Path, head: Head, names: Sequence[str]) -> Cells:
    """The columns as text, with the line of each row."""
    places = [head.names.index(name) for name in names]
    kept, lines, ragged = [], [], []
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=head.separator)
        next(reader)
        for row, cells in enumerate(filter(None, reader)):
            if len(cells) != len(head.names):
                found = f"{len(cells)} cells for {len(head.names)} names"
                ragged.append(BadCell(row, reader.line_num, "", "ragged-row", found))
                cells += [""] * len(head.names)
            kept.append([cells[place].strip() for place in places])
            lines.append(reader.line_num)
    columns = np.array(kept, object).reshape(-1, len(names)).T
    return Cells(dict(zip(names, columns, strict=True)), np.array(lines), ragged)


def _first_defect(path: Path, head: Head, places: Sequence[int], rows: int = 0) -> BadInput | None:
    """Search the file cell by cell for the first defect."""
    cells = _cells(path, head, [head.names[place] for place in places])
    found = list(cells.ragged)
    for name, column in cells.columns.items():
        words = head.kinds[head.names.index(name)] == "text"
        wrong = (column == "") if words else ~np.isfinite(as_numbers(column))
        found += islice(cells.defects(name, wrong), 1)
    return refuse_defect(min(found), path.name, rows) if found else None
