"""Scores of runs as tables: for the terminal, as Markdown and as plain data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from bfq.errors import counted
from bfq.reports import Group, Run, describe_acting
from bfq.reports.statistics import (
    ABSENT,
    Estimate,
    Summary,
    estimate_text,
    interval_text,
    mean_text,
    number_text,
    pooled_interquartile_mean,
    range_text,
    summarize,
)

CAPTION = "mean ± std over seeds, [95% Student-t interval of the mean]"
SHORT_CAPTION = "mean ± std over seeds, best first"
TEXT_COLUMNS = ("", "acting")
MANY = 3  # baselines from which on a single run is a comparison


@dataclass(frozen=True)
class ScoreRow:
    """The scores of a dataset or of one setting of an agent."""

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

    @property
    def scores(self) -> tuple[tuple[str, Summary | None], ...]:
        """Both scores with their units."""
        return ("return", self.returns), ("normalized", self.normalized)

    def score(self, unit: str) -> Summary | None:
        """The score in this unit, if there is one."""
        return dict(self.scores)[unit]

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
        return f"{number_text(self.seconds, 1 if self.seconds < 100 else 0)} s"


@dataclass(frozen=True)
class ScoreTable:
    """Rows under a title."""

    title: str
    rows: tuple[ScoreRow, ...]

    @property
    def caption(self) -> str:
        """How to read the scores, if there are any."""
        return CAPTION if any(row.returns and row.kind != "data" for row in self.rows) else ""


@dataclass(frozen=True)
class RankedMethod:
    """One setting of one agent among others."""

    run: Run
    group: Group
    row: ScoreRow
    folder: str = ""  # of the run, if two methods would have the same name

    @property
    def name(self) -> str:
        """The agent with its notes."""
        return f"{self.run.title} {self.notes}".strip()

    @property
    def notes(self) -> str:
        """What distinguishes it from other methods of the same agent."""
        return ", ".join(filter(None, (self.group.label, self.folder)))

    def rank(self, unit: str) -> float:
        """The mean score by which methods are sorted."""
        score = self.row.score(unit)
        return score.mean if score else float("-inf")


@dataclass(frozen=True)
class Standings:
    """All methods on one task, best first."""

    task: str
    unit: str  # that methods are sorted by: normalized if every method has it
    data: tuple[ScoreRow, ...]  # several if runs of one task used different data
    methods: tuple[RankedMethod, ...]

    @property
    def runs(self) -> list[Run]:
        """The run of each method."""
        return [method.run for method in self.methods]

    @property
    def title(self) -> str:
        """The task with the budget of the runs."""
        return table_title(self.runs)

    @property
    def rows(self) -> tuple[ScoreRow, ...]:
        """The data, then the methods."""
        return (*self.data, *(method.row for method in self.methods))

    @property
    def scored(self) -> bool:
        """Whether any method was evaluated."""
        return any(run.scores for run in self.runs)

    @property
    def normalized(self) -> bool:
        """Whether any row has a normalized score."""
        return any(row.normalized for row in self.rows)

    @property
    def updates_differ(self) -> bool:
        """Whether the numbers of updates differ."""
        return len({run.steps for run in self.runs}) > 1

    @property
    def acting_differs(self) -> bool:
        """Whether actions were chosen in different ways."""
        return len({describe_acting(run) for run in self.runs}) > 1

    @property
    def ranking(self) -> ScoreTable:
        """The data, then the methods, each with what distinguishes it."""
        rows = (
            replace(method.row, kind="method", overrides=self._notes(method))
            for method in self.methods
        )
        return ScoreTable(self.title, (*self.data, *rows))

    def _notes(self, method: RankedMethod) -> str:
        updates = counted(method.run.steps, "update") if self.updates_differ else ""
        acting = describe_acting(method.run) if self.acting_differs else ""
        return ", ".join(filter(None, (method.notes, updates, acting)))


class Aggregate(NamedTuple):
    """One method over several tasks."""

    name: str
    tasks: int
    estimate: Estimate  # the interquartile mean of the normalized scores of all seeds and tasks


def score_table(run: Run) -> ScoreTable:
    """The data, the baselines and the agent of one run."""
    baselines = [row for baseline in run.baselines for row in _agent_rows(baseline, "baseline")]
    return ScoreTable(table_title([run]), (_data_row(run), *baselines, *_agent_rows(run, "agent")))


def standings(runs: Sequence[Run]) -> list[Standings]:
    """The methods of all runs and of their baselines, task by task."""
    tasks = dict.fromkeys(run.task for run in runs)
    return [_standings(task, [run for run in runs if run.task == task]) for task in tasks]


def _standings(task: str, runs: Sequence[Run]) -> Standings:
    found = [
        RankedMethod(run, group, row)
        for each in runs
        for run in (each, *each.baselines)
        for group, row in zip(run.groups, _agent_rows(run, "agent"), strict=True)
    ]
    unique = {method.row: method for method in reversed(found)}
    returns_only = any(row.returns and not row.normalized for row in unique)
    unit = "return" if returns_only else "normalized"
    names = Counter(method.name for method in unique.values())
    named = [
        replace(method, folder=_folder(method.run)) if names[method.name] > 1 else method
        for method in reversed(unique.values())
    ]
    ordered = sorted(named, key=lambda method: method.rank(unit), reverse=True)
    data = tuple(dict.fromkeys(_data_row(run) for run in runs))
    return Standings(task, unit, data, tuple(ordered))


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
    found = [
        Aggregate(name, len(tasks), pooled_interquartile_mean(tasks))
        for name, tasks in pools.items()
        if len(tasks) > 1
    ]
    return sorted(found, key=lambda each: each.estimate.value, reverse=True)


def describe_pooling(banded: bool) -> str:
    """Caption of aggregates, with or without intervals."""
    interval = ", with a 95% stratified bootstrap interval" if banded else ""
    return f"Interquartile mean of the scores of all seeds{interval}."


def rich_table(run: Run) -> Table:
    """A run's scores for a terminal of 80 columns, with intervals below the means."""
    table = score_table(run)
    found = _empty_table(table.title, table.caption, ("return", "normalized", "seeds", "training"))
    found.leading, found.padding = 1, (0, 1, 0, 1)
    for row in table.rows:
        scores = (
            f"{mean_text(summary, unit)}\n{interval_text(summary, unit)}".removesuffix(
                f"\n{ABSENT}"
            )
            for unit, summary in row.scores
        )
        name = "\n".join(filter(None, (row.name, row.overrides)))
        cells = (name, *scores, row.seeds_text, row.time_text)
        style = {"agent": "bold", "data": "dim"}.get(row.kind, "")
        found.add_row(*(Text(cell) for cell in cells), style=style)
    return found


def rich_standings(table: Standings) -> Table:
    """All methods on a task for a terminal of 80 columns, one line each if names allow."""
    head, rows = _cells(table)
    found = _empty_table(table.title, SHORT_CAPTION if table.scored else "", head[1:])
    found.min_width = min(max(60, len(table.title) + 2), 80)  # keeps the title on one line
    for place, cells in enumerate(rows):
        style = "dim" if place < len(table.data) else ""
        found.add_row(*(Text(cell) for cell in cells), style=style)
    return found


def _cells(table: Standings, detailed: bool = False) -> tuple[list[str], list[list[str]]]:
    """Column names and rows; with intervals and ways of acting if `detailed`."""
    units = ["return", *(["normalized"] if table.normalized else [])]
    scores = [name for unit in units for name in (unit, "95% interval")] if detailed else units
    acting = detailed and table.acting_differs
    head = ["", *scores, "seeds", "training"]
    head += ["updates"] if table.updates_differ else []
    head += ["acting"] if acting else []
    rows = []
    entries: list[tuple[ScoreRow, RankedMethod | None]] = [(row, None) for row in table.data]
    entries += [(method.row, method) for method in table.methods]
    for row, method in entries:
        cells = [method.name if method else row.name]
        for unit in units:
            cells.append(mean_text(row.score(unit), unit))
            cells += [interval_text(row.score(unit), unit)] if detailed else []
        cells += [row.seeds_text, row.time_text]
        if table.updates_differ:
            cells.append(f"{row.updates:,}" if row.updates else ABSENT)
        if acting:
            cells.append(describe_acting(method.run) if method else ABSENT)
        rows.append(cells)
    return head, rows


def _empty_table(title: str, caption: str, columns: Sequence[str]) -> Table:
    found = Table(
        title=Text(title, style="bold"),
        caption=Text(caption, style="dim italic"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        min_width=60,
    )
    found.add_column("", min_width=16, overflow="fold")
    for name in columns:
        found.add_column(name, justify="right", no_wrap=True)
    return found


def markdown_comparison(runs: Sequence[Run]) -> str:
    """Several runs as Markdown: one table per task, then the methods over several tasks."""
    parts = [_markdown(table) for table in standings(runs)]
    methods = aggregates(runs)
    if methods:
        rows = [
            (
                escape_markdown(each.name),
                escape_markdown(estimate_text(each.estimate)),
                str(each.tasks),
            )
            for each in methods
        ]
        banded = any(each.estimate.interval for each in methods)
        head = ("", "normalized [95% interval]" if banded else "normalized", "tasks")
        lines = markdown_table(head, rows)
        parts.append("\n".join(["## Over tasks", "", *lines, "", describe_pooling(banded), ""]))
    return "\n".join(parts)


def _markdown(table: Standings) -> str:
    head, rows = _cells(table, detailed=True)
    lines = markdown_table(head, [[escape_markdown(name), *cells] for name, *cells in rows])
    return "\n".join([f"## {escape_markdown(table.task)}", "", *lines, "", _caption(table), ""])


def _caption(table: Standings) -> str:
    """The budget, how actions were chosen if all methods agree, and how to read the numbers."""
    seeds = range_text([len(method.group.places) for method in table.methods], "seed")
    if not table.scored:
        updates = range_text([run.steps for run in table.runs], "update")
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


def table_title(runs: Sequence[Run]) -> str:
    """The task of the runs with their budget."""
    if not any(run.scores for run in runs):
        return f"{runs[0].task}: no simulator, so no scores"
    return f"{runs[0].task}: {_budget(runs)}"


def _budget(runs: Sequence[Run]) -> str:
    """Updates, episodes and checkpoint rule, as ranges if the runs differ."""
    checkpoints = " or ".join(dict.fromkeys(run.protocol["checkpoint"] for run in runs))
    updates = range_text([run.steps for run in runs], "update")
    episodes = range_text([run.protocol["episodes"] for run in runs], "episode")
    return f"{updates}, {episodes} per seed, {checkpoints} checkpoint"


def _data_row(run: Run) -> ScoreRow:
    returns, normalized = (
        None if mean is None else summarize([mean])
        for mean in (run.data.return_mean, run.data.normalized_mean)
    )
    return ScoreRow(run.task, "data", "data", "Data", "", returns, normalized, None, None, None)


def _agent_rows(run: Run, kind: str) -> Iterable[ScoreRow]:
    """One row per group of a run."""
    for group in run.groups:
        returns, normalized = (
            summarize(values) if (values := run.finite_scores(unit, group)) else None
            for unit in ("return", "normalized")
        )
        yield ScoreRow(
            run.task, kind, run.agent, run.title, group.label, returns, normalized,
            run.steps, len(group.places), run.train_seconds,
        )  # fmt: skip
