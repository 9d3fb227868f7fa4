"""Learning curves, losses and scores as PNG bytes."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from bfq.reports import SUCCESS, Group, Run, Series, drawing, score_name
from bfq.reports.statistics import mean_text, summarize
from bfq.reports.tables import ScoreRow, ScoreTable, distinguishing_folder, standings

# Sizes are in inches.
ABOVE, BELOW, TALL = 0.59, 0.55, 3.06  # of a panel of curves
LEFT, RIGHT, CROWDED_RIGHT = 0.629, 1.961, 2.664  # beside it; labels of crowded panels are longer
CROWD = 6  # curves in a panel from which on they are thin and have no bands
COLUMNS, MULTIPLE = 3, 1.7  # small multiples per row, and the height of one
MARGIN = 0.08  # above and below all lines of a panel, relative to their range
BAND = "Shaded: its 95% interval, as far as the panel reaches. Faint: each seed."

SCORE_LINE, SCORES_ABOVE, SCORES_BELOW = 0.27, 0.78, 0.45  # of a method, and of a panel
SCORES_LEFT, SCORES_RIGHT = 0.37, 0.9  # of a panel, relative to the width of the figure
NAME, NOTED = 38, 34  # characters of a name, and of one with notes
ROOM = 0.3  # how far intervals may extend beyond all seeds, relative to the range of the seeds
SEEDS = (
    "Large dot: mean over seeds. Line: its 95% interval, with an arrow where it leaves the panel. "
    "Small dots: the seeds."
)


@dataclass(frozen=True)
class LearningCurve:
    """A line with its name and color."""

    name: str
    color: Any
    series: Series
    own: bool  # of the run itself, not of a baseline

    @property
    def last(self) -> float:
        """The mean at its end."""
        return float(np.nanmean(self.series.values[-1]))

    @property
    def several(self) -> bool:
        """Whether it has more than one seed."""
        return self.series.values.shape[1] > 1


@dataclass(frozen=True)
class CurvePanel:
    """Curves in one pair of axes."""

    title: str
    unit: str
    unit_name: str
    end: int
    data: float | None
    curves: tuple[LearningCurve, ...]
    single: bool  # of one run, whose own curves stand out

    @property
    def crowded(self) -> bool:
        """Whether there are too many curves for thick ones with bands."""
        return len(self.curves) > CROWD

    @property
    def bounds(self) -> tuple[float, float]:
        """The possible range of a score: a success rate lies between 0 and 100%."""
        return (0.0, 100.0) if self.unit_name == SUCCESS else (-np.inf, np.inf)

    def is_strong(self, curve: LearningCurve) -> bool:
        """Whether a curve is thick, with its seeds and their band."""
        return not self.crowded or (self.single and curve.own)

    @property
    def labels(self) -> list[drawing.Label]:
        """A name for each line, including that of the data."""
        small, labels = self.crowded, []
        for curve in self.curves:
            text = drawing.value_label(curve.name, curve.last, self.unit, small)
            end, strong = float(curve.series.steps[-1]), self.is_strong(curve)
            labels.append(drawing.Label(text, curve.color, end, curve.last, small, strong))
        if self.data is not None:
            text = drawing.value_label("Data", self.data, self.unit, small)
            labels.append(drawing.Label(text, drawing.QUIET, self.end, self.data, small, not small))
        return labels

    @property
    def height(self) -> float:
        """Inches between floor and title: more if the labels need them."""
        return max(TALL, sum(label.inches for label in self.labels) if self.crowded else 0.0)


def learning_curves(*runs: Run) -> bytes | None:
    """Score against updates; None if nothing was evaluated.

    Runs of one task that differ only in their agent share a panel; `curve_caption` explains it.
    """
    panels = curve_panels(runs)
    if not panels:
        return None
    right = CROWDED_RIGHT if any(panel.crowded for panel in panels) else RIGHT
    heights = [panel.height for panel in panels]
    figure = drawing.panel_figure(heights, LEFT, right, ABOVE, BELOW)
    for axes, panel in zip(figure.axes, panels, strict=True):
        draw_curve_panel(axes, panel)
    return drawing.as_png(figure)


def curve_caption(*runs: Run) -> str:
    """How to read the learning curves of these runs; mentions only what is drawn."""
    panels = curve_panels(runs)
    drawn = [(panel, curve) for panel in panels for curve in panel.curves]
    several = any(curve.several for _, curve in drawn)
    banded = any(curve.several and panel.is_strong(curve) for panel, curve in drawn)
    data = any(panel.data is not None for panel in panels)
    words = [f"Line: {'mean over seeds' if several else 'one seed'}, along training."]
    words += [BAND] if banded else []
    return " ".join([*words, "Dashed: mean of the data."] if data else words)


def share_panel(runs: Sequence[Run]) -> bool:
    """Return whether runs of one task differ only in their agent, so that one panel shows all."""
    single = all(len(each.groups) == 1 for run in runs for each in (run, *run.baselines))
    return single and len({run.agent for run in runs}) == len(runs) > 1


def losses(run: Run) -> bytes | None:
    """Small multiples of the training metrics; None if there are none."""
    names = run.metric_names("train")
    rows = -(-len(names) // COLUMNS)
    if not rows:
        return None
    size = drawing.WIDTH, MULTIPLE * rows + 0.1
    figure = Figure(figsize=size, dpi=drawing.DPI, facecolor="white", layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _draw_losses(axes, run, name)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    if len(run.groups) > 1:
        labels = [drawing.literal(group.label) for group in run.groups]
        look = {"frameon": False, "labelcolor": drawing.QUIET, "fontsize": 9, "handlelength": 1.4}
        figure.legend(panels[0].lines, labels, loc="outside lower left", ncols=COLUMNS, **look)
    return drawing.as_png(figure)


def curve_panels(runs: Sequence[Run]) -> list[CurvePanel]:
    """The panels of the runs that were evaluated."""
    runs = [run for run in runs if run.metric_names("evaluation")]
    colors = drawing.agent_colors(runs)
    panels: dict[str, CurvePanel] = {}
    for run in runs:
        same = [each for each in runs if each.task == run.task]
        if not share_panel(same):
            panels[str(run.folder)] = _run_panel(run, runs, colors)
        elif f"task {run.task}" not in panels:
            (table,) = standings(same)
            best_on_top = reversed(table.methods)
            entries = [(row.run, row.group, row.full_name) for row in best_on_top]
            panels[f"task {run.task}"] = _panel(table.task, same, entries, colors)
    return list(panels.values())


def _run_panel(run: Run, runs: Sequence[Run], colors: dict[str, Any]) -> CurvePanel:
    """The curves of the baselines, and on top those of the agent."""
    alone, folder = len(run.groups) == 1, distinguishing_folder(run, runs)
    entries = [(each, group, each.title) for each in run.baselines for group in each.groups]
    entries += [(run, group, run.title if alone else group.label) for group in run.groups]
    agent = "" if alone else run.agent if folder else run.title
    title = " · ".join(filter(None, (run.task, agent, folder)))
    return _panel(title, [run], entries, colors)


def _panel(
    title: str,
    runs: Sequence[Run],
    entries: Sequence[tuple[Run, Group, str]],
    colors: dict[str, Any],
) -> CurvePanel:
    normalized = all("normalized" in run.metric_names("evaluation") for run in runs)
    unit = "normalized" if normalized else "return"
    curves = []
    for run, group, name in entries:
        series = run.series("evaluation", unit, group)
        if len(series.steps):
            color = drawing.group_color(run, group, colors)
            curves.append(LearningCurve(name, color, series, run in runs))
    end = max([run.steps for run in runs] + [int(curve.series.steps[-1]) for curve in curves])
    data = runs[0].data.normalized_mean if normalized else runs[0].data.return_mean
    name = score_name(unit, runs)
    return CurvePanel(title, unit, name, end, data, tuple(curves), len(runs) == 1)


def draw_curve_panel(axes: Any, panel: CurvePanel) -> None:
    """Draw the curves of a panel, its heading and its labels."""
    for curve in panel.curves:
        _draw_curve(axes, curve, panel.is_strong(curve), panel.bounds)
    if panel.data is not None:
        axes.axhline(panel.data, color=drawing.QUIET, lw=1.3, ls=(0, (5, 3)), zorder=1)
    _style_training(axes, panel.end)
    _fit(axes)
    axes.set_xlabel("updates", color=drawing.QUIET, fontsize=drawing.FONT)
    seeds = [curve.series.values.shape[1] for curve in panel.curves] or [1]
    words = drawing.describe_unit(panel.unit_name, seeds, banded=not panel.crowded)
    drawing.draw_heading(axes, panel.title, words)
    drawing.label_ends(axes, panel.labels, panel.height)


def _draw_losses(axes: Any, run: Run, name: str) -> None:
    colors = drawing.agent_colors([run])
    for group in run.groups:
        color = drawing.group_color(run, group, colors)
        steps, values = run.series("train", name, group)
        low, high, mean = (of(values, axis=1) for of in (np.nanmin, np.nanmax, np.nanmean))
        axes.fill_between(steps, low, high, color=color, alpha=0.2, lw=0)
        axes.plot(steps, mean, color=color, lw=1.4, solid_capstyle="round")
    _style_training(axes, run.steps)
    axes.tick_params(labelsize=7.5)
    title = drawing.literal(name.replace("_", " "))
    axes.set_title(title, loc="left", color=drawing.INK, fontsize=9.5, pad=5)


def _draw_curve(axes: Any, curve: LearningCurve, strong: bool, bounds: tuple[float, float]) -> None:
    """A thick line with its seeds and interval, or a thin one."""
    steps, values = curve.series
    summaries = [summarize(row[np.isfinite(row)]) for row in values]
    mean = np.asarray([summary.mean for summary in summaries])
    if strong and curve.several:
        ends = [summary.interval or (summary.mean, summary.mean) for summary in summaries]
        low, high = np.clip(np.asarray(ends).T, *bounds)
        axes.plot(steps, values, color=curve.color, lw=0.7, alpha=0.28, zorder=2)
        axes.fill_between(steps, low, high, color=curve.color, alpha=0.16, lw=0, zorder=2)
    width, dot, edge = (2.4, 5.5, 1.2) if strong else (1.2, 4.0, 0.8)
    above = 4 if strong else 3
    axes.plot(steps, mean, color=curve.color, lw=width, zorder=above, solid_capstyle="round")
    end = {"ms": dot, "mec": "white", "mew": edge, "zorder": above + 1, "clip_on": False}
    axes.plot(steps[-1:], mean[-1:], "o", color=curve.color, **end)


def _fit(axes: Any) -> None:
    """Scale to the lines: the interval of two seeds would squeeze everything else."""
    values = [float(y) for line in axes.lines for y in line.get_ydata()]
    finite = [y for y in values if np.isfinite(y)]
    if finite:
        low, high = min(finite), max(finite)
        margin = MARGIN * (high - low) or MARGIN * abs(high) or MARGIN
        axes.set_ylim(low - margin, high + margin)


def _style_training(axes: Any, end: int) -> None:
    drawing.style_axes(axes)
    axes.set_xlim(0, max(end, 1))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3, steps=drawing.ROUND))
    axes.margins(y=0.08)


def score_figure(runs: Sequence[Run]) -> bytes | None:
    """The mean of each method with its 95% interval and its seeds; None if nothing was scored."""
    tables = [table for table in standings(runs) if table.caption]
    if not tables:
        return None
    colors, names = drawing.agent_colors(runs), method_names(tables)
    heights = [SCORE_LINE * len(table.methods) for table in tables]
    left, right = SCORES_LEFT * drawing.WIDTH, (1 - SCORES_RIGHT) * drawing.WIDTH
    figure = drawing.panel_figure(heights, left, right, SCORES_ABOVE, SCORES_BELOW)
    for axes, table in zip(figure.axes, tables, strict=True):
        _draw_scores(axes, table, colors, names)
    return drawing.as_png(figure)


def score_caption(runs: Sequence[Run]) -> str:
    """How to read the scores of these runs; mentions only what is drawn."""
    tables = standings(runs)
    scores = [row.score(table.unit) for table in tables for row in table.methods]
    data = any(row.score(table.unit) for table in tables for row in table.data)
    first = SEEDS if any(score and score.interval for score in scores) else "Dot: one seed."
    return f"{first} Dashed: the data." if data else first


def method_names(tables: Sequence[ScoreTable]) -> dict[str, str]:
    """A name for each method that fits the figure.

    If the notes of one setting of an agent do not fit, all its settings use the agent's short name.
    """
    methods = [row for table in tables for row in table.methods]
    short = {row.agent for row in methods if row.notes and len(row.full_name) > NOTED}
    found = {}
    for row in methods:
        name = f"{row.agent} {row.notes}" if row.agent in short else row.full_name
        found[row.full_name] = drawing.literal(textwrap.shorten(name, NAME, placeholder=" …"))
    return found


def _draw_scores(
    axes: Any, table: ScoreTable, colors: dict[str, Any], names: dict[str, str]
) -> None:
    """One line per method below the mean of the data."""
    drawing.style_axes(axes, grid="x")
    axes.set(xlim=score_limits(table), ylim=(len(table.methods) - 0.4, -0.6), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=drawing.ROUND))
    for place, method in enumerate(table.methods):
        axes.axhline(place, color=drawing.HAIR, lw=0.8, zorder=0)
        color = drawing.group_color(method.run, method.group, colors)
        _draw_method(axes, place, method, table.unit, color, names[method.full_name])
    for score in filter(None, (row.score(table.unit) for row in table.data)):
        axes.axvline(score.mean, color=drawing.QUIET, lw=1.3, ls=(0, (5, 3)), zorder=1)
        where = (score.mean, 1.0), (0, 4), axes.get_xaxis_transform(), "offset points"
        text = f"Data  {mean_text(score, table.unit, spread=False)}"
        axes.annotate(text, *where, color=drawing.QUIET, fontsize=9, ha="center")
    seeds = [row.seeds or 0 for row in table.methods]
    words = drawing.describe_unit(score_name(table.unit, table.runs), seeds)
    drawing.draw_heading(axes, table.task, words, left=_across(0.02), lift=13)


def _draw_method(axes: Any, place: int, method: ScoreRow, unit: str, color: Any, name: str) -> None:
    """The name, the interval, the seeds, their mean, and the mean as a number."""
    where = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
    axes.text(-0.03, place, name, color=drawing.INK, fontsize=9.5, **where)
    score = method.score(unit)
    mean = mean_text(score, unit, spread=False)
    axes.text(_across(0.985), place, mean, color=color, fontsize=9, **where)
    if score is None:
        return
    if score.interval:
        line = {"lw": 2.0, "alpha": 0.4, "zorder": 2, "solid_capstyle": "round"}
        axes.plot(score.interval, [place] * 2, color=color, **line)
        low, high = axes.get_xlim()
        arrow = {"color": color, "ms": 5, "mew": 0, "clip_on": False, "zorder": 3}
        if score.interval.low < low:
            axes.plot([low], [place], "<", **arrow)
        if score.interval.high > high:
            axes.plot([high], [place], ">", **arrow)
        values = method.values(unit)
        dots = {"ms": 3.6, "alpha": 0.85, "mew": 0, "zorder": 3}
        axes.plot(values, [place] * len(values), "o", color=color, **dots)
    axes.plot([score.mean], [place], "o", color=color, ms=7.5, mec="white", mew=1.2, zorder=4)


def score_limits(table: ScoreTable) -> tuple[float, float]:
    """All seeds and the data, and intervals as far as they do not squeeze everything else."""
    scores = [score for row in table.rows if (score := row.score(table.unit))]
    seeds = [value for row in table.methods for value in row.values(table.unit)]
    points = seeds + [score.mean for score in scores]
    ends = [end for score in scores for end in score.interval or ()]
    room = ROOM * (max(points) - min(points))
    low = min([min(points), *(max(end, min(points) - room) for end in ends)])
    high = max([max(points), *(min(end, max(points) + room) for end in ends)])
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def _across(place: float) -> float:
    """A place in widths of the figure, converted to widths of a panel from its left edge."""
    return (place - SCORES_LEFT) / (SCORES_RIGHT - SCORES_LEFT)
