"""Where numbers go: JSON lines always; TensorBoard and W&B when asked for, never by default."""

import errno
import importlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bfq.errors import BadInput, DiskTrouble, unknown

Row = dict[str, Any]


class Tracker(Protocol):
    """Takes rows of numbers, one list entry a member."""

    def log(self, row: Row) -> None:
        """Records a row."""
        ...

    def close(self) -> None:
        """Flushes what is held back."""
        ...


class JsonLines:
    """`metrics.jsonl`: no clock times in it, so that a repeated run has the same bytes."""

    def __init__(self, path: Path, size: int = 0):
        """Opens the file, cut to the `size` in bytes that a checkpoint remembers."""
        try:
            if size and (not path.exists() or path.stat().st_size < size):
                raise BadInput(
                    f"{path} is shorter than the last checkpoint remembers: it was damaged."
                )
            self._file = path.open(
                "ab", buffering=0
            )  # nothing is held back, so closing cannot fail
            os.truncate(path, size)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror or error}.") from error

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return os.fstat(self._file.fileno()).st_size

    def log(self, row: Row) -> None:
        """Appends a line."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise DiskTrouble(
                f"cannot write {self._file.name}: {error.strerror or error}."
            ) from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _scalars(row: Row) -> list[tuple[str, float]]:
    """`kind/metric/member` and its value, for trackers that draw one curve a name."""
    return [
        (f"{row['kind']}/{name}/member{k}", value)
        for name, values in row["metrics"].items()
        for k, value in enumerate(values)
        if value is not None
    ]


class TensorBoard:
    """Event files in `tensorboard/` of the run folder."""

    def __init__(self, folder: Path, config: Row):
        self._writer = _needs(MODULES["tensorboard"], "tensorboard").SummaryWriter(
            str(folder / "tensorboard")
        )

    def log(self, row: Row) -> None:
        """Writes one scalar a metric and member."""
        for name, value in _scalars(row):
            self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Flushes the event file."""
        self._writer.close()


class WeightsAndBiases:
    """A W&B run, in whatever mode W&B is set to."""

    def __init__(self, folder: Path, config: Row):
        self._run = _needs(MODULES["wandb"], "wandb").init(
            project="bfq", dir=str(folder), config=config
        )

    def log(self, row: Row) -> None:
        """Sends one scalar a metric and member."""
        self._run.log(dict(_scalars(row)), step=row["step"])

    def close(self) -> None:
        """Ends the W&B run."""
        self._run.finish()


def _needs(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadInput(f"{module} is not installed: pip install 'bfq-rl[{extra}]'.") from error


MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
TRACKERS: dict[str, Callable[[Path, Row], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuses a tracker that does not exist or is not installed, before anything is begun."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        _needs(MODULES[name], name)


def open_trackers(names: Sequence[str], folder: Path, config: Row) -> list[Tracker]:
    """The trackers asked for, by name."""
    check_trackers(names)
    return [TRACKERS[name](folder, config) for name in names]
