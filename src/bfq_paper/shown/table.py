"""The results as words and numbers: the lines of tables, which Markdown and the page share."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bfq.reports.statistics import ABSENT, Summary, number_text
from bfq_paper.published import Figure
from bfq_paper.results import mixed, successes
from bfq_paper.results.cells import Average, Cell, Outcome, Reading

LEFT_OUT = "The paper's rows that were not run yet"
OVERVIEW = "Ours, and in brackets the paper's{}."
AVERAGES = "; its averages are those of its rows"
OURS = "Ours; the paper has no numbers."
CAPTIONS = {
    "scores": "Ours: {} of the last checkpoint, with as many candidates N as the paper's protocol has.",
    "speed": "Ours: mean ± standard deviation over the sizes of the robots.",
    "toy": "Ours: {}.",
}
OTHER = "A column N: the same weights with that many."
DIFFERENCE = "Difference: ours − the paper's."
SPENT = {  # columns in whose place words stand where all lines have the same
    "n": "{} {}",
    "updates": "{} updates",
    "episodes": "{} episodes a seed",
    "precision": "trained with {} products",
    "device": "on {}",
}


@dataclass(frozen=True)
class Line:
    """A row of a table as text."""

    name: str
    cells: dict[str, str]  # by the heads of the columns
    verdict: str  # gain | loss | same, or nothing
    missing: str  # why there are no numbers, if so


class Brief(NamedTuple):
    """A cell in the overview: ours, and the paper's in brackets."""

    ours: str
    paper: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Section:
    """A row of the paper's table, told as a table of its own."""

    title: str
    words: str  # where its data is from, and what all lines share
    lines: tuple[Line, ...]

    @property
    def head(self) -> list[str]:
        """The columns in which something stands."""
        names = dict.fromkeys(name for line in self.lines for name in line.cells)
        filled = [
            n for n in names if any(line.cells.get(n, ABSENT) != ABSENT for line in self.lines)
        ]
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
    """The paper's rows that nobody has run yet."""
    if outcome.experiment.kind != "scores":
        return []
    return [row for row in outcome.experiment.rows if row not in outcome.rows]


def overview(outcome: Outcome) -> list[tuple[str, list[Brief]]]:
    """All rows with numbers and all columns at once, then the averages."""
    shown = [row for row in outcome.rows if any(cell.ours for cell in outcome.of(row))]
    rows = [
        (row, [_brief(outcome, outcome.at(row, column)) for column in outcome.columns])
        for row in shown
    ]
    means = {(each.name, each.column): each for each in outcome.averages()}
    names = dict.fromkeys(name for name, _ in means)
    return rows + [
        (name, [_average(means.get((name, c))) for c in outcome.columns]) for name in names
    ]


def caption(outcome: Outcome) -> str:
    """How to read the tables of the rows: of nothing that does not stand there."""
    done = [cell for cell in outcome.cells if cell.ours]
    several = any(cell.ours.n > 1 for cell in done if cell.ours)
    spread_of = "mean ± standard deviation over seeds" if several else "one seed"
    sentences = {
        CAPTIONS[outcome.experiment.kind].format(spread_of): True,
        OTHER: any(_others(outcome.of(row)) for row in outcome.rows)
        and outcome.experiment.kind == "scores",
        DIFFERENCE: any(outcome.difference(cell) is not None for cell in done),
        successes.WORDS: any(successes.pooled(cell) for cell in done),
        mixed.WORDS: bool(mixed.rows_of_several(outcome)),
    }
    return " ".join(words for words, told in sentences.items() if told)


def verdict(outcome: Outcome, cell: Cell) -> str:
    """By which a cell is colored: times are not, since the paper's are another device's."""
    return "" if outcome.experiment.kind == "speed" else outcome.verdict(cell)


def overview_words(outcome: Outcome) -> str:
    """What stands in the overview."""
    if not outcome.experiment.table:
        return OURS
    printed = any(outcome.paper(cell) for cell in outcome.cells if cell.ours)
    return OVERVIEW.format(AVERAGES if outcome.averages() else "") if printed else "Ours."


def _brief(outcome: Outcome, cell: Cell | None) -> Brief:
    if cell is None or cell.ours is None:
        return Brief(ABSENT)
    printed = outcome.paper(cell)
    theirs = f"({number(printed.value, cell.unit)})" if printed else ""
    data = mixed.data_of(outcome, cell)
    ours = number(cell.ours.mean, cell.unit) + (f" on {data}" if data else "")
    return Brief(ours, theirs, verdict(outcome, cell))


def _average(average: Average | None) -> Brief:
    if average is None:
        return Brief(ABSENT)
    return Brief(number_text(average.ours, 1), f"({number_text(average.paper, 1)})")


def _section(outcome: Outcome, row: str, notes: Footnotes) -> Section:
    """A row with its methods; what all of them share stands in its words."""
    cells = outcome.of(row)
    extra = _others(cells) if outcome.experiment.kind == "scores" else ()
    unit = next((cell.unit for cell in cells if cell.readings), "")
    title = f"{row}, {unit}" if unit and unit != row else row
    lines = [_line(outcome, cell, extra, notes) for cell in cells]
    shared = _shared(lines)
    words = [*(source.words for source in outcome.sources_of(row)), *_candidates(outcome, cells)]
    return Section(
        title, " ".join((*words, *_spent(outcome, shared))), tuple(_without(lines, shared))
    )


def _others(cells: Sequence[Cell]) -> tuple[str, ...]:
    """The readings that some cell has beside the one that is compared, which would but repeat ours."""
    names = {reading.name for cell in cells for reading in cell.readings[1:]}
    return tuple(sorted(names, key=_order))


def _candidates(outcome: Outcome, cells: Sequence[Cell]) -> list[str]:
    """Which reading ours is, where no column tells it."""
    if outcome.experiment.kind != "scores":
        return []
    done, others = [cell for cell in cells if cell.ours], _others(cells)
    whose: dict[str, list[str]] = {}
    for cell in done:
        whose.setdefault(cell.readings[0].name, []).append(outcome.experiment.named(cell.column))
    told = {name: columns for name, columns in whose.items() if name not in others}
    return [
        f"Ours: {name}." if len(columns) == len(done) else f"Ours of {', '.join(columns)}: {name}."
        for name, columns in told.items()
    ]


def _shared(lines: Sequence[Line]) -> dict[str, str]:
    """The columns of what was spent that say the same in all lines with numbers."""
    done = [line for line in lines if not line.missing]
    found = {name: {line.cells[name] for line in done if name in line.cells} for name in SPENT}
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _spent(outcome: Outcome, shared: dict[str, str]) -> list[str]:
    """The same in words."""
    noun = "robot" if outcome.experiment.kind == "speed" else "seed"
    nouns = noun if shared.get("n") == "1" else f"{noun}s"
    told = [SPENT[name].format(text, nouns) for name, text in shared.items() if text != ABSENT]
    return [f"Each: {', '.join(told)}."] if told else []


def _without(lines: Sequence[Line], names: Collection[str]) -> list[Line]:
    """Lines without some columns."""
    return [
        replace(line, cells={name: text for name, text in line.cells.items() if name not in names})
        for line in lines
    ]


def _order(name: str) -> tuple[bool, int]:
    """`N = 50` comes after `N = 1`, and after both what is no number of candidates."""
    digits = name.rpartition(" ")[2]
    return not name.startswith("N = "), int(digits) if digits.isdecimal() and len(
        digits
    ) < 10 else 0


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
    return Line(name, shown, verdict(outcome, cell), "")


def _reading(reading: Reading | None, unit: str) -> str:
    return spread(reading.summary, unit) if reading and reading.summary else ABSENT


def number(value: float, unit: str) -> str:
    """A number with the digits that its kind deserves."""
    return number_text(value, _digits(value, unit))


def _digits(value: float, unit: str) -> int:
    """Decimals of a number."""
    small = unit in ("energy distance", "sliced Wasserstein-2 distance", "share on filled squares")
    return 4 if small else 3 if unit == "hours" and abs(value) < 1 else 1


def spread(summary: Summary, unit: str) -> str:
    """Mean ± standard deviation, with as many decimals; one number has none."""
    mean, digits = number(summary.mean, unit), _digits(summary.mean, unit)
    return mean if summary.interval is None else f"{mean} ± {number_text(summary.std, digits)}"


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
    digits = _digits(max(abs(difference), 1.0), unit)  # no more than the paper's number has
    return f"{'+' if difference > 0 else ''}{number_text(difference, digits)}"
