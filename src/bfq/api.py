"""Train in Python: a whole run, a run step by step, and a sweep."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

from bfq.agents.contract import Agent
from bfq.agents.registry import load_agent
from bfq.data.dataset import Dataset
from bfq.data.store import keep_dataset
from bfq.envs.own import admit
from bfq.errors import BadInput
from bfq.experiment import Steps, complete, run_to_end, start
from bfq.hooks import Evaluator, Hooks
from bfq.results import Result, load_result
from bfq.run import RunConfig, RunRecord, new_folder
from bfq.settings import check_agrees, compose, load_run
from bfq.tasks.catalog import DEFAULT_TASK
from bfq.tasks.sources import load_dataset
from bfq.training.loop import Progress
from bfq.training.monitoring import Tracker, check_trackers

Options = ParamSpec("Options")


def train(
    data: Any = DEFAULT_TASK,
    agent: str | Agent = "bfq",
    *,
    columns: Mapping[str, str] | None = None,
    steps: int | None = None,
    seeds: int | Sequence[int] = 5,
    values: Mapping[str, Any] | None = None,
    env: Any = None,
    episode_steps: int | None = None,
    evaluators: Mapping[str, Evaluator] | None = None,
    callbacks: Sequence[Callable[[Progress], object]] = (),
    stop: Callable[[Progress], object] | None = None,
    track: str | Tracker | Sequence[str | Tracker] = (),
    baselines: Sequence[str] = (),
    eval_episodes: int | None = None,
    eval_seed: int | None = None,
    evaluations: int | Sequence[int] = 8,
    checkpoint: Literal["last", "best"] | None = None,
    candidates: int | None = None,
    temperature: float | None = None,
    selection: Literal["argmax", "softmax"] | None = None,
    softmax_weight: float | None = None,
    policy: Literal["ema", "online"] | None = None,
    sampling_steps: int | None = None,
    sampler: str | None = None,
    transforms: Mapping[str, str] | None = None,
    start_from: str | Path | Result | None = None,
    online: int | None = None,
    replay: Literal["symmetric", "balanced", "new"] = "symmetric",
    exploration: float = 0.1,
    keep_going: bool = False,
    precision: Literal["float32", "bfloat16"] = "float32",
    chunk: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Result:
    """Train an agent on data, and evaluate it.

    Most keywords are options of `bfq train`, with the same names and the same defaults. What is None comes
    from the task and from the agent's preset.

    Args:
        data: A task (see `bfq tasks`), the path of a file or folder, a dataset, a pandas, Polars or Arrow table,
            a dict of arrays, a list of episodes, a Minari dataset, or a replay buffer of d3rlpy or
            Stable-Baselines3.
        agent: An agent (see `bfq agents`), the path of a Python file with an agent, or an agent.
        columns: Which column of a table or file is which, such as `{"observations": "temperature+speed"}`.
        steps: Gradient updates.
        seeds: A number of seeds, or a list of seeds.
        values: Hyperparameters. Each of several values, as `{"eta": [0.1, 1]}`, is trained with every seed.
        env: The environment that scores a policy of your own data: a Gymnasium id, "module:Class", an
            environment, a class, or a function that makes one.
        episode_steps: Episode limit with `env`.
        evaluators: Functions of a policy and the dataset, called at every evaluation for each member; see
            `bfq.evaluators`.
        callbacks: Functions of a `bfq.Progress`, called after every log row and evaluation.
        stop: A function of a `bfq.Progress` that ends the run early when it returns true, such as
            `bfq.patience(3)`.
        track: "tensorboard", "wandb", or an object with `log(row)` and `close()`; or several of them.
        baselines: Agents to train as well, each with its own preset; `["all"]` for every other agent.
        eval_episodes: Episodes per seed in each evaluation.
        eval_seed: Simulator seed of the first episode of an evaluation.
        evaluations: How many evaluations during training, or a list of updates after which to evaluate.
        checkpoint: The checkpoint that is scored: the last one, or the best of those that were evaluated.
        candidates: Actions drawn per state; the critic selects one of them.
        temperature: Scale of the initial noise.
        selection: Rule that selects among the candidates.
        softmax_weight: w in softmax(w · Q).
        policy: Weights that act: averaged or current.
        sampling_steps: Network calls per action; 0: as trained.
        sampler: Sampling rule of these steps, such as "ddim".
        transforms: Transforms of the data, such as `{"observations": "none", "reward": "standardize"}`.
        start_from: Start from the weights, the optimizer and the settings of this run: for more updates, or
            with other data, transformed as there.
        online: Take this many steps in the environment per seed, with a gradient update after each.
        replay: Batches of `online`: half data and half experience, both together, or experience only.
        exploration: Noise on the actions of `online`, in half action ranges.
        keep_going: Do not stop when a seed diverges.
        precision: "bfloat16" multiplies faster on NVIDIA GPUs.
        chunk: Updates per compiled call.
        out: Run folder; by default a new one in `runs`.
        resume: Continue the run in `out`, if there is one.
        quiet: Print nothing.

    Returns:
        The run folder and its record, with the scores.
    """
    folder, dataset, hooks = _begin(**locals())
    return Result(folder, run_to_end(folder, dataset, hooks, quiet))


class Fit:
    """A run that trains while it is iterated over.

    Each iteration is a `bfq.Progress`. `break` ends the run at the present update: it is saved, scored and
    reported, and can be resumed.
    """

    def __init__(self, folder: Path, progress: Steps[RunRecord]):
        self.folder, self._progress = folder, progress

    def __repr__(self) -> str:
        return f"Fit(in {self.folder})"

    def __iter__(self) -> Iterator[Progress]:
        # The loop that iterates here closes this generator when it ends, and so the run.
        with closing(self._progress):
            yield from self._progress

    @property
    def result(self) -> Result:
        """The result of the run, once it has ended."""
        return load_result(self.folder)


def _stepwise(function: Callable[Options, Result]) -> Callable[Options, Fit]:
    """The function with the same options that yields the moments of the run."""
    signature = inspect.signature(function)

    @wraps(function)
    def fit(*args: Options.args, **kwargs: Options.kwargs) -> Fit:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        if given.arguments["callbacks"] or given.arguments["stop"]:
            raise BadInput(
                "callbacks and stop are for bfq.train: write them in the loop over bfq.fit."
            )
        folder, dataset, hooks = _begin(**given.arguments)
        return Fit(folder, complete(folder, dataset, hooks, given.arguments["quiet"]))

    fit.__name__ = fit.__qualname__ = "fit"
    fit.__doc__ = FIT
    return fit


FIT = """Train an agent on data, as a loop: `for progress in bfq.fit(…)`.

    The arguments are those of `bfq.train`, without `callbacks` and `stop`. `break` ends the run early.

    Returns:
        A `bfq.Fit`; its `result` is there when the loop has ended.
    """
fit = _stepwise(train)
_DEFAULTS = {n: p.default for n, p in inspect.signature(train).parameters.items()}


def _begin(
    data: Any,
    agent: Any,
    *,
    columns: Mapping[str, str] | None,
    out: str | Path | None,
    resume: bool,
    quiet: bool,
    evaluators: Mapping[str, Evaluator] | None,
    callbacks: Sequence[Callable[[Progress], object]],
    stop: Callable[[Progress], object] | None,
    track: Any,
    **options: Any,
) -> tuple[Path, Dataset | None, Hooks]:
    """Start the run in its folder, or find the one to resume."""
    several = list(track) if isinstance(track, list | tuple) else [track]
    check_trackers(several)
    hooks = Hooks(evaluators or {}, several, callbacks, stop)
    dataset = None
    if columns or not isinstance(data, str | Path):
        dataset = load_dataset(data, columns)
    options |= {"data": str(data) if dataset is None else keep_dataset(dataset), "agent": agent}
    options["env"] = admit(options["env"])
    options = {name: value for name, value in options.items() if not _is_default(name, value)}
    if "data" in options:
        options["task"] = options.pop("data")
    if "agent" in options:
        options["agent"] = load_agent(agent)
    if "start_from" in options:
        options["start_from"] = str(Path(options["start_from"]))
    if resume and out is not None and (Path(out) / "config.json").exists():
        check_agrees(options, load_run(Path(out)), Path(out))
        return Path(out), dataset, hooks
    run = compose(**options)
    folder = Path(out) if out is not None else new_folder(run)
    return folder, start(run, folder, dataset, quiet), hooks


def _is_default(name: str, value: Any) -> bool:
    default = _DEFAULTS.get(name)
    return value is default or (isinstance(value, int | str | tuple) and value == default)


def finetune(
    run: str | Path | Result,
    env: Any = None,
    steps: int = 10_000,
    *,
    values: Mapping[str, Any] | None = None,
    replay: Literal["symmetric", "balanced", "new"] = "symmetric",
    exploration: float = 0.1,
    evaluations: int | Sequence[int] = 8,
    eval_episodes: int | None = None,
    evaluators: Mapping[str, Evaluator] | None = None,
    callbacks: Sequence[Callable[[Progress], object]] = (),
    stop: Callable[[Progress], object] | None = None,
    track: str | Tracker | Sequence[str | Tracker] = (),
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Result:
    """Continue a run in its environment: offline to online.

    This is `train(start_from=run, online=steps, env=env, …)`, a new run with the settings of the first. Its
    agent needs critics.

    Args:
        run: The run folder, or its result.
        env: The environment; by default the run's own.
        steps: Steps in the environment per seed, with a gradient update after each.
        values: Changed hyperparameters.
        replay: Each batch is half data and half experience ("symmetric"), drawn from both together
            ("balanced"), or experience only ("new").
        exploration: Noise on the actions, in half action ranges.
        evaluations: How many evaluations, or a list of updates after which to evaluate.
        eval_episodes: Episodes per seed in each evaluation.
        evaluators: As in `train`.
        callbacks: As in `train`.
        stop: As in `train`.
        track: As in `train`.
        out: Run folder; by default a new one in `runs`.
        resume: Continue the run in `out`, if there is one.
        quiet: Print nothing.

    Returns:
        The new run.
    """
    given = locals()
    options = {name: given[name] for name in given if name not in ("run", "steps")}
    return train(start_from=run, online=steps, **options)


def plan(data: str | Path = DEFAULT_TASK, agent: str | Agent = "bfq", **options: Any) -> RunConfig:
    """The complete configuration that `train` would run with these options; nothing is trained."""
    options["env"] = admit(options.get("env"))
    return compose(str(data), load_agent(agent), **options)
