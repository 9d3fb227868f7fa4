"""Finished runs in Python: results, tables of metrics, policies, scores, and a report."""

import dataclasses
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bfq.envs.own import admit
from bfq.errors import BadInput
from bfq.evaluation.film import check_video, film
from bfq.evaluation.policy import Policy
from bfq.evaluation.rollout import check_environment
from bfq.options import PROTOCOL, Natural
from bfq.records import check_value
from bfq.run import Member, MetricsRow, RunRecord, read_metrics, read_record
from bfq.scoring import with_environment
from bfq.settings import load_run
from bfq.trained import environment_of, evaluate_run, load_trained


class Frame(dict[str, npt.NDArray[Any]]):
    """A table: columns of equal length by name."""

    def __repr__(self) -> str:
        rows = len(next(iter(self.values()), ()))
        return f"Frame({rows} rows: {', '.join(self)})"

    def to_pandas(self) -> Any:
        """The table as a pandas data frame."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise BadInput("to_pandas needs pandas: pip install pandas.") from error
        return pandas.DataFrame(dict(self))


def _frame(rows: Sequence[MetricsRow], members: Sequence[Member]) -> Frame:
    """One row per step and member; NaN where there is no finite number."""
    steps: dict[int, dict[str, Any]] = {}
    for row in rows:
        steps.setdefault(row.step, {}).update(row.metrics)
    count, absent = len(members), [None] * len(members)
    columns: dict[str, Any] = {
        "step": np.repeat(np.array(list(steps), np.int64), count),
        "member": np.tile(np.arange(count), len(steps)),
        "seed": np.tile([member.seed for member in members], len(steps)),
    }
    for name in members[0].overrides:
        columns[name] = np.tile([member.overrides[name] for member in members], len(steps))
    for name in dict.fromkeys(name for found in steps.values() for name in found):
        numbers = [found.get(name, absent) for found in steps.values()]
        columns[name] = np.array(numbers, np.float64).reshape(-1)
    return Frame(columns)


def load_policy(
    folder: "str | Path | Result",
    member: int = 0,
    *,
    candidates: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
) -> Policy:
    """Load a member of a run at its last checkpoint; it acts as the run's protocol says by default."""
    trained = load_trained(Path(folder))
    acting = trained.protocol(candidates=candidates, temperature=temperature).acting
    state, config = trained.member(member)
    return Policy(trained.population.agent, state, config, trained.transforms, acting, seed)


@dataclasses.dataclass(frozen=True)
class Result:
    """A run: its folder and its record."""

    folder: Path
    record: RunRecord

    def __repr__(self) -> str:
        record = self.record
        return f"Result({record.agent} on {record.task}, {len(record.members)} members, in {self.folder})"

    def __fspath__(self) -> str:
        """The folder: a result can be given wherever a run folder can."""
        return str(self.folder)

    @property
    def scores(self) -> dict[str, list[float | None] | None] | None:
        """`return` and `normalized`, one number per member; None without an environment."""
        return self.record.scores

    @property
    def metrics(self) -> Frame:
        """The training metrics: one row per logged update and member."""
        return self._table("train")

    @property
    def evaluations(self) -> Frame:
        """The scores and what the evaluators found: one row per evaluation and member."""
        return self._table("evaluation", "evaluator")

    def _table(self, *kinds: str) -> Frame:
        rows = read_metrics(self.folder, len(self.record.members))
        return _frame([row for row in rows if row.kind in kinds], self.record.members)

    policy = load_policy


def load_result(folder: str | Path) -> Result:
    """The result of a run that has ended."""
    return Result(Path(folder), read_record(Path(folder)))


def evaluate(
    folder: str | Path | Result,
    *,
    env: Any = None,
    episodes: int | None = None,
    seed: int | None = None,
    candidates: int | None = None,
    temperature: float | None = None,
    selection: Literal["argmax", "softmax"] | None = None,
    softmax_weight: float | None = None,
    policy: Literal["ema", "online"] | None = None,
    sampling_steps: int | None = None,
    sampler: str | None = None,
    checkpoint: Literal["last", "best"] | None = None,
    episode_steps: int | None = None,
    video: str | Path | None = None,
    member: int = 0,
) -> RunRecord:
    """Score a run, under its own protocol or a changed one.

    Args:
        folder: The run folder, or a result.
        env: Another environment, for a run of your own data, as in `bfq.train`; by default the run's own.
        episodes: Episodes per seed.
        seed: Simulator seed of the first episode.
        candidates: Actions drawn per state; the critic selects one of them.
        temperature: Scale of the initial noise.
        selection: Rule that selects among the candidates.
        softmax_weight: w in softmax(w · Q).
        policy: Weights that act: averaged or current.
        sampling_steps: Network calls per action; 0: as trained.
        sampler: Sampling rule of these steps, such as "ddim".
        checkpoint: The last one, or the best if the run kept it.
        episode_steps: Another episode limit, for your own data.
        video: Record a video of the first episode in this file (.mp4 or .gif).
        member: The member in the video.

    Returns:
        A record like result.json, with today's versions and device. `command` trains the run.
    """
    given = locals()
    folder = Path(folder)
    asked = {name: given[name] for name in PROTOCOL}
    run, env = load_run(folder), admit(env)
    if check_value("member", member, Natural) >= len(run.members):
        raise BadInput(f"the run has no member {member}.")
    if video is not None:
        check_video(Path(video))
    environment = environment_of(with_environment(run, env, episode_steps))
    if environment is None:
        raise BadInput(f"the run in {folder} has no environment: name one with --env.")
    trained = load_trained(folder, checkpoint)
    if env is not None:
        data = trained.transforms
        width = len(data.observation_mean)
        check_environment(environment, width, data.action_low, data.action_high)
    chosen = trained.protocol(**asked)
    if video is not None:
        film(trained.act(chosen), environment, chosen, len(run.members), member, Path(video))
    return evaluate_run(trained, environment, chosen)


def report(folders: Sequence[str | Path | Result], out: str | Path) -> Path:
    """Write tables, learning curves and an HTML page about finished runs to a folder; return the page."""
    from bfq.files import make_folder
    from bfq.reports.report import write_report

    make_folder(Path(out))
    write_report([Path(folder) for folder in folders], Path(out))
    return Path(out) / "report.html"
