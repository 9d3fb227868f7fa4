"""A run from data to report: what `bfq train` and `bfq.train` do."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bfq.agents.contract import Spec
from bfq.agents.registry import check_acting, configure, get_agent
from bfq.data.dataset import Dataset, release_pages
from bfq.data.store import exists
from bfq.data.transforms import Transforms, apply_transforms, fit_transforms
from bfq.errors import BadInput, Busy, say
from bfq.evaluation.film import strip
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.evaluation.rollout import (
    Act,
    EnvironmentSpec,
    check_environment,
    population_act,
    rollout,
    score_episodes,
    scores_as_json,
)
from bfq.files import check_place, locked, make_folder, write_bytes
from bfq.progress import announced, data_bar, reporting
from bfq.run import (
    DataRecord,
    Numbers,
    RunConfig,
    RunRecord,
    TransformsSummary,
    as_json,
    read_metrics,
    read_record,
    versions,
    write_config,
    write_record,
)
from bfq.settings import baseline_of, check_precision, command, load_run
from bfq.tasks.sources import load_dataset
from bfq.training.checkpoint import Checkpoint, latest_checkpoint
from bfq.training.compilation import enable_compilation_cache
from bfq.training.loop import Loop, loop_options, stop_signals
from bfq.training.monitoring import Health, open_trackers
from bfq.training.population import Population, create_population, feed, initial_states


def start(
    run: RunConfig,
    folder: Path,
    dataset: Dataset | None = None,
    quiet: bool = True,
    keep: Callable[[], object] | None = None,
    known: bool = False,
) -> Dataset:
    """Create the folder of a new run with its complete config.json.

    The data is read and the transforms are fitted before anything is written. `keep` may write into the
    folder before config.json: what has a config.json can be resumed. Notes on the data are printed unless
    they are `known`.
    """
    if (folder / "config.json").exists():
        raise BadInput(
            f"{folder} holds a run already: add --resume to continue it, or choose another --out."
        )
    check_place(folder)
    check_precision(run.precision)
    dataset = dataset if dataset is not None else _read(run.task, quiet)
    environment = environment_of(run)
    if environment is not None:
        check_environment(
            environment, dataset.observation_dim, dataset.action_low, dataset.action_high
        )
    for note in () if known else dataset.notes:
        say(f"note: {note}")
    begins = run.config.get("policy_target_start", 0)
    if isinstance(begins, int) and begins >= run.steps:
        say(
            f"note: the target policy starts to follow the policy at update {begins}, after the end of "
            "this run: --set policy_target_start=0."
        )
    fitted = fit_transforms(dataset, run.data["observations"], run.data["reward"])
    started = dataclasses.replace(
        run, transforms=fitted.record(), dataset=_data_record(run, dataset)
    )
    make_folder(folder)
    with locked(folder):
        if (folder / "config.json").exists():
            raise Busy(f"another process has just started a run in {folder}: choose another --out.")
        if keep:
            keep()
        write_config(folder, started)
    return dataset


def population_of(run: RunConfig) -> Population:
    """All seeds and hyperparameter settings of a run."""
    agent = get_agent(run.agent)
    half = run.precision == "bfloat16"
    return create_population(agent, configure(agent, run.config), run.members, half)


def environment_of(run: RunConfig) -> EnvironmentSpec | None:
    """The simulator of a run, if it has one."""
    return EnvironmentSpec(run.simulator, run.episode_steps) if run.simulator else None


def transforms_of(run: RunConfig) -> Transforms:
    """The transforms that were fitted when the run started."""
    if run.transforms is None or run.dataset is None:
        raise BadInput("config.json: transforms or dataset is missing: this run has not started.")
    return Transforms.from_record(run.transforms)


def _data_record(run: RunConfig, dataset: Dataset) -> DataRecord:
    description, normalized = dataset.describe(), None
    if run.reference and run.metric == "return":
        normalized = run.reference.normalize(description["return_mean"])
    return DataRecord(**description, normalized_mean=normalized)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A checkpoint of a run, by default the last one, with everything needed to act."""

    run: RunConfig
    population: Population
    checkpoint: Checkpoint
    transforms: Transforms

    def protocol(self, **changes: Any) -> Protocol:
        """The protocol of the run's own evaluations, with the changes that are not None."""
        given = {name: value for name, value in changes.items() if value is not None}
        chosen = protocol_from({**self.run.evaluation, **given})
        check_acting(self.population.agent, self.population.configs, chosen.acting)
        return chosen

    def act(self, protocol: Protocol) -> Act:
        """How all members act under a protocol."""
        return population_act(self.population, self.checkpoint.states, self.transforms, protocol)

    def member(self, k: int) -> tuple[Any, Any]:
        """The state and the configuration of one member."""
        count = len(self.population.members)
        if not (isinstance(k, int) and 0 <= k < count):
            raise BadInput(f"the run has members 0 to {count - 1}, not {k}.")
        both = (self.checkpoint.states, self.population.configs)
        state, config = jax.tree.map(lambda leaf: leaf[k], both)
        return state, config


def load_trained(folder: str | Path) -> Trained:
    """All members of a run at its last checkpoint."""
    folder = Path(folder)
    run = load_run(folder)
    transforms, population = transforms_of(run), population_of(run)
    spec = Spec(len(transforms.observation_mean), len(transforms.action_low))
    like = jax.eval_shape(lambda: initial_states(population, spec))
    checkpoint = latest_checkpoint(folder / "checkpoints", like)
    if checkpoint is None:
        raise BadInput(f"the run in {folder} has no checkpoint yet.")
    return Trained(run, population, checkpoint, transforms)


def complete(
    folder: Path,
    dataset: Dataset | None = None,
    trackers: tuple[str, ...] = (),
    quiet: bool = False,
) -> RunRecord:
    """Train a run's baselines and the run itself, each from its last checkpoint, and write the report.

    Without `dataset` the run's data is loaded, and refused if it has changed since the run started.
    """
    from bfq.reports.report import write_report

    run = load_run(folder)
    with locked(folder):
        dataset = dataset if dataset is not None else _read(_data_of(run, folder), quiet)
        if run.dataset is None or run.dataset.sha256 != dataset.sha256:
            raise BadInput(f"the data of {run.task} has changed since the run in {folder} started.")
        baselines = {name: folder / "baselines" / name for name in run.baselines}
        finished = [
            path for path in (*baselines.values(), folder) if (path / "result.json").exists()
        ]
        for name, beside in baselines.items():
            if not (beside / "config.json").exists():
                start(baseline_of(run, name), beside, dataset, known=True)
            execute(beside, dataset, trackers, quiet)
        record = execute(folder, dataset, trackers, quiet)
        for path in finished:  # the process that trained them may have died before it drew them
            draw_frames(path)
        write_report([folder], folder)
    return record


def _read(task: str, quiet: bool) -> Dataset:
    with announced(f"reading {task}", quiet):
        return load_dataset(task, data_bar)


def _data_of(run: RunConfig, folder: Path) -> str:
    """Where the data is: a dataset given in Python is inside the run folder, which may have moved."""
    inside = folder / Path(run.task).name
    return str(inside) if exists(inside) else run.task


def execute(folder: Path, dataset: Dataset, trackers: tuple[str, ...], quiet: bool) -> RunRecord:
    """Train the run in a folder from its last checkpoint to its end, and write its result.json."""
    if (folder / "result.json").exists():
        return read_record(folder)
    enable_compilation_cache()
    run = load_run(folder)
    check_precision(run.precision)
    trained = _train(run, folder, dataset, trackers, quiet)
    record = record_of(trained, last_scores(folder, len(run.members)))
    write_record(folder, record)  # before a picture is drawn: broken graphics can end the process
    draw_frames(folder)
    return record


def record_of(trained: Trained, found: dict[str, Numbers | None] | None) -> RunRecord:
    """The record of an evaluation of a run."""
    run, agent, clock = trained.run, trained.population.agent, trained.checkpoint.position.clock
    assert run.dataset is not None
    assert run.transforms is not None
    return RunRecord(
        task=run.dataset.name,
        agent=run.agent,
        title=agent.title,
        steps=trained.checkpoint.step,
        members=list(run.members),
        scores=found,
        protocol=run.evaluation,
        simulator=run.simulator,
        episode_steps=run.episode_steps if run.simulator else None,
        ignores=list(agent.ignores(trained.population.configs)),
        data=run.dataset,
        transforms=TransformsSummary(run.transforms.observations, run.transforms.reward),
        reference=run.reference,
        versions=versions(),
        device=jax.devices()[0].device_kind,
        train_seconds=clock.train_seconds,
        microseconds_per_step=clock.microseconds_per_step,
        precision=run.precision,
        config=run.config,
        command=command(run),
    )


def last_scores(folder: Path, members: int) -> dict[str, Numbers | None] | None:
    """The scores of the last evaluation in metrics.jsonl; None if there was none."""
    rows = [row for row in read_metrics(folder, members) if row.kind == "evaluation"]
    return {"normalized": None, **rows[-1].metrics} if rows else None


def evaluate_run(trained: Trained, environment: EnvironmentSpec, protocol: Protocol) -> RunRecord:
    """Score the last checkpoint of every member."""
    found = _scores(trained.run, trained.act(protocol), environment, protocol)
    return dataclasses.replace(
        record_of(trained, {"normalized": None, **found}),
        protocol=protocol.describe(),
        episode_steps=environment.episode_steps,
    )


def _scores(
    run: RunConfig, act: Act, environment: EnvironmentSpec, protocol: Protocol
) -> dict[str, Numbers]:
    episodes = rollout(act, environment, protocol, len(run.members))
    return scores_as_json(score_episodes(episodes, run.reference, run.metric))


def draw_frames(folder: Path) -> None:
    """Save frames of the first member of a finished run, if missing and if this machine can render."""
    checkpoints = folder / "checkpoints"
    if (folder / "frames.png").exists() or not (
        checkpoints.is_dir() and any(checkpoints.iterdir())
    ):
        return
    environment = environment_of(load_run(folder))
    if environment is None:
        return
    trained = load_trained(folder)
    protocol = trained.protocol()
    try:
        picture = strip(trained.act(protocol), environment, protocol, len(trained.run.members))
    except Exception as error:  # noqa: BLE001 - rendering fails in many ways, and no score depends on it
        say(
            f"note: no pictures of the policy: this machine cannot render {environment.simulator}: {error!r}"
        )
        return
    write_bytes(folder / "frames.png", picture)


def _train(
    run: RunConfig, folder: Path, dataset: Dataset, trackers: tuple[str, ...], quiet: bool
) -> Trained:
    transforms, population = transforms_of(run), population_of(run)
    environment, protocol = environment_of(run), protocol_from(run.evaluation)

    def fetch(which: Any) -> dict[str, Any]:
        rows = dataset.rows(which) if isinstance(which, slice) else dataset.take(which)
        arrays = apply_transforms(transforms, rows)
        if "next_actions" in population.agent.needs:
            following, arrays["next_known"] = dataset.next_actions(which)
            arrays["next_actions"] = transforms.to_unit(following)
        release_pages(dataset.columns)
        return arrays

    def evaluate(states: Any, step: int) -> dict[str, Any]:
        assert environment is not None
        reporter.waiting(f"evaluating {len(run.members)} × {protocol.episodes} episodes")
        act = population_act(population, states, transforms, protocol)
        return _scores(run, act, environment, protocol)

    names = [f"{m.seed}{m.overrides or ''}" for m in population.members]
    discounts = np.asarray(population.configs.discount, np.float64)
    extremes = np.array([dataset.summary.reward_low, dataset.summary.reward_high], np.float32)
    title = f"{run.agent} on {dataset.name}"
    with reporting(title, run.steps, quiet) as reporter, stop_signals() as stop:
        reporter.waiting("compiling")
        options = loop_options(
            run.steps, run.chunk, run.evaluations if environment else 0, not run.keep_going
        )
        listed = environment is not None and isinstance(run.evaluations, list)
        if listed and list(options.eval_at) != run.evaluations:
            steps = ", ".join(f"{step:,}" for step in options.eval_at)
            say(f"note: evaluations happen at multiples of {options.chunk} updates: {steps}.")
        loop = Loop(
            population,
            feed(population, len(dataset), dataset.row_bytes, fetch),
            options,
            folder,
            Health(
                transforms.reward(extremes).tolist(), discounts, names, population.agent.watched
            ),
            evaluate if environment else None,
            open_trackers(trackers, folder, as_json(run)),
        )
        reporter.resume(loop.step)
        return Trained(run, population, loop.run(reporter, stop), transforms)
