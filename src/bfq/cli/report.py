"""`bfq report RUNS…`: one page from finished runs."""

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from bfq.cli.words import show_json
from bfq.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="RUN", help="folders of runs and of sweeps"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the page goes; default the first of these folders",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Writes the page and shows the scores: of one run as it is, of several a table a task."""
    from rich.console import Console

    from bfq.reports.report import run_folders, write_report
    from bfq.reports.runs import read_run
    from bfq.reports.tables import rich_standings, rich_table, standings

    found, others = run_folders(args.folders)
    _check(found, others)
    folders = [folder for inside in found.values() for folder in inside]
    written = write_report(folders, args.out or next(iter(found)))
    if args.json:
        show_json(written)
        return 0
    runs = [read_run(folder) for folder in folders]
    tables = (
        [rich_table(*runs)]
        if len(runs) == 1
        else [rich_standings(table) for table in standings(runs)]
    )
    for table in tables:
        Console().print(table)
    for path in written["files"]:
        print(path)
    return 0


def _check(found: Collection[Path], others: Sequence[Path]) -> None:
    """Tells what is left out, on standard error since the answer may be JSON; refuses what has no run."""
    names = ", ".join(map(str, others))
    if not found and len(others) == 1:
        raise BadInput(f"{names} is not a run: it has no config.json.")
    if not found:
        raise BadInput(f"none of these is a run: {names}.")
    if others:
        print(f"left out, being no run: {names}", file=sys.stderr)
