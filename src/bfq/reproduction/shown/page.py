"""The results as one page that holds everything: built of the parts that every report is built of."""

from collections.abc import Sequence

from bfq.reporting import prose
from bfq.reporting.html import Drawn, facts, figure, page
from bfq.reporting.markup import Markup, tag
from bfq.reporting.tables import ABSENT
from bfq.reproduction.results.cells import Cell, Outcome
from bfq.reproduction.results.told_runs import told_runs
from bfq.reproduction.shown.table import (
    LEFT_OUT,
    Brief,
    Comparison,
    Footnotes,
    Line,
    Section,
    caption,
    comparisons,
    left_out,
    overview,
    overview_words,
    sections,
    unfilled,
)

STYLE = """
.gain { background: color-mix(in srgb, #009e73 24%, transparent); }
.loss { background: color-mix(in srgb, #d55e00 24%, transparent); }
.same { background: color-mix(in srgb, #8a949e 16%, transparent); }
.wide { overflow-x: auto; }
.wide table { width: auto; font-size: 0.82rem; }
.wide td, .wide thead th { padding: 0.3rem 0.4rem; text-align: right; white-space: nowrap; }
.wide small { display: block; color: var(--quiet); }
.wide tbody th {
  position: sticky; left: 0; min-width: 7rem; max-width: 11rem; padding: 0.3rem 0.6rem 0.3rem 0;
  background: var(--page); font-weight: 400; line-height: 1.3;
}
.warning { padding: 0.6rem 1rem; border: 2px solid #d55e00; border-radius: 0.5rem; font-weight: 600; }
td[data-label="data"] { white-space: normal !important; overflow-wrap: anywhere; }
td.why { white-space: normal !important; text-align: left !important; color: var(--quiet); }
"""
FEW = 4  # sections that are shown unfolded
WARNING = "This is a quick run: few updates, few episodes, small tasks. It is comparable with nothing."
COLOURS = "Green: better than the paper by more than 2 points (times: 5%). Orange: worse. Grey: neither."


def page_of(outcome: Outcome, drawn: Sequence[Drawn], missing: Sequence[str] = ()) -> str:
    """A page with the tables, the pictures (and why some are missing), and where everything comes from."""
    title, notes = outcome.experiment.heading, Footnotes(outcome)
    return page(
        title,
        tag("style", Markup(STYLE)),
        tag("h1", title),
        *([tag("p", WARNING, class_="warning")] if outcome.experiment.quick else []),
        tag("p", outcome.experiment.about, class_="quiet"),
        *overview_table(outcome),
        *section_tables(sections(outcome, notes)),
        tag("p", _caption(outcome), class_="quiet small"),
        *(part for each in comparisons(outcome) for part in _comparison(outcome, each)),
        *list_of("Rows that cannot be filled", unfilled(outcome)),
        *list_of(LEFT_OUT, left_out(outcome)),
        *list_of("Failed", [f"{c.row}, {c.column}: {c.why}" for c in outcome.failed]),
        *(part for each in drawn for part in figure(each.title, each.png, each.caption, each.photo)),
        *list_of("Policies at work that could not be drawn", missing),
        *list_of("The paper's numbers", notes.general),
        *list_of("Notes on single numbers", notes.texts, "ol"),
        *_provenance(outcome),
    )


def _caption(outcome: Outcome) -> str:
    coloured = any(outcome.verdict(cell) for cell in outcome.cells)
    return caption(outcome) + (f" {COLOURS}" if coloured else "")


def _comparison(outcome: Outcome, told: Comparison) -> list[Markup]:
    """Methods beside each other."""
    title, head, lines, words = told
    top = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("", *head))))
    body = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", cell, data_label=label) for label, cell in zip(head, cells, strict=True)),
        )
        for name, *cells in lines
    ]
    table = tag("table", top, tag("tbody", *body), class_="scores")
    return [
        tag("h3", outcome.experiment.entitled(title)),
        table,
        tag("p", words, class_="quiet small"),
    ]


def overview_table(outcome: Outcome) -> list[Markup]:
    """All rows and columns at once, with coloured differences; it scrolls where the screen is narrow."""
    rows = overview(outcome)
    if len(rows) < 2:
        return []
    head = tag("tr", *(tag("th", name, scope="col") for name in ("", *outcome.columns)))
    body = [tag("tr", tag("th", row, scope="row"), *(_brief(cell) for cell in cells)) for row, cells in rows]
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return [
        tag("div", table, class_="wide", tabindex="0"),
        tag("p", overview_words(outcome), class_="quiet small"),
    ]


def _brief(cell: Brief) -> Markup:
    return tag("td", cell.ours, tag("small", cell.paper), class_=cell.verdict)


def section_tables(told: Sequence[Section]) -> list[Markup]:
    """One after the other; where they are many, folded."""
    if len(told) <= FEW:
        return [part for section in told for part in (tag("h3", section.title), *_section(section))]
    return [tag("details", tag("summary", section.title), *_section(section)) for section in told]


def _section(section: Section) -> list[Markup]:
    head = tag("tr", *(tag("th", name, scope="col") for name in ("", *section.head)))
    body = tag("tbody", *(_row(line, section.head) for line in section.lines))
    words = [tag("p", section.words, class_="quiet small")] if section.words else []
    return [*words, tag("table", tag("thead", head), body, class_="scores")]


def _row(line: Line, head: Sequence[str]) -> Markup:
    name = tag("th", line.name, scope="row")
    if line.missing:
        return tag("tr", name, tag("td", line.missing, colspan=str(len(head)), class_="why"))
    cells = [
        tag("td", line.cells[name], data_label=name, class_=line.verdict if name == "difference" else "")
        for name in head
    ]
    return tag("tr", name, *cells)


def list_of(title: str, texts: Sequence[str], kind: str = "ul") -> list[Markup]:
    """Sentences under a title; nothing where there are none."""
    if not texts:
        return []
    return [tag("h3", title), tag(kind, *(tag("li", text) for text in texts), class_="notes")]


def _provenance(outcome: Outcome) -> list[Markup]:
    """Every dataset and every protocol once, then every run with its device, versions and command."""
    done = [cell for cell in outcome.cells if cell.provenance]
    runs = told_runs(outcome)
    words = {source.data: source.words for row in outcome.rows for source in outcome.sources_of(row)}
    parts: list[Markup] = []
    for (name, _), run in {(run.data["name"], run.data["sha256"]): run for run in runs}.items():
        parts += [tag("h3", f"Data: {name}"), facts({"what": words.get(name, ABSENT), **prose.data(run)})]
    parts += list_of("How the learning curves were evaluated", list(dict.fromkeys(map(prose.protocol, runs))))
    if done:
        parts += [tag("h3", "Where it ran"), facts(_machines(done))]
    told = {cell.provenance["run"]: cell.provenance for cell in done}
    commands = [tag("li", tag("code", each.get("command", folder))) for folder, each in told.items()]
    return [*parts, *([tag("h3", "Runs"), tag("ul", *commands, class_="notes")] if commands else [])]


def _machines(cells: Sequence[Cell]) -> dict[str, str]:
    """Devices and versions; where cells come from several machines, all of them."""
    told = [
        {"device": cell.provenance.get("device") or ABSENT, **cell.provenance["versions"]} for cell in cells
    ]
    names = dict.fromkeys(name for each in told for name in each)
    return {name: ", ".join(dict.fromkeys(str(each.get(name, ABSENT)) for each in told)) for name in names}
