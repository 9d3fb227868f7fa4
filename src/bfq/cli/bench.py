"""`bfq bench`: the time of an update, an action or an evaluation, for any agent and sizes."""

import argparse
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bfq.cli.words import parse_counts, show_json
from bfq.errors import BadInput, counted, unknown
from bfq.options import parse_values

if TYPE_CHECKING:
    from bfq.run import RunConfig

TASK = "halfcheetah-medium-v2"
AXES = ("members", "batch", "width", "transitions", "flow_steps")  # the figure's horizontal axes
MOST_MEMBERS = 10_000
Row = dict[str, Any]
Method = tuple[Any, Any]  # an agent and its Config


def _update_line(row: Row) -> str:
    took, members = row["microseconds_per_update"], counted(row["members"], "member")
    compiled = f"compiled in {row['compile_seconds']:.1f} s"
    return f"{row['agent']:8} {members:>12} {took:10,.1f} µs per update, {compiled}"


def _action_line(row: Row) -> str:
    rate, actions = row["batches_per_second"], counted(row["batch"], "action")
    return f"{row['agent']:8} {rate:10,.0f} batches of {actions} per second"


def _evaluation_line(row: Row) -> str:
    rate, share = row["simulator_steps_per_second"], row["policy_share"]
    return (
        f"{row['agent']:8} {row['members']} × {counted(row['episodes'], 'episode')} in {row['seconds']:.1f} s, "
        f"{rate:,.0f} simulator steps per second on {counted(row['cores'], 'core')}, "
        f"{share:.0%} of the time in the policy"
    )


class Benchmark(NamedTuple):
    """One kind of measurement and how it is printed."""

    about: str
    columns: tuple[str, ...]  # of the table
    line: Callable[[Row], str]  # printed as soon as a row is measured


BENCHMARKS = {
    "train": Benchmark(
        "microseconds per update",
        ("agent", "members", "precision", "batch", "width", "depth", "flow_steps", "transitions",
         "microseconds_per_update", "compile_seconds", "share_of_flops", "share_of_bytes"),
        _update_line,
    ),
    "act": Benchmark(
        "action batches per second",
        ("agent", "width", "depth", "batch", "candidates", "sampling_steps", "batches_per_second"),
        _action_line,
    ),
    "evaluate": Benchmark(
        "the time of an evaluation, in the policy and in the simulators",
        ("agent", "members", "episodes", "candidates", "simulator_steps", "seconds",
         "simulator_steps_per_second", "policy_share", "simulator_share"),
        _evaluation_line,
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    verbs = parser.add_subparsers(
        dest="what", metavar="WHAT", required=True, parser_class=type(parser)
    )
    for name, benchmark in BENCHMARKS.items():
        about = benchmark.about
        verb = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        add = verb.add_argument
        add("--agent", default="bfq", metavar="NAME[,NAME…]", help="methods, or all; default bfq")
        add("--task", default=TASK, metavar="NAME", help=f"use this task's presets; default {TASK}")
        add("--set", action="append", default=[], metavar="NAME=VALUE",
            help="a hyperparameter, for agents that have it")  # fmt: skip
        _add_own(name, add)
        add("--out", type=Path, metavar="FILE",
            help="also write the rows to this JSON file; until all are measured, to FILE.part")  # fmt: skip
        add("--json", action="store_true", help="print the rows as JSON")


def _add_own(name: str, add: Callable[..., Any]) -> None:
    """The options of one kind of measurement."""

    def many(flag: str, about: str, default: list[int] | None = None) -> None:
        add(flag, type=parse_counts, metavar="N[,N…]", help=about, default=default)

    def one(flag: str, default: int, about: str) -> None:
        add(flag, type=int, default=default, metavar="N", help=f"{about}; default {default}")

    if name == "train":
        many("--members", "seeds trained at once; default 1", [1])
        many("--batch", "transitions per update")
        many("--transitions", "transitions in the dataset; default 1,000,000", [1_000_000])
        many("--flow-steps", "flow or diffusion steps in training, for agents that have them")
        add("--precision", default="float32", metavar="NAME",
            help="of matrix products: float32 or bfloat16")  # fmt: skip
        one("--chunk", 500, "updates in one compiled call")
        one("--repeats", 5, "timed calls")
        add("--figure", type=Path, metavar="FILE.png", help="plot the time along the given lists")
    elif name == "act":
        many("--batch", "actions per call")
        one("--candidates", 1, "actions drawn per state")
        many("--sampling-steps", "network calls per action; default 0: as trained", [0])
    else:
        one("--seeds", 6, "freshly initialized seeds")
        one("--episodes", 50, "episodes per seed")
        add("--candidates", type=int, metavar="N", help="actions per state; default the preset's")
        one("--sampling-steps", 0, "network calls per action (0: as trained)")
        add("--steps", type=int, metavar="N", help="end every episode after this many steps")
        one("--repeats", 1, "timed evaluations")
    if name != "evaluate":
        many("--width", "units of every hidden layer")
        one("--observations", 17, "numbers in an observation")
        one("--actions", 6, "numbers in an action")


def run(args: argparse.Namespace) -> int:
    """Measure every combination of agents and sizes, one row each."""
    finish: Callable[[list[Row]], None] | None = None
    if args.what == "evaluate":
        _check_counts(args, "seeds", "episodes", "candidates", "steps", "repeats")
        runs = _evaluation_runs(args)
        rows: Iterator[Row] = (_evaluation_row(run, args) for run in runs)
    elif args.what == "act":
        _check_counts(args, "observations", "actions", "width", "batch", "candidates")
        rows = _action_rows(args, _methods(args))
    else:
        from bfq.settings import check_precision

        _check_counts(args, "observations", "actions", "chunk", "repeats", *AXES)
        check_precision(args.precision)
        methods = _methods(args, args.batch, args.flow_steps)
        _check_growth(args, [config for _, config in methods])
        rows = _update_rows(args, methods)
        finish = _plot_to(args.figure) if args.figure else None
    return measure(args, rows, finish)


def measure(
    args: argparse.Namespace,
    rows: Iterable[Row],
    finish: Callable[[list[Row]], None] | None = None,
) -> int:
    """Print and write each row when it is measured, and a table of all rows at the end.

    An existing file is replaced only when all rows are measured.
    """
    from bfq.files import make_folder, write_json
    from bfq.run import versions

    if args.out:
        if args.out.is_dir():
            example = args.out / "rows.json"
            raise BadInput(f"{args.out} is a folder: name the file, such as {example}.")
        make_folder(args.out.absolute().parent)
    part = args.out.with_name(f"{args.out.name}.part") if args.out else None
    measured = []
    for row in rows:
        command = f"bfq {shlex.join(args.words)}"
        measured.append({**row, "versions": versions(), "command": command})
        if not args.json:
            print(BENCHMARKS[args.what].line(row), flush=True)
        if part:
            write_json(part, measured)
    if part:
        part.replace(args.out)
    if finish:
        finish(measured)
    if args.json:
        show_json(measured)
    else:
        columns = BENCHMARKS[args.what].columns
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
        heading = column.replace("microseconds", "µs").replace("_", " ")
        least = max(map(len, [*heading.split(), *(_cell(column, row[column]) for row in rows)]))
        side: Any = "left" if column == "agent" else "right"
        table.add_column(heading, min_width=least, justify=side)
        widest += least + 1
    for row in rows:
        table.add_row(*(_cell(c, row[c]) for c in columns if c not in shared))
    console = Console(width=max(width, widest), highlight=False, markup=False)
    with console.capture() as captured:
        sizes = [f"{c.replace('_', ' ')} {_cell(c, first[c])}" for c in shared if first[c]]
        console.print(", ".join([first["device"], *sizes]), soft_wrap=True)
        console.print(table)
    return captured.get().rstrip()


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column.startswith("share") or column.endswith("_share"):
        return f"{value:.1%}"
    return (
        f"{value:,.1f}"
        if isinstance(value, float)
        else f"{value:,}"
        if column == "transitions"
        else str(value)
    )


def _check_counts(args: argparse.Namespace, *names: str) -> None:
    """Check that the given counts and sizes are at least one and not absurdly large."""
    from bfq.agents.fields import LARGEST_COUNT

    for name in names:
        given = getattr(args, name)
        several = given if isinstance(given, list) else [given]
        most = MOST_MEMBERS if name == "members" else LARGEST_COUNT
        if given is not None and not 1 <= min(several) <= max(several) <= most:
            raise BadInput(f"--{name.replace('_', '-')} must be from 1 to {most:,}.")


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
    from bfq.files import make_folder

    inner = any(map(inner_steps_field, configs))
    if args.figure:
        if args.figure.suffix.lower() != ".png":
            raise BadInput(f"--figure writes a PNG image: {args.figure} must end in .png.")
        axes = [name for name in AXES if name != "flow_steps" or inner]
        if not any(len(set(getattr(args, name) or ())) > 1 for name in axes):
            options = ", ".join(f"--{name.replace('_', '-')}" for name in axes)
            raise BadInput(f"--figure needs several values: give a list to one of {options}.")
        make_folder(args.figure.absolute().parent)
    if args.flow_steps and not inner:
        raise BadInput(f"--flow-steps has no effect: {args.agent} trains without inner steps.")


def _plot_to(figure: Path) -> Callable[[list[Row]], None]:
    def plot(rows: list[Row]) -> None:
        from bfq.files import write_bytes
        from bfq.reports.sweep_figures import growth_figure

        if picture := growth_figure(rows):
            write_bytes(figure, picture)

    return plot


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
    from bfq.bench.measure import ACTION_BATCH, time_acting

    spec = Spec(args.observations, args.actions)
    for agent, config in methods:
        for batch, steps in product(args.batch or [ACTION_BATCH], args.sampling_steps):
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
    from bfq.experiment import population_of

    environment = EnvironmentSpec(str(run.simulator), run.episode_steps)
    protocol, population = protocol_from(dict(run.evaluation)), population_of(run)
    row = time_evaluation(population, environment, protocol, args.steps, args.repeats)
    return {"agent": run.agent, "task": run.task, **row}
