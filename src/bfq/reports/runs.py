"""A finished run as its folder tells it: `result.json`, `metrics.jsonl` and the baselines inside."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput
from bfq.files import json_of

Numbers = tuple[float | None, ...]  # one a member; None for what is not finite

NUMBER, MAYBE = (int, float), (int, float, NoneType)
RESULT: dict[str, Any] = {  # what result.json must hold; more is welcome
    "task": str,
    "agent": str,
    "title": str,
    "steps": int,
    "members": list,
    "scores": (dict, NoneType),
    "protocol": {
        "episodes": int,
        "seed": int,
        "checkpoint": str,
        "candidates": int,
        "selection": str,
        "softmax_weight": MAYBE,
        "temperature": NUMBER,
        "policy": str,
    },
    "data": {
        "name": str,
        "source": str,
        "sha256": (str, NoneType),
        "transitions": int,
        "episodes": (int, NoneType),
        "return_mean": MAYBE,
        "return_std": MAYBE,
        "return_max": MAYBE,
        "normalized_mean": MAYBE,
    },
    "transforms": dict,
    "reference": (dict, NoneType),
    "versions": dict,
    "device": str,
    "train_seconds": NUMBER,
    "microseconds_per_step": NUMBER,
    "config": dict,
    "command": str,
}
WORLD: dict[str, Any] = {"simulator": (str, NoneType), "episode_steps": (int, NoneType)}
MEMBER = {"seed": int, "overrides": dict}
ROW = {"step": int, "kind": str, "metrics": dict}


@dataclass(frozen=True)
class Member:
    """One seed with its own values of some hyperparameters."""

    seed: int
    overrides: dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Members that differ in their seed only, by their places in the population."""

    overrides: dict[str, Any]
    places: tuple[int, ...]

    @property
    def label(self) -> str:
        """What sets the group apart, as one would type it."""
        return ", ".join(f"{name}={value}" for name, value in self.overrides.items())


@dataclass(frozen=True)
class Row:
    """A line of `metrics.jsonl`."""

    step: int
    kind: str  # train | evaluation
    metrics: dict[str, Numbers]


class Series(NamedTuple):
    """One metric of one group along training; NaN where it was not finite."""

    steps: npt.NDArray[np.int64]  # (rows,)
    values: npt.NDArray[np.float64]  # (rows, seeds)


@dataclass(frozen=True)
class Run:
    """Everything a report says about a run."""

    folder: Path
    task: str
    agent: str
    title: str
    steps: int
    members: tuple[Member, ...]
    scores: dict[str, Numbers]  # "return", "normalized"; without a name that has no scores
    protocol: dict[str, Any]
    data: dict[str, Any]
    transforms: dict[str, Any]
    reference: dict[str, Any] | None
    versions: dict[str, Any]
    device: str
    train_seconds: float
    microseconds_per_step: float
    config: dict[str, Any]
    command: str
    rows: tuple[Row, ...] = field(repr=False)
    baselines: tuple["Run", ...] = ()
    ignores: tuple[
        str, ...
    ] = ()  # what of the protocol the agent has no use for: policy, temperature
    simulator: str | None = None  # runs of old do not tell it, nor its limit
    episode_steps: int | None = None

    @property
    def counts_successes(self) -> bool:
        """Whether its normalized score is the share of episodes that succeed, in %."""
        return self.reference is not None and self.reference.get("source") == "success in per cent"

    @property
    def frames(self) -> bytes | None:
        """A PNG of the policy at work, where one was made."""
        path = self.folder / "frames.png"
        return path.read_bytes() if path.is_file() else None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The members by their overrides, in the order in which these first appear."""
        places: dict[str, list[int]] = {}
        for place, member in enumerate(self.members):
            places.setdefault(json.dumps(member.overrides, sort_keys=True), []).append(place)
        return tuple(Group(self.members[p[0]].overrides, tuple(p)) for p in places.values())

    def scored(self, name: str, group: Group) -> list[float]:
        """The scores of a group's members, without those that have none."""
        numbers = self.scores.get(name)
        found = [numbers[place] for place in group.places] if numbers else []
        return [number for number in found if number is not None]

    def metric_names(self, kind: str) -> list[str]:
        """The metrics of a kind, in the order in which they first appear."""
        return list(
            dict.fromkeys(name for row in self.rows if row.kind == kind for name in row.metrics)
        )

    def series(self, kind: str, metric: str, group: Group) -> Series:
        """A metric of a group at each row that has it."""
        rows = [row for row in self.rows if row.kind == kind and metric in row.metrics]
        values = [[row.metrics[metric][place] for place in group.places] for row in rows]
        shape = (len(rows), len(group.places))
        return Series(
            np.asarray([row.step for row in rows], np.int64),
            np.asarray(values, np.float64).reshape(shape),
        )


def read_run(folder: Path) -> Run:
    """The run in a folder with its baselines, or a sentence saying what is wrong with it."""
    _require_finished(folder, folder)
    inside = sorted(path for path in folder.glob("baselines/*") if path.is_dir())
    for path in inside:
        _require_finished(path, folder)
    return _read(folder, tuple(_read(path, ()) for path in inside))


def is_run(folder: Path) -> bool:
    """Whether training began in a folder, which may also be a page, a sweep or no folder at all."""
    return any((folder / name).is_file() for name in ("config.json", "metrics.jsonl"))


def _require_finished(folder: Path, run: Path) -> None:
    if not folder.exists():
        raise BadInput(f"there is no run folder {folder}.")
    if not (folder / "result.json").exists():
        if not is_run(run):
            raise BadInput(f"{folder} is not a run: it has no config.json.")
        raise BadInput(
            f"the run in {folder} is not finished (it has no result.json): "
            f"continue it with `bfq train --resume --out {run}`."
        )


def _read(folder: Path, baselines: tuple[Run, ...]) -> Run:
    path = folder / "result.json"
    result = _json(_text(path), str(path))
    require(result, RESULT, str(path))
    for member in result["members"]:
        require(member, MEMBER, str(path), "members: ")
    count = len(result["members"])
    if count == 0:
        raise BadInput(f"{path} has no members: train the run again.")
    told = {name: result[name] for name in RESULT}
    told["members"] = tuple(Member(m["seed"], m["overrides"]) for m in result["members"])
    told["scores"] = {
        name: numbers(values, count, f"{path}: scores: {name}")
        for name, values in (result["scores"] or {}).items()
        if values is not None
    }
    ignores = result.get("ignores", [])
    world = {name: result.get(name) for name in WORLD}
    require({"ignores": ignores, **world}, {"ignores": list, **WORLD}, str(path))
    rows = _rows(folder / "metrics.jsonl", count)
    return Run(
        folder, **told, rows=rows, baselines=baselines, ignores=tuple(map(str, ignores)), **world
    )


def _rows(path: Path, count: int) -> tuple[Row, ...]:
    lines = _text(path).splitlines()
    return tuple(
        _row(line, count, f"{path}, line {k}") for k, line in enumerate(lines, 1) if line.strip()
    )


def _row(line: str, count: int, where: str) -> Row:
    row = _json(line, where)
    require(row, ROW, where)
    metrics = {name: numbers(v, count, f"{where}: {name}") for name, v in row["metrics"].items()}
    return Row(row["step"], row["kind"], metrics)


def _text(path: Path) -> str:
    if not path.is_file():  # a pipe might never end
        raise BadInput(f"there is no file {path}, which a run folder must have.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}.") from error


def _json(text: str, where: str) -> Any:
    try:
        return json_of(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not readable JSON: {error}.") from error


def require(value: Any, schema: dict[str, Any], where: str, inside: str = "") -> None:
    """Refuses an object that lacks a key of the schema or has another type there."""
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {inside}expected an object, found {type(value).__name__}.")
    for name, kind in schema.items():
        if name not in value:
            raise BadInput(
                f"{where} lacks {inside}{name!r}: it was not written by this version of bfq."
            )
        if isinstance(kind, dict):
            require(value[name], kind, where, f"{inside}{name}: ")
        elif not isinstance(value[name], kind):
            raise BadInput(f"{where}: {inside}{name!r} cannot be a {type(value[name]).__name__}.")


def numbers(values: Any, count: int, where: str) -> Numbers:
    """A list of numbers or nulls, one a member; refuses anything else."""
    if not isinstance(values, list) or not all(isinstance(value, MAYBE) for value in values):
        raise BadInput(f"{where} is not a list of numbers.")
    if len(values) != count:
        raise BadInput(f"{where} has {len(values)} numbers for {count} members.")
    return tuple(float(v) if v is not None and math.isfinite(v) else None for v in values)
