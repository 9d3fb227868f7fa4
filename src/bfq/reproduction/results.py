"""What an experiment leaves in its folder: numbers, a table, pictures and a page, each whole or absent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from bfq.errors import BadInput
from bfq.files import make_folder, read_json, write_bytes, write_json
from bfq.provenance import versions
from bfq.reproduction import successes
from bfq.reproduction.cells import Cell, Outcome, Reading
from bfq.reproduction.experiments import get_experiment
from bfq.reproduction.sources import Source
from bfq.reproduction.table import markdown
from bfq.reproduction.together import together

SAID = (  # of a cell in result.json, beside what it depends on
    "row", "column", "state", "why", "unit", "paper", "difference", "notes", "readings", "successes",
)  # fmt: skip


def write_numbers(outcome: Outcome, out: Path, command: str, seconds: float) -> None:
    """The numbers with all that they depend on, and the table of them."""
    folder = folder_of(outcome, out)
    make_folder(folder)
    write_json(folder / "result.json", record(outcome, command, seconds))
    write_bytes(folder / "table.md", markdown(outcome).encode())


def write_pictures(outcome: Outcome, out: Path) -> list[Path]:
    """The figures, and the page that holds them."""
    from bfq.reproduction.figures import figures  # they draw: seconds of imports that training need not await
    from bfq.reproduction.page import page_of
    from bfq.reproduction.strips import strips

    folder = folder_of(outcome, out)
    at_work = strips(outcome)
    drawn = [*figures(outcome, out), *at_work.drawn]
    paths = {folder / figure.file: figure.png for figure in drawn}
    paths[folder / "index.html"] = page_of(outcome, drawn, at_work.missing).encode("utf-8", "replace")
    for path, content in paths.items():
        write_bytes(path, content)
    return list(paths)


def folder_of(outcome: Outcome, out: Path) -> Path:
    """A quick run does not take the place of a real one."""
    name = outcome.experiment.name
    return out / (f"{name}-quick" if outcome.experiment.quick else name)


def record(outcome: Outcome, command: str, seconds: float) -> dict[str, Any]:
    """The content of result.json."""
    experiment, whole = outcome.experiment, together(outcome)
    return {
        "experiment": experiment.name,
        "title": experiment.heading,
        "quick": experiment.quick,
        "about": experiment.about,
        "table": experiment.table,
        "sources": [source._asdict() for source in outcome.sources],
        "cells": [_cell(outcome, cell) for cell in outcome.cells],
        "averages": [average._asdict() for average in outcome.averages()],
        "together": whole.describe() if whole else None,
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "command": command,
        "seconds": seconds,
    }


def read_outcome(folder: Path) -> Outcome:
    """The outcome that `write_numbers` left in a folder."""
    path = folder / "result.json"
    told = read_json(path)
    try:
        experiment = replace(get_experiment(told["experiment"]), quick=told["quick"])
        cells = tuple(map(_read_cell, told["cells"]))
        sources = tuple(Source(**source) for source in told["sources"])
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path} is not what `bfq reproduce` writes: {error!r}.") from error
    folders = dict.fromkeys(cell.provenance["run"] for cell in cells if "run" in cell.provenance)
    return Outcome(experiment, sources, cells, tuple(folders))


def _read_cell(told: dict[str, Any]) -> Cell:
    readings = tuple(
        Reading(
            each["name"],
            tuple(each["values"]),
            {name: value for name, value in each.items() if name not in ("name", "values", "summary")},
        )
        for each in told["readings"]
    )
    kept = {name: value for name, value in told.items() if name not in SAID}
    plain = {name: told[name] for name in ("row", "column", "state", "why", "unit")}
    return Cell(**plain, readings=readings, provenance=kept)


def _cell(outcome: Outcome, cell: Cell) -> dict[str, Any]:
    printed, counted = outcome.paper(cell), successes.pooled(cell)
    rates = [each.describe() for each in successes.by_seed(cell)]
    return {
        "row": cell.row,
        "column": cell.column,
        "state": cell.state,
        "why": cell.why,
        "unit": cell.unit,
        "paper": printed._asdict() if printed else None,
        "difference": outcome.difference(cell),
        "notes": [note.text for note in outcome.notes(cell)],
        "readings": [reading.describe() for reading in cell.readings],
        "successes": {**counted.describe(), "by_seed": rates} if counted else None,
        **cell.provenance,
    }
