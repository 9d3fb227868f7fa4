"""Tables of methods on a task, for a terminal and as Markdown."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bfq.reports import prose
from bfq.reports.runs import Run
from bfq.reports.standings import Method, Standings, standings
from bfq.reports.tables import (
    ABSENT,
    CAPTION,
    ScoreRow,
    aggregates,
    budget,
    empty_table,
    escaped,
    interval_text,
    markdown_lines,
    mean_text,
    ranged,
    seconds_text,
    seeds_text,
)

SHORT = "mean ± std over seeds, best first"


def pooled_words(banded: bool) -> str:
    """What an interquartile mean is of, and its interval where there is one."""
    interval = ", with a 95% stratified bootstrap interval" if banded else ""
    return f"Interquartile mean of the scores of all seeds{interval}."


def rich_standings(table: Standings) -> Table:
    """All methods on a task for a terminal of 80 columns, a line each as far as names allow."""
    columns = ["return", *(["normalized"] if table.normalized else []), "seeds", "training"]
    columns += ["updates"] if table.updates_differ else []
    drawn = empty_table(table.title, SHORT if table.scored else "", columns)
    drawn.min_width = min(max(60, len(table.title) + 2), 80)  # a title in one line
    for row, method in _entries(table):
        scores = [
            mean_text(s, unit) for unit, s in row.scores if unit == "return" or table.normalized
        ]
        cells = [*scores, seeds_text(row), seconds_text(row)]
        cells += [_updates(method)] if table.updates_differ else []
        name = Text(method.name if method else row.name)
        drawn.add_row(name, *(Text(cell) for cell in cells), style="" if method else "dim")
    return drawn


def markdown_comparison(runs: Sequence[Run]) -> str:
    """Several runs as Markdown: a table a task, then the methods over tasks where there are several."""
    parts = [_markdown(table) for table in standings(runs)] + _over_tasks(runs)
    return "\n".join(parts)


def _markdown(table: Standings) -> str:
    units = ["return", *(["normalized"] if table.normalized else [])]
    head = ["", *(name for unit in units for name in (unit, "95% interval")), "seeds", "training"]
    head += ["updates"] if table.updates_differ else []
    head += ["acting"] if table.acting_differs else []
    lines = markdown_lines(head, [_cells(table, *entry) for entry in _entries(table)])
    return "\n".join([f"## {escaped(table.task)}", "", *lines, "", _caption(table), ""])


def _cells(table: Standings, row: ScoreRow, method: Method | None) -> list[str]:
    shown = row.scores if table.normalized else row.scores[:1]
    scores = [text for unit, s in shown for text in (mean_text(s, unit), interval_text(s, unit))]
    cells = [
        escaped(method.name if method else row.name),
        *scores,
        seeds_text(row),
        seconds_text(row),
    ]
    cells += [_updates(method)] if table.updates_differ else []
    cells += (
        [escaped(prose.acting(method.run)) if method else ABSENT] if table.acting_differs else []
    )
    return cells


def _caption(table: Standings) -> str:
    """What was spent, how actions were chosen where all did alike, and what the numbers are."""
    seeds = ranged([len(method.group.places) for method in table.methods], "seed")
    if not table.scored:
        updates = ranged([run.steps for run in table.runs], "update")
        return f"{seeds}, {updates}; there was no simulator to judge in, so there are no scores."
    acting = "" if table.acting_differs else f", acting by {prose.acting(table.runs[0])}"
    return escaped(f"{seeds}, {budget(table.runs)}{acting}; best first; {CAPTION}.")


def _over_tasks(runs: Sequence[Run]) -> list[str]:
    methods = sorted(aggregates(runs), key=lambda each: each.mean, reverse=True)
    if not methods:
        return []
    rows = [(escaped(each.name), escaped(each.text), str(each.tasks)) for each in methods]
    banded = any(each.interval for each in methods)
    head = "normalized [95% interval]" if banded else "normalized"
    lines = markdown_lines(("", head, "tasks"), rows)
    return ["\n".join(["## Over tasks", "", *lines, "", pooled_words(banded), ""])]


def _entries(table: Standings) -> list[tuple[ScoreRow, Method | None]]:
    """The data, then the methods."""
    return [(row, None) for row in table.data] + [(method.row, method) for method in table.methods]


def _updates(method: Method | None) -> str:
    return f"{method.run.steps:,}" if method else ABSENT
