"""What the rows say together: methods over rows that all of them have; a seed is the unit."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from bfq.reports.statistics import (
    Estimate,
    mean_over_tasks,
    pooled_interquartile_mean,
    probability_of_improvement,
)
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.mixed import of_one_name

Methods = dict[str, dict[str, list[float]]]  # by column, then by row: the seeds


class Standing(NamedTuple):
    """One method over all rows."""

    column: str
    mean: Estimate
    interquartile_mean: Estimate
    improvement: Estimate | None  # how likely the foremost method is better than this one


@dataclass(frozen=True)
class Together:
    """All methods over the same rows."""

    foremost: str  # the method whose improvement over the others is told; empty where none is
    rows: tuple[str, ...]
    standings: tuple[Standing, ...]
    left_out: tuple[str, ...] = ()  # methods that have some of these rows and not all

    def describe(self) -> dict[str, Any]:
        """For result.json."""
        told = [
            {
                "column": each.column,
                **{name: plain(getattr(each, name)) for name in each._fields[1:]},
            }
            for each in self.standings
        ]
        lists = {"rows": list(self.rows), "left_out": list(self.left_out)}
        return {"foremost": self.foremost, **lists, "methods": told}


def common(outcome: Outcome) -> Methods:
    """The seeds of methods on rows that all of these have, the foremost first; of fewer than two none.

    The rows are the most that another method shares with the foremost, the methods those that have them all.
    (Where none is foremost, as in a sweep, it is all on the rows that all have.) A method is not better for
    having left out the hard rows, or for a hard seed that has no score, or for data of another recipe.
    """
    filled = _filled(outcome)
    first = filled.get(outcome.foremost, {})
    others = [rows for column, rows in filled.items() if column != outcome.foremost]
    most = max(([row for row in first if row in rows] for rows in others), key=len, default=[])
    chosen = {column: rows for column, rows in filled.items() if all(row in rows for row in most)}
    shared = [row for row in outcome.rows if all(row in rows for rows in chosen.values())]
    if len(chosen) < 2 or not shared:
        return {}
    order = sorted(chosen, key=lambda column: column != outcome.foremost)
    return {column: {row: chosen[column][row] for row in shared} for column in order}


def _filled(outcome: Outcome) -> Methods:
    """The methods with scores, and the rows in which every seed has one."""
    if outcome.experiment.kind != "scores":
        return {}
    found = {column: whole_rows(outcome, column) for column in outcome.columns}
    return {column: rows for column, rows in found.items() if rows}


def together(outcome: Outcome) -> Together | None:
    """The methods over the same rows; None where there are no two to compare.

    The values of a sweep have no foremost one that could improve over the others.
    """
    methods = common(outcome)
    if not methods:
        return None
    first = next(iter(methods))
    foremost = first if first == outcome.foremost and not outcome.experiment.symbol else ""
    standings = [
        Standing(
            column,
            mean_over_tasks(scores),
            pooled_interquartile_mean(scores),
            probability_of_improvement(methods[foremost], scores)
            if foremost not in ("", column)
            else None,
        )
        for column, scores in methods.items()
    ]
    left_out = tuple(column for column in _filled(outcome) if column not in methods)
    return Together(foremost, tuple(methods[first]), tuple(standings), left_out)


def whole_rows(outcome: Outcome, column: str) -> dict[str, list[float]]:
    """The rows of which every seed has a score, and whose methods learned from data of one name."""
    cells = [
        cell for row in outcome.rows if (cell := outcome.at(row, column)) and cell.state == "done"
    ]
    return {
        cell.row: values
        for cell in cells
        if (values := _seeds(cell)) and of_one_name(outcome, cell.row)
    }


def _seeds(cell: Cell) -> list[float]:
    values = cell.readings[0].values if cell.readings else ()
    return [] if None in values else [value for value in values if value is not None]


def plain(estimate: Estimate | None) -> dict[str, float | None] | None:
    """A number over tasks as JSON has it."""
    if estimate is None:
        return None
    low, high = estimate.interval or (None, None)
    return {"value": estimate.value, "low": low, "high": high}
