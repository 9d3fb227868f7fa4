"""How the cost of an update grows, as PNG bytes: a panel an axis, a line an agent, logarithmic scales."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bfq.reports.drawing import COLORS, DPI, INK, QUIET, WIDTH, as_png, literal, style_axes

Row = Mapping[str, Any]
Held = tuple[Any, ...]  # the values of all other axes
AXES = {
    "members": "members trained at once",
    "batch": "transitions in a batch",
    "width": "units of a hidden layer",
    "transitions": "transitions in the data",
    "flow_steps": "flow or diffusion steps",
}
COLUMNS = 3
TALL, ABOVE, BELOW = 2.0, 0.34, 0.5  # inches of a panel: its own, over it and under it
LEFT, RIGHT, BETWEEN = 0.62, 0.12, 0.34  # inches beside the panels
TOP, LINE, NAMES = 0.82, 0.2, 6  # inches for the title, and for a row of so many names
NARROW = 5.0  # inches that the words of the title need
MOST_TICKS = 5
AIR = 1.35  # the factor by which the scale goes beyond what is drawn
LEAST = 4.0  # the factor that the scale spans at least, so that noise is not shown as growth


class Line(NamedTuple):
    """An agent's cost along one axis, the other axes standing still."""

    agent: str
    x: tuple[float, ...]  # empty for an agent that the axis says nothing to
    rows: tuple[Row, ...]


class Panel(NamedTuple):
    """All agents along one axis."""

    axis: str
    lines: tuple[Line, ...]

    @property
    def values(self) -> list[float]:
        """Where there are measurements."""
        return sorted({value for line in self.lines for value in line.x})


def growth_figure(rows: Sequence[Row]) -> bytes | None:
    """Microseconds an update along every axis that has several values; None where none has."""
    panels = growth_panels(rows)
    if not panels:
        return None
    agents = list(dict.fromkeys(line.agent for panel in panels for line in panel.lines))
    colors = {agent: COLORS[k % len(COLORS)] for k, agent in enumerate(agents)}
    columns = min(COLUMNS, len(panels))
    wide = WIDTH if columns > 1 else NARROW
    head = TOP + LINE * math.ceil(len(agents) / NAMES)
    tall = head + math.ceil(len(panels) / columns) * (ABOVE + TALL + BELOW)
    figure = Figure(figsize=(wide, tall), dpi=DPI, facecolor="white")
    _draw_head(figure, str(rows[0]["device"]), held_text(panels), colors)
    side = (wide - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
    for k, panel in enumerate(panels):
        left = LEFT + (side + BETWEEN) * (k % columns)
        foot = tall - head - (ABOVE + TALL + BELOW) * (k // columns) - ABOVE - TALL
        axes = figure.add_axes((left / wide, foot / tall, side / wide, TALL / tall))
        _draw_panel(axes, panel, colors, scale_limits(panels), numbered=k % columns == 0)
    return as_png(figure)


def growth_panels(rows: Sequence[Row]) -> list[Panel]:
    """A panel for every axis along which some agent was measured more than once."""
    found = []
    for axis in AXES:
        series = {
            agent: _series(rows, agent, axis)
            for agent in dict.fromkeys(row["agent"] for row in rows)
        }
        longest = {
            agent: max(several, key=lambda held: len(several[held]))
            for agent, several in series.items()
        }
        grown = {agent: held for agent, held in longest.items() if len(series[agent][held]) > 1}
        lines = []
        for agent, several in series.items():
            if agent in grown:
                x = sorted(several[grown[agent]])
                lines.append(
                    Line(agent, tuple(x), tuple(several[grown[agent]][value] for value in x))
                )
            elif grown and all(list(points) == [None] for points in several.values()):
                beside = next((held for held in grown.values() if held in several), longest[agent])
                lines.append(Line(agent, (), (several[beside][None],)))
        if grown:
            found.append(Panel(axis, tuple(lines)))
    return found


def _series(rows: Sequence[Row], agent: str, axis: str) -> dict[Held, dict[Any, Row]]:
    """An agent's rows by what stands still, then by their place on the axis."""
    found: dict[Held, dict[Any, Row]] = defaultdict(dict)
    for row in rows:
        if row["agent"] == agent:
            found[tuple(row.get(other) for other in AXES if other != axis)][row.get(axis)] = row
    return found


def held_text(panels: Sequence[Panel]) -> str:
    """What stands still in all panels but its own, as far as it is the same for all agents."""
    words = []
    for axis in ("members", "batch", "width", "transitions"):
        rows = [
            row
            for panel in panels
            if panel.axis != axis
            for line in panel.lines
            for row in line.rows
        ]
        values: set[Any] = {row.get(axis) for row in rows}
        if len(values) == 1 and None not in values:
            words.append(f"{axis} {count_text(values.pop())}")
    return f"elsewhere {', '.join(words)}" if words else ""


def _draw_head(figure: Figure, title: str, held: str, colors: dict[str, str]) -> None:
    """The device, what is drawn, what stands still, and the agents by their colors."""
    wide, tall = figure.get_size_inches()
    quiet: dict[str, Any] = {"color": QUIET, "fontsize": 9.5}
    bold: dict[str, Any] = {"color": INK, "fontsize": 13, "fontweight": "bold"}
    said = "time of an update, median and range; dashed: slope 1"
    for text, under, look in ((title, 0.27, bold), (said, 0.47, quiet), (held, 0.65, quiet)):
        figure.text(LEFT / wide, 1 - under / tall, literal(text), va="baseline", **look)
    for k, (agent, color) in enumerate(colors.items()):
        across = LEFT + (wide - LEFT - RIGHT) / NAMES * (k % NAMES)
        under = TOP + LINE * (k // NAMES + 0.5)
        place, look = (across / wide, 1 - under / tall), {**bold, "color": color, "fontsize": 9.5}
        figure.text(*place, literal(agent), va="center", **look)


def _draw_panel(
    axes: Any, panel: Panel, colors: dict[str, str], limits: tuple[float, float], numbered: bool
) -> None:
    style_axes(axes, grid="both")
    values = panel.values
    axes.set(xscale="log", yscale="log", ylim=limits)
    axes.set_xlim(values[0] / AIR, values[-1] * AIR)
    ticks = values[:: math.ceil(len(values) / MOST_TICKS)]
    axes.set_xticks(ticks, [count_text(value) for value in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    few = limits[1] / limits[0] < 100
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: time_text(value) if numbered else "")
    )
    axes.yaxis.set_minor_locator(NullLocator())
    for line in panel.lines:
        _draw_line(axes, line, values, colors[line.agent])
    start = next(line for line in panel.lines if line.x)
    ends = np.array([values[0] / AIR, values[-1] * AIR])
    slope = _microseconds(start)[1][0] / start.x[0]
    axes.plot(
        ends,
        slope * ends,
        color=QUIET,
        lw=1.0,
        ls=(0, (4, 3)),
        zorder=1,
        scalex=False,
        scaley=False,
    )
    place = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(
        AXES[panel.axis], (0, 1), (0, 7), color=INK, fontsize=10, fontweight="bold", **place
    )


def _draw_line(axes: Any, line: Line, values: Sequence[float], color: str) -> None:
    """Medians with the range of repeats; level over the whole panel for an agent without such an axis."""
    x: Sequence[float] = line.x or (values[0], values[-1])
    low, median, high = (np.broadcast_to(part, len(x)) for part in _microseconds(line))
    axes.fill_between(x, low, high, color=color, alpha=0.2, lw=0, zorder=2)
    axes.plot(x, median, color=color, lw=1.8, marker="o" if line.x else "", ms=4, zorder=3)


def _microseconds(line: Line) -> tuple[Any, Any, Any]:
    """The least, the median and the most of each measurement."""
    spread = np.array([row["spread"] for row in line.rows], float)
    median = np.array([row["microseconds_per_update"] for row in line.rows], float)
    return spread[:, 0], median, spread[:, 1]


def scale_limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """One scale for all panels: all that was measured, with air, and no less than a few times the least."""
    parts = [_microseconds(line) for panel in panels for line in panel.lines]
    low, high = (
        min(part[0].min() for part in parts) / AIR,
        max(part[2].max() for part in parts) * AIR,
    )
    more = math.sqrt(max(LEAST * low / high, 1.0))
    return low / more, high * more


def count_text(count: float) -> str:
    """A count, short: 4096, 10 k, 1 M."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= 10**4 and count % size == 0:
            return f"{count / size:g} {letter}"
    return f"{count:g}"


def time_text(microseconds: float) -> str:
    """A time in the unit that suits it: 200 µs, 5 ms, 1 s."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= 0.999 * size:
            return f"{microseconds / size:g} {unit}"
    return f"{microseconds:g} µs"
