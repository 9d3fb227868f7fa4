"""The results as words and numbers: the lines of tables, which Markdown and the page share, and Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bfq.reporting.published import Figure
from bfq.reporting.standing_tables import POOLED
from bfq.reporting.statistics import Summary
from bfq.reporting.tables import ABSENT, escaped, estimate_text, markdown_lines, number_text
from bfq.reproduction.results import mixed, successes
from bfq.reproduction.results.cells import Average, Cell, Outcome, Reading
from bfq.reproduction.results.rivals import rivals
from bfq.reproduction.results.together import Standing, Together, together

LEFT_OUT = "The paper's rows that were not asked for"
OVERVIEW = "Ours, and in brackets the paper's; its averages are those of its rows."
OURS = "Ours; the paper has no numbers."
CAPTIONS = {
    "scores": "Ours: mean ± standard deviation over seeds of the last checkpoint, with as many candidates as "
    "the paper's protocol has; N: the same weights with that many. Difference: ours − the paper's.",
    "speed": "Ours: mean ± standard deviation over the sizes of the robots. Difference: ours − the paper's.",
    "toy": "Mean ± standard deviation over seeds.",
}


TOGETHER = "All methods over the same rows"
OVER_ROWS = (
    "Over the rows in which all methods learnt from data of one name and every seed has a score ({}). Mean: "
    f"of the rows' means, with a 95% interval by Student's t after Welch and Satterthwaite. {POOLED}"
)
IMPROVEMENT = (
    "Last column: how likely a run of {} scores above one of the method, with a 95% stratified bootstrap "
    "interval; 0.5 is no difference."
)
RIVALS = "{} beside the best other method of each row"
BESIDE = (
    "Over the rows in which {0} and another method have a score of every seed and data of one name. The best "
    "other method is the one with the highest mean of these very seeds, of those that were run, which "
    "flatters it. In the last line the mean of the differences, with a 95% interval by Student's t after "
    "Welch and Satterthwaite."
)


@dataclass(frozen=True)
class Line:
    """A row of a table as text."""

    name: str
    cells: dict[str, str]  # by the heads of the columns
    verdict: str  # gain | loss | same, or nothing
    missing: str  # why there are no numbers, if so


class Comparison(NamedTuple):
    """Methods beside each other: a table of its own."""

    title: str
    head: list[str]
    lines: list[list[str]]
    words: str  # how to read it


class Brief(NamedTuple):
    """A cell in the overview: ours, and the paper's in brackets."""

    ours: str
    paper: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Section:
    """A row of the paper's table, told as a table of its own."""

    title: str
    words: str  # where its data is from
    lines: tuple[Line, ...]

    @property
    def head(self) -> list[str]:
        """The columns in which something stands."""
        names = dict.fromkeys(name for line in self.lines for name in line.cells)
        filled = [n for n in names if any(line.cells.get(n, ABSENT) != ABSENT for line in self.lines)]
        return filled or ["ours"]


class Footnotes:
    """Notes on the paper's numbers, each with one number wherever it is referred to."""

    def __init__(self, outcome: Outcome):
        self._outcome = outcome
        found = [note for cell in outcome.cells if cell.ours for note in outcome.notes(cell)]
        self.general = list(dict.fromkeys(note.text for note in found if not note.cells))
        self.texts = list(dict.fromkeys(note.text for note in found if note.cells))

    def marks(self, cell: Cell) -> str:
        """The numbers of a cell's notes."""
        own = [note.text for note in self._outcome.notes(cell) if note.cells and cell.ours]
        numbers = [self.texts.index(text) + 1 for text in own]
        return "".join(f" [{number}]" for number in sorted(set(numbers)))


def sections(outcome: Outcome, notes: Footnotes) -> list[Section]:
    """The rows that were begun; those without data are told apart."""
    filled = [row for row in outcome.rows if any(c.state != "unfilled" for c in outcome.of(row))]
    return [_section(outcome, row, notes) for row in filled]


def unfilled(outcome: Outcome) -> list[str]:
    """The rows that cannot be filled, a sentence each."""
    return list(dict.fromkeys(cell.why for cell in outcome.cells if cell.state == "unfilled"))


def left_out(outcome: Outcome) -> list[str]:
    """The paper's rows that were not asked for."""
    if outcome.experiment.kind != "scores":
        return []
    return [row for row in outcome.experiment.rows if row not in outcome.rows]


def overview(outcome: Outcome) -> list[tuple[str, list[Brief]]]:
    """All rows with numbers and all columns at once, then the averages."""
    shown = [row for row in outcome.rows if any(cell.ours for cell in outcome.of(row))]
    rows = [(row, [_brief(outcome, outcome.at(row, column)) for column in outcome.columns]) for row in shown]
    means = {(each.name, each.column): each for each in outcome.averages()}
    names = dict.fromkeys(name for name, _ in means)
    return rows + [(name, [_average(means.get((name, c))) for c in outcome.columns]) for name in names]


def caption(outcome: Outcome) -> str:
    """How to read the tables of the rows."""
    counted = any(successes.pooled(cell) for cell in outcome.cells)
    several = mixed.rows_of_several(outcome)
    more = [words for words, told in ((successes.WORDS, counted), (mixed.WORDS, several)) if told]
    return " ".join((CAPTIONS[outcome.experiment.kind], *more))


def comparisons(outcome: Outcome) -> list[Comparison]:
    """What the rows say together, as far as enough of them are filled."""
    return [each for each in (_all_methods(outcome), _rivals(outcome)) if each]


def _rivals(outcome: Outcome) -> Comparison | None:
    found = rivals(outcome)
    if found is None:
        return None
    lines = [
        [r.row, number_text(r.ours, 1), f"{number_text(r.theirs, 1)} {r.column}", signed(r.ours - r.theirs)]
        for r in found.rows
    ]
    if len(lines) > 1:
        lines.append(["mean", ABSENT, ABSENT, estimate_text(found.difference)])
    title, words = RIVALS.format(found.foremost), BESIDE.format(found.foremost)
    return Comparison(title, [found.foremost, "the best other", "difference"], lines, words)


def _all_methods(outcome: Outcome) -> Comparison | None:
    """Every method over the rows that all of them have."""
    found = together(outcome)
    if found is None:
        return None
    last = [f"{found.foremost} is better"] if found.foremost else []
    head = ["mean", "interquartile mean", *last]
    words = OVER_ROWS.format(", ".join(found.rows))
    words += f" {IMPROVEMENT.format(found.foremost)}" if found.foremost else ""
    lines = [_over_rows(outcome, found, each) for each in found.standings]
    return Comparison(TOGETHER, head, lines, words)


def _over_rows(outcome: Outcome, found: Together, each: Standing) -> list[str]:
    cells = [estimate_text(each.mean), estimate_text(each.interquartile_mean)]
    better = [estimate_text(each.improvement, 2) if each.improvement else ABSENT] if found.foremost else []
    return [outcome.experiment.named(each.column), *cells, *better]


def overview_words(outcome: Outcome) -> str:
    """What stands in the overview."""
    return OVERVIEW if outcome.experiment.table else OURS


def _brief(outcome: Outcome, cell: Cell | None) -> Brief:
    if cell is None or cell.ours is None:
        return Brief(ABSENT)
    printed = outcome.paper(cell)
    theirs = f"({number(printed.value, cell.unit)})" if printed else ""
    data = mixed.data_of(outcome, cell)
    ours = number(cell.ours.mean, cell.unit) + (f" on {data}" if data else "")
    return Brief(ours, theirs, outcome.verdict(cell))


def _average(average: Average | None) -> Brief:
    if average is None:
        return Brief(ABSENT)
    return Brief(number_text(average.ours, 1), f"({number_text(average.paper, 1)})")


def markdown(outcome: Outcome) -> str:
    """The whole of table.md."""
    notes = Footnotes(outcome)
    parts = [f"# {escaped(outcome.experiment.heading)}", escaped(outcome.experiment.about)]
    rows = overview(outcome)
    if len(rows) > 1:
        cells = [[escaped(row), *(f"{b.ours} {b.paper}".strip() for b in found)] for row, found in rows]
        parts += ["\n".join(markdown_lines(["", *outcome.columns], cells)), overview_words(outcome)]
    for section in sections(outcome, notes):
        parts += [f"## {escaped(section.title)}", *([escaped(section.words)] if section.words else [])]
        lines = [_markdown(line, section.head) for line in section.lines]
        parts.append("\n".join(markdown_lines(("", *section.head), lines)))
    parts += [caption(outcome)]
    for title, head, lines, words in comparisons(outcome):
        told = [[escaped(cell) for cell in line] for line in lines]
        parts += [f"## {title}", "\n".join(markdown_lines(("", *head), told)), escaped(words)]
    parts += _listed("Rows that cannot be filled", unfilled(outcome))
    parts += _listed(LEFT_OUT, left_out(outcome))
    parts += _listed("Failed", [f"{c.row}, {c.column}: {c.why}" for c in outcome.failed])
    parts += _listed("The paper's numbers", notes.general)
    parts += _listed("Notes on single numbers", notes.texts, numbered=True)
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(line: Line, head: Sequence[str]) -> list[str]:
    if line.missing:
        return [escaped(line.name), escaped(line.missing), *[""] * (len(head) - 1)]
    return [escaped(line.name), *(escaped(line.cells[name]) for name in head)]


def _listed(title: str, texts: Sequence[str], numbered: bool = False) -> list[str]:
    if not texts:
        return []
    lines = [f"{f'{k}.' if numbered else '-'} {escaped(text)}" for k, text in enumerate(texts, 1)]
    return [f"## {title}", "\n".join(lines)]


def _section(outcome: Outcome, row: str, notes: Footnotes) -> Section:
    cells = outcome.of(row)
    names = sorted({reading.name for cell in cells for reading in cell.readings}, key=_order)
    extra = tuple(names) if outcome.experiment.kind == "scores" else ()
    unit = next((cell.unit for cell in cells if cell.readings), "")
    title = f"{row}, {unit}" if unit and unit != row else row
    lines = tuple(_line(outcome, cell, extra, notes) for cell in cells)
    return Section(title, " ".join(source.words for source in outcome.sources_of(row)), lines)


def _order(name: str) -> tuple[bool, int]:
    """`N = 50` comes after `N = 1`, and after both what is no number of candidates."""
    digits = name.rpartition(" ")[2]
    return not name.startswith("N = "), int(digits) if digits.isdigit() else 0


def _line(outcome: Outcome, cell: Cell, extra: Sequence[str], notes: Footnotes) -> Line:
    name = outcome.experiment.named(cell.column)
    if cell.ours is None:
        return Line(name, {}, "", f"{cell.state}: {cell.why}")
    printed, difference = outcome.paper(cell), outcome.difference(cell)
    by_name = {reading.name: reading for reading in cell.readings}
    shown = {
        "ours": spread(cell.ours, cell.unit),
        "paper": f"{as_printed(printed, cell.unit)}{notes.marks(cell)}" if printed else ABSENT,
        "difference": signed(difference, cell.unit),
        **{each: _reading(by_name.get(each), cell.unit) for each in extra},
        "successes": counted.text if (counted := successes.pooled(cell)) else ABSENT,
        **dict(zip(("n", "updates"), cell.spent, strict=True)),
        **{name: text or ABSENT for name, text in mixed.differing(outcome, cell).items()},
    }
    return Line(name, shown, outcome.verdict(cell), "")


def _reading(reading: Reading | None, unit: str) -> str:
    return spread(reading.summary, unit) if reading and reading.summary else ABSENT


def number(value: float, unit: str) -> str:
    """A number with the digits that its kind deserves."""
    small = unit in ("energy distance", "sliced Wasserstein-2 distance", "share on filled squares")
    return number_text(value, 4 if small else 3 if unit == "hours" and abs(value) < 1 else 1)


def spread(summary: Summary, unit: str) -> str:
    """Mean ± standard deviation; one number has none."""
    mean = number(summary.mean, unit)
    return mean if summary.interval is None else f"{mean} ± {number(summary.std, unit)}"


def as_printed(figure: Figure, unit: str) -> str:
    """The paper's number, with its own digits where it has more."""
    mean = number(figure.value, unit)
    if figure.deviation is None:
        return mean
    digits = max(1, len(str(figure.deviation).partition(".")[2]))
    return f"{mean} ± {number_text(figure.deviation, digits)}"


def signed(difference: float | None, unit: str = "") -> str:
    """A difference with its sign."""
    if difference is None:
        return ABSENT
    return f"{'+' if difference > 0 else ''}{number(difference, unit)}"
