"""`bfq toy`: the checkerboard, in a picture and numbers."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfq import BadInput

ABOUT = "the checkerboard: one-step expressiveness in a picture and numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N − 1; default 1")
    add("--epochs", type=int, default=100, metavar="N", help="epochs of 40 batches; default 100")
    add("--all", action="store_true", help="also DDPM, consistency, shortcut and MeanFlow")
    add("--out", type=Path, default=Path("runs/toy"), metavar="DIR", help="default runs/toy")
    add("--json", action="store_true", help="print the content of toy.json")


def run(args: argparse.Namespace) -> int:
    """Train the methods, then write and print the numbers and the figure."""
    for word in ("seeds", "epochs"):
        if getattr(args, word) < 1:
            raise BadInput(f"--{word} must be at least 1, not {getattr(args, word)}.")
    from bfq_paper.cells import write_file
    from bfq_paper.checkerboard import run_checkerboard
    from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Settings

    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the training
    except OSError as error:
        raise BadInput(f"cannot write to {args.out}: {error.strerror}.") from error
    names, settings = tuple(METHODS) if args.all else PAPER_METHODS, Settings(epochs=args.epochs)
    result, picture = run_checkerboard(range(args.seeds), settings, names, quiet=args.json)
    text = json.dumps(result, indent=1)
    write_file(args.out / "toy.json", f"{text}\n".encode())
    write_file(args.out / "toy.png", picture)
    if args.json:
        print(text)
    else:
        print_table(result)
        print(f"numbers {args.out / 'toy.json'}")
        print(f"figure  {args.out / 'toy.png'}")
    return 0


def print_table(result: Mapping[str, Any]) -> None:
    """Print a row per method and number of steps, with means over seeds."""
    from rich.console import Console
    from rich.table import Table

    from bfq_paper.toy_methods import METHODS

    table = Table("method", box=None, header_style="bold", pad_edge=False)
    for name in ("steps", "energy distance", "sliced W2", "on filled squares", "squares covered"):
        table.add_column(name, justify="right")
    for name in (name for name in METHODS if name in result):
        for steps, row in result[name].items():
            distances = (row["energy_distance"], row["sliced_wasserstein2"])
            filled, covered = f"{row['share_on_filled']:.1%}", f"{row['squares_covered']} of 8"
            table.add_row(
                METHODS[name].title, steps, *map("{:.4f}".format, distances), filled, covered
            )
    Console().print(table)
