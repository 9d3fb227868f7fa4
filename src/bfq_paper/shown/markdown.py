"""The whole of table.md: what the page tells, without pictures and without where it is from."""

from collections.abc import Sequence

from bfq.reports.tables import escape_markdown, markdown_table
from bfq_paper.results.cells import Outcome
from bfq_paper.shown.comparisons import comparisons
from bfq_paper.shown.table import (
    LEFT_OUT,
    Footnotes,
    Line,
    caption,
    left_out,
    overview,
    overview_words,
    sections,
    unfilled,
)


def markdown(outcome: Outcome) -> str:
    """All tables, with the words that they need."""
    notes = Footnotes(outcome)
    parts = [
        f"# {escape_markdown(outcome.experiment.heading)}",
        escape_markdown(outcome.experiment.about),
    ]
    rows = overview(outcome)
    if len(rows) > 1:
        cells = [
            [escape_markdown(row), *(escape_markdown(f"{b.ours} {b.paper}".strip()) for b in found)]
            for row, found in rows
        ]
        parts += ["\n".join(_table(outcome.columns, cells)), overview_words(outcome)]
    for section in sections(outcome, notes):
        parts += [
            f"## {escape_markdown(section.title)}",
            *([escape_markdown(section.words)] if section.words else []),
        ]
        lines = [_line(line, section.head) for line in section.lines]
        parts.append("\n".join(_table(section.head, lines)))
    parts += [caption(outcome)]
    for title, head, rivals, words in comparisons(outcome):
        told = [[escape_markdown(cell) for cell in line] for line in rivals]
        parts += [
            f"## {escape_markdown(title)}",
            "\n".join(_table(head, told)),
            escape_markdown(words),
        ]
    parts += _listed("Rows that cannot be filled", unfilled(outcome))
    parts += _listed(LEFT_OUT, left_out(outcome))
    parts += _listed("Failed", [f"{c.row}, {c.column}: {c.why}" for c in outcome.failed])
    parts += _listed("The paper's numbers", notes.general)
    parts += _listed("Notes on single numbers", notes.texts, numbered=True)
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A table whose heads may be anybody's words; they are names, in which `_` needs no escape."""
    return markdown_table(
        ("", *(escape_markdown(name).replace("\\_", "_") for name in head)), lines
    )


def _line(line: Line, head: Sequence[str]) -> list[str]:
    """A line's cells; of one without numbers, why."""
    if line.missing:
        return [escape_markdown(line.name), escape_markdown(line.missing), *[""] * (len(head) - 1)]
    return [escape_markdown(line.name), *(escape_markdown(line.cells[name]) for name in head)]


def _listed(title: str, texts: Sequence[str], numbered: bool = False) -> list[str]:
    """Sentences under a title; nothing where there are none."""
    if not texts:
        return []
    lines = [
        f"{f'{k}.' if numbered else '-'} {escape_markdown(text)}" for k, text in enumerate(texts, 1)
    ]
    return [f"## {title}", "\n".join(lines)]
