"""Bars with and without a part of a method, and legends, as PNG bytes."""

import math
import textwrap
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
from bfq.reports.statistics import Values, summarize
from bfq.reports.sweep_figures import describe_spread

Colors = Mapping[str, Any]
LONGEST = 34  # characters of a name
LETTER, SWATCH, LINE = (
    0.088,
    0.42,
    0.2,
)  # inches of a bold letter, of what stands before a name, of a row


class Legend(NamedTuple):
    """Names in their colors, in even columns over a panel."""

    colors: Colors
    wide: float  # inches there are

    @property
    def names(self) -> list[str]:
        """The names, no longer than is legible."""
        return [textwrap.shorten(name, LONGEST, placeholder=" …") for name in self.colors]

    @property
    def step(self) -> float:
        """Inches that the longest name needs."""
        return min(self.wide, SWATCH + LETTER * max(len(name) for name in self.names))

    @property
    def columns(self) -> int:
        """As many as there is room for, less those that would leave the last row short."""
        most = int(self.wide / self.step)
        return math.ceil(len(self.names) / math.ceil(len(self.names) / most))

    @property
    def inches(self) -> float:
        """Its height."""
        return LINE * math.ceil(len(self.names) / self.columns)

    def draw(self, axes: Any, left: float = 0.0, lift: float = 0.0) -> None:
        """Draws it over axes; `left` counts in widths of the axes, `lift` in inches."""
        for k, (name, color) in enumerate(zip(self.names, self.colors.values(), strict=True)):
            across = self.step * (k % self.columns)
            over = lift + self.inches - LINE * (k // self.columns + 0.5)
            where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
            look = {"color": color, "fontsize": 9.5, "fontweight": "bold"}
            axes.annotate(
                f"━ {literal(name)}", (left, 1), (72 * across, 72 * over), **where, **look
            )


def method_colors(names: Iterable[str], given: Colors | None = None) -> dict[str, Any]:
    """A color a method in their order; one that is given stays, so that several figures agree."""
    return {
        name: (given or {}).get(name, color)
        for name, color in zip(names, cycle(COLORS), strict=False)
    }


Settings = Mapping[str, Values]  # the seeds of each setting


HEAD, BELOW, RIGHT = 0.64, 0.6, 0.2  # inches: of the title, under the panel, beside it
NAMES, BAR, GAP = (
    1.75,
    0.21,
    0.17,
)  # inches: for names of tasks, of a bar, between the bars of two tasks


def settings_figure(
    panels: Mapping[str, Settings],
    title: str,
    unit: str = "normalized score",
    paper: Mapping[str, Mapping[str, float]] | None = None,
    colors: Colors | None = None,
) -> bytes | None:
    """The picture of `draw_settings`; None where there is none."""
    return as_png(draw_settings(panels, title, unit, paper, colors)) if panels else None


def draw_settings(
    panels: Mapping[str, Settings],
    title: str,
    unit: str,
    paper: Mapping[str, Mapping[str, float]] | None = None,
    colors: Colors | None = None,
) -> Figure:
    """A group of bars a task: the mean, one standard deviation, a dot a seed; hollow the paper's means."""
    names = list(dict.fromkeys(name for settings in panels.values() for name in settings))
    shades = method_colors(names, colors)
    legend = Legend(shades, WIDTH - NAMES - RIGHT)
    group = BAR * len(names) + GAP
    tall = HEAD + legend.inches + group * len(panels) + BELOW
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    wide = legend.wide / WIDTH
    axes = figure.add_axes((NAMES / WIDTH, BELOW / tall, wide, group * len(panels) / tall))
    style_axes(axes, grid="x")
    for place, (task, settings) in enumerate(panels.items()):
        for name, values in settings.items():
            middle = place + BAR / group * (names.index(name) - (len(names) - 1) / 2)
            said = (paper or {}).get(task, {}).get(name)
            _draw_bar(axes, middle, 0.86 * BAR / group, values, said, shades[name])
    axes.set_ylim(len(panels) - 0.5, -0.5)
    axes.set_yticks(range(len(panels)), [wrap_evenly(task, 20, 2) for task in panels])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_xlabel(literal(unit), color=QUIET, fontsize=FONT)
    seeds = [len(x) for settings in panels.values() for x in settings.values()]
    left, lift = (0.2 - NAMES) / legend.wide, 72 * (legend.inches + 0.04)
    draw_heading(
        axes, title, describe_spread(unit, seeds, "whiskers", "hollow" if paper else ""), left, lift
    )
    legend.draw(axes, lift=0.04)
    return figure


def _draw_bar(
    axes: Any, middle: float, width: float, values: Values, said: float | None, color: Any
) -> None:
    score = summarize(values)
    axes.barh(middle, score.mean, width, color=color, alpha=0.35, zorder=2)
    ends = middle - width / 2, middle + width / 2
    axes.plot(
        [score.mean] * 2, ends, color=color, lw=2.4, zorder=3
    )  # also seen where the mean is 0
    if score.n > 1:
        axes.errorbar(
            score.mean, middle, xerr=score.std, fmt="none", ecolor=color, elinewidth=1.4, zorder=3
        )
    apart = width * np.linspace(-0.28, 0.28, score.n) if score.n > 1 else np.zeros(1)
    axes.plot(values, middle + apart, "o", color=color, ms=4.2, mec="white", mew=0.6, zorder=4)
    if said is not None:
        axes.plot([said], [middle], "o", ms=6.5, mfc="white", mec=INK, mew=1.3, zorder=5)
