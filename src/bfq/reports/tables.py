"""Score tables: one content, rendered for a terminal, as Markdown and as plain records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from bfq.reports.runs import Group, Run
from bfq.reports.statistics import Estimate, Interval, Summary, pooled_interquartile_mean, summarize

ABSENT = "–"
SUCCESS = "success in %"
UNITS = {"normalized": "normalized score", "return": "return"}
WORDS = ("", "acting")  # columns of no numbers
CAPTION = "mean ± std over seeds, [95% Student-t interval of the mean]"


def in_words(unit: str, runs: Iterable[Run]) -> str:
    """What a score is: where all runs count successes, a normalized one is their share."""
    counted = unit == "normalized" and all(run.counts_successes for run in runs)
    return SUCCESS if counted else UNITS[unit]


@dataclass(frozen=True)
class ScoreRow:
    """How good one thing is on one task."""

    task: str
    kind: str  # data | baseline | agent
    agent: str
    name: str
    overrides: str
    returns: Summary | None
    normalized: Summary | None
    seeds: int | None  # trained; a summary counts those that have a score
    seconds: float | None  # of the whole run, whose groups train together

    @property
    def scores(self) -> tuple[tuple[str, Summary | None], ...]:
        """Both scores with the names of their units."""
        return ("return", self.returns), ("normalized", self.normalized)

    def score(self, unit: str) -> Summary | None:
        """The score in a unit, where there is one."""
        return dict(self.scores)[unit]


@dataclass(frozen=True)
class ScoreTable:
    """Rows under a title."""

    title: str
    rows: tuple[ScoreRow, ...]

    @property
    def caption(self) -> str:
        """How to read the scores, where there are any."""
        return CAPTION if any(row.returns and row.kind != "data" for row in self.rows) else ""


@dataclass(frozen=True)
class Aggregate:
    """One method over several tasks."""

    name: str
    tasks: int
    mean: float  # interquartile, of the normalized scores of all seeds of all tasks
    interval: Interval | None  # None where a task has one seed

    @property
    def text(self) -> str:
        """The mean with its interval."""
        return estimate_text(Estimate(self.mean, self.interval))


def score_table(run: Run) -> ScoreTable:
    """The data, the baselines and the agent on the run's task."""
    baselines = [row for baseline in run.baselines for row in agent_rows(baseline, "baseline")]
    return ScoreTable(table_title([run]), (data_row(run), *baselines, *agent_rows(run, "agent")))


def comparison(runs: Sequence[Run]) -> ScoreTable:
    """All rows of several runs with their numbers of updates, task by task; what two share is told once."""
    rows = dict.fromkeys(
        _with_updates(row, run.steps) for run in runs for row in score_table(run).rows
    )
    tasks = list(dict.fromkeys(run.task for run in runs))
    return ScoreTable("Comparison", tuple(sorted(rows, key=lambda row: tasks.index(row.task))))


def _with_updates(row: ScoreRow, steps: int) -> ScoreRow:
    if row.kind == "data":
        return row
    return replace(row, overrides=", ".join(filter(None, (row.overrides, f"{steps:,} updates"))))


def aggregates(runs: Sequence[Run]) -> list[Aggregate]:
    """The interquartile mean of each method that has normalized scores on two tasks or more."""
    pools: dict[str, dict[str, list[float]]] = {}
    everyone = [each for run in runs for each in (*run.baselines, run)]
    for run in everyone:
        for group in run.groups:
            values = run.scored("normalized", group)
            if values:
                pools.setdefault(f"{run.title} {group.label}".strip(), {}).setdefault(
                    run.task, values
                )
    return [
        Aggregate(name, len(tasks), *pooled_interquartile_mean(tasks))
        for name, tasks in pools.items()
        if len(tasks) > 1
    ]


def rich_table(run: Run) -> Table:
    """A run's scores for a terminal of 80 columns: the interval stands under its mean."""
    table = score_table(run)
    drawn = empty_table(table.title, table.caption, ("return", "normalized", "seeds", "training"))
    drawn.leading, drawn.padding = 1, (0, 1, 0, 1)
    for row in table.rows:
        name = "\n".join(filter(None, (row.name, row.overrides)))
        scores = ("\n".join(stacked(summary, unit)) for unit, summary in row.scores)
        cells = (*scores, seeds_text(row), seconds_text(row))
        style = {"agent": "bold", "data": "dim"}.get(row.kind, "")
        drawn.add_row(Text(name), *(Text(cell) for cell in cells), style=style)
    return drawn


def empty_table(title: str, caption: str, columns: Sequence[str]) -> Table:
    """A table for a terminal: names at the left, these columns of numbers beside them."""
    drawn = Table(
        title=Text(title, style="bold"),
        caption=Text(caption, style="dim italic"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        min_width=60,
    )
    drawn.add_column("", min_width=16, overflow="fold")
    for name in columns:
        drawn.add_column(name, justify="right", no_wrap=True)
    return drawn


def markdown(run: Run) -> str:
    """A run's scores as Markdown, one line a row."""
    table = score_table(run)
    head = ("", "return", "95% interval", "normalized", "95% interval", "seeds", "training")
    cells = []
    for row in table.rows:
        name = escaped(f"{row.name} {row.overrides}".strip())
        scores = [
            text for unit, s in row.scores for text in (mean_text(s, unit), interval_text(s, unit))
        ]
        shown = f"**{name}**" if row.kind == "agent" else name
        cells.append((shown, *scores, seeds_text(row), seconds_text(row)))
    words = [f"{table.caption}.", ""] if table.caption else []
    return "\n".join([f"**{escaped(table.title)}**", "", *markdown_lines(head, cells), "", *words])


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table: words are set left, numbers right."""
    sides = (":--" if name in WORDS else "--:" for name in head)
    return [_line(head), _line(sides), *(_line(row) for row in rows)]


def records(table: ScoreTable) -> list[dict[str, Any]]:
    """The table as plain data for JSON."""
    return [
        {
            "task": row.task,
            "kind": row.kind,
            "agent": row.agent,
            "name": row.name,
            "overrides": row.overrides,
            "return": _record(row.returns),
            "normalized": _record(row.normalized),
            "seeds": row.seeds,
            "train_seconds": row.seconds,
        }
        for row in table.rows
    ]


def stacked(summary: Summary | None, unit: str) -> list[str]:
    """Mean ± std, then the interval where there is one."""
    interval = [interval_text(summary, unit)] if summary and summary.interval else []
    return [mean_text(summary, unit), *interval]


def mean_text(summary: Summary | None, unit: str) -> str:
    """Mean ± std; one seed has no std to tell."""
    if summary is None:
        return ABSENT
    digits = decimals(summary.mean, unit)
    mean = number_text(summary.mean, digits)
    return mean if summary.interval is None else f"{mean} ± {number_text(summary.std, digits)}"


def interval_text(summary: Summary | None, unit: str) -> str:
    """The interval with the digits of its mean."""
    if summary is None or summary.interval is None:
        return ABSENT
    low, high = (number_text(end, decimals(summary.mean, unit)) for end in summary.interval)
    return f"[{low}, {high}]"


def estimate_text(estimate: Estimate, digits: int = 1) -> str:
    """A number over tasks, with its interval where there is one."""
    value, interval = estimate
    ends = [number_text(end, digits) for end in interval or ()]
    return number_text(value, digits) + (f" [{', '.join(ends)}]" if ends else "")


def seeds_text(row: ScoreRow) -> str:
    """How many seeds, and how many of them have a score where some have none."""
    if row.seeds is None:
        return ABSENT
    scored = row.returns.n if row.returns else 0
    return str(row.seeds) if scored in (0, row.seeds) else f"{scored} of {row.seeds}"


def seconds_text(row: ScoreRow) -> str:
    """Training time in seconds."""
    if row.seconds is None:
        return ABSENT
    return f"{number_text(row.seconds, 1 if row.seconds < 100 else 0)} s"


def decimals(size: float, unit: str = "return") -> int:
    """Digits after the point: one for a normalized score, as is the custom, else what the size deserves."""
    if unit == "normalized":
        return 1
    return next(
        (digits for digits, least in ((0, 10_000), (1, 10), (2, 1)) if abs(size) >= least), 3
    )


def number_text(value: float, digits: int) -> str:
    """A number with thousands set apart and a true minus."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text if any(c in "123456789" for c in text) else text.removeprefix("−")


def table_title(runs: Sequence[Run]) -> str:
    """The task of the runs with what was spent on it."""
    if not any(run.scores for run in runs):
        return f"{runs[0].task}: no simulator, so no scores"
    return f"{runs[0].task}: {budget(runs)}"


def budget(runs: Sequence[Run]) -> str:
    """Updates, episodes and the rule of the checkpoint, with both ends of what differs between the runs."""
    checkpoints = " or ".join(dict.fromkeys(run.protocol["checkpoint"] for run in runs))
    updates = ranged([run.steps for run in runs], "update")
    episodes = ranged([run.protocol["episodes"] for run in runs], "episode")
    return f"{updates}, {episodes} a seed, {checkpoints} checkpoint"


def ranged(counts: Iterable[int], noun: str) -> str:
    """One number of things, or from the least to the most of them."""
    least, *_, most = sorted((*counts,) * 2)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{number} {noun}{'' if most == 1 else 's'}"


def data_row(run: Run) -> ScoreRow:
    """How good the data are from which a run learned."""
    returns, normalized = (
        None if run.data[name] is None else summarize([run.data[name]])
        for name in ("return_mean", "normalized_mean")
    )
    return ScoreRow(run.task, "data", "data", "Data", "", returns, normalized, None, None)


def agent_rows(run: Run, kind: str) -> Iterable[ScoreRow]:
    """How good a run's agent is, a row a group."""
    whose = run.task, kind, run.agent, run.title
    for group in run.groups:
        returns, normalized = (_summary(run, name, group) for name in ("return", "normalized"))
        yield ScoreRow(
            *whose, group.label, returns, normalized, len(group.places), run.train_seconds
        )


def _summary(run: Run, name: str, group: Group) -> Summary | None:
    values = run.scored(name, group)
    return summarize(values) if values else None


def _record(summary: Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    low, high = summary.interval or (None, None)
    return {"mean": summary.mean, "std": summary.std, "n": summary.n, "low": low, "high": high}


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text that cannot break out of a Markdown cell."""
    one_line = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\|*_`<>[]" else c for c in one_line)
