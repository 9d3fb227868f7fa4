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
    """Writes the page and shows the scores: of one run as it is, of several a table a task."""
    from rich.console import Console

    from bfq.reporting.report import write_report
    from bfq.reporting.runs import read_run
    from bfq.reporting.standing_tables import rich_standings
    from bfq.reporting.standings import standings
    from bfq.reporting.tables import rich_table

    written = write_report(args.folders, args.out or args.folders[0])
    if args.json:
        show_json(written)
        return 0
    runs = [read_run(folder) for folder in args.folders]
    tables = [rich_table(*runs)] if len(runs) == 1 else [rich_standings(table) for table in standings(runs)]
    for table in tables:
        Console().print(table)
    for path in written["files"]:
        print(path)
    return 0
