"""`bfq bench`: the time of an update, an action or an evaluation, for any agent and sizes."""

import argparse
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bfq.cli.words import parse_counts, show_json
from bfq.errors import BadInput, unknown
from bfq.files import make_folder, write_bytes, write_json
from bfq.options import parse_values

if TYPE_CHECKING:
    from bfq.run import RunConfig

TASK = "halfcheetah-medium-v2"
AXES = ("members", "batch", "width", "transitions", "flow_steps")  # the figure's horizontal axes
MOST_MEMBERS = 10_000
Row = dict[str, Any]
Method = tuple[Any, Any]  # an agent and its Config


class Benchmark(NamedTuple):
    """One kind of measurement."""

    about: str
    counts: dict[str, tuple[Any, str]]  # default and meaning of each option; a list takes several
    columns: tuple[str, ...]  # of the table


NETWORK = {
    "width": ([], "units of every hidden layer"),
    "observations": (17, "numbers in an observation"),
    "actions": (6, "numbers in an action"),
}
BENCHMARKS = {
    "train": Benchmark(
        "microseconds per update",
        {
            "members": ([1], "seeds trained at once"),
            "batch": ([], "transitions per update"),
            "transitions": ([1_000_000], "transitions in the dataset"),
            "flow_steps": ([], "flow or diffusion steps in training, for agents that have them"),
            "chunk": (500, "updates in one compiled call"),
            "repeats": (5, "timed calls"),
            **NETWORK,
        },
        ("agent", "members", "precision", "batch", "width", "depth", "flow_steps", "transitions",
         "microseconds_per_update", "compile_seconds", "share_of_flops", "share_of_bytes"),
    ),
    "act": Benchmark(
        "action batches per second",
        {
            "batch": ([2500], "actions per call"),
            "candidates": (1, "actions drawn per state"),
            "sampling_steps": ([0], "network calls per action (0: as trained)"),
            **NETWORK,
        },
        ("agent", "width", "depth", "batch", "candidates", "sampling_steps", "batches_per_second"),
    ),
    "evaluate": Benchmark(
        "the time of an evaluation, in the policy and in the simulators",
        {
            "seeds": (6, "freshly initialized seeds"),
            "episodes": (50, "episodes per seed"),
            "candidates": (None, "actions per state; default the preset's"),
            "sampling_steps": (0, "network calls per action (0: as trained)"),
            "steps": (None, "end every episode after this many steps"),
            "repeats": (1, "timed evaluations"),
        },
        ("agent", "members", "episodes", "candidates", "simulator_steps", "seconds",
         "simulator_steps_per_second", "policy_share", "simulator_share"),
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    verbs = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, (about, counts, _) in BENCHMARKS.items():
        verb = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        add = verb.add_argument
        add("--agent", default="bfq", metavar="NAME[,NAME…]", help="methods, or all; default bfq")
        add("--task", default=TASK, metavar="NAME", help=f"use this task's presets; default {TASK}")
        add("--set", action="append", default=[], metavar="NAME=VALUE",
            help="a hyperparameter, for agents that have it")  # fmt: skip
        for option, (default, meaning) in counts.items():
            several = isinstance(default, list)
            values = default if several else [default]
            known = ", ".join(f"{value:,}" for value in values if value is not None)
            add(f"--{option.replace('_', '-')}", type=parse_counts if several else int, default=default,
                metavar="N[,N…]" if several else "N",
                help=f"{meaning}; default {known}" if known else meaning)  # fmt: skip
        if name == "train":
            add("--precision", default="float32", metavar="NAME",
                help="of matrix products: float32 or bfloat16")  # fmt: skip
            about = "plot the time along the given lists"
            add("--figure", type=Path, metavar="FILE.png", help=about)
        add("--out", type=Path, metavar="FILE",
            help="also write the rows to this JSON file; until all are measured, to FILE.part")  # fmt: skip
        add("--json", action="store_true", help="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Measure every combination of agents and sizes, one row each."""
    _check_counts(args)
    if args.what == "evaluate":
        runs = _evaluation_runs(args)
        return measure(args, (_evaluation_row(run, args) for run in runs))
    if args.what == "act":
        return measure(args, _action_rows(args, _methods(args)))
    from bfq.settings import check_precision

    check_precision(args.precision)
    methods = _methods(args, args.batch, args.flow_steps)
    _check_growth(args, [config for _, config in methods])
    return measure(args, _update_rows(args, methods))


def measure(args: argparse.Namespace, rows: Iterable[Row]) -> int:
    """Print and write each row when it is measured, and a table of all rows at the end.

    An existing file is replaced only when all rows are measured.
    """
    from bfq.run import versions

    if args.out:
        if args.out.is_dir():
            example = args.out / "rows.json"
            raise BadInput(f"{args.out} is a folder: name the file, such as {example}.")
        make_folder(args.out.absolute().parent)
    part = args.out.with_name(f"{args.out.name}.part") if args.out else None
    columns = BENCHMARKS[args.what].columns
    measured: list[Row] = []
    for row in rows:
        measured.append({**row, "versions": versions(), "command": f"bfq {shlex.join(args.words)}"})
        if not args.json:
            known = (column for column in columns if row[column] is not None)
            print(", ".join(f"{_heading(c)} {_cell(c, row[c])}" for c in known), flush=True)
        if part:
            write_json(part, measured)
    if part:
        part.replace(args.out)
    if getattr(args, "figure", None):
        from bfq.reports.sweep_figures import growth_figure

        write_bytes(args.figure, growth_figure(measured) or b"")
    if args.json:
        show_json(measured)
    else:
        print(measurement_table(columns, measured, shutil.get_terminal_size().columns))
    return 0


SIZES = (
    "members", "precision", "batch", "width", "depth", "flow_steps", "transitions", "episodes",
    "candidates", "sampling_steps",
)  # fmt: skip


def measurement_table(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """One line per measurement, below the device and the sizes that all of them share.

    Headings break between words; numbers are never cut, even if the table is wider than `width`.
    """
    from rich.console import Console
    from rich.table import Table

    first = rows[0]
    shared = [c for c in columns if c in SIZES and len({row[c] for row in rows}) == 1]
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    widest = 0
    for column in (c for c in columns if c not in shared):
        heading = _heading(column)
        least = max(map(len, [*heading.split(), *(_cell(column, row[column]) for row in rows)]))
        side: Any = "left" if column == "agent" else "right"
        table.add_column(heading, min_width=least, justify=side)
        widest += least + 1
    for row in rows:
        table.add_row(*(_cell(c, row[c]) for c in columns if c not in shared))
    console = Console(width=max(width, widest), highlight=False, markup=False)
    with console.capture() as captured:
        sizes = [f"{_heading(c)} {_cell(c, first[c])}" for c in shared if first[c]]
        console.print(", ".join([first["device"], *sizes]), soft_wrap=True)
        console.print(table)
    return captured.get().rstrip()


def _heading(column: str) -> str:
    return column.replace("microseconds", "µs").replace("_", " ")


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column.startswith("share") or column.endswith("_share"):
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if column == "transitions" else str(value)


def _check_counts(args: argparse.Namespace) -> None:
    """Check that counts and sizes are at least one and not absurdly large."""
    from bfq.agents.fields import LARGEST_COUNT

    for name in BENCHMARKS[args.what].counts:
        given = getattr(args, name)
        several = given if isinstance(given, list) else [given]
        most = MOST_MEMBERS if name == "members" else LARGEST_COUNT
        least = 0 if name == "sampling_steps" else 1
        if given not in (None, []) and not least <= min(several) <= max(several) <= most:
            raise BadInput(f"--{name.replace('_', '-')} must be from {least} to {most:,}.")


def _bases(args: argparse.Namespace) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Every agent's hyperparameters at its preset for the task, and those given by --set."""
    from bfq.agents.registry import agent_names
    from bfq.settings import compose

    names = agent_names() if args.agent == "all" else args.agent.split(",")
    bases = {name: compose(args.task, name).config for name in names}
    known = {field for base in bases.values() for field in base}
    chosen = {}
    for name, values in parse_values(args.set).items():
        if len(values) > 1:
            raise BadInput(f"--set takes one value of {name} here: run `bfq bench` once per value.")
        if name not in known:
            raise unknown("hyperparameter", name, known)
        chosen[name] = values[0]
    return bases, chosen


def _methods(
    args: argparse.Namespace, batches: list[int] | None = None, flow_steps: list[int] | None = None
) -> list[Method]:
    """Every agent with every width, batch size and number of inner steps, at its preset."""
    from bfq.agents.registry import get_agent
    from bfq.bench.measure import inner_steps_field, resize

    bases, chosen = _bases(args)
    methods = []
    for name, base in bases.items():
        agent = get_agent(name)
        inner = flow_steps if inner_steps_field(agent.config()) else None
        for sizes in product(*(given or [None] for given in (args.width, batches, inner))):
            methods.append((agent, resize(agent, base, chosen, *sizes)))
    return methods


def _check_growth(args: argparse.Namespace, configs: list[Any]) -> None:
    """Check, before anything is measured, that --figure can be drawn and --flow-steps has an effect."""
    from bfq.bench.measure import inner_steps_field

    inner = any(map(inner_steps_field, configs))
    if args.figure:
        if args.figure.suffix.lower() != ".png":
            raise BadInput(f"--figure writes a PNG image: {args.figure} must end in .png.")
        axes = [name for name in AXES if name != "flow_steps" or inner]
        if not any(len(set(getattr(args, name))) > 1 for name in axes):
            options = ", ".join(f"--{name.replace('_', '-')}" for name in axes)
            raise BadInput(f"--figure needs several values: give a list to one of {options}.")
        make_folder(args.figure.absolute().parent)
    if args.flow_steps and not inner:
        raise BadInput(f"--flow-steps has no effect: {args.agent} trains without inner steps.")


def _update_rows(args: argparse.Namespace, methods: list[Method]) -> Iterator[Row]:
    from bfq.agents.contract import Spec
    from bfq.bench.measure import Sizes, random_transitions, time_update

    spec = Spec(args.observations, args.actions)
    for transitions in args.transitions:
        sizes = Sizes(1, transitions, spec, args.chunk, args.repeats, args.precision)
        needs = {agent.needs for agent, _ in methods}
        rows = {need: random_transitions(sizes, need) for need in needs}
        for (agent, config), members in product(methods, args.members):
            yield time_update(agent, config, rows[agent.needs], sizes._replace(members=members))


def _action_rows(args: argparse.Namespace, methods: list[Method]) -> Iterator[Row]:
    from bfq.agents.contract import Acting, Spec
    from bfq.agents.registry import check_acting
    from bfq.bench.measure import time_acting

    spec = Spec(args.observations, args.actions)
    for agent, config in methods:
        for batch, steps in product(args.batch, args.sampling_steps):
            acting = Acting(candidates=args.candidates, sampling_steps=steps)
            check_acting(agent, config, acting)
            yield time_acting(agent, config, acting, spec, batch)


def _evaluation_runs(args: argparse.Namespace) -> list["RunConfig"]:
    from bfq.settings import compose

    bases, chosen = _bases(args)
    options = {name: getattr(args, name) for name in ("seeds", "candidates", "sampling_steps")}
    runs = []
    for name, base in bases.items():
        values = {field: value for field, value in chosen.items() if field in base}
        runs.append(compose(args.task, name, values=values, eval_episodes=args.episodes, **options))
    if runs[0].simulator is None:
        raise BadInput(f"{args.task} has no simulator to evaluate in: choose another --task.")
    return runs


def _evaluation_row(run: "RunConfig", args: argparse.Namespace) -> Row:
    from bfq.bench.measure import time_evaluation
    from bfq.evaluation.protocol import protocol_from
    from bfq.evaluation.rollout import EnvironmentSpec
    from bfq.trained import population_of

    environment = EnvironmentSpec(str(run.simulator), run.episode_steps)
    protocol, population = protocol_from(dict(run.evaluation)), population_of(run)
    row = time_evaluation(population, environment, protocol, args.steps, args.repeats)
    return {"agent": run.agent, "task": run.task, **row}
