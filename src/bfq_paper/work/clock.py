"""How long a run takes as a whole, over all commands that worked on it, and when it ended."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

from bfq.files import read_json, write_json
from bfq_paper.results.schema import MAYBE, require

CLOCK = "clock.json"  # in the run folder


@contextmanager
def clocked(folder: Path) -> Iterator[None]:
    """Counts until the run has ended: commands that were stopped add up, a killed one makes it unknown."""
    if (folder / "result.json").exists():
        yield
        return
    fresh = not (folder / CLOCK).exists() and not (folder / "checkpoints").exists()
    before, began = 0.0 if fresh else seconds(folder), time.monotonic()
    write_json(folder / CLOCK, {"seconds": None})  # what stays if this process is killed
    try:
        yield
    finally:
        total = None if before is None else before + time.monotonic() - began
        write_json(folder / CLOCK, {"seconds": total, "ended": _told(time.time())})


def seconds(folder: Path) -> float | None:
    """As far as it is known; a run that was begun otherwise has no clock."""
    found: float | None = _read(folder)["seconds"]
    return found


def finished(folder: Path, files: Sequence[str] = ("result.json",)) -> str:
    """When a run ended, in UTC, as its clock says; else when the last of its files was written."""
    ended: str | None = _read(folder)["ended"]
    return ended or _told(max((folder / file).stat().st_mtime for file in files))


def _read(folder: Path) -> dict[str, Any]:
    """What a run's clock says; one that runs, or that was killed, does not say when it ended."""
    path = folder / CLOCK
    if not path.exists():
        return {"seconds": None, "ended": None}
    told: Any = read_json(path)
    require(told, {"seconds": MAYBE}, str(path))
    found = {"ended": None, **told}
    require(found, {"ended": (str, NoneType)}, str(path))
    return found


def _told(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
