"""The tables of an experiment: overview, rows in detail, methods over shared rows, notes and runs."""

from collections.abc import Sequence
from typing import Any

from bfq.reports.statistics import Summary, estimate_text, range_text
from bfq_paper.cells import Cell, Results
from bfq_paper.comparisons import (
    compare_methods,
    compare_with_best,
    data_label,
    mixed_rows,
    successes,
)
from bfq_paper.document import Block, Grid, Heading, Listing, Paragraph, number, signed
from bfq_paper.published import EMPTY, PaperNumber

SUCCESSES = (
    "Successes are counted over all episodes of all seeds, with Wilson's 95% interval in %. It holds for the "
    "policies trained here; ± shows how much seeds differ."
)
MIXED = "Cells of a row with a column 'data' were trained on different data."
SHARED = (
    "Rows in which these methods used data of one name and every seed has a score: {}. The mean is over rows, "
    "with a 95% interval by Student's t (Welch and Satterthwaite); the interquartile mean pools all seeds, "
    "with a stratified bootstrap interval."
)
IMPROVEMENT = (
    " The last column is the probability that a run of {} scores above one of the method; 0.5 means no "
    "difference."
)
BEST = (
    "The best other method is the one with the highest mean of these seeds, which favors it; a method that was "
    "not run yet favors BFQ. The last line is the mean difference with its 95% interval."
)


def spread(summary: Summary, unit: str) -> str:
    """Mean ± standard deviation with the same decimals; one number has no deviation."""
    mean = number(summary.mean, unit)
    if summary.interval is None:
        return mean
    digits = len(mean.partition(".")[2])
    return f"{mean} ± {summary.std:,.{digits}f}"


def as_printed(printed: PaperNumber, unit: str) -> str:
    """The paper's number with its own digits."""
    mean = number(printed.value, unit)
    if printed.deviation is None:
        return mean
    digits = max(1, len(str(printed.deviation).partition(".")[2]))
    return f"{mean} ± {printed.deviation:.{digits}f}"


def tables(results: Results) -> list[Block]:
    """Everything about an experiment except its pictures."""
    notes = _notes(results, single=True)
    return [
        *overview(results),
        *(block for row in results.rows for block in _row(results, row, notes)),
        Paragraph(_how_to_read(results)),
        *_shared_rows(results),
        *_best_others(results),
        *_listing("Not run yet", _missing(results)),
        *_listing("Failed", [f"{c.row}, {c.column}: {c.why}" for c in results.cells if c.why]),
        *_listing("The paper's numbers", _notes(results, single=False)),
        *_listing("Notes on single numbers", notes, numbered=True),
        *_runs(results),
    ]


def overview(results: Results) -> list[Block]:
    """All rows and columns in one table, then the paper's averages."""
    if len(results.rows) < 2:
        return []
    rows: list[list[str]] = []
    verdicts: dict[tuple[int, int], str] = {}
    for row in results.rows:
        cells = [results.at(row, column) for column in results.columns]
        verdicts |= {
            (len(rows), k): results.verdict(cell) for k, cell in enumerate(cells, 1) if cell
        }
        rows.append([row, *(_brief(results, cell) for cell in cells)])
    means = {(each.name, each.column): each for each in results.averages()}
    for name in dict.fromkeys(name for name, _ in means):
        found = [means.get((name, column)) for column in results.columns]
        rows.append(
            [name, *(f"{number(m.ours)} ({number(m.paper)})" if m else EMPTY for m in found)]
        )
    paper = " The paper's numbers are in parentheses." if results.experiment.table else ""
    return [Grid(["", *results.columns], rows, verdicts), Paragraph(f"Means.{paper}")]


def _brief(results: Results, cell: Cell | None) -> str:
    if cell is None or cell.ours is None:
        return EMPTY
    printed, data = results.paper(cell), data_label(results, cell)
    paper = f" ({number(printed.value, cell.unit)})" if printed else ""
    return f"{number(cell.ours.mean, cell.unit)}{f' on {data}' if data else ''}{paper}"


def _row(results: Results, row: str, notes: Sequence[str]) -> list[Block]:
    """A row of the paper's table as a table of its own; what all cells share is text above it."""
    cells = results.of(row)
    details = [_details(results, cell, notes) for cell in cells]
    names = [name for name in details[0] if any(each[name] != EMPTY for each in details)]
    shared = [n for n in ("updates", "precision", "episodes", "device", "data") if n in names]
    shared = [n for n in shared if len({each[n] for each in details}) == 1]
    head = [name for name in names if name not in shared]
    unit = cells[0].unit
    words = [f"{name}: {details[0][name]}" for name in shared]
    sources = dict.fromkeys(c.run.get("source", {}).get("words", "") for c in cells)
    body = [
        [results.experiment.named(c.column), *(d[n] for n in head)]
        for c, d in zip(cells, details, strict=True)
    ]
    verdicts = {}
    if "difference" in head:
        place = 1 + head.index("difference")
        verdicts = {(k, place): results.verdict(cell) for k, cell in enumerate(cells)}
    return [
        Heading(row if unit == row else f"{row}, {unit}"),
        Paragraph(" ".join([*sources, *([f"{', '.join(words)}."] if words else [])])),
        Grid(["", *head], body, verdicts),
    ]


def _details(results: Results, cell: Cell, notes: Sequence[str]) -> dict[str, str]:
    """Everything that a line says about a cell, by heading."""
    printed, counted = results.paper(cell), successes(cell)
    own = sorted({notes.index(note.text) + 1 for note in results.notes(cell) if note.cells})
    marks = "".join(f" [{k}]" for k in own)
    main, *others = cell.readings
    steps, values = cell.run.get("steps"), main.values
    found = sum(value is not None for value in values)
    names = dict.fromkeys(r.name for c in results.of(cell.row) for r in c.readings[1:])
    readings = {r.name: r.summary for r in others}
    interval = counted and [f"{100 * end:.1f}" for end in counted.interval]
    return {
        "ours": spread(cell.ours, cell.unit) if cell.ours else EMPTY,
        "with": main.name if results.experiment.kind == "scores" else EMPTY,
        "paper": f"{as_printed(printed, cell.unit)}{marks}" if printed else EMPTY,
        "difference": signed(results.difference(cell), cell.unit),
        **{n: spread(s, cell.unit) if (s := readings.get(n)) else EMPTY for n in sorted(names)},
        "successes": f"{counted.reached:,} of {counted.episodes:,} [{', '.join(interval)}]"
        if counted and interval
        else EMPTY,
        "n": str(found) if found == len(values) else f"{found} of {len(values)}",
        "updates": f"{steps:,}" if steps else EMPTY,
        "episodes": str(main.record.get("protocol", {}).get("episodes", EMPTY)),
        "precision": str(cell.run.get("precision") or EMPTY),
        "device": str(cell.run.get("device") or EMPTY),
        "data": data_label(results, cell) or EMPTY,
    }


def _how_to_read(results: Results) -> str:
    """How to read the tables of the rows."""
    over = {"speed": "robots", "scores": "seeds", "toy": "seeds"}[results.experiment.kind]
    words = [f"Ours: mean ± standard deviation over {over}."]
    if results.experiment.kind == "scores":
        words.append("Last checkpoint; a column N has the same weights with that many candidates.")
    words += [SUCCESSES] if any(map(successes, results.cells)) else []
    words += [MIXED] if mixed_rows(results) else []
    return " ".join(words)


def _shared_rows(results: Results) -> list[Block]:
    found = compare_methods(results)
    if found is None:
        return []
    head = [
        "",
        "mean",
        "interquartile mean",
        *([f"{found.foremost} is better"] * bool(found.foremost)),
    ]
    rows = []
    for each in found.methods:
        better = estimate_text(each.improvement, 2) if each.improvement else EMPTY
        cells = [estimate_text(each.mean), estimate_text(each.interquartile_mean), better]
        rows.append([results.experiment.named(each.column), *cells[: len(head) - 1]])
    words = SHARED.format(", ".join(found.rows))
    words += IMPROVEMENT.format(found.foremost) if found.foremost else ""
    left = f" Without these rows: {', '.join(found.left_out)}." if found.left_out else ""
    return [Heading("Methods over the same rows"), Grid(head, rows), Paragraph(words + left)]


def _best_others(results: Results) -> list[Block]:
    found = compare_with_best(results)
    if found is None:
        return []
    rows = [
        [r.row, number(r.ours), f"{number(r.theirs)} {r.column}", signed(r.ours - r.theirs)]
        for r in found.rows
    ]
    rows += [["mean", EMPTY, EMPTY, estimate_text(found.difference)]] if len(rows) > 1 else []
    return [
        Heading("BFQ and the best other method of each row"),
        Grid(["", "bfq", "the best other", "difference"], rows),
        Paragraph(BEST),
    ]


def _missing(results: Results) -> list[str]:
    if results.experiment.kind != "scores" or results.experiment.quick:
        return []
    return [row for row in results.experiment.rows if row not in results.rows]


def _notes(results: Results, single: bool) -> list[str]:
    """Notes on single numbers, or on a whole table of the paper."""
    notes = [note for cell in results.cells for note in results.notes(cell)]
    return list(dict.fromkeys(note.text for note in notes if bool(note.cells) == single))


def _listing(title: str, items: Sequence[str], numbered: bool = False) -> list[Block]:
    return [Heading(title), Listing(items, numbered)] if items else []


def _runs(results: Results) -> list[Block]:
    """Data, protocols, versions and commands, each once."""
    runs = [cell.run for cell in results.cells]
    data = {_data(run["data"]) for run in runs if "data" in run}
    records = [cell.readings[0].record.get("protocol", {}) for cell in results.cells]
    protocols = {", ".join(f"{name} {value}" for name, value in r.items()) for r in records if r}
    machines = {
        f"{run.get('device')}: " + ", ".join(f"{k} {v}" for k, v in run.get("versions", {}).items())
        for run in runs
    }
    commands = dict.fromkeys(run["command"] for run in runs if "command" in run)
    commands |= dict.fromkeys(call["command"] for call in results.commands)
    return [
        *_listing("Data", sorted(data)),
        *_listing("Evaluation", sorted(protocols)),
        *_listing("Machines", sorted(machines)),
        *_listing("Commands", list(commands)),
    ]


def _data(data: dict[str, Any]) -> str:
    size = (
        range_text([data["transitions"]], "transition") if "transitions" in data else "no data set"
    )
    source = data.get("source") or EMPTY
    return f"{data['name']}: {source}; {size}; SHA-256 {data.get('sha256') or EMPTY}"
