"""`bfq bench`: the time of an update, of an action and of an evaluation, for any agent and sizes."""

import argparse
from itertools import product
from pathlib import Path
from typing import Any

from bfq.cli import bench_evaluate
from bfq.cli.bench_rows import (
    Measure,
    Row,
    agent_words,
    bases_of,
    check_counts,
    measure,
    row_words,
    wished_of,
)
from bfq.cli.words import numbers
from bfq.errors import BadInput, counted

TRAIN = "microseconds an update"
ACT = "action batches a second"
AXES = (
    "members",
    "batch",
    "width",
    "transitions",
    "flow_steps",
)  # along which the cost of an update grows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    verbs = parser.add_subparsers(
        dest="what", metavar="WHAT", required=True, parser_class=type(parser)
    )
    for name, about, words in (
        ("train", TRAIN, _training_words),
        ("act", ACT, _acting_words),
        ("evaluate", bench_evaluate.ABOUT, bench_evaluate.add_words),
    ):
        verb = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        agent_words(verb)
        words(verb)
        row_words(verb)


def _training_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--members", type=numbers, default=[1], metavar="N[,N…]", help="members trained at once")
    add("--batch", type=numbers, metavar="N[,N…]", help="transitions an update")
    add(
        "--transitions",
        type=numbers,
        default=[1_000_000],
        metavar="N[,N…]",
        help="size of the data set",
    )
    add("--flow-steps", type=numbers, metavar="N[,N…]",
        help="flow or diffusion steps in training, of agents that have them")  # fmt: skip
    add(
        "--precision",
        default="float32",
        metavar="NAME",
        help="of the products: float32 or bfloat16",
    )
    add(
        "--chunk",
        type=int,
        default=500,
        metavar="N",
        help="updates in one compiled call; default 500",
    )
    add("--repeats", type=int, default=5, metavar="N", help="calls that are timed; default 5")
    add(
        "--figure",
        type=Path,
        metavar="FILE.png",
        help="draw the growth along the lists that are given",
    )
    _shape_words(parser)


def _acting_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--batch", type=numbers, metavar="N[,N…]", help="actions a call")
    add("--candidates", type=int, default=1, metavar="N", help="actions drawn a state")
    add(
        "--sampling-steps",
        type=numbers,
        default=[0],
        metavar="N[,N…]",
        help="network calls an action",
    )
    _shape_words(parser)


def _shape_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--width", type=numbers, metavar="N[,N…]", help="units of every hidden layer")
    add("--observations", type=int, default=17, metavar="N", help="numbers in an observation")
    add("--actions", type=int, default=6, metavar="N", help="numbers in an action")


def _updated(row: Row) -> str:
    took, compiled = row["microseconds_per_update"], f"compiled in {row['compile_seconds']:.1f} s"
    return f"{row['agent']:8} {counted(row['members'], 'member'):>12} {took:10,.1f} µs an update, {compiled}"


def _acted(row: Row) -> str:
    rate = row["batches_per_second"]
    return f"{row['agent']:8} {rate:10,.0f} batches of {counted(row['batch'], 'action')} a second"


MEASURES = {
    "train": Measure(
        ("agent", "members", "precision", "batch", "width", "depth", "flow_steps", "transitions",
         "microseconds_per_update", "compile_seconds", "share_of_flops", "share_of_bytes"),
        _updated,
    ),
    "act": Measure(
        ("agent", "width", "depth", "batch", "candidates", "sampling_steps", "batches_per_second"), _acted
    ),
    "evaluate": bench_evaluate.MEASURE,
}  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measures every combination of agents and sizes, one row each."""
    if args.what == "evaluate":
        return measure(args, MEASURES[args.what], bench_evaluate.rows(args))
    check_counts(args, "observations", "actions", "width", "batch")
    if args.what == "act":
        check_counts(args, "candidates")
        return measure(args, MEASURES[args.what], _acting(args))
    from bfq.settings import check_precision

    check_counts(args, "chunk", "repeats", *AXES)
    check_precision(args.precision)
    configurations = list(_configurations(args, args.batch, args.flow_steps))
    configs = [config for _, config in configurations]
    if args.figure:
        _check_figure(args, configs)
    _check_steps(args, configs)
    return measure(args, MEASURES[args.what], _training(args, configurations), _drawn(args.figure))


def _check_steps(args: argparse.Namespace, configs: list[Any]) -> None:
    """Refuses numbers of steps that no agent here would take."""
    from bfq.bench.updates import inner_steps

    if args.flow_steps and not any(map(inner_steps, configs)):
        raise BadInput(f"--flow-steps is of no use here: {args.agent} trains without inner steps.")


def _check_figure(args: argparse.Namespace, configs: list[Any]) -> None:
    """Refuses, before anything is measured, a figure that could not be drawn."""
    from bfq.bench.updates import inner_steps
    from bfq.files import make_folder

    if args.figure.suffix.lower() != ".png":
        raise BadInput(
            f"--figure writes a PNG image: give it a name that ends in .png, not {args.figure}."
        )
    named = [name for name in AXES if name != "flow_steps" or any(map(inner_steps, configs))]
    if not any(len(set(getattr(args, name) or ())) > 1 for name in named):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in named)
        raise BadInput(f"--figure draws growth: give several values to one of {options}.")
    make_folder(args.figure.absolute().parent)


def _drawn(figure: Path | None) -> Any:
    """What is done with the rows once they are all there."""

    def draw(rows: list[dict[str, Any]]) -> None:
        from bfq.files import write_bytes
        from bfq.reports.growth_figure import growth_figure

        picture = growth_figure(rows)
        if figure and picture:
            write_bytes(figure, picture)

    return draw if figure else None


def _training(args: argparse.Namespace, configurations: list[tuple[Any, Any]]) -> Any:
    from bfq.agents import Spec
    from bfq.bench.updates import Sizes, made_up, time_update

    spec = Spec(args.observations, args.actions)
    for transitions in args.transitions:
        sizes = Sizes(1, transitions, spec, args.chunk, args.repeats, args.precision)
        rows = {
            needs: made_up(sizes, needs) for needs in {agent.needs for agent, _ in configurations}
        }
        for agent, config in configurations:
            for members in args.members:
                yield time_update(agent, config, rows[agent.needs], sizes._replace(members=members))


def _acting(args: argparse.Namespace) -> Any:
    from bfq.agents import Acting, Spec
    from bfq.agents.registry import check_acting
    from bfq.bench.acting import BATCH, time_acting

    spec = Spec(args.observations, args.actions)
    for agent, config in _configurations(args):
        for batch, steps in product(args.batch or [BATCH], args.sampling_steps):
            acting = Acting(candidates=args.candidates, sampling_steps=steps)
            check_acting(agent, config, acting)
            yield time_acting(agent, config, acting, spec, batch)


def _configurations(
    args: argparse.Namespace, batches: list[int] | None = None, flow_steps: list[int] | None = None
) -> Any:
    """Every agent with every width, batch size and number of inner steps, at its preset for the task."""
    from bfq.agents.registry import get_agent
    from bfq.bench.updates import Resized, inner_steps, resize

    bases = bases_of(args)
    wished = wished_of(args, bases)
    for name, base in bases.items():
        agent = get_agent(name)
        steps = (
            flow_steps if inner_steps(agent.config()) else None
        )  # an agent without them is measured once
        for sizes in product(*(given or [None] for given in (args.width, batches, steps))):
            yield agent, resize(agent, base, Resized(*sizes), wished)
