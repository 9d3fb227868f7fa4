"""Results drawn anew from result.json, with those of other machines taken in, and their strips of frames.

`python -m bfq_paper.merge results/main elsewhere/results/main`

With no other it only draws: neither data nor run folders are needed. Where two have a cell of the same row
and column, the one whose run ended later stands, and of the same date the one that is named last.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bfq.cli.words import Parser, exit_code
from bfq.files import write_bytes
from bfq_paper.book import alone
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.stored import merged_calls, of_experiment, read_outcome, renewed, results_of
from bfq_paper.shown.kept_pictures import kept_picture
from bfq_paper.shown.strips import file_of
from bfq_paper.shown.written import drawn, write_drawn, write_numbers

TOY = "toy.png"  # a picture that only its run can make, as the strips are


def merge(folder: Path, others: Sequence[Path] = ()) -> list[str]:
    """Writes what all folders hold to the first, which may be new; a sentence for each cell that changes."""
    found = [read_outcome(other) for other in others]
    first = _ours(folder, found)
    out = results_of(first, folder)
    for name, other in zip(others, found, strict=True):
        of_experiment(other, first.experiment, name)
    with alone(folder):
        outcome, said = _ours(folder, found), list[str]()
        for name, other in zip(others, found, strict=True):
            cells = newer(outcome, other)
            said += [_told(outcome, cell, name) for cell in cells if cell.readings]
            for file, picture in _pictures(cells, name).items():
                write_bytes(folder / file, picture)
            ours = renewed(outcome.calls, other.calls) if cells else outcome.calls
            calls = merged_calls(
                other.calls, ours
            )  # ours last: its command is the one that goes on
            outcome = replace(outcome.taken(cells, other.sources), calls=calls)
        files = drawn(outcome, out)  # what cannot be drawn replaces no numbers
        write_numbers(outcome, out)
        write_drawn(outcome, out, files)
    return said


def _ours(folder: Path, found: Sequence[Outcome]) -> Outcome:
    """What the first folder holds now; nothing yet where it is new and others are to fill it."""
    if found and not (folder / "result.json").exists():
        return replace(found[0], sources=(), cells=(), calls=())
    return read_outcome(folder)


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


def _pictures(cells: Sequence[Cell], folder: Path) -> dict[str, bytes]:
    """The pictures of some cells, by their names."""
    names = [TOY, *(file_of(cell) for cell in cells if "run" in cell.provenance)] if cells else []
    return {name: picture for name in names if (picture := kept_picture(folder / name))}


def _told(outcome: Outcome, cell: Cell, name: Path) -> str:
    before = outcome.at(cell.row, cell.column)
    instead = (
        f", in place of that of {_date(before) or 'unknown date'}"
        if before and before.readings
        else ""
    )
    return f"{cell.row}, {cell.column}: from {name}, of {_date(cell) or 'unknown date'}{instead}"


def _folder(path: Path) -> Path:
    """The folder of results, whether it is named or its result.json."""
    return path.parent if path.name == "result.json" else path


def main() -> int:
    """Tells what is taken."""
    parser = Parser(prog="python -m bfq_paper.merge", description=__doc__)
    parser.add_argument(
        "folder", type=Path, metavar="RESULTS", help="as results/main; it may be new"
    )
    parser.add_argument(
        "others", type=Path, nargs="*", metavar="OTHER", help="the same of other machines"
    )
    return exit_code(lambda: _tell(parser.parse_args()))


def _tell(args: Namespace) -> None:
    folder, others = _folder(args.folder), [*map(_folder, args.others)]
    said = merge(folder, others)
    lines = said or ["nothing new" if others else f"page {folder / 'index.html'}"]
    print("\n".join(map(_printable, lines)))


def _printable(line: str) -> str:
    """Without what no terminal should be told: the names of a cell may be anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


if __name__ == "__main__":
    sys.exit(main())
