"""Train in Python: a whole run, a run step by step, and a sweep."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from bfq.agents.contract import Agent
from bfq.agents.registry import ConfiguredAgent, load_agent
from bfq.data.dataset import Dataset
from bfq.data.store import keep_dataset
from bfq.envs.own import admit
from bfq.errors import BadInput
from bfq.experiment import Steps, complete, run_to_end, start
from bfq.hooks import Evaluator, Hooks
from bfq.options import OPTIONS, check_options
from bfq.results import Frame, Result, load_result
from bfq.run import RunConfig, RunRecord, new_folder
from bfq.settings import check_agrees, compose, load_run
from bfq.sweeps import run_sweep, sweep_folder, sweep_runs
from bfq.tasks.catalog import DEFAULT_TASK
from bfq.tasks.sources import load_dataset
from bfq.training.loop import Progress
from bfq.training.monitoring import Tracker, check_trackers

Options = ParamSpec("Options")
T = TypeVar("T")


def train(
    data: Any = DEFAULT_TASK,
    agent: str | Agent | ConfiguredAgent = "bfq",
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
        agent: An agent (see `bfq agents`), the path of a Python file with an agent, an agent, or an agent with
            hyperparameters, such as `bfq.agents.BFQ(eta=0.1)`.
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


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A finished sweep: its folder and the content of its sweep.json."""

    folder: Path
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"Sweep(best {self.best}, {len(self.record['rows'])} settings, in {self.folder})"

    @property
    def best(self) -> dict[str, Any]:
        """The values with the highest mean score, on the seeds that selected them."""
        return dict(self.record["rows"][0]["values"])

    @property
    def confirm(self) -> str:
        """The command that trains the best setting with other seeds."""
        return str(self.record["confirm"])

    @property
    def table(self) -> Frame:
        """One row per setting, best first: its values, the mean and the standard deviation of its scores."""
        rows = [
            {**row["values"], "mean": row["mean"], "std": row["std"]} for row in self.record["rows"]
        ]
        return Frame({name: np.array([row[name] for row in rows]) for name in rows[0]})

    @property
    def runs(self) -> list[Result]:
        """The runs, in the order of their best setting."""
        return [
            load_result(folder) for folder in dict.fromkeys(r["run"] for r in self.record["rows"])
        ]


def _like_train(
    function: Callable[Options, Result],
    do: Callable[..., T],
    name: str,
    about: str,
    refused: Sequence[str],
    instead: str,
) -> Callable[Options, T]:
    """A function with the options of `train` that does something else with them."""
    signature = inspect.signature(function)

    def run(*args: Options.args, **kwargs: Options.kwargs) -> T:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        for one in refused:
            if not _is_default(one, given.arguments[one]):
                raise BadInput(f"bfq.{name} takes no {one}: {instead}.")
        return do(**given.arguments)

    run.__name__, run.__qualname__, run.__doc__ = name, name, about
    run.__module__, run.__annotations__ = function.__module__, function.__annotations__
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _fit(**given: Any) -> Fit:
    folder, dataset, hooks = _begin(**given)
    return Fit(folder, complete(folder, dataset, hooks, given["quiet"]))


def _sweep(*, out: Any, quiet: bool, **given: Any) -> Sweep:
    options, dataset = _options(**{name: given[name] for name in given if name not in HOOKS})
    grid = check_options({"values": options.pop("values", {})}, OPTIONS)["values"]
    grid = {name: one if isinstance(one, list) else [one] for name, one in grid.items()}
    runs = sweep_runs(grid, **options)
    folder = Path(out) if out is not None else sweep_folder(runs)
    return Sweep(folder, run_sweep(runs, grid, folder, dataset, quiet)[1])


HOOKS = ("evaluators", "callbacks", "stop", "track", "resume")
_DEFAULTS = {n: p.default for n, p in inspect.signature(train).parameters.items()}
fit = _like_train(
    train,
    _fit,
    "fit",
    """Train an agent on data, as a loop: `for progress in bfq.fit(…)`.

    The arguments are those of `bfq.train`, without `callbacks` and `stop`. `break` ends the run early.

    Returns:
        A `bfq.Fit`; its `result` is there when the loop has ended.
    """,
    ("callbacks", "stop"),
    "write it in the loop",
)
sweep = _like_train(
    train,
    _sweep,
    "sweep",
    """Train a grid of hyperparameters, such as `values={"eta": [0.1, 1], "critic": ["plain", "clean_diffuser"]}`.

    The arguments are those of `bfq.train` for a single run. Numeric hyperparameters are trained together; each
    combination of the others is a run of its own. The same call continues a sweep that was interrupted.

    Returns:
        A `bfq.Sweep` with the ranking and the runs.
    """,
    (*HOOKS, "baselines", "keep_going"),
    "train the best setting with bfq.train",
)


def _begin(
    *,
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
    asked, dataset = _options(**options)
    if resume and out is not None and (Path(out) / "config.json").exists():
        check_agrees(asked, load_run(Path(out)), Path(out))
        return Path(out), dataset, hooks
    run = compose(**asked)
    folder = Path(out) if out is not None else new_folder(run)
    return folder, start(run, folder, dataset, quiet), hooks


def _options(
    data: Any, agent: Any, columns: Mapping[str, str] | None, env: Any, **options: Any
) -> tuple[dict[str, Any], Dataset | None]:
    """The options that were given, in the form of the command line, and the data if it is in memory."""
    dataset = None
    if columns or not isinstance(data, str | Path):
        dataset = load_dataset(data, columns)
    task = str(data) if dataset is None else keep_dataset(dataset)
    agent, options["values"] = _with_values(agent, options["values"])
    given = {"data": task, "agent": agent, "env": admit(env), **options}
    asked = {name: value for name, value in given.items() if not _is_default(name, value)}
    if "data" in asked:
        asked["task"] = asked.pop("data")
    if "agent" in asked:
        asked["agent"] = load_agent(agent)
    if "start_from" in asked:
        asked["start_from"] = str(Path(asked["start_from"]))
    return asked, dataset


def _with_values(agent: Any, values: Any) -> tuple[Any, Any]:
    """The agent without its hyperparameters, and these with others that come first."""
    if isinstance(agent, ConfiguredAgent):
        return agent.agent, {**agent.values, **(values or {})}
    return agent, values


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


def plan(
    data: str | Path = DEFAULT_TASK,
    agent: str | Agent | ConfiguredAgent = "bfq",
    **options: Any,
) -> RunConfig:
    """The complete configuration that `train` would run with these options; nothing is trained."""
    options["env"] = admit(options.get("env"))
    method, options["values"] = _with_values(agent, options.get("values"))
    return compose(str(data), load_agent(method), **options)
