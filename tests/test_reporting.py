"""Reports say what result files hold, and survive files that are broken, poor or hostile."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from scipy import stats

from bfq.cli.main import main
from bfq.errors import BadInput
from bfq.reports.drawing import spread_labels
from bfq.reports.figures import (
    _draw_panel,
    _limits,
    _name,
    _panels,
    _shortened,
    curve_words,
    joined,
    learning_curves,
    losses,
    score_figure,
    score_words,
)
from bfq.reports.html import report_page
from bfq.reports.prose import acting, in_words, number_text, plain, protocol, transform
from bfq.reports.report import write_report
from bfq.reports.runs import Run, read_run
from bfq.reports.statistics import interquartile_mean, stratified_bootstrap, summarize, wilson
from bfq.reports.tables import (
    aggregates,
    compares,
    comparison,
    markdown,
    markdown_comparison,
    records,
    rich_standings,
    rich_table,
    score_table,
    standings,
)
from bfq.tasks.catalog import SUCCESS

PNG = b"\x89PNG\r\n\x1a\n"
HOSTILE = "<script>alert('x')</script>&\"|$\\frac{"
Write = Callable[..., Path]


def result(members: list[dict[str, Any]], scores: Any, **changes: Any) -> dict[str, Any]:
    return {
        "task": "pendulum-mixed",
        "agent": "bfq",
        "title": "Bootstrapped Flow Q-Learning",
        "steps": 10_000,
        "members": members,
        "scores": scores,
        "protocol": {
            "episodes": 20,
            "seed": 10_000,
            "checkpoint": "last",
            "candidates": 1,
            "selection": "argmax",
            "softmax_weight": 1.0,
            "temperature": 1.0,
            "policy": "ema",
        },
        "data": {
            "name": "pendulum-mixed",
            "source": "made here by two controllers and noise",
            "sha256": "ab" * 32,
            "transitions": 100_000,
            "episodes": 500,
            "return_mean": -700.0,
            "return_std": 300.0,
            "return_max": -120.0,
            "normalized_mean": 42.0,
        },
        "transforms": {
            "observations": "standardized",
            "reward": {"name": "none", "scale": 1.0, "shift": 0.0},
        },
        "reference": {
            "low": -1200.0,
            "high": -150.0,
            "source": "random policy and energy controller",
        },
        "versions": {"python": "3.11.7", "jax": "0.10.2"},
        "device": "cpu",
        "train_seconds": 73.2,
        "microseconds_per_step": 7320.0,
        "config": {"eta": 1.0, "boundary_ratio": 0.5, "mixing": "split"},
        "command": "bfq train --task pendulum-mixed --seeds 6",
        **changes,
    }


def rows(
    count: int, final: list[float], normalized: bool, steps: int = 10_000
) -> list[dict[str, Any]]:
    """Curves that rise to `final`, with noise of their own for each member."""
    random = np.random.default_rng(count)
    said: list[dict[str, Any]] = []
    for step in range(steps // 10, steps + 1, steps // 10):
        decay = np.exp(-4 * step / steps)
        metrics = {
            name: list((scale * (decay + 0.2) + 0.05 * random.normal(size=count)).tolist())
            for name, scale in (
                ("critic_loss", 9.0),
                ("policy_loss", -2.0),
                ("q", 4.0),
                ("bc_loss", 1.0),
            )
        }
        said.append({"step": step, "kind": "train", "metrics": metrics})
        score = np.asarray(final) * (1 - decay) + 4 * random.normal(size=count) * (step < steps)
        evaluation = {"return": (-1200 + 10.5 * score).tolist()} | (
            {"normalized": score.tolist()} if normalized else {}
        )
        said.append({"step": step, "kind": "evaluation", "metrics": evaluation})
    return said


def write(folder: Path, told: dict[str, Any], lines: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(told))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def scored(normalized: list[float], with_reference: bool = True) -> dict[str, Any]:
    returns = [-1200 + 10.5 * value for value in normalized]
    return {"return": returns, "normalized": normalized if with_reference else None}


@pytest.fixture
def make_run(tmp_path: Path) -> Write:
    def make(
        name: str = "run",
        normalized: tuple[float, ...] = (94.0, 97.0, 95.5, 98.0, 96.0, 96.5),
        with_reference: bool = True,
        with_baseline: bool = True,
        etas: tuple[float, ...] = (),
        **changes: Any,
    ) -> Path:
        members = [
            {"seed": seed, "overrides": {"eta": eta} if etas else {}}
            for eta in etas or (0.0,)
            for seed in range(len(normalized))
        ]
        values = [value - 30 * abs(eta - 0.1) for eta in etas or (0.1,) for value in normalized]
        if not with_reference:
            changes = {"reference": None, **changes}
        told = result(members, scored(values, with_reference), **changes)
        folder = write(tmp_path / name, told, rows(len(values), values, with_reference))
        if with_baseline:
            base = [value - 35 for value in normalized]
            told = result(
                [{"seed": seed, "overrides": {}} for seed in range(len(base))],
                scored(base, with_reference),
                **{**changes, "agent": "bc", "title": "Behavior cloning", "train_seconds": 21.0},
            )
            write(folder / "baselines" / "bc", told, rows(len(base), base, with_reference))
        return folder

    return make


class Checker(HTMLParser):
    """Fails on elements that are not closed in order; keeps elements and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(page: str) -> Checker:
    """The page, parsed, closed in order and free of anything from elsewhere."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert page.startswith("<!doctype html>")
    for name, attributes in checker.elements:
        assert name not in ("script", "link", "iframe", "object")
        assert not any(key.startswith("on") for key in attributes)
        for key in ("src", "href", "srcset"):
            assert (attributes.get(key) or "#").startswith(("#", "data:image/png;base64,"))
    assert "url(" not in page
    assert "@import" not in page
    return checker


def shown(folder: Path, width: int = 80) -> str:
    written = io.StringIO()
    Console(width=width, file=written).print(rich_table(read_run(folder)))
    return written.getvalue()


# Statistics


def test_summary_is_scipys_student_interval() -> None:
    values = [3.0, 5.5, 4.25, 9.0]
    summary = summarize(values)
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (summary.mean, summary.n) == (np.mean(values), 4)
    assert summary.std == pytest.approx(np.std(values, ddof=1))
    assert summary.interval == pytest.approx(expected)


def test_one_seed_has_no_interval() -> None:
    summary = summarize([3.0])
    assert (summary.mean, summary.std, summary.n, summary.interval) == (3.0, 0.0, 1, None)


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        summarize([])


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 30])
def test_interquartile_mean_is_scipys_trimmed_mean(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_bootstrap_of_a_mean_is_near_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(size=200)
    low, high = stratified_bootstrap([values], lambda x: float(x.mean()), resamples=1000)
    half = 1.96 * values.std() / 200**0.5
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)


def test_bootstrap_resamples_within_groups_and_repeats() -> None:
    apart = [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]]
    assert stratified_bootstrap(apart, lambda x: float(x.mean()), resamples=50) == (3.0, 3.0)
    groups = [[1.0, 2.0, 4.0], [3.0, 9.0, 7.0]]
    first, again, other = (stratified_bootstrap(groups, resamples=50, seed=s) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (499, 500)])
def test_wilson_is_scipys(successes: int, n: int) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n) == pytest.approx((expected.low, expected.high))


def test_wilson_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="cannot be"):
        wilson(3, 2)


# Runs


def test_a_run_is_read_with_its_baselines_and_curves(make_run: Write) -> None:
    run = read_run(make_run())
    assert (run.task, run.agent, len(run.members), len(run.rows)) == (
        "pendulum-mixed",
        "bfq",
        6,
        20,
    )
    assert [baseline.agent for baseline in run.baselines] == ["bc"]
    (group,) = run.groups
    steps, values = run.series("evaluation", "normalized", group)
    assert steps.tolist() == list(range(1000, 10_001, 1000))
    assert values.shape == (10, 6)
    assert values[-1] == pytest.approx(
        np.asarray(run.scores["normalized"], float) * (1 - np.exp(-4))
    )


def test_members_group_by_overrides_in_any_order(make_run: Write) -> None:
    folder = make_run()
    told = json.loads((folder / "result.json").read_text())
    overrides = [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"b": 2, "a": 1}] * 2
    told["members"] = [{"seed": k, "overrides": o} for k, o in enumerate(overrides)]
    (folder / "result.json").write_text(json.dumps(told))
    groups = read_run(folder).groups
    assert [group.places for group in groups] == [(0, 2, 3, 5), (1, 4)]
    assert [group.label for group in groups] == ["a=1, b=2", "a=3, b=2"]


def test_seeds_without_a_score_are_absent(make_run: Write) -> None:
    folder = make_run(with_baseline=False)
    path = folder / "result.json"
    told = json.loads(path.read_text())
    told["scores"]["return"][1] = told["scores"]["normalized"][1] = None
    path.write_text(json.dumps(told))
    run = read_run(folder)
    assert len(run.scored("normalized", run.groups[0])) == 5
    assert "5 of 6" in shown(folder)


def test_an_unfinished_run_says_how_to_continue(make_run: Write) -> None:
    folder = make_run()
    (folder / "result.json").unlink()
    with pytest.raises(BadInput, match=rf"not finished.*`bfq train --resume --out {folder}`"):
        read_run(folder)


def test_what_is_no_run_is_not_to_be_continued(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "report.html").write_text("")
    for place in (tmp_path / "page", tmp_path / "page" / "report.html"):
        with pytest.raises(BadInput, match=rf"^{place} is not a run: it has no config\.json\.$"):
            read_run(place)


def test_an_unfinished_baseline_is_continued_with_its_run(make_run: Write) -> None:
    folder = make_run()
    (folder / "baselines" / "bc" / "result.json").unlink()
    with pytest.raises(BadInput, match=rf"baselines/bc is not finished.*--out {folder}`"):
        read_run(folder)


def test_missing_folder_and_missing_metrics(make_run: Write, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no run folder"):
        read_run(tmp_path / "nowhere")
    folder = make_run()
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(BadInput, match=r"no file .*metrics\.jsonl"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("result.json", "{", "not readable JSON"),
        ("result.json", "[" * 100_000, "not readable JSON"),
        ("result.json", '{"steps": NaN}', "not readable JSON: NaN is no number that can be used"),
        (
            "result.json",
            '{"steps": 1e999}',
            "not readable JSON: 1e999 is no number that can be used",
        ),
        (
            "result.json",
            f'{{"steps": 1{"0" * 400}}}',
            "not readable JSON: 1000000000000000000… is no number",
        ),
        (
            "metrics.jsonl",
            '{"step": 1, "kind": "train", "metrics": {"q": [-Infinity]}}',
            "-Infinity is no",
        ),
        ("result.json", "[]", "expected an object"),
        ("result.json", "{}", "lacks 'task'"),
        ("metrics.jsonl", '{"step": 1', "line 1 is not readable JSON"),
        (
            "metrics.jsonl",
            '{"step": "one", "kind": "train", "metrics": {}}',
            "'step' cannot be a str",
        ),
        (
            "metrics.jsonl",
            '{"step": 1, "kind": "train", "metrics": {"q": [1.0]}}',
            "1 numbers for 6 members",
        ),
        (
            "metrics.jsonl",
            '{"step": 1, "kind": "train", "metrics": {"q": ["x"]}}',
            "not a list of numbers",
        ),
    ],
)
def test_corrupt_files_are_named(make_run: Write, name: str, text: str, says: str) -> None:
    folder = make_run()
    (folder / name).write_text(text)
    with pytest.raises(BadInput, match=says) as trouble:
        read_run(folder)
    assert name in str(trouble.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": "many"}, "'steps' cannot be a str"),
        ({"data": {}}, "lacks data: 'name'"),
        ({"members": []}, "no members"),
        ({"members": [3]}, "members: expected an object"),
        ({"scores": {"return": [1.0], "normalized": None}}, "1 numbers for 6 members"),
    ],
)
def test_results_that_make_no_sense_are_refused(
    make_run: Write, changes: dict[str, Any], says: str
) -> None:
    folder = make_run()
    path = folder / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(BadInput, match=says):
        read_run(folder)


def test_files_that_are_not_text_are_refused(make_run: Write) -> None:
    folder = make_run()
    (folder / "metrics.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot read"):
        read_run(folder)


# Tables


def test_rows_are_data_baselines_agent(make_run: Write) -> None:
    table = score_table(read_run(make_run()))
    assert [(row.kind, row.agent, row.seeds) for row in table.rows] == [
        ("data", "data", None),
        ("baseline", "bc", 6),
        ("agent", "bfq", 6),
    ]
    assert table.title == "pendulum-mixed: 10,000 updates, 20 episodes a seed, last checkpoint"
    data, bc, agent = records(table)
    assert data["return"]["mean"] == -700.0
    assert agent["normalized"]["mean"] == pytest.approx(
        np.mean([94.0, 97.0, 95.5, 98.0, 96.0, 96.5])
    )
    assert bc["train_seconds"] == 21.0
    json.dumps(records(table), allow_nan=False)


def test_each_setting_has_its_row(make_run: Write) -> None:
    table = score_table(read_run(make_run(etas=(0.05, 0.1), normalized=(90.0, 92.0))))
    assert [row.overrides for row in table.rows] == ["", "", "eta=0.05", "eta=0.1"]
    assert table.rows[-1].normalized is not None
    assert table.rows[-1].normalized.mean == pytest.approx(91.0)


def test_the_terminal_table_fits_80_columns(make_run: Write) -> None:
    text = shown(make_run())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "96.2 ± 1.4" in text
    assert "[94.7, 97.6]" in text
    assert "−190.2 ± 14.3" in text
    assert "…" not in text


def test_one_seed_shows_no_spread(make_run: Write) -> None:
    text = shown(make_run(normalized=(96.0,))).rpartition("mean ±")[0]
    assert "96.0" in text
    assert "±" not in text
    assert "[" not in text


def test_without_a_reference_there_are_returns_only(make_run: Write) -> None:
    folder = make_run(
        with_reference=False, data=result([], None)["data"] | {"normalized_mean": None}
    )
    assert all(row["normalized"] is None for row in records(score_table(read_run(folder))))
    assert "–" in shown(folder)


def test_where_successes_count_the_score_is_their_share(make_run: Write) -> None:
    counting = read_run(
        make_run("counting", (90.0,), reference=asdict(SUCCESS), with_baseline=False)
    )
    plain = read_run(make_run("plain", (90.0,), with_baseline=False))
    assert in_words("normalized", [counting]) == "success in %"
    assert (
        in_words("normalized", [counting, plain])
        == in_words("normalized", [plain])
        == "normalized score"
    )
    assert in_words("return", [counting]) == "return"
    page = checked(report_page([counting])).text
    assert "share of episodes that succeed" in page
    assert "normalized score of 0" not in page
    assert "18 of 20 episodes succeeded (Wilson's 95% interval: 69.9 to 97.2%)." in page
    assert "Wilson" not in checked(report_page([plain])).text
    sweep = read_run(
        make_run(
            "etas", (90.0, 100.0), reference=asdict(SUCCESS), with_baseline=False, etas=(0.1, 1.1)
        )
    )
    assert "With eta=0.1, 38 of 40 episodes succeeded" in protocol(sweep)
    assert "With eta=1.1, 26 of 40 episodes succeeded" in protocol(sweep)
    assert "A normalized score of 0 is a return of" in checked(report_page([plain])).text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("standardize", "standardized"),
        ("none", "as they are"),
        ("another", "another"),
        ({"name": "none", "scale": 1.0, "shift": 0.0}, "as it is"),
        (
            {"name": "return_range", "scale": 0.179234, "shift": 0.0},
            "r ← 0.179234 × r, so that returns of the data span 1,000",
        ),
        ({"name": "minus_one", "scale": 1.0, "shift": -1.0}, "r ← r − 1"),
        ({"name": "cql_antmaze", "scale": 4.0, "shift": -2.0}, "r ← 4 × r − 2"),
        ({"name": ["odd"], "scale": 2.0, "shift": 1.0}, "r ← 2 × r + 1"),
        ({"name": "odd"}, "name odd"),
        (None, "–"),
    ],
)
def test_transforms_in_words(told: Any, words: str) -> None:
    assert transform(told) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [(-280.1789, "−280.179"), (-3, "−3"), (1e-5, "1e−05"), ("a-b", "a-b"), (True, "True")],
)
def test_values_have_a_true_minus(value: Any, text: str) -> None:
    assert plain(value) == text


def test_what_an_agent_ignores_is_not_told_of_it(make_run: Write) -> None:
    run = read_run(
        make_run("still", (90.0,), ignores=["policy", "temperature"], with_baseline=False)
    )
    assert (
        "Actions came from the policy itself, without noise; it gives one for a state."
        in protocol(run)
    )
    flow = replace(
        run, ignores=("policy",), protocol={**run.protocol, "temperature": 0.5, "policy": "online"}
    )
    assert "the policy itself, with noise at temperature 0.5; one action" in protocol(flow)
    assert acting(flow) == "1 candidate, noise × 0.5"
    heeding = replace(flow, ignores=(), protocol={**flow.protocol, "policy": "ema"})
    assert "the moving average of the policy, with noise at temperature 0.5" in protocol(heeding)


def test_markdown_keeps_its_columns_whatever_the_names(make_run: Write) -> None:
    text = markdown(read_run(make_run(title=HOSTILE, with_baseline=False)))
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {8}
    assert "<script" not in text.replace("\\<", "")


def test_rich_markup_in_names_is_text(make_run: Write) -> None:
    assert "[red]x[/nonsense]" in shown(
        make_run(title="[red]x[/nonsense]", with_baseline=False), 120
    )


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-1234.5, 0, "−1,234"), (-0.0001, 2, "0.00"), (3.14159, 2, "3.14")],
)
def test_numbers_as_text(value: float, digits: int, text: str) -> None:
    assert number_text(value, digits) == text


def test_methods_are_aggregated_over_tasks(make_run: Write) -> None:
    one, two = make_run("one", task="one"), make_run("two", (80.0, 82.0, 84.0), task="two")
    runs = [read_run(one), read_run(two)]
    methods = aggregates(runs)
    assert [(each.name, each.tasks) for each in methods] == [
        ("Behavior cloning", 2),
        ("Bootstrapped Flow Q-Learning", 2),
    ]
    assert all(each.interval.low < each.mean < each.interval.high for each in methods)
    assert aggregates(runs[:1]) == []
    assert [row.task for row in comparison(runs).rows] == ["one"] * 3 + ["two"] * 3


# Standings


def many(make_run: Write, count: int = 3, **changes: Any) -> list[Run]:
    """Runs of one task, an agent each, the later the better."""
    return [
        read_run(
            make_run(
                f"run{k}",
                (50.0 + k, 52.0 + k),
                agent=f"agent{k}",
                title=f"Method number {k}",
                with_baseline=False,
                **changes,
            )
        )
        for k in range(count)
    ]


def compared(runs: list[Run], width: int = 80) -> str:
    written = io.StringIO()
    for table in standings(runs):
        Console(width=width, file=written).print(rich_standings(table))
    return written.getvalue()


def test_methods_stand_best_first_under_the_data(make_run: Write) -> None:
    runs = many(make_run)
    (table,) = standings(runs)
    assert [method.run.agent for method in table.methods] == ["agent2", "agent1", "agent0"]
    assert (table.unit, table.updates_differ, table.acting_differs) == ("normalized", False, False)
    text = compared(runs)
    assert max(len(line) for line in text.splitlines()) <= 80
    places = [
        text.index(name) for name in ("Data", "number 2", "number 1", "number 0", "best first")
    ]
    assert places == sorted(places)
    assert "10,000 updates, 20 episodes a seed, last checkpoint" in text
    assert "53.0 ± 1.4" in text


def test_updates_have_a_column_where_they_differ(make_run: Write) -> None:
    long = read_run(make_run("long", steps=1_000_000, title="A" * 40, with_baseline=False))
    text = compared([*many(make_run), long])
    assert "10,000 to 1,000,000 updates" in " ".join(text.split())
    assert "training updates Data" in " ".join(text.replace("─", "").split())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_shared_baselines_stand_once_and_namesakes_are_told_apart(make_run: Write) -> None:
    one, two = read_run(make_run("one")), read_run(make_run("two", (90.0, 91.0)))
    (table,) = standings([one, two])
    assert len(table.data) == 1
    assert sorted(method.name for method in table.methods) == [
        "Behavior cloning one",
        "Behavior cloning two",
        "Bootstrapped Flow Q-Learning one",
        "Bootstrapped Flow Q-Learning two",
    ]
    (table,) = standings([one, read_run(make_run("again", agent="other", title="Other"))])
    assert [method.name for method in table.methods].count("Behavior cloning") == 1


def test_one_method_without_a_norm_orders_all_by_return(make_run: Write) -> None:
    plain = read_run(
        make_run("plain", (99.0, 98.0), with_reference=False, with_baseline=False, agent="x")
    )
    (table,) = standings([*many(make_run), plain])
    assert table.unit == "return"
    assert table.methods[0].run is plain
    assert (score_figure([*many(make_run, 0), plain]) or b"").startswith(PNG)


def test_markdown_of_a_comparison(make_run: Write) -> None:
    runs = many(make_run, 2)
    told = result([], None)["protocol"]
    chosen = told | {"candidates": 10, "temperature": 0.5}
    text = markdown_comparison(runs)
    assert "acting by 1 candidate;" in text
    assert "2 seeds, 10,000 updates, 20 episodes a seed, last checkpoint" in text
    other = read_run(make_run("other", title=HOSTILE, with_baseline=False, protocol=chosen))
    text = markdown_comparison([*runs, other])
    assert "10 candidates, noise × 0.5 |" in text
    assert "| 1 candidate |" in text
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 6
    assert {line.count("|") for line in lines} == {9}
    two = read_run(
        make_run("two", task="two", agent="agent0", title="Method number 0", with_baseline=False)
    )
    assert "## Over tasks" in markdown_comparison([*runs, two])


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ({}, "1 candidate"),
        (
            {"candidates": 50, "selection": "softmax", "softmax_weight": 5.0},
            "50 candidates, softmax of weight 5",
        ),
        ({"policy": "online", "temperature": 0.5}, "1 candidate, noise × 0.5, online policy"),
        ({"sampling_steps": 5, "sampler": "ddim"}, "1 candidate, 5 network calls, ddim sampler"),
    ],
)
def test_acting_in_few_words(make_run: Write, protocol: dict[str, Any], words: str) -> None:
    told = result([], None)["protocol"] | protocol
    assert acting(read_run(make_run(protocol=told, with_baseline=False))) == words


# Figures


def test_runs_that_differ_in_the_agent_share_a_panel(make_run: Write) -> None:
    runs = many(make_run, 8)
    (panel,) = _panels(runs)
    assert joined(runs)
    assert panel.crowded
    assert [curve.name for curve in panel.curves[-2:]] == ["Method number 6", "Method number 7"]
    assert len({curve.color for curve in panel.curves}) == 8
    assert (learning_curves(*runs) or b"").startswith(PNG)
    assert (score_figure(runs) or b"").startswith(PNG)


def test_sweeps_and_repeated_agents_keep_a_panel_a_run(make_run: Write) -> None:
    runs = many(make_run, 2)
    sweep = read_run(make_run("sweep", (50.0,), etas=(0.1, 0.2), with_baseline=False))
    assert len(_panels([*runs, sweep])) == 3
    assert len(_panels([runs[0], runs[0]])) == 1  # the same folder twice
    again = read_run(make_run("again", agent="agent0", with_baseline=False))
    assert len(_panels([runs[0], again])) == 2
    assert (score_figure([*runs, sweep]) or b"").startswith(PNG)


def test_runs_of_one_agent_and_task_have_titles_of_their_own(make_run: Write) -> None:
    names = ("critic=plain", "critic=clean_diffuser")
    runs = [
        read_run(make_run(name, (50.0, 60.0), etas=(0.1, 0.2), with_baseline=False))
        for name in names
    ]
    other = read_run(
        make_run("elsewhere", (50.0,), etas=(0.1, 0.2), with_baseline=False, task="elsewhere")
    )
    assert [panel.title for panel in _panels([*runs, other])] == [
        "pendulum-mixed · bfq · critic=plain",
        "pendulum-mixed · bfq · critic=clean_diffuser",
        "elsewhere · Bootstrapped Flow Q-Learning",
    ]
    page = report_page([*runs, other])
    for name in names:
        assert (
            page.count(f">Bootstrapped Flow Q-Learning on pendulum-mixed, {name}</") == 2
        )  # link, heading
    assert ">Bootstrapped Flow Q-Learning on elsewhere</h2>" in page
    assert ", critic" not in report_page(runs[:1])


def test_wide_intervals_do_not_squeeze_the_scores(make_run: Write) -> None:
    wide = read_run(make_run("wide", (40.0, 60.0), with_baseline=False))
    (table,) = standings([wide])
    low, high = _limits(table)
    assert 30.0 < low < 40.0 < 60.0 < high < 70.0  # the interval itself reaches from −77 to 177


def test_curves_fit_their_seeds_and_no_share_is_beyond_all(make_run: Write) -> None:
    """Of two seeds the interval reaches far beyond both: it does not set the scale."""
    folder = make_run(normalized=(60.0, 99.0), reference=asdict(SUCCESS), with_baseline=False)
    (panel,) = _panels([read_run(folder)])
    axes = Figure().add_subplot()
    _draw_panel(axes, panel)
    values = panel.curves[0].series.values
    low, high = axes.get_ylim()
    assert values.min() - 10.0 < low < values.min()
    assert values.max() < high < values.max() + 10.0
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (0.0, 100.0)
    folder = make_run("plain", normalized=(60.0, 99.0), with_baseline=False)
    (panel,) = _panels([read_run(folder)])
    axes = Figure().add_subplot()
    _draw_panel(axes, panel)
    assert (
        axes.collections[0].get_paths()[0].vertices[:, 1].max() > 150.0
    )  # a score may be beyond 100


def test_captions_tell_of_what_is_drawn(make_run: Write) -> None:
    run = read_run(make_run("several", with_baseline=False))
    assert curve_words(run) == (
        "Line: mean over seeds, along training. Shaded: its 95% interval, as far as the panel reaches. "
        "Faint: each seed. Dashed: mean of the data."
    )
    assert "Small dots: the seeds. Dashed: the data." in score_words([run])
    single = read_run(make_run("single", (90.0,), with_baseline=False))
    single = replace(single, data=single.data | {"normalized_mean": None, "return_mean": None})
    assert curve_words(single) == "Line: one seed, along training."
    assert score_words([single]) == "Dot: one seed."
    assert "Shaded" not in curve_words(*many(make_run, 8))  # too many for bands


def test_a_method_has_one_style_of_name_in_a_figure(make_run: Write) -> None:
    scores = {"pend": (90.0, 91.0), "pend200": (92.0, 93.0)}
    runs = [
        read_run(make_run(name, values, with_baseline=False)) for name, values in scores.items()
    ]
    other = read_run(make_run("other", agent="bc", title="Behavior cloning", with_baseline=False))
    (table,) = standings([*runs, other])
    names = {_name(method, _shortened([table])) for method in table.methods}
    assert names == {"bfq pend", "bfq pend200", "Behavior cloning"}
    (table,) = standings([runs[0], other])
    assert {_name(method, _shortened([table])) for method in table.methods} == {
        "Bootstrapped Flow Q-Learning",
        "Behavior cloning",
    }


def test_no_scores_draw_no_scores(make_run: Write) -> None:
    folder = make_run(with_baseline=False)
    path = folder / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scores": None}))
    run = read_run(folder)
    assert score_figure([run, run]) is None
    markdowns, terminal = markdown_comparison([run, run]), compared([run, run])
    assert "6 seeds, 10,000 updates; there was no simulator to judge in" in markdowns
    assert "no simulator" in terminal
    page = checked(report_page([run, run])).text
    for claim in ("episodes a seed", "checkpoint", "best first", "over seeds, [95%", "± std"):
        for text in (markdowns, terminal, page, markdown(run), shown(folder)):
            assert claim not in text


def test_a_run_with_many_baselines_is_a_comparison(make_run: Write, tmp_path: Path) -> None:
    folder = make_run()
    for name in ("b", "c"):
        told = json.loads((folder / "baselines" / "bc" / "result.json").read_text()) | {
            "agent": name,
            "title": name,
        }
        write(folder / "baselines" / name, told, rows(6, [50.0] * 6, normalized=True))
    run = read_run(folder)
    assert compares([run])
    told = write_report([folder], tmp_path / "out")
    assert [Path(name).name for name in told["files"][2:]] == ["scores.png", "table.md"]
    page = checked((tmp_path / "out" / "report.html").read_text())
    assert [name for name, _ in page.elements].count("img") == 3


def test_figures_are_png_and_repeat(make_run: Write) -> None:
    run = read_run(make_run())
    curves, training = learning_curves(run), losses(run)
    assert curves is not None
    assert training is not None
    assert curves.startswith(PNG)
    assert training.startswith(PNG)
    assert learning_curves(run) == curves


@pytest.mark.parametrize(
    "changes", [{"normalized": (96.0,)}, {"with_reference": False}, {"etas": (0.05, 0.1, 0.3)}]
)
def test_figures_of_one_seed_of_returns_and_of_sweeps(
    make_run: Write, changes: dict[str, Any]
) -> None:
    run = read_run(make_run(**changes))
    assert (learning_curves(run) or b"").startswith(PNG)
    assert (losses(run) or b"").startswith(PNG)


def test_figures_survive_absent_numbers(make_run: Write) -> None:
    folder = make_run(with_baseline=False)
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["metrics"] = {name: [None, *values[1:]] for name, values in line["metrics"].items()}
    lines[0]["metrics"] = {name: [None] * 6 for name in lines[0]["metrics"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = read_run(folder)
    assert (learning_curves(run) or b"").startswith(PNG)
    assert (losses(run) or b"").startswith(PNG)


def test_nothing_logged_draws_nothing(make_run: Write) -> None:
    folder = make_run(with_baseline=False)
    (folder / "metrics.jsonl").write_text("")
    run = read_run(folder)
    assert learning_curves(run) is None
    assert losses(run) is None


def test_labels_move_apart_as_little_as_they_can() -> None:
    assert spread_labels([0.1, 0.5, 0.9], [0.1] * 3) == pytest.approx([0.1, 0.5, 0.9])
    assert spread_labels([0.5, 0.5], [0.1, 0.1]) == pytest.approx([0.45, 0.55])
    places = spread_labels([0.1, 0.12, 0.13, 0.3], [0.1, 0.2, 0.1, 0.1])
    gaps = np.diff(places)
    assert (gaps >= np.asarray([0.15, 0.15, 0.1]) - 1e-9).all()


def test_labels_stay_between_floor_and_title() -> None:
    assert spread_labels([0.0, 0.98, 1.0], [0.1] * 3) == pytest.approx([0.05, 0.85, 0.95])
    crowd = spread_labels([0.9] * 10, [0.1] * 10)
    assert crowd == pytest.approx(np.arange(0.05, 1.0, 0.1))


# The page


def test_the_page_tells_everything(make_run: Write) -> None:
    checker = checked(report_page([read_run(make_run())]))
    for words in (
        "Bootstrapped Flow Q-Learning on pendulum-mixed",
        "Behavior cloning",
        "96.2 ± 1.4",
        "Each seed ran 20 episodes with the last checkpoint.",
        "10000 to 10019",
        "made here by two controllers and noise",
        "ab" * 32,
        "100,000 transitions, 500 episodes",
        "boundary_ratio",
        "0.10.2",
        "bfq train --task pendulum-mixed --seeds 6",
    ):
        assert words in checker.text
    assert [name for name, _ in checker.elements].count("img") == 2
    assert (
        "meta",
        {"name": "viewport", "content": "width=device-width, initial-scale=1"},
    ) in checker.elements
    assert "prefers-color-scheme: dark" in checker.text


def test_hostile_names_stay_text(make_run: Write) -> None:
    names = ("task", "title", "device", "command")
    data = result([], None)["data"] | {"source": HOSTILE, "name": HOSTILE}
    changes = dict.fromkeys(names, HOSTILE) | {"data": data, "config": {HOSTILE: HOSTILE}}
    page = report_page(
        [read_run(make_run(with_baseline=False, versions={HOSTILE: HOSTILE}, **changes))]
    )
    assert "<script" not in page
    assert checked(page).text.count(HOSTILE) >= len(names) + 4


def test_a_sweep_owns_up_to_choosing_its_best(make_run: Write) -> None:
    checker = checked(report_page([read_run(make_run(etas=(0.05, 0.1), normalized=(90.0, 92.0)))]))
    assert "best of 2 settings, chosen by this score: eta=0.1" in checker.text
    assert "0.05, 0.1" in checker.text


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ({"candidates": 50}, "of 50 candidates, the one the critics value most was taken"),
        ({"candidates": 8, "selection": "softmax", "softmax_weight": 3.0}, "(weight 3)"),
        (
            {"policy": "online", "temperature": 0.5},
            "the policy itself, with noise at temperature 0.5",
        ),
    ],
)
def test_the_protocol_in_words(make_run: Write, protocol: dict[str, Any], words: str) -> None:
    told = result([], None)["protocol"] | protocol
    assert (
        words in checked(report_page([read_run(make_run(protocol=told, with_baseline=False))])).text
    )


def test_poor_runs_have_a_page(make_run: Write) -> None:
    poor = make_run("poor", (96.0,), with_reference=False, with_baseline=False)
    assert "returns are not normalized" in checked(report_page([read_run(poor)])).text
    path = poor / "result.json"
    told = json.loads(path.read_text())
    told["scores"] = None
    told["data"] |= dict.fromkeys(
        ("return_mean", "return_std", "return_max", "normalized_mean", "sha256")
    )
    path.write_text(json.dumps(told))
    (poor / "metrics.jsonl").write_text("")
    assert "nothing was evaluated" in checked(report_page([read_run(poor)])).text
    assert "no simulator" in shown(poor)


# The report


def test_a_report_is_written_whole(make_run: Write, tmp_path: Path) -> None:
    out = tmp_path / "new" / "report"
    told = write_report([make_run()], out)
    assert sorted(path.name for path in out.iterdir()) == ["learning_curves.png", "report.html"]
    assert told["files"] == [str(out / "learning_curves.png"), str(out / "report.html")]
    assert [row["agent"] for row in told["rows"]] == ["data", "bc", "bfq"]
    assert told["runs"][0]["task"] == "pendulum-mixed"
    json.dumps(told, allow_nan=False)


def test_several_runs_are_compared_on_one_page(make_run: Write, tmp_path: Path) -> None:
    folders = [make_run("one", task="one"), make_run("two", (80.0, 82.0, 84.0), task="two")]
    told = write_report(folders, tmp_path / "out")
    checker = checked((tmp_path / "out" / "report.html").read_text())
    assert "2 runs compared" in checker.text
    assert "Interquartile mean" in checker.text
    anchors = {attributes.get("href") for name, attributes in checker.elements if name == "a"}
    ids = {f"#{attributes['id']}" for _, attributes in checker.elements if attributes.get("id")}
    assert anchors == ids == {"#run-1", "#run-2"}
    assert len(told["rows"]) == 6
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "learning_curves.png",
        "report.html",
        "scores.png",
        "table.md",
    }
    assert [name for name, _ in checker.elements].count("img") == 5  # two a run, and their scores


def test_a_run_without_curves_has_a_page_only(make_run: Write, tmp_path: Path) -> None:
    folder = make_run(with_baseline=False)
    (folder / "metrics.jsonl").write_text("")
    told = write_report([folder], tmp_path / "out")
    assert told["files"] == [str(tmp_path / "out" / "report.html")]


@pytest.mark.parametrize("name", ["half \ud800", "倒立摆 🤖", "$ $$", ""])
def test_odd_names_do_not_stop_a_report(make_run: Write, tmp_path: Path, name: str) -> None:
    odd = dict.fromkeys(("task", "title", "command"), name)
    write_report([make_run(with_baseline=False, **odd)], tmp_path / "out")
    checked((tmp_path / "out" / "report.html").read_text())


def test_reports_refuse_nothing_and_places_they_cannot_write(
    make_run: Write, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="at least one"):
        write_report([], tmp_path)
    folder = make_run()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        write_report([folder], blocked)
    taken = tmp_path / "taken"
    (taken / "learning_curves.png" / "inside").mkdir(parents=True)
    with pytest.raises(BadInput, match="cannot write"):
        write_report([folder], taken)
    assert [path.name for path in taken.iterdir()] == ["learning_curves.png"]


def test_the_command_takes_sweeps_apart_and_leaves_out_what_is_no_run(
    make_run: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("alone", "sweep/critic=plain", "sweep/critic=clean"):
        make_run(name, (50.0, 60.0), with_baseline=False)
    Path("sweep/sweep.json").write_text("{}")
    Path("data-arm").mkdir()
    Path("data-arm/report.html").write_text("kept")
    assert main(["report", "data-arm", "sweep", "alone", "sweep/sweep.json", "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert [run["folder"] for run in told["runs"]] == [
        "sweep/critic=clean",
        "sweep/critic=plain",
        "alone",
    ]
    assert "sweep/report.html" in told["files"]
    assert said.err == "skipped, not a run: data-arm, sweep/sweep.json\n"
    assert Path("data-arm/report.html").read_text() == "kept"


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (["page"], "page is not a run: it has no config.json."),
        (["page", "more"], "none of these is a run: page, more."),
        (["page", "nowhere"], "there is no run folder nowhere."),
    ],
)
def test_the_command_refuses_to_report_on_nothing(
    places: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page").mkdir()
    Path("more").mkdir()
    assert main(["report", *places]) == 2
    assert capsys.readouterr().err.endswith(f"bfq: {says}\n")
    assert not list(tmp_path.glob("*/*"))


def test_tables_need_no_matplotlib() -> None:
    code = "import sys, bfq.reports.statistics, bfq.reports.tables; sys.exit('matplotlib' in sys.modules)"
    path = ":".join(entry for entry in sys.path if entry)
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False
        ).returncode
        == 0
    )
