"""The heading over a picture of an experiment, and what to see in it, as far as it is drawn."""

from collections.abc import Iterable, Sequence

from bfq.reports import Run
from bfq.reports.figures import curve_caption, score_caption
from bfq_paper.results.cells import Cell, Outcome

FEW = 4  # columns that can be bars beside each other
TOY = "toy.png"  # the one that cannot be drawn from numbers
TIMED = {"frequency": "frequency.png", "training time": "training_time.png"}  # of each measure
# What a folder may hold, in the order in which it is shown where all of it is.
HEADINGS = {
    "frequency_and_score.png": "Frequency and score",
    "radar.png": "All tasks at once",
    "ablation.png": "Along {}",
    "scores.png": "Scores",
    "frequency.png": "Frequency",
    "training_time.png": "Training time",
    TOY: "Samples",
    "profiles.png": "Performance profiles",
    "learning_curves.png": "Learning curves",
}


def heading(file: str, outcome: Outcome) -> str:
    """Of a picture; the experiment's own title stands over the page."""
    return outcome.experiment.entitled(HEADINGS[file].format(outcome.experiment.symbol))


def caption(file: str, outcome: Outcome, runs: Sequence[Run]) -> str:
    """How to read a picture: of nothing that is not in it."""
    if file == "learning_curves.png":
        return curve_caption(*runs)
    if file == "scores.png" and not has_bars(outcome):
        return score_caption(runs)
    return {
        "ablation.png": _sweep,
        "scores.png": _bars,
        "radar.png": _radar,
        "frequency.png": lambda made: _steps(made, "frequency"),
        "training_time.png": lambda made: _steps(made, "training time"),
        TOY: _toy,
    }[file](outcome)


def has_bars(outcome: Outcome) -> bool:
    """Whether the columns are few enough to be bars beside each other, in `scores.png`."""
    return len(outcome.columns) <= FEW


def _sweep(outcome: Outcome) -> str:
    """Of scores along a value."""
    seeds = "mean over seeds, with a band of one standard deviation and a dot a seed"
    return _joined(
        f"Line: {seeds if _several(outcome) else 'one seed'}.",
        "Dashed: the paper's.",
        outcome.cells,
        outcome,
    )


def _bars(outcome: Outcome) -> str:
    """Of scores as bars."""
    seeds = "mean over seeds, with one standard deviation and a dot a seed"
    return _joined(
        f"Bar: {seeds if _several(outcome) else 'one seed'}.",
        "Hollow: the paper's.",
        outcome.cells,
        outcome,
    )


def _steps(outcome: Outcome, row: str) -> str:
    """Of a time along the inner steps."""
    words = "Against the inner steps of a method."
    return _joined(words, "Dashed: the paper's, on its own machine.", outcome.of(row), outcome)


def _radar(outcome: Outcome) -> str:
    """Of all tasks in a round."""
    words = "An axis a task, from 0 to the best of all at the rim."
    ours = [cell for cell in outcome.cells if cell.column == "bfq"]
    return _joined(words, "Dashed: the paper's BFQ.", ours, outcome)


def _toy(outcome: Outcome) -> str:
    """Of the checkerboard, whose picture is of one seed and whose table of all."""
    told = next((cell.provenance for cell in outcome.cells if cell.readings), {})
    seeds = told.get("settings", {}).get("seeds")
    seed = seeds[0] if isinstance(seeds, list) and seeds else None
    picture = (
        "The picture is of the first seed" if seed is None else f"The picture is of seed {seed}"
    )
    table = ", the table has means over seeds" if _several(outcome) else ""
    return f"Black: the truth. Blue: what each method makes of the same noise. {picture}{table}."


def _joined(words: str, printed: str, cells: Iterable[Cell], outcome: Outcome) -> str:
    """With a sentence on the paper's numbers where one of these cells has one that is drawn."""
    theirs = not outcome.experiment.quick and any(
        outcome.paper(cell) for cell in cells if cell.ours
    )
    return f"{words} {printed}" if theirs else words


def _several(outcome: Outcome) -> bool:
    """Whether some number is of more than one seed."""
    return any(cell.ours.n > 1 for cell in outcome.cells if cell.ours)
