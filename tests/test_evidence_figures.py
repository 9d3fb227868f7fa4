"""The figures of evidence draw the data they are given, all of them, and their words do not collide."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer

from bfq.reports.drawing import COLORS, INK, wrap_evenly
from bfq.reports.statistics import performance_profile
from bfq.reports.sweep_figures import draw_sweeps, sweep_figure
from bfq_paper.figures_extra import Legend, draw_settings, method_colors, settings_figure
from bfq_paper.frequency_figure import Point, draw_frequencies, frequency_figure
from bfq_paper.profile_figure import draw_profiles, profile_figure
from bfq_paper.radar_figure import draw_radar, radar_figure, relative

METHODS = (
    "BFQ",
    "FQL, 10 flow steps",
    "IDQL",
    "IFQL",
    "ReBRAC",
    "TD3+BC",
    "SRPO",
    "Diffusion Q-learning",
)
KINDS = ("medium", "medium-replay", "medium-expert")
TASKS = [f"{robot}-{kind}-v2" for kind in KINDS for robot in ("halfcheetah", "hopper", "walker2d")]
TASKS += ["antmaze-large-navigate-singletask-v0", "cube-single-play-singletask-v0", "pen-human-v1"]
PNG = b"\x89PNG"


def scores(methods=METHODS, tasks=TASKS, seeds=3):
    random = np.random.default_rng(0)
    return {
        name: {task: random.normal(60 - 4 * k, 9, seeds) for task in tasks}
        for k, name in enumerate(methods)
    }


def means(several):
    return {
        name: {task: float(np.mean(x)) for task, x in tasks.items()}
        for name, tasks in several.items()
    }


def sweep(values, seeds=4):
    random = np.random.default_rng(1)
    return {value: random.normal(60, 5, seeds) for value in values}


def texts(figure):
    """Everything written, with its box in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    found = [
        text for axes in figure.axes for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)
    ]
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
            low, high = sorted(axis.get_view_interval())
            found += [label for place, label in ticks if low <= place <= high]
    return [(text, text.get_window_extent(renderer)) for text in found if text.get_text()]


def assert_legible(figure):
    """No words lie on other words or stick out, and all are of a size to read at 800 pixels."""
    written = texts(figure)
    for text, box in written:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width, text
        assert box.y1 <= figure.bbox.height, text
        assert text.get_fontsize() >= 7.5
    for (one, here), (other, there) in combinations(written, 2):
        assert not here.padded(-1).overlaps(there.padded(-1)), f"{one} lies on {other}"


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def dots(axes, marker="o"):
    return [np.column_stack(line.get_data()) for line in axes.lines if line.get_marker() == marker]


# Performance profiles.


def test_profiles_are_those_of_the_statistics():
    given = scores(METHODS[:2])
    (axes,) = draw_profiles(given, "Profiles", "score").axes
    for line, band, (name, own) in zip(axes.lines, axes.collections, given.items(), strict=True):
        thresholds, share = line.get_data()
        profile = performance_profile(own, thresholds)
        assert np.array_equal(share, profile.share)
        assert line.get_color() == method_colors(given)[name]
        corners = band.get_paths()[0].vertices
        assert (corners[:, 1].min(), corners[:, 1].max()) == (
            profile.band[0].min(),
            profile.band[1].max(),
        )
    lines = axes.lines
    assert lines[0].get_zorder() > lines[1].get_zorder()  # the first method is on top
    highest = max(x.max() for tasks in given.values() for x in tasks.values())
    assert lines[0].get_xdata()[-1] == highest
    assert lines[0].get_ydata()[[0, -1]].tolist() == [1.0, 0.0]


def test_profiles_compare_on_common_tasks_only():
    given = scores(METHODS[:2])
    whole = {**given, "FQL, 10 flow steps": {TASKS[0]: [1e3, 1e3]}}
    figure = draw_profiles(whole, "Profiles", "score")
    line, _ = figure.axes[0].lines
    expected = performance_profile({TASKS[0]: given["BFQ"][TASKS[0]]}, line.get_xdata())
    assert np.array_equal(line.get_ydata(), expected.share)
    assert any("1 task that all have, 2 to 3 seeds" in text for text in words(figure))
    assert profile_figure({"BFQ": given["BFQ"], "FQL": {"another": [1.0]}}) is None
    assert profile_figure({}) is None


def test_a_profile_of_one_seed_has_no_band():
    figure = draw_profiles(scores(seeds=1), "Profiles", "score")
    assert not figure.axes[0].collections
    assert not any("band" in text for text in words(figure))


def test_scores_below_zero_and_all_alike_are_drawn():
    (axes,) = draw_profiles({"BFQ": {"a": [-5.0, -3.0]}}, "Below", "score").axes
    assert axes.get_xlim() == (-5.0, -3.0)
    (axes,) = draw_profiles({"BFQ": {"a": [0.0, 0.0]}}, "Alike", "score").axes
    assert not axes.lines[0].get_ydata().any()


# The round of tasks.


def test_the_radar_normalizes_by_the_best_of_all_that_is_drawn():
    ours = {"BFQ": {"a": 50.0, "b": 20.0, "c": -4.0}, "FQL": {"a": 25.0, "b": 10.0, "c": 8.0}}
    figure = draw_radar(ours, "Radar", "return", paper={"FQL": {"a": 30.0, "b": 40.0, "c": 2.0}})
    bfq, fql, printed = figure.axes[0].lines
    assert bfq.get_ydata() == pytest.approx([1.0, 0.5, 0.0, 1.0])  # closed; below 0 is the middle
    assert fql.get_ydata() == pytest.approx([0.5, 0.25, 1.0, 0.5])
    assert printed.get_ydata() == pytest.approx([0.6, 1.0, 0.25, 0.6])
    assert printed.get_color() == fql.get_color() != bfq.get_color()
    assert printed.is_dashed()
    assert not fql.is_dashed()
    assert bfq.get_xdata() == pytest.approx(np.arange(4) * 2 * np.pi / 3)
    assert {"a\n50.0", "b\n40.0", "c\n8.00"} <= set(words(figure))  # the rim as a score


def test_an_absent_score_is_a_gap_and_not_zero():
    given = means(scores(METHODS[:2]))
    del given["BFQ"][TASKS[3]]
    figure = draw_radar(given, "Radar", "score")
    bfq, fql = figure.axes[0].lines
    assert np.flatnonzero(np.isnan(bfq.get_ydata())).tolist() == [3]  # no axis moved
    assert np.isfinite(fql.get_ydata()).all()
    assert not figure.axes[0].patches  # half a polygon has no inside
    assert any("gap: no score" in text for text in words(figure))


def test_an_axis_without_a_good_score_has_no_shares():
    assert np.isnan(relative({"a": -3.0}, {"a": -2.0})).all()
    assert relative({"b": 3.0, "a": 1.0}, {"a": 2.0, "b": 4.0}).tolist() == [0.5, 0.75]


def test_two_axes_are_no_radar():
    assert radar_figure({"BFQ": {"a": 1.0, "b": 2.0}}, "Radar") is None
    assert radar_figure({}, "Radar") is None


# Frequency against score.


def bars(axes):
    found = {c.get_label(): c for c in axes.containers if isinstance(c, ErrorbarContainer)}
    return {
        label: (c[0], [b.get_segments()[0].tolist() for b in c[2]]) for label, c in found.items()
    }


def test_points_stand_at_their_frequency_and_score():
    ours = {"BFQ": Point(9000.0, 80.0, 3.0, (8000.0, 9500.0)), "DQL": Point(150.0, 70.0)}
    paper = {"BFQ": Point(2000.0, 82.0, 1.0), "SRPO": Point(3000.0, 60.0)}
    (axes,) = draw_frequencies(ours, "Speed", paper).axes
    drawn = bars(axes)
    assert list(drawn) == ["BFQ", "DQL", "BFQ, the paper's", "SRPO, the paper's"]
    dot, (across, up) = drawn["BFQ"]
    assert np.ravel(dot.get_data()).tolist() == [9000.0, 80.0]
    assert across == [[8000.0, 80.0], [9500.0, 80.0]]
    assert up == [[9000.0, 77.0], [9000.0, 83.0]]
    assert drawn["DQL"][1] == []  # nothing is known of its spread
    assert drawn["BFQ, the paper's"][1] == [[[2000.0, 81.0], [2000.0, 83.0]]]
    assert drawn["BFQ, the paper's"][0].get_markerfacecolor() == "white"
    assert dot.get_markerfacecolor() == COLORS[0]
    (pair,) = (line for line in axes.lines if line.get_label() == "BFQ, both")
    assert np.transpose(pair.get_data()).tolist() == [[9000.0, 80.0], [2000.0, 82.0]]
    assert {"BFQ", "DQL", "SRPO"} <= {text.get_text() for text in axes.texts}  # each once
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize("apart", [0.0, 0.001, 0.3])
def test_names_lie_off_dots_bars_and_each_other(apart):
    ours = {
        m: Point(9000 * (1 + apart * k), 80 + 10 * apart * k, 4.0) for k, m in enumerate(METHODS)
    }
    paper = {m: Point(point.frequency / 2, point.score - 1, 1.0) for m, point in ours.items()}
    figure = draw_frequencies(ours, "Speed", paper)
    assert_legible(figure)
    (axes,) = figure.axes
    written = {text.get_text(): box for text, box in texts(figure)}
    for point in (*ours.values(), *paper.values()):
        x, y = axes.transData.transform((point.frequency, point.score))
        for name in METHODS:
            box = written[name]
            assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1)
            assert axes.bbox.x0 - 1 <= box.x0 <= box.x1 <= axes.bbox.x1 + 1


def test_no_methods_no_points():
    assert frequency_figure({}, "Speed") is None


# Ablations.


def test_a_sweep_draws_every_seed_and_their_mean():
    given = {1.0: [3.0, 5.0], 0.0: [1.0, 2.0], 0.5: [2.0, 2.0]}
    (axes,) = draw_sweeps(
        {"task": given}, "Sweep", "λ", "score", {"task": {0.0: 2.0, 1.0: 6.0}}
    ).axes
    *seeds, mean, printed = dots(axes)
    assert np.concatenate(seeds).tolist() == [[0, 1], [0, 2], [0.5, 2], [0.5, 2], [1, 3], [1, 5]]
    assert mean.tolist() == [[0.0, 1.5], [0.5, 2.0], [1.0, 4.0]]
    assert printed.tolist() == [[0.0, 2.0], [1.0, 6.0]]
    assert [line.is_dashed() for line in axes.lines[-2:]] == [False, True]
    (band,) = axes.collections
    corners = {tuple(np.round(corner, 9)) for corner in band.get_paths()[0].vertices}
    sd = np.sqrt([0.5, 0.0, 2.0])  # with n − 1 below
    for x, y, half in zip((0.0, 0.5, 1.0), (1.5, 2.0, 4.0), sd, strict=True):
        assert {(x, round(y - half, 9)), (x, round(y + half, 9))} <= corners


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((0.0, 0.25, 0.5, 1.0), "linear"),
        ((0.5, 1.0, 2.0), "linear"),
        ((0.01, 0.1, 1.0), "log"),
        ((0.0, 0.001, 0.01, 1.0), "symlog"),
        ((0.0,), "linear"),
    ],
)
def test_the_scale_fits_the_values_and_numbers_stand_at_them(values, scale):
    (axes,) = draw_sweeps({"task": sweep(values)}, "Sweep", "λ", "score").axes
    assert axes.get_xscale() == scale
    assert [float(label.get_text()) for label in axes.get_xticklabels()] == list(values)
    assert axes.get_xticks().tolist() == list(values)
    low, high = axes.get_xlim()
    assert low < values[0] <= values[-1] < high


def test_what_differs_by_factors_has_one_scale_in_all_panels():
    ours, paper = (
        {"bfq": {1.0: [0.06]}, "dql": {5.0: [0.1], 50.0: [1.7]}},
        {"dql": {5.0: 11.7, 50.0: 49.5}},
    )
    first, second = draw_sweeps(ours, "Times", "steps", "hours", paper, logarithmic=True).axes
    assert first.get_yscale() == second.get_yscale() == "log"
    assert first.get_ylim() == second.get_ylim()
    low, high = first.get_ylim()
    assert low < 0.06 < 49.5 < high


@pytest.mark.parametrize("values", [(0.2, 0.5), (0.0, 3.0), (np.nan, 40.0), (7.0, -1.0)])
def test_a_scale_of_factors_shows_what_it_can(values):
    (axes,) = draw_sweeps(
        {"a": {1.0: values[:1], 2.0: values[1:]}}, "", "", "", logarithmic=True
    ).axes
    low, high = axes.get_ylim()
    assert any(low <= tick <= high for tick in axes.get_yticks())
    assert 0 < low < min(v for v in values if v > 0)


def test_a_scale_of_factors_without_anything_on_it_is_no_error():
    assert sweep_figure({"a": {1.0: [0.0]}}, "", "", "", logarithmic=True).startswith(PNG)


def test_a_crowd_of_values_keeps_both_ends():
    values = [0.0, *np.geomspace(1e-3, 1e3, 31)]
    figure = draw_sweeps({task: sweep(values) for task in "abc"}, "Sweep", "η", "score")
    for axes in figure.axes:
        assert axes.get_xticks()[[0, -1]].tolist() == [0.0, 1e3]
    assert_legible(figure)


def test_one_seed_has_neither_band_nor_whiskers():
    (axes,) = draw_sweeps({"task": sweep((0.0, 1.0), seeds=1)}, "Sweep", "λ", "score").axes
    assert not axes.collections
    (axes,) = draw_settings({"task": {"with": [3.0], "without": [1.0]}}, "Part", "score").axes
    assert not [c for c in axes.containers if isinstance(c, ErrorbarContainer)]


def test_the_band_has_a_gap_where_one_seed_says_nothing():
    given = {0.0: [1.0, 2.0], 1.0: [1.0, 2.0], 2.0: [5.0], 3.0: [1.0, 2.0], 4.0: [1.0, 2.0]}
    (axes,) = draw_sweeps({"task": given}, "Sweep", "λ", "score").axes
    reached = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    assert set(reached[:, 0]) == {0.0, 1.0, 3.0, 4.0}
    assert reached[:, 1].max() < 3.0


def test_bars_are_means_with_their_seeds_and_the_papers():
    given = {"a": {"with": [3.0, 5.0], "without": [1.0, 2.0]}, "b": {"without": [-1.0, 0.0]}}
    (axes,) = draw_settings(given, "Part", "score", {"a": {"without": 2.5}}).axes
    drawn = [
        (bar.get_width(), bar.get_y() + bar.get_height() / 2, bar.get_facecolor()[:3])
        for bar in axes.patches
    ]
    assert [width for width, _, _ in drawn] == [4.0, 1.5, -0.5]
    (_, first, one), (_, second, other), (_, third, again) = drawn
    assert first < 0 < second < 1 < third  # 'without' stands below the middle of its task
    assert one != other == again
    seeds = {tuple(x) for line in dots(axes) for x in [line[:, 0]]}
    assert seeds == {(3.0, 5.0), (1.0, 2.0), (-1.0, 0.0), (2.5,)}
    (printed,) = (line for line in axes.lines if line.get_markeredgecolor() == INK)
    assert (printed.get_xdata()[0], printed.get_ydata()[0]) == pytest.approx((2.5, second))
    (whisker,) = [c for c in axes.containers if isinstance(c, ErrorbarContainer)][0][2]
    assert whisker.get_segments()[0][:, 0] == pytest.approx([4 - np.sqrt(2), 4 + np.sqrt(2)])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]


# All of them.


def paper_of(several):
    return {name: {task: 1.05 * x for task, x in tasks.items()} for name, tasks in several.items()}


FULL = {
    "profiles": lambda: draw_profiles(scores(), "Profiles", "normalized score"),
    "radar": lambda: draw_radar(
        means(scores()), "Radar", "score", paper_of(means(scores(METHODS[:3])))
    ),
    "small radar": lambda: draw_radar(means(scores(tasks=TASKS[:3])), "Radar", "normalized score"),
    "sweeps": lambda: draw_sweeps(
        {task: sweep((0, 0.001, 0.01, 0.1, 1)) for task in TASKS[:6]}, "Sweep", "λ", "score"
    ),
    "settings": lambda: draw_settings(
        {t: {m: s[t] for m, s in scores().items()} for t in TASKS}, "Part", "score"
    ),
}


@pytest.mark.parametrize("kind", FULL)
def test_eight_methods_and_long_names_stay_legible(kind):
    assert_legible(FULL[kind]())


def test_pictures_are_png_and_repeat():
    some = scores(METHODS[:2], TASKS[:3])
    for draw in (
        lambda: profile_figure(some),
        lambda: radar_figure(means(some), "Radar", paper=means(some)),
        lambda: frequency_figure({"BFQ": Point(10.0, 1.0)}, "Speed"),
        lambda: sweep_figure({"task $1": sweep((0, 1))}, "Sweep", "λ"),
        lambda: settings_figure({"task": {"with": [1.0, 2.0]}}, "Part"),
    ):
        first = draw()
        assert first.startswith(PNG)
        assert first == draw()
    assert sweep_figure({}, "Sweep", "λ") is settings_figure({}, "Part") is None


def test_a_given_color_stays_so_that_figures_agree():
    colors = method_colors(("BFQ", "FQL", "IQL"))
    assert method_colors(("IQL", "new"), colors) == {"IQL": COLORS[2], "new": COLORS[1]}
    (axes,) = draw_profiles(scores(("IQL",)), "Profiles", "score", {"IQL": colors["IQL"]}).axes
    assert axes.lines[0].get_color() == COLORS[2]


def test_names_fill_rows_evenly():
    assert Legend(dict.fromkeys("abcdefgh", INK), 4.0).columns == 4
    assert Legend(dict.fromkeys("abc", INK), 4.0).columns == 3
    assert Legend({"a name longer than the room there is": INK, "b": INK}, 1.0).columns == 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pen-human-v1", "pen-human-v1"),
        ("walker2d-medium-v2", "walker2d-\nmedium-v2"),
        ("my own task of two", "my own task\nof two"),
        ("antmaze-large-navigate-singletask-v0", "antmaze-large-\nnavigate- …"),
        ("supercalifragilistic", "supercalifragil…"),
        ("", ""),
    ],
)
def test_names_break_where_they_may(name, shown):
    assert wrap_evenly(name, 16, 2) == shown
