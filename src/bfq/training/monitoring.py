"""Monitoring of a run: health checks that stop a diverging run, and trackers of its metrics."""

import errno
import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput, DiskTrouble, guarded, unknown

Floats = npt.NDArray[np.floating]
Row = dict[str, Any]
LARGEST_ERROR = 1e4  # noise and actions in [−1, 1] keep squared errors to the order of one
FRESH = 1000  # updates in which a network may still be far off, where observations are large


BROKEN = ": lower the learning rate or eta, or look for extreme values in the data."
UNBOUNDED_Q = (
    ", while the rewards allow values from {low:.4g} to {high:.4g}: the critics diverge; lower the learning "
    "rate or eta, or use critics with layer norm."
)
LARGE_ERROR = (
    ", a squared error between actions of size one: the policy diverges; lower the learning rate, or use "
    "clip_norm or composition_bound where the agent has them."
)


class Diverged(Exception):
    """Training diverged; the message names the quantity, the member and the update."""


class Health:
    """Checks the metrics of every update of every member.

    No return can leave [r_min, r_max] / (1 − γ), with 0 included for episodes that end. A mean Q further
    outside than the width of that interval, and than 10, which fresh networks do not reach, has diverged.
    So has a policy with a squared error between actions beyond LARGEST_ERROR: it can stay finite, and so
    unnoticed, for the rest of a run.
    """

    def __init__(
        self,
        rewards: Sequence[float],
        discounts: Floats,
        members: list[str],
        errors: Sequence[str] = (),
    ):
        """`rewards`: the smallest and the largest; `errors`: metrics bounded by LARGEST_ERROR."""
        horizon = 1.0 / np.maximum(1.0 - discounts, 1e-6)
        self._low, self._high = min(*rewards, 0.0) * horizon, max(*rewards, 0.0) * horizon
        self._slack = np.maximum(self._high - self._low, 10.0)
        self._members, self._errors = members, errors

    def check(self, metrics: Mapping[str, Floats], start: int) -> None:
        """Raise Diverged for the first defect in the metrics, each of shape (updates, members)."""
        for name, values, outside, problem in self._limits(metrics, start):
            if outside.any():
                step, k = np.argwhere(outside)[0]
                place = f"at update {start + step + 1} of member {self._members[k]}"
                problem = problem.format(low=self._low[k], high=self._high[k])
                raise Diverged(f"{name} reached {values[step, k]:.4g} {place}{problem}")

    def _limits(
        self, metrics: Mapping[str, Floats], start: int
    ) -> Iterator[tuple[str, Floats, npt.NDArray[np.bool], str]]:
        """What may not happen: a metric, its values, where they are out of bounds, and what to do."""
        broken = {name: ~np.isfinite(values) for name, values in metrics.items()}
        for name in sorted(broken, key=lambda name: broken[name].any(1).argmax()):
            yield name, metrics[name], broken[name], BROKEN
        if "q" in metrics:
            q = metrics["q"]
            outside = (q < self._low - self._slack) | (q > self._high + self._slack)
            yield "the mean Q", q, outside, UNBOUNDED_Q
        for name in self._errors:
            if name in metrics:
                fresh = start + np.arange(len(metrics[name]))[:, None] < FRESH
                yield name, metrics[name], (metrics[name] > LARGEST_ERROR) & ~fresh, LARGE_ERROR


class JsonLines:
    """`metrics.jsonl`, without clock times, so that a repeated run has the same bytes."""

    def __init__(self, path: Path, size: int = 0):
        """Open the file, truncated to the `size` in bytes recorded by a checkpoint."""
        try:
            if size and (not path.exists() or path.stat().st_size < size):
                raise BadInput(f"{path} is shorter than its checkpoint records: it is damaged.")
            self._file = path.open("ab", buffering=0)  # unbuffered, so closing cannot fail
            os.truncate(path, size)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror or error}.") from error

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return os.fstat(self._file.fileno()).st_size

    def log(self, row: Row) -> None:
        """Append a line."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            reason = error.strerror or error
            raise DiskTrouble(f"cannot write {self._file.name}: {reason}.") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Tracker(Protocol):
    """What receives every row of metrics.jsonl: `{"step": …, "kind": "train", "metrics": {…}}`."""

    def log(self, row: Row) -> None:
        """Take a row."""

    def close(self) -> None:
        """The run has ended."""


class Opened(NamedTuple):
    """The methods of a tracker."""

    log: Callable[[Row], None]
    close: Callable[[], None]


def _scalars(row: Row) -> dict[str, float]:
    """One number per metric and member, named `kind/metric/member`."""
    return {
        f"{row['kind']}/{name}/member{k}": value
        for name, values in row["metrics"].items()
        for k, value in enumerate(values)
        if value is not None
    }


def _tensorboard(module: Any, folder: Path, config: Row) -> Opened:
    """Event files in `tensorboard/` of the run folder."""
    writer = module.SummaryWriter(str(folder / "tensorboard"))

    def log(row: Row) -> None:
        for name, value in _scalars(row).items():
            writer.add_scalar(name, value, row["step"])

    return Opened(log, writer.close)


def _wandb(module: Any, folder: Path, config: Row) -> Opened:
    """A W&B run, in the mode chosen in W&B's own settings."""
    run = module.init(project="bfq", dir=str(folder), config=config)
    return Opened(lambda row: run.log(_scalars(row), step=row["step"]), run.finish)


TRACKERS = {"tensorboard": ("tensorboardX", _tensorboard), "wandb": ("wandb", _wandb)}


def _opener(name: str) -> Callable[[Path, Row], Opened]:
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    package, opening = TRACKERS[name]
    try:
        return partial(opening, importlib.import_module(package))
    except ModuleNotFoundError as error:
        raise BadInput(f"{package} is not installed: pip install 'bfq-rl[{name}]'.") from error


def check_trackers(chosen: Sequence[str | Tracker]) -> None:
    """Check that every tracker exists and is installed, before anything starts."""
    for one in chosen:
        if isinstance(one, str):
            _opener(one)
        elif not (callable(getattr(one, "log", None)) and callable(getattr(one, "close", None))):
            raise BadInput(
                f"a tracker is a name, or an object with log(row) and close(), not {one!r}."
            )


def open_trackers(chosen: Sequence[str | Tracker], folder: Path, config: Row) -> list[Tracker]:
    """Open the trackers that are given by name, and those of the user."""
    return [
        _opener(one)(folder, config)
        if isinstance(one, str)
        else Opened(partial(guarded, f"the tracker {one!r}", one.log), one.close)
        for one in chosen
    ]
