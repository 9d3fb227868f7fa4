"""What the cells of one table do not share: told at the cell, so that nothing is compared unawares."""

from collections.abc import Callable, Collection
from typing import Any

from bfq_paper.results.cells import Cell, Outcome

WORDS = "Data: the cells of that row learned from different data, so that they do not compare the methods alone."
SHARED: dict[
    str, dict[str, Callable[[Cell], Any]]
] = {  # by the kind of an experiment, what all should share
    "scores": {
        "episodes": lambda cell: cell.readings[0].record.get("protocol", {}).get("episodes"),
        "precision": lambda cell: cell.provenance.get("precision"),
    },
    "speed": {"device": lambda cell: cell.provenance.get("device")},
    "toy": {},
}


def differing(outcome: Outcome, cell: Cell) -> dict[str, str]:
    """What a cell has of its own, by name; empty texts where all cells have the same."""
    done = [each for each in outcome.cells if each.ours]
    told = {
        name: str(of(cell)) if len({of(each) for each in done}) > 1 else ""
        for name, of in SHARED[outcome.experiment.kind].items()
    }
    return {"data": data_of(outcome, cell), **told}


def data_of(outcome: Outcome, cell: Cell) -> str:
    """The data of a cell where its row has several: the kind, or the name, or the digest as well."""
    if cell.ours is None:
        return ""
    found = {_data(each) for each in outcome.of(cell.row) if each.ours}
    if len(found) == 1:
        return ""
    kind, name, digest = _data(cell)
    if len({each[0] for each in found}) == len(found):
        return f"{kind} data"
    alone = len({each[1] for each in found}) == len(found)
    return name if alone else f"{name}, SHA-256 {digest[:8]}…"


def rows_of_several(outcome: Outcome) -> list[str]:
    """The rows whose cells do not all have the same data."""
    return list(dict.fromkeys(cell.row for cell in outcome.cells if data_of(outcome, cell)))


def warning(outcome: Outcome, rows: Collection[str]) -> str:
    """A sentence more for a caption where some of these rows have several data; else nothing."""
    found = [row for row in rows_of_several(outcome) if row in rows]
    return f" From different data: {', '.join(found)}." if found else ""


def of_one_name(outcome: Outcome, row: str) -> bool:
    """Whether all cells of a row have data of one name: the same recipe, be it made on two machines."""
    return len({_data(cell)[1] for cell in outcome.of(row) if cell.ours}) <= 1


def _data(cell: Cell) -> tuple[str, str, str]:
    source, told = (cell.provenance.get(name, {}) for name in ("source", "data"))
    return source.get("kind", "other"), told.get("name", "unknown"), told.get("sha256") or "unknown"
