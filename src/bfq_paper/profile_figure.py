"""Performance profiles as PNG bytes: the share of runs above each score, a line a method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

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
from bfq.reports.statistics import Profile, Scores, performance_profile, range_text
from bfq_paper.figures_extra import Colors, Legend, method_colors

TALL, ABOVE, BELOW = (
    3.1,
    0.62,
    0.62,
)  # inches of the panel: its own, over it (without names) and under it
LEFT, RIGHT = 0.68, 0.2  # inches beside it
THRESHOLDS = 201


def profile_figure(
    methods: Mapping[str, Scores],
    title: str = "Performance profiles",
    unit: str = "normalized score",
    colors: Colors | None = None,
) -> bytes | None:
    """The picture of `draw_profiles`; None where no task has scores of all methods."""
    return as_png(draw_profiles(methods, title, unit, colors)) if common_tasks(methods) else None


def draw_profiles(
    methods: Mapping[str, Scores], title: str, unit: str, colors: Colors | None = None
) -> Figure:
    """A line a method, the first on top, with its band over seeds drawn anew within each task.

    Only tasks that all methods have count: a method is not better for having left out the hard ones.
    """
    tasks = common_tasks(methods)
    shared = {name: {task: scores[task] for task in tasks} for name, scores in methods.items()}
    shades = method_colors(methods, colors)
    legend = Legend(shades, WIDTH - LEFT - RIGHT)
    tall = ABOVE + legend.inches + TALL + BELOW
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    axes = figure.add_axes((LEFT / WIDTH, BELOW / tall, legend.wide / WIDTH, TALL / tall))
    style_axes(axes)
    values = np.concatenate([np.ravel(x) for scores in shared.values() for x in scores.values()])
    low, high = min(0.0, values.min()), values.max()
    thresholds = np.linspace(low, high if high > low else low + 1.0, THRESHOLDS)
    for k, (name, scores) in enumerate(shared.items()):
        _draw_profile(axes, performance_profile(scores, thresholds), shades[name], len(methods) - k)
    axes.set(xlim=(thresholds[0], thresholds[-1]), ylim=(0, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"τ, {literal(unit)}", color=QUIET, fontsize=FONT)
    draw_heading(axes, title, _words(methods, tasks), lift=72 * legend.inches)
    legend.draw(axes)
    return figure


def common_tasks(methods: Mapping[str, Scores]) -> list[str]:
    """The tasks on which every method has scores."""
    first, *others = methods.values() or [{}]
    return [task for task in first if all(task in scores for scores in others)]


def _draw_profile(axes: Any, profile: Profile, color: Any, above: int) -> None:
    if profile.band:
        look = {"color": color, "alpha": 0.14, "lw": 0, "zorder": 2}
        axes.fill_between(profile.thresholds, *profile.band, **look)
    axes.plot(profile.thresholds, profile.share, color=color, lw=1.9, zorder=2 + above)


def _words(methods: Mapping[str, Scores], tasks: Sequence[str]) -> str:
    """What is drawn, over how many tasks and seeds."""
    seeds = [len(scores[task]) for scores in methods.values() for task in tasks]
    band = " and 95% band" if min(seeds) > 1 else ""
    dropped = any(set(scores) != set(tasks) for scores in methods.values())
    counted = f"{range_text([len(tasks)], 'task')}{' that all have' if dropped else ''}"
    return f"share of runs that score above τ{band}, {counted}, {range_text(seeds, 'seed')} each"
