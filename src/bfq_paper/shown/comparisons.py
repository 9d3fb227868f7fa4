"""Methods beside each other over rows: tables of their own, as far as enough rows are filled."""

from typing import NamedTuple

from bfq.reports.statistics import ABSENT, estimate_text, number_text
from bfq.reports.tables import describe_pooling
from bfq_paper.results.cells import Outcome
from bfq_paper.results.rivals import rivals
from bfq_paper.results.together import Standing, Together, together
from bfq_paper.shown.table import signed

STUDENT = ", with a 95% interval by Student's t after Welch and Satterthwaite"
TOGETHER = "Methods over the same rows"
LEFT_OUT = "Without {}, which do not have all of them."
OVER_ROWS = (
    "Over rows in which these methods learned from data of one name and every seed has a score ({}). Mean: of "
    "the rows' means{}."
)
IMPROVEMENT = (
    "Last column: how likely a run of {} scores above one of the method{}; 0.5 is no difference."
)
BOOTSTRAP = ", with a 95% stratified bootstrap interval"
RIVALS = "{} beside the best other method of each row"
BESIDE = (
    "Over the rows in which {0} and another method have a score of every seed and data of one name. The best "
    "other method is the one with the highest mean of these very seeds, of those that were run, which "
    "flatters it."
)
LAST = "In the last line the mean of the differences{}."


class Comparison(NamedTuple):
    """Methods beside each other: a table of its own."""

    title: str
    head: list[str]
    lines: list[list[str]]
    words: str  # how to read it


def comparisons(outcome: Outcome) -> list[Comparison]:
    """What the rows say together, as far as enough of them are filled."""
    return [each for each in (_all_methods(outcome), _rivals(outcome)) if each]


def _rivals(outcome: Outcome) -> Comparison | None:
    """BFQ and the best other of each row."""
    found = rivals(outcome)
    if found is None:
        return None
    lines = [
        [
            r.row,
            number_text(r.ours, 1),
            f"{number_text(r.theirs, 1)} {r.column}",
            signed(r.ours - r.theirs),
        ]
        for r in found.rows
    ]
    words = BESIDE.format(found.foremost)
    if len(lines) > 1:
        lines.append(["mean", ABSENT, ABSENT, estimate_text(found.difference)])
        words += f" {LAST.format(STUDENT if found.difference.interval else '')}"
    head = [found.foremost, "the best other", "difference"]
    return Comparison(RIVALS.format(found.foremost), head, lines, words)


def _all_methods(outcome: Outcome) -> Comparison | None:
    """The methods that have the same rows, over these."""
    found = together(outcome)
    if found is None:
        return None
    last = [f"{found.foremost} is better"] if found.foremost else []
    head = ["mean", "interquartile mean", *last]
    lines = [_over_rows(outcome, found, each) for each in found.standings]
    return Comparison(TOGETHER, head, lines, _words(outcome, found))


def _words(outcome: Outcome, found: Together) -> str:
    """How to read it: of intervals only where there are some."""
    means = any(each.mean.interval for each in found.standings)
    pooled = any(each.interquartile_mean.interval for each in found.standings)
    better = any(each.improvement and each.improvement.interval for each in found.standings)
    words = [
        OVER_ROWS.format(", ".join(found.rows), STUDENT if means else ""),
        describe_pooling(pooled),
    ]
    last = (
        [IMPROVEMENT.format(found.foremost, BOOTSTRAP if better else "")] if found.foremost else []
    )
    absent = [LEFT_OUT.format(", ".join(map(outcome.experiment.named, found.left_out)))]
    return " ".join((*words, *last, *(absent if found.left_out else ())))


def _over_rows(outcome: Outcome, found: Together, each: Standing) -> list[str]:
    """A method's line."""
    cells = [estimate_text(each.mean), estimate_text(each.interquartile_mean)]
    better = (
        [estimate_text(each.improvement, 2) if each.improvement else ABSENT]
        if found.foremost
        else []
    )
    return [outcome.experiment.named(each.column), *cells, *better]
