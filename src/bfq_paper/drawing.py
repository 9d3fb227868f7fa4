"""Figures of experiments: bars, radar charts, profiles, learning curves, frequencies."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from bfq.reports.drawing import (
    COLORS,
    FONT,
    HAIR,
    INK,
    QUIET,
    ROUND,
    WIDTH,
    draw_heading,
    literal,
    panel_figure,
    style_axes,
    wrap_evenly,
)
from bfq.reports.statistics import Scores, Values, performance_profile, range_text, summarize
from bfq_paper.document import number

Colors = Mapping[str, Any]
Means = Mapping[str, Mapping[str, float]]  # by method, then by row
LETTER, SWATCH, LINE = 0.088, 0.42, 0.2  # inches: a bold letter, the dash before it, a line
LONGEST = 34  # characters of a name in a legend
RIGHT, BELOW = 0.2, 0.62  # inches beside and below a panel
LEAST_AXES = 3  # of a radar chart


def method_colors(names: Iterable[str]) -> dict[str, Any]:
    """A color per method, in their order."""
    return dict(zip(names, cycle(COLORS), strict=False))


class Legend:
    """Names in their colors, in evenly filled columns above a panel; sizes are in inches."""

    def __init__(self, colors: Colors, wide: float):
        self.colors, self.wide = colors, wide
        self.names = [textwrap.shorten(name, LONGEST, placeholder=" …") for name in colors]
        self.step = min(wide, SWATCH + LETTER * max(map(len, self.names)))
        lines = math.ceil(len(self.names) / int(wide / self.step))
        self.columns = math.ceil(len(self.names) / lines)
        self.inches = LINE * math.ceil(len(self.names) / self.columns)

    def draw(self, axes: Any, left: float = 0.0, lift: float = 0.0) -> None:
        """Draw it above axes; `left` in widths of the axes, `lift` in inches."""
        for k, (name, color) in enumerate(zip(self.names, self.colors.values(), strict=True)):
            across = self.step * (k % self.columns)
            over = lift + self.inches - LINE * (k // self.columns + 0.5)
            where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
            look = {"color": color, "fontsize": 9.5, "fontweight": "bold"}
            axes.annotate(
                f"━ {literal(name)}", (left, 1), (72 * across, 72 * over), **where, **look
            )


def draw_bars(
    panels: Mapping[str, Mapping[str, Values]],
    title: str,
    unit: str,
    paper: Means,
    colors: Colors,
) -> Figure:
    """Bars per row and column: mean, standard deviation, a dot per seed; hollow dots: the paper's means."""
    names = list(dict.fromkeys(name for bars in panels.values() for name in bars))
    left, bar, gap, above = 1.75, 0.21, 0.17, 0.64
    legend = Legend({name: colors[name] for name in names}, WIDTH - left - RIGHT)
    group = bar * len(names) + gap
    figure = panel_figure([group * len(panels)], left, RIGHT, above + legend.inches, BELOW)
    axes: Any = figure.axes[0]
    style_axes(axes, grid="x")
    for k, (row, bars) in enumerate(panels.items()):
        for name, values in bars.items():
            middle = k + bar / group * (names.index(name) - (len(names) - 1) / 2)
            printed = paper.get(row, {}).get(name)
            _draw_bar(axes, middle, 0.86 * bar / group, values, printed, colors[name])
    axes.set_ylim(len(panels) - 0.5, -0.5)
    axes.set_yticks(range(len(panels)), [wrap_evenly(row, 20, 2) for row in panels])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_xlabel(literal(unit), color=QUIET, fontsize=FONT)
    seeds = [len(values) for bars in panels.values() for values in bars.values()]
    words = f"{unit}, mean ± standard deviation, dots: {range_text(seeds, 'seed')}"
    words += "; hollow: the paper" if any(paper.values()) else ""
    lift = legend.inches + 0.04
    draw_heading(axes, title, words, (0.2 - left) / legend.wide, 72 * lift)
    legend.draw(axes, lift=0.04)
    return figure


def _draw_bar(
    axes: Any, middle: float, width: float, values: Values, printed: float | None, color: Any
) -> None:
    score = summarize(values)
    ends = middle - width / 2, middle + width / 2
    axes.barh(middle, score.mean, width, color=color, alpha=0.35, zorder=2)
    axes.plot([score.mean] * 2, ends, color=color, lw=2.4, zorder=3)  # visible at a mean of 0
    if score.n > 1:
        look = {"fmt": "none", "ecolor": color, "elinewidth": 1.4, "zorder": 3}
        axes.errorbar(score.mean, middle, xerr=score.std, **look)
    apart = width * np.linspace(-0.28, 0.28, score.n) if score.n > 1 else np.zeros(1)
    axes.plot(values, middle + apart, "o", color=color, ms=4.2, mec="white", mew=0.6, zorder=4)
    if printed is not None:
        axes.plot([printed], [middle], "o", ms=6.5, mfc="white", mec=INK, mew=1.3, zorder=5)


def draw_radar(
    methods: Means, title: str, unit: str, paper: Means, colors: Colors
) -> Figure | None:
    """A polygon per method with an axis per row, from 0 to the best; dashed: the paper's."""
    everyone = [*methods.values(), *paper.values()]
    names = list(dict.fromkeys(row for m in sorted(everyone, key=len, reverse=True) for row in m))
    if len(names) < LEAST_AXES:
        return None
    best = {row: max(m[row] for m in everyone if row in m) for row in names}
    side, above, below, edge = 4.3, 1.3, 0.75, 0.3
    legend = Legend({name: colors[name] for name in methods}, WIDTH - 2 * edge)
    left = (WIDTH - side) / 2
    figure = panel_figure([side], left, left, above + legend.inches, below, projection="polar")
    axes: Any = figure.axes[0]
    _style_radar(axes, best)
    for k, (name, means) in enumerate(methods.items()):
        look = {"lw": 1.9, "marker": "o", "ms": 4, "mew": 0, "zorder": 30 - k}
        _draw_polygon(axes, shares_of_best(means, best), colors[name], filled=k == 0, **look)
    for name, means in paper.items():
        dashed = {"lw": 1.2, "ls": (0, (4, 2.5)), "marker": "o", "ms": 3.5, "mfc": "white"}
        _draw_polygon(axes, shares_of_best(means, best), colors[name], filled=False, **dashed)
    words = f"{unit} as a share of the best, which stands at its axis"
    words += "; dashed: the paper" if paper else ""
    words += "; gap: no score" if any(set(m) != set(names) for m in everyone) else ""
    over, start = above - 0.62, (edge - left) / side
    draw_heading(axes, title, words, left=start, lift=72 * (over + legend.inches))
    legend.draw(axes, left=start, lift=over)
    return figure


def shares_of_best(
    means: Mapping[str, float], best: Mapping[str, float]
) -> npt.NDArray[np.float64]:
    """Scores as shares of the best; NaN where there is none, 0 for negative scores."""
    return np.array(
        [
            max(means[row], 0.0) / best[row] if row in means and best[row] > 0 else np.nan
            for row in best
        ]
    )


def _draw_polygon(
    axes: Any, radii: npt.NDArray[np.float64], color: Any, filled: bool, **look: Any
) -> None:
    """A closed line, broken where a score is missing."""
    angles = np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    closed = np.append(angles, 2 * np.pi), np.append(radii, radii[0])
    axes.plot(*closed, color=color, clip_on=False, **look)
    if filled and np.isfinite(radii).all():
        axes.fill(*closed, color=color, alpha=0.1, lw=0, zorder=5)


def _style_radar(axes: Any, best: Mapping[str, float]) -> None:
    """Axes clockwise from the top, rings at quarters of the best, names with the best outside."""
    angles = np.linspace(0, 2 * np.pi, len(best), endpoint=False)
    rings = (0.25, 0.5, 0.75, 1.0)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set(ylim=(0, 1), yticks=rings, yticklabels=[], xticks=angles, xticklabels=[])
    axes.grid(color=HAIR, lw=0.8)
    axes.spines["polar"].set_color("#B8C0C8")
    for ring in rings[:-1]:
        look = {"ha": "center", "va": "center", "color": QUIET, "fontsize": 7.5, "zorder": 40}
        axes.text(np.pi / len(best), ring, f"{100 * ring:.0f}%", **look)
    for (name, value), angle in zip(best.items(), angles, strict=True):
        across, up = np.sin(angle), np.cos(angle)
        axes.annotate(
            f"{wrap_evenly(name, 19, 3)}\n{number(value)}",
            (angle, 1.0),
            (9 * across, 9 * up),
            textcoords="offset points",
            ha="center" if abs(across) < 0.1 else "left" if across > 0 else "right",
            va="bottom" if up > 0.3 else "top" if up < -0.3 else "center",
            color=INK,
            fontsize=9,
        )


def draw_profiles(methods: Mapping[str, Scores], title: str, unit: str, colors: Colors) -> Figure:
    """The share of runs above each score, a line per method with its band."""
    left, above, high = 0.68, 0.62, 3.1
    legend = Legend({name: colors[name] for name in methods}, WIDTH - left - RIGHT)
    figure = panel_figure([high], left, RIGHT, above + legend.inches, BELOW)
    axes: Any = figure.axes[0]
    style_axes(axes, grid="both")
    values = np.concatenate([np.ravel(x) for scores in methods.values() for x in scores.values()])
    low, top = min(0.0, values.min()), values.max()
    thresholds = np.linspace(low, top if top > low else low + 1.0, 201)
    for name, scores in methods.items():
        profile = performance_profile(scores, thresholds)
        axes.plot(thresholds, profile.share, color=colors[name], lw=1.9, zorder=3)
        if profile.band:
            axes.fill_between(thresholds, *profile.band, color=colors[name], alpha=0.14, lw=0)
    axes.set(xlim=(thresholds[0], thresholds[-1]), ylim=(0, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"τ, {literal(unit)}", color=QUIET, fontsize=FONT)
    rows = [len(scores) for scores in methods.values()]
    words = f"share of runs that score above τ, with 95% band, over {range_text(rows, 'row')}"
    draw_heading(axes, title, words, lift=72 * legend.inches)
    legend.draw(axes)
    return figure


class ScoreCurve(NamedTuple):
    """Scores during training: a row of seeds for each of the steps."""

    steps: Sequence[int]
    seeds: npt.NDArray[np.float64]


def draw_score_curves(
    panels: Mapping[str, Mapping[str, ScoreCurve]], title: str, unit: str, colors: Colors
) -> Figure:
    """A panel per row: the mean over seeds with a band of one standard deviation."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    left, high, top = 0.68, 2.2, 0.62
    legend = Legend({name: colors[name] for name in names}, WIDTH - left - RIGHT)
    top += legend.inches
    figure = panel_figure([high] * len(panels), left, RIGHT, above=0.2, below=0.55, top=top)
    for axes, (row, curves) in zip(figure.axes, panels.items(), strict=True):
        style_axes(axes)
        for name, (steps, seeds) in curves.items():
            mean, std = np.nanmean(seeds, axis=1), np.nanstd(seeds, axis=1)
            axes.fill_between(steps, mean - std, mean + std, color=colors[name], alpha=0.14, lw=0)
            axes.plot(steps, mean, color=colors[name], lw=1.9, marker="o", ms=3.5)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel(literal(f"{row}: updates"), color=QUIET, fontsize=FONT)
    words = f"{unit}, mean and standard deviation over seeds"
    draw_heading(figure.axes[0], title, words, lift=72 * legend.inches)
    legend.draw(figure.axes[0])
    return figure


class Point(NamedTuple):
    """How often a method acts, and its score."""

    frequency: float  # action batches per second
    score: float


def draw_frequencies(
    methods: Mapping[str, Point], title: str, paper: Mapping[str, Point], colors: Colors
) -> Figure:
    """A dot per method, a hollow one for the paper's, a dotted line between the two."""
    left, above, high = 0.68, 0.62, 3.7
    legend = Legend({name: colors[name] for name in methods}, WIDTH - left - RIGHT)
    figure = panel_figure([high], left, RIGHT, above + legend.inches, BELOW)
    axes: Any = figure.axes[0]
    style_axes(axes, grid="both")
    for name, point in methods.items():
        axes.plot(*point, "o", color=colors[name], ms=8.5, zorder=4)
        if name in paper:
            ends = zip(point, paper[name], strict=True)
            axes.plot(*ends, color=colors[name], lw=0.8, ls=":", zorder=2)
            axes.plot(*paper[name], "o", mfc="white", mec=colors[name], ms=7, zorder=3)
    speeds = [point.frequency for point in (*methods.values(), *paper.values())]
    axes.set(xscale="log", xlim=(min(speeds) / 1.8, max(speeds) * 1.8))
    axes.margins(y=0.1)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("action batches per second", color=QUIET, fontsize=FONT)
    words = "normalized score" + ("; hollow: the paper" if paper else "")
    draw_heading(axes, title, words, lift=72 * legend.inches)
    legend.draw(axes)
    return figure
