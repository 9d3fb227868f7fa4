"""Learning curves, losses and scores as PNG bytes."""

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from bfq.reports.drawing import (
    DPI,
    FONT,
    HAIR,
    INK,
    QUIET,
    ROUND,
    WIDTH,
    Label,
    agent_colors,
    as_png,
    describe_unit,
    draw_heading,
    group_color,
    label_ends,
    literal,
    style_axes,
    value_label,
)
from bfq.reports.prose import ABSENT, SUCCESS, decimals, in_words, number_text
from bfq.reports.runs import Group, Run, Series
from bfq.reports.statistics import Summary, summarize
from bfq.reports.tables import Method, Standings, apart, standings

ABOVE, BELOW, TALL = 0.59, 0.55, 3.06  # inches of a panel of curves: over it, under it, and its own
CROWD = 6  # curves in a panel, beyond which they are thin and have no bands
COLUMNS, MULTIPLE = 3, 1.7  # small multiples in a row, and the height of one
AIR = 0.08  # over and under all lines of a panel, of their own range
BAND = "Shaded: its 95% interval, as far as the panel reaches. Faint: each seed."


@dataclass(frozen=True)
class Curve:
    """A line with its name and color."""

    name: str
    color: Any
    series: Series
    own: bool  # of the run itself, not of a baseline

    @property
    def last(self) -> float:
        """The mean where it ends."""
        return float(np.nanmean(self.series.values[-1]))

    @property
    def several(self) -> bool:
        """Whether it is of more than one seed."""
        return self.series.values.shape[1] > 1


@dataclass(frozen=True)
class Panel:
    """Curves over one axis."""

    title: str
    unit: str
    words: str  # for the unit
    end: int
    data: float | None
    curves: tuple[Curve, ...]
    single: bool  # of one run, whose own curves stand out

    @property
    def crowded(self) -> bool:
        """Whether there are too many curves for bold ones with bands."""
        return len(self.curves) > CROWD

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which ends a score can lie: no share is beyond 0 or 100%."""
        return (0.0, 100.0) if self.words == SUCCESS else (-np.inf, np.inf)

    def is_strong(self, curve: Curve) -> bool:
        """Whether a curve is bold, with its seeds and their band."""
        return not self.crowded or (self.single and curve.own)

    @property
    def labels(self) -> list[Label]:
        """A name for each line, that of the data too."""
        small = self.crowded
        labels = [
            Label(
                value_label(curve.name, curve.last, self.unit, small),
                curve.color,
                float(curve.series.steps[-1]),
                curve.last,
                small,
                self.is_strong(curve),
            )
            for curve in self.curves
        ]
        if self.data is not None:
            text = value_label("Data", self.data, self.unit, small)
            labels.append(Label(text, QUIET, self.end, self.data, small, not small))
        return labels

    @property
    def height(self) -> float:
        """Inches between floor and title: more where the labels need them."""
        return max(TALL, sum(label.inches for label in self.labels) if self.crowded else 0.0)


def learning_curves(*runs: Run) -> bytes | None:
    """Score against updates; None where nothing was evaluated.

    A panel is a task with a line an agent where its runs differ in the agent only, else it is a run.
    Bold is the mean of a group, shaded its 95% interval over seeds, faint each seed, dashed the data.
    """
    panels = _panels([run for run in runs if run.metric_names("evaluation")])
    if not panels:
        return None
    tall = sum(panel.height + ABOVE + BELOW for panel in panels)
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    top = tall
    for panel in panels:
        right = 0.64 if panel.crowded else 0.735
        foot = top - ABOVE - panel.height
        axes = figure.add_axes((0.085, foot / tall, right - 0.085, panel.height / tall))
        _draw_panel(axes, panel)
        top = foot - BELOW
    return as_png(figure)


def curve_words(*runs: Run) -> str:
    """What to see in the learning curves of these runs, as far as it is drawn."""
    panels = _panels([run for run in runs if run.metric_names("evaluation")])
    drawn = [(panel, curve) for panel in panels for curve in panel.curves]
    several = any(curve.several for _, curve in drawn)
    banded = any(curve.several and panel.is_strong(curve) for panel, curve in drawn)
    return " ".join(
        (
            f"Line: {'mean over seeds' if several else 'one seed'}, along training.",
            *([BAND] if banded else []),
            *(
                ["Dashed: mean of the data."]
                if any(panel.data is not None for panel in panels)
                else []
            ),
        )
    )


def joined(runs: Sequence[Run]) -> bool:
    """Whether runs of one task differ in the agent only, so that one panel tells of all of them."""
    single = all(len(each.groups) == 1 for run in runs for each in (run, *run.baselines))
    return single and len({run.agent for run in runs}) == len(runs) > 1


def losses(run: Run) -> bytes | None:
    """Small multiples of what training logged; None where it logged nothing.

    A line is the mean of a group of members, the band reaches from its lowest to its highest member.
    """
    names = run.metric_names("train")
    if not names:
        return None
    rows = -(-len(names) // COLUMNS)
    figure = Figure(
        figsize=(WIDTH, MULTIPLE * rows + 0.1), dpi=DPI, facecolor="white", layout="constrained"
    )
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _loss_panel(axes, run, name)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    if len(run.groups) > 1:
        figure.legend(
            panels[0].lines,
            [literal(group.label) for group in run.groups],
            loc="outside lower left",
            ncols=COLUMNS,
            frameon=False,
            labelcolor=QUIET,
            fontsize=9,
            handlelength=1.4,
        )
    return as_png(figure)


def _panels(runs: Sequence[Run]) -> list[Panel]:
    colors = agent_colors(runs)
    panels: dict[str, Panel] = {}
    for run in runs:
        same = [each for each in runs if each.task == run.task]
        if not joined(same):
            panels[str(run.folder)] = _run_panel(run, runs, colors)
        elif f"task {run.task}" not in panels:
            panels[f"task {run.task}"] = _task_panel(same, colors)
    return list(panels.values())


def _run_panel(run: Run, runs: Sequence[Run], colors: dict[str, Any]) -> Panel:
    """The baselines' curves, then the agent's, which thus lie on top."""
    alone, told = len(run.groups) == 1, apart(run, runs)
    entries = [(each, group, each.title) for each in run.baselines for group in each.groups]
    entries += [(run, group, run.title if alone else group.label) for group in run.groups]
    title = " · ".join(
        filter(None, (run.task, "" if alone else run.agent if told else run.title, told))
    )
    return _panel(title, [run], entries, colors)


def _task_panel(runs: Sequence[Run], colors: dict[str, Any]) -> Panel:
    """The curves of all methods, the best on top."""
    (table,) = standings(runs)
    entries = [(method.run, method.group, method.name) for method in reversed(table.methods)]
    return _panel(table.task, runs, entries, colors)


def _panel(
    title: str,
    runs: Sequence[Run],
    entries: Sequence[tuple[Run, Group, str]],
    colors: dict[str, Any],
) -> Panel:
    unit = (
        "normalized"
        if all("normalized" in run.metric_names("evaluation") for run in runs)
        else "return"
    )
    curves = [
        Curve(
            name,
            group_color(run, group, colors),
            _finite(run.series("evaluation", unit, group)),
            run in runs,
        )
        for run, group, name in entries
    ]
    shown = tuple(curve for curve in curves if len(curve.series.steps))
    end = max([run.steps for run in runs] + [int(curve.series.steps[-1]) for curve in shown])
    data = runs[0].data["normalized_mean" if unit == "normalized" else "return_mean"]
    return Panel(title, unit, in_words(unit, runs), end, data, shown, len(runs) == 1)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for curve in panel.curves:
        _draw_curve(axes, curve, panel.is_strong(curve), panel.bounds)
    if panel.data is not None:
        axes.axhline(panel.data, color=QUIET, lw=1.3, ls=(0, (5, 3)), zorder=1)
    _style(axes, panel.end)
    _fit(axes)
    axes.set_xlabel("updates", color=QUIET, fontsize=FONT)
    seeds = [curve.series.values.shape[1] for curve in panel.curves] or [1]
    draw_heading(axes, panel.title, describe_unit(panel.words, seeds, banded=not panel.crowded))
    label_ends(axes, panel.labels, panel.height)


def _loss_panel(axes: Any, run: Run, name: str) -> None:
    colors = agent_colors([run])
    for group in run.groups:
        color = group_color(run, group, colors)
        steps, values = _finite(run.series("train", name, group))
        low, high, mean = (of(values, axis=1) for of in (np.nanmin, np.nanmax, np.nanmean))
        axes.fill_between(steps, low, high, color=color, alpha=0.2, lw=0)
        axes.plot(steps, mean, color=color, lw=1.4, solid_capstyle="round")
    _style(axes, run.steps)
    axes.tick_params(labelsize=7.5)
    axes.set_title(literal(name.replace("_", " ")), loc="left", color=INK, fontsize=9.5, pad=5)


def _finite(series: Series) -> Series:
    """The rows at which at least one seed has a number."""
    kept = np.isfinite(series.values).any(1)
    return Series(series.steps[kept], series.values[kept])


def _draw_curve(axes: Any, curve: Curve, strong: bool, bounds: tuple[float, float]) -> None:
    """A bold line with its seeds and interval, or a thin one."""
    steps, values = curve.series
    mean, low, high = _band(values)
    if strong and curve.several:
        low, high = np.clip((low, high), *bounds)
        axes.plot(steps, values, color=curve.color, lw=0.7, alpha=0.28, zorder=2)
        axes.fill_between(steps, low, high, color=curve.color, alpha=0.16, lw=0, zorder=2)
    width, dot, edge = (2.4, 5.5, 1.2) if strong else (1.2, 4.0, 0.8)
    above = 4 if strong else 3
    axes.plot(steps, mean, color=curve.color, lw=width, zorder=above, solid_capstyle="round")
    end = {"ms": dot, "mec": "white", "mew": edge, "zorder": above + 1, "clip_on": False}
    axes.plot(steps[-1:], mean[-1:], "o", color=curve.color, **end)


def _band(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean, low and high along training; where one seed is left, all three are that seed."""
    summaries = [summarize(row[np.isfinite(row)]) for row in values]
    return np.asarray([(s.mean, *(s.interval or (s.mean, s.mean))) for s in summaries]).T


def _fit(axes: Any) -> None:
    """The scale follows the lines: of two seeds the interval alone would squeeze everything else."""
    drawn = [float(y) for line in axes.lines for y in line.get_ydata()]
    shown = [y for y in drawn if np.isfinite(y)]
    if shown:
        low, high = min(shown), max(shown)
        air = AIR * (high - low) or AIR * abs(high) or AIR
        axes.set_ylim(low - air, high + air)


def _style(axes: Any, end: int) -> None:
    """Axes along training."""
    style_axes(axes)
    axes.set_xlim(0, max(end, 1))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3, steps=ROUND))
    axes.margins(y=0.08)


SCORE_LINE, SCORES_ABOVE, SCORES_BELOW = (
    0.27,
    0.78,
    0.45,
)  # inches: of a method, and over and under a panel
SCORES_LEFT, SCORES_RIGHT = 0.37, 0.9  # where a panel begins and ends, of the figure's width
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
    heights = [SCORE_LINE * len(table.methods) for table in tables]
    tall = sum(heights) + (SCORES_ABOVE + SCORES_BELOW) * len(tables)
    figure = Figure(figsize=(WIDTH, tall), dpi=DPI, facecolor="white")
    top = tall
    for table, height in zip(tables, heights, strict=True):
        foot = top - SCORES_ABOVE - height
        axes = figure.add_axes(
            (SCORES_LEFT, foot / tall, SCORES_RIGHT - SCORES_LEFT, height / tall)
        )
        _draw_table(axes, table, colors, short)
        top = foot - SCORES_BELOW
    return as_png(figure)


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
    style_axes(axes, grid="x")
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
    draw_heading(
        axes,
        table.task,
        describe_unit(in_words(table.unit, table.runs), seeds),
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
    return literal(textwrap.shorten(name, NAME, placeholder=" …"))


def _across(place: float) -> float:
    """A place of the figure's width, in widths of a panel from its left."""
    return (place - SCORES_LEFT) / (SCORES_RIGHT - SCORES_LEFT)


def _number(score: Summary, unit: str) -> str:
    return number_text(score.mean, decimals(score.mean, unit))
