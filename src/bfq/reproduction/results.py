"""What an experiment leaves in its folder: numbers, a table, pictures and a page, each whole or absent."""

from pathlib import Path
from typing import Any

import jax

from bfq.files import make_folder, write_bytes, write_json
from bfq.provenance import versions
from bfq.reproduction.cells import Cell, Outcome
from bfq.reproduction.table import markdown


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

    folder = folder_of(outcome, out)
    drawn = figures(outcome, out)
    paths = {folder / figure.file: figure.png for figure in drawn}
    paths[folder / "index.html"] = page_of(outcome, drawn).encode("utf-8", "replace")
    for path, content in paths.items():
        write_bytes(path, content)
    return list(paths)


def folder_of(outcome: Outcome, out: Path) -> Path:
    """A quick run does not take the place of a real one."""
    name = outcome.experiment.name
    return out / (f"{name}-quick" if outcome.experiment.quick else name)


def record(outcome: Outcome, command: str, seconds: float) -> dict[str, Any]:
    """The content of result.json."""
    experiment = outcome.experiment
    return {
        "experiment": experiment.name,
        "title": experiment.heading,
        "quick": experiment.quick,
        "about": experiment.about,
        "table": experiment.table,
        "sources": [source._asdict() for source in outcome.sources],
        "cells": [_cell(outcome, cell) for cell in outcome.cells],
        "averages": [average._asdict() for average in outcome.averages()],
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "command": command,
        "seconds": seconds,
    }


def _cell(outcome: Outcome, cell: Cell) -> dict[str, Any]:
    printed = outcome.paper(cell)
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
        **cell.provenance,
    }
