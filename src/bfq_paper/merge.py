"""Pages of experiments, redrawn from result.json; results of other machines are merged into ours.

`python -m bfq_paper.merge results/main elsewhere/results/main` adds the cells of the second folder to the
first. Where both have a cell, the one that finished later stays. With one folder it only redraws.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bfq import BadInput
from bfq_paper.cells import (
    Results,
    lock,
    newer_cells,
    read_results,
    write_file,
    write_results,
)
from bfq_paper.document import Block, Heading, Link, Paragraph, Picture, html, markdown
from bfq_paper.experiments import EXPERIMENTS
from bfq_paper.figures import ORDER, TOY, figures, frames_file, is_png
from bfq_paper.tables import overview, tables

QUICK = "This is a quick run with few updates and episodes. It is comparable with nothing."
ABOUT = (
    "Our results with the paper's in parentheses. Green: better than the paper by more than 2 points. "
    "Orange: worse. Gray: neither."
)


def draw(results: Results, out: Path) -> None:
    """Write table.md, the figures and index.html of an experiment, and the page of all experiments."""
    folder, title = out / results.experiment.folder, results.experiment.heading
    pictures, body = figures(results, out), page(results)
    for picture in pictures:
        if picture.png:
            write_file(folder / picture.file, picture.png)
    for name in {*ORDER} - {TOY, *(picture.file for picture in pictures)}:
        (folder / name).unlink(missing_ok=True)
    write_file(folder / "table.md", markdown(title, body).encode())
    write_file(folder / "index.html", html(title, [*body, *pictures]).encode())
    if not results.experiment.quick:
        write_file(out / "index.html", front_page(out).encode())


def page(results: Results) -> list[Block]:
    """The text and the tables of an experiment."""
    quick = [Paragraph(QUICK)] if results.experiment.quick else []
    return [Paragraph(results.experiment.about), *quick, *tables(results)]


def front_page(out: Path) -> str:
    """All experiments on one page, including those of other devices, a folder deeper."""
    blocks: list[Block] = [Paragraph(ABOUT)]
    for name in EXPERIMENTS:
        found = [out / name, *sorted(path.parent for path in out.glob(f"*/{name}/result.json"))]
        for folder in (folder for folder in found if (folder / "result.json").exists()):
            blocks += _summary(folder, folder.relative_to(out).as_posix())
    return html("The paper's experiments", blocks)


def _summary(folder: Path, place: str) -> list[Block]:
    """The overview and the pictures of one experiment, with a link to its page."""
    try:
        results = read_results(folder)
    except BadInput as error:
        return [Heading(place), Paragraph(str(error))]
    device = ", ".join(place.split("/")[:-1])
    title = results.experiment.heading + (f", {device}" if device else "")
    shown = [
        Picture(f"{place}/{name}", name.removesuffix(".png").replace("_", " ").capitalize(), "")
        for name in ORDER
        if is_png(folder / name) and name != "profiles.png"
    ]
    return [
        Heading(title),
        Paragraph(results.experiment.about),
        *(overview(results) or tables(results)[:4]),
        *shown,
        Link("Details: intervals, protocols, data, versions and commands", f"{place}/index.html"),
    ]


def merge(folder: Path, others: Sequence[Path] = ()) -> list[str]:
    """Add the cells of other folders to ours and redraw; a sentence for each added cell."""
    found = [read_results(other) for other in others]
    with lock(folder):
        if (folder / "result.json").exists() or not found:
            results = read_results(folder)
        else:
            results = replace(found[0], cells=(), commands=())
        experiment = results.experiment
        if folder.absolute().name != experiment.folder:
            raise BadInput(f"{folder} has the results of {experiment.folder}: name it so.")
        added = []
        for other, path in zip(found, others, strict=True):
            if other.experiment.folder != experiment.folder:
                raise BadInput(f"{path} has the results of {other.experiment.folder}.")
            cells = newer_cells(results, other)
            results = results.with_cells(cells)
            for command in other.commands if cells else ():
                results = results.with_command(command)
            for name in (*map(frames_file, cells), *([TOY] if cells else [])):
                if is_png(path / name):
                    shutil.copyfile(path / name, folder / name)
            added += [f"{cell.row}, {cell.column}: from {path}" for cell in cells]
        write_results(results, folder)
        draw(results, folder.absolute().parent)
    return added


def merge_command() -> int:
    """Merge and redraw."""
    parser = argparse.ArgumentParser(prog="python -m bfq_paper.merge", description=__doc__)
    parser.add_argument("folder", type=Path, help="such as results/main; it may be new")
    parser.add_argument("others", type=Path, nargs="*", help="the same folder of other machines")
    args = parser.parse_args()
    folders = [p.parent if p.name == "result.json" else p for p in (args.folder, *args.others)]
    try:
        added = merge(folders[0], folders[1:])
    except BadInput as error:
        print(f"bfq: {error}", file=sys.stderr)
        return 2
    for line in added or [f"page {folders[0] / 'index.html'}"]:
        print("".join(c if c.isprintable() else "?" for c in line))
    return 0


if __name__ == "__main__":
    sys.exit(merge_command())
