"""The parts of an experiment: a population to train, a method to time, the checkerboard.

A part is one run folder, whose name contains a hash of its configuration and data.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import jax
import msgspec

import bfq
from bfq import BadInput
from bfq.agents.contract import Acting, Spec
from bfq.agents.fields import numeric_fields
from bfq.agents.registry import configure, get_agent
from bfq.bench.measure import ACTION_BATCH, Sizes, random_transitions, time_acting, time_update
from bfq.tasks.catalog import TASKS
from bfq.training.compilation import enable_compilation_cache
from bfq_paper.cells import SUCCESS, Cell, Reading, Results, write_file
from bfq_paper.checkerboard import ARCHITECTURE, run_checkerboard
from bfq_paper.experiments import QUICK, Column, Experiment
from bfq_paper.figures import TOY
from bfq_paper.published import PAPER
from bfq_paper.sources import Source, candidates, data_sha256, source_of
from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Settings

SMALL = {  # hyperparameters of a quick run
    "width": 64, "critic_width": 64, "batch_size": 64, "critic_batch_size": 64,
    "policy_batch_size": 64, "policy_target_start": 0,
}  # fmt: skip
# The paper's table of hyperparameters has one size for all networks; all methods are timed at this size.
TIMED = {"width": 256, "critic_width": 256, "depth": 4, "critic_depth": 4}
UNITS = {"frequency": "Hz", "training time": "hours"}
DISTANCES = {
    "energy distance": "energy_distance",
    "sliced Wasserstein-2 distance": "sliced_wasserstein2",
    "share on filled squares": "share_on_filled",
    "squares covered, of 8": "squares_covered",
}
KEPT = ("task", "agent", "steps", "data", "transforms", "reference", "simulator", "episode_steps",
        "versions", "device", "precision", "train_seconds", "microseconds_per_step", "config",
        "command")  # fmt: skip


class ExperimentPart(ABC):
    """A piece of an experiment that is complete or not."""

    row: str
    name: str
    size: str
    folder: str  # in runs/; empty while its data is not here

    @abstractmethod
    def has(self, results: Results) -> bool:
        """Whether the results have its cells, from this machine or another."""

    @abstractmethod
    def run(self, folder: Path, quiet: bool) -> list[Cell]:
        """Do what is missing in its run folder and return its cells."""


def short_hash(settings: Any) -> str:
    """A short name of settings."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def parts_of(experiment: Experiment) -> tuple[list[ExperimentPart], list[Source]]:
    """The parts of an experiment, and the data of its rows."""
    rows = experiment.default_rows or experiment.rows
    if experiment.kind == "toy":
        return [Board(experiment)], []
    if experiment.kind == "speed":
        return [TimedMethod(experiment, rows, column) for column in experiment.columns], []
    sources = [source_of(row) for row in rows]
    groups = populations(experiment.columns)
    return [Training(experiment, s, g) for s in sources if s.data for g in groups], sources


def populations(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    """Columns that can train as one population: they differ in numeric values or in acting only."""
    groups: dict[str, list[Column]] = {}
    for column in columns:
        numeric, static = _split(column)
        shared = repr((column.agent, sorted(numeric), sorted(static.items())))
        groups.setdefault(shared, []).append(column)
    return [tuple(group) for group in groups.values()]


def _split(column: Column) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numeric values, which a population can vary, and the others."""
    names = numeric_fields(get_agent(column.agent).config())
    numeric = {name: value for name, value in column.values.items() if name in names}
    return numeric, {name: value for name, value in column.values.items() if name not in names}


class Training(ExperimentPart):
    """All seeds and all columns of one population on one task."""

    def __init__(self, experiment: Experiment, source: Source, columns: tuple[Column, ...]):
        assert source.data is not None
        self.experiment, self.source, self.columns = experiment, source, columns
        agent, (numeric, static) = get_agent(columns[0].agent), _split(columns[0])
        small = {k: v for k, v in SMALL.items() if experiment.quick and hasattr(agent.config(), k)}
        varied = {name: list(dict.fromkeys(c.values[name] for c in columns)) for name in numeric}
        self.options: dict[str, Any] = {
            "steps": experiment.steps,
            "seeds": experiment.seed_list,
            "values": {**small, **static, **varied},
            "eval_episodes": experiment.episodes,
            "evaluations": 5,
            "precision": experiment.precision,
            "keep_going": True,  # a seed that diverges does not stop the others
        }
        self.config = bfq.plan(source.data, agent.name, **self.options)
        self.settings: dict[str, Any] = msgspec.to_builtins(self.config)
        shares = experiment.evaluations
        self.options["evaluations"] = (
            shares
            if isinstance(shares, int)
            else sorted({max(round(share * self.config.steps), 1) for share in shares})
        )
        self.row = source.task
        labels = ", ".join(column.label for column in columns)
        symbol = experiment.symbol
        self.name = f"{agent.name} with {symbol} = {labels}" if symbol else labels
        self.size = f"{len(self.config.members)} members, {self.config.steps:,} updates"

    @property
    def folder(self) -> str:  # type: ignore[override]
        """Named after everything that the numbers depend on; the data may be generated later."""
        digest = data_sha256(self.config.task)
        if digest is None and "/" in self.config.task:
            return ""
        settings = _without(self.settings, ["chunk"])
        stem = f"{self.config.task.replace('/', '-')}-{self.config.agent}"
        return f"{stem}-{short_hash({**settings, 'data': digest, 'options': self.options})}"

    def has(self, results: Results) -> bool:
        """Whether every column has a cell with the same settings, on this data or on better data."""
        cells = [results.at(self.row, column.label) for column in self.columns]
        return all(c and self.made(c, k) for c, k in zip(cells, self.columns, strict=True))

    def made(self, cell: Cell, column: Column) -> bool:
        """Whether a cell has the settings of this part."""
        run, data, task = cell.run, cell.run.get("data", {}), self.config.task
        names = candidates(self.row)
        better = names[: names.index(task) + 1] if task in names else names
        digest = data_sha256(task) if data.get("name") == task else None
        overrides = {name: column.values[name] for name in self.settings["varied"]}
        # A hyperparameter that was added after the cell was trained had its default.
        trained = {**asdict(get_agent(self.config.agent).config()), **run.get("config", {})}
        configs = [_without(c, overrides) for c in (trained, self.settings["config"])]
        members = [{"seed": seed, "overrides": overrides} for seed in self.settings["seeds"]]
        protocols = self._protocols(column, self.settings["evaluation"])
        scored = [reading.record.get("protocol") for reading in cell.readings]
        return (
            data.get("name") in better
            and digest in (None, data.get("sha256"))
            and (run.get("agent"), run.get("members")) == (self.config.agent, members)
            and configs[0] == configs[1]
            and run.get("precision") == self.config.precision
            and scored[: len(protocols)] == protocols
        )

    def _protocols(self, column: Column, base: dict[str, Any]) -> list[dict[str, Any]]:
        """The column's protocol, then the same with other numbers of candidates to choose from."""
        own = {**base, **column.acting}
        numbers = self.experiment.candidates if get_agent(self.config.agent).chooses else ()
        return [own, *({**own, "candidates": n} for n in numbers if n != own["candidates"])]

    def run(self, folder: Path, quiet: bool) -> list[Cell]:
        """Train from the last checkpoint, then evaluate with other numbers of candidates."""
        where: dict[str, Any] = {"out": folder, "resume": True, "quiet": quiet}
        bfq.train(self.config.task, self.config.agent, **self.options, **where)
        record = json.loads((folder / "result.json").read_text())
        return [self._cell(column, folder, record) for column in self.columns]

    def _cell(self, column: Column, folder: Path, record: dict[str, Any]) -> Cell:
        members, values = record["members"], column.values.items()
        places = [k for k, m in enumerate(members) if m["overrides"].items() <= values]
        protocols = self._protocols(column, record["protocol"])
        readings = [_reading(_evaluated(each, folder, record), places) for each in protocols]
        evaluations, averaged = _evaluations(folder, places), self.experiment.averaged
        if averaged > 1 and not column.acting and TASKS[self.config.task].family == "ogbench":
            readings.append(last_mean(evaluations, averaged))
        scores = zip(places, readings[0].values, strict=True)
        lost = [members[k]["seed"] for k, value in scores if value is None]
        run = {
            **{name: record.get(name) for name in KEPT},
            "members": [members[k] for k in places],
            "run": str(folder),
            "source": self.source._asdict(),
            "finished": _finished(folder),
            "evaluations": {"protocol": record["protocol"], **evaluations},
        }
        why = f"diverged: no score of seed {', '.join(map(str, lost))}." if lost else ""
        unit = SUCCESS if self.config.metric == "success" else "normalized score"
        state = "failed" if lost else "done"
        return Cell(self.row, column.label, unit, tuple(readings), state, why, run)  # type: ignore[arg-type]


def _without(config: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def _evaluated(protocol: dict[str, Any], folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Scores under a protocol: those of the run, stored ones, or those of a new evaluation."""
    if protocol == record["protocol"]:
        return {"protocol": protocol, "scores": record["scores"]}
    name = f"{protocol['candidates']}-candidates-{short_hash(protocol)}.json"
    path = folder / "evaluations" / name
    if not path.exists():
        began = time.monotonic()
        found = bfq.evaluate(folder, **_without(protocol, ["checkpoint"]))
        new = {
            "protocol": msgspec.to_builtins(found.protocol),
            "scores": found.scores,
            "seconds": time.monotonic() - began,
            "device": found.device,
        }
        write_file(path, json.dumps(new, indent=1).encode())
    stored: dict[str, Any] = json.loads(path.read_text())
    return stored


def _reading(scored: dict[str, Any], places: Sequence[int]) -> Reading:
    found = {name: values for name, values in scored["scores"].items() if values is not None}
    scores = {name: [values[k] for k in places] for name, values in found.items()}
    values = scores.get("normalized") or [None] * len(places)
    rest = _without(scored, ["scores"])
    return Reading(
        f"N = {scored['protocol']['candidates']}", tuple(values), {**rest, "scores": scores}
    )


def _evaluations(folder: Path, places: Sequence[int]) -> dict[str, Any]:
    """The scores during training, a list of seeds for each step."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "evaluation"]
    names = [n for n in ("return", "normalized") if all(n in row["metrics"] for row in rows)]
    scores = {n: [[row["metrics"][n][k] for k in places] for row in rows] for n in names}
    return {"steps": [row["step"] for row in rows], **scores}


def last_mean(evaluations: dict[str, Any], count: int) -> Reading:
    """The mean of the last evaluations during training, FQL's convention on OGBench."""
    steps, rows = evaluations["steps"][-count:], evaluations["normalized"][-count:]
    means = [None if None in seed else fmean(seed) for seed in zip(*rows, strict=True)]
    return Reading(f"mean of the last {len(rows)}", tuple(means), {"steps": steps})


def _finished(folder: Path) -> str:
    """When a run ended, in UTC."""
    moment = (folder / "result.json").stat().st_mtime
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


class TimedMethod(ExperimentPart):
    """Action frequency and training time of one method at the sizes of each robot."""

    def __init__(self, experiment: Experiment, tasks: tuple[str, ...], column: Column):
        self.experiment, self.tasks, self.column = experiment, tasks, column
        self.row, self.name, self.size = (
            "times",
            column.label,
            f"at the sizes of {', '.join(tasks)}",
        )
        printed = [name for name in UNITS if PAPER["efficiency"].get(column.label, name)]
        self.measures = printed or list(UNITS)  # those of the paper
        settings = [tasks, experiment.quick, [self._config(task) for task in tasks]]
        name = short_hash([*settings, jax.devices()[0].device_kind])
        self.folder = f"efficiency-{column.label}-{name}"

    def _config(self, task: str) -> dict[str, Any]:
        base = bfq.plan(task, self.column.agent).config
        sizes = {name: size for name, size in TIMED.items() if name in base}
        values = {**sizes, **self.column.values}
        return dict(bfq.plan(task, self.column.agent, values=values).config)

    def has(self, results: Results) -> bool:
        """Whether the robots were timed, on any device."""
        cells = [results.at(name, self.column.label) for name in self.measures]
        return all(cell and cell.run.get("tasks") == list(self.tasks) for cell in cells)

    def run(self, folder: Path, quiet: bool) -> list[Cell]:
        """Time the robots that were not timed yet."""
        rows = []
        for task in self.tasks:
            path = folder / f"{task.replace('/', '-')}.json"
            if not path.exists():
                write_file(path, json.dumps(self._measure(task), indent=1).encode())
            rows.append(json.loads(path.read_text()))
        run = {
            "tasks": list(self.tasks),
            "agent": self.column.agent,
            "rows": rows,
            "run": str(folder),
            "precision": "float32",
            "data": {"name": "random numbers", "source": "random numbers", "sha256": None},
            "versions": rows[0]["versions"],
            "device": jax.devices()[0].device_kind,
        }
        write_file(folder / "result.json", json.dumps(run, indent=1).encode())
        values = {
            "frequency": [row.get("acting", {}).get("batches_per_second") for row in rows],
            "training time": [
                row.get("training", {}).get("microseconds_per_update", 0) / 3600 for row in rows
            ],
        }
        run["finished"] = _finished(folder)
        return [
            Cell(name, self.column.label, unit, (Reading(unit, tuple(values[name])),), run=run)
            for name, unit in UNITS.items()
            if name in self.measures
        ]

    def _measure(self, task: str) -> dict[str, Any]:
        enable_compilation_cache()
        began, quick = time.monotonic(), self.experiment.quick
        agent = get_agent(self.column.agent)
        config, sizes = configure(agent, self._config(task)), TASKS[task].sizes
        if sizes is None:
            raise BadInput(f"the sizes of {task} are not known: use `bfq bench`.")
        spec, found = Spec(*sizes), {}
        if "frequency" in self.measures:
            calls = 3 if quick else 500
            found["acting"] = time_acting(agent, config, Acting(), spec, ACTION_BATCH, calls)
        if "training time" in self.measures:
            smaller: Any = {"transitions": 1000, "chunk": 2, "repeats": 1} if quick else {}
            of = Sizes(spec=spec, enough=20.0, **smaller)
            rows = random_transitions(of, agent.needs)
            found["training"] = time_update(agent, config, rows, of)
        return {
            "task": task,
            **found,
            "versions": bfq.versions(),
            "seconds": time.monotonic() - began,
        }


class Board(ExperimentPart):
    """The paper's two methods on the checkerboard, all seeds together."""

    def __init__(self, experiment: Experiment):
        self.experiment, seeds = experiment, experiment.seed_list
        self.settings = Settings(epochs=2) if experiment.quick else Settings()
        self.described = {**self.settings._asdict(), "architecture": ARCHITECTURE, "seeds": seeds}
        self.row, self.name = "checkerboard", "flow matching and BFQ"
        self.size = f"{len(seeds)} seeds, {self.settings.epochs} epochs"
        self.folder = f"checkerboard-{short_hash(self.described)}"

    def has(self, results: Results) -> bool:
        """Whether all cells have these settings."""
        cells = [results.at(row, f"{m}-{k}") for row in DISTANCES for m, k in _board_columns()]
        return all(cell and cell.run.get("settings") == self.described for cell in cells)

    def run(self, folder: Path, quiet: bool) -> list[Cell]:
        """Train, measure and draw."""
        if not (folder / "result.json").exists():
            note = QUICK if self.experiment.quick else ""
            seeds = self.experiment.seed_list
            record, png = run_checkerboard(seeds, self.settings, PAPER_METHODS, note, quiet)
            write_file(folder / TOY, png)
            record["device"] = jax.devices()[0].device_kind
            write_file(folder / "result.json", json.dumps(record, indent=1).encode())
        record = json.loads((folder / "result.json").read_text())
        run = {
            **{name: record[name] for name in ("settings", "versions", "train_seconds", "device")},
            "precision": "float32",
            "data": {"name": "checkerboard", "source": "sampled for each seed", "sha256": None},
            "run": str(folder),
            "steps": record["settings"]["epochs"] * record["settings"]["batches"],
            "finished": _finished(folder),
        }

        def reading(row: str, method: str, steps: int) -> Reading:
            seeds = record[method][str(steps)]["seeds"]
            return Reading(row, tuple(float(seed[DISTANCES[row]]) for seed in seeds))

        return [
            Cell(row, f"{m}-{k}", row, (reading(row, m, k),), run=run)
            for row in DISTANCES
            for m, k in _board_columns()
        ]


def _board_columns() -> list[tuple[str, int]]:
    return [(method, steps) for method in PAPER_METHODS for steps in METHODS[method].steps]
