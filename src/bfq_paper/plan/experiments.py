"""The paper's experiments as data: what a row is, what a column is, and how long each is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bfq.errors import unknown

QUICK = "quick run, not comparable"


@dataclass(frozen=True)
class Column:
    """A method, or one value of a hyperparameter: a column of the paper's table."""

    label: str  # as the table of the paper's numbers has it
    agent: str
    values: Mapping[str, Any] = field(
        default_factory=dict
    )  # hyperparameters other than the task's preset
    acting: Mapping[str, Any] = field(
        default_factory=dict
    )  # ways of acting other than the preset's


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    kind: str  # scores | speed | toy: how a cell is filled
    table: (
        str | None
    )  # the paper's numbers, by their name in `published`; None where it has a picture only
    rows: tuple[str, ...]  # the paper's tasks
    columns: tuple[Column, ...]
    takes: tuple[str, ...]  # the options that make sense
    usual: tuple[str, ...] = ()  # the rows that are run unless others are asked for; empty: all
    seeds: int | tuple[int, ...] = 6  # how many, or which
    steps: int | None = 1_000_000  # updates; None: each task's and agent's own
    episodes: int = 50  # a seed
    evaluations: int | tuple[float, ...] = (
        5  # during training: how many, or after which shares of it
    )
    candidates: tuple[int, ...] = (1, 50)  # N, beside the agent's own number
    averaged: int = 1  # evaluations, up to the last, whose mean is told as well on OGBench's tasks
    symbol: str = ""  # of the hyperparameter whose values are the columns
    about: str = ""  # what a reader should know before the numbers
    precision: str = "float32"  # of the products in training
    quick: bool = False  # a look at how everything works together, comparable with nothing

    @property
    def heading(self) -> str:
        """The title of everything about it, short enough for a figure."""
        return self.entitled(self.title)

    @property
    def compares_methods(self) -> bool:
        """Whether its columns are methods beside each other, and not settings of one or times."""
        return self.table in ("full", "ogbench")

    def named(self, column: str) -> str:
        """A column as one says it: λ = 0.5."""
        return f"{self.symbol} = {column}" if self.symbol else column

    def entitled(self, title: str) -> str:
        """A title of something about it, which says so if it is but a quick run."""
        return f"{title} ({QUICK})" if self.quick else title


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
    "usual": ("halfcheetah-medium-v2",),
    "takes": ("tasks", "seeds", "steps", "precision"),
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
            takes=("agents", "tasks", "seeds", "steps", "precision"),
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
            takes=("agents", "tasks", "seeds", "steps", "precision"),
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
            takes=("agents", "tasks"),
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
            takes=("agents", "tasks", "seeds", "steps", "precision"),
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
            takes=("seeds",),
            seeds=3,
            steps=None,
            about="The paper shows a picture and no numbers; the settings it does not name were chosen here.",
        ),
    )
}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name, or a sentence with the nearest one."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, [*EXPERIMENTS, "all"])
    return EXPERIMENTS[name]
