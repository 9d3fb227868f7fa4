"""Where the numbers of a page come from: data, protocols, machines and commands, each told once."""

from collections.abc import Iterable, Mapping, Sequence

from bfq.reports import Run
from bfq.reports.report import describe_data, describe_evaluation, describe_scale
from bfq.reports.statistics import ABSENT
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.told_runs import told_runs
from bfq_paper.shown.markup import Markup, facts, list_of, tag

EVALUATED = "How the learning curves were evaluated"


def provenance(outcome: Outcome) -> list[Markup]:
    """Every dataset and every protocol once, then every run with its device, versions and command."""
    done = [cell for cell in outcome.cells if {"run", "versions"} <= {*cell.provenance}]
    runs = told_runs(outcome)
    parts = [*_data(outcome, runs), *list_of(EVALUATED, protocols(outcome, runs))]
    if done:
        parts += [tag("h3", "Where it ran"), facts(_merged(map(_machine, done)))]
    told = {cell.provenance["run"]: cell.provenance for cell in done}
    commands = [
        tag("li", tag("code", each.get("command", folder))) for folder, each in told.items()
    ]
    return [
        *parts,
        *([tag("h3", "Runs"), tag("ul", *commands, class_="notes")] if commands else []),
    ]


def protocols(outcome: Outcome, runs: Sequence[Run]) -> list[str]:
    """Each protocol once, with whose it is where there are several; then what the scores of the rows are."""
    told: dict[str, list[Cell]] = {}
    scales: dict[str, dict[str, None]] = {}
    for run in runs:
        cells = _cells(outcome, run)
        told.setdefault(describe_evaluation(run), []).extend(cells)
        if run.scores:
            scales.setdefault(describe_scale(run), {}).update(
                dict.fromkeys(cell.row for cell in cells)
            )
    whose = {text: _whose(outcome, cells) for text, cells in told.items()}
    named = {text: ", ".join(rows) for text, rows in scales.items()}
    return [*_introduced(whose), *_introduced(named)]


def _cells(outcome: Outcome, run: Run) -> list[Cell]:
    """What a run fills."""
    return [cell for cell in outcome.cells if cell.provenance.get("run") == str(run.folder)]


def _introduced(texts: Mapping[str, str]) -> list[str]:
    """Texts after what they are of; one text is of everything."""
    return [f"{whose}: {text}" if len(texts) > 1 else text for text, whose in texts.items()]


def _whose(outcome: Outcome, cells: Sequence[Cell]) -> str:
    """Methods, with their rows where it is not all that they have: bc, iql; bfq on hopper-medium-v2."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for column in dict.fromkeys(cell.column for cell in cells):
        mine = tuple(dict.fromkeys(cell.row for cell in cells if cell.column == column))
        every = {cell.row for cell in outcome.cells if cell.column == column and cell.readings}
        rows = mine if every - {*mine} else ()
        columns.setdefault(rows, []).append(outcome.experiment.named(column))
    told = [(", ".join(names), ", ".join(rows)) for rows, names in columns.items()]
    return "; ".join(f"{names} on {rows}" if rows else names for names, rows in told)


def _data(outcome: Outcome, runs: Sequence[Run]) -> list[Markup]:
    """Each dataset; methods may change its numbers in different ways before learning."""
    words = {
        source.data: source.words for row in outcome.rows for source in outcome.sources_of(row)
    }
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.data.name, run.data.sha256 or ""), []).append(run)
    parts: list[Markup] = []
    for (name, _), several in found.items():
        told = {"what": words.get(name, ABSENT), **_told_apart(outcome, several)}
        parts += [tag("h3", f"Data: {name}"), facts(told)]
    return parts


def _told_apart(outcome: Outcome, runs: Sequence[Run]) -> dict[str, str]:
    """What the runs say of one dataset, with whose it is where they differ."""
    whose: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        columns = dict.fromkeys(
            outcome.experiment.named(cell.column) for cell in _cells(outcome, run)
        )
        for name, text in describe_data(run).items():
            whose.setdefault(name, {}).setdefault(text, []).extend(columns)
    named = {
        name: {text: ", ".join(columns) for text, columns in texts.items()}
        for name, texts in whose.items()
    }
    return {name: "; ".join(_introduced(texts)) for name, texts in named.items()}


def _machine(cell: Cell) -> dict[str, str]:
    """The device and the versions behind a cell."""
    versions = {name: str(version) for name, version in cell.provenance["versions"].items()}
    return {"device": cell.provenance.get("device") or ABSENT, **versions}


def _merged(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """By name all values that there are."""
    told = list(several)
    names = dict.fromkeys(name for each in told for name in each)
    return {
        name: ", ".join(dict.fromkeys(each.get(name, ABSENT) for each in told)) for name in names
    }
