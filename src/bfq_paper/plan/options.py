"""From the options of a command to the experiment that is run: smaller, or of other rows and columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bfq.agents.registry import agent_names
from bfq.errors import BadInput, unknown
from bfq.options import OPTIONS, check_options
from bfq.settings import compose
from bfq.tasks.catalog import CHECKERBOARD, TASKS
from bfq_paper.plan.experiments import EXPERIMENTS, Column, Experiment, get_experiment
from bfq_paper.plan.sources import STAND_IN, is_kept_here

QUICK_STEPS, QUICK_SEEDS, QUICK_EPISODES, QUICK_EVALUATIONS = 200, 2, 2, 2


@dataclass(frozen=True)
class Options:
    """What was asked for; None or empty: the paper's."""

    quick: bool = False
    agents: Sequence[str] = ()
    tasks: Sequence[str] = ()
    seeds: int | Sequence[int] | None = None
    steps: int | None = None
    precision: str | None = None  # of the products in training

    @property
    def given(self) -> list[str]:
        """The names of those that were given and that not every experiment takes."""
        names = ("agents", "tasks", "seeds", "steps", "precision")
        told = {name: getattr(self, name) for name in names}
        return [name for name, value in told.items() if value not in (None, (), [])]


def chosen(name: str, options: Options) -> list[Experiment]:
    """The experiment of that name, or all of them, as the options want them."""
    check_options({"precision": options.precision}, OPTIONS)
    if name == "all":
        for word in ("agents", "tasks"):
            if word in options.given:
                raise BadInput(f"--{word} is for one experiment, not for all of them.")
        return [_changed(each, options) for each in EXPERIMENTS.values()]
    experiment = get_experiment(name)
    for word in options.given:
        if word not in experiment.takes:
            takes = ", ".join(f"--{each}" for each in experiment.takes)
            raise BadInput(f"the experiment {name} has no --{word}; it takes {takes}.")
    return [_changed(experiment, options)]


def _changed(experiment: Experiment, options: Options) -> Experiment:
    given = [word for word in options.given if word in experiment.takes]
    base = _quick(experiment) if options.quick else experiment
    if options.quick and "tasks" not in given and experiment.kind != "toy":
        base = replace(base, usual=_quick_rows(experiment))
    if "tasks" in given:
        base = replace(base, usual=tuple(map(_task, dict.fromkeys(options.tasks))))
    if "agents" in given:
        base = replace(base, columns=_columns(experiment, options.agents))
    if "seeds" in given and options.seeds is not None:
        base = replace(base, seeds=_seeds(options.seeds))
    if "steps" in given:
        base = replace(base, steps=options.steps)
    if "precision" in given and options.precision is not None:
        base = replace(base, precision=options.precision)
    return base


def _quick(experiment: Experiment) -> Experiment:
    return replace(
        experiment,
        quick=True,
        steps=QUICK_STEPS,
        seeds=QUICK_SEEDS,
        episodes=QUICK_EPISODES,
        evaluations=QUICK_EVALUATIONS,
    )


def _quick_rows(experiment: Experiment) -> tuple[str, ...]:
    """One row is enough for a look: the first that has its data here, else a task that always has."""
    if experiment.kind == "speed":
        return experiment.rows[:1]  # it needs no data
    return next(((row,) for row in experiment.rows if is_kept_here(row)), (STAND_IN,))


def _task(name: str) -> str:
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    if name == CHECKERBOARD:
        raise BadInput(
            "the checkerboard has no states and no rewards: `bfq reproduce toy` trains on it."
        )
    return name


def _columns(experiment: Experiment, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of these names or agents; an agent that the paper's table has not gets one of its own."""
    wished = list(dict.fromkeys(names))
    known = {name for column in experiment.columns for name in (column.label, column.agent)}
    found = [c for c in experiment.columns if c.label in wished or c.agent in wished]
    others = [name for name in wished if name not in known]
    for name in others:
        if name not in agent_names():
            raise unknown("agent", name, {*(c.label for c in experiment.columns), *agent_names()})
    return (*found, *(Column(name, name) for name in others))


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds by the rule that every run has for them."""
    return tuple(compose(STAND_IN, seeds=seeds if isinstance(seeds, int) else list(seeds)).seeds)
