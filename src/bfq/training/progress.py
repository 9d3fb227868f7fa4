"""A live bar where someone watches, a line now and then where nobody does."""

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

PATIENCE_S = 2.0  # what is over sooner needs no line in a file


def _brief(metrics: Mapping[str, float]) -> str:
    losses = {name: value for name, value in metrics.items() if name.endswith("loss")} or metrics
    return "  ".join(f"{name} {value:.4g}" for name, value in list(losses.items())[:4])


def _long(seconds: float) -> str:
    """`90 s`, `15 min`, `11 h 46 min`."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


class Reporter:
    """Shows how far a run is, how fast, how long still, and its losses.

    The speed is measured from the first report on, when compiling is over.
    """

    def __init__(
        self,
        title: str,
        steps: int,
        done: int,
        console: Console,
        unit: str = "steps",
        wait: str = "compiling",
    ):
        self._title, self._steps, self._console, self._unit = title, steps, console, unit
        self._first: tuple[float, int] | None = None
        self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[losses]}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task(title, total=steps, completed=done, rate=wait, losses="")

    def waiting(self, words: str) -> None:
        """Tells what is done while no update is."""
        if self._console.is_terminal:
            self._bar.update(self._task, rate=words)
        else:
            self._console.print(f"{self._title}: {words} …", soft_wrap=True, highlight=False)

    def resume(self, done: int) -> None:
        """Begins the display at an update that an earlier call has reached."""
        if done and not self._console.is_terminal:
            line = f"{self._title}: going on from {done}/{self._steps}"
            self._console.print(line, soft_wrap=True, highlight=False)
        self._bar.update(self._task, completed=done)

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tells the state after `step` updates."""
        now = time.monotonic()
        self._first = self._first or (now, step)
        rate = (step - self._first[1]) / max(now - self._first[0], 1e-9)
        left = (
            f"{rate:.0f} {self._unit}/s  {_long((self._steps - step) / rate)} left"
            if rate > 0
            else "…"
        )
        if self._console.is_terminal:
            self._bar.update(self._task, completed=step, rate=left, losses=_brief(metrics))
        elif now - self._said > 10.0 or step == self._steps:
            self._said = now
            line = f"{self._title}: {step}/{self._steps}  {left}  {_brief(metrics)}".rstrip()
            self._console.print(line, soft_wrap=True, highlight=False)

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
    with _shown(Reporter(title, steps, done, Console(file=sys.stderr, quiet=quiet))) as reporter:
        yield reporter


@contextmanager
def announced(words: str, quiet: bool = False) -> Iterator[None]:
    """Tells what takes a while: at once, and only while it does, where someone watches.

    Elsewhere it is a line, of what does take long: what fails at once is told in one sentence.
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
    """A reporter on standard error while data, or a film, is made; it is told how much there is."""
    console = Console(file=sys.stderr)
    with _shown(Reporter(title, total, 0, console, unit=unit, wait="starting")) as reporter:
        yield lambda done: reporter.show(done, {})


@contextmanager
def byte_bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error while a file is fetched, told the bytes there are and, if known, all."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _shown(reporter: Reporter) -> Iterator[Reporter]:
    reporter.start()
    try:
        yield reporter
    finally:
        reporter.stop()
