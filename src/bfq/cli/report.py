"""`bfq report RUNS…`: one page about finished runs."""

import argparse
from pathlib import Path

from bfq.cli.words import show_json
from bfq.errors import BadInput, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("folders", type=Path, nargs="+", metavar="RUN", help="folders of runs and of sweeps")
    add("--out", type=Path, metavar="DIR", help="folder of the page; default the first of these")
    add("--json", action="store_true", help="print the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the page and print the scores: one table for a run, or one per task for several."""
    from rich.console import Console

    from bfq.reports import read_finished, tables
    from bfq.reports.report import run_folders, write_report

    found, others = run_folders(args.folders)
    if not found:
        raise BadInput(f"no runs, which have a config.json: {', '.join(map(str, others))}.")
    if others:
        say(f"skipped, not a run: {', '.join(map(str, others))}")
    folders = [folder for inside in found.values() for folder in inside]
    for folder in folders:  # a process may have died after training, before it drew them
        trained = (folder / "result.json").exists() and (folder / "checkpoints").is_dir()
        if trained and not (folder / "frames.png").exists():
            from bfq.trained import draw_frames

            draw_frames(folder)
    written = write_report(folders, args.out or next(iter(found)))
    if args.json:
        show_json(written)
        return 0
    runs = [read_finished(folder) for folder in folders]
    several = map(tables.rich_standings, tables.standings(runs))
    Console().print(*([tables.rich_table(*runs)] if len(runs) == 1 else several), sep="\n")
    print(*written["files"], sep="\n")
    return 0
