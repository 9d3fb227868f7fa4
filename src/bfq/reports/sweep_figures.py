"""Scores along one swept hyperparameter, and the cost of an update along its sizes, as PNG bytes."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bfq.reports import drawing
from bfq.reports.statistics import Values, range_text, summarize

Sweep = Mapping[float, Values]  # the seeds at each value
DASHES = (0, (4, 2.5))
WIDE = 20.0  # ratio of the largest value to the smallest from which on the scale is logarithmic


def sweep_figure(panels: Mapping[str, Sweep], *details: Any, **options: Any) -> bytes | None:
    """The figure of `draw_sweeps` as PNG; None without panels."""
    return drawing.as_png(draw_sweeps(panels, *details, **options)) if panels else None


def draw_sweeps(
    panels: Mapping[str, Sweep],
    title: str,
    symbol: str,
    unit: str = "normalized score",
    paper: Mapping[str, Mapping[float, float]] | None = None,
    logarithmic: bool = False,
    level: bool = False,
) -> Figure:
    """One panel per task: the mean, a band of one standard deviation, one dot per seed.

    Dashed: the paper's means. Panels share their scale if it is `logarithmic` or if they are `level`.
    """
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    letter, line = 0.08, 0.17  # inches of a bold letter, and of a line of a name
    names = [drawing.wrap_evenly(task, int((7.1 / columns - 0.45) / letter), 2) for task in panels]
    above = 0.1 + line * (2 if any("\n" in name for name in names) else 1)
    figure = drawing.panel_figure(
        [2.3] * len(panels), left=0.55, right=0.2, between=0.45, top=0.64, above=above, below=0.6,
        columns=columns,
    )  # fmt: skip
    for axes, (task, sweep), name in zip(figure.axes, panels.items(), names, strict=True):
        _draw_sweep(axes, sweep, (paper or {}).get(task, {}))
        axes.set_xlabel(drawing.literal(symbol), color=drawing.QUIET, fontsize=drawing.FONT)
        drawing.draw_name(axes, name, 9.5)
    if logarithmic:
        _share_logarithmic_scale(figure.axes)
    elif level:
        low, high = zip(*(axes.get_ylim() for axes in figure.axes), strict=True)
        for axes in figure.axes:
            axes.set_ylim(min(low), max(high))
    seeds = [len(x) for sweep in panels.values() for x in sweep.values()]
    several = f"mean, band: standard deviation, dots: {range_text(seeds, 'seed')}"
    words = f"{unit}, {several if max(seeds) > 1 else 'one seed'}{'; dashed: the paper' if paper else ''}"
    drawing.draw_heading(figure.axes[0], title, words, lift=72 * above)
    return figure


def _draw_sweep(axes: Any, sweep: Sweep, paper: Mapping[float, float]) -> None:
    color = drawing.COLORS[0]
    x = np.array(sorted(sweep))
    summaries = [summarize(sweep[value]) for value in x]
    mean = np.array([score.mean for score in summaries])
    std = np.array([score.std if score.n > 1 else np.nan for score in summaries])
    if np.isfinite(std).any():
        axes.fill_between(x, mean - std, mean + std, color=color, alpha=0.16, lw=0, zorder=2)
    dots = {"ms": 3.4, "alpha": 0.55, "mew": 0, "zorder": 3}
    for value in x:
        seeds = np.asarray(sweep[value])
        axes.plot([value] * len(seeds), seeds, "o", color=color, **dots)
    axes.plot(x, mean, color=color, lw=2.0, marker="o", ms=6, mec="white", mew=1.0, zorder=5)
    if paper:
        there = sorted(paper)
        look = {"lw": 1.5, "ls": DASHES, "marker": "o", "ms": 5, "mfc": "white", "zorder": 4}
        axes.plot(there, [paper[value] for value in there], color=drawing.QUIET, **look)
    _scale(axes, sorted({*sweep, *paper}))


def _scale(axes: Any, values: Sequence[float]) -> None:
    """Ticks at the tried values; logarithmic if they lie far apart, with a place for 0."""
    drawing.style_axes(axes)
    positive = [value for value in values if value > 0]
    if positive and positive[-1] >= WIDE * positive[0]:
        if len(positive) == len(values):
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
    axes.margins(x=0.05, y=0.08)
    axes.autoscale_view()
    texts = [f"{value:.3g}" for value in values]
    inches = [axes.transData.transform((value, 0))[0] / drawing.DPI for value in values]
    digit, gap = 0.075, 0.1  # inches
    kept = _spaced(inches, [digit * len(text) + gap for text in texts])
    axes.set_xticks([values[k] for k in kept], [texts[k] for k in kept])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3, steps=drawing.ROUND))


def _spaced(places: Sequence[float], widths: Sequence[float]) -> list[int]:
    """The ascending places to keep so that their texts do not overlap; the last is always kept."""
    kept: list[int] = []
    for k, (place, width) in enumerate(zip(places, widths, strict=True)):
        last = k == len(places) - 1
        while kept and last and place - places[kept[-1]] < (width + widths[kept[-1]]) / 2:
            kept.pop()
        if not kept or place - places[kept[-1]] >= (width + widths[kept[-1]]) / 2:
            kept.append(k)
    return kept


def _share_logarithmic_scale(panels: Sequence[Any]) -> None:
    """One logarithmic scale for all, with numbers on the left, wide enough for every point."""
    points = [float(y) for axes in panels for line in axes.lines for y in line.get_ydata()]
    shown = [y for y in points if math.isfinite(y) and y > 0]
    if not shown:
        return
    low, high = min(shown) / 1.5, max(shown) * 1.5
    left = min(axes.get_position().x0 for axes in panels)
    for axes in panels:
        axes.set(yscale="log", ylim=(low, high))
        _logarithmic_ticks(axes, high / low)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.tick_params(axis="y", labelleft=axes.get_position().x0 == left)


def _logarithmic_ticks(axes: Any, span: float) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if span < 100 else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator())


# The cost of an update

Row = Mapping[str, Any]
Fixed = tuple[Any, ...]  # the values of all other axes
AXES = {
    "members": "members trained at once",
    "batch": "transitions in a batch",
    "width": "units of a hidden layer",
    "transitions": "transitions in the data",
    "flow_steps": "flow or diffusion steps",
}
NAMES = 6  # agents per line of the legend
MOST_TICKS = 5
MARGIN = 1.35  # factor by which the scale exceeds the measurements
LEAST_SPAN = 4.0  # factor that the scale spans at least, so that noise does not look like growth


class GrowthLine(NamedTuple):
    """An agent's cost along one axis, with the others fixed."""

    agent: str
    x: tuple[float, ...]  # empty for an agent without this axis
    rows: tuple[Row, ...]


class GrowthPanel(NamedTuple):
    """All agents along one axis."""

    axis: str
    values: list[float]  # at which there are measurements
    lines: tuple[GrowthLine, ...]


def growth_figure(rows: Sequence[Row]) -> bytes | None:
    """Microseconds per update along every axis with several values; None if none has several."""
    panels = growth_panels(rows)
    if not panels:
        return None
    agents = list(dict.fromkeys(line.agent for panel in panels for line in panel.lines))
    colors = {agent: drawing.COLORS[k % len(drawing.COLORS)] for k, agent in enumerate(agents)}
    columns, line, left = min(3, len(panels)), 0.2, 0.62
    figure = drawing.panel_figure(
        [2.0] * len(panels), left, right=0.12, between=0.34, above=0.34, below=0.5,
        top=0.82 + line * math.ceil(len(agents) / NAMES), columns=columns,
        wide=drawing.WIDTH if columns > 1 else 5.0,
    )  # fmt: skip
    words = (str(rows[0]["device"]), "time of an update, median and range; dashed: slope 1")
    _draw_legend(figure, left, (*words, fixed_text(panels)), colors)
    limits = scale_limits(panels)
    for k, (axes, panel) in enumerate(zip(figure.axes, panels, strict=True)):
        _draw_growth(axes, panel, colors, limits, numbered=k % columns == 0)
    return drawing.as_png(figure)


def growth_panels(rows: Sequence[Row]) -> list[GrowthPanel]:
    """One panel per axis along which some agent was measured more than once."""
    found = []
    agents = dict.fromkeys(row["agent"] for row in rows)
    for axis in AXES:
        series = {agent: _series(rows, agent, axis) for agent in agents}
        longest = {
            agent: max(one, key=lambda fixed: len(one[fixed])) for agent, one in series.items()
        }
        grown = {agent: fixed for agent, fixed in longest.items() if len(series[agent][fixed]) > 1}
        lines = []
        for agent, several in series.items():
            if agent in grown:
                points = several[grown[agent]]
                x = sorted(points)
                lines.append(GrowthLine(agent, tuple(x), tuple(points[value] for value in x)))
            elif grown and all(list(points) == [None] for points in several.values()):
                same = next((fixed for fixed in grown.values() if fixed in several), longest[agent])
                lines.append(GrowthLine(agent, (), (several[same][None],)))
        if grown:
            values = sorted({value for line in lines for value in line.x})
            found.append(GrowthPanel(axis, values, tuple(lines)))
    return found


def _series(rows: Sequence[Row], agent: str, axis: str) -> dict[Fixed, dict[Any, Row]]:
    """An agent's rows by the values of the other axes, then by their value on this one."""
    found: dict[Fixed, dict[Any, Row]] = defaultdict(dict)
    for row in rows:
        if row["agent"] == agent:
            found[tuple(row.get(other) for other in AXES if other != axis)][row.get(axis)] = row
    return found


def fixed_text(panels: Sequence[GrowthPanel]) -> str:
    """The values outside of their own panels, where all agents share them."""
    words = []
    for axis in ("members", "batch", "width", "transitions"):
        lines = [line for panel in panels if panel.axis != axis for line in panel.lines]
        values: set[Any] = {row.get(axis) for line in lines for row in line.rows}
        if len(values) == 1 and None not in values:
            words.append(f"{axis} {count_text(values.pop())}")
    return f"elsewhere {', '.join(words)}" if words else ""


def _draw_legend(figure: Figure, left: float, texts: Sequence[str], colors: dict[str, str]) -> None:
    """The device, what is drawn, the fixed values, and the agents in their colors."""
    wide, tall = figure.get_size_inches()
    quiet: dict[str, Any] = {"color": drawing.QUIET, "fontsize": 9.5}
    bold: dict[str, Any] = {"color": drawing.INK, "fontsize": 13, "fontweight": "bold"}
    for text, below, look in zip(texts, (0.27, 0.47, 0.65), (bold, quiet, quiet), strict=True):
        figure.text(left / wide, 1 - below / tall, drawing.literal(text), va="baseline", **look)
    for k, (agent, color) in enumerate(colors.items()):
        across = left + (wide - left) / NAMES * (k % NAMES)
        below = 0.82 + 0.2 * (k // NAMES + 0.5)
        look = {**bold, "color": color, "fontsize": 9.5}
        figure.text(across / wide, 1 - below / tall, drawing.literal(agent), va="center", **look)


def _draw_growth(
    axes: Any,
    panel: GrowthPanel,
    colors: dict[str, str],
    limits: tuple[float, float],
    numbered: bool,
) -> None:
    drawing.style_axes(axes, grid="both")
    values = panel.values
    ends = np.array([values[0] / MARGIN, values[-1] * MARGIN])
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=limits)
    ticks = values[:: math.ceil(len(values) / MOST_TICKS)]
    axes.set_xticks(ticks, [count_text(value) for value in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    _logarithmic_ticks(axes, limits[1] / limits[0])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.tick_params(axis="y", labelleft=numbered)
    for line in panel.lines:
        # Level over the whole panel for an agent without such an axis.
        x: Sequence[float] = line.x or (values[0], values[-1])
        low, median, high = (np.broadcast_to(part, len(x)) for part in _microseconds(line))
        look = {"color": colors[line.agent]}
        axes.fill_between(x, low, high, alpha=0.2, lw=0, zorder=2, **look)
        axes.plot(x, median, lw=1.8, marker="o" if line.x else "", ms=4, zorder=3, **look)
    start = next(line for line in panel.lines if line.x)
    slope = _microseconds(start)[1][0] / start.x[0]
    dashed = {"color": drawing.QUIET, "lw": 1.0, "ls": (0, (4, 3)), "zorder": 1}
    axes.plot(ends, slope * ends, scalex=False, scaley=False, **dashed)
    drawing.draw_name(axes, AXES[panel.axis])


def _microseconds(line: GrowthLine) -> tuple[Any, Any, Any]:
    """The minimum, median and maximum of each measurement."""
    spread = np.array([row["spread"] for row in line.rows], float)
    median = np.array([row["microseconds_per_update"] for row in line.rows], float)
    return spread[:, 0], median, spread[:, 1]


def scale_limits(panels: Sequence[GrowthPanel]) -> tuple[float, float]:
    """One scale for all panels: every measurement with a margin, and at least LEAST_SPAN."""
    parts = [_microseconds(line) for panel in panels for line in panel.lines]
    low = min(part[0].min() for part in parts) / MARGIN
    high = max(part[2].max() for part in parts) * MARGIN
    more = math.sqrt(max(LEAST_SPAN * low / high, 1.0))
    return low / more, high * more


def count_text(count: float) -> str:
    """A count in short: 4096, 10 k, 1 M."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= 10**4 and count % size == 0:
            return f"{count / size:g} {letter}"
    return f"{count:g}"


def time_text(microseconds: float) -> str:
    """A time in a suitable unit: 200 µs, 5 ms, 1 s."""
    return EngFormatter("s")(microseconds / 1e6)
