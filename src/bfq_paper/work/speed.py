"""Cells that are times: how often a method acts, and how long it trains, averaged over robots."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax

from bfq.agents import Acting, Agent, Spec
from bfq.agents.registry import configure, get_agent
from bfq.bench.measure import ACTION_BATCH, Sizes, random_transitions, time_acting, time_update
from bfq.errors import BadInput
from bfq.files import locked, make_folder, read_json, write_json
from bfq.run import fingerprint, folder_for, versions
from bfq.settings import compose
from bfq.tasks.catalog import TASKS
from bfq.training.compilation import enable_compilation_cache
from bfq_paper.plan.experiments import Column, Experiment
from bfq_paper.published import TABLES
from bfq_paper.results.cells import Cell, Reading
from bfq_paper.results.schema import NUMBER, require
from bfq_paper.work.bench import AT_WORK, Bench, Work
from bfq_paper.work.clock import finished

MILLION = 1_000_000
MEASURES: dict[
    str, tuple[str, Callable[[dict[str, Any]], float]]
] = {  # by the paper's name: unit, value
    "frequency": ("Hz", lambda row: float(row["acting"]["batches_per_second"])),
    "training time": (
        "hours",
        lambda row: float(row["training"]["microseconds_per_update"]) / 3600,
    ),
}
TOLD: dict[str, dict[str, Any]] = {  # what a robot's file must hold of each
    "frequency": {"acting": {"batches_per_second": NUMBER}},
    "training time": {"training": {"microseconds_per_update": NUMBER}},
}
# The paper's table of hyperparameters has one size for all networks, so that all methods are timed at it.
NETWORKS = {"width": 256, "critic_width": 256, "depth": 4, "critic_depth": 4}
# Calls to time: a sixth of the paper's 3,000, since they are timed five times and once unseen.
CALLS, QUICK_CALLS = 500, 3
MADE_UP = {  # what every time was measured with
    "precision": Sizes().precision,
    "data": {
        "name": "made up",
        "source": "random numbers: times do not depend on them",
        "sha256": None,
    },
}
ENOUGH = (
    20.0  # seconds to time updates for: on a GPU all five calls are within it, on a CPU one or two
)
QUICK: dict[str, Any] = {"transitions": 1000, "chunk": 2, "repeats": 1}


@dataclass(frozen=True)
class Measurement:
    """One method at one number of inner steps, at the sizes of each robot."""

    experiment: Experiment
    tasks: tuple[str, ...]
    column: Column

    @property
    def row(self) -> str:
        """All rows at once."""
        return "times"

    @property
    def name(self) -> str:
        """The method and its steps."""
        return self.column.label

    @property
    def size(self) -> str:
        """The robots."""
        return f"timing at the sizes of {', '.join(self.tasks)}"

    @property
    def waiting(self) -> list[Cell]:
        """Its cells before it is done."""
        why = "not measured yet."
        return [
            Cell(name, self.column.label, "waiting", why, MEASURES[name][0])
            for name in self._measures
        ]

    def folder(self, bench: Bench) -> Path | None:
        """Named after all that a time depends on, the device among it."""
        told = {**self._all_settings, "device": jax.devices()[0].device_kind}
        return folder_for(bench.runs, f"efficiency-{self.column.label}", told)

    def would_make(self, cell: Cell, bench: Bench) -> bool:
        """Whether a cell has the same settings: a time of another device stays until one wants it anew."""
        return cell.provenance.get("fingerprint") == fingerprint(self._all_settings)

    def fill(self, bench: Bench) -> list[Cell]:
        """Measures the robots that were not measured yet."""
        folder = self.folder(bench)
        assert folder is not None
        make_folder(folder)
        with locked(folder, AT_WORK):
            return self._cells(folder)

    def _cells(self, folder: Path) -> list[Cell]:
        files = {task: f"{task.replace('/', '-')}.json" for task in self.tasks}
        rows = [self._measured(task, folder / file) for task, file in files.items()]
        whole = {
            "tasks": list(self.tasks),
            "agent": self.column.agent,
            "rows": rows,
            "run": str(folder),
        }
        write_json(folder / "result.json", whole)
        kept = {
            **whole,
            **MADE_UP,
            "versions": rows[0]["versions"],
            "device": jax.devices()[0].device_kind,
            "finished": finished(folder, [*files.values()]),
            "fingerprint": fingerprint(self._all_settings),
        }
        return [
            Cell(
                name,
                self.column.label,
                "done",
                "",
                unit,
                (Reading(unit, tuple(map(value, rows))),),
                kept,
            )
            for name in self._measures
            for unit, value in [MEASURES[name]]
        ]

    @property
    def _measures(self) -> list[str]:
        """What the paper tells of the method; of one that it does not tell of, everything."""
        printed = TABLES["efficiency"]
        told = [name for name in MEASURES if printed.get(self.column.label, name)]
        return told or list(MEASURES)

    @cached_property
    def _agent(self) -> Agent:
        return get_agent(self.column.agent)

    @property
    def _all_settings(self) -> dict[str, Any]:
        return {task: self._settings(task) for task in self.tasks}

    def _settings(self, task: str) -> dict[str, Any]:
        base = compose(task, self.column.agent).config
        wished = {
            **{name: size for name, size in NETWORKS.items() if name in base},
            **self.column.values,
        }
        config = compose(task, self.column.agent, values=wished).config
        calls = QUICK_CALLS if self.experiment.quick else CALLS
        return {
            "config": config,
            "calls": calls,
            "batch": ACTION_BATCH,
            **_smaller(self.experiment),
        }

    def _measured(self, task: str, path: Path) -> dict[str, Any]:
        if not path.exists():
            began = time.monotonic()
            found = self._measure(task)
            spent = {"seconds": time.monotonic() - began}
            write_json(path, {"task": task, **found, "versions": versions(), **spent})
        kept: dict[str, Any] = read_json(path)
        require(kept, {"versions": dict}, str(path))
        for name in self._measures:
            require(kept, TOLD[name], str(path))
        return kept

    def _measure(self, task: str) -> dict[str, Any]:
        enable_compilation_cache()
        told = self._settings(task)
        config = configure(self._agent, told["config"])
        spec = sizes_of(task)
        sizes = Sizes(spec=spec, enough=ENOUGH, **_smaller(self.experiment))
        found = {}
        if "frequency" in self._measures:
            found["acting"] = time_acting(
                self._agent, config, Acting(), spec, ACTION_BATCH, told["calls"]
            )
        if "training time" in self._measures:
            found["training"] = time_update(
                self._agent, config, random_transitions(sizes, self._agent.needs), sizes
            )
        return found


def measurements(experiment: Experiment) -> list[Work]:
    """What is to be measured, a method each."""
    tasks = experiment.usual or experiment.rows
    for task in tasks:
        sizes_of(task)
    return [Measurement(experiment, tasks, column) for column in experiment.columns]


def _smaller(experiment: Experiment) -> dict[str, Any]:
    """What a quick run does less of."""
    return QUICK if experiment.quick else {}


def sizes_of(task: str) -> Spec:
    """Numbers in an observation and in an action, from the card of a task: no data is needed to time it."""
    sizes = TASKS[task].sizes
    if sizes is None:
        raise BadInput(
            f"the sizes of {task} are not known without its data: time it with `bfq bench`."
        )
    return Spec(*sizes)
