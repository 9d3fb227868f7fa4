"""Figures as PNG bytes. Each one is its own object, so nothing global to matplotlib is touched."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from bfq.reporting.runs import Run, Series
from bfq.reporting.statistics import summarise
from bfq.reporting.tables import UNITS, decimals, number_text

# Okabe and Ito's colours, told apart by all eyes: blue is the agent, the others its baselines.
AGENT = "#0072B2"
BASELINES = ("#D55E00", "#CC79A7", "#E69F00", "#009E73")
INK, QUIET, HAIR = "#1F2933", "#6B7682", "#E8EBEE"
DPI = 180
WIDTH, PANEL = 7.4, 4.2  # inches: of a figure, and the height of a panel of learning curves
COLUMNS, MULTIPLE = 3, 1.7  # small multiples in a row, and the height of one
FONT, LINE = 10.0, 18  # of labels: points, and characters in a line


@dataclass(frozen=True)
class Curve:
    """A line with its name and colour."""

    name: str
    colour: Any
    series: Series


@dataclass(frozen=True)
class Label:
    """Text beside the point where a line ends."""

    text: str
    colour: Any
    x: float
    y: float

    @property
    def height(self) -> float:
        """In heights of the axes, with some air."""
        return (1.25 * FONT * (self.text.count("\n") + 1) + 5.0) / 72 / (0.73 * PANEL)


def learning_curves(*runs: Run) -> bytes | None:
    """Score against updates, a panel a run; None where nothing was evaluated.

    Bold is the mean of a group, shaded its 95% interval over seeds, faint each seed, dashed the data.
    """
    shown = [run for run in runs if run.metric_names("evaluation")]
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH, PANEL * len(shown)), dpi=DPI, facecolor="white")
    panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    edge = 1 / len(shown)
    figure.subplots_adjust(left=0.085, right=0.735, top=1 - 0.14 * edge, bottom=0.13 * edge, hspace=0.37)
    for axes, run in zip(panels, shown, strict=True):
        _learning_panel(axes, run)
    return _png(figure)


def losses(run: Run) -> bytes | None:
    """Small multiples of what training logged; None where it logged nothing.

    A line is the mean of a group of members, the band reaches from its lowest to its highest member.
    """
    names = run.metric_names("train")
    if not names:
        return None
    rows = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(WIDTH, MULTIPLE * rows + 0.1), dpi=DPI, facecolor="white", layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _loss_panel(axes, run, name)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    if len(run.groups) > 1:
        figure.legend(
            panels[0].lines,
            [_plain(group.label) for group in run.groups],
            loc="outside lower left",
            ncols=COLUMNS,
            frameon=False,
            labelcolor=QUIET,
            fontsize=9,
            handlelength=1.4,
        )
    return _png(figure)


def _learning_panel(axes: Any, run: Run) -> None:
    unit = "normalized" if "normalized" in run.metric_names("evaluation") else "return"
    curves = _curves(run, unit)
    for curve in curves:
        _draw_curve(axes, curve)
    labels = [_end(curve, unit) for curve in curves]
    end = max([run.steps, *(int(curve.series.steps[-1]) for curve in curves)])
    data = run.data["normalized_mean" if unit == "normalized" else "return_mean"]
    if data is not None:
        axes.axhline(data, color=QUIET, lw=1.3, ls=(0, (5, 3)), zorder=1)
        labels.append(Label(_named("Data", data, unit), QUIET, end, data))
    _style(axes, end)
    axes.set_xlabel("updates", color=QUIET, fontsize=FONT)
    title = run.task if len(run.groups) == 1 else f"{run.task} · {run.title}"
    axes.set_title(_plain(title), loc="left", color=INK, fontsize=13, fontweight="bold", pad=21)
    seeds = len(run.groups[0].places)
    spread_words = f"mean and 95% interval of {seeds} seeds" if seeds > 1 else "one seed"
    axes.annotate(
        f"{UNITS[unit]}, {spread_words}",
        (0, 1),
        (0, 8),
        "axes fraction",
        "offset points",
        color=QUIET,
        fontsize=FONT,
    )
    _label_ends(axes, labels)


def _loss_panel(axes: Any, run: Run, name: str) -> None:
    for colour, group in zip(_colours(run), run.groups, strict=True):
        steps, values = _finite(run.series("train", name, group))
        low, high, mean = (of(values, axis=1) for of in (np.nanmin, np.nanmax, np.nanmean))
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(steps, mean, color=colour, lw=1.4, solid_capstyle="round")
    _style(axes, run.steps)
    axes.tick_params(labelsize=7.5)
    axes.set_title(_plain(name.replace("_", " ")), loc="left", color=INK, fontsize=9.5, pad=5)


def _curves(run: Run, metric: str) -> list[Curve]:
    """The baselines' curves, then the agent's, which thus lie on top."""
    named = [
        (baseline, BASELINES[k % len(BASELINES)], group)
        for k, baseline in enumerate(run.baselines)
        for group in baseline.groups
    ]
    named += [(run, colour, group) for colour, group in zip(_colours(run), run.groups, strict=True)]
    alone = len(run.groups) == 1
    curves = [
        Curve(
            each.title if alone or each is not run else group.label,
            colour,
            _finite(each.series("evaluation", metric, group)),
        )
        for each, colour, group in named
    ]
    return [curve for curve in curves if len(curve.series.steps)]


def _finite(series: Series) -> Series:
    """The rows at which at least one seed has a number."""
    kept = np.isfinite(series.values).any(1)
    return Series(series.steps[kept], series.values[kept])


def _colours(run: Run) -> list[Any]:
    """One colour a group: blue for one, an even scale of lightness for the values of a sweep."""
    count = len(run.groups)
    return [AGENT] if count == 1 else list(mpl.colormaps["viridis"](np.linspace(0.0, 0.75, count)))


def _draw_curve(axes: Any, curve: Curve) -> None:
    steps, values = curve.series
    mean, low, high = _band(values)
    if values.shape[1] > 1:
        axes.plot(steps, values, color=curve.colour, lw=0.7, alpha=0.28, zorder=2)
        axes.fill_between(steps, low, high, color=curve.colour, alpha=0.16, lw=0, zorder=2)
    axes.plot(steps, mean, color=curve.colour, lw=2.4, zorder=4, solid_capstyle="round")
    axes.plot(
        steps[-1:], mean[-1:], "o", color=curve.colour, ms=5.5, mec="white", mew=1.2, zorder=5, clip_on=False
    )


def _band(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean, low and high along training; where one seed is left, all three are that seed."""
    summaries = [summarise(row[np.isfinite(row)]) for row in values]
    return np.asarray([(s.mean, *(s.interval or (s.mean, s.mean))) for s in summaries]).T


def _end(curve: Curve, unit: str) -> Label:
    steps, values = curve.series
    last = float(np.nanmean(values[-1]))
    return Label(_named(curve.name, last, unit), curve.colour, float(steps[-1]), last)


def _named(name: str, value: float, unit: str) -> str:
    """A name over at most two lines with its value behind it, or under it where it would stick out."""
    lines = textwrap.wrap(name, LINE, max_lines=2, placeholder=" …") or [""]
    number = number_text(value, decimals(value, unit))
    fits = len(lines[-1]) + 2 + len(number) <= LINE
    return _plain("\n".join(lines) + ("  " if fits else "\n") + number)


def _label_ends(axes: Any, labels: list[Label]) -> None:
    """Names the lines at the right, in their colours, moved apart where they would overlap."""
    to_axes = axes.transData + axes.transAxes.inverted()
    axes.set_ylim(axes.get_ylim())  # the labels' places hold for this scale
    ordered = sorted(labels, key=lambda label: label.y)
    ends = [to_axes.transform((label.x, label.y)) for label in ordered]
    places = spread([float(end[1]) for end in ends], [label.height for label in ordered])
    for label, end, place in zip(ordered, ends, places, strict=True):
        axes.plot(
            [end[0] + 0.012, 1.02, 1.04],
            [end[1], end[1], place],
            color=label.colour,
            lw=0.8,
            alpha=0.6,
            transform=axes.transAxes,
            clip_on=False,
        )
        where = {"ha": "left", "va": "center", "transform": axes.transAxes, "linespacing": 1.1}
        axes.text(1.05, place, label.text, color=label.colour, fontsize=FONT, fontweight="bold", **where)


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places nearest to the wanted ones (which ascend) so that boxes of these heights do not overlap.

    Boxes that collide are merged into a block centred on the mean of what its members wanted.
    """
    blocks: list[tuple[list[float], list[float]]] = []  # offsets from the block's foot, and wanted feet
    for place, height in zip(wanted, heights, strict=True):
        blocks.append(([height], [place - height / 2]))
        while len(blocks) > 1 and _top(blocks[-2]) > _foot(blocks[-1]):
            (below, feet), (above, more) = blocks[-2:]
            blocks[-2:] = [(below + above, feet + [foot - sum(below) for foot in more])]
    return [
        _foot(block) + sum(block[0][:k]) + height / 2 for block in blocks for k, height in enumerate(block[0])
    ]


def _foot(block: tuple[list[float], list[float]]) -> float:
    return sum(block[1]) / len(block[1])


def _top(block: tuple[list[float], list[float]]) -> float:
    return _foot(block) + sum(block[0])


def _style(axes: Any, end: int) -> None:
    """The one look of all axes: a floor, faint horizontal lines, quiet numbers."""
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#B8C0C8")
    axes.grid(axis="y", color=HAIR, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9, length=0, pad=5)
    axes.set_xlim(0, max(end, 1))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3))
    axes.margins(y=0.08)


def _plain(text: str) -> str:
    """Text in which matplotlib sees no mathematics and no half of a character."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter the font lacks is a box, and no news
        figure.savefig(file, format="png", metadata={"Software": None})  # the same run, the same bytes
    return file.getvalue()
