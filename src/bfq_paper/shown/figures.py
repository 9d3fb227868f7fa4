"""The pictures of an experiment, drawn by the figures that reports have."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from bfq.errors import counted
from bfq.reports import Run
from bfq.reports.figures import learning_curves, score_figure
from bfq.reports.sweep_figures import sweep_figure
from bfq.run import Member
from bfq_paper.figures_extra import Colors, method_colors, settings_figure
from bfq_paper.plan.experiments import QUICK
from bfq_paper.profile_figure import profile_figure
from bfq_paper.radar_figure import radar_figure
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.mixed import warning
from bfq_paper.results.stored import folder_of
from bfq_paper.results.together import common
from bfq_paper.results.told_runs import told_runs
from bfq_paper.shown.captions import TIMED, TOY, caption, has_bars, heading
from bfq_paper.shown.frequency import frequency_and_score
from bfq_paper.shown.kept_pictures import kept_picture
from bfq_paper.shown.markup import Drawn
from bfq_paper.shown.run_folders import run_folder

K = TypeVar("K")
MOST = 6  # methods in one round
COUNT = re.compile("[1-9][0-9]{0,5}")  # inner steps that an axis can have
SEVERAL = 2  # tasks of a profile: of one the scores tell all
PROFILES = (
    "The share of runs, a run being a seed of a row, that score above τ: the higher a line, the better. "
    "Rows: {}."
)


def figures(outcome: Outcome, results: Path) -> list[Drawn]:
    """All pictures that the cells allow; `results` are those of the other experiments."""
    if outcome.experiment.kind == "scores":
        return _scores(outcome)
    if outcome.experiment.kind == "speed":
        return [*frequency_and_score(outcome, results), *_speed(outcome)]
    return _toy(outcome, results)


def _scores(outcome: Outcome) -> list[Drawn]:
    """The scores in the way that suits their number, all tasks at once, and along training."""
    runs = shown_runs(outcome)
    # Figures of runs color them in their order; the others get the same colors, and no two one.
    colors = method_colors(dict.fromkeys([*(run.agent for run in runs), *outcome.columns]))
    if outcome.experiment.symbol:
        first = _sweep(outcome)
    elif has_bars(outcome):
        first = _settings(outcome, colors)
    else:
        first = _standings(outcome, runs)
    curves = learning_curves(*runs) if runs else None
    last = [_drawn("learning_curves.png", outcome, curves, runs)] if curves else []
    rounds = [
        _warned(each, outcome) for each in (*([first] if first else []), *_radar(outcome, colors))
    ]
    return [*rounds, *_profiles(outcome, colors), *last]


def shown_runs(outcome: Outcome) -> list[Run]:
    """The runs behind the cells, under the table's names, the foremost method first."""
    runs = [_entitled(run, outcome) for run in told_runs(outcome)]
    return sorted(runs, key=lambda run: run.agent != outcome.foremost)


def _drawn(file: str, outcome: Outcome, picture: bytes, runs: Sequence[Run] = ()) -> Drawn:
    """A picture with its heading and its words."""
    return Drawn(file, heading(file, outcome), picture, caption(file, outcome, runs))


def _warned(drawn: Drawn, outcome: Outcome) -> Drawn:
    """A picture of whole rows, with a word on those in which not all methods had the same data."""
    return drawn._replace(caption=f"{drawn.caption}{warning(outcome, outcome.rows)}")


def _standings(outcome: Outcome, runs: list[Run]) -> Drawn | None:
    """A panel a task with a line a method, where bars would be too many."""
    picture = score_figure(runs) if runs else None
    return _drawn("scores.png", outcome, picture, runs) if picture else None


def _entitled(run: Run, outcome: Outcome) -> Run:
    """A run under the names that the table has for it, and that says so if it is but a quick one."""
    symbol = outcome.experiment.symbol
    labels = [
        cell.column for cell in outcome.cells if cell.provenance.get("run") == str(run.folder)
    ]
    name = labels[0] if len(set(labels)) == 1 and not symbol else run.agent
    if symbol:
        run = replace(run, members=[_renamed(member, symbol) for member in run.members])
    task = f"{run.task}: {QUICK}" if outcome.experiment.quick else run.task
    return replace(run, task=task, agent=name, title=name)


def _renamed(member: Member, symbol: str) -> Member:
    """Its one value under the paper's symbol."""
    return replace(member, overrides=dict(zip([symbol], member.overrides.values(), strict=False)))


def _values(cell: Cell) -> list[float]:
    return [value for value in cell.readings[0].values if value is not None]


def _scored(outcome: Outcome) -> dict[str, list[Cell]]:
    """The cells with numbers, by row."""
    found = {row: [cell for cell in outcome.of(row) if cell.ours] for row in outcome.rows}
    return {row: cells for row, cells in found.items() if cells}


def _printed(outcome: Outcome, cells: list[Cell]) -> dict[str, float]:
    """The paper's means by column; a quick run is not held against them."""
    if outcome.experiment.quick:
        return {}
    return {cell.column: figure.value for cell in cells if (figure := outcome.paper(cell))}


def _sweep(outcome: Outcome) -> Drawn | None:
    rows = _scored(outcome)
    panels = {row: {float(c.column): _values(c) for c in cells} for row, cells in rows.items()}
    paper = {
        row: {float(name): value for name, value in _printed(outcome, cells).items()}
        for row, cells in rows.items()
    }
    title, symbol = outcome.experiment.heading, outcome.experiment.symbol
    picture = sweep_figure(panels, title, symbol, outcome.units, _some(paper))
    return _drawn("ablation.png", outcome, picture) if picture else None


def _settings(outcome: Outcome, colors: Colors) -> Drawn | None:
    rows = _scored(outcome)
    panels = {row: {c.column: _values(c) for c in cells} for row, cells in rows.items()}
    paper = {row: _printed(outcome, cells) for row, cells in rows.items()}
    title = outcome.experiment.heading
    picture = settings_figure(panels, title, outcome.units, _some(paper), colors)
    return _drawn("scores.png", outcome, picture) if picture else None


def _some(paper: dict[str, dict[K, float]]) -> dict[str, dict[K, float]] | None:
    """The paper's numbers, or None where there are none to draw."""
    return paper if any(paper.values()) else None


def _profiles(outcome: Outcome, colors: Colors) -> list[Drawn]:
    """How the runs of each method are distributed, over the same rows."""
    methods = common(outcome)
    rows = next(iter(methods.values()), {})
    if len(rows) < SEVERAL:
        return []
    named = {outcome.experiment.named(column): scores for column, scores in methods.items()}
    title = heading("profiles.png", outcome)
    picture = profile_figure(named, title, outcome.units, colors)
    return (
        [Drawn("profiles.png", title, picture, PROFILES.format(", ".join(rows)))] if picture else []
    )


def _radar(outcome: Outcome, colors: Colors) -> list[Drawn]:
    """Many tasks in one round: BFQ, and the best of the others."""
    rows = _scored(outcome)
    if outcome.experiment.symbol or not rows:
        return []
    ours: dict[str, dict[str, float]] = {}
    for row, cells in rows.items():
        for cell in cells:
            assert cell.ours is not None
            ours.setdefault(cell.column, {})[row] = cell.ours.mean
    paper = {
        row: figure
        for row, cells in rows.items()
        if (figure := _printed(outcome, cells).get("bfq"))
    }
    ranked = sorted(ours, key=lambda name: (name != "bfq", -fmean(ours[name].values())))
    first = {name: ours[name] for name in ranked[:MOST]}
    title = outcome.experiment.heading
    printed = {"bfq": paper} if paper and "bfq" in ours else None
    picture = radar_figure(first, title, outcome.units, printed, colors)
    return [_drawn("radar.png", outcome, picture)] if picture else []


def _speed(outcome: Outcome) -> list[Drawn]:
    """A picture a measure, along the inner steps of each method, in means over robots."""
    drawn = []
    known = {
        row: cells for row, cells in _scored(outcome).items() if row in TIMED
    }  # no row names a file
    for row, cells in known.items():
        panels: dict[str, dict[float, list[float]]] = {}
        paper: dict[str, dict[float, float]] = {}
        for cell in cells:
            method, steps = _steps(cell.column)
            panels.setdefault(method, {})[steps] = [fmean(_values(cell))]
            printed = _printed(outcome, [cell])
            if printed:
                paper.setdefault(method, {})[steps] = printed[cell.column]
        robots = counted(len(cells[0].readings[0].values), "robot")
        title = outcome.experiment.entitled(row.capitalize())
        unit = f"{cells[0].unit}, mean over {robots}"
        picture = sweep_figure(panels, title, "steps", unit, paper or None, logarithmic=True)
        if picture:
            drawn.append(_drawn(TIMED[row], outcome, picture))
    return drawn


def _steps(column: str) -> tuple[str, float]:
    """`dql-5` is dql with five inner steps; an agent without a number has one."""
    method, _, steps = column.rpartition("-")
    return (method, float(steps)) if COUNT.fullmatch(steps) else (column, 1.0)


def _toy(outcome: Outcome, results: Path) -> list[Drawn]:
    """The picture of the run, or the one that is kept here if that is elsewhere."""
    runs = dict.fromkeys(
        run_folder(cell.provenance["run"]) for cell in outcome.cells if cell.readings
    )
    found = [picture for folder in filter(None, runs) if (picture := _own(folder / TOY))]
    if runs and not found:
        found = [*filter(None, [kept_picture(folder_of(outcome.experiment, results) / TOY)])]
    return [_drawn(TOY, outcome, picture) for picture in found[:1]]


def _own(path: Path) -> bytes | None:
    """A picture of a run of this project, if it is there."""
    with suppress(OSError):  # results may name a run that no folder can be called
        return path.read_bytes() if path.is_file() else None
    return None
