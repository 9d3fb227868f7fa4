"""What an experiment leaves in its folder: numbers, a table, pictures and a page, each whole or absent."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from bfq.errors import BadInput
from bfq.files import make_folder, write_bytes, write_json
from bfq_paper.results.cells import Outcome
from bfq_paper.results.stored import folder_of, record
from bfq_paper.shown.markdown import markdown


def write_numbers(outcome: Outcome, out: Path) -> None:
    """The numbers with all that they depend on, and the table of them."""
    folder = folder_of(outcome.experiment, out)
    numbers, table = record(outcome), markdown(outcome).encode("utf-8", "replace")
    make_folder(folder)
    write_json(folder / "result.json", numbers)
    write_bytes(folder / "table.md", table)


def write_pictures(outcome: Outcome, out: Path) -> None:
    """The figures, the page that holds them, and that of all experiments."""
    write_drawn(outcome, out, drawn(outcome, out))


def drawn(outcome: Outcome, out: Path) -> dict[str, bytes]:
    """The figures and the page that holds them, by the names of their files: nothing is written yet."""
    from bfq_paper.shown.figures import figures
    from bfq_paper.shown.page import page_of
    from bfq_paper.shown.strips import strips

    at_work = strips(outcome, folder_of(outcome.experiment, out))
    pictures = [*figures(outcome, out), *at_work.drawn]
    check_names(picture.file for picture in pictures)
    page = page_of(outcome, pictures, at_work.missing).encode("utf-8", "replace")
    return {**{picture.file: picture.png for picture in pictures}, "index.html": page}


def check_names(files: Iterable[str]) -> None:
    """Refuses a file that would not lie in the folder itself: its name may be anybody's words."""
    for file in files:
        if Path(file).name != file or not file.endswith(".png"):  # `..` is its own name
            raise BadInput(
                f"a picture cannot be called {file!r}: it would lie outside of the results."
            )


def write_drawn(outcome: Outcome, out: Path, files: Mapping[str, bytes]) -> None:
    """Puts what was drawn in its place, takes away what is drawn no longer, and tells of it on the front."""
    from bfq_paper.shown.captions import HEADINGS, TOY
    from bfq_paper.shown.front import front_page
    from bfq_paper.shown.strips import strip_files

    folder = folder_of(outcome.experiment, out)
    for name, content in files.items():
        write_bytes(folder / name, content)
    for path in set(folder.glob("frames-*.png")) - {folder / name for name in strip_files(outcome)}:
        path.unlink()  # the policy of a cell that was replaced
    for name in {*HEADINGS} - {TOY, *files}:
        (folder / name).unlink(missing_ok=True)  # of numbers that are there no longer
    if not outcome.experiment.quick:
        write_bytes(out / "index.html", front_page(out).encode("utf-8", "replace"))
