"""The results as one page that holds everything: built of the parts that every report is built of."""

from collections.abc import Sequence

from bfq_paper.results.cells import Outcome
from bfq_paper.shown.comparisons import Comparison, comparisons
from bfq_paper.shown.markup import Drawn, Markup, figure, list_of, page, scrolled, tag
from bfq_paper.shown.provenance import provenance
from bfq_paper.shown.table import (
    LEFT_OUT,
    Brief,
    Footnotes,
    Line,
    Section,
    caption,
    left_out,
    overview,
    overview_words,
    sections,
    unfilled,
    verdict,
)

STYLE = """
.gain { background: color-mix(in srgb, #009e73 24%, transparent); }
.loss { background: color-mix(in srgb, #d55e00 24%, transparent); }
.same { background: color-mix(in srgb, #8a949e 16%, transparent); }
.wide table { width: auto; font-size: 0.82rem; }
.wide td, .wide thead th { padding: 0.3rem 0.4rem; text-align: right; white-space: nowrap; }
.wide small { display: block; color: var(--quiet); }
.wide tbody th {
  position: sticky; left: 0; min-width: 7rem; max-width: 11rem; padding: 0.3rem 0.6rem 0.3rem 0;
  background: var(--page); font-weight: 400; line-height: 1.3; overflow-wrap: break-word;
}
@media (max-width: 46rem) {
  .wide table { font-size: 0.75rem; }
  .wide td, .wide thead th { padding: 0.3rem 0.25rem; }
  .wide tbody th { min-width: 5.6rem; max-width: 6.5rem; padding-right: 0.3rem; }
}
.warning { padding: 0.6rem 1rem; border: 2px solid #d55e00; border-radius: 0.5rem; font-weight: 600; }
td[data-label="data"] { white-space: normal !important; overflow-wrap: anywhere; }
td.why { white-space: normal !important; text-align: left !important; color: var(--quiet); }
"""
FEW = 4  # sections that are shown unfolded
WARNING = "This is a quick run: {}. It is comparable with nothing."
LESS = {  # what a quick run has less of, by the kind of experiment
    "scores": "few updates and episodes, small networks and tasks",
    "speed": "few updates and actions are timed, once and on few data",
    "toy": "few epochs",
}
COLORS = "Green: better than the paper by more than 2 points. Orange: worse. Gray: neither."
NOT_SHOWN = "Policies at work that are not shown"


def page_of(outcome: Outcome, drawn: Sequence[Drawn], missing: Sequence[str] = ()) -> str:
    """A page with the tables, the pictures (and why some are missing), and where everything comes from."""
    title, notes = outcome.experiment.heading, Footnotes(outcome)
    kind = outcome.experiment.kind
    return page(
        title,
        tag("style", Markup(STYLE)),
        tag("h1", title),
        *(
            [tag("p", WARNING.format(LESS[kind]), class_="warning")]
            if outcome.experiment.quick
            else []
        ),
        tag("p", outcome.experiment.about, class_="quiet"),
        *overview_table(outcome),
        *section_tables(sections(outcome, notes)),
        tag("p", _caption(outcome), class_="quiet small"),
        *(part for each in comparisons(outcome) for part in _comparison(outcome, each)),
        *list_of("Rows that cannot be filled", unfilled(outcome)),
        *list_of(LEFT_OUT, left_out(outcome)),
        *list_of("Failed", [f"{c.row}, {c.column}: {c.why}" for c in outcome.failed]),
        *(
            part
            for each in drawn
            for part in figure(each.title, each.png, each.caption, each.photo)
        ),
        *list_of(NOT_SHOWN, missing),
        *list_of("The paper's numbers", notes.general),
        *list_of("Notes on single numbers", notes.texts, "ol"),
        *provenance(outcome),
    )


def _caption(outcome: Outcome) -> str:
    colored = any(verdict(outcome, cell) for cell in outcome.cells)
    return caption(outcome) + (f" {COLORS}" if colored else "")


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
        scrolled(table),
        tag("p", words, class_="quiet small"),
    ]


def overview_table(outcome: Outcome) -> list[Markup]:
    """All rows and columns at once, with colored differences; it scrolls where the screen is narrow."""
    rows = overview(outcome)
    if len(rows) < 2:
        return []
    head = tag("tr", *(tag("th", name, scope="col") for name in ("", *outcome.columns)))
    body = [
        tag("tr", tag("th", row, scope="row"), *(_brief(cell) for cell in cells))
        for row, cells in rows
    ]
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return [
        scrolled(table, "wide"),
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
    return [*words, scrolled(tag("table", tag("thead", head), body, class_="scores"))]


def _row(line: Line, head: Sequence[str]) -> Markup:
    name = tag("th", line.name, scope="row")
    if line.missing:
        return tag("tr", name, tag("td", line.missing, colspan=str(len(head)), class_="why"))
    cells = [
        tag(
            "td",
            line.cells[name],
            data_label=name,
            class_=line.verdict if name == "difference" else "",
        )
        for name in head
    ]
    return tag("tr", name, *cells)
