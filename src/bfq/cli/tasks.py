"""`bfq tasks`: what can be trained on."""

import argparse
import dataclasses

from bfq.cli.words import show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("--json", action="store_true", help="print the task cards as JSON")


def run(args: argparse.Namespace) -> int:
    """Lists the task cards."""
    from bfq.data.catalog import DEFAULT_TASK, TASKS
    from bfq.data.sources import availability, kept

    cards = [{**dataclasses.asdict(task), "data_here": availability(name)} for name, task in TASKS.items()]
    own = [name for name in kept() if name not in TASKS]
    if args.json:
        show_json(cards + [{"name": name, "data_here": "yes"} for name in own])
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(
        caption="Your own data: --task FILE (.npz, .csv, .parquet, .hdf5), or bfq data import FILE --as NAME."
    )
    console = Console()
    wide = console.width >= 120
    table.add_column("task", no_wrap=True)
    for column in ("what it is", *(("simulator",) if wide else ()), "data here"):
        table.add_column(column, overflow="fold")
    for card in cards:
        name = f"{card['name']} (default)" if card["name"] == DEFAULT_TASK else str(card["name"])
        table.add_row(name, card["about"], *((card["simulator"],) if wide else ()), card["data_here"])
    for name in own:
        table.add_row(name, "data of your own", *(("",) if wide else ()), "yes")
    console.print(table)
    return 0
