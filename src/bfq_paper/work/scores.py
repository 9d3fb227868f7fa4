"""Cells that are scores: one population a task, agent and structure, with few and with many candidates."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import jax

from bfq.agents import numeric_fields
from bfq.agents.registry import get_agent
from bfq.data.dataset import Dataset
from bfq.errors import BadInput, Busy
from bfq.experiment import execute, start
from bfq.files import locked, make_folder, read_json, write_json
from bfq.reports import read_finished
from bfq.run import RunConfig, as_json, fingerprint, folder_for
from bfq.settings import compose
from bfq.tasks.catalog import TASKS
from bfq_paper.plan.experiments import Column, Experiment
from bfq_paper.plan.sources import Source, as_good, at_hand
from bfq_paper.results import successes
from bfq_paper.results.cells import Cell, Reading, empty
from bfq_paper.results.schema import RESULT, WORLD, numbers, require
from bfq_paper.results.told_runs import COPIED, CURVES
from bfq_paper.work.bench import AT_WORK, Bench, Work
from bfq_paper.work.clock import clocked, finished, seconds

KEPT = (*COPIED, "precision")  # of a run's result.json, beside every score of it
QUICK = {
    "width": 64, "critic_width": 64, "batch_size": 64, "critic_batch_size": 64, "policy_batch_size": 64,
    "policy_target_start": 0,
}  # fmt: skip
EVALUATED: dict[str, Any] = {
    "protocol": RESULT["protocol"],
    "scores": dict,
}  # what evaluating again leaves


@dataclass(frozen=True)
class Training:
    """All seeds and all values of one structure of one agent on one task: one run folder."""

    experiment: Experiment
    source: Source
    run: RunConfig
    columns: tuple[Column, ...]

    @property
    def row(self) -> str:
        """The task as the paper has it."""
        return self.source.task

    @property
    def name(self) -> str:
        """The columns it fills."""
        labels = ", ".join(column.label for column in self.columns)
        symbol = self.experiment.symbol
        return f"{self.run.agent} with {symbol} = {labels}" if symbol else labels

    @property
    def size(self) -> str:
        """How much is trained at once, and for how long."""
        members = len(self.run.members)
        return f"{members} members, {self.run.steps:,} updates"

    @property
    def waiting(self) -> list[Cell]:
        """Its cells before it is done."""
        return empty(self.row, self.columns, "waiting", "not run yet.")

    def folder(self, bench: Bench) -> Path | None:
        """Named after everything that its results depend on, the data among it."""
        if not at_hand(self.run.task):
            return None
        told = {**self.run.identity(), "data_sha256": bench.data(self.run.task).sha256}
        return folder_for(bench.runs, f"{self.run.task}-{self.run.agent}", told)

    def would_make(self, cell: Cell, bench: Bench) -> bool:
        """Whether a cell has the same settings on the same data, or on better data that is not here."""
        data = cell.provenance.get("source", {}).get("data")
        column = next(column for column in self.columns if column.label == cell.column)
        if data not in as_good(self.row, self.run.task):
            return False
        if cell.provenance.get("fingerprint") != self._fingerprint(column, data):
            return False
        here = self._digest(bench) if data == self.run.task else None
        there = cell.provenance.get("data", {}).get("sha256")
        return None in (here, there) or here == there

    def _digest(self, bench: Bench) -> str | None:
        """That of the data, as far as it is here and can be read."""
        try:
            return bench.data(self.run.task).sha256 if at_hand(self.run.task) else None
        except BadInput:
            return None

    def _fingerprint(self, column: Column, data: str) -> str:
        """Of all that a cell's scores depend on but the content of its data."""
        run = self.run if data == self.run.task else _run(self.experiment, data, self.columns)
        settings = {k: v for k, v in run.identity().items() if k != "evaluations"}
        averaged = (
            [run.evaluations, self.experiment.averaged] if self.experiment.averaged > 1 else None
        )
        ways = {
            "acting": dict(column.acting),
            "candidates": self.experiment.candidates,
            "averaged": averaged,
        }
        return fingerprint({**settings, **ways})

    def fill(self, bench: Bench) -> list[Cell]:
        """Trains from where it stands, then evaluates as often as was not done before."""
        dataset = bench.data(self.run.task)
        folder = self.folder(bench)
        assert folder is not None  # the data is here now
        _begin(self.run, folder, dataset)
        with locked(folder, AT_WORK):
            with clocked(folder):
                result = as_json(execute(folder, dataset, (), bench.quiet))
            _check(folder, result)
            return [self._cell(column, folder, result, bench) for column in self.columns]

    def _cell(self, column: Column, folder: Path, result: dict[str, Any], bench: Bench) -> Cell:
        places = [k for k, member in enumerate(result["members"]) if _is_of(member, column)]
        scored = self._evaluated(column, folder, result, bench)
        readings = (
            *(_reading(each, places) for each in scored),
            *self._averaged(column, folder, places),
        )
        seeds = [result["members"][k]["seed"] for k in places]
        lost = [
            seed for seed, value in zip(seeds, readings[0].values, strict=True) if value is None
        ]  # the policy's actions became infinite
        why = f"diverged: no score of seed {', '.join(map(str, lost))}." if lost else ""
        kept = {name: result[name] for name in KEPT} | {name: result.get(name) for name in WORLD}
        members = [result["members"][k] for k in places]
        provenance = {
            **kept,
            "run_seconds": seconds(folder),  # with compiling and with the evaluations along the way
            "members": members,
            "run": str(folder),
            "source": self.source.used._asdict(),
            "finished": finished(folder),
            "fingerprint": self._fingerprint(column, self.run.task),
            "evaluations": {"protocol": result["protocol"], **_along(folder, places)},
        }
        unit = successes.UNIT if self.run.metric == "success" else "normalized score"
        state = "failed" if lost else "done"
        return Cell(self.row, column.label, state, why, unit, readings, provenance)

    def _averaged(self, column: Column, folder: Path, places: Sequence[int]) -> list[Reading]:
        """The mean of the last evaluations during training, by FQL's convention for OGBench."""
        count = self.experiment.averaged
        if count == 1 or column.acting or TASKS[self.run.task].family != "ogbench":
            return []
        rows = [row for row in read_finished(folder).rows if row.kind == "evaluation"][-count:]
        found = [[row.metrics["normalized"][k] for row in rows] for k in places]
        means = [
            None if None in values else fmean(v for v in values if v is not None)
            for values in found
        ]
        return [
            Reading(
                f"mean of the last {len(rows)}", tuple(means), {"steps": [row.step for row in rows]}
            )
        ]

    def _evaluated(
        self, column: Column, folder: Path, result: dict[str, Any], bench: Bench
    ) -> list[dict[str, Any]]:
        """The run's own evaluation or the column's, then the same with other numbers of candidates."""
        own = {**result["protocol"], **column.acting}
        wished = [own]
        if get_agent(column.agent).chooses:
            many = [n for n in self.experiment.candidates if n != own["candidates"]]
            wished += [{**own, "candidates": n} for n in many]
        return [_scored(protocol, folder, result, bench) for protocol in wished]


def _begin(run: RunConfig, folder: Path, dataset: Dataset) -> None:
    """Starts the run of a folder that has none; if another process does so at this moment, it is at work."""
    if (folder / "config.json").exists():
        return
    try:
        start(run, folder, dataset)
    except BadInput as error:
        if (folder / "config.json").exists():
            raise Busy(AT_WORK.format(folder=folder)) from error
        raise


def trainings(experiment: Experiment, sources: Sequence[Source]) -> list[Work]:
    """What is to be trained, row by row."""
    return [
        Training(experiment, source, _run(experiment, source.data, columns), tuple(columns))
        for source in sources
        if source.data
        for columns in populations(experiment.columns)
    ]


def populations(columns: Sequence[Column]) -> list[list[Column]]:
    """The columns that can train as members of one population: they differ in numbers only, or in acting."""
    together: dict[str, list[Column]] = {}
    for column in columns:
        numeric, structure = _split(column)
        together.setdefault(
            repr((column.agent, sorted(numeric), sorted(structure.items()))), []
        ).append(column)
    return list(together.values())


def _split(column: Column) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that members may differ in, and those that they share."""
    names = numeric_fields(get_agent(column.agent).config())
    numeric = {name: value for name, value in column.values.items() if name in names}
    return numeric, {name: value for name, value in column.values.items() if name not in names}


def _run(experiment: Experiment, task: str, columns: Sequence[Column]) -> RunConfig:
    numeric, structure = _split(columns[0])
    varied = {name: list(dict.fromkeys(c.values[name] for c in columns)) for name in numeric}
    seeds = experiment.seeds
    run = compose(
        task,
        columns[0].agent,
        steps=experiment.steps,
        seeds=seeds if isinstance(seeds, int) else list(seeds),
        values={**_quick(experiment, columns[0].agent), **structure, **varied},
        eval_episodes=experiment.episodes,
        precision=experiment.precision,
        keep_going=True,  # one member that diverges must not stop the others of its grid
    )
    return dataclasses.replace(run, evaluations=_evaluations(experiment, run.steps))


def _evaluations(experiment: Experiment, steps: int) -> int | list[int]:
    """How many during training, or after which updates."""
    wished = experiment.evaluations
    return (
        wished
        if isinstance(wished, int)
        else sorted({max(round(share * steps), 1) for share in wished})
    )


def _quick(experiment: Experiment, agent: str) -> dict[str, Any]:
    """What a quick run has of its own: small networks and batches, and a policy that acts from the start."""
    config = get_agent(agent).config()
    return (
        {name: value for name, value in QUICK.items() if hasattr(config, name)}
        if experiment.quick
        else {}
    )


def _along(folder: Path, places: Sequence[int]) -> dict[str, Any]:
    """The evaluations during training, a list of seeds at each step: enough to draw a learning curve."""
    rows = [row for row in read_finished(folder).rows if row.kind == "evaluation"]
    names = [name for name in CURVES if all(name in row.metrics for row in rows)]
    told = {name: [[row.metrics[name][k] for k in places] for row in rows] for name in names}
    return {"steps": [row.step for row in rows], **told}


def _check(folder: Path, result: dict[str, Any]) -> None:
    """Refuses a run whose files lack what its cells tell of it; a report needs less, of scores say."""
    read_finished(folder)
    require(result, {"scores": dict, "precision": str}, str(folder / "result.json"))


def _is_of(member: dict[str, Any], column: Column) -> bool:
    return all(column.values.get(name) == value for name, value in member["overrides"].items())


def _scored(
    protocol: dict[str, Any], folder: Path, result: dict[str, Any], bench: Bench
) -> dict[str, Any]:
    """An evaluation of the last checkpoint under a protocol: the run's own, a kept one, or a new one."""
    if protocol == result["protocol"]:
        return {"protocol": protocol, "scores": result["scores"]}
    path = folder_for(
        folder / "evaluations", f"{protocol['candidates']}-candidates", protocol
    ).with_suffix(".json")
    if not path.exists():
        make_folder(path.parent)
        began = time.monotonic()
        asked = {name: value for name, value in protocol.items() if name != "checkpoint"}
        found = bench.evaluate(folder, **asked)
        spent = {"seconds": time.monotonic() - began, "device": jax.devices()[0].device_kind}
        write_json(path, {"protocol": found.protocol, "scores": found.scores, **spent})
    kept: dict[str, Any] = read_json(path)
    require(kept, EVALUATED, str(path))
    for name, values in kept["scores"].items():
        if values is not None:
            numbers(values, len(result["members"]), f"{path}: {name}")
    return kept


def _reading(scored: dict[str, Any], places: Sequence[int]) -> Reading:
    scores = {name: [v[k] for k in places] for name, v in scored["scores"].items() if v is not None}
    values = scores.get("normalized") or [None] * len(places)
    candidates = scored["protocol"]["candidates"]
    rest = {name: value for name, value in scored.items() if name != "scores"}
    return Reading(f"N = {candidates}", tuple(values), {**rest, "scores": scores})
