"""A run from data to report: what `bfq train`, `bfq.train` and `bfq.fit` do."""

import dataclasses
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from bfq.agents.contract import Spec
from bfq.data.dataset import Dataset, release_pages
from bfq.data.transforms import apply_transforms, fit_transforms
from bfq.errors import BadInput, Busy, say
from bfq.evaluation.collect import Explorer
from bfq.evaluation.protocol import protocol_from
from bfq.evaluation.rollout import check_environment
from bfq.files import check_place, locked, make_folder
from bfq.hooks import NO_HOOKS, Hooks
from bfq.progress import announced, data_bar, reporting
from bfq.run import DataRecord, RunConfig, RunRecord, as_json, read_record, write_record
from bfq.scoring import USUAL_STEPS, with_environment
from bfq.settings import baseline_of, check_precision, load_run
from bfq.tasks.sources import load_dataset
from bfq.trained import (
    Trained,
    draw_frames,
    environment_of,
    inherit,
    last_scores,
    load_trained,
    population_of,
    record_of,
    transforms_of,
)
from bfq.training.checkpoint import CHECKPOINTS, Checkpoint, checkpoint_folders, save_checkpoint
from bfq.training.compilation import enable_compilation_cache
from bfq.training.loop import Evaluations, Loop, Progress, loop_options, stop_signals
from bfq.training.monitoring import Health, open_trackers
from bfq.training.online import Online
from bfq.training.population import Feed, feed, initial_states

T = TypeVar("T")
Steps = Generator[Progress, None, T]  # the moments of a run, and what it returns at its end


def start(
    run: RunConfig,
    folder: Path,
    dataset: Dataset | None = None,
    quiet: bool = True,
    known: bool = False,
) -> Dataset:
    """Create the folder of a new run with its complete config.json.

    The data is read and the transforms are fitted before anything is written. Notes on the data are printed
    unless they are `known`.
    """
    if (folder / "config.json").exists():
        raise BadInput(
            f"{folder} holds a run already: add --resume to continue it, or choose another --out."
        )
    check_place(folder)
    check_precision(run.precision)
    if run.online:
        _check_critics(run)
    dataset = dataset if dataset is not None else _read(run.task, quiet)
    if run.simulator is None and dataset.env is not None:
        run = _in_environment_of(dataset, run, quiet)
    _check_environment(run, dataset)
    for note in () if known or quiet else dataset.notes:
        say(f"note: {note}")
    begins = run.config.get("policy_target_start", 0)
    if isinstance(begins, int) and begins >= run.steps and not quiet:
        say(
            f"note: the target policy starts to follow the policy at update {begins}, after the end of "
            "this run: --set policy_target_start=0."
        )
    states = None
    if run.start_from:
        run, states = inherit(run, dataset)
    else:
        fitted = fit_transforms(dataset, run.data["observations"], run.data["reward"])
        run = dataclasses.replace(run, transforms=fitted.record())
    started = dataclasses.replace(run, dataset=_data_record(run, dataset))
    make_folder(folder)
    with locked(folder):
        if (folder / "config.json").exists():
            raise Busy(f"another process has just started a run in {folder}: choose another --out.")
        if states is not None:
            save_checkpoint(folder / CHECKPOINTS, 0, states)
        write_record(folder, started)
    return dataset


def _check_environment(run: RunConfig, dataset: Dataset) -> None:
    environment = environment_of(run)
    if environment is not None:
        width, low, high = dataset.observation_dim, dataset.action_low, dataset.action_high
        check_environment(environment, width, low, high)


def _in_environment_of(dataset: Dataset, run: RunConfig, quiet: bool) -> RunConfig:
    """The run in the environment that its data names, if this machine has it."""
    given = run.episode_steps if run.episode_steps != USUAL_STEPS else None
    try:
        placed = with_environment(run, dataset.env, given)
        _check_environment(placed, dataset)
        found = f"policies are scored in {dataset.env}, which the data names, without --env."
    except BadInput as error:
        placed = run
        found = f"the data names the environment {dataset.env}, which gives no scores: {error}"
    if not quiet:
        say(f"note: {found}")
    return placed


def _check_critics(run: RunConfig) -> None:
    population = population_of(run)
    states = jax.eval_shape(lambda: initial_states(population, Spec(1, 1)))
    if not hasattr(states, "critics"):
        raise BadInput(
            f"{run.agent} has no critic, so it learns nothing from acting: choose another agent."
        )


def _data_record(run: RunConfig, dataset: Dataset) -> DataRecord:
    description, normalized = dataset.describe(), None
    if run.reference and run.metric == "return":
        normalized = run.reference.normalize(description["return_mean"])
    return DataRecord(**description, normalized_mean=normalized, labels=dataset.labels)


def _read(task: str, quiet: bool) -> Dataset:
    with announced(f"reading {task}", quiet):
        return load_dataset(task, bar=data_bar)


def is_finished(folder: Path, run: RunConfig) -> bool:
    """Whether a run has its result and was not ended early."""
    newest = checkpoint_folders(folder / CHECKPOINTS)[:1]
    early = any(int(path.name.removeprefix("step-")) < run.steps for path in newest)
    return (folder / "result.json").exists() and not early


def complete(
    folder: Path, dataset: Dataset | None = None, hooks: Hooks = NO_HOOKS, quiet: bool = False
) -> Steps[RunRecord]:
    """Train a run's baselines and the run itself, each from its last checkpoint, and write the report.

    Without `dataset` the run's data is loaded, and refused if it has changed since the run started. Closing
    the generator ends the run at its present update, with a result and a report.
    """
    from bfq.reports.report import write_report

    run = load_run(folder)
    with locked(folder):
        dataset = dataset if dataset is not None else _read(run.task, quiet)
        if run.dataset is None or run.dataset.sha256 != dataset.sha256:
            raise BadInput(f"the data of {run.task} has changed since the run in {folder} started.")
        baselines = {name: folder / "baselines" / name for name in run.baselines}
        done = [path for path in (*baselines.values(), folder) if (path / "result.json").exists()]
        for name, beside in baselines.items():
            if not (beside / "config.json").exists():
                start(baseline_of(run, name), beside, dataset, known=True)
            for _ in execute(beside, dataset, hooks._replace(evaluators={}), quiet):
                pass
        try:
            yield from execute(folder, dataset, hooks, quiet)
        finally:
            if (folder / "result.json").exists():
                for path in done:  # the process that trained it may have died before drawing
                    draw_frames(path)
                write_report([folder], folder)
    return read_record(folder)


def run_to_end(
    folder: Path, dataset: Dataset | None = None, hooks: Hooks = NO_HOOKS, quiet: bool = False
) -> RunRecord:
    """Train a run to its end, or to where a hook ends it."""
    with closing(complete(folder, dataset, hooks, quiet)) as progress:
        for moment in progress:
            try:
                ended = hooks.ends(moment)
            except BadInput as error:
                progress.throw(error)
            if ended:
                break
    return read_record(folder)


def execute(folder: Path, dataset: Dataset, hooks: Hooks, quiet: bool) -> Steps[RunRecord]:
    """Train the run in a folder from its last checkpoint to its end, and write its result.json."""
    run = load_run(folder)
    if not is_finished(folder, run):
        enable_compilation_cache()
        check_precision(run.precision)
        try:
            yield from training(run, folder, dataset, hooks, quiet)
        except GeneratorExit:
            _conclude(folder)
            raise
        _conclude(folder)
    return read_record(folder)


def _conclude(folder: Path) -> None:
    """Write the result of a run at the checkpoint that its protocol names, and draw its frames."""
    trained = load_trained(folder)
    found = last_scores(folder, len(trained.run.members), trained.checkpoint.step)
    environment = environment_of(trained.run)
    if found is None and environment is not None:  # ended between two evaluations
        found = {"normalized": None, **trained.scores(environment, trained.protocol())}
    (folder / "frames.png").unlink(missing_ok=True)  # of an earlier end
    # The record comes before the picture: broken graphics can end the process.
    write_record(folder, record_of(trained, found))
    draw_frames(folder)


def training(
    run: RunConfig, folder: Path, dataset: Dataset, hooks: Hooks, quiet: bool
) -> Steps[Checkpoint]:
    """Train a run in its folder from its last checkpoint."""
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

    def evaluate(states: Any, step: int) -> Evaluations:
        trained = Trained(run, population, Checkpoint(step, states), transforms)
        scores = {}
        if environment is not None:
            reporter.waiting(f"evaluating {len(run.members)} × {protocol.episodes} episodes")
            scores = trained.scores(environment, protocol)
        return scores, hooks.evaluate(trained, dataset)

    def explorer() -> Explorer:
        assert environment is not None
        assert run.online is not None
        single = dataclasses.replace(protocol.acting, candidates=1)
        exploring = dataclasses.replace(protocol, acting=single)
        return Explorer(population, transforms, environment, exploring, run.online.exploration)

    if run.online:
        data = fetch(slice(None))
        source: Feed = Online(population, data, run.online, run.steps, explorer, folder)
    else:
        source = feed(population, len(dataset), dataset.row_bytes, fetch)
    names = [f"{m.seed}{m.overrides or ''}" for m in population.members]
    discounts = np.asarray(population.configs.discount, np.float64)
    extremes = np.array([dataset.summary.reward_low, dataset.summary.reward_high], np.float32)
    rewards = transforms.reward(extremes).tolist() if not run.online else [-np.inf, np.inf]
    title = f"{run.agent} on {dataset.name}"
    with reporting(title, run.steps, quiet) as reporter, stop_signals() as stop:
        reporter.waiting("compiling")
        evaluated = environment is not None or hooks.evaluators
        best = protocol.checkpoint == "best"
        options = loop_options(
            run.steps, run.chunk, run.evaluations if evaluated else 0, not run.keep_going, best
        )
        asked = run.evaluations
        if evaluated and isinstance(asked, list) and asked != list(options.eval_at):
            steps = ", ".join(f"{step:,}" for step in options.eval_at)
            say(f"note: evaluations happen at multiples of {options.chunk} updates: {steps}.")
        loop = Loop(
            population,
            source,
            options,
            folder,
            Health(rewards, discounts, names, population.agent.watched),
            evaluate if evaluated else None,
            open_trackers(hooks.track, folder, as_json(run)),
        )
        reporter.resume(loop.step)
        return (yield from loop.run(reporter, stop))
