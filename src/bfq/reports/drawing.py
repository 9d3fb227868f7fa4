"""The look of all figures: colors, headings, axes, labels at the ends of lines, PNG bytes."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imsave
from scipy.optimize import isotonic_regression

from bfq.reports import Group, Run
from bfq.reports.statistics import decimal_places, number_text, range_text

# Okabe and Ito's colors, which color-blind readers can distinguish, then others far from them.
COLORS = (
    *("#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#009E73", "#6A3D9A", "#56B4E9", "#8C2D04"),
    *("#B0B000", "#E7298A", "#004D40", "#9E7B5A", "#7F8CFF", "#A50026", "#66C2A5", "#3B3B6D"),
)
INK, QUIET, HAIR = "#1F2933", "#6B7682", "#E8EBEE"
DPI = 180
WIDTH = 7.4  # inches
ROUND = (1, 2, 2.5, 5, 10)  # steps between numbers on an axis
FONT = 10.0  # points, of labels
SMALL = 8.0  # points, of labels with one line only
LINE, LONG = 18, 30  # characters per line of a label with two lines, and with one


def agent_colors(runs: Sequence[Run]) -> dict[str, Any]:
    """One color per agent, the same in every figure of these runs; the first run is blue."""
    agents = [run.agent for run in runs] + [each.agent for run in runs for each in run.baselines]
    return {agent: COLORS[k % len(COLORS)] for k, agent in enumerate(dict.fromkeys(agents))}


def group_color(run: Run, group: Group, colors: dict[str, Any]) -> Any:
    """The agent's color, or one from an even scale for the values of a sweep."""
    groups = run.groups
    if len(groups) == 1:
        return colors[run.agent]
    return mpl.colormaps["viridis"](np.linspace(0.0, 0.75, len(groups))[groups.index(group)])


def panel_figure(
    heights: Sequence[float],
    left: float,
    right: float,
    above: float,
    below: float,
    top: float = 0.0,
    between: float = 0.0,
    columns: int = 1,
    wide: float = WIDTH,
    **kind: Any,
) -> Figure:
    """A figure with a panel for each height, in rows; all sizes are in inches."""
    rows = heights[::columns]
    tall = top + sum(rows) + len(rows) * (above + below)
    side = (wide - left - right - between * (columns - 1)) / columns
    figure = Figure(figsize=(wide, tall), dpi=DPI, facecolor="white")
    for k, height in enumerate(heights):
        row, column = divmod(k, columns)
        foot = tall - top - sum(rows[: row + 1]) - row * (above + below) - above
        start = left + column * (side + between)
        figure.add_axes((start / wide, foot / tall, side / wide, height / tall), **kind)
    return figure


def draw_heading(axes: Any, title: str, words: str, left: float = 0.0, lift: float = 0.0) -> None:
    """A bold title over quiet words; `left` is in widths of the axes, `lift` in points."""
    lines = (
        (title, 21, {"color": INK, "fontsize": 13, "fontweight": "bold"}),
        (words, 8, {"color": QUIET, "fontsize": FONT}),
    )
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "baseline"}
    for text, height, look in lines:
        axes.annotate(literal(text), (left, 1), (0, height + lift), **place, **look)


def draw_name(axes: Any, name: str, size: float = FONT) -> None:
    """A bold name above a panel."""
    look = {"color": INK, "fontsize": size, "fontweight": "bold", "linespacing": 1.1}
    axes.annotate(name, (0, 1), (0, 7), "axes fraction", "offset points", **look)


def describe_unit(words: str, seeds: Sequence[int], banded: bool = True) -> str:
    """The unit of a panel and how seeds were combined."""
    if max(seeds) == 1:
        return f"{words}, one seed"
    interval = " and 95% interval" if banded else ""
    return f"{words}, mean{interval} of {range_text(seeds, 'seed')}"


def style_axes(axes: Any, grid: str = "y") -> None:
    """A floor, a faint grid and quiet numbers."""
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#B8C0C8")
    axes.grid(axis=grid, color=HAIR, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9, length=0, pad=5)


def literal(text: str) -> str:
    """Text without mathematics and half characters, as matplotlib needs it."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def as_png(figure: Figure) -> bytes:
    """The figure's bytes, the same for the same run."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters that the font lacks become boxes
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def heat(counts: Sequence[Sequence[int]]) -> bytes:
    """A grid of counts as PNG, one pixel per cell: white where empty, darker where fuller."""
    grid = np.asarray(counts, np.float64)[::-1]  # pictures begin at the top
    shade = 0.25 + 0.75 * np.log1p(grid) / max(np.log1p(grid.max()), 1e-9)
    pixels = mpl.colormaps["Blues"](shade)
    pixels[grid == 0] = 1.0
    file = io.BytesIO()
    imsave(file, pixels, format="png", metadata={"Software": "bfq"})  # no version: the same bytes
    return file.getvalue()


@dataclass(frozen=True)
class Label:
    """Text beside the end of a line."""

    text: str
    color: Any
    x: float
    y: float
    small: bool = False
    strong: bool = True

    @property
    def inches(self) -> float:
        """Its height, with a margin."""
        font, margin = (SMALL, 1.5) if self.small else (FONT, 5.0)
        return (1.25 * font * (self.text.count("\n") + 1) + margin) / 72


def value_label(name: str, value: float, unit: str, small: bool = False) -> str:
    """A name on at most two lines, followed by its value."""
    number = number_text(value, decimal_places(value, unit))
    if small:
        return literal(f"{textwrap.shorten(name, LONG, placeholder=' …')}  {number}")
    lines = textwrap.wrap(name, LINE, max_lines=2, placeholder=" …") or [""]
    fits = len(lines[-1]) + 2 + len(number) <= LINE
    return literal("\n".join(lines) + ("  " if fits else "\n") + number)


def label_ends(axes: Any, labels: list[Label], height: float) -> None:
    """Name the lines at the right of axes that are `height` inches high."""
    to_axes = axes.transData + axes.transAxes.inverted()
    axes.set_ylim(axes.get_ylim())  # the places of labels hold for this scale
    ordered = sorted(labels, key=lambda label: label.y)
    ends = [to_axes.transform((label.x, label.y)) for label in ordered]
    wanted = [float(end[1]) for end in ends]
    places = spread_labels(wanted, [label.inches / height for label in ordered])
    for label, (x, y), place in zip(ordered, ends, places, strict=True):
        look = {"color": label.color, "transform": axes.transAxes}
        line = [x + 0.012, 1.02, 1.04], [y, y, place]
        axes.plot(*line, lw=0.8, alpha=0.6, clip_on=False, **look)
        look |= {"fontsize": SMALL if label.small else FONT, "linespacing": 1.1}
        weight = "bold" if label.strong else "normal"
        axes.text(1.05, place, label.text, va="center", fontweight=weight, **look)


def spread_labels(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places nearest to the wanted ones (ascending) at which boxes of these heights do not overlap.

    None is below 0, and none above 1 if there is room.
    """
    sizes = np.asarray(heights, np.float64)
    middles = np.cumsum(sizes) - sizes / 2  # of boxes stacked on 0; they never move closer together
    free = isotonic_regression(np.asarray(wanted) - middles).x if len(sizes) else middles
    return (np.maximum(np.minimum(free, 1 - sizes.sum()), 0.0) + middles).tolist()


def wrap_evenly(name: str, line: int, lines: int) -> str:
    """A name on as few lines as possible, of similar length, broken at blanks and after hyphens."""
    fewest = len(textwrap.wrap(name, line))
    widths = range(1, line + 1)  # words are broken only if nothing else fits
    tried = (textwrap.wrap(name, width, break_long_words=width == line) for width in widths)
    best = next(t for t in tried if len(t) <= fewest and all(len(one) <= line for one in t))
    return literal("\n".join(best[:lines]) + (" …" if fewest > lines else ""))
