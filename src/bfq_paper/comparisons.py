"""What the rows of an experiment say together: methods over the same rows, and successes."""

from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from bfq.reports.statistics import (
    Estimate,
    Interval,
    mean_over_tasks,
    pooled_interquartile_mean,
    probability_of_improvement,
    wilson,
)
from bfq_paper.cells import SUCCESS, Cell, Results

Seeds = dict[str, list[float]]  # by row: the scores of all seeds


class Standing(NamedTuple):
    """One method over all shared rows."""

    column: str
    mean: Estimate
    interquartile_mean: Estimate
    improvement: Estimate | None  # probability that the foremost method is better than this one


@dataclass(frozen=True)
class SharedRows:
    """Several methods over the same rows."""

    foremost: str  # empty in a sweep over one hyperparameter
    rows: tuple[str, ...]
    methods: tuple[Standing, ...]
    left_out: tuple[str, ...]  # methods that lack some of these rows


class Rival(NamedTuple):
    """The best other method of a row."""

    row: str
    column: str
    ours: float
    theirs: float


class Rivals(NamedTuple):
    """The foremost method minus the best other method, per row and on average."""

    rows: tuple[Rival, ...]
    difference: Estimate


def complete_rows(results: Results, column: str) -> Seeds:
    """The rows in which every seed of a column has a score and all methods used data of one name."""
    cells = [cell for row in results.rows if (cell := results.at(row, column))]
    found = {cell.row: cell.readings[0].values for cell in cells if cell.readings}
    return {
        row: [value for value in values if value is not None]
        for row, values in found.items()
        if None not in values and uses_one_dataset(results, row)
    }


def shared_scores(results: Results) -> dict[str, Seeds]:
    """The scores of methods on rows that all of them have, foremost method first.

    The rows are the most that another method shares with the foremost, and the methods those that have
    all of these rows. No method gains by leaving out a hard row or by losing a seed.
    """
    if results.experiment.kind != "scores":
        return {}
    found = {column: rows for column in results.columns if (rows := complete_rows(results, column))}
    first = found.get(results.foremost, {})
    others = [rows for column, rows in found.items() if column != results.foremost]
    most = max(([row for row in first if row in rows] for rows in others), key=len, default=[])
    chosen = {name: rows for name, rows in found.items() if all(row in rows for row in most)}
    shared = [row for row in results.rows if all(row in rows for rows in chosen.values())]
    if len(chosen) < 2 or not shared:
        return {}
    order = sorted(chosen, key=lambda name: name != results.foremost)
    return {name: {row: chosen[name][row] for row in shared} for name in order}


def compare_methods(results: Results) -> SharedRows | None:
    """Means, interquartile means and probabilities of improvement over shared rows."""
    scores = shared_scores(results)
    if not scores:
        return None
    first = next(iter(scores))
    foremost = first if first == results.foremost and not results.experiment.symbol else ""

    def standing(column: str) -> Standing:
        own = scores[column]
        better = foremost and column != foremost
        improvement = probability_of_improvement(scores[foremost], own) if better else None
        return Standing(column, mean_over_tasks(own), pooled_interquartile_mean(own), improvement)

    left_out = [c for c in results.columns if c not in scores and complete_rows(results, c)]
    rows = tuple(scores[first])
    return SharedRows(foremost, rows, tuple(map(standing, scores)), tuple(left_out))


def compare_with_best(results: Results) -> Rivals | None:
    """BFQ and the best other method of each row, by the mean of the very seeds it is judged by."""
    if not results.experiment.compares_methods or results.foremost != "bfq":
        return None
    found = {column: complete_rows(results, column) for column in results.columns}
    ours = found.pop("bfq")
    rivals: list[Rival] = []
    seeds: Seeds = {}
    for row, mine in ours.items():
        others = {column: rows[row] for column, rows in found.items() if row in rows}
        if others:
            best = max(others, key=lambda column: fmean(others[column]))
            rivals.append(Rival(row, best, fmean(mine), fmean(others[best])))
            seeds |= {f"{row}, ours": mine, f"{row}, theirs": [-value for value in others[best]]}
    if not rivals:
        return None
    half, interval = mean_over_tasks(seeds)  # the mean of ours and −theirs is half the difference
    doubled = Interval(2 * interval.low, 2 * interval.high) if interval else None
    return Rivals(tuple(rivals), Estimate(2 * half, doubled))


class Successes(NamedTuple):
    """Successful episodes of all seeds."""

    reached: int
    episodes: int

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the rate."""
        return wilson(self.reached, self.episodes)


def successes(cell: Cell) -> Successes | None:
    """The successful episodes of a cell that is scored by success."""
    if cell.unit != SUCCESS or not cell.readings:
        return None
    record = cell.readings[0].record
    episodes = record.get("protocol", {}).get("episodes", 0)
    shares = [share for share in record.get("scores", {}).get("success") or [] if share is not None]
    if not shares or not episodes:
        return None
    return Successes(sum(round(share * episodes) for share in shares), episodes * len(shares))


def uses_one_dataset(results: Results, row: str) -> bool:
    """Whether all cells of a row have data of one name; bytes may differ between machines."""
    return len({cell.source[1] for cell in results.of(row) if cell.ours}) <= 1


def data_label(results: Results, cell: Cell) -> str:
    """The data of a cell if the cells of its row have different data: its kind, name or SHA-256."""
    found = {each.source for each in results.of(cell.row) if each.ours}
    if len(found) == 1:
        return ""
    kind, name, digest = cell.source
    if len({each[0] for each in found}) == len(found):
        return f"{kind} data"
    alone = len({each[1] for each in found}) == len(found)
    return name if alone else f"{name}, SHA-256 {digest[:8]}…"


def mixed_rows(results: Results) -> list[str]:
    """The rows whose cells have different data."""
    cells = [cell for cell in results.cells if cell.ours and data_label(results, cell)]
    return list(dict.fromkeys(cell.row for cell in cells))
