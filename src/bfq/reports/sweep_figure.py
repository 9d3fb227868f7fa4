"""Scores along the values of one swept hyperparameter, as PNG bytes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bfq.reports.drawing import (
    COLORS,
    DPI,
    FONT,
    INK,
    QUIET,
    ROUND,
    WIDTH,
    as_png,
    draw_heading,
    literal,
    style_axes,
    wrap_evenly,
)
from bfq.reports.prose import ranged
from bfq.reports.statistics import Values, summarize

Sweep = Mapping[float, Values]  # the seeds at each value
TALL, HEAD, LINE, BELOW = (
    2.3,
    0.64,
    0.17,
    0.6,
)  # inches: of a panel, the title, a panel's name, under it
LEFT, RIGHT, BETWEEN = 0.55, 0.2, 0.45  # inches beside the panels
WIDE = (
    20.0  # how many times the least the greatest value is, from which on the scale is logarithmic
)
DIGIT, AIR = 0.075, 0.1  # inches of a letter under a panel, and between two numbers there
LETTER = 0.08  # inches of a bold letter over a panel
DASHES = (0, (4, 2.5))


def sweep_figure(
    panels: Mapping[str, Sweep],
    title: str,
    symbol: str,
    unit: str = "normalized score",
    paper: Mapping[str, Mapping[float, float]] | None = None,
    logarithmic: bool = False,
    level: bool = False,
) -> bytes | None:
    """The picture of `draw_sweeps`; None where nothing was swept."""
    return (
        as_png(draw_sweeps(panels, title, symbol, unit, paper, logarithmic, level))
        if panels
        else None
    )


def draw_sweeps(
    panels: Mapping[str, Sweep],
    title: str,
    symbol: str,
    unit: str,
    paper: Mapping[str, Mapping[float, float]] | None = None,
    logarithmic: bool = False,
    level: bool = False,
) -> Figure:
    """A panel a task: the mean, a band of one standard deviation, a dot a seed; dashed the paper's means.

    On a logarithmic scale, for what differs by factors, all panels have the same; and where they are `level`,
    since they are of one task.
    """
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    side = (WIDTH - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
    names = [wrap_evenly(task, int(side / LETTER), 2) for task in panels]
    above = 0.1 + LINE * (2 if any("\n" in name for name in names) else 1)
    tall = HEAD + math.ceil(len(panels) / columns) * (above + TALL + BELOW)
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    for k, ((task, sweep), name) in enumerate(zip(panels.items(), names, strict=True)):
        left = LEFT + (side + BETWEEN) * (k % columns)
        foot = tall - HEAD - (above + TALL + BELOW) * (k // columns) - above - TALL
        axes = figure.add_axes((left / WIDTH, foot / tall, side / WIDTH, TALL / tall))
        _draw_sweep(axes, sweep, (paper or {}).get(task, {}))
        _entitle(axes, name, symbol)
    if logarithmic:
        _by_factors(figure.axes)
    elif level:
        _level(figure.axes)
    seeds = [len(x) for sweep in panels.values() for x in sweep.values()]
    words = describe_spread(unit, seeds, "band", "dashed" if paper else "")
    draw_heading(figure.axes[0], title, words, lift=72 * above)
    return figure


def _draw_sweep(axes: Any, sweep: Sweep, paper: Mapping[float, float]) -> None:
    color = COLORS[0]
    x = np.array(sorted(sweep))
    summaries = [summarize(sweep[value]) for value in x]
    mean = np.array([score.mean for score in summaries])
    std = np.array([score.std if score.n > 1 else np.nan for score in summaries])
    if np.isfinite(std).any():
        axes.fill_between(x, mean - std, mean + std, color=color, alpha=0.16, lw=0, zorder=2)
    for value in x:
        seeds = np.asarray(sweep[value])
        axes.plot(
            [value] * len(seeds), seeds, "o", color=color, ms=3.4, alpha=0.55, mew=0, zorder=3
        )
    axes.plot(x, mean, color=color, lw=2.0, marker="o", ms=6, mec="white", mew=1.0, zorder=5)
    if paper:
        there = sorted(paper)
        look = {"lw": 1.5, "ls": DASHES, "marker": "o", "ms": 5, "mfc": "white", "zorder": 4}
        axes.plot(there, [paper[value] for value in there], color=QUIET, **look)
    _scale(axes, sorted({*sweep, *paper}))


def _scale(axes: Any, values: Sequence[float]) -> None:
    """Numbers where values were tried; logarithmic where these lie far apart, with a place for 0."""
    style_axes(axes)
    positive = [value for value in values if value > 0]
    if positive and positive[-1] >= WIDE * positive[0]:
        if len(positive) == len(values):
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
    axes.margins(x=0.05, y=0.08)
    axes.autoscale_view()
    numbers = [f"{value:.3g}" for value in values]
    inches = [axes.transData.transform((value, 0))[0] / DPI for value in values]
    kept = _spaced(inches, [DIGIT * len(number) + AIR for number in numbers])
    axes.set_xticks([values[k] for k in kept], [numbers[k] for k in kept])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3, steps=ROUND))


def _level(panels: Sequence[Any]) -> None:
    """One scale for all, so that heights can be compared from panel to panel."""
    low, high = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(low), max(high))


def _by_factors(panels: Sequence[Any]) -> None:
    """One logarithmic scale for all, with its numbers at the left, wide enough for all that it can show."""
    drawn = [float(y) for axes in panels for line in axes.lines for y in line.get_ydata()]
    shown = [y for y in drawn if math.isfinite(y) and y > 0]
    if not shown:
        return
    low, high = min(shown) / 1.5, max(shown) * 1.5
    left = min(axes.get_position().x0 for axes in panels)
    for axes in panels:
        axes.set(yscale="log", ylim=(low, high))
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,))
        )
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="y", labelleft=axes.get_position().x0 == left)


def _spaced(places: Sequence[float], widths: Sequence[float]) -> list[int]:
    """Which of the ascending places to keep so that what stands there has room; the last has it first."""
    kept: list[int] = []
    for k, (place, width) in enumerate(zip(places, widths, strict=True)):
        last = k == len(places) - 1
        while kept and last and place - places[kept[-1]] < (width + widths[kept[-1]]) / 2:
            kept.pop()
        if not kept or place - places[kept[-1]] >= (width + widths[kept[-1]]) / 2:
            kept.append(k)
    return kept


def _entitle(axes: Any, name: str, symbol: str) -> None:
    axes.set_xlabel(literal(symbol), color=QUIET, fontsize=FONT)
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "linespacing": 1.1}
    axes.annotate(name, (0, 1), (0, 7), color=INK, fontsize=9.5, fontweight="bold", **place)


def describe_spread(unit: str, seeds: Sequence[int], spread: str, paper: str) -> str:
    """Return how to read means, their spread and the dashed or hollow marks."""
    several = f"mean, {spread}: standard deviation, dots: {ranged(seeds, 'seed')}"
    printed = f"; {paper}: the paper" if paper else ""
    return f"{unit}, {several if max(seeds) > 1 else 'one seed'}{printed}"
