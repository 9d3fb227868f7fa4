"""How long a run takes as a whole, over all commands that worked on it, and when it ended."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bfq.files import read_json, write_json

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
    path = folder / CLOCK
    found: float | None = read_json(path)["seconds"] if path.exists() else None
    return found


def finished(folder: Path, files: Sequence[str] = ("result.json",)) -> str:
    """When a run ended, in UTC, as its clock says; else when the last of its files was written."""
    path = folder / CLOCK
    ended: str | None = read_json(path).get("ended") if path.exists() else None
    return ended or _told(max((folder / file).stat().st_mtime for file in files))


def _told(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
