"""What an experiment leaves in its folder: numbers, a table, pictures and a page, each whole or absent."""

from pathlib import Path

from bfq.files import make_folder, write_bytes, write_json
from bfq.reproduction.results.cells import Outcome
from bfq.reproduction.results.stored import folder_of, record
from bfq.reproduction.shown.markdown import markdown


def write_numbers(outcome: Outcome, out: Path) -> None:
    """The numbers with all that they depend on, and the table of them."""
    folder = folder_of(outcome.experiment, out)
    numbers, table = record(outcome), markdown(outcome).encode()
    make_folder(folder)
    write_json(folder / "result.json", numbers)
    write_bytes(folder / "table.md", table)


def write_pictures(outcome: Outcome, out: Path) -> None:
    """The figures, the page that holds them, and that of all experiments."""
    from bfq.reproduction.shown.captions import HEADINGS, TOY
    from bfq.reproduction.shown.figures import (
        figures,  # they draw: seconds of imports that training need not await
    )
    from bfq.reproduction.shown.front import front_page
    from bfq.reproduction.shown.page import page_of
    from bfq.reproduction.shown.strips import strip_files, strips

    folder = folder_of(outcome.experiment, out)
    at_work = strips(outcome, folder)
    drawn = [*figures(outcome, out), *at_work.drawn]
    paths = {folder / figure.file: figure.png for figure in drawn}
    paths[folder / "index.html"] = page_of(outcome, drawn, at_work.missing).encode("utf-8", "replace")
    for path, content in paths.items():
        write_bytes(path, content)
    for path in set(folder.glob("frames-*.png")) - {folder / name for name in strip_files(outcome)}:
        path.unlink()  # the policy of a cell that was replaced
    for path in {folder / name for name in HEADINGS if name != TOY} - set(paths):
        path.unlink(missing_ok=True)  # of numbers that are there no longer
    if not outcome.experiment.quick:
        write_bytes(out / "index.html", front_page(out).encode("utf-8", "replace"))
