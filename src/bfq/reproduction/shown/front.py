"""All experiments on one page: of each a table and its pictures, and the way to everything else about it.

Unlike the pages of single experiments it holds no pictures itself: it shows those that lie in their folders.
"""

from pathlib import Path

from bfq.errors import BadInput
from bfq.reporting.html import SCORES, page, pictured
from bfq.reporting.markup import Markup, tag
from bfq.reproduction.plan.experiments import EXPERIMENTS
from bfq.reproduction.results.cells import Outcome
from bfq.reproduction.results.stored import read_outcome, results_of
from bfq.reproduction.shown.figures import BARS, CURVES, RADAR, STEPS, SWEEP, has_bars
from bfq.reproduction.shown.page import COLOURS, STYLE, list_of, overview_table, section_tables
from bfq.reproduction.shown.strips import kept_strips
from bfq.reproduction.shown.table import Footnotes, sections

TITLE = "The paper's experiments"
ABOUT = (
    "Bootstrapped Flow Q-Learning and the methods it is compared with: ours, with the paper's numbers beside "
    f"them. {COLOURS}"
)
REST = "Everything about it: intervals, protocols, data, versions and commands"
# What a folder may hold, in the order in which it is shown, with how to read it.
PICTURES = {
    "frequency_and_score.png": ("Frequency and score", "Right and up is better."),
    "radar.png": ("All tasks at once", RADAR),
    "ablation.png": ("Along the value", SWEEP),
    "scores.png": ("Scores", BARS),
    "frequency.png": ("Frequency", STEPS),
    "training_time.png": ("Training time", STEPS),
    "toy.png": ("Samples", "The data, and what each method makes of noise in as many steps."),
    "learning_curves.png": ("Learning curves", CURVES),
}


def front_page(results: Path) -> str:
    """The page of all experiments whose results are there; one that cannot be read is told."""
    outcomes, damaged = dict[str, Outcome](), list[str]()
    for name in EXPERIMENTS:
        try:
            outcome = _outcome(results / name)
        except BadInput as trouble:
            damaged.append(f"{name}: {trouble}")
            continue
        if outcome:
            outcomes[name] = outcome
    links = [
        tag("li", tag("a", outcome.experiment.heading, href=f"#{name}")) for name, outcome in outcomes.items()
    ]
    return page(
        TITLE,
        tag("style", Markup(STYLE + "section { margin-top: 3rem; }")),
        tag("h1", TITLE),
        tag("p", ABOUT, class_="quiet"),
        tag("ul", *links, class_="notes"),
        *list_of("Results that cannot be read", damaged),
        *(_experiment(name, outcome, results / name) for name, outcome in outcomes.items()),
    )


def _outcome(folder: Path) -> Outcome | None:
    """What an experiment has found, if anything."""
    if not (folder / "result.json").exists():
        return None
    outcome = read_outcome(folder)
    results_of(outcome, folder)  # refuses another experiment's file
    return outcome if any(cell.ours for cell in outcome.cells) else None


def _experiment(name: str, outcome: Outcome, folder: Path) -> Markup:
    """The table, the pictures that lie in the folder, and a link."""
    return tag(
        "section",
        tag("h2", outcome.experiment.heading),
        tag("p", outcome.experiment.about, class_="quiet"),
        *(overview_table(outcome) or _tables(outcome)),
        *_pictures(name, outcome, folder),
        tag("p", tag("a", REST, href=f"{name}/index.html")),
        id=name,
        class_="run",
    )


def _tables(outcome: Outcome) -> list[Markup]:
    """Of what has one row, that row."""
    notes = Footnotes(outcome)
    return [*section_tables(sections(outcome, notes)), *list_of("Notes on single numbers", notes.texts, "ol")]


def _pictures(name: str, outcome: Outcome, folder: Path) -> list[Markup]:
    lines = {} if has_bars(outcome) else {"scores.png": SCORES}
    drawn = [
        pictured(title, f"{name}/{file}", lines.get(file, words))
        for file, (title, words) in PICTURES.items()
        if (folder / file).is_file()
    ]
    at_work = [
        pictured(each.title, f"{name}/{each.file}", each.caption, photo=True)
        for each in kept_strips(outcome, folder)
    ]
    return [part for each in (*drawn, *at_work) for part in each]
