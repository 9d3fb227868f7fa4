"""Monitoring of a run: health checks that stop a diverging run, and trackers of its metrics."""

import errno
import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput, DiskTrouble, unknown

Floats = npt.NDArray[np.floating]
Row = dict[str, Any]
LARGEST_ERROR = 1e4  # noise and actions in [−1, 1] keep squared errors to the order of one
FRESH = 1000  # updates in which a network may still be far off, where observations are large


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
        low, high = min(*rewards, 0.0) * horizon, max(*rewards, 0.0) * horizon
        slack = np.maximum(high - low, 10.0)
        self._bounds = np.stack([low, high])
        self._low, self._high = low - slack, high + slack
        self._members, self._errors = members, errors

    def check(self, metrics: Mapping[str, Floats], start: int) -> None:
        """Raise Diverged for the first defect in the metrics, each of shape (updates, members)."""
        broken = {name: ~np.isfinite(values) for name, values in metrics.items()}
        broken = {name: where for name, where in broken.items() if where.any()}
        if broken:
            name = min(broken, key=lambda name: int(np.argwhere(broken[name])[0][0]))
            step, member = np.argwhere(broken[name])[0]
            raise Diverged(
                f"{name} became {metrics[name][step, member]} {self._at(start + step, member)}: "
                "lower the learning rate or eta, or look for extreme values in the data."
            )
        if "q" in metrics:
            self._check_q(metrics["q"], start)
        for name in self._errors:
            if name in metrics:
                self._check_error(name, metrics[name], start)

    def _at(self, step: int, member: int) -> str:
        return f"at update {step + 1} of member {self._members[member]}"

    def _check_error(self, name: str, error: Floats, start: int) -> None:
        learned = start + np.arange(len(error)) >= FRESH
        outside = (error > LARGEST_ERROR) & learned[:, None]
        if outside.any():
            step, member = np.argwhere(outside)[0]
            raise Diverged(
                f"{name} reached {error[step, member]:.4g} {self._at(start + step, member)}, a squared error "
                "between actions of size one: the policy diverges; lower the learning rate, or use clip_norm "
                "or composition_bound where the agent has them."
            )

    def _check_q(self, q: Floats, start: int) -> None:
        outside = (q < self._low) | (q > self._high)
        if outside.any():
            step, member = np.argwhere(outside)[0]
            bound = self._bounds[int(q[step, member] > self._high[member]), member]
            raise Diverged(
                f"the mean Q reached {q[step, member]:.4g} {self._at(start + step, member)}, while the "
                f"rewards allow no value beyond {bound:.4g}: the critics diverge; lower the learning rate or "
                "eta, or use critics with layer norm."
            )


class Tracker(Protocol):
    """Records rows of metrics, with one list entry per member."""

    def log(self, row: Row) -> None:
        """Record a row."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class JsonLines:
    """`metrics.jsonl`, without clock times, so that a repeated run has the same bytes."""

    def __init__(self, path: Path, size: int = 0):
        """Open the file, truncated to the `size` in bytes recorded by a checkpoint."""
        try:
            if size and (not path.exists() or path.stat().st_size < size):
                raise BadInput(
                    f"{path} is shorter than the last checkpoint records: it is damaged."
                )
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


def _scalars(row: Row) -> list[tuple[str, float]]:
    """`kind/metric/member` with its value, for trackers that plot one curve per name."""
    return [
        (f"{row['kind']}/{name}/member{k}", value)
        for name, values in row["metrics"].items()
        for k, value in enumerate(values)
        if value is not None
    ]


class TensorBoard:
    """Event files in `tensorboard/` of the run folder."""

    def __init__(self, folder: Path, config: Row):
        module = _import_tracker("tensorboard")
        self._writer = module.SummaryWriter(str(folder / "tensorboard"))

    def log(self, row: Row) -> None:
        """Write one scalar per metric and member."""
        for name, value in _scalars(row):
            self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Flush the event file."""
        self._writer.close()


class WeightsAndBiases:
    """A W&B run, in the mode chosen in W&B's own settings."""

    def __init__(self, folder: Path, config: Row):
        module = _import_tracker("wandb")
        self._run = module.init(project="bfq", dir=str(folder), config=config)

    def log(self, row: Row) -> None:
        """Send one scalar per metric and member."""
        self._run.log(dict(_scalars(row)), step=row["step"])

    def close(self) -> None:
        """End the W&B run."""
        self._run.finish()


MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
TRACKERS: dict[str, Callable[[Path, Row], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def _import_tracker(name: str) -> Any:
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    try:
        return importlib.import_module(MODULES[name])
    except ModuleNotFoundError as error:
        raise BadInput(
            f"{MODULES[name]} is not installed: pip install 'bfq-rl[{name}]'."
        ) from error


def check_trackers(names: Sequence[str]) -> None:
    """Check that every tracker exists and is installed, before anything starts."""
    for name in names:
        _import_tracker(name)


def open_trackers(names: Sequence[str], folder: Path, config: Row) -> list[Tracker]:
    """Open the trackers of these names."""
    check_trackers(names)
    return [TRACKERS[name](folder, config) for name in names]
