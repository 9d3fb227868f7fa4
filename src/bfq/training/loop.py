"""The training loop: chunks of updates, with logging, evaluation, checkpoints and signals between them."""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.errors import say
from bfq.progress import Reporter
from bfq.run import Member, Numbers, read_metrics
from bfq.training.checkpoint import (
    BEST,
    CHECKPOINTS,
    Checkpoint,
    MetricSums,
    Position,
    latest_checkpoint,
    save_checkpoint,
)
from bfq.training.monitoring import Diverged, Health, JsonLines, Tracker
from bfq.training.population import Feed, Population, initial_states
from bfq.training.program import Program

Evaluations = tuple[dict[str, Numbers], dict[str, Numbers]]  # in the environment, of the evaluators
Evaluate = Callable[[Any, int], Evaluations]
Metrics = dict[str, npt.NDArray[Any]]  # of a chunk, (updates, members)


class LoopOptions(NamedTuple):
    """The length of a run, and when to log, to evaluate and to save a checkpoint."""

    steps: int
    chunk: int  # updates in one compiled call
    log_every: int
    checkpoint_every: int
    eval_at: tuple[int, ...]  # updates after which to evaluate, besides the last
    stop_on_divergence: bool
    keep_best: bool  # also the checkpoint with the best mean score, in `best/`


def loop_options(
    steps: int,
    chunk: int,
    evaluations: int | Sequence[int],
    stop_on_divergence: bool = True,
    keep_best: bool = False,
) -> LoopOptions:
    """About 100 log rows, 20 checkpoints and the requested evaluations, all at ends of chunks."""
    chunk = min(chunk, steps)

    def every(times: int) -> int:
        return max(chunk, -(-steps // max(times, 1) // chunk) * chunk)

    if isinstance(evaluations, int):
        between = every(evaluations)
        evaluations = range(between, steps + 1, between) if evaluations else ()
    eval_at = dict.fromkeys(min(-(-step // chunk) * chunk, steps) for step in evaluations)
    rows, saves = every(100), every(20)
    return LoopOptions(steps, chunk, rows, saves, tuple(eval_at), stop_on_divergence, keep_best)


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
        for number in (signal.SIGTERM, signal.SIGINT):
            previous[number] = signal.signal(number, handle)
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


class Progress(NamedTuple):
    """A moment of a run: what every member learned and scored, one number per member."""

    step: int
    steps: int
    members: tuple[Member, ...]
    metrics: dict[str, Numbers]  # means over the updates since the previous moment
    scores: dict[str, Numbers] | None = None  # in the environment, if it was evaluated now
    evaluations: dict[str, Numbers] = {}  # of the evaluators, if they were asked now

    def mean(self, name: str) -> float | None:
        """The mean over the members of a score, an evaluation or a metric; None if there is none now."""
        found = {**self.metrics, **self.evaluations, **(self.scores or {})}
        return finite_mean(found.get(name, ()))


def finite_mean(numbers: Sequence[float | None]) -> float | None:
    """The mean of the numbers that exist; None if there is none."""
    finite = [number for number in numbers if number is not None]
    return sum(finite) / len(finite) if finite else None


def main_score(scores: dict[str, Numbers]) -> float | None:
    """The mean over the members of the score that ranks checkpoints: normalized where there is a reference."""
    return finite_mean(scores.get("normalized") or scores.get("return") or ())


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
        trackers: Sequence[Tracker],
    ):
        self._population, self._feed, self._options = population, feed, options
        self._folder, self._health, self._evaluate = folder, health, evaluate
        self._trackers, self._warned = trackers, False
        self._programs: dict[int, Program] = {}
        fresh = partial(initial_states, population, feed.spec)
        found = latest_checkpoint(folder / CHECKPOINTS, jax.eval_shape(fresh))
        self.step, self._states, position = found or Checkpoint(0, fresh())
        self._saved, self._sums, self._clock = self.step, position.means, position.clock
        self._lines = JsonLines(folder / "metrics.jsonl", position.metrics_bytes)

    def run(
        self, reporter: Reporter, stop: Callable[[], int]
    ) -> Generator[Progress, None, Checkpoint]:
        """Train to the end, or until `stop` returns the number of a signal.

        Yields after every log row and evaluation. Closing it there, or an error between two updates, saves the
        state first.
        """
        try:
            if self._lacks_evaluation():
                yield self._progress({}, self._score())
            while self.step < self._options.steps:
                row = self._record(self._update(), reporter)
                with self._saved_on_failure():
                    found = self._score() if self._is_evaluated() else None
                self._save_when_due(stop)
                if row or found:
                    with self._saved_on_failure():
                        yield self._progress(row, found)
            return self._checkpoint
        finally:
            self._lines.close()
            for tracker in self._trackers:
                tracker.close()

    @property
    def _checkpoint(self) -> Checkpoint:
        position = Position(self._lines.size, self._sums, self._clock)
        return Checkpoint(self.step, self._states, position)

    def _update(self) -> Metrics:
        """Run the next chunk of updates and return its metrics."""
        step, length = self.step, self._length(self.step)
        rows = self._feed.take(step, length, self._states)
        if length not in self._programs:
            self._programs[length] = Program(self._population, length)
            self._programs[length].compile(self._states, rows)
        start = time.monotonic()
        self._states, chunk = self._programs[length](self._states, rows, jnp.int32(step))
        if following := self._length(step + length):
            self._feed.prepare(step + length, following)  # while the device computes
        metrics = {name: np.asarray(values) for name, values in chunk.items()}
        self._clock = self._clock.add(time.monotonic() - start, length)
        self._check_health(metrics, step)
        self.step += length
        return metrics

    def _length(self, step: int) -> int:
        return min(self._options.chunk, self._options.steps - step)

    def _check_health(self, metrics: Metrics, step: int) -> None:
        try:
            self._health.check(metrics, step)
        except Diverged as error:
            if self._options.stop_on_divergence:
                raise
            if not self._warned:
                say(f"{error} The run continues; further divergence is not reported.")
            self._warned = True

    def _record(self, metrics: Metrics, reporter: Reporter) -> dict[str, Numbers]:
        """Add metrics to the next row of the log; return the row when it is written."""
        self._sums = self._sums.add(metrics)
        brief = {name: float(values[-1].mean()) for name, values in metrics.items()}
        reporter.show(self.step, brief)
        if self.step < self._options.steps and self.step % self._options.log_every:
            return {}
        row, self._sums = self._sums.means, MetricSums()
        self._log("train", row)
        return row

    def _is_evaluated(self) -> bool:
        last = self.step == self._options.steps
        return self._evaluate is not None and (last or self.step in self._options.eval_at)

    def _lacks_evaluation(self) -> bool:
        """Whether an earlier process saved this step because its evaluation failed."""
        if not (self.step and self._is_evaluated()):
            return False
        rows = read_metrics(self._folder, len(self._population.members))
        return all(row.step < self.step or row.kind == "train" for row in rows)

    def _score(self) -> Evaluations:
        """Evaluate, and log what was found."""
        assert self._evaluate is not None
        found = self._evaluate(self._states, self.step)
        if self._options.keep_best:
            self._keep_if_best(main_score(found[0]))
        for kind, numbers in zip(("evaluation", "evaluator"), found, strict=True):
            if numbers:
                self._log(kind, numbers)
        return found

    def _keep_if_best(self, score: float | None) -> None:
        rows = read_metrics(self._folder, len(self._population.members))
        earlier = [main_score(row.metrics) for row in rows if row.kind == "evaluation"]
        best = max((one for one in earlier if one is not None), default=-math.inf)
        if score is not None and score > best:
            save_checkpoint(self._folder / BEST, *self._checkpoint, keep=1)

    def _progress(self, row: dict[str, Numbers], found: Evaluations | None) -> Progress:
        scores, evaluations = found or ({}, {})
        steps, members = self._options.steps, self._population.members
        return Progress(self.step, steps, members, row, scores or None, evaluations)

    def _save_when_due(self, stop: Callable[[], int]) -> None:
        last = self.step == self._options.steps
        if stop() or last or self.step % self._options.checkpoint_every == 0:
            self._save()
            if number := stop():  # a signal may arrive during the save
                raise Stopped(number, self.step)

    @contextlib.contextmanager
    def _saved_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._saved < self.step:
                self._save()
            raise

    def _save(self) -> None:
        save_checkpoint(self._folder / CHECKPOINTS, *self._checkpoint)
        self._saved = self.step

    def _log(self, kind: str, numbers: dict[str, Numbers]) -> None:
        for tracker in (self._lines, *self._trackers):
            tracker.log({"step": self.step, "kind": kind, "metrics": numbers})
