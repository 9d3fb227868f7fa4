"""What all of `bfq bench` shares: agents at their presets in, rows of numbers out."""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bfq.cli.words import assignments, show_json
from bfq.errors import BadInput, unknown

if TYPE_CHECKING:
    from rich.table import Table

TASK = "halfcheetah-medium-v2"
HEADINGS = {
    "microseconds_per_update": "µs an update",
    "simulator_steps": "steps",
    "simulator_steps_per_second": "steps a second",
    "simulator_share": "stepping share",
}
MOST_MEMBERS = 10_000
WIDEST = 1000  # characters in a line of a table
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
    from bfq.agents.agent import LARGEST

    for name in names:
        given = getattr(args, name)
        several = given if isinstance(given, list) else [given]
        most = MOST_MEMBERS if name == "members" else LARGEST
        if given is not None and not 1 <= min(several) <= max(several) <= most:
            raise BadInput(f"--{name.replace('_', '-')} must be from 1 to {most:,}.")


def agents_of(args: argparse.Namespace) -> list[str]:
    """The agents that were named."""
    from bfq.agents import agent_names

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
        raise BadInput(f"a measurement has one value of {several}: give one, and measure again for another.")
    wished = {name: values[0] for name, values in given.items()}
    for name in wished:
        if not any(name in base for base in bases.values()):
            raise unknown("hyperparameter", name, {field for base in bases.values() for field in base})
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
            raise BadInput(f"{args.out} is a folder: name the file, such as {args.out / 'rows.json'}.")
        make_folder(args.out.absolute().parent)
    part = args.out.with_name(f"{args.out.name}.part") if args.out else None
    rows = []
    for row in measured:
        rows.append({**row, "versions": versions(), "command": f"bfq {shlex.join(sys.argv[1:])}"})
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
    show(table(told.columns, rows))
    return 0


def show(made: "Table") -> None:
    """Prints it, as wide as its numbers are: where that is wider than the terminal, lines are broken."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    least = Measurement.get(console, console.options.update(width=WIDEST), made).minimum
    console.width = max(console.width, least)
    console.print(made)


def table(columns: tuple[str, ...], rows: list[Row]) -> "Table":
    """One row a measurement."""
    from rich.table import Table

    look: dict[str, Any] = {"box": None, "pad_edge": False, "collapse_padding": True}
    made = Table(header_style="bold", title=rows[0]["device"], **look)
    for name in columns:
        # Where the terminal is narrow, headings are wrapped; a number is never cut.
        least = max(len(_cell(name, row[name])) for row in rows)
        heading = HEADINGS.get(name, name.replace("_", " "))
        made.add_column(heading, justify="left" if name == "agent" else "right", min_width=least)
    for row in rows:
        made.add_row(*(_cell(name, row[name]) for name in columns))
    return made


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name.startswith("share") or name.endswith("_share"):
        return f"{value:.1%}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
