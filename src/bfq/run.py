"""What a run is: its folder, its configuration (config.json), its record (result.json) and its metrics.

This module is the only one that reads or writes these files. What does not fit the types is refused
with the path of the field.
"""

import dataclasses
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import count, product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bfq.errors import BadInput
from bfq.files import write_json
from bfq.options import (
    DataOptions,
    Factor,
    Name,
    Natural,
    Positive,
    Precision,
    ProtocolValues,
    Replay,
    Simulator,
    Value,
)
from bfq.records import Labels, check_complete, decode, read_text

FORMAT: Literal[2] = 2
LARGEST_FLOAT32 = 3.4028234663852886e38
Float32 = Annotated[float, Meta(ge=-LARGEST_FLOAT32, le=LARGEST_FLOAT32)]
# One per member; None for a number that is not finite. Figures cannot span more.
Numbers = list[Annotated[float, Meta(ge=-1e100, le=1e100)] | None]


def json_numbers(values: Iterable[float]) -> Numbers:
    """Numbers for JSON: None for those that are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


@dataclasses.dataclass(frozen=True)
class Member:
    """One seed with its own values of some hyperparameters."""

    seed: Natural
    overrides: dict[str, int | float]


def members_of(seeds: Sequence[int], values: Mapping[str, Sequence[float]]) -> tuple[Member, ...]:
    """Every combination of the values, with every seed."""
    grid = [dict(zip(values, choice, strict=True)) for choice in product(*values.values())]
    return tuple(Member(seed, overrides) for overrides in grid for seed in seeds)


@dataclasses.dataclass(frozen=True)
class Reference:
    """The two returns between which a score is normalized."""

    low: float  # scored 0
    high: float  # scored 100
    source: str

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise ValueError("low and high are equal, so nothing can be normalized")

    def normalize(self, episode_return: float) -> float:
        """100 (R − low) / (high − low)."""
        return 100.0 * (episode_return - self.low) / (self.high - self.low)


@dataclasses.dataclass(frozen=True)
class RewardTransform:
    """r ← scale · r + shift."""

    name: Name
    scale: Float32
    shift: Float32

    def __call__(self, rewards: Any) -> Any:
        """The rewards for the critics; evaluation always sums the untransformed ones."""
        return (self.scale * rewards + self.shift).astype("float32")


@dataclasses.dataclass(frozen=True)
class TransformsSummary:
    """The transforms of a run without their arrays."""

    observations: Name
    reward: RewardTransform


@dataclasses.dataclass(frozen=True)
class TransformsRecord(TransformsSummary):
    """The fitted transforms: float32 numbers survive the way through JSON unchanged."""

    observation_mean: Annotated[list[Float32], Meta(min_length=1)]
    observation_std: list[Annotated[float, Meta(gt=0, le=LARGEST_FLOAT32)]]
    action_low: Annotated[list[Float32], Meta(min_length=1)]
    action_high: list[Float32]

    def __post_init__(self) -> None:
        if len(self.observation_mean) != len(self.observation_std):
            raise ValueError("observation_mean and observation_std differ in length")
        if len(self.action_low) != len(self.action_high):
            raise ValueError("action_low and action_high differ in length")


@dataclasses.dataclass(frozen=True)
class DataRecord:
    """What a run was trained on."""

    name: Name
    source: str
    sha256: str | None
    transitions: Natural
    episodes: Natural | None
    return_mean: float | None
    return_std: float | None
    return_max: float | None
    normalized_mean: float | None = None
    labels: Labels | None = None


@dataclasses.dataclass(frozen=True)
class Parent:
    """The checkpoint that a run started from."""

    step: Natural
    updates: Natural  # of the parent and of its own parents
    sha256: str


@dataclasses.dataclass(frozen=True)
class OnlineConfig:
    """How a run gathers experience: one step in the environment for each update."""

    replay: Replay
    exploration: Factor


# Fields that files leave out where they are None.
RARE = ("start_from", "parent", "online", "labels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything needed to repeat a run, and nothing that depends on when or where it ran."""

    task: Name  # a task's name, or the path of a file
    agent: Name
    config: dict[str, Value]  # every hyperparameter of the agent
    # Those with several values: each combination of them is trained with every seed.
    varied: dict[str, Annotated[list[int | float], Meta(min_length=2)]]
    seeds: Annotated[list[Natural], Meta(min_length=1, max_length=10_000)]
    data: DataOptions
    evaluation: ProtocolValues
    evaluations: Natural | list[Positive]  # how many, or after which updates
    simulator: Simulator | None
    episode_steps: Positive
    reference: Reference | None
    chunk: Positive
    keep_going: bool = False
    metric: Literal["return", "success"] = "return"  # what an episode is scored by
    baselines: list[Name] = dataclasses.field(default_factory=list)
    precision: Precision = "float32"
    start_from: Name | None = None  # the folder of another run
    online: OnlineConfig | None = None
    # Known when the run has started.
    parent: Parent | None = None
    transforms: TransformsRecord | None = None
    dataset: DataRecord | None = None
    format: Literal[2] = FORMAT

    @property
    def steps(self) -> int:
        """Gradient updates."""
        return int(self.config["steps"])

    @property
    def dataset_name(self) -> str:
        """The name of the data, without the folder of a file and without a hash."""
        if self.task.startswith("memory/"):
            return self.task.removeprefix("memory/").rpartition("-")[0]
        path = Path(self.task)
        return path.stem if path.suffix or path.is_absolute() else self.task

    @property
    def members(self) -> tuple[Member, ...]:
        """Every seed with every combination of the varied hyperparameters."""
        return members_of(self.seeds, self.varied)

    @property
    def planned(self) -> "RunConfig":
        """The configuration without what becomes known at the start."""
        return dataclasses.replace(self, transforms=None, dataset=None, parent=None)

    def identity(self) -> dict[str, Any]:
        """The settings that the numbers of a run depend on."""
        settings = as_json(self.planned)
        for name in ("keep_going",) if self.online else ("chunk", "keep_going"):
            del settings[name]
        return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A finished run, or one evaluation of it: what result.json holds."""

    task: Name
    agent: Name
    title: Name
    steps: Natural
    members: Annotated[list[Member], Meta(min_length=1)]
    scores: dict[str, Numbers | None] | None  # return, normalized, success
    protocol: ProtocolValues
    simulator: Simulator | None = None
    episode_steps: Positive | None = None
    ignores: list[str] = dataclasses.field(default_factory=list)  # unused parts of the protocol
    data: DataRecord
    transforms: TransformsSummary
    reference: Reference | None
    versions: dict[str, str]
    device: str
    train_seconds: float
    microseconds_per_step: float
    precision: Precision = "float32"
    online: OnlineConfig | None = None
    config: dict[str, Value]
    command: str

    def __post_init__(self) -> None:
        for name, values in (self.scores or {}).items():
            if values is not None and len(values) != len(self.members):
                raise ValueError(f"{name} has {len(values)} scores for {len(self.members)} members")


@dataclasses.dataclass(frozen=True)
class MetricsRow:
    """A line of metrics.jsonl."""

    step: Natural
    kind: Literal["train", "evaluation", "evaluator"]
    metrics: dict[str, Numbers]


def as_json(record: Any) -> dict[str, Any]:
    """A configuration or a record as plain dictionaries and lists."""
    content: dict[str, Any] = msgspec.to_builtins(record)
    return _without_rare(content)


def _without_rare(content: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in content.items() if v is not None or k not in RARE}
    return {k: _without_rare(v) if isinstance(v, dict) else v for k, v in kept.items()}


def write_record(folder: Path, record: RunConfig | RunRecord) -> None:
    """Write config.json, which makes a folder a run, or result.json, which makes it finished."""
    name = "config.json" if isinstance(record, RunConfig) else "result.json"
    write_json(folder / name, as_json(record))


def read_config(path: Path) -> RunConfig:
    """The configuration in a run folder, or in a file of this form."""
    file = path if path.suffix == ".json" and not path.is_dir() else path / "config.json"
    if not file.exists() and file.name == "config.json":
        raise BadInput(f"there is no run in {file.parent}: it has no config.json.")
    content = read_text(file)
    run = decode(content, RunConfig, str(file))
    check_complete(json.loads(content), as_json(run), str(file))
    return run


def read_record(folder: Path) -> RunRecord:
    """The record of a finished run."""
    file = folder / "result.json"
    return decode(read_text(file), RunRecord, str(file))


def read_metrics(folder: Path, members: int) -> list[MetricsRow]:
    """The rows of a run's metrics.jsonl; every metric has one number per member."""
    file = folder / "metrics.jsonl"
    rows = [
        decode(line, MetricsRow, f"{file}, line {number}")
        for number, line in enumerate(read_text(file).splitlines(), 1)
        if line.strip()
    ]
    for row in rows:
        for name, numbers in row.metrics.items():
            if len(numbers) != members:
                count = f"{len(numbers)} numbers for {members} members"
                raise BadInput(f"{file}, update {row.step}: {name} has {count}.")
    return rows


RUNS = Path("runs")


def stem_of(run: RunConfig) -> str:
    """The task, or its file, and the agent: how the names of folders begin."""
    name = run.dataset_name.replace("/", "-")
    return f"{name}-{run.agent}"


def new_folder(run: RunConfig) -> Path:
    """The next free folder for a run of this task and agent."""
    names = (f"{stem_of(run)}-{k:03d}" for k in count(1))
    return next(RUNS / name for name in names if not (RUNS / name).exists())


def unfinished() -> Path:
    """Return the newest unfinished run in `runs`."""
    configs = RUNS.glob("*/config.json")
    started = [path for path in configs if not path.with_name("result.json").exists()]
    if not started:
        raise BadInput(f"no unfinished run in {RUNS}: name one with --out.")
    return max(started, key=lambda path: path.stat().st_mtime).parent


def folder_for(stem: str, settings: dict[str, Any]) -> Path:
    """A folder named after settings: other settings have another folder."""
    content = json.dumps(settings, sort_keys=True)
    return RUNS / f"{stem}-{hashlib.sha256(content.encode()).hexdigest()[:10]}"


PACKAGES = (
    "bfq-rl", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "mujoco", "ogbench",
    "gymnasium-robotics",
)  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of Python, of the platform and of the installed packages that a number depends on."""
    machine = f"{platform.system()} {platform.machine()}"
    found = {"python": platform.python_version(), "platform": machine}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
