"""`bfq report RUNS…`: one page about finished runs."""

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from bfq.cli.words import show_json
from bfq.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("folders", type=Path, nargs="+", metavar="RUN", help="folders of runs and of sweeps")
    add("--out", type=Path, metavar="DIR", help="folder of the page; default the first of these")
    add("--json", action="store_true", help="print the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the page and print the scores: one table for a run, or one per task for several."""
    from rich.console import Console

    from bfq.reports import read_finished
    from bfq.reports.report import run_folders, write_report
    from bfq.reports.tables import rich_standings, rich_table, standings

    found, others = run_folders(args.folders)
    _check(found, others)
    folders = [folder for inside in found.values() for folder in inside]
    _draw_frames(folders)
    written = write_report(folders, args.out or next(iter(found)))
    if args.json:
        show_json(written)
        return 0
    runs = [read_finished(folder) for folder in folders]
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


def _draw_frames(folders: Sequence[Path]) -> None:
    """Draw frames that are missing because the process that trained a run died before it drew them."""
    for folder in folders:
        trained = (folder / "result.json").exists() and (folder / "checkpoints").is_dir()
        if trained and not (folder / "frames.png").exists():
            from bfq.experiment import draw_frames

            draw_frames(folder)


def _check(found: Collection[Path], others: Sequence[Path]) -> None:
    """Check that there is a run; list folders that are not runs on standard error."""
    names = ", ".join(map(str, others))
    if not found and len(others) == 1:
        raise BadInput(f"{names} is not a run: it has no config.json.")
    if not found:
        raise BadInput(f"none of these is a run: {names}.")
    if others:
        print(f"skipped, not a run: {names}", file=sys.stderr)
