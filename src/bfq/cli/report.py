"""`bfq report RUNS…`: one page from finished runs."""

import argparse
from pathlib import Path

from bfq.cli.words import show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="run folders")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the page goes; default the first run's folder"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Writes the page and shows the tables."""
    from rich.console import Console

    from bfq.reporting.report import write_report
    from bfq.reporting.runs import read_run
    from bfq.reporting.tables import rich_table

    written = write_report(args.folders, args.out or args.folders[0])
    if args.json:
        show_json(written)
        return 0
    for folder in args.folders:
        Console().print(rich_table(read_run(folder)))
    for path in written["files"]:
        print(path)
    return 0
