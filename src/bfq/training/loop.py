"""The training loop: chunks of updates, with logging, evaluation, checkpoints and signals between them."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.progress import Reporter
from bfq.run import Numbers
from bfq.training.checkpoint import (
    Checkpoint,
    Clock,
    MetricSums,
    Position,
    latest_checkpoint,
    save_checkpoint,
)
from bfq.training.monitoring import Diverged, Health, JsonLines, Tracker
from bfq.training.population import Feed, Population, initial_states
from bfq.training.program import Program

Evaluate = Callable[[Any, int], dict[str, Numbers]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class LoopOptions:
    """The length of a run, and the intervals between logging, evaluations and checkpoints."""

    steps: int
    chunk: int  # updates in one compiled call
    log_every: int
    eval_every: int  # 0: never
    checkpoint_every: int
    eval_at: tuple[int, ...] = ()  # or after these updates
    keep: int = 2  # checkpoints kept
    stop_on_divergence: bool = True

    def evaluates(self, step: int) -> bool:
        """Whether an evaluation is due after this many updates."""
        return step in self.eval_at or (self.eval_every > 0 and step % self.eval_every == 0)


def loop_options(
    steps: int, chunk: int, evaluations: int | Sequence[int], stop_on_divergence: bool = True
) -> LoopOptions:
    """About 100 log rows, 20 checkpoints and the requested evaluations, all at ends of chunks."""
    chunk = min(chunk, steps)

    def every(times: int) -> int:
        return max(chunk, -(-steps // max(times, 1) // chunk) * chunk)

    count, listed = (evaluations, []) if isinstance(evaluations, int) else (0, list(evaluations))
    eval_every = every(count) if count else 0
    eval_at = tuple(min(-(-step // chunk) * chunk, steps) for step in listed)
    return LoopOptions(
        steps, chunk, every(100), eval_every, every(20), eval_at,
        stop_on_divergence=stop_on_divergence,
    )  # fmt: skip


class LoopResult(NamedTuple):
    """The states after the last update, and the time they took."""

    states: Any
    clock: Clock


class Means:
    """Sums of the metrics since the last log row, so that a row is the mean over all its updates."""

    def __init__(self, start: MetricSums | None = None):
        start = start or MetricSums()
        self._count = start.count
        # None becomes NaN.
        self._sums = {name: np.asarray(total, np.float64) for name, total in start.sums.items()}

    def add(self, metrics: dict[str, npt.NDArray[Any]]) -> None:
        """Add the metrics of some more updates, each of shape (updates, members)."""
        self._count += len(next(iter(metrics.values())))
        for name, values in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + values.astype(np.float64).sum(0)

    def take(self) -> dict[str, Numbers]:
        """Return the mean of each member, and start over."""
        means = {name: json_numbers(total / self._count) for name, total in self._sums.items()}
        self._count, self._sums = 0, {}
        return means

    def record(self) -> MetricSums:
        """The sums of the unfinished row, for a checkpoint."""
        sums = {name: json_numbers(total) for name, total in self._sums.items()}
        return MetricSums(self._count, sums)


def json_numbers(values: npt.NDArray[Any]) -> Numbers:
    """Numbers for JSON: None for those that are not finite."""
    return [float(v) if np.isfinite(v) else None for v in values]


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Record the first SIGTERM or Ctrl-C as a request to stop; a second Ctrl-C interrupts at once.

    Yields a function that returns the number of the signal, or 0. A signal that arrives after the last call
    of this function is sent again to the previous handler.
    """
    received: list[int] = []
    seen: list[int] = []

    def requested() -> int:
        seen[:] = received
        return received[0] if received else 0

    def handle(number: int, frame: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    previous = {}
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        previous = {
            number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)
        }
    try:
        yield requested
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if received and not seen:
        signal.raise_signal(received[0])


class Stopped(Exception):
    """The run was asked to stop; its state is saved and it can be resumed."""

    def __init__(self, number: int, step: int):
        super().__init__(f"stopped at update {step}, saved.")
        self.exit_code = 128 + number


class Loop:
    """One run of a population in its folder."""

    def __init__(
        self,
        population: Population,
        feed: Feed,
        options: LoopOptions,
        folder: Path,
        health: Health,
        evaluate: Evaluate | None,
        trackers: list[Tracker],
        say: Say,
    ):
        self._population, self._feed, self._options = population, feed, options
        self._checkpoints, self._health, self._evaluate = folder / "checkpoints", health, evaluate
        self._trackers, self._say, self._warned = trackers, say, False
        self._start = self._restore()
        position = self._start.position
        self._means, self._clock = Means(position.means), position.clock
        self._lines = JsonLines(folder / "metrics.jsonl", position.metrics_bytes)

    @property
    def step(self) -> int:
        """Updates done by earlier processes."""
        return self._start.step

    def _restore(self) -> Checkpoint:
        shapes = jax.eval_shape(lambda: initial_states(self._population, self._feed.spec))
        found = latest_checkpoint(self._checkpoints, shapes, self._say)
        if found is None:
            return Checkpoint(0, initial_states(self._population, self._feed.spec), Position())
        return found

    def run(self, reporter: Reporter, stop: Callable[[], int]) -> LoopResult:
        """Train to the end, or until `stop` returns the number of a signal."""
        step, states, options = self._start.step, self._start.states, self._options
        programs: dict[int, Program] = {}
        try:
            while step < options.steps:
                length = min(options.chunk, options.steps - step)
                rows = self._feed.take(step, length)
                if length not in programs:
                    programs[length] = Program(self._population, length)
                    programs[length].compile(states, rows)
                start = time.monotonic()
                states, chunk = programs[length](states, rows, jnp.int32(step))
                self._prepare(step + length)  # while the device computes
                metrics = {name: np.asarray(values) for name, values in chunk.items()}
                self._clock = self._clock.add(time.monotonic() - start, length)
                self._check_health(metrics, step)
                step += length
                self._record(step, states, metrics, reporter)
                if stop() or step == options.steps or step % options.checkpoint_every == 0:
                    self._save(step, states)
                    if number := stop():  # a signal may arrive during the save
                        raise Stopped(number, step)
            return LoopResult(states, self._clock)
        finally:
            self._lines.close()
            for tracker in self._trackers:
                tracker.close()

    def _prepare(self, step: int) -> None:
        if step < self._options.steps:
            self._feed.prepare(step, min(self._options.chunk, self._options.steps - step))

    def _check_health(self, metrics: dict[str, npt.NDArray[Any]], step: int) -> None:
        try:
            self._health.check(metrics, step)
        except Diverged as error:
            if self._options.stop_on_divergence:
                raise
            if not self._warned:
                self._say(f"{error} The run continues; further divergence is not reported.")
            self._warned = True

    def _record(
        self, step: int, states: Any, metrics: dict[str, npt.NDArray[Any]], reporter: Reporter
    ) -> None:
        self._means.add(metrics)
        reporter.show(step, {name: float(values[-1].mean()) for name, values in metrics.items()})
        last = step == self._options.steps
        if last or step % self._options.log_every == 0:
            self._log({"step": step, "kind": "train", "metrics": self._means.take()})
        if self._evaluate and (last or self._options.evaluates(step)):
            self._log({"step": step, "kind": "evaluation", "metrics": self._evaluate(states, step)})

    def _log(self, row: dict[str, Any]) -> None:
        for tracker in (self._lines, *self._trackers):
            tracker.log(row)

    def _save(self, step: int, states: Any) -> None:
        position = Position(self._lines.size, self._means.record(), self._clock)
        save_checkpoint(self._checkpoints, step, states, position, self._options.keep)
