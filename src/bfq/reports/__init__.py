"""Reports on finished runs: tables, figures and one HTML page, made from run records only."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput, counted
from bfq.reports.statistics import value_text
from bfq.run import MetricsRow, RunRecord, read_metrics, read_record

SUCCESS = "success in %"
UNITS = {"normalized": "normalized score", "return": "return"}
DEFAULTS = {"policy": "ema", "temperature": 1}  # of acting; not mentioned


@dataclass(frozen=True)
class Group:
    """Members that differ only in their seed."""

    overrides: dict[str, int | float]
    places: tuple[int, ...]  # in the population

    @property
    def label(self) -> str:
        """The overrides, as one would type them."""
        return ", ".join(f"{name}={value}" for name, value in self.overrides.items())


class Series(NamedTuple):
    """One metric of one group during training; NaN where it was not finite."""

    steps: npt.NDArray[np.int64]  # (rows,)
    values: npt.NDArray[np.float64]  # (rows, seeds)


@dataclass(frozen=True, kw_only=True)
class Run(RunRecord):
    """A finished run: its record, its folder, its metrics and its baselines."""

    folder: Path
    rows: Sequence[MetricsRow] = field(default=(), repr=False)
    baselines: Sequence["Run"] = ()

    @property
    def counts_successes(self) -> bool:
        """Whether the normalized score is the percentage of successful episodes."""
        return self.reference is not None and self.reference.source == "success in per cent"

    @property
    def frames(self) -> bytes | None:
        """Frames of the trained policy as PNG, if they were drawn."""
        path = self.folder / "frames.png"
        return path.read_bytes() if path.is_file() else None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The members by their overrides, in order of first appearance."""
        places: dict[str, list[int]] = {}
        for place, member in enumerate(self.members):
            places.setdefault(json.dumps(member.overrides, sort_keys=True), []).append(place)
        return tuple(Group(self.members[p[0]].overrides, tuple(p)) for p in places.values())

    def finite_scores(self, name: str, group: Group) -> list[float]:
        """The scores of the members of a group that have one."""
        numbers = (self.scores or {}).get(name)
        found = [numbers[place] for place in group.places] if numbers else []
        return [number for number in found if number is not None]

    def metric_names(self, kind: str) -> list[str]:
        """The metrics of this kind of row, in order of first appearance."""
        rows = [row.metrics for row in self.rows if row.kind == kind]
        return list(dict.fromkeys(name for metrics in rows for name in metrics))

    def series(self, kind: str, metric: str, group: Group) -> Series:
        """A metric of a group at every row that has it for at least one seed."""
        rows = [row for row in self.rows if row.kind == kind and metric in row.metrics]
        listed = [[row.metrics[metric][place] for place in group.places] for row in rows]
        values = np.asarray(listed, np.float64).reshape(len(rows), len(group.places))
        steps, kept = np.asarray([row.step for row in rows], np.int64), np.isfinite(values).any(1)
        return Series(steps[kept], values[kept])


def read_finished(folder: Path) -> Run:
    """Read the finished run in a folder, with its baselines."""
    inside = sorted(path for path in folder.glob("baselines/*") if path.is_dir())
    run, *baselines = [_read(path, folder) for path in (folder, *inside)]
    return replace(run, baselines=tuple(baselines))


def is_run(folder: Path) -> bool:
    """Return whether training began in this folder."""
    return any((folder / name).is_file() for name in ("config.json", "metrics.jsonl"))


def _read(folder: Path, run: Path) -> Run:
    """The finished run in a folder, which may be that of a baseline in the folder of a run."""
    if not folder.exists():
        raise BadInput(f"there is no run folder {folder}.")
    if not (folder / "result.json").exists():
        if not is_run(run):
            raise BadInput(f"{folder} is not a run: it has no config.json.")
        raise BadInput(
            f"the run in {folder} is not finished (it has no result.json): "
            f"continue it with `bfq train --resume --out {run}`."
        )
    record = read_record(folder)
    rows = read_metrics(folder, len(record.members))
    return Run(**vars(record), folder=folder, rows=rows)


def score_name(unit: str, runs: Iterable[Run]) -> str:
    """The unit in words; a normalized score is a success rate if all runs count successes."""
    successes = unit == "normalized" and all(run.counts_successes for run in runs)
    return SUCCESS if successes else UNITS[unit]


def describe_acting(run: RunRecord) -> str:
    """How actions were chosen, briefly; defaults are not mentioned."""
    ignored = {name: DEFAULTS[name] for name in run.ignores if name in DEFAULTS}
    values: dict[str, Any] = {**run.protocol, **ignored}
    words = [counted(values["candidates"], "candidate")]
    if values["candidates"] > 1 and values["selection"] != "argmax":
        softmax = values["selection"] == "softmax"
        weight = f" of weight {value_text(values['softmax_weight'])}" if softmax else ""
        words.append(f"{values['selection']}{weight}")
    words += [f"noise × {values['temperature']:g}"] if values["temperature"] != 1 else []
    words += [f"{values['policy']} policy"] if values["policy"] != "ema" else []
    words += [counted(values["sampling_steps"], "network call")] if values["sampling_steps"] else []
    words += [f"{values['sampler']} sampler"] if values["sampler"] != "trained" else []
    return ", ".join(words)
