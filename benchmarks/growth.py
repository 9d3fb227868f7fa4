"""Measure how the time per update grows with members, batch, width, data and inner steps, one at a time.

    python benchmarks/growth.py --prepare 10 --precision bfloat16   on a GPU
    python benchmarks/growth.py --quick --out growth.json           small sizes, for a CPU

The base has the paper's sizes: 17 observations, 6 actions, batch 256, all networks 4 × 256, a million
transitions, one member. Rows are written one by one, so an interrupted run keeps its results, and rows that
are already in the file are not measured again. The plot is written beside the file.

A program takes much longer to compile than to time. With --prepare N, N processes first compile all programs
into JAX's cache, where this process finds them (`from_cache` in the rows).
"""

import argparse
import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bfq.agents.contract import Spec
from bfq.agents.registry import get_agent
from bfq.bench.measure import (
    Sizes,
    compile_population,
    describe_update,
    random_transitions,
    resize,
    time_update,
)
from bfq.cli.words import Parser, exit_code
from bfq.errors import BadInput
from bfq.files import make_folder, write_bytes, write_json
from bfq.reports.sweep_figures import growth_figure
from bfq.run import versions
from bfq.settings import compose
from bfq.training.compilation import CONFIG, enable_compilation_cache

TASK = "halfcheetah-medium-v2"
FOREVER = 10.0**6  # seconds
PREPARING = 0.6  # the largest share of the budget for compilation
Row = dict[str, Any]


class Point(NamedTuple):
    """An agent and the sizes at which it is measured."""

    agent: str
    members: int
    batch: int
    width: int
    transitions: int
    depth: int
    chunk: int
    repeats: int
    flow_steps: int | None = None  # None: as in the agent's preset
    precision: str = "float32"

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            self.members, self.transitions, Spec(17, 6), self.chunk, self.repeats, self.precision
        )

    def method(self) -> tuple[Any, Any]:
        """The agent and its configuration."""
        agent, base = get_agent(self.agent), compose(TASK, self.agent).config
        depths = {"depth": self.depth, "critic_depth": self.depth}
        return agent, resize(agent, base, depths, self.width, self.batch, self.flow_steps)

    def identity(self) -> Row:
        """The fields that identify this point in a row of the file, on this device."""
        return describe_update(*self.method(), self.sizes)

    def __str__(self) -> str:
        steps = f", {self.flow_steps} inner steps" if self.flow_steps else ""
        sizes = f"batch {self.batch}, width {self.width}, {self.transitions:,} transitions"
        return f"{self.agent}, {self.members} members, {sizes}{steps}"


BASE = Point("bfq", 1, 256, 256, 1_000_000, depth=4, chunk=200, repeats=5)
AXES: dict[str, tuple[int, ...]] = {
    "members": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "batch": (64, 128, 256, 512, 1024, 2048, 4096),
    "width": (64, 128, 256, 512, 1024),
    "transitions": (10**4, 10**5, 10**6, 10**7),
    "flow_steps": (5, 10, 20, 50),
}
QUICK_BASE = Point("bfq", 1, 32, 16, 1000, depth=1, chunk=10, repeats=3)
QUICK_AXES: dict[str, tuple[int, ...]] = {
    "members": (1, 2),
    "batch": (32, 128),
    "width": (16, 64),
    "transitions": (1000, 10_000),
    "flow_steps": (2, 5),
}
IN_STEPS = ("fql", "dql")  # agents whose inner steps are varied


def points(axes: Sequence[str], agents: Sequence[str], precision: str, quick: bool) -> list[Point]:
    """The base, then the points along each axis, without duplicates."""
    base, values = (QUICK_BASE, QUICK_AXES) if quick else (BASE, AXES)
    base = base._replace(precision=precision)
    bases = [base._replace(agent=agent) for agent in agents]
    found = list(bases)
    for axis in axes:
        varied = (
            bases if axis != "flow_steps" else [base._replace(agent=agent) for agent in IN_STEPS]
        )
        found += [one._replace(**{axis: value}) for one in varied for value in values[axis]]
    return list(dict.fromkeys(found))


def compile_point(point: Point) -> float:
    """Compile a program into the cache, in a process of its own."""
    enable_compilation_cache()
    CONFIG.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    (agent, config), sizes = point.method(), point.sizes
    narrow = random_transitions(sizes._replace(transitions=1), agent.needs)
    shape = (sizes.transitions, narrow.packed.shape[1])  # the transitions themselves are not needed
    rows: Any = jax.eval_shape(lambda: dataclasses.replace(narrow, packed=jnp.zeros(shape)))
    config = dataclasses.replace(config, steps=sizes.chunk)  # as `time_update` does
    return compile_population(agent, config, rows, sizes).seconds


def prepare(wanted: Sequence[Point], processes: int, until: float) -> None:
    """Compile the programs of all points in parallel; none starts after `until`."""
    waiting, running = list(wanted), {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        while running or (waiting and time.monotonic() < until):
            while waiting and len(running) < processes and time.monotonic() < until:
                point = waiting.pop(0)
                running[pool.submit(compile_point, point)] = point
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                point, error = running.pop(future), future.exception()
                # An error occurs again, and is printed, when the point is timed.
                how = short(error) if error else f"{future.result():.1f} s"
                print(f"compiled: {how}: {point}", flush=True)
                if isinstance(error, BrokenExecutor):
                    return


def measured(wanted: Sequence[Point], until: float) -> Iterator[tuple[Point, Row | str]]:
    """Yield a row per point, or why there is none."""
    data: dict[Any, Any] = {}
    for point in wanted:
        if time.monotonic() >= until:
            yield point, "out of time"
            continue
        agent, config = point.method()
        need = (point.transitions, agent.needs)
        if need not in data:
            data = {
                need: random_transitions(point.sizes, agent.needs)
            }  # only one at a time: ten million rows are large
        try:
            yield point, time_update(agent, config, data[need], point.sizes)
        except Exception as error:  # noqa: BLE001 - probably out of memory, and the next point may fit
            yield point, short(error)


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


def main(words: Sequence[str] | None = None) -> int:
    return exit_code(lambda: grow(arguments(words)))


def grow(args: argparse.Namespace) -> int:
    """Measure the points that are not in the file; return 1 if one failed."""
    os.environ.setdefault(
        "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
    )  # several processes share the device
    start, until = time.monotonic(), time.monotonic() + args.budget_seconds
    enable_compilation_cache()
    rows: list[Row] = json.loads(args.out.read_text()) if args.out.exists() else []
    valid = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not valid or not all("microseconds_per_update" in row for row in rows):
        raise BadInput(f"{args.out} is not a file of this script: choose another --out.")
    wanted = {
        point: point.identity()
        for point in points(args.axes, args.agents, args.precision, args.quick)
    }
    make_folder(args.out.absolute().parent)
    missing = [
        point
        for point, identity in wanted.items()
        if not any(matches(row, identity) for row in rows)
    ]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} rows are in {args.out}", flush=True)
    if args.prepare and missing:
        prepare(missing, args.prepare, start + PREPARING * args.budget_seconds)
    failed = 0
    for point, found in measured(missing, until):
        if isinstance(found, str):
            print(f"failed: {point}: {found}", flush=True)
            failed += 1
            continue
        rows.append({**found, "versions": versions(), "command": shlex.join(["python", *sys.argv])})
        write_json(args.out, rows)
        print(f"{found['microseconds_per_update']:10,.1f} µs: {point}", flush=True)
    plot(rows, list(wanted.values()), args.out.with_suffix(".png"))
    return 1 if failed else 0


def matches(row: Row, identity: Row) -> bool:
    return all(row.get(name) == value for name, value in identity.items())


def plot(rows: Sequence[Row], wanted: Sequence[Row], path: Path) -> None:
    """Plot the requested rows, including those of earlier runs."""
    picture = growth_figure([row for one in wanted for row in rows if matches(row, one)])
    if picture:
        write_bytes(path, picture)
        print(f"plot: {path}")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "--axes",
        default=",".join(AXES),
        metavar="NAME,…",
        help=f"of {', '.join(AXES)}; default all",
    )
    add(
        "--agent",
        default="bfq",
        metavar="NAME,…",
        help="along all axes but flow_steps; default bfq",
    )
    add(
        "--budget-seconds",
        type=float,
        default=FOREVER,
        metavar="S",
        help="start no row after S seconds",
    )
    add(
        "--prepare",
        type=int,
        default=0,
        metavar="N",
        help="processes that compile in parallel first",
    )
    add("--precision", default="float32", choices=("float32", "bfloat16"), help="of products")
    add("--quick", action="store_true", help="small sizes")
    add("--out", type=Path, default=Path("benchmarks/growth.json"), metavar="FILE.json")
    args = parser.parse_args(words)
    args.axes, args.agents = args.axes.split(","), args.agent.split(",")
    for axis in args.axes:
        if axis not in AXES:
            parser.error(f"--axes must be among {', '.join(AXES)}, not {axis!r}")
    if args.out.suffix != ".json":
        parser.error("--out must end in .json")
    if args.prepare < 0 or not args.budget_seconds > 0:
        parser.error("--prepare must be 0 or more and --budget-seconds more than 0")
    return args


if __name__ == "__main__":
    sys.exit(main())
