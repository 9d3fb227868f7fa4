"""The paper's experiments from experiments.toml, and the options that change them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import msgspec

from bfq import BadInput
from bfq.agents.registry import agent_names
from bfq.tasks.catalog import TASKS

QUICK = "quick run, not comparable"
QUICK_TASK = "pendulum-mixed"  # generated in seconds, needs no simulator package


@dataclass(frozen=True)
class Column:
    """A method, or one value of a hyperparameter: a column of the paper's table."""

    label: str  # as in published.toml
    agent: str
    values: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters besides the preset
    acting: Mapping[str, Any] = field(default_factory=dict)  # changes of the evaluation protocol


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    kind: str  # scores | speed | toy
    rows: tuple[str, ...]  # the paper's tasks
    columns: tuple[Column, ...]
    options: tuple[str, ...]  # command-line options that apply
    table: str | None = None  # the paper's table in published.toml, if it prints numbers
    default_rows: tuple[str, ...] = ()  # rows that run by default; empty: all
    seeds: int | tuple[int, ...] = 6
    steps: int | None = None  # gradient updates; None: the preset's
    episodes: int = 50  # per seed
    evaluations: int | tuple[float, ...] = 5  # how many during training, or after which shares
    candidates: tuple[int, ...] = (1, 50)  # N, besides the preset's own
    averaged: int = 1  # last evaluations whose mean is also reported, on OGBench's tasks
    symbol: str = ""  # of the hyperparameter that the columns vary
    about: str = ""
    precision: str = "float32"
    quick: bool = False  # checks that everything works; comparable with nothing

    @property
    def folder(self) -> str:
        """The name of its folder in results/."""
        return f"{self.name}-quick" if self.quick else self.name

    @property
    def heading(self) -> str:
        """The title, marked if the run is quick."""
        return f"{self.title} ({QUICK})" if self.quick else self.title

    @property
    def compares_methods(self) -> bool:
        """Whether the columns are different methods."""
        return self.table in ("full", "ogbench")

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def named(self, column: str) -> str:
        """The label of a column with its symbol: λ = 0.5."""
        return f"{self.symbol} = {column}" if self.symbol else column


def _experiment(name: str, entry: dict[str, Any]) -> Experiment:
    columns = [c if isinstance(c, dict) else {"label": c, "agent": c} for c in entry["columns"]]
    found: Experiment = msgspec.convert(entry | {"name": name, "columns": columns}, Experiment)
    return found


_ENTRIES = tomllib.loads((files(__package__) / "experiments.toml").read_text("utf-8"))
EXPERIMENTS = {name: _experiment(name, entry) for name, entry in _ENTRIES.items()}


@dataclass(frozen=True)
class Options:
    """Options of `bfq reproduce` that change an experiment; None or empty: as in the paper."""

    quick: bool = False
    agents: Sequence[str] = ()
    tasks: Sequence[str] = ()
    seeds: int | Sequence[int] | None = None
    steps: int | None = None
    precision: str | None = None


def select_experiments(name: str, options: Options = Options()) -> list[Experiment]:  # noqa: B008 - frozen
    """The experiment of that name, or all of them, changed by the options."""
    names = ("agents", "tasks", "seeds", "steps", "precision")
    given = {
        word: value for word in names if (value := getattr(options, word)) not in (None, (), [])
    }
    _check(options)
    if name == "all":
        for word in ("agents", "tasks"):
            if word in given:
                raise BadInput(f"--{word} applies to one experiment, not to all.")
        return [_changed(each, given, options.quick) for each in EXPERIMENTS.values()]
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, [*EXPERIMENTS, "all"])
    experiment = EXPERIMENTS[name]
    for word in given:
        if word not in experiment.options:
            known = ", ".join(f"--{each}" for each in experiment.options)
            raise BadInput(f"the experiment {name} has no option --{word}; it has {known}.")
    return [_changed(experiment, given, options.quick)]


def unknown_name(kind: str, name: str, known: Sequence[str]) -> BadInput:
    """An error that names the nearest known name."""
    near = get_close_matches(name, known, 1)
    return BadInput(f"unknown {kind} {name!r}" + (f": did you mean {near[0]}?" if near else "."))


def _check(options: Options) -> None:
    if options.precision not in (None, "float32", "bfloat16"):
        raise unknown_name("precision", str(options.precision), ["float32", "bfloat16"])
    if options.steps is not None and options.steps < 1:
        raise BadInput(f"--steps must be at least 1, not {options.steps}.")
    for task in options.tasks:
        if task == "checkerboard":
            raise BadInput("the checkerboard has no states: `bfq reproduce toy` trains on it.")
        if task not in TASKS:
            raise unknown_name("task", task, list(TASKS))
    seeds = options.seeds
    if seeds is not None and (
        not 1 <= seeds <= 1000
        if isinstance(seeds, int)
        else len(set(seeds)) < len(seeds) or min(seeds) < 0
    ):
        raise BadInput("--seeds must be a positive number, or a list of different seeds.")


def _changed(experiment: Experiment, given: Mapping[str, Any], quick: bool) -> Experiment:
    changes: dict[str, Any] = {}
    if quick:
        changes = {"quick": True, "steps": 200, "seeds": 2, "episodes": 2, "evaluations": 2}
        if experiment.kind == "scores":
            changes["default_rows"] = (QUICK_TASK,)
        elif experiment.kind == "speed":
            changes["default_rows"] = experiment.rows[:1]
    asked = {word: value for word, value in given.items() if word in experiment.options}
    if "tasks" in asked:
        asked["default_rows"] = tuple(dict.fromkeys(asked.pop("tasks")))
    if "agents" in asked:
        asked["columns"] = _columns(experiment, list(dict.fromkeys(asked.pop("agents"))))
    if not isinstance(asked.get("seeds", 0), int):
        asked["seeds"] = tuple(asked["seeds"])
    return replace(experiment, **(changes | asked))


def _columns(experiment: Experiment, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns with these labels or agents; other agents get a column of their own."""
    found = [c for c in experiment.columns if c.label in names or c.agent in names]
    known = {name for column in found for name in (column.label, column.agent)}
    for name in names:
        if name not in known and name not in agent_names():
            raise unknown_name(
                "agent", name, [*(c.label for c in experiment.columns), *agent_names()]
            )
    return (*found, *(Column(name, name) for name in names if name not in known))
