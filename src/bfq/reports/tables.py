"""Scores of runs as tables: rows, methods on a task best first, for a terminal and as Markdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from bfq.reports import prose
from bfq.reports.prose import (
    ABSENT,
    estimate_text,
    interval_text,
    mean_text,
    number_text,
    ranged,
)
from bfq.reports.runs import Group, Run
from bfq.reports.statistics import Estimate, Interval, Summary, pooled_interquartile_mean, summarize

WORDS = ("", "acting")  # columns of no numbers
CAPTION = "mean ± std over seeds, [95% Student-t interval of the mean]"


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


MANY = 3  # baselines from which on one run is a comparison too


@dataclass(frozen=True)
class Method:
    """One setting of one agent."""

    run: Run
    group: Group
    row: ScoreRow
    folder: str = ""  # the run's, where two methods would have the same name

    @property
    def name(self) -> str:
        """The agent with what sets it apart."""
        return f"{self.run.title} {self.notes}".strip()

    @property
    def notes(self) -> str:
        """What sets it apart from other methods of the same agent."""
        return ", ".join(filter(None, (self.group.label, self.folder)))

    def rank(self, unit: str) -> float:
        """The mean score by which methods are ordered."""
        score = self.row.score(unit)
        return score.mean if score else float("-inf")


@dataclass(frozen=True)
class Standings:
    """The methods on one task."""

    task: str
    unit: str  # of the score that orders them: normalized where every method has it
    data: tuple[ScoreRow, ...]  # one, unless runs of one task learned from different data
    methods: tuple[Method, ...]  # best first

    @property
    def runs(self) -> list[Run]:
        """The run of each method."""
        return [method.run for method in self.methods]

    @property
    def title(self) -> str:
        """The task with what was spent on it."""
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
        """Whether anything has a normalized score."""
        return any(row.normalized for row in self.rows)

    @property
    def updates_differ(self) -> bool:
        """Whether some trained longer than others."""
        return len({run.steps for run in self.runs}) > 1

    @property
    def acting_differs(self) -> bool:
        """Whether some chose their actions otherwise than others."""
        return len({prose.acting(run) for run in self.runs}) > 1


def standings(runs: Sequence[Run]) -> list[Standings]:
    """The methods of all runs and of their baselines, task by task."""
    tasks = dict.fromkeys(run.task for run in runs)
    return [_standings(task, [run for run in runs if run.task == task]) for task in tasks]


def compares(runs: Sequence[Run]) -> bool:
    """Whether there is enough to compare for a figure and a table of their own."""
    return len(runs) > 1 or any(len(run.baselines) >= MANY for run in runs)


def apart(run: Run, runs: Sequence[Run]) -> str:
    """What sets a run apart from others of its agent on its task, as in tables: of a sweep, its values."""
    namesakes = {each.folder for each in runs if (each.task, each.title) == (run.task, run.title)}
    return _folder(run) if len(namesakes) > 1 else ""


def _standings(task: str, runs: Sequence[Run]) -> Standings:
    everyone = [each for run in runs for each in (run, *run.baselines)]
    found = [
        Method(run, group, row)
        for run in everyone
        for group, row in zip(run.groups, agent_rows(run, "agent"), strict=True)
    ]
    methods = {
        (method.row, method.run.steps): method for method in reversed(found)
    }  # what two share, once
    unit = (
        "return" if any(row.returns and not row.normalized for row, _ in methods) else "normalized"
    )
    named = _told_apart(list(methods.values())[::-1])
    ordered = sorted(named, key=lambda method: method.rank(unit), reverse=True)
    return Standings(
        task, unit, tuple(dict.fromkeys(data_row(run) for run in runs)), tuple(ordered)
    )


def _told_apart(methods: Sequence[Method]) -> list[Method]:
    """Methods of one name get the name of their folder."""
    count = Counter(method.name for method in methods)
    return [
        replace(method, folder=_folder(method.run)) if count[method.name] > 1 else method
        for method in methods
    ]


def _folder(run: Run) -> str:
    """The name of a run's folder; of a baseline, that of the run it belongs to."""
    path = run.folder.resolve()
    return path.parent.parent.name if path.parent.name == "baselines" else path.name


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
