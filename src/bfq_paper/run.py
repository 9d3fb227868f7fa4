"""Run an experiment: train, time or sample whatever its result file does not have yet.

Several processes may run the same experiment: each takes the parts that no other process has locked.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from filelock import Timeout

import bfq
from bfq import BadInput
from bfq_paper.cells import Cell, Results, add_results, lock, results_in
from bfq_paper.experiments import Experiment
from bfq_paper.figures import TOY, frames_file, is_png
from bfq_paper.merge import draw
from bfq_paper.parts import ExperimentPart, Training, parts_of
from bfq_paper.sources import Source

RUNS = Path("runs")
PATIENCE_S = 5.0  # between two attempts to take a part that another process has locked


@dataclass
class Plan:
    """What `bfq reproduce` will do for one experiment."""

    experiment: Experiment
    parts: list[ExperimentPart]
    sources: list[Source]
    results: Results
    again: bool = False  # also what only other machines have run

    def state(self, part: ExperimentPart) -> str:
        """finished, begun or not begun."""
        folder = RUNS / part.folder if part.folder else None
        if self.again or not part.has(self.results):
            begun = folder is not None and folder.exists()
            return "begun" if begun else "not begun"
        return "finished"

    def describe(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.heading,
            "sources": [source._asdict() for source in self.sources],
            "parts": [
                {"row": p.row, "name": p.name, "size": p.size, "state": self.state(p)}
                for p in self.parts
            ],
        }

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        yield self.experiment.heading
        for source in self.sources:
            yield f"  {source.words}"
        for part in self.parts:
            yield f"    {part.row}, {part.name}: {part.size}, {self.state(part)}"


def make_plan(experiment: Experiment, out: Path, again: bool = False) -> Plan:
    """The parts of an experiment and what its results have already."""
    parts, sources = parts_of(experiment)
    return Plan(experiment, parts, sources, results_in(out, experiment), again)


def reproduce(
    plan: Plan, out: Path, command: str, say: Callable[[str], None], quiet: bool = False
) -> list[str]:
    """Run all unfinished parts, store their cells after each, and draw the page; return failures.

    A part that another process has locked is tried again after the others.
    """
    lock(out / plan.experiment.folder)  # refuse an unwritable folder before the training
    began, failures = time.monotonic(), []
    waiting = [part for part in plan.parts if plan.state(part) != "finished"]
    while waiting:
        later = []
        for part in waiting:
            place = f"{plan.experiment.name}: {part.row}, {part.name}"
            try:
                with _held(part) as folder:
                    if not plan.again and part.has(results_in(out, plan.experiment)):
                        continue  # another process has finished it
                    say(f"{place}: {part.size}")
                    cells = part.run(folder, quiet)
                    _copy_pictures(cells, folder, out / plan.experiment.folder)
            except Timeout:
                later.append(part)
                continue
            except (BadInput, MemoryError, RuntimeError) as error:  # XLA's errors are RuntimeErrors
                failures.append(f"{place} failed: {' '.join(str(error).split())}")
                say(failures[-1])
                continue
            add_results(out, _with_command(plan, command, began), cells)
            failures += [f"{place}, {cell.column}: {cell.why}" for cell in cells if cell.why]
        if len(later) == len(waiting):
            time.sleep(PATIENCE_S)
        waiting = later
    add_results(out, _with_command(plan, command, began), [])
    with lock(out / plan.experiment.folder):
        draw(results_in(out, plan.experiment), out)
    return failures


@contextmanager
def _held(part: ExperimentPart) -> Iterator[Path]:
    """The run folder of a part, locked; Timeout if another process has it."""
    if not part.folder:
        assert isinstance(part, Training)
        bfq.load_dataset(part.config.task)  # generates it
    with lock(RUNS / ".locks" / part.folder, timeout=0):
        yield RUNS / part.folder


def _with_command(plan: Plan, command: str, began: float) -> Results:
    """Empty results with the command that is running."""
    device = jax.devices()[0].device_kind
    seconds = time.monotonic() - began
    call = {"command": command, "device": device, "versions": bfq.versions(), "seconds": seconds}
    return Results(plan.experiment, commands=(call,))


def _copy_pictures(cells: Sequence[Cell], run: Path, folder: Path) -> None:
    """Copy pictures that only the run can draw: frames of its first seed, the checkerboard."""
    for cell in cells[:1]:
        for name, target in (("frames.png", frames_file(cell)), (TOY, TOY)):
            if is_png(run / name):
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(run / name, folder / target)


@contextmanager
def helpers(count: int, words: Sequence[str], logs: Path) -> Iterator[None]:
    """Run the same command in more processes; they save and stop if this one is stopped."""
    if count:
        logs.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    children = []
    for k in range(count):
        with (logs / f"{os.getpid()}-{k + 1}.log").open("wb") as log:
            command = [sys.executable, "-P", "-m", "bfq.cli.main", *words, "--jobs", "1"]
            children.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
    try:
        yield
    except BaseException:  # Ctrl-C too: the helpers stop with this process
        for child in children:
            child.terminate()
        raise
    finally:
        for child in children:
            child.wait()
