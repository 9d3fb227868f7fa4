"""A live bar where someone watches, a line now and then where nobody does."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def _brief(metrics: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in list(metrics.items())[:4])


class Reporter:
    """Shows how far a run is, how fast, how long still, and its losses."""

    def __init__(self, title: str, steps: int, done: int, console: Console):
        self._title, self._steps, self._start, self._console = title, steps, done, console
        self._began, self._said = time.monotonic(), time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=console,
            transient=False,
        )
        self._task = self._bar.add_task(title, total=steps, completed=done, rate="", losses="")

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tells the state after `step` updates."""
        seconds = time.monotonic() - self._began
        rate = (step - self._start) / max(seconds, 1e-9)
        if self._console.is_terminal:
            self._bar.update(self._task, completed=step, rate=f"{rate:.0f} steps/s", losses=_brief(metrics))
        elif time.monotonic() - self._said > 10.0 or step == self._steps:
            self._said = time.monotonic()
            left = (self._steps - step) / max(rate, 1e-9)
            line = f"{self._title}: {step}/{self._steps}  {rate:.0f} steps/s  {left:.0f} s left"
            self._console.print(f"{line}  {_brief(metrics)}", soft_wrap=True, highlight=False)

    def start(self) -> None:
        """Begins the live display."""
        if self._console.is_terminal:
            self._bar.start()

    def stop(self) -> None:
        """Ends the live display."""
        if self._console.is_terminal:
            self._bar.stop()


@contextmanager
def reporting(title: str, steps: int, done: int, quiet: bool = False) -> Iterator[Reporter]:
    """A reporter on standard error for the length of a run."""
    reporter = Reporter(title, steps, done, Console(file=sys.stderr, quiet=quiet))
    reporter.start()
    try:
        yield reporter
    finally:
        reporter.stop()
