"""Trained policies at work: a strip of frames a row, from the run folder, the results, or a checkpoint.

Nothing is written here: whoever shows a strip keeps it among the results.
"""

import re
from pathlib import Path
from typing import NamedTuple

from bfq.errors import BadInput
from bfq.evaluation.film import strip
from bfq.evaluation.rollout import population_act
from bfq.experiment import environment_of, load_trained
from bfq.run import RUNS
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.shown.kept_pictures import kept_picture
from bfq_paper.shown.markup import Drawn
from bfq_paper.shown.run_folders import run_folder

ODD = re.compile(r"[^\w.=+-]", re.ASCII)  # what a file is not called
LONGEST = 200  # letters that a disk takes for a name, with some to spare
FRAMES = "frames.png"  # where a run keeps the strip of its first member
CAPTION = "The beginning of the first episode of {}, {}, after training."


class Strips(NamedTuple):
    """The strips that there are, and why others are not, a sentence each."""

    drawn: list[Drawn]
    missing: list[str]


def strips(outcome: Outcome, kept: Path) -> Strips:
    """One strip a row: of the foremost column, or of the first that was run. Nothing depends on them.

    Those of runs that are elsewhere are taken from the folder `kept`.
    """
    found = Strips([], [])
    if outcome.experiment.kind != "scores":
        return found
    for cell in _shown_cells(outcome):
        try:
            picture = frames(cell.provenance["run"], kept / file_of(cell))
        except Exception as error:  # noqa: BLE001 - graphics fail in many ways
            name = outcome.experiment.named(cell.column)
            found.missing.append(f"{cell.row}, {name}: {_told(error)}")
            continue
        found.drawn.append(_drawn(outcome, cell, picture))
    return found


def kept_strips(outcome: Outcome, kept: Path) -> list[Drawn]:
    """The strips that lie among the results already."""
    found = [(cell, kept_picture(kept / file_of(cell))) for cell in _shown_cells(outcome)]
    return [_drawn(outcome, cell, picture) for cell, picture in found if picture]


def _drawn(outcome: Outcome, cell: Cell, picture: bytes) -> Drawn:
    name = outcome.experiment.named(cell.column)
    caption = CAPTION.format(name, f"seed {cell.provenance['members'][0]['seed']}")
    title = outcome.experiment.entitled(f"At work: {cell.row}")
    return Drawn(file_of(cell), title, picture, caption, photo=True)


def _shown_cells(outcome: Outcome) -> list[Cell]:
    """Whose strip stands for each row."""
    return [cell for row in outcome.rows if (cell := _shown(outcome, row))]


def strip_files(outcome: Outcome) -> set[str]:
    """The names that strips of the cells may have."""
    return {file_of(cell) for cell in outcome.cells if cell.provenance.get("members")}


def file_of(cell: Cell) -> str:
    """The strip of a cell among the results, named after its run: none stands for another policy."""
    words = (cell.row, cell.column, Path(cell.provenance["run"]).name.rpartition("-")[2])
    return f"frames-{ODD.sub('-', '-'.join(words))[:LONGEST]}.png"  # results may be anybody's words


def frames(run: str, kept: Path) -> bytes:
    """The strip of a run's first member: its own, the kept one, else one drawn now."""
    folder = run_folder(run)
    if folder and (folder / FRAMES).is_file():
        return (folder / FRAMES).read_bytes()
    if picture := kept_picture(kept):
        return picture
    if folder is None:
        raise BadInput(f"its run {run} is not in the folder {RUNS}.")
    if not (folder / "config.json").exists():
        raise BadInput("its run is not on this machine.")
    return _draw(folder)


def _shown(outcome: Outcome, row: str) -> Cell | None:
    """Whose strip stands for a row; of a grid it is the first value, whose members come first in the run."""
    ran = [cell for cell in outcome.of(row) if cell.provenance.get("members")]
    return next((cell for cell in ran if cell.column == outcome.foremost), ran[0] if ran else None)


def _draw(folder: Path) -> bytes:
    """The last checkpoint acts under the run's own protocol."""
    trained = load_trained(folder)
    environment = environment_of(trained.run)
    if environment is None:
        raise BadInput(f"the run in {folder} has no simulator.")
    act = population_act(
        trained.population, trained.checkpoint.states, trained.transforms, trained.protocol
    )
    return strip(act, environment, trained.protocol, len(trained.population.members))


def _told(error: Exception) -> str:
    """One line of what went wrong: what is known to, and any other trouble of drawing."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if isinstance(error, BadInput) else f"could not be drawn here: {words}"
