"""Scores of many methods as PNG bytes: a panel a task, a line a method, best first."""

import textwrap
from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bfq.reports.drawing import (
    DPI,
    HAIR,
    INK,
    QUIET,
    ROUND,
    WIDTH,
    agent_colors,
    group_color,
    heading,
    measured,
    plain,
    png,
    style,
)
from bfq.reports.runs import Run
from bfq.reports.standings import Method, Standings, standings
from bfq.reports.statistics import Summary
from bfq.reports.tables import ABSENT, decimals, in_words, number_text

LINE, ABOVE, BELOW = 0.27, 0.78, 0.45  # inches: of a method, and over and under a panel
LEFT, RIGHT = 0.37, 0.9  # where a panel begins and ends, of the figure's width
NAME, NOTED = 38, 34  # characters of a name, and of one with notes, whose letters are wider
SEEDS = (
    "Large dot: mean over seeds. Line: its 95% interval, with an arrow where it leaves the panel. "
    "Small dots: the seeds."
)
ROOM = 0.3  # how far intervals may reach beyond all seeds, of the seeds' own range


def score_figure(runs: Sequence[Run]) -> bytes | None:
    """The mean of each method with its 95% interval and its seeds; None where nothing was scored."""
    tables = [
        table for table in standings(runs) if any(method.row.returns for method in table.methods)
    ]
    if not tables:
        return None
    colors, short = agent_colors(runs), _shortened(tables)
    heights = [LINE * len(table.methods) for table in tables]
    tall = sum(heights) + (ABOVE + BELOW) * len(tables)
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    top = tall
    for table, height in zip(tables, heights, strict=True):
        foot = top - ABOVE - height
        axes = figure.add_axes((LEFT, foot / tall, RIGHT - LEFT, height / tall))
        _draw_table(axes, table, colors, short)
        top = foot - BELOW
    return png(figure)


def score_words(runs: Sequence[Run]) -> str:
    """What to see in the scores of these runs, as far as it is drawn."""
    tables = standings(runs)
    scores = [
        score for table in tables for m in table.methods if (score := m.row.score(table.unit))
    ]
    data = any(row.score(table.unit) for table in tables for row in table.data)
    several = any(score.interval for score in scores)
    return " ".join(
        (SEEDS if several else "Dot: one seed.", *(["Dashed: the data."] if data else []))
    )


def _draw_table(
    axes: Any, table: Standings, colors: dict[str, Any], short: Collection[str]
) -> None:
    """A line a method under the data's mean; `short` are the agents that go by their short names."""
    style(axes, grid="x")
    low, high = _limits(table)
    axes.set(xlim=(low, high), ylim=(len(table.methods) - 0.4, -0.6), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    for place, method in enumerate(table.methods):
        axes.axhline(place, color=HAIR, lw=0.8, zorder=0)
        color = group_color(method.run, method.group, colors)
        _draw_method(axes, place, method, table.unit, color, _name(method, short))
    for row in table.data:
        score = row.score(table.unit)
        if score:
            axes.axvline(score.mean, color=QUIET, lw=1.3, ls=(0, (5, 3)), zorder=1)
            axes.annotate(
                f"Data  {_number(score, table.unit)}",
                (score.mean, 1.0),
                (0, 4),
                axes.get_xaxis_transform(),
                "offset points",
                color=QUIET,
                fontsize=9,
                ha="center",
            )
    seeds = [len(method.group.places) for method in table.methods]
    heading(
        axes,
        table.task,
        measured(in_words(table.unit, table.runs), seeds),
        left=_across(0.02),
        lift=13,
    )


def _draw_method(axes: Any, place: int, method: Method, unit: str, color: Any, name: str) -> None:
    """The name, the interval, the seeds, their mean, and the mean as a number."""
    where = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
    axes.text(-0.03, place, name, color=INK, fontsize=9.5, **where)
    score = method.row.score(unit)
    number = _number(score, unit) if score else ABSENT
    axes.text(_across(0.985), place, number, color=color, fontsize=9, **where)
    if score is None:
        return
    if score.interval:
        _draw_interval(axes, place, score.interval, color)
        values = method.run.scored(unit, method.group)
        axes.plot(
            values, [place] * len(values), "o", color=color, ms=3.6, alpha=0.85, mew=0, zorder=3
        )
    axes.plot([score.mean], [place], "o", color=color, ms=7.5, mec="white", mew=1.2, zorder=4)


def _draw_interval(axes: Any, place: int, interval: Sequence[float], color: Any) -> None:
    """A line from end to end, with an arrow where it leaves the panel."""
    low, high = axes.get_xlim()
    axes.plot(
        interval, [place] * 2, color=color, lw=2.0, alpha=0.4, zorder=2, solid_capstyle="round"
    )
    for gone, edge, arrow in ((interval[0] < low, low, "<"), (interval[1] > high, high, ">")):
        if gone:
            axes.plot([edge], [place], arrow, color=color, ms=5, mew=0, clip_on=False, zorder=3)


def _limits(table: Standings) -> tuple[float, float]:
    """All seeds and the data, and the intervals as far as they do not squeeze everything else."""
    scores = [score for row in table.rows if (score := row.score(table.unit))]
    seeds = [value for m in table.methods for value in m.run.scored(table.unit, m.group)]
    points = seeds + [score.mean for score in scores]
    ends = [end for score in scores for end in score.interval or ()]
    room = ROOM * (max(points) - min(points))
    low = min([min(points), *(max(end, min(points) - room) for end in ends)])
    high = max([max(points), *(min(end, max(points) + room) for end in ends)])
    air = 0.03 * (high - low) or 0.5
    return low - air, high + air


def _shortened(tables: Sequence[Standings]) -> set[str]:
    """The agents of which some name has no room for what sets it apart: none has two styles of name."""
    methods = [method for table in tables for method in table.methods if method.notes]
    return {method.run.agent for method in methods if len(method.name) > NOTED}


def _name(method: Method, short: Collection[str]) -> str:
    """What sets a method apart is kept, if need be at the cost of the agent's title."""
    name = (
        f"{method.run.agent} {method.notes}".strip() if method.run.agent in short else method.name
    )
    return plain(textwrap.shorten(name, NAME, placeholder=" …"))


def _across(place: float) -> float:
    """A place of the figure's width, in widths of a panel from its left."""
    return (place - LEFT) / (RIGHT - LEFT)


def _number(score: Summary, unit: str) -> str:
    return number_text(score.mean, decimals(score.mean, unit))
