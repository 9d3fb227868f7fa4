"""Speed against quality: how often the timed methods act, and how well they do where all were scored."""

from pathlib import Path
from statistics import fmean

from bfq_paper.frequency_figure import Point, frequency_figure
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.published import TABLES
from bfq_paper.results.cells import Outcome
from bfq_paper.results.mixed import of_one_name, warning
from bfq_paper.results.stored import earlier_of
from bfq_paper.shown.markup import Drawn

FILE = "frequency_and_score.png"
SCORED = "main"  # the experiment whose scores are taken
CAPTION = (
    "Full: measured here. Hollow: the paper's. Scores: mean over {} of the experiment main: {}."
)
Scores = dict[str, dict[str, float]]  # by agent, then by row


def frequency_and_score(outcome: Outcome, results: Path) -> list[Drawn]:
    """The figure, where the experiment of the scores has been run beside this one."""
    scored = None if outcome.experiment.quick else earlier_of(EXPERIMENTS[SCORED], results)
    if scored is None:
        return []
    # The first of an agent has the steps with which it was scored: the paper's table has more of DQL's.
    first = {_agent(cell.column): cell for cell in reversed(outcome.of("frequency")) if cell.ours}
    timed = {cell.column: cell for cell in first.values()}
    scores = {name: found for name in timed if (found := _scores(scored, _agent(name)))}
    rows = sorted(set.intersection(*map(set, scores.values()))) if scores else []
    if not rows or len(scores) < 2:  # one point is beside nothing
        return []
    printed = TABLES[outcome.experiment.table or ""], TABLES["full"]
    ours, paper = {}, {}
    for name, found in scores.items():
        told = timed[name].ours
        assert told is not None
        ours[name] = Point(told.mean, fmean(found[row] for row in rows))
        speed, theirs = (
            printed[0].get(name, "frequency"),
            [printed[1].get(r, _agent(name)) for r in rows],
        )
        if speed and all(theirs):
            paper[name] = Point(speed.value, fmean(each.value for each in theirs if each))
    title = "Frequency and score"
    picture = frequency_figure(ours, title, paper)
    caption = CAPTION.format("the row" if len(rows) == 1 else f"{len(rows)} rows", ", ".join(rows))
    caption += warning(scored, rows)
    return [Drawn(FILE, title, picture, caption)] if picture else []


def _agent(name: str) -> str:
    """The agent of `dql-5` is dql."""
    return name.partition("-")[0]


def _scores(scored: Outcome, agent: str) -> dict[str, float]:
    """The means of an agent, of the rows whose cells all learned from data of one name."""
    done = [cell for cell in scored.cells if cell.column == agent and cell.state == "done"]
    return {
        cell.row: cell.ours.mean for cell in done if cell.ours and of_one_name(scored, cell.row)
    }
