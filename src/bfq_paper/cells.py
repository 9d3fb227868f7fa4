# mypy: disable-error-code="valid-type"
"""Results of an experiment: cells of scores or times, and the file results/EXPERIMENT/result.json."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from filelock import FileLock
from msgspec import Meta, defstruct

from bfq import BadInput
from bfq.reports.statistics import Summary, summarize
from bfq_paper.experiments import EXPERIMENTS, Experiment
from bfq_paper.published import PAPER, Note, PaperNumber

NEAR = 2.0  # points of a normalized score below which a difference has no color
Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
Count = Annotated[int, Meta(ge=0)]
SUCCESS = "success in %"


@dataclass(frozen=True)
class Reading:
    """One way of scoring a cell, with a number per seed (of a time: per robot)."""

    name: str  # such as N = 50
    values: tuple[float | None, ...]  # None for a seed without a score
    record: dict[str, Any] = field(default_factory=dict)  # the protocol and all other scores

    @property
    def summary(self) -> Summary | None:
        """Mean and spread of the numbers."""
        found = [value for value in self.values if value is not None]
        return summarize(found) if found else None


@dataclass(frozen=True)
class Cell:
    """A cell of a table. The first reading is the one that the paper's table has."""

    row: str
    column: str
    unit: str = "normalized score"
    readings: tuple[Reading, ...] = ()
    state: Literal["done", "failed", "unfilled", "waiting"] = "done"
    why: str = ""  # it failed
    run: dict[str, Any] = field(default_factory=dict)  # settings, data, versions, device, folder

    @property
    def ours(self) -> Summary | None:
        """The score that is compared with the paper's."""
        return self.readings[0].summary if self.readings else None

    @property
    def folder(self) -> str:
        """The name of the run folder."""
        return Path(self.run.get("run", "")).name

    @property
    def source(self) -> tuple[str, str, str]:
        """Kind, name and SHA-256 of the data."""
        data = self.run.get("data", {})
        kind = self.run.get("source", {}).get("kind", "other")
        return kind, data.get("name", "unknown"), data.get("sha256") or "unknown"


class Average(NamedTuple):
    """The mean over a group of the paper's rows."""

    name: str
    column: str
    ours: float
    paper: float


@dataclass(frozen=True)
class Results:
    """An experiment with the cells that were run."""

    experiment: Experiment
    cells: tuple[Cell, ...] = ()
    commands: tuple[dict[str, Any], ...] = ()

    @property
    def rows(self) -> list[str]:
        """The rows that have cells."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """The columns that have cells."""
        found = dict.fromkeys(cell.column for cell in self.cells)
        order = [column.label for column in self.experiment.columns]
        return sorted(found, key=lambda name: order.index(name) if name in order else len(order))

    @property
    def units(self) -> str:
        """The units of the numbers."""
        return " or ".join(dict.fromkeys(cell.unit for cell in self.cells))

    @property
    def foremost(self) -> str:
        """The column that the experiment is about: BFQ's, else the first."""
        return "bfq" if "bfq" in self.columns else next(iter(self.columns), "")

    def of(self, row: str) -> list[Cell]:
        """The cells of a row."""
        return [cell for cell in self.cells if cell.row == row]

    def at(self, row: str, column: str) -> Cell | None:
        """One cell."""
        return next((cell for cell in self.of(row) if cell.column == column), None)

    def with_cells(self, cells: Iterable[Cell]) -> "Results":
        """The same results with these cells added or replaced, in the order of the experiment."""
        found = {(cell.row, cell.column): cell for cell in (*self.cells, *cells) if cell.readings}
        whole = replace(self, cells=tuple(found.values()))
        rows, columns = [*dict.fromkeys((*self.experiment.rows, *whole.rows))], whole.columns
        order = sorted(found.values(), key=lambda c: (rows.index(c.row), columns.index(c.column)))
        return replace(self, cells=tuple(order))

    def with_command(self, command: dict[str, Any]) -> "Results":
        """The same results with a command, which replaces an earlier one with the same words and device."""
        same = ("command", "device")
        others = [c for c in self.commands if any(c[name] != command[name] for name in same)]
        return replace(self, commands=(*others, command))

    def paper(self, cell: Cell) -> PaperNumber | None:
        """The paper's number for a cell."""
        if self.experiment.table is None:
            return None
        return PAPER[self.experiment.table].get(*self._place(cell))

    def notes(self, cell: Cell) -> list[Note]:
        """Corrections of the paper's number for a cell."""
        if self.experiment.table is None or self.paper(cell) is None:
            return []
        return PAPER[self.experiment.table].notes_on(*self._place(cell))

    def difference(self, cell: Cell) -> float | None:
        """Ours minus the paper's, except in a quick run."""
        printed = self.paper(cell)
        if cell.ours is None or printed is None or self.experiment.quick:
            return None
        return cell.ours.mean - printed.value

    def verdict(self, cell: Cell) -> str:
        """gain, loss or same, by the difference; times of different devices have none."""
        difference = self.difference(cell)
        if difference is None or self.experiment.kind == "speed":
            return ""
        return "same" if abs(difference) <= NEAR else "gain" if difference > 0 else "loss"

    def averages(self) -> list[Average]:
        """Means over the paper's groups of rows, for columns in which each row of the group is filled."""
        if self.experiment.table is None or self.experiment.quick:
            return []
        table, found = PAPER[self.experiment.table], []
        for name, rows in table.groups.items():
            for column in self.columns:
                cells = [self.at(row, column) for row in rows]
                means = [cell.ours.mean for cell in cells if cell and cell.ours]
                if len(means) == len(rows) and (name, column) in table.averages:
                    paper = table.recomputed(name, column)
                    found.append(Average(name, column, fmean(means), paper))
        return found

    def _place(self, cell: Cell) -> tuple[str, str]:
        """Row and column in the paper, whose table of times has a row per method."""
        speed = self.experiment.kind == "speed"
        return (cell.column, cell.row) if speed else (cell.row, cell.column)


# Types of the file, which may come from another machine. Unknown keys are kept.
_STATE, _NUMBERS = Literal["done", "failed", "unfilled", "waiting"], list[Number | None]
_Protocol = defstruct("_Protocol", [("episodes", Count), ("candidates", Count)])
_Reading = defstruct(
    "_Reading",
    [("name", str), ("values", _NUMBERS), ("protocol", _Protocol | None, None),
     ("scores", dict[str, _NUMBERS | None], {})],
)  # fmt: skip
_Data = defstruct("_Data", [("name", str), ("sha256", str | None)])
_Member = defstruct("_Member", [("seed", int), ("overrides", dict[str, float])])
_Evaluations = defstruct("_Evaluations", [("steps", list[int]), ("normalized", list[_NUMBERS], [])])
_Source = defstruct("_Source", [("kind", str), ("words", str)])
_Cell = defstruct(
    "_Cell",
    [("row", str), ("column", str), ("state", _STATE), ("unit", str), ("readings", list[_Reading]),
     *((name, str, "") for name in ("why", "run", "agent", "command", "finished")),
     ("steps", int, 0), ("precision", str | None, None), ("device", str | None, None),
     ("data", _Data | None, None), ("source", _Source | None, None), ("config", dict[str, Any], {}),
     ("members", list[_Member], []), ("evaluations", _Evaluations | None, None),
     ("versions", dict[str, str], {})],
)  # fmt: skip
_Command = defstruct(
    "_Command",
    [("command", str), ("device", str), ("versions", dict[str, str]), ("seconds", float)],
)
_File = defstruct(
    "_File",
    [("experiment", str), ("cells", list[_Cell]), ("quick", bool, False), ("commands", list[_Command], [])],
)  # fmt: skip
OWN = ("row", "column", "state", "why", "unit", "readings")


def read_results(folder: Path) -> Results:
    """The results in a folder, checked against the types above."""
    path = folder / "result.json"
    try:
        text = path.read_bytes()
        checked: Any = msgspec.json.decode(text, type=_File)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not a file of `bfq reproduce`: {error}.") from error
    if checked.experiment not in EXPERIMENTS:
        raise BadInput(f"{path}: there is no experiment {checked.experiment!r}.")
    experiment = replace(EXPERIMENTS[checked.experiment], quick=checked.quick)
    content = json.loads(text)
    if experiment.symbol and not all(_is_number(cell.column) for cell in checked.cells):
        raise BadInput(f"{path}: a column is not a value of {experiment.symbol}.")
    cells = [_cell(cell) for cell in content["cells"]]
    found = Results(experiment, commands=tuple(content.get("commands", ())))
    return found.with_cells(cells)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e30
    except ValueError:
        return False


def _cell(content: dict[str, Any]) -> Cell:
    readings = tuple(
        Reading(rest.pop("name"), tuple(rest.pop("values")), rest)
        for rest in map(dict, content["readings"])
    )
    plain = {name: content.get(name, "") for name in OWN}
    run = {name: value for name, value in content.items() if name not in OWN}
    return Cell(**(plain | {"readings": readings}), run=run)


def results_in(out: Path, experiment: Experiment) -> Results:
    """The results of an experiment in the folder of all results, empty if there are none."""
    folder = out / experiment.folder
    if not (folder / "result.json").exists():
        return Results(experiment)
    found = read_results(folder)
    if found.experiment.folder != experiment.folder:
        raise BadInput(f"{folder} has the results of {found.experiment.folder}: move them away.")
    return found


def write_results(results: Results, folder: Path) -> None:
    """Write result.json."""
    content = {
        "experiment": results.experiment.name,
        "quick": results.experiment.quick,
        "cells": [
            {
                **{name: getattr(cell, name) for name in OWN[:-1]},
                "readings": [
                    {"name": r.name, "values": r.values} | r.record for r in cell.readings
                ],
                **cell.run,
            }
            for cell in results.cells
        ],
        "commands": results.commands,
    }
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    write_file(folder / "result.json", f"{text}\n".encode())


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is complete or absent."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def lock(folder: Path, timeout: float = -1) -> FileLock:
    """A lock between processes that write to a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror}.") from error
    return FileLock(folder / ".lock", timeout=timeout)


def add_results(out: Path, new: Results, cells: Sequence[Cell]) -> Results:
    """Add cells and commands to what the file of an experiment has now; other processes may write too."""
    with lock(out / new.experiment.folder):
        found = results_in(out, new.experiment).with_cells(cells)
        for command in new.commands:
            found = found.with_command(command)
        write_results(found, out / new.experiment.folder)
    return found


def newer_cells(ours: Results, theirs: Results) -> list[Cell]:
    """The cells of other results that are not ours yet, or whose run finished later."""

    pairs = [(cell, ours.at(cell.row, cell.column)) for cell in theirs.cells]

    def finished(cell: Cell) -> str:
        return str(cell.run.get("finished", ""))

    return [c for c, old in pairs if not old or (c != old and finished(c) >= finished(old))]
