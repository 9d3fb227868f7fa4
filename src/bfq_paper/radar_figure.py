"""Many tasks in one round as PNG bytes: an axis a task, a polygon a method, the best at the rim."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from bfq.reports.drawing import DPI, HAIR, INK, QUIET, WIDTH, as_png, draw_heading, wrap_evenly
from bfq.reports.statistics import decimals, number_text
from bfq_paper.figures_extra import Colors, Legend, method_colors

Means = Mapping[str, Mapping[str, float]]  # by method, then by axis
LEAST = 3  # axes of which a polygon can be made
SIDE = 4.3  # inches across the round
ABOVE, BELOW, EDGE = (
    1.3,
    0.75,
    0.3,
)  # inches over the round (without names), under it, and at the left
LINE, LINES = 19, 3  # characters in a line of an axis's name, and such lines
RINGS = (0.25, 0.5, 0.75, 1.0)


def radar_figure(
    methods: Means,
    title: str,
    unit: str = "normalized score",
    paper: Means | None = None,
    colors: Colors | None = None,
) -> bytes | None:
    """The picture of `draw_radar`; None for fewer axes than make a polygon."""
    return (
        as_png(draw_radar(methods, title, unit, paper, colors))
        if len(all_axes(methods)) >= LEAST
        else None
    )


def draw_radar(
    methods: Means,
    title: str,
    unit: str,
    paper: Means | None = None,
    colors: Colors | None = None,
) -> Figure:
    """Solid what was measured, the first method on top and filled; dashed what the paper says of it.

    Both share the scale of an axis: from 0 in the middle to the best of all that is drawn at the rim.
    """
    printed = paper or {}
    shades = method_colors(dict.fromkeys((*methods, *printed)), colors)
    legend = Legend(shades, WIDTH - 2 * EDGE)
    names = all_axes(methods, printed)
    best = best_scores(names, methods, printed)
    tall = ABOVE + legend.inches + SIDE + BELOW
    left = (WIDTH - SIDE) / 2
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    axes = figure.add_axes(
        (left / WIDTH, BELOW / tall, SIDE / WIDTH, SIDE / tall), projection="polar"
    )
    _style(axes, names, best, unit)
    for k, (name, means) in enumerate(methods.items()):
        look = {"lw": 1.9, "marker": "o", "ms": 4, "mew": 0, "zorder": 30 - k}
        _draw_polygon(axes, relative(means, best), shades[name], filled=k == 0, **look)
    for name, means in printed.items():
        look = {
            "lw": 1.2,
            "ls": (0, (4, 2.5)),
            "marker": "o",
            "ms": 3.5,
            "mfc": "white",
            "zorder": 10,
        }
        _draw_polygon(axes, relative(means, best), shades[name], filled=False, **look)
    gaps = any(set(means) != set(names) for means in (*methods.values(), *printed.values()))
    edge = (EDGE - left) / SIDE
    over = ABOVE - 0.62  # the names of methods stand over those of axes
    draw_heading(
        axes, title, _words(unit, bool(printed), gaps), left=edge, lift=72 * (over + legend.inches)
    )
    legend.draw(axes, left=edge, lift=over)
    return figure


def all_axes(methods: Means, paper: Means | None = None) -> list[str]:
    """The axes in the order of whoever has the most of them, so that a gap moves no axis."""
    every = sorted((*methods.values(), *(paper or {}).values()), key=len, reverse=True)
    return list(dict.fromkeys(name for means in every for name in means))


def best_scores(names: Sequence[str], *several: Means) -> dict[str, float]:
    """The highest score on each axis."""
    every = [means for methods in several for means in methods.values()]
    return {name: max(means[name] for means in every if name in means) for name in names}


def relative(means: Mapping[str, float], best: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Shares of the best score, one an axis; no number where there is no score, or no share to speak of.

    Below 0 there is no place in a round: such a score stands in the middle.
    """
    return np.array(
        [
            max(means[name], 0.0) / best[name] if name in means and best[name] > 0 else np.nan
            for name in best
        ]
    )


def _draw_polygon(
    axes: Any, radii: npt.NDArray[np.float64], color: Any, filled: bool, **look: Any
) -> None:
    """A closed line, broken where a score is absent; only a whole one has an inside."""
    angles = np.linspace(0, 2 * np.pi, len(radii), endpoint=False)
    closed = np.append(angles, 2 * np.pi), np.append(radii, radii[0])
    axes.plot(*closed, color=color, clip_on=False, **look)
    if filled and np.isfinite(radii).all():
        axes.fill(*closed, color=color, alpha=0.1, lw=0, zorder=5)


def _style(axes: Any, names: Sequence[str], best: Mapping[str, float], unit: str) -> None:
    """Axes from noon on with the sun, rings at quarters of the best, and names with that best outside."""
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set(ylim=(0, 1), yticks=RINGS, yticklabels=[], xticks=angles, xticklabels=[])
    axes.grid(color=HAIR, lw=0.8)
    axes.spines["polar"].set_color("#B8C0C8")
    for ring in RINGS[:-1]:
        place = {"ha": "center", "va": "center", "color": QUIET, "fontsize": 7.5, "zorder": 40}
        paint = {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.6}
        axes.text(np.pi / len(names), ring, f"{100 * ring:.0f}%", bbox=paint, **place)
    for name, angle in zip(names, angles, strict=True):
        _name_axis(axes, name, best[name], float(angle), unit)


def _name_axis(axes: Any, name: str, best: float, angle: float, unit: str) -> None:
    """The axis's name over its best score, outside the rim, on the side where it lies."""
    number = number_text(
        best, decimals(best, "normalized" if unit.startswith("normal") else "return")
    )
    across, up = np.sin(angle), np.cos(angle)
    side = "center" if abs(across) < 0.1 else "left" if across > 0 else "right"
    height = "bottom" if up > 0.3 else "top" if up < -0.3 else "center"
    axes.annotate(
        f"{wrap_evenly(name, LINE, LINES)}\n{number}",
        (angle, 1.0),
        (9 * across, 9 * up),
        textcoords="offset points",
        ha=side,
        va=height,
        color=INK,
        fontsize=9,
        linespacing=1.15,
    )


def _words(unit: str, printed: bool, gaps: bool) -> str:
    """How to read it, as far as it is needed."""
    parts = [f"{unit} as a share of the best, which stands at its axis"]
    parts += ["dashed: the paper"] if printed else []
    return "; ".join([*parts, "gap: no score"] if gaps else parts)
