"""Results over several commands and machines: what was found before stays until something takes its place."""

from collections.abc import Sequence
from dataclasses import replace

from bfq.reproduction.cells import Cell, Outcome
from bfq.reproduction.sources import Source


def taken(outcome: Outcome, cells: Sequence[Cell], sources: Sequence[Source] = ()) -> Outcome:
    """An outcome with these cells in their places: what has no numbers does not replace what has."""
    found = {(cell.row, cell.column): cell for cell in outcome.cells}
    for cell in cells:
        before = found.get((cell.row, cell.column))
        if cell.readings or not (before and before.readings):
            found[cell.row, cell.column] = cell
    whole = replace(outcome, cells=tuple(found.values()))
    order = list(dict.fromkeys((*outcome.experiment.rows, *whole.rows)))
    columns = whole.columns
    ordered = sorted(found.values(), key=lambda cell: (order.index(cell.row), columns.index(cell.column)))
    return replace(whole, cells=tuple(ordered), sources=_sources(outcome, sources, order))


def _sources(outcome: Outcome, sources: Sequence[Source], order: Sequence[str]) -> tuple[Source, ...]:
    """A row's last source; one without data tells nothing of a row that had some."""
    found = {source.task: source for source in outcome.sources}
    for source in sources:
        if source.data or not found.get(source.task, source).data:
            found[source.task] = source
    return tuple(sorted(found.values(), key=lambda source: order.index(source.task)))
