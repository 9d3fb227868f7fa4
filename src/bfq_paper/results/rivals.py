"""BFQ beside the best other method of each row: a table need not be full for it."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from bfq.reports.statistics import Estimate, Interval, mean_over_tasks
from bfq_paper.results.cells import Outcome
from bfq_paper.results.together import plain, whole_rows


class Rival(NamedTuple):
    """The best other method of a row, by the means of the same seeds that it is then judged by."""

    row: str
    column: str
    ours: float
    theirs: float


@dataclass(frozen=True)
class Rivals:
    """Ours less the best other's, row by row and together."""

    foremost: str
    rows: tuple[Rival, ...]
    difference: Estimate

    def describe(self) -> dict[str, Any]:
        """For result.json."""
        return {
            "foremost": self.foremost,
            "rows": [rival._asdict() for rival in self.rows],
            "difference": plain(self.difference),
        }


def rivals(outcome: Outcome) -> Rivals | None:
    """The foremost method beside the best other of each row; None where there are no others or no methods."""
    if not outcome.experiment.compares_methods or outcome.foremost != "bfq":
        return None
    found = {column: whole_rows(outcome, column) for column in outcome.columns}
    ours = found.pop(outcome.foremost)
    rows: list[Rival] = []
    seeds: dict[str, list[float]] = {}
    for row, mine in ours.items():
        others = {column: scores[row] for column, scores in found.items() if row in scores}
        if not others:
            continue
        best = max(others, key=lambda column: fmean(others[column]))
        rows.append(Rival(row, best, fmean(mine), fmean(others[best])))
        seeds |= {f"{row}, ours": mine, f"{row}, theirs": [-value for value in others[best]]}
    if not rows:
        return None
    return Rivals(outcome.foremost, tuple(rows), _doubled(mean_over_tasks(seeds)))


def _doubled(estimate: Estimate) -> Estimate:
    """The mean of ours and of theirs with a minus is half their difference."""
    value, interval = estimate
    return Estimate(2 * value, Interval(2 * interval.low, 2 * interval.high) if interval else None)
