"""Train and evaluate in a few lines of Python."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Acting, Agent
from bfq.agents.registry import load_agent
from bfq.data.dataset import Dataset
from bfq.data.store import save_dataset
from bfq.errors import BadInput
from bfq.evaluation.film import check_video, film
from bfq.experiment import Trained, complete, environment_of, evaluate_run, load_trained, start
from bfq.options import OPTIONS, PROTOCOL, Natural
from bfq.records import check_value
from bfq.run import RunConfig, RunRecord, new_folder
from bfq.settings import check_same, compose, load_run, with_episode_steps
from bfq.tasks.catalog import DEFAULT_TASK

OWN_DATA = "data.store"  # a dataset given in Python is stored in its run folder


class Policy:
    """A trained policy: call it with one observation, or a batch, in the units of the log."""

    def __init__(self, trained: Trained, member: int, acting: Acting, seed: int):
        agent, (state, config) = trained.population.agent, trained.member(member)
        self._name, self._acting, self._transforms = agent.name, acting, trained.transforms
        self._key, self._calls = jax.random.key(seed), 0
        self._act = jax.jit(
            lambda observations, key: agent.act(state, observations, key, config, acting)
        )

    def __repr__(self) -> str:
        sizes = len(self._transforms.observation_mean), len(self._transforms.action_low)
        how = f"temperature {self._acting.temperature:g}, candidates {self._acting.candidates}"
        return f"Policy({self._name!r}: observations {sizes[0]}, actions {sizes[1]}; {how})"

    def __call__(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the action, or actions; each call draws new noise, reproducible by the seed."""
        try:
            given = np.asarray(observations, np.float32)
        except (TypeError, ValueError) as error:
            raise BadInput(f"an observation must be a list of numbers: {error}.") from error
        width = len(self._transforms.observation_mean)
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise BadInput(f"an observation has {width} numbers, but this has shape {given.shape}.")
        if not np.isfinite(given).all():
            raise BadInput("an observation holds a number that is not finite (NaN or infinite).")
        self._calls += 1
        key = jax.random.fold_in(self._key, 2**30 + self._calls)  # never a key of an update
        unit = self._act(self._transforms.normalize(np.atleast_2d(given)), key)
        actions = self._transforms.from_unit(np.asarray(unit)).astype(np.float32)
        return actions.reshape(*given.shape[:-1], actions.shape[-1])


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished run: its folder and its record."""

    folder: Path
    record: RunRecord

    def __repr__(self) -> str:
        record = self.record
        return f"Result({record.agent} on {record.task}, {len(record.members)} members, in {self.folder})"

    @property
    def scores(self) -> dict[str, list[float | None] | None] | None:
        """`return` and `normalized`, one number per member; None without a simulator."""
        return self.record.scores

    def policy(
        self,
        member: int = 0,
        *,
        candidates: int | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> Policy:
        """A trained member as a function from observations to actions."""
        return load_policy(
            self.folder, member, candidates=candidates, temperature=temperature, seed=seed
        )


def load_policy(
    folder: str | Path,
    member: int = 0,
    *,
    candidates: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
) -> Policy:
    """Load a member of a run at its last checkpoint; it acts as the run's protocol says by default."""
    trained = load_trained(folder)
    acting = trained.protocol(candidates=candidates, temperature=temperature).acting
    return Policy(trained, member, acting, seed)


def train(
    task: str | Path | Dataset = DEFAULT_TASK,
    agent: str | Agent = "bfq",
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] = 5,
    values: Mapping[str, Any] | None = None,
    baselines: Sequence[str] = (),
    eval_episodes: int | None = None,
    eval_seed: int | None = None,
    evaluations: int | Sequence[int] = 8,
    candidates: int | None = None,
    temperature: float | None = None,
    selection: Literal["argmax", "softmax"] | None = None,
    softmax_weight: float | None = None,
    policy: Literal["ema", "online"] | None = None,
    sampling_steps: int | None = None,
    sampler: str | None = None,
    transforms: Mapping[str, str] | None = None,
    env: str | None = None,
    episode_steps: int | None = None,
    keep_going: bool = False,
    precision: Literal["float32", "bfloat16"] = "float32",
    chunk: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Result:
    """Train an agent on a task, a file or a dataset, and evaluate it.

    The keywords are the options of `bfq train`, with the same names and the same defaults. What is None comes
    from the task and from the agent's preset.

    Args:
        task: A task (see `bfq tasks`), the path of a file, or a dataset, which is stored in the run folder.
        agent: An agent (see `bfq agents`), the path of a Python file with an agent, or an agent.
        steps: Gradient updates.
        seeds: A number of seeds, or a list of seeds.
        values: Hyperparameters. Each of several values, as `{"eta": [0.1, 1]}`, is trained with every seed.
        baselines: Agents to train as well, each with its own preset; `["all"]` for every other agent.
        eval_episodes: Episodes per seed in each evaluation.
        eval_seed: Simulator seed of the first episode of an evaluation.
        evaluations: How many evaluations during training, or a list of updates after which to evaluate.
        candidates: Actions drawn per state; the critic selects one of them.
        temperature: Scale of the initial noise.
        selection: Rule that selects among the candidates.
        softmax_weight: w in softmax(w · Q).
        policy: Weights that act: averaged or current.
        sampling_steps: Network calls per action; 0: as trained.
        sampler: Sampling rule of these steps, such as "ddim".
        transforms: Transforms of the data, such as `{"observations": "none", "reward": "standardize"}`.
        env: Gymnasium id of the environment that scores a policy of your own data.
        episode_steps: Episode limit with `env`.
        keep_going: Do not stop when a seed diverges.
        precision: "bfloat16" multiplies faster on NVIDIA GPUs.
        chunk: Updates per compiled call.
        out: Run folder; by default a new one in `runs`.
        resume: Continue the run in `out`, if there is one.
        quiet: Show no progress.

    Returns:
        The run folder and its record, with the scores.
    """
    given = locals()
    options = {option: given[option] for option in OPTIONS if option not in ("task", "agent")}
    name = OWN_DATA if isinstance(task, Dataset) else str(task)
    run = compose(name, load_agent(agent), **options)
    folder = Path(out) if out is not None else new_folder(run)
    if isinstance(task, Dataset):
        run = dataclasses.replace(run, task=str((folder / name).absolute()))
    if resume and (folder / "config.json").exists():
        check_same(run, folder)
        return Result(folder, complete(folder, quiet=quiet))
    if isinstance(task, Dataset):
        if (folder / "config.json").exists():
            raise BadInput(f"{folder} holds a run already: choose another folder.")
        start(run, folder, task, keep=lambda: save_dataset(task, folder / name))
        return Result(folder, complete(folder, task, quiet=quiet))
    return Result(folder, complete(folder, start(run, folder), quiet=quiet))


def plan(task: str = DEFAULT_TASK, agent: str | Agent = "bfq", **options: Any) -> RunConfig:
    """The complete configuration that `train` would run with these options; nothing is trained."""
    return compose(task, load_agent(agent), **options)


def evaluate(
    folder: str | Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    candidates: int | None = None,
    temperature: float | None = None,
    selection: Literal["argmax", "softmax"] | None = None,
    softmax_weight: float | None = None,
    policy: Literal["ema", "online"] | None = None,
    sampling_steps: int | None = None,
    sampler: str | None = None,
    episode_steps: int | None = None,
    video: str | Path | None = None,
    member: int = 0,
) -> RunRecord:
    """Score the last checkpoint of a run, under its own protocol or a changed one.

    Args:
        folder: The run folder.
        episodes: Episodes per seed.
        seed: Simulator seed of the first episode.
        candidates: Actions drawn per state; the critic selects one of them.
        temperature: Scale of the initial noise.
        selection: Rule that selects among the candidates.
        softmax_weight: w in softmax(w · Q).
        policy: Weights that act: averaged or current.
        sampling_steps: Network calls per action; 0: as trained.
        sampler: Sampling rule of these steps, such as "ddim".
        episode_steps: Another episode limit, for your own data.
        video: Record a video of the first episode in this file (.mp4 or .gif).
        member: The member in the video.

    Returns:
        A record like result.json, with today's versions and device. `command` trains the run.
    """
    given = locals()
    asked = {name: given[name] for name in PROTOCOL}
    run = load_run(Path(folder))
    if check_value("member", member, Natural) >= len(run.members):
        raise BadInput(f"the run has no member {member}.")
    if video is not None:
        check_video(Path(video))
    environment = environment_of(with_episode_steps(run, episode_steps))
    if environment is None:
        raise BadInput(f"the run in {folder} has no environment: name one in training, with --env.")
    trained = load_trained(folder)
    chosen = trained.protocol(**asked)
    if video is not None:
        film(trained.act(chosen), environment, chosen, len(run.members), member, Path(video))
    return evaluate_run(trained, environment, chosen)
