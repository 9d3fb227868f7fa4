"""`bfq sweep`: train a grid of hyperparameters, rank it, and print the command that confirms the best."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import add_options, read_options, show_json
from bfq.errors import DiskTrouble, say
from bfq.options import OPTIONS

if TYPE_CHECKING:
    from bfq.sweeps import Ranking

SWEPT = {name: one for name, one in OPTIONS.items() if name not in ("baselines", "keep_going")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the runs, and where the sweep is kept."""
    add_options(parser, SWEPT)
    add = parser.add_argument
    about = "default runs/sweep-TASK-AGENT-…, the same for the same options"
    add("--out", type=Path, metavar="DIR", help=about)
    add("--json", action="store_true", help="print sweep.json and nothing else")


def run(args: argparse.Namespace) -> int:
    """Train what is not trained yet, and show the ranking; a seed that diverges does not stop it."""
    from bfq.progress import announced

    with announced("loading JAX", quiet=args.json):
        from bfq.sweeps import run_sweep, sweep_folder, sweep_runs
        from bfq.training.loop import Stopped

    options = read_options(args, SWEPT)
    values = options.pop("values", {})
    runs = sweep_runs(values, **options)
    folder = args.out or sweep_folder(runs)
    try:
        ranking, record = run_sweep(runs, values, folder, quiet=args.json)
    except (Stopped, DiskTrouble) as stopped:
        say(f"bfq: {stopped} Run the same command again to continue.")
        return getattr(stopped, "exit_code", 1)
    if args.json:
        show_json(record)
    else:
        _show(ranking, record, folder)
    return 0


def _show(ranking: "Ranking", record: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from bfq.reports.tables import rich_standings

    Console().print(rich_standings(ranking.table))
    best = ", ".join(f"{name}={value}" for name, value in record["rows"][0]["values"].items())
    print(f"best     {best}, on the seeds that selected it")
    print(f"confirm  {record['confirm']}")
    for name in ("sweep.png", "report.html", "sweep.json"):
        if (folder / name).exists():
            print(f"{'file':8} {folder / name}")
