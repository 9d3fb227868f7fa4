"""The paper's experiments as data, and the options that make them smaller or different."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

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
    table: str | None  # the paper's table in published.toml, if it prints numbers
    rows: tuple[str, ...]  # the paper's tasks
    columns: tuple[Column, ...]
    options: tuple[str, ...]  # command-line options that apply
    default_rows: tuple[str, ...] = ()  # rows that run by default; empty: all
    seeds: int | tuple[int, ...] = 6
    steps: int | None = 1_000_000  # gradient updates; None: the preset's
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


def _methods(*agents: str) -> tuple[Column, ...]:
    return tuple(Column(agent, agent) for agent in agents)


def _grid(agent: str, name: str, values: Sequence[float]) -> tuple[Column, ...]:
    return tuple(Column(f"{value:g}", agent, {name: value}) for value in values)


HALFCHEETAH = tuple(
    f"halfcheetah-{level}-v2" for level in ("medium-expert", "medium", "medium-replay")
)
LOCOMOTION = tuple(
    f"{robot}-{level}-v2"
    for level in ("medium-expert", "medium", "medium-replay")
    for robot in ("halfcheetah", "hopper", "walker2d")
)
ANTMAZE = tuple(
    f"antmaze-{maze}-{kind}-v2" for kind in ("play", "diverse") for maze in ("medium", "large")
)
OGBENCH = (
    *(f"antmaze-{maze}-navigate-singletask-v0" for maze in ("large", "giant")),
    *(f"humanoidmaze-{maze}-navigate-singletask-v0" for maze in ("medium", "large")),
    *("cube-single-play-singletask-v0", "scene-play-singletask-v0"),
)
PEN = ("pen-human-v1", "pen-cloned-v1")
MEDIUM = tuple(f"{robot}-medium-v2" for robot in ("halfcheetah", "hopper", "walker2d"))
# CleanDiffuser's code exchanges the coefficients: a nearly whole copy of the critics every five updates.
COPIED = {"critic_target_rate": 0.995, "critic_target_every": 5}
TIME_RULES = ("nested", "ordered")  # one of them is the preset's, by the robot
SWITCHES = (
    Column("preset", "bfq"),
    *(Column(f"time_scale={scale}", "bfq", {"time_scale": scale}) for scale in (1, 30, 100)),
    Column("full_span_share=0.02", "bfq", {"full_span_share": 0.02}),
    *(Column(f"time_rule={rule}", "bfq", {"time_rule": rule}) for rule in TIME_RULES),
    *(
        Column(f"time_rule={rule}+target=copied", "bfq", {"time_rule": rule, **COPIED})
        for rule in TIME_RULES
    ),
    Column("mixing=update", "bfq", {"mixing": "update"}),
    *(
        Column(f"target=copied+time_scale={scale}", "bfq", {**COPIED, "time_scale": scale})
        for scale in (1, 100)
    ),
    Column("weight_decay=0.01", "bfq", {"weight_decay": 0.01}),
    Column("CleanDiffuser", "bfq", {**COPIED, "weight_decay": 0.01}),
    Column("critic=plain", "bfq", {"critic": "plain"}),
    Column("depth=4", "bfq", {"depth": 4, "critic_depth": 4}),
    Column("temperature=1", "bfq", acting={"temperature": 1.0}),
)
ABLATION: dict[str, Any] = {
    "kind": "scores",
    "rows": HALFCHEETAH,
    "default_rows": ("halfcheetah-medium-v2",),
    "options": ("tasks", "seeds", "steps", "precision"),
    "seeds": 3,
    "steps": 300_000,
    "about": "The paper trains these for 1,000,000 updates; here the default is 300,000 (--steps).",
}

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Experiment(
            name="main",
            title="D4RL: locomotion and AntMaze",
            kind="scores",
            table="full",  # the main table and, in the appendix, CAC
            rows=(*LOCOMOTION, *ANTMAZE),
            columns=(
                *_methods("bc", "td3_bc", "iql", "edp", "idql", "dql"),
                Column("cac-2", "cac", {"consistency_steps": 2}),
                Column("cac-1", "cac", {"consistency_steps": 1}),
                *_methods("srpo", "sorl", "ofql", "fql", "bfq"),
            ),
            options=("agents", "tasks", "seeds", "steps", "precision"),
            about="Only BFQ's numbers are the paper's own measurements; it copies the others from their "
            "sources, most of which train for longer or evaluate otherwise.",
        ),
        Experiment(
            name="ogbench",
            title="OGBench and Adroit",
            kind="scores",
            table="ogbench",
            rows=(*OGBENCH, *PEN),
            columns=(
                *_methods("bc", "iql", "idql"),
                Column("cac-2", "cac", {"consistency_steps": 2}),
                *_methods("fawac", "fbrac", "ifql"),
                Column("sorl-8", "sorl"),  # as many steps as it trains with
                Column("sorl-1", "sorl", acting={"sampling_steps": 1}),
                *_methods("srpo", "fql", "bfq"),
            ),
            options=("agents", "tasks", "seeds", "steps", "precision"),
            steps=None,
            evaluations=(
                0.2,
                0.5,
                0.8,
                0.9,
                1.0,
            ),  # FQL's last three, and a curve: episodes are slow here
            averaged=3,
            about="Ours is the last checkpoint; FQL's convention on OGBench's tasks, which the paper adopts, "
            "is the mean of the evaluations at 800,000, 900,000 and 1,000,000 updates: mean of the last 3.",
        ),
        Experiment(
            name="efficiency",
            title="Action frequency and training time",
            kind="speed",
            table="efficiency",
            rows=("halfcheetah-medium-v2", "hopper-medium-v2", "walker2d-medium-v2"),
            columns=(
                Column("bfq-1", "bfq"),
                *(Column(f"fql-{k}", "fql", {"flow_steps": k}) for k in (1, 5, 10, 20, 50)),
                *(Column(f"dql-{k}", "dql", {"denoising_steps": k}) for k in (5, 10, 20, 50)),
            ),
            options=("agents", "tasks"),
            about="A frequency is that of batches of 2,500 actions, a training time that of 1,000,000 "
            "updates of one seed alone; all networks are 4 × 256. The paper measured on an A100 in another "
            "framework. Time depends on a robot's sizes and not on its data, so one task a robot stands for "
            "the nine.",
        ),
        Experiment(
            name="lambda",
            title="Boundary conditioning ratio λ",
            table="lambda",
            symbol="λ",
            columns=_grid("bfq", "boundary_ratio", (1.0, 0.75, 0.5, 0.25, 0.0)),
            **ABLATION,
        ),
        Experiment(
            name="eta",
            title="Strength η of value guidance",
            table="eta",
            symbol="η",
            columns=_grid("bfq", "eta", (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)),
            **ABLATION,
        ),
        Experiment(
            name="preconditioning",
            title="With and without preconditioning",
            table="preconditioning",
            columns=(
                Column("preconditioning", "bfq", {"preconditioned": True}),
                Column("no preconditioning", "bfq", {"preconditioned": False}),
            ),
            **ABLATION,
        ),
        Experiment(
            name="switches",
            title="What the paper leaves open",
            kind="scores",
            table=None,
            rows=MEDIUM,
            columns=SWITCHES,
            options=("agents", "tasks", "seeds", "steps", "precision"),
            seeds=(10, 11, 12),
            steps=300_000,
            about="BFQ's preset, and settings changed that the paper does not tell. Seeds that no "
            "other table has: what is chosen here is judged there. --agents takes the columns' names.",
        ),
        Experiment(
            name="toy",
            title="The checkerboard",
            kind="toy",
            table=None,
            rows=("checkerboard",),
            columns=(),
            options=("seeds",),
            seeds=3,
            steps=None,
            about="The paper shows a picture and no numbers; the settings it does not name were chosen here.",
        ),
    )
}


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
