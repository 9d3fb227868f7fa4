"""The figures of an experiment, with titles and captions."""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import numpy as np

from bfq.reports.drawing import as_png
from bfq.reports.statistics import range_text
from bfq.reports.sweep_figures import sweep_figure
from bfq_paper.cells import Cell, Results, results_in
from bfq_paper.comparisons import complete_rows, mixed_rows, shared_scores
from bfq_paper.document import Picture
from bfq_paper.drawing import (
    Colors,
    Point,
    ScoreCurve,
    draw_bars,
    draw_frequencies,
    draw_profiles,
    draw_radar,
    draw_score_curves,
    method_colors,
)
from bfq_paper.experiments import EXPERIMENTS
from bfq_paper.published import PAPER

TOY = "toy.png"  # drawn by the run itself
MOST_METHODS = 6  # in a radar chart
TIMES = {"frequency": "frequency.png", "training time": "training_time.png"}
PNG = b"\x89PNG\r\n\x1a\n"
# Every figure that a folder may have, in the order of a page.
ORDER = ("frequency_and_score.png", "radar.png", "ablation.png", "scores.png", "frequency.png",
         "training_time.png", TOY, "profiles.png", "learning_curves.png")  # fmt: skip


def figures(results: Results, out: Path) -> list[Picture]:
    """All figures that the cells allow; `out` holds the results of the other experiments."""
    if results.experiment.kind == "scores":
        found = _score_figures(results)
    elif results.experiment.kind == "speed":
        found = [*_frequency_and_score(results, out), *_times(results)]
    else:
        caption = (
            "Black: the truth. Blue: what each method generates from the same noise, first seed."
        )
        found = [Picture(TOY, "Samples", caption)]
    folder = out / results.experiment.folder
    kept = [p for p in found if p.png or is_png(folder / p.file)]
    return [*sorted(kept, key=lambda p: ORDER.index(p.file)), *_frames(results, folder)]


def is_png(path: Path) -> bool:
    """Whether a file is a picture; results may come from another machine."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(PNG)) == PNG


def _score_figures(results: Results) -> list[Picture]:
    colors = method_colors(sorted(results.columns, key=lambda name: name != results.foremost))
    found = [_sweep(results) if results.experiment.symbol else _bars(results, colors)]
    if not results.experiment.symbol:
        found.append(_radar(results, colors))
    found += [_profiles(results, colors), _curves(results, colors)]
    return [picture for picture in found if picture]


def _values(cell: Cell) -> list[float]:
    return [value for value in cell.readings[0].values if value is not None]


def _scored(results: Results) -> dict[str, list[Cell]]:
    """The cells with numbers, by row."""
    found = {row: [cell for cell in results.of(row) if cell.ours] for row in results.rows}
    return {row: cells for row, cells in found.items() if cells}


def _printed(results: Results, cells: Iterable[Cell]) -> dict[str, float]:
    """The paper's means by column; a quick run is not compared with them."""
    if results.experiment.quick:
        return {}
    return {cell.column: paper.value for cell in cells if (paper := results.paper(cell))}


def _mixed(results: Results) -> str:
    rows = mixed_rows(results)
    return f" Trained on different data: {', '.join(rows)}." if rows else ""


def _sweep(results: Results) -> Picture | None:
    rows = _scored(results)
    panels = {row: {float(c.column): _values(c) for c in cells} for row, cells in rows.items()}
    paper = {
        row: {float(name): value for name, value in _printed(results, cells).items()}
        for row, cells in rows.items()
    }
    experiment = results.experiment
    drawn = paper if any(paper.values()) else None
    png = sweep_figure(panels, experiment.heading, experiment.symbol, results.units, drawn)
    caption = "Mean over seeds, one standard deviation, a dot per seed. Dashed: the paper's."
    title = f"Along {experiment.symbol}"
    return Picture("ablation.png", title, caption + _mixed(results), png) if png else None


def _bars(results: Results, colors: Colors) -> Picture | None:
    rows = _scored(results)
    if not rows:
        return None
    panels = {row: {c.column: _values(c) for c in cells} for row, cells in rows.items()}
    paper = {row: _printed(results, cells) for row, cells in rows.items()}
    png = as_png(draw_bars(panels, results.experiment.heading, results.units, paper, colors))
    caption = "Mean over seeds, one standard deviation, a dot per seed. Hollow: the paper's."
    return Picture("scores.png", "Scores", caption + _mixed(results), png)


def _radar(results: Results, colors: Colors) -> Picture | None:
    """BFQ and the best other methods, with an axis per row."""
    ours: dict[str, dict[str, float]] = {}
    for row, cells in _scored(results).items():
        for cell in cells:
            ours.setdefault(cell.column, {})[row] = fmean(_values(cell))
    ranked = sorted(ours, key=lambda name: (name != "bfq", -fmean(ours[name].values())))
    cells = [cell for cell in results.cells if cell.column == "bfq" and cell.ours]
    printed = {cell.row: value for cell in cells for value in _printed(results, [cell]).values()}
    methods = {name: ours[name] for name in ranked[:MOST_METHODS]}
    paper = {"bfq": printed} if printed else {}
    figure = draw_radar(methods, results.experiment.heading, results.units, paper, colors)
    caption = "An axis per task, from 0 to the best of all. Dashed: the paper's BFQ."
    if figure is None:
        return None
    return Picture("radar.png", "All tasks", caption + _mixed(results), as_png(figure))


def _profiles(results: Results, colors: Colors) -> Picture | None:
    scores = shared_scores(results)
    rows = next(iter(scores.values()), {})
    if len(rows) < 2:
        return None
    title = "Performance profiles"
    png = as_png(draw_profiles(scores, title, results.units, colors))
    caption = (
        f"The share of runs, one per seed and row, that score above τ. Rows: {', '.join(rows)}."
    )
    return Picture("profiles.png", title, caption, png)


def _curves(results: Results, colors: Colors) -> Picture | None:
    panels: dict[str, dict[str, ScoreCurve]] = {}
    for cell in results.cells:
        found = cell.run.get("evaluations", {})
        seeds = np.array(found.get("normalized", []), dtype=np.float64)
        if (
            seeds.ndim == 2
            and len(seeds) == len(found["steps"])
            and np.isfinite(seeds).any(1).all()
        ):
            panels.setdefault(cell.row, {})[cell.column] = ScoreCurve(found["steps"], seeds)
    if not panels:
        return None
    title = "Learning curves"
    png = as_png(draw_score_curves(panels, title, results.units, colors))
    return Picture("learning_curves.png", title, "Evaluations during training.", png)


def _times(results: Results) -> list[Picture]:
    """Frequencies and training times against the inner steps of each method."""
    pictures = []
    for row, cells in _scored(results).items():
        if row not in TIMES:
            continue
        panels: dict[str, dict[float, list[float]]] = {}
        paper: dict[str, dict[float, float]] = {}
        for cell in cells:
            method, steps = _inner_steps(cell.column)
            panels.setdefault(method, {})[steps] = [fmean(_values(cell))]
            for value in _printed(results, [cell]).values():
                paper.setdefault(method, {})[steps] = value
        title = row.capitalize()
        unit = (
            f"{cells[0].unit}, mean over {range_text([len(cells[0].readings[0].values)], 'robot')}"
        )
        png = sweep_figure(panels, title, "steps", unit, paper or None, logarithmic=True)
        caption = "Against the inner steps of a method. Dashed: the paper's, on another device."
        pictures += [Picture(TIMES[row], title, caption, png)] if png else []
    return pictures


def _inner_steps(column: str) -> tuple[str, float]:
    """`dql-5` is dql with five inner steps; a name without a number has one."""
    method, _, steps = column.rpartition("-")
    return (method, float(steps)) if re.fullmatch("[1-9][0-9]{0,5}", steps) else (column, 1.0)


def _frequency_and_score(results: Results, out: Path) -> list[Picture]:
    """Speed against the scores of the experiment `main`, over rows that all timed methods have."""
    if results.experiment.quick:
        return []
    scored = results_in(out, EXPERIMENTS["main"])
    timed = {c.column: fmean(_values(c)) for c in reversed(results.of("frequency"))}
    first = {_inner_steps(column)[0]: column for column in timed}  # the fewest steps, as scored
    seeds = {agent: found for agent in first if (found := complete_rows(scored, agent))}
    shared = set.intersection(*map(set, seeds.values())) if len(seeds) > 1 else set()
    rows = sorted(shared)
    if not rows:
        return []
    means = {a: fmean(fmean(seeds[a][row]) for row in rows) for a in seeds}
    ours = {a: Point(timed[first[a]], means[a]) for a in seeds}
    paper = {}
    for agent in ours:
        speed = PAPER["efficiency"].get(first[agent], "frequency")
        scores = [each.value for row in rows if (each := PAPER["full"].get(row, agent))]
        if speed and len(scores) == len(rows):
            paper[agent] = Point(speed.value, fmean(scores))
    title = "Frequency and score"
    png = as_png(
        draw_frequencies(
            ours, title, paper, method_colors(sorted(ours, key=lambda name: name != "bfq"))
        )
    )
    caption = f"Full: ours. Hollow: the paper's. Mean score over {', '.join(rows)}."
    return [Picture("frequency_and_score.png", title, caption, png)]


def frames_file(cell: Cell) -> str:
    """The file name of the frames of a cell's run."""
    words = (cell.row, cell.column, cell.folder.rpartition("-")[2])
    return f"frames-{re.sub(r'[^A-Za-z0-9_.=+-]', '-', '-'.join(words))[:200]}.png"


def _frames(results: Results, folder: Path) -> list[Picture]:
    """The trained policy of the foremost column of each row, if its run kept a picture."""
    pictures = []
    for row in results.rows:
        cells = sorted(results.of(row), key=lambda cell: cell.column != results.foremost)
        found = next((cell for cell in cells if is_png(folder / frames_file(cell))), None)
        if found:
            name = results.experiment.named(found.column)
            caption = f"The beginning of the first episode of {name} after training."
            pictures.append(Picture(frames_file(found), f"At work: {row}", caption))
    return pictures
