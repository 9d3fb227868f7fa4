"""Progress on standard error: a live bar in a terminal, and a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TransferSpeedColumn,
)
from rich.table import Column

PATIENCE_S = 2.0  # shorter work prints no line to a file


def _brief(metrics: Mapping[str, float]) -> str:
    losses = {name: value for name, value in metrics.items() if name.endswith("loss")} or metrics
    return "  ".join(f"{name} {value:.4g}" for name, value in list(losses.items())[:4])


def _duration(seconds: float) -> str:
    """`90 s`, `15 min`, `11 h 46 min`."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


class Reporter:
    """Shows a run's progress: a live bar in a terminal, otherwise a line now and then.

    The speed is measured from the first report on, when compilation is over.
    """

    def __init__(self, title: str, steps: int, console: Console, unit: str = "steps"):
        self._title, self._steps, self._console, self._unit = title, steps, console, unit
        self._first: tuple[float, int] | None = None
        self._printed = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[losses]}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            expand=True,
            disable=not console.is_terminal,
        )
        self._task = self.bar.add_task(title, total=steps, rate="starting", losses="")

    def _line(self, text: str) -> None:
        if not self._console.is_terminal:
            line = f"{self._title}: {text}".rstrip()
            self._console.print(line, soft_wrap=True, highlight=False)

    def waiting(self, words: str) -> None:
        """Show what happens while no updates run."""
        self.bar.update(self._task, rate=words)
        self._line(f"{words} …")

    def resume(self, done: int) -> None:
        """Start the display at the update that an earlier process reached."""
        self.bar.update(self._task, completed=done)
        if done:
            self._line(f"resuming at {done}/{self._steps}")

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the state after `step` updates."""
        now = time.monotonic()
        self._first = self._first or (now, step)
        rate = (step - self._first[1]) / max(now - self._first[0], 1e-9)
        speed = "…"
        if rate > 0:
            left = _duration((self._steps - step) / rate)
            speed = f"{rate:.0f} {self._unit}/s  {left} left"
        self.bar.update(self._task, completed=step, rate=speed, losses=_brief(metrics))
        if now - self._printed > 10.0 or step == self._steps:
            self._printed = now
            self._line(f"{step}/{self._steps}  {speed}  {_brief(metrics)}")


@contextmanager
def reporting(
    title: str, steps: int, quiet: bool = False, unit: str = "steps"
) -> Iterator[Reporter]:
    """A reporter on standard error for the duration of a run."""
    reporter = Reporter(title, steps, Console(file=sys.stderr, quiet=quiet), unit)
    with reporter.bar:
        yield reporter


@contextmanager
def announced(words: str, quiet: bool = False) -> Iterator[None]:
    """Print what is slow to standard error: in a terminal only while it runs.

    Elsewhere the line appears after PATIENCE_S seconds, so quick failures print one sentence only.
    """
    if quiet:
        yield
    elif sys.stderr.isatty():
        print(f"{words} …", end="\r", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            print("\x1b[2K", end="\r", file=sys.stderr, flush=True)
    else:
        line = Timer(PATIENCE_S, lambda: print(f"{words} …", file=sys.stderr, flush=True))
        line.daemon = True
        line.start()
        try:
            yield
        finally:
            line.cancel()


@contextmanager
def data_bar(title: str, total: int, unit: str = "rows") -> Iterator[Callable[[int], None]]:
    """A bar on standard error while data or a video is generated; call it with the count so far."""
    with reporting(title, total, unit=unit) as reporter:
        yield lambda done: reporter.show(done, {})


@contextmanager
def byte_bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error during a download; call it with the bytes so far and the total, if known."""
    console = Console(file=sys.stderr)
    parts = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*parts, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
