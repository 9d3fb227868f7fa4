"""The loop over chunks of updates. It knows no algorithm and no benchmark by name."""

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
from bfq.training.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
from bfq.training.monitoring import Diverged, Health, JsonLines, Tracker
from bfq.training.population import Feed, Population, initial_states
from bfq.training.program import Program

Evaluate = Callable[[Any, int], dict[str, list[float | None]]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long, and how often what is done."""

    steps: int
    chunk: int  # updates in one compiled call
    log_every: int
    eval_every: int  # 0: never
    checkpoint_every: int
    eval_at: tuple[int, ...] = ()  # or after these updates
    keep: int = 2  # checkpoints kept
    stop_on_divergence: bool = True

    def evaluates(self, step: int) -> bool:
        """Whether an evaluation is due after so many updates."""
        return step in self.eval_at or (self.eval_every > 0 and step % self.eval_every == 0)


def make_plan(
    steps: int, chunk: int, evaluations: int | Sequence[int], stop_on_divergence: bool = True
) -> Plan:
    """About 100 log rows, evaluations as asked for, a checkpoint at each twentieth of the run."""
    chunk = min(chunk, steps)

    def every(times: int) -> int:
        return max(chunk, -(-steps // max(times, 1) // chunk) * chunk)

    count, listed = (evaluations, []) if isinstance(evaluations, int) else (0, list(evaluations))
    eval_every = every(count) if count else 0
    eval_at = tuple(
        min(-(-step // chunk) * chunk, steps) for step in listed
    )  # at the end of a compiled call
    return Plan(
        steps,
        chunk,
        every(100),
        eval_every,
        every(20),
        eval_at,
        stop_on_divergence=stop_on_divergence,
    )


class Clock:
    """Seconds spent in updates, compilation and evaluation left out, over all processes that a run took."""

    def __init__(self, held: dict[str, float] | None = None):
        self.train_seconds = held["train_seconds"] if held else 0.0
        self._steps = held["steps"] if held else 0

    def add(self, seconds: float, steps: int) -> None:
        """Counts some updates."""
        self.train_seconds += seconds
        self._steps += steps

    @property
    def microseconds_per_step(self) -> float:
        """Time of one update of the whole population."""
        return 1e6 * self.train_seconds / self._steps

    def held(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"train_seconds": self.train_seconds, "steps": self._steps}


class Outcome(NamedTuple):
    """What a finished loop hands over."""

    states: Any
    clock: Clock


class Means:
    """Sums of the metrics since the last log row, so that a row is the mean over all its updates."""

    def __init__(self, held: dict[str, Any] | None = None):
        self._count = int(held["count"]) if held else 0
        sums = held["sums"] if held else {}
        self._sums = {
            name: np.asarray(total, np.float64) for name, total in sums.items()
        }  # null becomes NaN

    def add(self, chunk: dict[str, npt.NDArray[Any]]) -> None:
        """Takes the metrics of some more updates."""
        self._count += len(next(iter(chunk.values())))
        for name, values in chunk.items():
            self._sums[name] = self._sums.get(name, 0.0) + values.astype(np.float64).sum(0)

    def take(self) -> dict[str, list[float | None]]:
        """The means a member, and starts anew."""
        means = {name: jsonable(total / self._count) for name, total in self._sums.items()}
        self._count, self._sums = 0, {}
        return means

    def held(self) -> dict[str, Any]:
        """What a checkpoint must keep of the unfinished row."""
        return {
            "count": self._count,
            "sums": {name: jsonable(total) for name, total in self._sums.items()},
        }


def jsonable(values: npt.NDArray[Any]) -> list[float | None]:
    """Numbers as JSON has them: null for what is not finite."""
    return [float(v) if np.isfinite(v) else None for v in values]


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Turns the first SIGTERM or Ctrl-C into a wish to stop; a second Ctrl-C stops at once.

    A wish that nobody asked about before the end is sent again, to what was there before.
    """
    received: list[int] = []
    asked: list[int] = []

    def wish() -> int:
        asked[:] = received
        return received[0] if received else 0

    def note(number: int, frame: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    previous = {}
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        previous = {
            number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)
        }
    try:
        yield wish
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if received and not asked:
        signal.raise_signal(received[0])


class Stopped(Exception):
    """The run was asked to stop, saved its state and can be resumed."""

    def __init__(self, number: int, step: int):
        super().__init__(f"stopped at update {step}, saved.")
        self.exit_code = 128 + number


class Loop:
    """One run of a population in its folder."""

    def __init__(
        self,
        population: Population,
        feed: Feed,
        plan: Plan,
        folder: Path,
        health: Health,
        evaluate: Evaluate | None,
        trackers: list[Tracker],
        say: Say,
    ):
        self._population, self._feed, self._plan = population, feed, plan
        self._checkpoints, self._health, self._evaluate = folder / "checkpoints", health, evaluate
        self._trackers, self._say, self._warned = trackers, say, False
        self._start = self._restore()
        extra = self._start.extra
        self._means = Means(extra["means"]) if extra else Means()
        self._lines = JsonLines(folder / "metrics.jsonl", extra["metrics_bytes"] if extra else 0)
        self._clock = Clock(extra["clock"]) if extra else Clock()

    @property
    def step(self) -> int:
        """Updates done before this call."""
        return self._start.step

    def _restore(self) -> Checkpoint:
        shapes = jax.eval_shape(lambda: initial_states(self._population, self._feed.spec))
        found = latest_checkpoint(self._checkpoints, shapes, self._say)
        if found is None:
            return Checkpoint(0, initial_states(self._population, self._feed.spec), {})
        return found

    def run(self, reporter: Reporter, stop: Callable[[], int]) -> Outcome:
        """Trains to the end, or until asked to stop."""
        step, states, plan = self._start.step, self._start.states, self._plan
        programs: dict[int, Program] = {}
        try:
            while step < plan.steps:
                length = min(plan.chunk, plan.steps - step)
                rows = self._feed.take(step, length)
                if length not in programs:
                    programs[length] = Program(self._population, length)
                    programs[length].compile(states, rows)
                began = time.monotonic()
                states, chunk = programs[length](states, rows, jnp.int32(step))
                self._prepare(step + length)
                metrics = {name: np.asarray(values) for name, values in chunk.items()}
                self._clock.add(time.monotonic() - began, length)
                self._watch(metrics, step)
                step += length
                self._record(step, states, metrics, reporter)
                if stop() or step == plan.steps or step % plan.checkpoint_every == 0:
                    self._save(step, states)
                    if number := stop():  # also what came during the save
                        raise Stopped(number, step)
            return Outcome(states, self._clock)
        finally:
            self._lines.close()
            for tracker in self._trackers:
                tracker.close()

    def _prepare(self, step: int) -> None:
        """While the device computes, what comes next is fetched."""
        if step < self._plan.steps:
            self._feed.prepare(step, min(self._plan.chunk, self._plan.steps - step))

    def _watch(self, metrics: dict[str, npt.NDArray[Any]], step: int) -> None:
        try:
            self._health.check(metrics, step)
        except Diverged as trouble:
            if self._plan.stop_on_divergence:
                raise
            if not self._warned:
                self._say(f"{trouble} Going on, as asked; nothing more is said of it.")
            self._warned = True

    def _record(
        self, step: int, states: Any, metrics: dict[str, npt.NDArray[Any]], reporter: Reporter
    ) -> None:
        self._means.add(metrics)
        reporter.show(step, {name: float(values[-1].mean()) for name, values in metrics.items()})
        last = step == self._plan.steps
        if last or step % self._plan.log_every == 0:
            self._log({"step": step, "kind": "train", "metrics": self._means.take()})
        if self._evaluate and (last or self._plan.evaluates(step)):
            self._log({"step": step, "kind": "evaluation", "metrics": self._evaluate(states, step)})

    def _log(self, row: dict[str, Any]) -> None:
        for tracker in (self._lines, *self._trackers):
            tracker.log(row)

    def _save(self, step: int, states: Any) -> None:
        extra = {
            "metrics_bytes": self._lines.size,
            "means": self._means.held(),
            "clock": self._clock.held(),
        }
        save_checkpoint(self._checkpoints, step, states, extra, self._plan.keep)
