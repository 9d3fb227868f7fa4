"""Speed against quality as PNG bytes: a point a method, its name beside it where nothing else is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from bfq.reports.drawing import (
    DPI,
    FONT,
    QUIET,
    ROUND,
    WIDTH,
    as_png,
    draw_heading,
    literal,
    style_axes,
)
from bfq.reports.sweep_figures import count_text
from bfq_paper.figures_extra import Colors, method_colors

TALL, ABOVE, BELOW = 3.7, 0.62, 0.62  # inches of the panel: its own, over it and under it
LEFT, RIGHT = 0.62, 0.25  # inches beside it
AIR = 1.8  # the factor by which the scale of frequencies goes beyond what is drawn
DOT = 5.0  # points around a point that its own dot takes
NEAR = 6.0  # points between a dot and the name beside it; names farther off get a line to their dot
RINGS = (NEAR, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 90.0, 110.0)  # points, tried in turn
WAYS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))  # in each of them


class Point(NamedTuple):
    """How fast a method acts, and how well."""

    frequency: float  # action batches a second
    score: float
    std: float = 0.0  # of the score, over seeds
    frequencies: tuple[float, float] | None = None  # the least and the most of repeats


def frequency_figure(
    methods: Mapping[str, Point], title: str, paper: Mapping[str, Point] | None = None
) -> bytes | None:
    """The picture of `draw_frequencies`; None without methods."""
    return as_png(draw_frequencies(methods, title, paper)) if methods else None


def draw_frequencies(
    methods: Mapping[str, Point], title: str, paper: Mapping[str, Point] | None = None
) -> Figure:
    """Full what was measured, hollow what the paper says, a thin line between the two of one method."""
    printed = paper or {}
    shades = method_colors(dict.fromkeys((*methods, *printed)))
    tall = ABOVE + TALL + BELOW
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    axes = figure.add_axes((LEFT / WIDTH, BELOW / tall, 1 - (LEFT + RIGHT) / WIDTH, TALL / tall))
    _style(axes, [*methods.values(), *printed.values()])
    for name in methods.keys() & printed.keys():
        here, there = methods[name], printed[name]
        ends = (here.frequency, there.frequency), (here.score, there.score)
        axes.plot(*ends, color=shades[name], lw=0.8, ls=":", zorder=2, label=f"{name}, both")
    for name, point in methods.items():
        _draw_point(axes, point, shades[name], name, mfc=shades[name], mec="white", ms=8.5)
    for name, point in printed.items():
        _draw_point(
            axes, point, shades[name], f"{name}, the paper's", mfc="white", mec=shades[name], ms=7
        )
    draw_heading(axes, title, _words(methods.values(), bool(printed)))
    _name_points(axes, {**printed, **methods}, shades, [*methods.values(), *printed.values()])
    return figure


def _style(axes: Any, points: Sequence[Point]) -> None:
    style_axes(axes, grid="both")
    speeds = [f for point in points for f in (point.frequency, *(point.frequencies or ()))]
    low, high = min(speeds) / AIR, max(speeds) * AIR
    floor, top = min(p.score - p.std for p in points), max(p.score + p.std for p in points)
    air = 0.1 * (top - floor) or 0.5
    axes.set(xscale="log", xlim=(low, high), ylim=(floor - air, top + air))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_xlabel("action batches a second", color=QUIET, fontsize=FONT)
    axes.set_ylabel("normalized score", color=QUIET, fontsize=FONT)


def _words(points: Iterable[Point], printed: bool) -> str:
    """How to read it, as far as it is needed."""
    spread = (
        "mean ± standard deviation over seeds" if any(point.std for point in points) else "mean"
    )
    return f"{spread}; hollow: the paper" if printed else spread


def _draw_point(axes: Any, point: Point, color: Any, label: str, **dot: Any) -> None:
    low, high = point.frequencies or (point.frequency, point.frequency)
    axes.errorbar(
        [point.frequency],
        [point.score],
        yerr=[point.std] if point.std else None,
        xerr=[[point.frequency - low], [high - point.frequency]] if point.frequencies else None,
        fmt="o",
        mew=1.3,
        elinewidth=1.3,
        ecolor=(color, 0.45),
        zorder=4,
        label=label,
        **dot,
    )


def _name_points(
    axes: Any, named: Mapping[str, Point], colors: Colors, points: Sequence[Point]
) -> None:
    """Writes names beside their points, off all dots, error bars, each other and the edge."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    room = axes.get_window_extent(renderer)
    taken = [box for point in points for box in _boxes(axes, point)]
    for name, point in sorted(named.items(), key=lambda item: -item[1].score):
        look = {"color": colors[name], "fontsize": FONT, "fontweight": "bold", "zorder": 6}
        text = axes.text(
            point.frequency, point.score, literal(name), ha="center", va="center", **look
        )
        size = text.get_window_extent(renderer)
        dot = axes.transData.transform((point.frequency, point.score))
        box, far = _free(dot, size, taken, room)
        center = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        text.set_position(axes.transData.inverted().transform(center))
        taken.append(box)
        if far:
            edge = np.clip(dot, box.min, box.max)
            ends = axes.transData.inverted().transform([dot, edge]).T
            axes.plot(
                *ends, color=colors[name], lw=0.8, alpha=0.6, zorder=1, label=f"{name}, its name"
            )


def _boxes(axes: Any, point: Point) -> Iterator[Bbox]:
    """The dot, and the error bars as thin boxes, in pixels."""
    low, high = point.frequencies or (point.frequency, point.frequency)
    ends = axes.transData.transform(
        [(point.frequency, point.score - point.std), (point.frequency, point.score + point.std)]
    )
    across = axes.transData.transform([(low, point.score), (high, point.score)])
    dot = axes.transData.transform((point.frequency, point.score))
    pixels = DPI / 72
    yield Bbox([dot, dot]).padded(DOT * pixels)
    yield Bbox(ends).padded(pixels)
    yield Bbox(across).padded(pixels)


def _free(dot: Any, size: Bbox, taken: Sequence[Bbox], room: Bbox) -> tuple[Bbox, bool]:
    """The nearest free place of a box of this size, and whether it is far off; the last tried if none is."""
    boxes = list(_places(dot, size))
    for box, far in boxes:
        inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
        if inside and not any(box.overlaps(other) for other in taken):
            return box, far
    return boxes[-1]


def _places(dot: Any, size: Bbox) -> Iterator[tuple[Bbox, bool]]:
    """Beside, over and under the dot, then between these; ring after ring."""
    corner = np.array([size.width, size.height]) / 2
    for ring, way in product(RINGS, WAYS):
        center = dot + np.array(way) * (corner + ring * DPI / 72)
        yield Bbox([center - corner, center + corner]), ring > NEAR
