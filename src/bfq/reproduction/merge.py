"""Results of other machines taken into ours, with their strips of frames; then everything is drawn anew.

`python -m bfq.reproduction.merge results/main elsewhere/results/main`

Where two have a cell of the same row and column, the one whose run ended later stands, and of the same date
the one that is named last.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bfq.errors import BadInput
from bfq.files import make_folder, write_bytes
from bfq.reproduction.accumulated import taken
from bfq.reproduction.cells import Cell, Outcome
from bfq.reproduction.redraw import results_of
from bfq.reproduction.results import (
    of_experiment,
    read_outcome,
    together_called,
    write_numbers,
    write_pictures,
)
from bfq.reproduction.strips import file_of

TOY = "toy.png"  # a picture that only its run can make, as the strips are


def merge(folder: Path, others: Sequence[Path]) -> list[str]:
    """Writes what all folders hold to the first, which may be new; a sentence for each cell that changes."""
    found = [read_outcome(other) for other in others]
    here = (folder / "result.json").exists()
    outcome = read_outcome(folder) if here else replace(found[0], sources=(), cells=(), calls=())
    out, said = results_of(outcome, folder), list[str]()
    pictures: dict[str, Path] = {}
    for name, other in zip(others, found, strict=True):
        cells = newer(outcome, of_experiment(other, outcome.experiment, name))
        said += [_told(outcome, cell, name) for cell in cells if cell.readings]
        pictures |= _pictures(cells, name)
        calls = together_called(other.calls, outcome.calls)  # ours last: its command is the one that goes on
        outcome = replace(taken(outcome, cells, other.sources), calls=calls)
    make_folder(folder)
    for file, path in pictures.items():
        write_bytes(folder / file, path.read_bytes())
    write_numbers(outcome, out)
    write_pictures(outcome, out)
    return said


def newer(outcome: Outcome, other: Outcome) -> list[Cell]:
    """The cells of another that take the place of ours: not the same, and not of an earlier date."""
    pairs = [(cell, outcome.at(cell.row, cell.column)) for cell in other.cells]
    return [cell for cell, ours in pairs if ours is None or _replaces(cell, ours)]


def _replaces(cell: Cell, ours: Cell) -> bool:
    if not cell.readings or cell == ours:
        return False
    return not ours.readings or _date(cell) >= _date(ours)


def _date(cell: Cell) -> str:
    """When its run ended; cells of old do not say and come before all others."""
    return str(cell.provenance.get("finished", ""))


def _pictures(cells: Sequence[Cell], folder: Path) -> dict[str, Path]:
    """Where the pictures of some cells are, by their names."""
    names = [TOY, *(file_of(cell) for cell in cells if "run" in cell.provenance)] if cells else []
    return {name: folder / name for name in names if (folder / name).is_file()}


def _told(outcome: Outcome, cell: Cell, name: Path) -> str:
    before = outcome.at(cell.row, cell.column)
    instead = f", in place of that of {_date(before) or 'unknown date'}" if before and before.readings else ""
    return f"{cell.row}, {cell.column}: from {name}, of {_date(cell) or 'unknown date'}{instead}"


def _folder(path: Path) -> Path:
    """The folder of results, whether it is named or its result.json."""
    return path.parent if path.name == "result.json" else path


def main() -> int:
    """Tells what is taken."""
    parser = argparse.ArgumentParser(prog="python -m bfq.reproduction.merge", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="RESULTS", help="as results/main; it may be new")
    parser.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="the same of other machines")
    args = parser.parse_args()
    try:
        print("\n".join(merge(_folder(args.folder), [*map(_folder, args.others)]) or ["nothing new"]))
    except BadInput as error:
        print(f"bfq: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
