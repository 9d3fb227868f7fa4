"""Reports show what run records hold, and survive files that are broken, poor or hostile."""

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import bfq
from bfq.cli.main import main
from bfq.errors import BadInput
from bfq.reports import describe_acting, figures, read_finished, report, score_name, tables
from bfq.reports.drawing import spread_labels
from bfq.reports.report import report_page, write_report
from bfq.reports.tables import (
    markdown_comparison,
    rich_standings,
    rich_table,
    score_table,
    standings,
)
from bfq.run import RewardTransform

PNG = b"\x89PNG\r\n\x1a\n"
HOSTILE = "<script>alert('x')</script>&\"|$\\frac{"
PROTOCOL = {
    "episodes": 20, "seed": 10_000, "checkpoint": "last", "candidates": 1, "selection": "argmax",
    "softmax_weight": 1.0, "temperature": 1.0, "policy": "ema", "sampling_steps": 0,
    "sampler": "trained",
}  # fmt: skip
DATA = {
    "name": "pendulum-mixed", "source": "two controllers and noise", "sha256": "ab" * 32,
    "transitions": 100_000, "episodes": 500, "return_mean": -700.0, "return_std": 300.0,
    "return_max": -120.0, "normalized_mean": 42.0,
}  # fmt: skip
REWARD = {"name": "none", "scale": 1.0, "shift": 0.0}
RECORD = {
    "task": "pendulum-mixed", "agent": "bfq", "title": "Bootstrapped Flow Q-Learning",
    "steps": 10_000, "protocol": PROTOCOL, "data": DATA,
    "transforms": {"observations": "standardize", "reward": REWARD},
    "reference": {"low": -1200.0, "high": -150.0, "source": "random policy and energy controller"},
    "versions": {"python": "3.11.7", "jax": "0.10.2"}, "device": "cpu", "train_seconds": 73.2,
    "microseconds_per_step": 7320.0, "command": "bfq train --task pendulum-mixed --seeds 6",
    "config": {"eta": 1.0, "boundary_ratio": 0.5, "mixing": "split"},
}  # fmt: skip
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 16}
BC = {"agent": "bc", "title": "Behavior cloning", "train_seconds": 21.0}

SUCCESS = {"low": 0.0, "high": 1.0, "source": "success in per cent"}


def metrics(final, normalized, steps):
    """Curves that rise to `final`, with noise of their own for each member."""
    count = len(final)
    random = np.random.default_rng(count)
    rows = []
    for step in range(steps // 10, steps + 1, steps // 10):
        decay = np.exp(-4 * step / steps)
        values = {
            name: (scale * (decay + 0.2) + 0.05 * random.normal(size=count)).tolist()
            for name, scale in (("critic_loss", 9.0), ("policy_loss", -2.0), ("q", 4.0))
        }
        score = np.asarray(final) * (1 - decay) + 4 * random.normal(size=count) * (step < steps)
        scores = {"return": (-1200 + 10.5 * score).tolist()}
        scores |= {"normalized": score.tolist()} if normalized else {}
        rows += [{"step": step, "kind": "train", "metrics": values},
                 {"step": step, "kind": "evaluation", "metrics": scores}]  # fmt: skip
    return rows


SCORES = (94.0, 97.0, 95.5, 98.0, 96.0, 96.5)


def write_run(folder, scores=SCORES, etas=(), normalized=True, baseline=False, **changes):
    """A finished run with these normalized scores per seed, and lower ones away from eta = 0.1."""
    grid = [(eta, seed) for eta in etas or (0.1,) for seed in range(len(scores))]
    values = [scores[seed] - 30 * abs(eta - 0.1) for eta, seed in grid]
    returns = [-1200 + 10.5 * value for value in values]
    record = {
        **RECORD,
        "members": [{"seed": k, "overrides": {"eta": eta} if etas else {}} for eta, k in grid],
        "scores": {"return": returns, "normalized": values if normalized else None},
        **({} if normalized else {"reference": None}),
        **changes,
    }
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(record))
    rows = metrics(values, normalized, record["steps"])
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if baseline:
        lower = [score - 35 for score in scores]
        write_run(folder / "baselines" / "bc", lower, normalized=normalized, **{**changes, **BC})
    return folder


@pytest.fixture
def make_run(tmp_path):
    """Write a run and return its folder."""
    return lambda name="run", *args, **changes: write_run(tmp_path / name, *args, **changes)


@pytest.fixture
def read(make_run):
    """Write a run and read it."""
    return lambda *args, **changes: read_finished(make_run(*args, **changes))


@pytest.fixture
def many(read):
    """Runs of one task with one agent each, each better than the previous one."""
    return lambda count=3: [
        read(f"run{k}", (50.0 + k, 52.0 + k), agent=f"agent{k}", title=f"Method number {k}")
        for k in range(count)
    ]


def change_record(folder, **changes):
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def in_terminal(*tables, width=80):
    file = io.StringIO()
    for table in tables:
        Console(width=width, file=file).print(table)
    return file.getvalue()


def is_png(picture):
    return (picture or b"").startswith(PNG)


# Runs


def test_a_run_is_read_with_its_baselines_and_curves(read):
    run = read(baseline=True)
    assert (run.task, run.agent) == ("pendulum-mixed", "bfq")
    assert (len(run.members), len(run.rows)) == (6, 20)
    assert [baseline.agent for baseline in run.baselines] == ["bc"]
    (group,) = run.groups
    steps, values = run.series("evaluation", "normalized", group)
    assert steps.tolist() == list(range(1000, 10_001, 1000))
    assert values.shape == (10, 6)
    assert values[-1] == pytest.approx(np.asarray(run.scores["normalized"]) * (1 - np.exp(-4)))


def test_members_are_grouped_by_overrides_in_any_order(make_run):
    overrides = [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"b": 2, "a": 1}] * 2
    members = [{"seed": k, "overrides": each} for k, each in enumerate(overrides)]
    groups = read_finished(change_record(make_run(), members=members)).groups
    assert [group.places for group in groups] == [(0, 2, 3, 5), (1, 4)]
    assert [group.label for group in groups] == ["a=1, b=2", "a=3, b=2"]


def test_seeds_without_a_score_are_left_out(read):
    scores = {"return": [1.0, None, 2.0], "normalized": [1.0, None, 2.0]}
    run = read(scores=(1.0, 2.0, 3.0))
    run = dataclasses.replace(run, scores=scores)
    assert run.finite_scores("normalized", run.groups[0]) == [1.0, 2.0]
    assert "2 of 3" in in_terminal(rich_table(run))


@pytest.mark.parametrize(("removed", "message"), [
    ("result.json", "not finished"),
    ("baselines/bc/result.json", "baselines/bc is not finished"),
    ("metrics.jsonl", "no file"),
])  # fmt: skip
def test_an_incomplete_run_is_refused_with_the_remedy(make_run, removed, message):
    folder = make_run(baseline=True)
    (folder / removed).unlink()
    with pytest.raises(BadInput, match=message) as refused:
        read_finished(folder)
    if removed.endswith("result.json"):
        assert f"`bfq train --resume --out {folder}`" in str(refused.value)
    (folder / "page").mkdir()
    with pytest.raises(BadInput, match=r"page is not a run: it has no config\.json"):
        read_finished(folder / "page")
    with pytest.raises(BadInput, match="no run folder"):
        read_finished(folder / "nowhere")


ROW = '{{"step": {step}, "kind": "train", "metrics": {{"q": [{q}]}}}}'


@pytest.mark.parametrize(("name", "content", "message"), [
    ("result.json", "{", "JSON"),
    ("result.json", "[" * 100_000, "result.json"),
    ("result.json", '{"steps": NaN}', "JSON"),
    ("result.json", '{"steps": 1e999}', "steps"),
    ("result.json", f'{{"steps": 1{"0" * 400}}}', "steps"),
    ("result.json", "[]", "object"),
    ("result.json", "{}", "task"),
    ("metrics.jsonl", '{"step": 1', "line 1"),
    ("metrics.jsonl", ROW.format(step=1, q="-Infinity"), "line 1"),
    ("metrics.jsonl", ROW.format(step='"one"', q=1), "step"),
    ("metrics.jsonl", ROW.format(step=1, q=1), "1 numbers for 6 members"),
    ("metrics.jsonl", ROW.format(step=1, q='"x"'), "metrics"),
    ("metrics.jsonl", ROW.format(step=1, q="1e308"), "metrics"),
    ("metrics.jsonl", "\udcff\udcfe\0", "line 1"),
    ("result.json", {"steps": "many"}, "steps"),
    ("result.json", {"data": {}}, "data: .*name"),
    ("result.json", {"members": []}, "members"),
    ("result.json", {"members": [3]}, r"members\[0\]"),
    ("result.json", {"scores": {"return": [1.0], "normalized": None}}, "1 scores for 6 members"),
    ("result.json", {"title": HOSTILE}, "title"),
    ("result.json", {"task": ""}, "task"),
])  # fmt: skip
def test_corrupt_files_and_records_are_refused_by_name(make_run, name, content, message):
    folder = make_run()
    if isinstance(content, dict):
        change_record(folder, **content)
    else:
        (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=message) as refused:
        read_finished(folder)
    assert name in str(refused.value)


# Tables


def test_rows_are_data_baselines_and_each_setting_of_the_agent(read):
    table = score_table(read(baseline=True))
    rows = [(row.kind, row.agent, row.seeds) for row in table.rows]
    assert rows == [("data", "data", None), ("baseline", "bc", 6), ("agent", "bfq", 6)]
    data, bc, agent = map(report.as_record, table.rows)
    assert data["return"]["mean"] == -700.0
    assert agent["normalized"]["mean"] == pytest.approx(np.mean(SCORES))
    assert bc["train_seconds"] == 21.0
    json.dumps([data, bc, agent], allow_nan=False)
    sweep = read("sweep", etas=(0.05, 0.1), scores=(90.0, 92.0))
    table = score_table(sweep)
    assert [row.overrides for row in table.rows] == ["", "eta=0.05", "eta=0.1"]
    assert table.rows[-1].normalized.mean == pytest.approx(91.0)
    assert "best of 2 settings, chosen by this score: eta=0.1" in report_page([sweep])


def test_one_seed_has_no_spread_and_no_reference_no_normalized_score(read):
    text = in_terminal(rich_table(read()))
    assert max(map(len, text.splitlines())) <= 80
    for words in ("96.2 ± 1.4", "[94.7, 97.6]", "−190.2 ± 14.3"):
        assert words in text
    text = in_terminal(rich_table(read("one", (96.0,)))).rpartition("mean ±")[0]
    assert "96.0" in text
    assert not {"±", "["} & set(text)
    run = read("plain", normalized=False, data=DATA | {"normalized_mean": None})
    assert all(row["normalized"] is None for row in map(report.as_record, score_table(run).rows))
    assert "–" in in_terminal(rich_table(run))


def test_markup_in_names_stays_text(read):
    run = read(title="[red]x[/nonsense]")
    assert "[red]x[/nonsense]" in in_terminal(rich_table(run), width=120)
    runs = [run, read("other", title="a|b $\\frac{ *c*")]
    lines = [x.replace("\\|", "") for x in markdown_comparison(runs).splitlines() if x[:1] == "|"]
    assert len(lines) == 5
    assert {line.count("|") for line in lines} == {8}


def test_methods_are_aggregated_over_tasks(read):
    one = read("one", task="one", baseline=True)
    runs = [one, read("two", (80.0, 82.0, 84.0), task="two", baseline=True)]
    methods = tables.aggregates(runs)
    assert [(each.name, each.tasks) for each in methods] == [(RECORD["title"], 2), (BC["title"], 2)]
    for _, _, (value, (low, high)) in methods:
        assert low < value < high
    assert tables.aggregates(runs[:1]) == []
    assert [row.task for row in report.comparison(runs)] == ["one"] * 3 + ["two"] * 3


def test_methods_are_sorted_best_first_below_the_data(many):
    (table,) = standings(many())
    assert [method.run.agent for method in table.methods] == ["agent2", "agent1", "agent0"]
    assert (table.unit, table.updates_differ, table.acting_differs) == ("normalized", False, False)
    text = in_terminal(rich_standings(table))
    assert max(len(line) for line in text.splitlines()) <= 80
    words = ("Data", "number 2", "number 1", "number 0", "best first")
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert "53.0 ± 1.4" in text


def test_shared_baselines_appear_once_and_equal_names_get_their_folder(read):
    one, two = read("one", baseline=True), read("two", (90.0, 91.0), baseline=True)
    (table,) = standings([one, two])
    assert len(table.data) == 1
    wanted = [f"{run['title']} {name}" for run in (BC, RECORD) for name in ("one", "two")]
    assert sorted(row.full_name for row in table.methods) == wanted
    (table,) = standings([one, read("again", agent="other", title="Other", baseline=True)])
    assert [row.full_name for row in table.methods].count("Behavior cloning") == 1


def test_one_method_without_normalized_scores_sorts_all_by_return(many, read):
    plain = read("plain", (99.0, 98.0), normalized=False, agent="x")
    (table,) = standings([*many(), plain])
    assert (table.unit, table.methods[0].run) == ("return", plain)
    assert is_png(figures.score_figure([plain]))


def test_markdown_has_ways_of_acting_and_several_tasks_where_they_differ(many, read):
    runs = many(2)
    text = markdown_comparison(runs)
    assert "1 candidate;" in text
    assert "2 seeds, 10,000 updates, 20 episodes per seed, last checkpoint" in text
    changed = {**PROTOCOL, "candidates": 10, "temperature": 0.5}
    text = markdown_comparison([*runs, read("other", protocol=changed)])
    assert "| 10 candidates, noise × 0.5 |" in text
    assert "| 1 candidate |" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 6
    assert {line.count("|") for line in lines} == {9}
    two = read("two", task="two", agent="agent0", title="Method number 0")
    assert "## Over tasks" in markdown_comparison([*runs, two])


# Descriptions


@pytest.mark.parametrize(("protocol", "words"), [
    ({}, "1 candidate"),
    ({"candidates": 50, "selection": "softmax", "softmax_weight": 5.0},
     "50 candidates, softmax of weight 5"),
    ({"policy": "online", "temperature": 0.5}, "1 candidate, noise × 0.5, online policy"),
    ({"sampling_steps": 5, "sampler": "ddim"}, "1 candidate, 5 network calls, ddim sampler"),
])  # fmt: skip
def test_acting_in_few_words(read, protocol, words):
    assert describe_acting(read(protocol=PROTOCOL | protocol)) == words


def test_success_rates_have_their_own_unit_and_wilsons_interval(read):
    counting = read("counting", (90.0,), reference=SUCCESS)
    plain = read("plain", (90.0,))
    assert score_name("normalized", [counting]) == "success in %"
    assert score_name("normalized", [counting, plain]) == "normalized score"
    assert score_name("return", [counting]) == "return"
    (sentence,) = report.describe_successes(counting)
    assert sentence == "18 of 20 episodes succeeded (Wilson's 95% interval: 69.9 to 97.2%)."
    assert list(report.describe_successes(plain)) == []
    sweep = read("s", (90.0, 100.0), reference=SUCCESS, etas=(0.1, 1.1))
    found = [sentence.partition(" succeeded")[0] for sentence in report.describe_successes(sweep)]
    assert found == ["With eta=0.1, 38 of 40 episodes", "With eta=1.1, 26 of 40 episodes"]


@pytest.mark.parametrize(("reward", "words"), [
    (("none", 1.0, 0.0), "unchanged"),
    (("return_range", 0.25, 0.0), "r ← 0.25 × r, so that returns of the data span 1,000"),
    (("minus_one", 1.0, -1.0), "r ← r − 1"),
    (("cql_antmaze", 4.0, -2.0), "r ← 4 × r − 2"),
    (("another", 2.0, 1.0), "r ← 2 × r + 1"),
])  # fmt: skip
def test_transforms_of_rewards_as_formulas(reward, words):
    assert report.describe_reward(RewardTransform(*reward)) == words


# Figures


def test_runs_that_differ_only_in_the_agent_share_a_panel(many):
    runs = many(8)
    (panel,) = figures.curve_panels(runs)
    assert figures.share_panel(runs)
    assert panel.crowded
    assert [curve.name for curve in panel.curves[-2:]] == ["Method number 6", "Method number 7"]
    assert len({curve.color for curve in panel.curves}) == 8
    assert is_png(figures.learning_curves(*runs))
    assert is_png(figures.score_figure(runs))
    assert "Shaded" not in figures.curve_caption(*runs)  # too many for bands


def test_sweeps_and_repeated_agents_have_a_panel_per_run(many, read):
    runs = many(2)
    sweep = read("sweep", (50.0,), etas=(0.1, 0.2))
    assert len(figures.curve_panels([*runs, sweep])) == 3
    assert len(figures.curve_panels([runs[0], runs[0]])) == 1  # the same folder twice
    assert len(figures.curve_panels([runs[0], read("again", agent="agent0")])) == 2
    assert is_png(figures.score_figure([*runs, sweep]))


def test_runs_of_one_agent_and_task_are_named_after_their_folders(read):
    names = ("critic=plain", "critic=clean_diffuser")
    runs = [read(name, (50.0, 60.0), etas=(0.1, 0.2)) for name in names]
    other = read("elsewhere", (50.0,), etas=(0.1, 0.2), task="elsewhere")
    titles = [panel.title for panel in figures.curve_panels([*runs, other])]
    wanted = [f"pendulum-mixed · bfq · {name}" for name in names]
    assert titles == [*wanted, f"elsewhere · {RECORD['title']}"]
    page = report_page([*runs, other])
    for name in names:
        assert page.count(f"on pendulum-mixed, {name}</") == 2  # link and heading
    assert ", critic" not in report_page(runs[:1])


def test_wide_intervals_do_not_set_the_scale(read):
    run = read("wide", (40.0, 60.0))
    (table,) = standings([run])
    low, high = figures.score_limits(table)
    assert 30.0 < low < 40.0 < 60.0 < high < 70.0  # the interval itself reaches from −77 to 177


@pytest.mark.parametrize("successes", [True, False])
def test_curves_set_the_scale_and_success_rates_stay_within_100(read, successes):
    reference = {"reference": SUCCESS} if successes else {}
    (panel,) = figures.curve_panels([read(scores=(60.0, 99.0), **reference)])
    axes = Figure().add_subplot()
    figures.draw_curve_panel(axes, panel)
    values = panel.curves[0].series.values
    low, high = axes.get_ylim()
    assert values.min() - 10.0 < low < values.min()
    assert values.max() < high < values.max() + 10.0
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert (corners.max() > 150.0) != successes
    assert not successes or (corners.min(), corners.max()) == (0.0, 100.0)


CHANGES = [{}, {"scores": (96.0,)}, {"normalized": False}, {"etas": (0.05, 0.1, 0.3)}]


@pytest.mark.parametrize("changes", CHANGES)
def test_figures_are_png_and_repeat(read, changes):
    run = read(baseline=True, **changes)
    assert is_png(figures.losses(run))
    assert is_png(figures.learning_curves(run))
    assert figures.learning_curves(run) == figures.learning_curves(run)


def test_figures_survive_absent_numbers(read):
    run = read()
    for row in run.rows:
        absent = 6 if row is run.rows[0] else 1
        row.metrics.update({k: [None] * absent + v[absent:] for k, v in row.metrics.items()})
    assert is_png(figures.learning_curves(run))
    assert is_png(figures.losses(run))


@pytest.mark.parametrize(("wanted", "heights", "places"), [
    ([0.1, 0.5, 0.9], [0.1] * 3, [0.1, 0.5, 0.9]),
    ([0.5, 0.5], [0.1] * 2, [0.45, 0.55]),
    ([0.0, 0.98, 1.0], [0.1] * 3, [0.05, 0.85, 0.95]),  # between floor and title
    ([0.9] * 10, [0.1] * 10, np.arange(0.05, 1.0, 0.1)),
    ([0.1, 0.12, 0.13, 0.3], [0.1, 0.2, 0.1, 0.1], [0.05, 0.2, 0.35, 0.45]),
])  # fmt: skip
def test_labels_move_apart_as_little_as_possible(wanted, heights, places):
    found = spread_labels(wanted, heights)
    assert found == pytest.approx(places)
    heights = np.asarray(heights)
    assert (np.diff(found) >= (heights[1:] + heights[:-1]) / 2 - 1e-9).all()


# The page


def test_the_page_shows_everything_and_hostile_text_stays_text(read, parse_page):
    page = parse_page(report_page([read(baseline=True)]))
    shown = "Behavior cloning;96.2 ± 1.4;two controllers and noise;boundary_ratio;500 episodes"
    for words in (*shown.split(";"), "0.10.2", DATA["sha256"], RECORD["command"]):
        assert words in page.text
    assert page.count("img") == 2
    changes = dict.fromkeys(("device", "command"), HOSTILE)
    changes |= {"data": DATA | {"source": HOSTILE}, "config": {HOSTILE: HOSTILE}}
    changes["reference"] = RECORD["reference"] | {"source": HOSTILE}
    page = report_page([read("hostile", versions={HOSTILE: HOSTILE}, **changes)])
    assert "<script" not in page
    assert parse_page(page).text.count(HOSTILE) == 8


def test_poor_runs_have_a_page(make_run, tmp_path, parse_page):
    """Without a reference, without a simulator, without metrics, without statistics of the data."""
    folder = make_run(scores=(96.0,), normalized=False)
    parse_page(report_page([read_finished(folder)]))
    absent = ("return_mean", "return_std", "return_max", "normalized_mean", "sha256")
    change_record(folder, scores=None, data=DATA | dict.fromkeys(absent))
    (folder / "metrics.jsonl").write_text("")
    run = read_finished(folder)
    pages = parse_page(report_page([run])).text, parse_page(report_page([run, run])).text
    tables = in_terminal(rich_table(run)), in_terminal(*map(rich_standings, standings([run])))
    for text in (*pages, *tables, markdown_comparison([run])):
        assert "no simulator" in text
        assert "per seed" not in text
    assert figures.learning_curves(run) is figures.losses(run) is None
    assert figures.score_figure([run, run]) is None
    written = write_report([folder], tmp_path / "out")
    assert written["files"] == [str(tmp_path / "out" / "report.html")]


# The report


def test_a_report_is_written_whole_and_lost_pictures_come_back(make_run, tmp_path):
    out = tmp_path / "new" / "report"
    folder = make_run(baseline=True)
    written = write_report([folder], out)
    names = ["learning_curves.png", "report.html"]
    assert written["files"] == [str(out / name) for name in names]
    assert [row["agent"] for row in written["rows"]] == ["data", "bc", "bfq"]
    assert written["runs"][0]["task"] == "pendulum-mixed"
    json.dumps(written, allow_nan=False)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(first) == names
    for path in out.iterdir():
        path.unlink()
    assert write_report([folder], out) == written
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_several_runs_are_compared_on_one_page(make_run, tmp_path, parse_page):
    one = make_run("one", task="one", baseline=True)
    two = make_run("two", (80.0, 82.0, 84.0), task="two", baseline=True)
    written = write_report([one, two], tmp_path / "out")
    page = parse_page((tmp_path / "out" / "report.html").read_text())
    assert "Interquartile mean" in page.text
    anchors = {attributes.get("href") for name, attributes in page.elements if name == "a"}
    ids = {f"#{attributes['id']}" for _, attributes in page.elements if attributes.get("id")}
    assert anchors == ids == {"#run-1", "#run-2"}
    assert len(written["rows"]) == 6
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"learning_curves.png", "report.html", "scores.png", "table.md"}
    assert page.count("img") == 5  # two per run, and the scores of all


def test_a_run_with_many_baselines_is_a_comparison(make_run, tmp_path, parse_page):
    folder = make_run(baseline=True)
    for name in ("b", "c"):
        write_run(folder / "baselines" / name, [50.0] * 6, agent=name, title=name)
    assert tables.is_comparison([read_finished(folder)])
    written = write_report([folder], tmp_path / "out")
    assert [Path(name).name for name in written["files"][2:]] == ["scores.png", "table.md"]
    assert parse_page((tmp_path / "out" / "report.html").read_text()).count("img") == 3


@pytest.mark.parametrize("name", ["倒立摆 🤖", "$ $$"])
def test_odd_names_do_not_stop_a_report(make_run, tmp_path, name, parse_page):
    folder = make_run(**dict.fromkeys(("task", "title", "command"), name))
    write_report([folder], tmp_path / "out")
    parse_page((tmp_path / "out" / "report.html").read_text())


def test_reports_refuse_places_they_cannot_write(make_run, tmp_path):
    with pytest.raises(BadInput, match="at least one"):
        write_report([], tmp_path)
    folder = make_run()
    blocked = tmp_path / "file"
    blocked.write_text("")
    taken = tmp_path / "taken"
    (taken / "learning_curves.png" / "inside").mkdir(parents=True)
    for place in (blocked, taken):
        with pytest.raises(BadInput, match="cannot write"):
            write_report([folder], place)
    assert [path.name for path in taken.iterdir()] == ["learning_curves.png"]


def test_the_command_expands_sweeps_and_skips_others(make_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("alone", "sweep/critic=plain", "sweep/critic=clean"):
        make_run(name, (50.0, 60.0))
    Path("sweep/sweep.json").write_text("{}")
    Path("page").mkdir()
    Path("page/report.html").write_text("kept")
    assert main(["report", "page", "sweep", "alone", "sweep/sweep.json", "--json"]) == 0
    out, err = capsys.readouterr()
    written = json.loads(out)
    folders = [run["folder"] for run in written["runs"]]
    assert folders == ["sweep/critic=clean", "sweep/critic=plain", "alone"]
    assert "sweep/report.html" in written["files"]
    assert "page, sweep/sweep.json" in err
    assert Path("page/report.html").read_text() == "kept"


@pytest.mark.parametrize("places", [["page"], ["page", "more"], ["page", "nowhere"]])
def test_the_command_refuses_to_report_on_nothing(places, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("page").mkdir()
    Path("more").mkdir()
    assert main(["report", *places]) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert places[-1] in error
    assert not list(tmp_path.glob("*/*"))


def test_pictures_that_a_killed_process_did_not_draw_are_drawn_later(tmp_path, tiny_data):
    folder = tmp_path / "run"
    options = {"env": "Pendulum-v1", "episode_steps": 20, "eval_episodes": 1, "quiet": True}
    bfq.train(tiny_data, steps=4, seeds=2, values=SMALL, out=folder, **options)
    names = ["frames.png", "learning_curves.png", "report.html"]
    drawn = [(folder / name).read_bytes() for name in names]
    for words in (["report", folder], ["train", "--resume", "--out", folder]):
        for name in names:
            (folder / name).unlink()
        assert main([*map(str, words)]) == 0
        assert [(folder / name).read_bytes() for name in names] == drawn
