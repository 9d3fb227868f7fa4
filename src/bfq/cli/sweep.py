"""`bfq sweep`: a grid of hyperparameters, ranked, and the command that confirms the best on other seeds."""

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.train import add_description, composed
from bfq.cli.words import assignments, show_json
from bfq.errors import DiskTrouble

if TYPE_CHECKING:
    from bfq.settings import RunConfig
    from bfq.sweep import Ranking

AGAIN = "The same command goes on from there."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add_description(parser)
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="default runs/sweep-TASK-AGENT-…, the same for the same words",
    )
    add("--json", action="store_true", help="print sweep.json and nothing else")


def run(args: argparse.Namespace) -> int:
    """Trains what is not trained yet, and shows which settings did best; a member that diverges is told."""
    from bfq.training.progress import announced

    with announced("loading JAX", quiet=args.json):
        from bfq.experiment import say
        from bfq.sweep import combinations, folder_name, ranked, sweep, write_sweep
        from bfq.training.loop import Stopped

    values = assignments(args.set)
    grid = combinations(args.agent or "bfq", values)
    runs = {folder_name(values, chosen): composed(args, chosen) for chosen in grid}
    folder = args.out or _folder(runs)
    try:
        folders = sweep(runs, folder, args.json)
    except (Stopped, DiskTrouble) as stopped:
        say(f"bfq: {stopped} {AGAIN}")
        return getattr(stopped, "exit_code", 1)
    ranking = ranked(folders, values)
    first = next(iter(runs.values()))
    record = write_sweep(ranking, first, folder, folders, f"bfq {shlex.join(args.words)}")
    if args.json:
        show_json(record)
    else:
        _show(ranking, record, folder)
    return 0


def _folder(runs: "dict[str, RunConfig]") -> Path:
    """Named after everything that was asked for, so that the same words go on where they stopped."""
    from bfq.experiment import RUNS, stem_of
    from bfq.provenance import place

    told = {name: {**dataclasses.asdict(run), "chunk": 0} for name, run in runs.items()}
    return place(RUNS, f"sweep-{stem_of(next(iter(runs.values())))}", told)


def _show(ranking: "Ranking", record: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from bfq.reports.tables import rich_standings

    Console().print(rich_standings(ranking.table))
    best = ", ".join(f"{name}={value}" for name, value in record["rows"][0]["values"].items())
    print(f"best     {best}, on the seeds that chose it")
    print(f"confirm  {record['confirm']}")
    for name in ("sweep.png", "report.html", "sweep.json"):
        if (folder / name).exists():
            print(f"{'file':8} {folder / name}")
