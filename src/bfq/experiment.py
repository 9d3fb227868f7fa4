"""A run from data to report: what `bfq train` and `bfq.train` do."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bfq.agents import Spec
from bfq.agents.registry import configure, get_agent
from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.data.statistics import forget
from bfq.data.transforms import RewardTransform, Transforms, apply, fit
from bfq.errors import BadInput, Busy
from bfq.evaluation.film import strip
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.evaluation.rollout import World, check_world, population_act, rollout
from bfq.evaluation.scores import scores, told_scores
from bfq.files import (
    check_place,
    check_regular,
    json_of,
    locked,
    make_folder,
    read_json,
    write_bytes,
    write_json,
)
from bfq.provenance import versions
from bfq.run import members_of
from bfq.settings import (
    FORMAT,
    RunConfig,
    baseline_of,
    check_precision,
    checked,
    command,
    reference_of,
)
from bfq.tasks.sources import load_dataset
from bfq.training.checkpoint import Checkpoint, latest_checkpoint
from bfq.training.compiled import remember_compilations
from bfq.training.feeding import feed
from bfq.training.health import Health
from bfq.training.loop import Clock, Loop, Outcome, make_plan, stop_signals
from bfq.training.population import Population, initial_states, populate
from bfq.training.progress import announced, data_bar, reporting
from bfq.training.trackers import open_trackers

Say = Callable[[str], None]
RUNS = Path("runs")


def say(sentence: str) -> None:
    """Tells the user something that is not the answer: on standard error."""
    print(sentence, file=sys.stderr)


def new_folder(run: RunConfig, runs: Path = RUNS) -> Path:
    """The next free folder for a run of this task and agent."""
    stem = stem_of(run)
    taken = {path.name for path in runs.glob(f"{stem}-*")}
    number = next(k for k in range(1, len(taken) + 2) if f"{stem}-{k:03d}" not in taken)
    return runs / f"{stem}-{number:03d}"


def stem_of(run: RunConfig) -> str:
    """How the name of a folder about a run begins: with its task, or its file, and its agent."""
    name = Path(run.task).stem if Path(run.task).suffix else run.task.replace("/", "-")
    return f"{name}-{run.agent}"


def unfinished(runs: Path = RUNS) -> Path:
    """The newest run under `runs` that has not ended."""
    started = [
        path.parent
        for path in runs.glob("*/config.json")
        if not (path.parent / "result.json").exists()
    ]
    if not started:
        raise BadInput(f"no unfinished run in {runs}: name one with --out.")
    return max(started, key=lambda folder: (folder / "config.json").stat().st_mtime)


def start(
    run: RunConfig,
    folder: Path,
    dataset: Dataset | None = None,
    quiet: bool = True,
    keep: Callable[[], object] | None = None,
    known: bool = False,
) -> Dataset:
    """Makes the folder of a new run with its complete config.json; one that holds a run is left alone.

    Data is read and transforms are fitted before anything is written. What `keep` writes into the folder is
    there before config.json, so that a run that has one can be resumed from its start. The data's notes are
    told, unless they are `known`.
    """
    if (folder / "config.json").exists():
        raise BadInput(
            f"{folder} holds a run already: add --resume to continue it, or choose another --out."
        )
    check_place(folder)
    check_precision(run.precision)
    dataset = dataset if dataset is not None else _read(run.task, quiet)
    world = world_of(run)
    if world is not None:
        check_world(world, dataset)
    for note in () if known else dataset.notes:
        say(f"note: {note}")
    if run.config.get("policy_target_start", 0) >= run.steps:
        say(
            "note: the policy that acts follows the learning one only from update "
            f"{run.config['policy_target_start']} on, later than this run ends: --set policy_target_start=0."
        )
    kept = {"transforms": told_transforms(fit(dataset, **run.data)), "data_sha256": dataset.sha256}
    make_folder(folder)
    with locked(folder):
        if (folder / "config.json").exists():
            raise Busy(f"another process has just begun a run in {folder}: choose another --out.")
        if keep:
            keep()
        write_json(folder / "config.json", {**dataclasses.asdict(run), **kept})
    return dataset


def read_run(folder: Path, name: str = "config.json") -> tuple[RunConfig, dict[str, Any]]:
    """A run's configuration, and what its start added to it (transforms, data)."""
    if name == "config.json" and not (folder / name).exists():
        raise BadInput(f"there is no run in {folder}: it has no config.json.")
    content = read_json(folder / name)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{folder / name} is not the configuration of a run.")
    names = {field.name for field in dataclasses.fields(RunConfig)}
    try:
        run = checked(
            RunConfig(**{name: value for name, value in content.items() if name in names})
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise BadInput(f"{folder / name} is incomplete or damaged: {error!r}.") from error
    return run, {name: value for name, value in content.items() if name not in names}


def population_of(run: RunConfig) -> Population:
    """The members of a run."""
    agent = get_agent(run.agent)
    half = run.precision == "bfloat16"
    return populate(agent, configure(agent, run.config), members_of(run.seeds, run.varied), half)


def world_of(run: RunConfig) -> World | None:
    """The simulator of a run, if it has one."""
    return World(run.simulator, run.episode_steps) if run.simulator else None


def transforms_of(kept: dict[str, Any]) -> Transforms:
    """The transforms that a run's config.json keeps."""
    try:
        told = kept["transforms"]
        arrays = {name: np.asarray(told[name], np.float32) for name in (
            "observation_mean", "observation_std", "action_low", "action_high")}  # fmt: skip
        if not _in_pairs(*arrays.values()):
            raise ValueError("its lists do not agree")
        reward = RewardTransform(**told["reward"])
        if not (_is_float32(reward.scale) and _is_float32(reward.shift)):
            raise ValueError("the scale and shift of rewards must be finite numbers")
        return Transforms(**arrays, reward=reward, observations=told["observations"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the run's config.json keeps no usable transforms: {error!r}.") from error


def _in_pairs(mean: Any, std: Any, low: Any, high: Any) -> bool:
    """Whether four arrays are finite lists of which the first two and the last two are of one length."""
    whole = all(
        each.ndim == 1 and len(each) and np.isfinite(each).all() for each in (mean, std, low, high)
    )
    return whole and len(mean) == len(std) and len(low) == len(high) and bool((std > 0).all())


def _is_float32(value: Any) -> bool:
    """Whether it is a number that stays finite in float32; yes and no are none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(abs(value) <= float(np.finfo(np.float32).max))


def told_transforms(transforms: Transforms) -> dict[str, Any]:
    """Transforms as config.json keeps them; float32 numbers survive the way through JSON unchanged."""
    values = {f.name: getattr(transforms, f.name) for f in dataclasses.fields(transforms)}
    arrays = {
        name: value.tolist() for name, value in values.items() if isinstance(value, np.ndarray)
    }
    return {
        **arrays,
        "reward": dataclasses.asdict(transforms.reward),
        "observations": transforms.observations,
    }


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run's last checkpoint with everything needed to act."""

    population: Population
    checkpoint: Checkpoint
    transforms: Transforms
    protocol: Protocol

    def member(self, k: int) -> tuple[Any, Any]:
        """The state and the configuration of one member."""
        count = len(self.population.members)
        if not 0 <= k < count:
            raise BadInput(f"the run has members 0 to {count - 1}, not {k}.")
        both = (self.checkpoint.states, self.population.configs)
        state, config = jax.tree.map(lambda leaf: leaf[k], both)
        return state, config


def load_trained(folder: str | Path) -> Trained:
    """All members of a run at its last checkpoint."""
    folder = Path(folder)
    run, kept = read_run(folder)
    transforms, population = transforms_of(kept), population_of(run)
    spec = Spec(len(transforms.observation_mean), len(transforms.action_low))
    like = jax.eval_shape(lambda: initial_states(population, spec))
    checkpoint = latest_checkpoint(folder / "checkpoints", like, say)
    if checkpoint is None:
        raise BadInput(f"the run in {folder} has no checkpoint yet.")
    return Trained(population, checkpoint, transforms, protocol_from(run.evaluation))


def complete(
    folder: Path,
    dataset: Dataset | None = None,
    trackers: tuple[str, ...] = (),
    quiet: bool = False,
) -> dict[str, Any]:
    """Trains a run's baselines and the run itself, each from where it stands, and writes the report.

    Without `dataset` the run's data is loaded again, and refused if it is not what the run began with.
    """
    run, kept = read_run(folder)
    with locked(folder):
        dataset = dataset if dataset is not None else _read(_data_of(run, folder), quiet)
        if kept.get("data_sha256") != dataset.sha256:
            raise BadInput(f"the data of {run.task} has changed since the run in {folder} began.")
        for name in run.baselines:
            beside = folder / "baselines" / name
            if not (beside / "config.json").exists():
                start(baseline_of(run, name), beside, dataset, known=True)
            execute(beside, dataset, trackers, quiet)
        result = execute(folder, dataset, trackers, quiet)
        _report(folder)
    return result


def _report(folder: Path) -> None:
    from bfq.reports.report import write_report

    write_report([folder], folder)


def _read(task: str, quiet: bool) -> Dataset:
    with announced(f"reading {task}", quiet):
        return load_dataset(task, data_bar)


def _data_of(run: RunConfig, folder: Path) -> str:
    """Where the run's data is: inside its folder, wherever that was moved, if it was given from Python."""
    inside = folder / Path(run.task).name
    return str(inside) if store.exists(inside) else run.task


def execute(
    folder: Path, dataset: Dataset, trackers: tuple[str, ...], quiet: bool
) -> dict[str, Any]:
    """Trains the run of a folder from where it stands to its end, and writes its result.json."""
    if (folder / "result.json").exists():
        result = read_json(folder / "result.json")
        if not isinstance(result, dict):
            raise BadInput(
                f"{folder / 'result.json'} is damaged: remove it, and --resume makes it again."
            )
        return result
    remember_compilations()
    run, kept = read_run(folder)
    check_precision(run.precision)
    transforms, population = transforms_of(kept), population_of(run)
    outcome = _train(run, folder, population, dataset, transforms, trackers, quiet)
    result = _result(run, folder, population, dataset, transforms, outcome.clock)
    write_json(
        folder / "result.json", result
    )  # before graphics are asked, which may end the process
    _picture(run, folder, population, outcome.states, transforms)
    return result


def _picture(
    run: RunConfig, folder: Path, population: Population, states: Any, transforms: Transforms
) -> None:
    """A strip of frames of the first member, where this machine can draw."""
    world, protocol = world_of(run), protocol_from(run.evaluation)
    if world is None:
        return
    act = population_act(population, states, transforms, protocol)
    try:
        picture = strip(act, world, protocol, len(population.members))
    except Exception as error:  # noqa: BLE001 - graphics fail in many ways, and no score depends on them
        say(
            f"note: no pictures of the policy, since this machine cannot draw {world.simulator}: {error!r}"
        )
        return
    write_bytes(folder / "frames.png", picture)


def _train(
    run: RunConfig,
    folder: Path,
    population: Population,
    dataset: Dataset,
    transforms: Transforms,
    trackers: tuple[str, ...],
    quiet: bool,
) -> Outcome:
    world, protocol = world_of(run), protocol_from(run.evaluation)

    def fetch(which: Any) -> dict[str, Any]:
        rows = dataset.rows(which) if isinstance(which, slice) else dataset.drawn(which)
        arrays = apply(transforms, rows)
        if "next_actions" in population.agent.needs:
            following, arrays["next_known"] = dataset.next_actions(which)
            arrays["next_actions"] = transforms.to_unit(following)
        forget(dataset.columns)
        return arrays

    def evaluate(states: Any, step: int) -> dict[str, Any]:
        assert world is not None
        members = len(population.members)
        reporter.waiting(f"evaluating {members} × {protocol.episodes} episodes")
        act = population_act(population, states, transforms, protocol)
        episodes = rollout(act, world, protocol, members)
        found = scores(episodes, reference_of(run), run.metric)
        return told_scores(found)

    names = [f"{m.seed}{m.overrides or ''}" for m in population.members]
    discounts = np.asarray(population.configs.discount, np.float64)
    extremes = np.array([dataset.summary.reward_low, dataset.summary.reward_high], np.float32)
    title = f"{run.agent} on {dataset.name}"
    with reporting(title, run.steps, 0, quiet) as reporter, stop_signals() as stop:
        reporter.waiting("compiling")
        plan = make_plan(
            run.steps, run.chunk, run.evaluations if world else 0, run.stop_on_divergence
        )
        if plan.eval_at and list(plan.eval_at) != run.evaluations:
            told = ", ".join(f"{step:,}" for step in dict.fromkeys(plan.eval_at))
            say(f"note: evaluations come after whole calls of {plan.chunk} updates: {told}.")
        loop = Loop(
            population,
            feed(population, len(dataset), dataset.row_bytes, fetch),
            plan,
            folder,
            Health(
                transforms.reward(extremes).tolist(), discounts, names, population.agent.watched
            ),
            evaluate if world else None,
            open_trackers(trackers, folder, dataclasses.asdict(run)),
            say,
        )
        reporter.resume(loop.step)
        return loop.run(reporter, stop)


def _result(
    run: RunConfig,
    folder: Path,
    population: Population,
    dataset: Dataset,
    transforms: Transforms,
    clock: Clock,
) -> dict[str, Any]:
    reference = reference_of(run)
    data = dataset.describe()
    comparable = reference is not None and run.metric == "return"
    data["normalized_mean"] = (
        reference.normalize(data["return_mean"]) if reference and comparable else None
    )
    return {
        "task": dataset.name,
        "agent": run.agent,
        "title": population.agent.title,
        "steps": run.steps,
        "members": [{"seed": m.seed, "overrides": m.overrides} for m in population.members],
        "scores": _last_scores(folder),
        "protocol": run.evaluation,
        "simulator": run.simulator,
        "episode_steps": run.episode_steps if run.simulator else None,
        "ignores": list(population.agent.ignores(population.configs)),
        "data": data,
        "transforms": transforms.describe(),
        "reference": run.reference,
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "train_seconds": clock.train_seconds,
        "microseconds_per_step": clock.microseconds_per_step,
        "precision": run.precision,
        "config": run.config,
        "command": command(run),
    }


def _last_scores(folder: Path) -> dict[str, Any] | None:
    """The scores of the last checkpoint, from the evaluation that closed the run."""
    path = folder / "metrics.jsonl"
    check_regular(path)
    try:
        rows = [json_of(line) for line in path.read_text().splitlines()]
        evaluations = [
            {"normalized": None, **row["metrics"]} for row in rows if row["kind"] == "evaluation"
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged, so the scores are lost: {error!r}.") from error
    return evaluations[-1] if evaluations else None
