"""The README's tables, each between two marks, from the files in the folder that the first mark names.

`python -m bfq_paper.readme README.md` writes what stands between `<!-- results/main -->` and
`<!-- end -->` anew from `results/main/result.json` beside the README. An experiment of the paper without that
file leaves its block empty until it is run; the files of the other tables must be there.
"""

import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from bfq.command import Parser, exit_code
from bfq.errors import BadInput, unknown
from bfq.files import write_bytes
from bfq.reports.prose import ABSENT, estimate_text, number_text, ranged
from bfq.reports.tables import escaped, markdown_lines
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.plan.sources import Source
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.mixed import data_of
from bfq_paper.results.rivals import rivals
from bfq_paper.results.stored import heading_of, read_outcome, results_of
from bfq_paper.results.together import together
from bfq_paper.shown.readme_tables import TABLES, table
from bfq_paper.shown.table import number, signed, spread

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


def rewritten(text: str, root: Path) -> str:
    """A README with all its blocks as the files under `root` have them now."""
    _check_marks(MARK.findall(text))
    return BLOCK.sub(lambda found: f"{found[1]}{block(root, found[2])}{found[3]}", text)


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


def block(root: Path, name: str) -> str:
    """What stands between two marks: of an experiment a title, a table, a picture, and where it is from."""
    if name in TABLES:
        return table(root, name)
    if not (root / name / "result.json").exists():
        return ""
    outcome = read_outcome(root / name)
    results_of(outcome, root / name)  # refuses another experiment's file
    if not any(cell.ours for cell in outcome.cells):
        return ""
    pictures = [f"{name}/{file}" for file in PICTURES if (root / name / file).exists()]
    parts = [
        f"### {heading_of(outcome, name.removeprefix('results/'))}",
        "\n".join(_table(outcome)),
        *(f"![{outcome.experiment.heading}]({picture})" for picture in pictures[:1]),
        f"<sub>{_words(outcome, root, name)}</sub>",
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
                [escaped(f"{column}, {other}"), *(_protocol(cell, other) for cell in cells), ""]
            )
    head = ["", *(_head(outcome, row) for row in rows), MEAN]
    return (
        markdown_lines(head, lines) if means else markdown_lines(head[:-1], [x[:-1] for x in lines])
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
    return escaped(f"bfq, {name}" if plain else outcome.experiment.named(column))


def _head(outcome: Outcome, row: str) -> str:
    """The row, its data where these are not the published, and its unit where it is not told beneath."""
    first, *others = outcome.sources_of(row) or [Source(row, None, "", "")]
    source = "" if others else first.kind  # several are told at their numbers
    unit = next(cell.unit for cell in outcome.of(row) if cell.ours)
    plain = outcome.experiment.kind == "scores" or unit == row
    return escaped(f"{row}{'' if plain else f', {unit}'}") + (
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
    return f"{shown}{lost}{paper}{f' on {escaped(data)}' if data else ''}"


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


def _words(outcome: Outcome, root: Path, name: str) -> str:
    """What the numbers are, from which file, and by which command they were made."""
    done = [cell for cell in outcome.cells if cell.ours]
    page = f"; the page with everything: [`index.html`]({name}/index.html)"
    shown = page if (root / name / "index.html").exists() else ""
    return (
        f"{_spent(outcome, done)}; from [`{name}/result.json`]({name}/result.json), made by "
        f"{_made(outcome)} and put here by `make tables`{shown}.{_rivals(outcome)}{_gaps(outcome)}"
    )


def _rivals(outcome: Outcome) -> str:
    """How far ahead BFQ is of the best other method, over the rows that have one."""
    found = rivals(outcome)
    if found is None or outcome.experiment.quick:
        return ""
    each = ", ".join(signed(row.ours - row.theirs) for row in found.rows)
    mean = f"; mean {escaped(estimate_text(found.difference))}" if len(found.rows) > 1 else ""
    return f" BFQ less the best other method run so far, row by row: {each}{mean}."


def _made(outcome: Outcome) -> str:
    """The command, or how many there were."""
    first, *others = dict.fromkeys(call["command"] for call in outcome.calls)
    return f"the {len(others) + 1} commands that it lists" if others else f"`{_quoted(first)}`"


def _quoted(text: str) -> str:
    """Anybody's words as they may stand between backticks: they end neither these nor the block."""
    return " ".join("".join(letter for letter in text if letter not in "`<>").split())


def _spent(outcome: Outcome, done: Sequence[Cell]) -> str:
    """What stands in the table and what was spent on it."""
    seeds = ranged([len(cell.readings[0].values) for cell in done], "seed")
    compared = outcome.experiment.table and not outcome.experiment.quick
    noted = (
        f", {DOUBT}: with a note in `table.md`"
        if any(_doubt(outcome, cell) for cell in done)
        else ""
    )
    paper = f"; in brackets the paper's{noted}" if compared else ""
    if outcome.experiment.kind == "speed":
        devices = ", ".join(dict.fromkeys(str(cell.provenance.get("device")) for cell in done))
        return f"mean ± standard deviation over robots, measured on {escaped(devices)}{paper}"
    if outcome.experiment.kind == "toy":
        return f"mean ± standard deviation over {seeds}"
    budget = ", ".join((seeds, *_budget(done), f"last checkpoint{_precision(done)}"))
    found = together(outcome)
    count = len(found.rows) if found else 0
    over = f"; {MEAN}: over {count} rows that these methods have" if count > 1 else ""
    units = escaped(outcome.units)
    return f"{units}, mean ± standard deviation over {budget}{_legend(outcome, done)}{paper}{over}"


def _budget(done: Sequence[Cell]) -> list[str]:
    """Updates and episodes, as far as the cells tell them."""
    steps = [told for cell in done if (told := cell.provenance.get("steps")) is not None]
    records = [cell.readings[0].record for cell in done]
    episodes = [record["protocol"]["episodes"] for record in records if "protocol" in record]
    told = [ranged(steps, "update")] if steps else []
    return [*told, f"{ranged(episodes, 'episode')} a seed"] if episodes else told


def _legend(outcome: Outcome, done: Sequence[Cell]) -> str:
    """What a bold number is, and what stands in the lines beneath a method's own."""
    if not outcome.experiment.compares_methods:
        return ""
    others = _others(outcome, done)
    candidates = any(name.startswith("N = ") for name in others)
    averages = [name for name in others if name.startswith("mean")]
    return "".join(
        [
            "; bold: a task's highest of the scores in a method's first line",
            "; N: the same weights with that many candidates" if candidates else "",
            *(
                f"; {escaped(name)}: of the evaluations up to the last checkpoint's"
                for name in averages
            ),
        ]
    )


def _precision(done: Sequence[Cell]) -> str:
    """What the products of training were of; results of old do not say."""
    found = dict.fromkeys(word for cell in done if (word := cell.provenance.get("precision")))
    whose = ", which is whose in `table.md`" if len(found) > 1 else ""
    return f", trained with {escaped(' or '.join(found))} products{whose}" if found else ""


def _gaps(outcome: Outcome) -> str:
    """What the table has not."""
    empty = [row for row in outcome.rows if not any(cell.ours for cell in outcome.of(row))]
    return f" Not filled: {escaped(', '.join(empty))}." if empty else ""


def main() -> int:
    """Rewrites a README in its place."""
    parser = Parser(prog="python -m bfq_paper.readme", description=__doc__)
    parser.add_argument("readme", type=Path, nargs="?", default=Path("README.md"))
    return exit_code(lambda: _rewrite(parser.parse_args().readme))


def _rewrite(path: Path) -> None:
    try:
        content = path.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {error}.") from error
    ends = "\r\n" if "\r\n" in content else "\n"
    text = rewritten(content.replace("\r\n", "\n"), path.parent)
    write_bytes(path, text.replace("\n", ends).encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
