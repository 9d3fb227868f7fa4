"""The figures of experiments draw the data they are given, and their words do not overlap."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer

from bfq.reports.drawing import INK, as_png
from bfq.reports.statistics import performance_profile
from bfq.reports.sweep_figures import draw_sweeps, sweep_figure
from bfq_paper.drawing import (
    Point,
    ScoreCurve,
    draw_bars,
    draw_frequencies,
    draw_profiles,
    draw_radar,
    draw_score_curves,
    method_colors,
    shares_of_best,
)

METHODS = ("bfq", "FQL, 10 flow steps", "idql", "ifql", "rebrac", "td3_bc", "Diffusion Q-learning")
KINDS = ("medium", "medium-replay", "medium-expert")
TASKS = [f"{robot}-{kind}-v2" for kind in KINDS for robot in ("halfcheetah", "hopper", "walker2d")]
TASKS += ["antmaze-large-navigate-singletask-v0", "cube-single-play-singletask-v0", "pen-human-v1"]
COLORS = method_colors(METHODS)


def scores(methods=METHODS, tasks=TASKS, seeds=3):
    draw, levels = np.random.default_rng(0).normal, range(60, 0, -4)
    rows = zip(methods, levels, strict=False)
    return {name: {task: draw(level, 9, seeds) for task in tasks} for name, level in rows}


def means(several):
    mean = lambda rows: {task: float(np.mean(x)) for task, x in rows.items()}
    return {name: mean(rows) for name, rows in several.items()}


def sweep(values, seeds=4):
    random = np.random.default_rng(1)
    return {value: random.normal(60, 5, seeds) for value in values}


def texts(figure):
    """Every text with its box in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    found = []
    for axes in figure.axes:
        found += [*axes.texts, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
            low, high = sorted(axis.get_view_interval())
            found += [label for place, label in ticks if low <= place <= high]
    return [(text, text.get_window_extent(renderer)) for text in found if text.get_text()]


def assert_legible(figure):
    written = texts(figure)
    for text, box in written:
        assert min(box.x0, box.y0) >= 0, text
        assert (box.x1 <= figure.bbox.width) & (box.y1 <= figure.bbox.height), text
        assert text.get_fontsize() >= 7.5
    for (one, here), (other, there) in combinations(written, 2):
        assert not here.padded(-1).overlaps(there.padded(-1)), f"{one} overlaps {other}"


def dots(axes):
    return [np.column_stack(line.get_data()) for line in axes.lines if line.get_marker() == "o"]


def test_profiles_are_those_of_the_statistics():
    given = scores(METHODS[:2])
    (axes,) = draw_profiles(given, "Profiles", "score", COLORS).axes
    for line, band, (name, own) in zip(axes.lines, axes.collections, given.items(), strict=True):
        thresholds, share = line.get_data()
        profile = performance_profile(own, thresholds)
        assert np.array_equal(share, profile.share)
        assert line.get_color() == COLORS[name]
        corners = band.get_paths()[0].vertices[:, 1]
        assert (corners.min(), corners.max()) == (profile.band[0].min(), profile.band[1].max())
    assert axes.lines[0].get_ydata()[[0, -1]].tolist() == [1.0, 0.0]
    single = draw_profiles(scores(METHODS[:2], seeds=1), "Profiles", "score", COLORS)
    assert not single.axes[0].collections


def test_scores_below_zero_and_equal_scores_are_drawn():
    (axes,) = draw_profiles({"bfq": {"a": [-5.0, -3.0]}}, "Below", "score", COLORS).axes
    assert axes.get_xlim() == (-5.0, -3.0)
    (axes,) = draw_profiles({"bfq": {"a": [0.0, 0.0]}}, "Equal", "score", COLORS).axes
    assert not axes.lines[0].get_ydata().any()


def test_the_radar_normalizes_by_the_best_that_is_drawn():
    ours = {"bfq": {"a": 50.0, "b": 20.0, "c": -4.0}, "idql": {"a": 25.0, "b": 10.0, "c": 8.0}}
    paper = {"idql": {"a": 30.0, "b": 40.0, "c": 2.0}}
    bfq, idql, printed = draw_radar(ours, "Radar", "return", paper, COLORS).axes[0].lines
    assert bfq.get_ydata() == pytest.approx([1.0, 0.5, 0.0, 1.0])  # closed; negative: the middle
    assert idql.get_ydata() == pytest.approx([0.5, 0.25, 1.0, 0.5])
    assert printed.get_ydata() == pytest.approx([0.6, 1.0, 0.25, 0.6])
    assert printed.get_color() == idql.get_color() != bfq.get_color()
    assert (printed.is_dashed(), idql.is_dashed()) == (True, False)
    assert bfq.get_xdata() == pytest.approx(np.arange(4) * 2 * np.pi / 3)


def test_a_missing_score_is_a_gap():
    given = means(scores(METHODS[:2]))
    del given["bfq"][TASKS[3]]
    (axes,) = draw_radar(given, "Radar", "score", {}, COLORS).axes
    assert np.flatnonzero(np.isnan(axes.lines[0].get_ydata())).tolist() == [3]
    assert np.isfinite(axes.lines[1].get_ydata()).all()
    assert not axes.patches  # an open polygon is not filled
    assert draw_radar({"bfq": {"a": 1.0, "b": 2.0}}, "Radar", "score", {}, COLORS) is None


def test_an_axis_without_a_positive_score_has_no_shares():
    assert np.isnan(shares_of_best({"a": -3.0}, {"a": -2.0})).all()
    assert shares_of_best({"b": 3.0, "a": 1.0}, {"a": 2.0, "b": 4.0}).tolist() == [0.5, 0.75]


def test_frequencies_stand_at_their_scores():
    ours = {"bfq": Point(9000.0, 80.0), "idql": Point(150.0, 70.0)}
    (axes,) = draw_frequencies(ours, "Speed", {"bfq": Point(2000.0, 82.0)}, COLORS).axes
    assert np.concatenate(dots(axes)).tolist() == [[9000.0, 80.0], [2000.0, 82.0], [150.0, 70.0]]
    assert axes.get_xscale() == "log"
    (pair,) = (line for line in axes.lines if line.get_linestyle() == ":")
    assert np.transpose(pair.get_data()).tolist() == [[9000.0, 80.0], [2000.0, 82.0]]


def test_learning_curves_are_means_over_seeds():
    curve = ScoreCurve([10, 20], np.array([[1.0, 3.0], [2.0, np.nan]]))
    (axes,) = draw_score_curves({"row": {"bfq": curve}}, "Curves", "score", COLORS).axes
    assert dots(axes)[0].tolist() == [[10.0, 2.0], [20.0, 2.0]]
    corners = axes.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (1.0, 3.0)


def test_a_sweep_draws_every_seed_and_the_mean():
    given = {1.0: [3.0, 5.0], 0.0: [1.0, 2.0], 0.5: [2.0, 2.0]}
    paper = {"task": {0.0: 2.0, 1.0: 6.0}}
    (axes,) = draw_sweeps({"task": given}, "Sweep", "λ", "score", paper).axes
    *seeds, mean, printed = dots(axes)
    assert np.concatenate(seeds).tolist() == [[0, 1], [0, 2], [0.5, 2], [0.5, 2], [1, 3], [1, 5]]
    assert mean.tolist() == [[0.0, 1.5], [0.5, 2.0], [1.0, 4.0]]
    assert printed.tolist() == [[0.0, 2.0], [1.0, 6.0]]
    (band,) = axes.collections
    corners = {tuple(np.round(corner, 9)) for corner in band.get_paths()[0].vertices}
    sd = np.sqrt([0.5, 0.0, 2.0])  # with n − 1 below
    for x, y, half in zip((0.0, 0.5, 1.0), (1.5, 2.0, 4.0), sd, strict=True):
        assert {(x, round(y - half, 9)), (x, round(y + half, 9))} <= corners


@pytest.mark.parametrize(("values", "scale"), [
    ((0.0, 0.25, 0.5, 1.0), "linear"),
    ((0.01, 0.1, 1.0), "log"),
    ((0.0, 0.001, 0.01, 1.0), "symlog"),
    ((0.0,), "linear"),
    ((0.0, *np.geomspace(1e-3, 1e3, 31)), "symlog"),
])  # fmt: skip
def test_the_scale_fits_the_values(values, scale):
    (axes,) = draw_sweeps({"task": sweep(values)}, "Sweep", "λ", "score").axes
    assert axes.get_xscale() == scale
    ticks = axes.get_xticks().tolist()
    assert ticks == list(values) if len(values) < 10 else ticks[:: len(ticks) - 1] == [0.0, 1e3]
    low, high = axes.get_xlim()
    assert low < values[0] <= values[-1] < high


def test_times_share_a_logarithmic_scale():
    ours = {"bfq": {1.0: [0.06]}, "dql": {5.0: [0.1], 50.0: [1.7]}}
    paper = {"dql": {5.0: 11.7, 50.0: 49.5}}
    first, second = draw_sweeps(ours, "Times", "steps", "hours", paper, logarithmic=True).axes
    assert first.get_yscale() == second.get_yscale() == "log"
    assert first.get_ylim() == second.get_ylim()
    low, high = first.get_ylim()
    assert low < 0.06 < 49.5 < high
    assert sweep_figure({"a": {1.0: [0.0]}}, "", "", "", logarithmic=True)  # nothing to show


def test_bars_are_means_with_their_seeds_and_the_papers():
    given = {"a": {"bfq": [3.0, 5.0], "idql": [1.0, 2.0]}, "b": {"idql": [-1.0, 0.0]}}
    (axes,) = draw_bars(given, "Part", "score", {"a": {"idql": 2.5}}, COLORS).axes
    drawn = [(b.get_width(), b.get_y() + b.get_height() / 2) for b in axes.patches]
    assert [width for width, _ in drawn] == [4.0, 1.5, -0.5]
    (_, first), (_, second), (_, third) = drawn
    assert first < 0 < second < 1 < third
    seeds = {tuple(line[:, 0]) for line in dots(axes)}
    assert seeds == {(3.0, 5.0), (1.0, 2.0), (-1.0, 0.0), (2.5,)}
    (printed,) = (line for line in axes.lines if line.get_markeredgecolor() == INK)
    assert (printed.get_xdata()[0], printed.get_ydata()[0]) == pytest.approx((2.5, second))
    (whisker,) = next(c for c in axes.containers if isinstance(c, ErrorbarContainer))[2]
    assert whisker.get_segments()[0][:, 0] == pytest.approx([4 - np.sqrt(2), 4 + np.sqrt(2)])
    (axes,) = draw_bars({"a": {"bfq": [3.0]}}, "Part", "score", {}, COLORS).axes
    assert not [c for c in axes.containers if isinstance(c, ErrorbarContainer)]


SCORES = scores()
SWEPT = {task: sweep((0, 0.001, 0.01, 0.1, 1)) for task in TASKS[:6]}
MANY = {task: sweep((0.0, *np.geomspace(1e-3, 1e3, 31))) for task in "abc"}
BY_TASK = {task: {name: rows[task] for name, rows in SCORES.items()} for task in TASKS}
CURVES = {
    task: {name: ScoreCurve([1000, 2000], x[None].repeat(2, 0)) for name, x in BY_TASK[task].items()}
    for task in TASKS[:3]
}  # fmt: skip
FULL = {
    "profiles": lambda: draw_profiles(SCORES, "Profiles", "normalized score", COLORS),
    "radar": lambda: draw_radar(means(SCORES), "Radar", "score", means(SCORES), COLORS),
    "small radar": lambda: draw_radar(means(scores(tasks=TASKS[:3])), "Radar", "score", {}, COLORS),
    "sweeps": lambda: draw_sweeps(SWEPT, "Sweep", "λ", "score"),
    "many values": lambda: draw_sweeps(MANY, "Sweep", "η", "score"),
    "bars": lambda: draw_bars(BY_TASK, "Part", "score", {}, COLORS),
    "curves": lambda: draw_score_curves(CURVES, "Curves", "score", COLORS),
}


@pytest.mark.parametrize("kind", FULL)
def test_many_methods_and_long_names_stay_legible(kind):
    figure = FULL[kind]()
    assert_legible(figure)
    assert as_png(FULL[kind]()) == as_png(FULL[kind]())
