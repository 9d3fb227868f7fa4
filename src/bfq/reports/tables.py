"""Scores of runs as tables: for the terminal, as Markdown and as plain data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from bfq.errors import counted
from bfq.reports import Group, Run, describe_acting, statistics
from bfq.reports.statistics import ABSENT, Summary

CAPTION = "mean ± std over seeds, [95% Student-t interval of the mean]"
SHORT_CAPTION = "mean ± std over seeds, best first"
TEXT_COLUMNS = ("", "acting")
MANY = 3  # baselines from which on a single run is a comparison


@dataclass(frozen=True)
class ScoreRow:
    """The scores of a dataset, or of one setting of an agent: a method."""

    task: str
    kind: str  # data | baseline | agent | method
    agent: str
    name: str
    overrides: str
    returns: Summary | None
    normalized: Summary | None
    updates: int | None
    seeds: int | None  # trained; a summary counts only those with a score
    seconds: float | None  # of the whole run: its groups train together
    run: Run = field(compare=False, repr=False)
    group: Group = field(compare=False, repr=False)
    folder: str = ""  # of the run, if two methods would have the same name

    @property
    def scores(self) -> tuple[tuple[str, Summary | None], ...]:
        """Both scores with their units."""
        return ("return", self.returns), ("normalized", self.normalized)

    def score(self, unit: str) -> Summary | None:
        """The score in this unit, if there is one."""
        return dict(self.scores)[unit]

    def values(self, unit: str) -> list[float]:
        """The scores of the seeds that have one."""
        return self.run.finite_scores(unit, self.group)

    @property
    def notes(self) -> str:
        """What distinguishes it from other methods of the same agent."""
        return ", ".join(filter(None, (self.overrides, self.folder)))

    @property
    def full_name(self) -> str:
        """The name with its notes."""
        return f"{self.name} {self.notes}".strip()

    @property
    def seeds_text(self) -> str:
        """The number of seeds, and how many have a score if some have none."""
        if self.seeds is None:
            return ABSENT
        scored = self.returns.n if self.returns else 0
        return str(self.seeds) if scored in (0, self.seeds) else f"{scored} of {self.seeds}"

    @property
    def time_text(self) -> str:
        """Training time in seconds."""
        if self.seconds is None:
            return ABSENT
        return f"{statistics.number_text(self.seconds, 1 if self.seconds < 100 else 0)} s"


@dataclass(frozen=True)
class ScoreTable:
    """Data and methods on one task."""

    task: str
    rows: tuple[ScoreRow, ...]  # several of data if runs of one task used different data

    @property
    def data(self) -> list[ScoreRow]:
        """The rows of data."""
        return [row for row in self.rows if row.kind == "data"]

    @property
    def methods(self) -> list[ScoreRow]:
        """The other rows."""
        return [row for row in self.rows if row.kind != "data"]

    @property
    def runs(self) -> list[Run]:
        """The run of each method."""
        return [method.run for method in self.methods]

    @property
    def unit(self) -> str:
        """The unit by which methods are sorted: normalized if every method has it."""
        returns_only = any(row.returns and not row.normalized for row in self.methods)
        return "return" if returns_only else "normalized"

    @property
    def title(self) -> str:
        """The task with the budget of the runs."""
        scored = any(run.scores for run in self.runs)
        return f"{self.task}: {_budget(self.runs) if scored else 'no simulator, so no scores'}"

    @property
    def caption(self) -> str:
        """How to read the scores, if there are any."""
        return CAPTION if any(row.returns for row in self.methods) else ""

    @property
    def updates_differ(self) -> bool:
        """Whether the numbers of updates differ."""
        return len({run.steps for run in self.runs}) > 1

    @property
    def acting_differs(self) -> bool:
        """Whether actions were chosen in different ways."""
        return len({describe_acting(run) for run in self.runs}) > 1

    def notes(self, row: ScoreRow) -> str:
        """What distinguishes a method from the others in this table."""
        if row.kind == "data":
            return ""
        updates = counted(row.run.steps, "update") if self.updates_differ else ""
        acting = describe_acting(row.run) if self.acting_differs else ""
        return ", ".join(filter(None, (row.notes, updates, acting)))


class Aggregate(NamedTuple):
    """One method over several tasks."""

    name: str
    tasks: int
    estimate: statistics.Estimate  # interquartile mean of the normalized scores of all seeds


def score_table(run: Run) -> ScoreTable:
    """The data, the baselines and the agent of one run."""
    baselines = [row for baseline in run.baselines for row in _method_rows(baseline, "baseline")]
    return ScoreTable(run.task, (_data_row(run), *baselines, *_method_rows(run, "agent")))


def standings(runs: Sequence[Run]) -> list[ScoreTable]:
    """The methods of all runs and of their baselines, task by task and best first."""
    tasks = dict.fromkeys(run.task for run in runs)
    return [_standings(task, [run for run in runs if run.task == task]) for task in tasks]


def _standings(task: str, runs: Sequence[Run]) -> ScoreTable:
    everyone = [run for each in runs for run in (each, *each.baselines)]
    unique = list(dict.fromkeys(row for run in everyone for row in _method_rows(run, "method")))
    names = Counter(row.full_name for row in unique)
    folders = {row: _folder(row.run) for row in unique if names[row.full_name] > 1}
    named = [replace(row, folder=folders.get(row, "")) for row in unique]
    unit = ScoreTable(task, tuple(named)).unit
    named.sort(key=lambda row: score.mean if (score := row.score(unit)) else -inf, reverse=True)
    return ScoreTable(task, (*dict.fromkeys(map(_data_row, runs)), *named))


def _folder(run: Run) -> str:
    """The name of a run's folder; for a baseline, that of the run it belongs to."""
    path = run.folder.resolve()
    return path.parent.parent.name if path.parent.name == "baselines" else path.name


def distinguishing_folder(run: Run, runs: Sequence[Run]) -> str:
    """The run's folder if several of the runs have the same agent and task, otherwise nothing."""
    same = {each.folder for each in runs if (each.task, each.title) == (run.task, run.title)}
    return _folder(run) if len(same) > 1 else ""


def is_comparison(runs: Sequence[Run]) -> bool:
    """Return whether there is enough to compare for a figure and a table of its own."""
    return len(runs) > 1 or any(len(run.baselines) >= MANY for run in runs)


def aggregates(runs: Sequence[Run]) -> list[Aggregate]:
    """The interquartile mean of each method with normalized scores on two tasks or more."""
    pools: dict[str, dict[str, list[float]]] = {}
    for run in (each for one in runs for each in (*one.baselines, one)):
        for group in run.groups:
            values = run.finite_scores("normalized", group)
            if values:
                name = f"{run.title} {group.label}".strip()
                pools.setdefault(name, {}).setdefault(run.task, values)
    mean = statistics.pooled_interquartile_mean
    several = {name: tasks for name, tasks in pools.items() if len(tasks) > 1}
    found = [Aggregate(name, len(tasks), mean(tasks)) for name, tasks in several.items()]
    return sorted(found, key=lambda each: each.estimate.value, reverse=True)


def describe_pooling(methods: Sequence[Aggregate]) -> str:
    """Caption of aggregates, with or without intervals."""
    banded = any(each.estimate.interval for each in methods)
    interval = ", with a 95% stratified bootstrap interval" if banded else ""
    return f"Interquartile mean of the scores of all seeds{interval}."


def rich_table(run: Run) -> Table:
    """A run's scores for a terminal of 80 columns, with intervals below the means."""
    table, rows = score_table(run), []
    for row in table.rows:
        cells = ["\n".join(filter(None, (row.name, table.notes(row))))]
        for unit, summary in row.scores:
            banded = summary and summary.interval
            below = [statistics.interval_text(summary, unit)] if banded else []
            cells.append("\n".join([statistics.mean_text(summary, unit), *below]))
        rows.append([*cells, row.seeds_text, row.time_text])
    head = ["", "return", "normalized", "seeds", "training"]
    return _terminal_table(table, table.caption, head, rows, leading=1)


def rich_standings(table: ScoreTable) -> Table:
    """All methods on a task for a terminal of 80 columns, one line each if names allow."""
    return _terminal_table(table, SHORT_CAPTION if table.caption else "", *_cells(table))


def _terminal_table(
    table: ScoreTable, caption: str, head: list[str], rows: list[list[str]], leading: int = 0
) -> Table:
    found = Table(
        title=Text(table.title, style="bold"),
        caption=Text(caption, style="dim italic"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, leading),
        leading=leading,
        min_width=min(max(60, len(table.title) + 2), 80),  # keeps the title on one line
    )
    found.add_column("", min_width=16, overflow="fold")
    for name in head[1:]:
        found.add_column(name, justify="right", no_wrap=True)
    for row, cells in zip(table.rows, rows, strict=True):
        style = {"agent": "bold", "data": "dim"}.get(row.kind, "")
        found.add_row(*map(Text, cells), style=style)
    return found


def _cells(table: ScoreTable, detailed: bool = False) -> tuple[list[str], list[list[str]]]:
    """Column names and rows; with intervals and ways of acting if `detailed`."""
    rows = table.rows
    columns = [("", [row.full_name for row in rows])]
    for unit in ("return", "normalized") if any(row.normalized for row in rows) else ("return",):
        scores = [row.score(unit) for row in rows]
        columns.append((unit, [statistics.mean_text(score, unit) for score in scores]))
        if detailed:
            intervals = [statistics.interval_text(score, unit) for score in scores]
            columns.append(("95% interval", intervals))
    columns.append(("seeds", [row.seeds_text for row in rows]))
    columns.append(("training", [row.time_text for row in rows]))
    if table.updates_differ:
        columns.append(("updates", [f"{row.updates:,}" if row.updates else ABSENT for row in rows]))
    if detailed and table.acting_differs:
        acting = [describe_acting(row.run) if row.updates else ABSENT for row in rows]
        columns.append(("acting", acting))
    names, cells = zip(*columns, strict=True)
    return list(names), [list(row) for row in zip(*cells, strict=True)]


def markdown_comparison(runs: Sequence[Run]) -> str:
    """Several runs as Markdown: one table per task, then the methods over several tasks."""
    parts = [_markdown(table) for table in standings(runs)]
    methods = aggregates(runs)
    if methods:
        rows = [
            (*map(escape_markdown, (name, statistics.estimate_text(estimate))), str(tasks))
            for name, tasks, estimate in methods
        ]
        banded = any(each.estimate.interval for each in methods)
        head = ("", "normalized [95% interval]" if banded else "normalized", "tasks")
        lines = markdown_table(head, rows)
        parts.append("\n".join(["## Over tasks", "", *lines, "", describe_pooling(methods), ""]))
    return "\n".join(parts)


def _markdown(table: ScoreTable) -> str:
    head, rows = _cells(table, detailed=True)
    lines = markdown_table(head, [[escape_markdown(name), *cells] for name, *cells in rows])
    return "\n".join([f"## {escape_markdown(table.task)}", "", *lines, "", _caption(table), ""])


def _caption(table: ScoreTable) -> str:
    """The budget, how actions were chosen if all methods agree, and how to read the numbers."""
    seeds = statistics.range_text([row.seeds or 0 for row in table.methods], "seed")
    if not any(run.scores for run in table.runs):
        updates = statistics.range_text([run.steps for run in table.runs], "update")
        return f"{seeds}, {updates}; no simulator, so no scores."
    acting = "" if table.acting_differs else f", acting with {describe_acting(table.runs[0])}"
    return escape_markdown(f"{seeds}, {_budget(table.runs)}{acting}; best first; {CAPTION}.")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table: text aligned left, numbers right; cells must be escaped."""
    sides = [":--" if name in TEXT_COLUMNS else "--:" for name in head]
    return [f"| {' | '.join(cells)} |" for cells in (head, sides, *rows)]


def escape_markdown(text: str) -> str:
    """Text that cannot break out of a Markdown cell."""
    one_line = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\|*_`<>[]" else c for c in one_line)


def _budget(runs: Sequence[Run]) -> str:
    """Updates, episodes and checkpoint rule, as ranges if the runs differ."""
    checkpoints = " or ".join(dict.fromkeys(run.protocol["checkpoint"] for run in runs))
    updates = statistics.range_text([run.steps for run in runs], "update")
    episodes = statistics.range_text([run.protocol["episodes"] for run in runs], "episode")
    return f"{updates}, {episodes} per seed, {checkpoints} checkpoint"


def _data_row(run: Run) -> ScoreRow:
    returns, normalized = (
        None if mean is None else statistics.summarize([mean])
        for mean in (run.data.return_mean, run.data.normalized_mean)
    )
    scores, nobody = (returns, normalized), Group({}, ())
    return ScoreRow(run.task, "data", "data", "Data", "", *scores, None, None, None, run, nobody)


def _method_rows(run: Run, kind: str) -> Iterable[ScoreRow]:
    """One row per group of a run."""
    for group in run.groups:
        returns, normalized = (
            statistics.summarize(values) if (values := run.finite_scores(unit, group)) else None
            for unit in ("return", "normalized")
        )
        yield ScoreRow(
            run.task, kind, run.agent, run.title, group.label, returns, normalized, run.steps,
            len(group.places), run.train_seconds, run, group,
        )  # fmt: skip
