"""Performance profiles as PNG bytes: the share of runs above each score, a line a method."""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bfq.reporting.drawing import COLOURS, DPI, FONT, QUIET, ROUND, WIDTH, heading, plain, png, style
from bfq.reporting.statistics import Profile, Scores, performance_profile
from bfq.reporting.tables import ranged

Colours = Mapping[str, Any]
TALL, ABOVE, BELOW = 3.1, 0.62, 0.62  # inches of the panel: its own, over it (without names) and under it
LEFT, RIGHT = 0.68, 0.2  # inches beside it
THRESHOLDS = 201
LONGEST = 34  # characters of a name
LETTER, SWATCH, LINE = 0.088, 0.42, 0.2  # inches of a bold letter, of what stands before a name, of a row


class Legend(NamedTuple):
    """Names in their colours, in even columns over a panel."""

    colours: Colours
    wide: float  # inches there are

    @property
    def names(self) -> list[str]:
        """The names, no longer than is legible."""
        return [textwrap.shorten(name, LONGEST, placeholder=" …") for name in self.colours]

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
        for k, (name, colour) in enumerate(zip(self.names, self.colours.values(), strict=True)):
            across = self.step * (k % self.columns)
            over = lift + self.inches - LINE * (k // self.columns + 0.5)
            where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
            look = {"color": colour, "fontsize": 9.5, "fontweight": "bold"}
            axes.annotate(f"━ {plain(name)}", (left, 1), (72 * across, 72 * over), **where, **look)


def profile_figure(
    methods: Mapping[str, Scores],
    title: str = "Performance profiles",
    unit: str = "normalised score",
    colours: Colours | None = None,
) -> bytes | None:
    """The picture of `draw_profiles`; None where no task has scores of all methods."""
    return png(draw_profiles(methods, title, unit, colours)) if common_tasks(methods) else None


def draw_profiles(
    methods: Mapping[str, Scores], title: str, unit: str, colours: Colours | None = None
) -> Figure:
    """A line a method, the first on top, with its band over seeds drawn anew within each task.

    Only tasks that all methods have count: a method is not better for having left out the hard ones.
    """
    tasks = common_tasks(methods)
    shared = {name: {task: scores[task] for task in tasks} for name, scores in methods.items()}
    shades = method_colours(methods, colours)
    legend = Legend(shades, WIDTH - LEFT - RIGHT)
    tall = ABOVE + legend.inches + TALL + BELOW
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    axes = figure.add_axes((LEFT / WIDTH, BELOW / tall, legend.wide / WIDTH, TALL / tall))
    style(axes)
    values = np.concatenate([np.ravel(x) for scores in shared.values() for x in scores.values()])
    low, high = min(0.0, values.min()), values.max()
    thresholds = np.linspace(low, high if high > low else low + 1.0, THRESHOLDS)
    for k, (name, scores) in enumerate(shared.items()):
        _draw_profile(axes, performance_profile(scores, thresholds), shades[name], len(methods) - k)
    axes.set(xlim=(thresholds[0], thresholds[-1]), ylim=(0, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"{plain(unit)} τ", color=QUIET, fontsize=FONT)
    heading(axes, title, _words(methods, tasks), lift=72 * legend.inches)
    legend.draw(axes)
    return figure


def common_tasks(methods: Mapping[str, Scores]) -> list[str]:
    """The tasks on which every method has scores."""
    first, *others = methods.values() or [{}]
    return [task for task in first if all(task in scores for scores in others)]


def method_colours(names: Iterable[str], given: Colours | None = None) -> dict[str, Any]:
    """A colour a method in their order; one that is given stays, so that several figures agree."""
    return {
        name: (given or {}).get(name, colour) for name, colour in zip(names, cycle(COLOURS), strict=False)
    }


def balanced(name: str, line: int, lines: int) -> str:
    """A name over as few lines as it needs, of about one length; it breaks at blanks and after hyphens."""
    pieces = re.findall(r"\s*[^\s-]*-|\s*[^\s-]+", name)
    cut = [piece if len(piece) <= line else f"{piece[: line - 1]}…" for piece in pieces]
    needed = len(_filled(cut, line))
    best = next(found for width in range(line + 1) if len(found := _filled(cut, width)) <= needed)
    return plain("\n".join(best[:lines]) + (" …" if needed > lines else ""))


def _filled(pieces: Iterable[str], width: int) -> list[str]:
    """Lines of whole pieces, none wider than this unless one piece is."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece).lstrip()
    return lines


def _draw_profile(axes: Any, profile: Profile, colour: Any, above: int) -> None:
    if profile.band:
        look = {"color": colour, "alpha": 0.14, "lw": 0, "zorder": 2}
        axes.fill_between(profile.thresholds, *profile.band, **look)
    axes.plot(profile.thresholds, profile.share, color=colour, lw=1.9, zorder=2 + above)


def _words(methods: Mapping[str, Scores], tasks: Sequence[str]) -> str:
    """What is drawn, over how many tasks and seeds."""
    seeds = [len(scores[task]) for scores in methods.values() for task in tasks]
    band = " and 95% band" if min(seeds) > 1 else ""
    dropped = any(set(scores) != set(tasks) for scores in methods.values())
    counted = f"{ranged([len(tasks)], 'task')}{' that all have' if dropped else ''}"
    return f"share of runs that score above τ{band}, {counted}, {ranged(seeds, 'seed')} each"
