"""Train a grid of hyperparameters and rank it.

Numeric hyperparameters are trained together in one run; each combination of the others has its own run.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bfq.agents.contract import Agent
from bfq.agents.fields import numeric_fields
from bfq.agents.registry import load_agent
from bfq.data.dataset import Dataset
from bfq.errors import BadInput, say
from bfq.experiment import run_to_end, start
from bfq.files import write_bytes, write_json
from bfq.reports import read_finished, score_name
from bfq.reports.report import write_report
from bfq.reports.sweep_figures import sweep_figure
from bfq.reports.tables import ScoreRow, ScoreTable, standings
from bfq.run import RunConfig, as_json, folder_for, stem_of, versions
from bfq.settings import check_same, command, command_line, compose, options_of_run

ALONE = "run"  # the name of the folder if there is only one run
Values = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Ranking:
    """The settings of a sweep, best first."""

    table: ScoreTable
    names: tuple[str, ...]  # the hyperparameters that have several values

    @property
    def best(self) -> ScoreRow:
        """The setting with the highest mean."""
        return self.table.methods[0]

    def settings(self, method: ScoreRow) -> dict[str, Any]:
        """The values of the swept hyperparameters in one setting."""
        return {
            name: method.group.overrides.get(name, method.run.config[name]) for name in self.names
        }

    def scores(self, method: ScoreRow) -> list[float]:
        """The scores of a setting, one per seed."""
        return method.values(self.table.unit)


def combinations(agent: Agent, values: Values) -> list[dict[str, list[Any]]]:
    """The values of each run: one combination of the structural hyperparameters, and all numeric values."""
    numeric = numeric_fields(agent.config())
    shared = {k: v for k, v in values.items() if k not in numeric and len(v) > 1}
    rest = {name: list(several) for name, several in values.items() if name not in shared}
    if all(len(several) < 2 for several in values.values()):
        raise BadInput(
            "there is nothing to sweep: give a hyperparameter several values, as --set eta=0.1,1."
        )
    for name, several in shared.items():
        if len(set(several)) < len(several):
            raise BadInput(f"{name} has the same value twice: both would train the same run.")
    return [
        {**rest, **{name: [one] for name, one in zip(shared, chosen, strict=True)}}
        for chosen in product(*shared.values())
    ]


def folder_name(values: Values, chosen: Values) -> str:
    """The values that only this run of the sweep has, as they are typed."""
    own = [f"{name}={chosen[name][0]}" for name in values if len(chosen[name]) < len(values[name])]
    return ",".join(own).replace("/", "-") or ALONE


def sweep_runs(values: Values, agent: str | Agent = "bfq", **options: Any) -> dict[str, RunConfig]:
    """The runs of a sweep by the names of their folders; a seed that diverges does not stop one."""
    method = load_agent(agent)
    return {
        folder_name(values, chosen): compose(
            agent=method, values=chosen, **{**options, "keep_going": True}
        )
        for chosen in combinations(method, values)
    }


def sweep_folder(runs: Mapping[str, RunConfig]) -> Path:
    """A name that depends on all options: the same command continues the same sweep."""
    settings = {name: run.identity() for name, run in runs.items()}
    return folder_for(f"sweep-{stem_of(next(iter(runs.values())))}", settings)


def run_sweep(
    runs: Mapping[str, RunConfig],
    values: Values,
    folder: Path,
    dataset: Dataset | None = None,
    quiet: bool = False,
) -> tuple[Ranking, dict[str, Any]]:
    """Train what is not trained yet, rank the settings, and write sweep.json, which is returned as well."""
    folders = train_all(runs, folder, dataset, quiet)
    ranking = ranked(folders, values)
    return ranking, write_sweep(ranking, next(iter(runs.values())), values, folder, folders)


def train_all(
    runs: Mapping[str, RunConfig], folder: Path, dataset: Dataset | None, quiet: bool
) -> list[Path]:
    """Train every run in its own folder, from its last checkpoint; refuse folders of other runs first."""
    if (folder / "config.json").exists():
        raise BadInput(f"{folder} holds a run, and its report would be lost: choose another --out.")
    for name, run in runs.items():
        if run.simulator is None:
            raise BadInput("there is no environment to rank the settings in: name one with --env.")
        check_same(run, folder / name)
    for place, (name, run) in enumerate(runs.items(), 1):
        if len(runs) > 1 and not quiet:
            say(f"run {place} of {len(runs)}, {name}")
        if not (folder / name / "config.json").exists():
            dataset = start(run, folder / name, dataset, quiet)
        run_to_end(folder / name, dataset, quiet=quiet)
    return [folder / name for name in runs]


def ranked(folders: Sequence[Path], values: Values) -> Ranking:
    """Rank the finished runs of a sweep."""
    (table,) = standings([read_finished(folder) for folder in folders])
    return Ranking(table, tuple(name for name, several in values.items() if len(several) > 1))


def write_sweep(
    ranking: Ranking, run: RunConfig, values: Values, folder: Path, folders: Sequence[Path]
) -> dict[str, Any]:
    """Write `sweep.json`, the report, and a figure if one numeric hyperparameter was swept."""
    first = max(run.seeds) + 1
    fresh = list(range(first, first + len(run.seeds)))  # seeds that did not select the setting
    config = {**run.config, **ranking.settings(ranking.best)}
    best = dataclasses.replace(run, config=config, varied={}, seeds=fresh, keep_going=False)
    record = {
        "task": run.task,
        "agent": run.agent,
        "steps": run.steps,
        "seeds": run.seeds,
        "swept": list(ranking.names),
        "unit": ranking.table.unit,
        "rows": [_row(ranking, method) for method in ranking.table.methods],
        "protocol": run.evaluation,
        "data": as_json(ranking.best.run.data),
        "reference": as_json(run)["reference"],
        "confirm": command(best),
        "versions": versions(),
        "command": sweep_command(run, values),
    }
    write_report(folders, folder)
    picture = draw_ranking(ranking)
    if picture:
        write_bytes(folder / "sweep.png", picture)
    write_json(folder / "sweep.json", record)
    return record


def sweep_command(run: RunConfig, values: Values) -> str:
    """The command line of the sweep that this run is the first of."""
    given = options_of_run(dataclasses.replace(run, keep_going=False))
    swept = {name: list(one) if len(one) > 1 else one[0] for name, one in values.items()}
    given["values"] = {**given.get("values", {}), **swept}
    given["values"] = dict(sorted(given["values"].items()))
    return command_line("sweep", given)


def _row(ranking: Ranking, method: ScoreRow) -> dict[str, Any]:
    score = method.score(ranking.table.unit)
    return {
        "values": ranking.settings(method),
        "mean": score.mean if score else None,
        "std": score.std if score and math.isfinite(score.std) else None,
        "scores": ranking.scores(method),
        "run": str(method.run.folder),
    }


def draw_ranking(ranking: Ranking) -> bytes | None:
    """The scores over a numeric hyperparameter, with a panel for each run; None unless there is one."""
    numeric = [name for name in ranking.names if name in ranking.best.group.overrides]
    if len(numeric) != 1:
        return None
    panels: dict[str, dict[float, list[float]]] = {}
    for method in ranking.table.methods:
        if ranking.scores(method):
            shared = {k: v for k, v in ranking.settings(method).items() if k != numeric[0]}
            label = ", ".join(f"{k}={v}" for k, v in shared.items()) or ranking.table.task
            panels.setdefault(label, {})[float(method.group.overrides[numeric[0]])] = (
                ranking.scores(method)
            )
    unit = score_name(ranking.table.unit, ranking.table.runs)
    return sweep_figure(
        panels, f"{ranking.best.run.title}: {numeric[0]}", numeric[0], unit, level=True
    )
