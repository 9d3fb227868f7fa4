"""Tables in Markdown pages, generated from the files in results/.

`python -m bfq_paper.pages` fills every block `<!-- results/NAME --> … <!-- end -->` in README.md and
docs/**/*.md. The block of an experiment without a result file stays empty.
"""

import os
import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from bfq.cli.words import Parser, exit_code
from bfq.errors import BadInput, unknown
from bfq.files import write_bytes
from bfq.reports.statistics import ABSENT, number_text, range_text
from bfq.reports.tables import escape_markdown, markdown_table
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.plan.sources import Source
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.mixed import data_of
from bfq_paper.results.stored import heading_of, read_outcome, results_of
from bfq_paper.results.together import together
from bfq_paper.shown.readme_tables import TABLES, table
from bfq_paper.shown.table import number, spread

PLACE = r"results/(?:[\w-]+/)?[\w-]+"  # a folder between: of another device, say
BLOCK = re.compile(rf"(<!-- ({PLACE}) -->\n).*?(<!-- end -->)", re.DOTALL)
MARK = re.compile(rf"<!-- ({PLACE}|end) -->")
DATA = {
    "imported": "not the published file",
    "rerolled": "data rolled out here",
    "local": "data made here",
    "embedded": "no task of the paper",
}
MEAN = "mean"
DOUBT = "†"  # at a number of the paper that has a note
# The first of these is shown.
PICTURES = (
    "frequency_and_score.png",
    "training_time.png",
    "ablation.png",
    "radar.png",
    "scores.png",
    "toy.png",
)


def pages(root: Path) -> list[Path]:
    """The Markdown files that may contain generated blocks."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def rewritten(text: str, root: Path, page: Path) -> str:
    """The text of a page with every block regenerated from the files under `root`."""
    _check_marks(MARK.findall(text))
    up = os.path.relpath(root, page.parent)
    up = "" if up == "." else f"{up}/"
    return BLOCK.sub(lambda found: f"{found[1]}{block(root, found[2], up)}{found[3]}", text)


def _check_marks(marks: Sequence[str]) -> None:
    """Refuses marks that do not pair: what stands between two blocks would be taken for one of them."""
    known = {*TABLES, *(f"results/{name}" for name in EXPERIMENTS)}
    for opening, closing in zip_longest(marks[::2], marks[1::2]):
        if opening == "end" or closing != "end":
            raise BadInput(
                f"the mark <!-- {opening} --> has no partner: each block needs its own <!-- end -->."
            )
        if opening not in known and f"results/{Path(opening).name}" not in known:
            raise unknown("table", opening, known)


def block(root: Path, name: str, up: str = "") -> str:
    """The content of a block; `up` leads from the page to the root."""
    if name in TABLES:
        return table(root, name, up)
    if not (root / name / "result.json").exists():
        return ""
    outcome = read_outcome(root / name)
    results_of(outcome, root / name)  # refuses another experiment's file
    if not any(cell.ours for cell in outcome.cells):
        return ""
    pictures = [f"{name}/{file}" for file in PICTURES if (root / name / file).exists()]
    title = heading_of(outcome, name.removeprefix("results/"))
    parts = [
        "\n".join(_table(outcome)),
        *(f"![{title}]({up}{picture})" for picture in pictures[:1]),
        f"<sub>{_words(outcome, name, up)}</sub>",
    ]
    return "\n\n".join(parts) + "\n"


def _table(outcome: Outcome) -> list[str]:
    """A line a method, and one for each other number of its candidates, row by row; then their mean."""
    rows = [row for row in outcome.rows if any(cell.ours for cell in outcome.of(row))]
    means = _means(outcome)
    lines = []
    for column in outcome.columns:
        cells = [outcome.at(row, column) for row in rows]
        if not any(cell and cell.ours for cell in cells):
            continue
        line = [_name(outcome, cells), *(_score(outcome, cell) for cell in cells)]
        lines.append([*line, means.get(column, ABSENT)])
        for other in _others(outcome, cells):
            lines.append(
                [
                    escape_markdown(f"{column}, {other}"),
                    *(_protocol(cell, other) for cell in cells),
                    "",
                ]
            )
    head = ["", *(_head(outcome, row) for row in rows), MEAN]
    return (
        markdown_table(head, lines) if means else markdown_table(head[:-1], [x[:-1] for x in lines])
    )


def _means(outcome: Outcome) -> dict[str, str]:
    """By column, over the same rows, where these are several."""
    found = together(outcome)
    several = found.standings if found and len(found.rows) > 1 else ()
    return {each.column: number_text(each.mean.value, 1) for each in several}


def _name(outcome: Outcome, cells: Sequence[Cell | None]) -> str:
    """A method; BFQ with its candidates, since these are varied beneath it."""
    column = next(cell.column for cell in cells if cell)
    name, *more = {cell.readings[0].name for cell in cells if cell and cell.readings}
    plain = column == "bfq" and not more
    return escape_markdown(f"bfq, {name}" if plain else outcome.experiment.named(column))


def _head(outcome: Outcome, row: str) -> str:
    """The row, its data where these are not the published, and its unit where it is not told beneath."""
    first, *others = outcome.sources_of(row) or [Source(row, None, "", "")]
    source = "" if others else first.kind  # several are told at their numbers
    unit = next(cell.unit for cell in outcome.of(row) if cell.ours)
    plain = outcome.experiment.kind == "scores" or unit == row
    return escape_markdown(f"{row}{'' if plain else f', {unit}'}") + (
        f" ({DATA[source]})" if source in DATA else ""
    )


def _score(outcome: Outcome, cell: Cell | None) -> str:
    """Ours, and the paper's in brackets; a seed without a score is told."""
    if cell is None or cell.ours is None:
        return ABSENT
    ours, printed = spread(cell.ours, cell.unit), outcome.paper(cell)
    shown = f"**{ours}**" if _is_best(outcome, cell) else ours
    lost = "" if cell.state == "done" else f", n = {cell.spent[0]}"
    compared = printed if not outcome.experiment.quick else None
    paper = f" ({number(compared.value, cell.unit)}{_doubt(outcome, cell)})" if compared else ""
    data = data_of(outcome, cell)
    return f"{shown}{lost}{paper}{f' on {escape_markdown(data)}' if data else ''}"


def _doubt(outcome: Outcome, cell: Cell) -> str:
    """A mark where the paper's number has a note."""
    return DOUBT if any(note.cells for note in outcome.notes(cell)) else ""


def _is_best(outcome: Outcome, cell: Cell) -> bool:
    """Whether no method has a higher mean in the row, as far as a reader sees; a lost seed cannot win."""
    if not outcome.experiment.compares_methods or cell.state != "done" or cell.ours is None:
        return False
    means = [
        other.ours.mean for other in outcome.of(cell.row) if other.ours and other.state == "done"
    ]
    return number(cell.ours.mean, cell.unit) == number(max(means), cell.unit)


def _others(outcome: Outcome, cells: Sequence[Cell | None]) -> list[str]:
    """The names of the protocols beside the one that is compared, where methods are."""
    if not outcome.experiment.compares_methods:
        return []
    return sorted({reading.name for cell in cells if cell for reading in cell.readings[1:]})


def _protocol(cell: Cell | None, name: str) -> str:
    found = [each.summary for each in (cell.readings[1:] if cell else ()) if each.name == name]
    return spread(found[0], cell.unit) if cell and found and found[0] else ABSENT


def _words(outcome: Outcome, name: str, up: str) -> str:
    """What the numbers are, and where the details are."""
    done = [cell for cell in outcome.cells if cell.ours]
    files = f"[table]({up}{name}/table.md), [data]({up}{name}/result.json)"
    return f"{_spent(outcome, done)}. Details: {files}."


def _spent(outcome: Outcome, done: Sequence[Cell]) -> str:
    """What the table contains and how much was trained for it."""
    noted = f", {DOUBT}: see its notes" if any(_doubt(outcome, cell) for cell in done) else ""
    compared = outcome.experiment.table and not outcome.experiment.quick
    paper = f"; in brackets the paper's{noted}" if compared else ""
    if outcome.experiment.kind == "speed":
        devices = ", ".join(dict.fromkeys(str(cell.provenance.get("device")) for cell in done))
        return f"Mean ± standard deviation over robots on {escape_markdown(devices)}{paper}"
    seeds = range_text([len(cell.readings[0].values) for cell in done], "seed")
    budget = ", ".join((seeds, *_budget(done), "last checkpoint"))
    best = "; bold: best of the task" if outcome.experiment.compares_methods else ""
    return f"{escape_markdown(outcome.units).capitalize()}, mean ± standard deviation over {budget}{best}{paper}"


def _budget(done: Sequence[Cell]) -> list[str]:
    """Updates and episodes."""
    steps = [each for cell in done if (each := cell.provenance.get("steps")) is not None]
    records = [cell.readings[0].record for cell in done]
    episodes = [record["protocol"]["episodes"] for record in records if "protocol" in record]
    return [range_text(steps, "update"), f"{range_text(episodes, 'episode')} per seed"]


def main() -> int:
    """Regenerate the blocks of all pages below the current folder."""
    parser = Parser(prog="python -m bfq_paper.pages", description=__doc__)
    parser.parse_args()
    return exit_code(lambda: rewrite(Path.cwd()))


def rewrite(root: Path) -> None:
    """Regenerate the blocks of all pages."""
    for page in pages(root):
        before = page.read_text()
        after = rewritten(before, root, page)
        if after != before:
            write_bytes(page, after.encode())


if __name__ == "__main__":
    sys.exit(main())
