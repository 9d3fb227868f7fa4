"""What several runs say together: all methods on a task, best first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bfq.reports import prose
from bfq.reports.runs import Group, Run
from bfq.reports.tables import ScoreRow, agent_rows, data_row, table_title

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
