"""The training loop: chunks of updates, with logging, evaluation, checkpoints and signals between them."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.errors import say
from bfq.progress import Reporter
from bfq.run import Numbers
from bfq.training.checkpoint import (
    Checkpoint,
    MetricSums,
    Position,
    latest_checkpoint,
    save_checkpoint,
)
from bfq.training.monitoring import Diverged, Health, JsonLines, Tracker
from bfq.training.population import Feed, Population, initial_states
from bfq.training.program import Program

Evaluate = Callable[[Any, int], dict[str, Numbers]]


class LoopOptions(NamedTuple):
    """The length of a run, and when to log, to evaluate and to save a checkpoint."""

    steps: int
    chunk: int  # updates in one compiled call
    log_every: int
    checkpoint_every: int
    eval_at: tuple[int, ...]  # updates after which to evaluate, besides the last
    stop_on_divergence: bool


def loop_options(
    steps: int, chunk: int, evaluations: int | Sequence[int], stop_on_divergence: bool = True
) -> LoopOptions:
    """About 100 log rows, 20 checkpoints and the requested evaluations, all at ends of chunks."""
    chunk = min(chunk, steps)

    def every(times: int) -> int:
        return max(chunk, -(-steps // max(times, 1) // chunk) * chunk)

    if isinstance(evaluations, int):
        between = every(evaluations)
        evaluations = range(between, steps + 1, between) if evaluations else ()
    eval_at = dict.fromkeys(min(-(-step // chunk) * chunk, steps) for step in evaluations)
    return LoopOptions(steps, chunk, every(100), every(20), tuple(eval_at), stop_on_divergence)


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
    ):
        self._population, self._feed, self._options = population, feed, options
        self._checkpoints, self._health, self._evaluate = folder / "checkpoints", health, evaluate
        self._trackers, self._warned = trackers, False
        self._start = self._restore()
        position = self._start.position
        self._sums, self._clock = position.means, position.clock
        self._lines = JsonLines(folder / "metrics.jsonl", position.metrics_bytes)

    @property
    def step(self) -> int:
        """Updates done by earlier processes."""
        return self._start.step

    @property
    def _position(self) -> Position:
        return Position(self._lines.size, self._sums, self._clock)

    def _restore(self) -> Checkpoint:
        shapes = jax.eval_shape(lambda: initial_states(self._population, self._feed.spec))
        found = latest_checkpoint(self._checkpoints, shapes)
        if found is None:
            return Checkpoint(0, initial_states(self._population, self._feed.spec), Position())
        return found

    def run(self, reporter: Reporter, stop: Callable[[], int]) -> Checkpoint:
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
                    save_checkpoint(self._checkpoints, step, states, self._position)
                    if number := stop():  # a signal may arrive during the save
                        raise Stopped(number, step)
            return Checkpoint(step, states, self._position)
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
                say(f"{error} The run continues; further divergence is not reported.")
            self._warned = True

    def _record(
        self, step: int, states: Any, metrics: dict[str, npt.NDArray[Any]], reporter: Reporter
    ) -> None:
        self._sums = self._sums.add(metrics)
        reporter.show(step, {name: float(values[-1].mean()) for name, values in metrics.items()})
        last = step == self._options.steps
        if last or step % self._options.log_every == 0:
            self._log({"step": step, "kind": "train", "metrics": self._sums.means})
            self._sums = MetricSums()
        if self._evaluate and (last or step in self._options.eval_at):
            self._log({"step": step, "kind": "evaluation", "metrics": self._evaluate(states, step)})

    def _log(self, row: dict[str, Any]) -> None:
        for tracker in (self._lines, *self._trackers):
            tracker.log(row)
