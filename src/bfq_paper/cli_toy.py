"""`bfq toy`: the checkerboard figure with its numbers."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfq.cli.words import show_json
from bfq.errors import BadInput

if TYPE_CHECKING:
    from rich.table import Table


ABOUT = "the checkerboard: one-step expressiveness in a picture and numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="seeds 0 to N − 1; default 1"
    )
    parser.add_argument(
        "--epochs", type=int, default=100, metavar="N", help="epochs of 40 batches; default 100"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also DDPM, consistency, shortcut and MeanFlow; thrice as long",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/toy"),
        metavar="DIR",
        help="where toy.json and toy.png go",
    )
    parser.add_argument("--json", action="store_true", help="print the content of toy.json")


def run(args: argparse.Namespace) -> int:
    """Trains the methods, then writes and shows the numbers and the figure."""
    for word in ("seeds", "epochs"):
        if getattr(args, word) < 1:
            raise BadInput(f"--{word} must be at least 1, not {getattr(args, word)}.")
    from bfq.files import make_folder, write_bytes, write_json
    from bfq_paper.checkerboard import run_checkerboard
    from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Settings

    make_folder(args.out)
    names, settings = tuple(METHODS) if args.all else PAPER_METHODS, Settings(epochs=args.epochs)
    result, picture = run_checkerboard(range(args.seeds), settings, names, quiet=args.json)
    write_json(args.out / "toy.json", result)
    write_bytes(args.out / "toy.png", picture)
    if args.json:
        show_json(result)
    else:
        _show(result, args.out)
    return 0


def table(result: dict[str, Any]) -> "Table":
    """One row a method and number of steps, means over seeds."""
    from rich.table import Table

    from bfq_paper.toy_methods import METHODS

    made = Table("method", box=None, header_style="bold", pad_edge=False)
    for name in ("steps", "energy distance", "sliced W2", "on filled squares", "squares covered"):
        made.add_column(name, justify="right")
    for name in (name for name in METHODS if name in result):
        for steps, row in result[name].items():
            made.add_row(
                METHODS[name].title,
                steps,
                f"{row['energy_distance']:.4f}",
                f"{row['sliced_wasserstein2']:.4f}",
                f"{row['share_on_filled']:.1%}",
                f"{row['squares_covered']} of 8",
            )
    return made


def _show(result: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    Console().print(table(result))
    print(f"numbers {folder / 'toy.json'}")
    print(f"figure  {folder / 'toy.png'}")
