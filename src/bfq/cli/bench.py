"""`bfq bench`: the time of an update and of an action, for any agent and sizes."""

import argparse
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import assignments, numbers, show_json
from bfq.errors import BadInput, unknown

if TYPE_CHECKING:
    from rich.table import Table

TASK = "halfcheetah-medium-v2"
LISTS = ("members", "batch", "width", "transitions")
COLUMNS = {
    "train": ("agent", "members", "batch", "width", "depth", "transitions", "microseconds_per_update",
              "compile_seconds", "share_of_flops", "share_of_bytes"),
    "act": ("agent", "batch", "candidates", "sampling_steps", "batches_per_second"),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add = parser.add_argument
    add("what", choices=("train", "act"), help="train: microseconds an update; act: action batches a second")
    add("--agent", default="bfq", metavar="NAME[,NAME…]", help="methods, or all; default bfq")
    add("--task", default=TASK, metavar="NAME", help=f"whose presets are used; default {TASK}")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a hyperparameter, where the agent has it",
    )
    add("--members", type=numbers, default=[1], metavar="N[,N…]", help="members trained at once")
    add("--batch", type=numbers, metavar="N[,N…]", help="transitions an update; act: actions a call")
    add("--width", type=numbers, metavar="N[,N…]", help="units of every hidden layer")
    add("--transitions", type=numbers, default=[1_000_000], metavar="N[,N…]", help="size of the data set")
    add("--candidates", type=int, default=1, metavar="N", help="act: actions drawn a state")
    add("--sampling-steps", type=numbers, default=[0], metavar="N[,N…]", help="act: network calls an action")
    add("--observations", type=int, default=17, metavar="N", help="numbers in an observation")
    add("--actions", type=int, default=6, metavar="N", help="numbers in an action")
    add("--chunk", type=int, default=500, metavar="N", help="updates in one compiled call; default 500")
    add("--repeats", type=int, default=5, metavar="N", help="calls that are timed; default 5")
    add("--out", type=Path, metavar="FILE", help="also write the rows to this JSON file")
    add("--json", action="store_true", help="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Measures every combination of agents and sizes, one row each."""
    from bfq.files import make_folder, write_json
    from bfq.provenance import versions

    for name in ("observations", "actions", "chunk", "repeats", "candidates", *LISTS):
        given = getattr(args, name)
        if given is not None and min(given if isinstance(given, list) else [given]) < 1:
            raise BadInput(f"--{name} must be at least 1.")
    if args.out:
        make_folder(args.out.absolute().parent)
    rows = []
    for row in _training(args) if args.what == "train" else _acting(args):
        rows.append({**row, "versions": versions(), "command": f"bfq {shlex.join(sys.argv[1:])}"})
        if not args.json:
            print(_line(args.what, row), flush=True)
    if args.out:
        write_json(args.out, rows)
    if args.json:
        show_json(rows)
        return 0
    from rich.console import Console

    Console().print(table(args.what, rows))
    return 0


def _training(args: argparse.Namespace) -> Any:
    from bfq.agents.agent import Spec
    from bfq.bench.updates import Sizes, made_up, time_update

    spec = Spec(args.observations, args.actions)
    for transitions in args.transitions:
        sizes = Sizes(1, transitions, spec, args.chunk, args.repeats)
        for agent, config in _configurations(args):
            rows = made_up(sizes, agent.needs)
            for members in args.members:
                yield time_update(agent, config, rows, sizes._replace(members=members))


def _acting(args: argparse.Namespace) -> Any:
    from bfq.agents.agent import Acting, Spec, check_acting
    from bfq.bench.acting import BATCH, time_acting

    spec = Spec(args.observations, args.actions)
    for agent, config in _configurations(args, batched=False):
        for batch, steps in product(args.batch or [BATCH], args.sampling_steps):
            acting = Acting(candidates=args.candidates, sampling_steps=steps)
            check_acting(agent, acting)
            yield time_acting(agent, config, acting, spec, batch)


def _configurations(args: argparse.Namespace, batched: bool = True) -> Any:
    """Every agent with every width and batch size, at its preset for the task."""
    from bfq.agents import agent_names, get_agent
    from bfq.agents.agent import configure
    from bfq.settings import compose

    names = agent_names() if args.agent == "all" else args.agent.split(",")
    wished = {name: values[0] for name, values in assignments(args.set).items()}
    bases = {name: compose(args.task, name).config for name in names}
    for name in wished:
        if not any(name in base for base in bases.values()):
            raise unknown("hyperparameter", name, {field for base in bases.values() for field in base})
    for name, base in bases.items():
        agent = get_agent(name)
        for width, batch in product(args.width or [None], (args.batch if batched else None) or [None]):
            sizes = {"width": width, "critic_width": width, "batch_size": batch}
            values = {**{k: v for k, v in sizes.items() if v is not None}, **wished}
            yield agent, configure(agent, {**base, **{k: v for k, v in values.items() if k in base}})


def _line(what: str, row: dict[str, Any]) -> str:
    if what == "act":
        rate = row["batches_per_second"]
        return f"{row['agent']:8} {rate:10,.0f} batches of {row['batch']:,} actions a second"
    return (
        f"{row['agent']:8} {row['members']:4} members {row['microseconds_per_update']:10,.1f} µs an update, "
        f"compiled in {row['compile_seconds']:.1f} s"
    )


def table(what: str, rows: list[dict[str, Any]]) -> "Table":
    """One row a measurement."""
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False, title=rows[0]["device"])
    for name in COLUMNS[what]:
        made.add_column(name.replace("_", " "), justify="left" if name == "agent" else "right")
    for row in rows:
        made.add_row(*(_cell(name, row[name]) for name in COLUMNS[what]))
    return made


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name.startswith("share"):
        return f"{value:.1%}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
