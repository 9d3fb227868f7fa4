"""All experiments on one page: of each a table and its pictures, and the way to everything else about it.

Unlike the pages of single experiments it holds no pictures itself: it shows those that lie in their folders.
"""

from pathlib import Path

from bfq.errors import BadInput
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.results.cells import Outcome
from bfq_paper.results.stored import heading_of, read_outcome, results_of
from bfq_paper.shown.captions import HEADINGS, caption, heading
from bfq_paper.shown.figures import shown_runs
from bfq_paper.shown.frequency import FILE as BESIDE
from bfq_paper.shown.markup import Markup, list_of, page, pictured, tag
from bfq_paper.shown.page import COLORS, STYLE, overview_table, section_tables
from bfq_paper.shown.strips import kept_strips
from bfq_paper.shown.table import Footnotes, sections

TITLE = "The paper's experiments"
ABOUT = (
    "Bootstrapped Flow Q-Learning and the methods it is compared with: ours, with the paper's numbers beside "
    f"them. {COLORS} Times have no color: the paper's are another device's."
)
REST = "Everything about it: intervals, protocols, data, versions and commands"
BETTER = "Right and up is better."  # of speed and score; its own page names the rows as well
LEFT_OUT = "profiles.png"  # for those who read on


def front_page(results: Path) -> str:
    """The page of all experiments whose results are there; one that cannot be read is told."""
    outcomes, damaged = dict[str, Outcome](), list[str]()
    for name in _places(results):
        try:
            outcome = _outcome(results / name)
        except BadInput as trouble:
            damaged.append(f"{name}: {trouble}")
            continue
        if outcome:
            outcomes[name] = outcome
    links = [
        tag("li", tag("a", heading_of(outcome, name), href=f"#{name}"))
        for name, outcome in outcomes.items()
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


def _places(results: Path) -> list[str]:
    """Where experiments may have left something, each followed by those of other devices, a folder deeper."""
    found = {name: sorted(results.glob(f"*/{name}/result.json")) for name in EXPERIMENTS}
    return [
        place
        for name, others in found.items()
        for place in (name, *(f"{other.parents[1].name}/{name}" for other in others))
    ]


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
        tag("h2", heading_of(outcome, name)),
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
    return [
        *section_tables(sections(outcome, notes)),
        *list_of("Notes on single numbers", notes.texts, "ol"),
    ]


def _pictures(name: str, outcome: Outcome, folder: Path) -> list[Markup]:
    """Those that lie in the folder, each with its words."""
    runs = shown_runs(outcome)
    drawn = [
        pictured(
            heading(file, outcome),
            f"{name}/{file}",
            BETTER if file == BESIDE else caption(file, outcome, runs),
        )
        for file in HEADINGS
        if file != LEFT_OUT and (folder / file).is_file()
    ]
    at_work = [
        pictured(each.title, f"{name}/{each.file}", each.caption, photo=True)
        for each in kept_strips(outcome, folder)
    ]
    return [part for each in (*drawn, *at_work) for part in each]
