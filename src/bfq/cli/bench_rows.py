"""What all of `bfq bench` shares: agents at their presets in, rows of numbers out."""

import argparse
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bfq.cli.words import assignments, show_json
from bfq.errors import BadInput, counted, unknown

TASK = "halfcheetah-medium-v2"
HEADINGS = {
    "microseconds_per_update": "µs an update",
    "simulator_steps": "steps",
    "simulator_steps_per_second": "steps a second",
    "simulator_share": "stepping share",
}
COUNTS = {"members": "member", "transitions": "transition", "episodes": "episode", "candidates": "candidate",
          "flow_steps": "flow step", "sampling_steps": "sampling step"}  # fmt: skip
GIVEN = (*COUNTS, "precision", "batch", "width", "depth")  # known before anything is measured
MOST_MEMBERS = 10_000
Row = dict[str, Any]


class Measure(NamedTuple):
    """How one kind of measurement is told."""

    columns: tuple[str, ...]  # of its table
    line: Callable[[Row], str]  # said as soon as a row is there


def agent_words(parser: argparse.ArgumentParser) -> None:
    """Which agents are measured, and at which values."""
    add = parser.add_argument
    add("--agent", default="bfq", metavar="NAME[,NAME…]", help="methods, or all; default bfq")
    add("--task", default=TASK, metavar="NAME", help=f"whose presets are used; default {TASK}")
    add("--set", action="append", default=[], metavar="NAME=VALUE",
        help="a hyperparameter, where the agent has it")  # fmt: skip


def row_words(parser: argparse.ArgumentParser) -> None:
    """Where the rows go."""
    add = parser.add_argument
    add("--out", type=Path, metavar="FILE",
        help="also write the rows to this JSON file; until all are there, to FILE.part")  # fmt: skip
    add("--json", action="store_true", help="print the rows as JSON")


def check_counts(args: argparse.Namespace, *names: str) -> None:
    """Refuses counts and sizes below one or beyond all measure; what was not given passes."""
    from bfq.agents import LARGEST

    for name in names:
        given = getattr(args, name)
        several = given if isinstance(given, list) else [given]
        most = MOST_MEMBERS if name == "members" else LARGEST
        if given is not None and not 1 <= min(several) <= max(several) <= most:
            raise BadInput(f"--{name.replace('_', '-')} must be from 1 to {most:,}.")


def agents_of(args: argparse.Namespace) -> list[str]:
    """The agents that were named."""
    from bfq.agents.registry import agent_names

    return agent_names() if args.agent == "all" else args.agent.split(",")


def bases_of(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Every hyperparameter of every agent, at its preset for the task."""
    from bfq.settings import compose

    return {name: compose(args.task, name).config for name in agents_of(args)}


def wished_of(args: argparse.Namespace, bases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The hyperparameters that were set, each one that some agent has."""
    given = assignments(args.set)
    several = next((name for name, values in given.items() if len(values) > 1), None)
    if several:
        raise BadInput(
            f"a measurement has one value of {several}: give one, and measure again for another."
        )
    wished = {name: values[0] for name, values in given.items()}
    for name in wished:
        if not any(name in base for base in bases.values()):
            raise unknown(
                "hyperparameter", name, {field for base in bases.values() for field in base}
            )
    return wished


def measure(
    args: argparse.Namespace,
    told: Measure,
    measured: Iterable[Row],
    done: Callable[[list[Row]], None] | None = None,
) -> int:
    """Says and writes each row when it is there, and shows them all at the end.

    What a file held before stays until all rows are there: a measurement may be stopped.
    """
    from bfq.files import make_folder, write_json
    from bfq.provenance import versions

    if args.out:
        if args.out.is_dir():
            raise BadInput(
                f"{args.out} is a folder: name the file, such as {args.out / 'rows.json'}."
            )
        make_folder(args.out.absolute().parent)
    part = args.out.with_name(f"{args.out.name}.part") if args.out else None
    rows = []
    for row in measured:
        rows.append({**row, "versions": versions(), "command": f"bfq {shlex.join(args.words)}"})
        if not args.json:
            print(told.line(row), flush=True)
        if part:
            write_json(part, rows)
    if part:
        part.replace(args.out)
    if done:
        done(rows)
    if args.json:
        show_json(rows)
        return 0
    print(table(told.columns, rows, shutil.get_terminal_size().columns))
    return 0


def table(columns: tuple[str, ...], rows: list[Row], room: int) -> str:
    """One line a measurement, below the device and the sizes that are the same in all of them.

    Headings are broken between words where there is little room; nothing is ever cut.
    """
    same = [name for name in columns if name in GIVEN and len({row[name] for row in rows}) == 1]
    told = [_in_words(name, rows[0][name]) for name in same if rows[0][name]]
    varied = [name for name in columns if name not in same]
    headings = [HEADINGS.get(name, name.replace("_", " ")) for name in varied]
    cells = [[_cell(name, row[name]) for row in rows] for name in varied]
    lines = _side_by_side([[heading] for heading in headings], cells)
    if len(lines[0]) > room:
        lines = _side_by_side(_broken(headings, cells), cells)
    title = textwrap.wrap(", ".join([rows[0]["device"], *told]), room, break_long_words=False)
    return "\n".join([*title, *lines])


def _broken(headings: list[str], cells: list[list[str]]) -> list[list[str]]:
    """Headings in lines that are no wider than the numbers below, or than their longest word."""
    widths = (
        max(map(len, [*heading.split(), *of])) for heading, of in zip(headings, cells, strict=True)
    )
    lines = [textwrap.wrap(heading, width) for heading, width in zip(headings, widths, strict=True)]
    most = max(map(len, lines))
    return [[""] * (most - len(of)) + of for of in lines]


def _side_by_side(headings: list[list[str]], cells: list[list[str]]) -> list[str]:
    """The columns as lines: the first, names, to the left, and the others, numbers, to the right."""
    columns = [heading + of for heading, of in zip(headings, cells, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    return [
        " ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in zip(*columns, strict=True)
    ]


def _in_words(name: str, value: Any) -> str:
    """`6 members`, `batch 256`, `float32`."""
    if name in COUNTS:
        return counted(value, COUNTS[name])
    return str(value) if name == "precision" else f"{name} {value}"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name.startswith("share") or name.endswith("_share"):
        return f"{value:.1%}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
