"""What the cells of an experiment say together, and how the README says it: on numbers made up."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.files import write_json
from bfq.reports.statistics import pooled_interquartile_mean, probability_of_improvement, wilson
from bfq_paper import merge as merging
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.plan.sources import Source
from bfq_paper.results.cells import Cell, Outcome, Reading
from bfq_paper.results.rivals import rivals
from bfq_paper.results.stored import called, read_outcome, record
from bfq_paper.results.successes import UNIT, by_seed, pooled
from bfq_paper.results.together import common, together
from bfq_paper.shown.figures import figures
from bfq_paper.shown.markdown import markdown
from bfq_paper.shown.page import page_of
from bfq_paper.work import clock

CHEETAH, HOPPER, MAZE = "halfcheetah-medium-v2", "hopper-medium-v2", "antmaze-medium-play-v2"
SCORES = {
    (CHEETAH, "dql"): (52.0, 53.0, 54.0),
    (CHEETAH, "bfq"): (60.0, 66.0, 72.0),
    (HOPPER, "dql"): (70.0, 60.0, 50.0),
    (HOPPER, "bfq"): (80.0, 65.0, 50.0),
    (MAZE, "bfq"): (90.0, 80.0, 100.0),
}


def cell(row, column, values):
    protocol = {**Protocol(episodes=10).describe(), "candidates": 50}
    shares = {"success": [None if v is None else v / 100 for v in values]} if row == MAZE else {}
    first = Reading("N = 50", values, {"protocol": protocol, "scores": shares})
    second = Reading(
        "N = 1", tuple(v and v - 1 for v in values), {"protocol": {**protocol, "candidates": 1}}
    )
    kept = {
        "steps": 1000,
        "versions": {"jax": "0"},
        "device": "a GPU",
        "run": "runs/x",
        "precision": "bfloat16",
    }
    state = "failed" if None in values else "done"
    unit = UNIT if row == MAZE else "normalized score"
    return Cell(row, column, state, "", unit, (first, second), kept)


def outcome(scores=SCORES, name="main", **changes):
    rows = list(dict.fromkeys(row for row, _ in scores))
    kinds = {CHEETAH: "rerolled", HOPPER: "published", MAZE: "local"}
    sources = tuple(Source(row, row, kinds[row], f"{row}: words.") for row in rows)
    cells = tuple(cell(*place, values) for place, values in scores.items())
    return Outcome(replace(EXPERIMENTS[name], **changes), sources, cells)


# All methods over the same rows.


def test_methods_are_compared_on_the_rows_that_all_have():
    found = together(outcome())
    assert (found.foremost, found.rows) == ("bfq", (CHEETAH, HOPPER))
    ours, theirs = ({r: SCORES[r, c] for r in (CHEETAH, HOPPER)} for c in ("bfq", "dql"))
    first, second = found.standings
    assert (first.column, second.column) == ("bfq", "dql")  # the foremost first
    assert first.mean.value == pytest.approx((66 + 65) / 2)
    assert first.improvement is None
    assert second.interquartile_mean == pooled_interquartile_mean(theirs)
    assert second.improvement == probability_of_improvement(ours, theirs)
    assert second.improvement.value == pytest.approx(
        (1 + 5.5 / 9) / 2
    )  # of hopper's pairs 5 won, 1 tied


def test_a_method_that_lacks_a_row_is_left_out_where_others_have_all():
    """Otherwise one method that has but begun would leave one row to compare all others on."""
    more = {**SCORES, (CHEETAH, "iql"): (40.0, 41.0, 42.0)}
    found = together(outcome(more))
    assert (found.rows, found.left_out) == ((CHEETAH, HOPPER), ("iql",))
    assert [each.column for each in found.standings] == ["bfq", "dql"]
    text = markdown(outcome(more))
    assert "Without iql, which do not have all of them." in text
    assert "do not have all of them" not in markdown(outcome())
    assert record(outcome(more))["together"]["left_out"] == ["iql"]


def test_a_row_with_a_seed_that_has_no_score_does_not_count():
    lost = {**SCORES, (HOPPER, "dql"): (70.0, None, 50.0)}
    assert together(outcome(lost)).rows == (CHEETAH,)


@pytest.mark.parametrize(
    "kept",
    [
        [(CHEETAH, "bfq"), (HOPPER, "bfq")],  # one method
        [(CHEETAH, "bfq"), (HOPPER, "dql")],  # no common row
        [],
    ],
)
def test_where_nothing_can_be_compared_nothing_is_said(kept):
    made = outcome({place: SCORES[place] for place in kept})
    assert together(made) is None
    assert common(made) == {}
    assert "over the same rows" not in markdown(made) + page_of(made, [])
    assert "profiles.png" not in [each.file for each in figures(made, Path("nowhere"))]
    assert record(made)["together"] is None


def test_each_row_has_its_best_other_method():
    third = {(HOPPER, "iql"): (61.0, 63.0, 62.0), (MAZE, "iql"): (95.0, None, 99.0)}
    made = outcome({**SCORES, **third})
    found = rivals(made)
    assert [(r.row, r.column, r.ours, r.theirs) for r in found.rows] == [
        (CHEETAH, "dql", 66.0, 53.0),
        (HOPPER, "iql", 65.0, 62.0),
    ]  # where seeds are lost nobody is compared
    value, (low, high) = found.difference
    assert value == pytest.approx((13 + 3) / 2)
    variances = (
        np.array([36.0, 1.0, 225.0, 1.0]) / 3
    )  # of ours and theirs on both rows, by three seeds each
    freedom = variances.sum() ** 2 / np.sum(variances**2 / 2)
    half = stdtrit(freedom, 0.975) * np.sqrt(variances.sum()) / 2
    assert (low, high) == (pytest.approx(8 - half), pytest.approx(8 + half))
    assert record(made)["rivals"]["difference"]["value"] == value
    text, page = markdown(made), page_of(made, [])
    assert "| hopper-medium-v2 | 65.0 | 62.0 iql | +3.0 |" in text
    assert "bfq beside the best other method of each row" in text
    assert "bfq beside the best other method of each row" in page


def test_a_table_of_one_method_or_of_values_has_no_rivals():
    assert rivals(outcome({(CHEETAH, "bfq"): (1.0, 2.0)})) is None
    assert rivals(outcome({(CHEETAH, "dql"): (1.0, 2.0), (CHEETAH, "iql"): (1.0, 2.0)})) is None
    assert (
        rivals(outcome({(CHEETAH, "1"): (1.0, 2.0), (CHEETAH, "0.5"): (3.0, 4.0)}, "lambda"))
        is None
    )


def test_a_sweep_has_no_foremost_value():
    grid = {(CHEETAH, "1"): (1.0, 2.0), (CHEETAH, "0.5"): (3.0, 4.0)}
    made = outcome(grid, "lambda")
    assert together(made).foremost == ""
    text = markdown(made)
    assert "| λ = 0.5 | 3.5" in text
    assert "is better" not in text


def test_the_table_the_page_and_the_file_tell_the_same():
    made = outcome()
    text, page, told = markdown(made), page_of(made, []), record(made)["together"]
    better = told["methods"][1]["improvement"]
    shown = f"{better['value']:.2f} [{better['low']:.2f}, {better['high']:.2f}]"
    assert shown in page
    assert shown.replace("[", "\\[").replace("]", "\\]") in text
    assert told["rows"] == [CHEETAH, HOPPER]
    (profile,) = (each for each in figures(made, Path("nowhere")) if each.file == "profiles.png")
    assert profile.png.startswith(b"\x89PNG")
    assert profile.caption.endswith(f"Rows: {CHEETAH}, {HOPPER}.")


# Success rates.


def test_successes_are_counted_with_wilsons_interval():
    made = outcome()
    maze = made.at(MAZE, "bfq")
    assert by_seed(maze) == [(9, 10), (8, 10), (10, 10)]
    assert pooled(maze) == (27, 30)
    low, high = wilson(27, 30)
    assert f"27 of 30 [{100 * low:.1f}, {100 * high:.1f}]" in page_of(made, [])
    (told,) = (c["successes"] for c in record(made)["cells"] if c["row"] == MAZE)
    assert told["wilson"] == {"low": low, "high": high}
    assert [each["reached"] for each in told["by_seed"]] == [9, 8, 10]
    assert pooled(made.at(CHEETAH, "bfq")) is None  # a return is no rate
    diverged = cell(MAZE, "bfq", (90.0, None, 100.0))
    assert pooled(diverged) == (19, 20)
    unknown = replace(maze, readings=(Reading("N = 50", (90.0,)),))
    assert pooled(unknown) is None  # nobody knows of how many episodes


# Files of results.


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "results" / "main"
    folder.mkdir(parents=True)
    write_json(folder / "result.json", record(called(outcome(), "bfq reproduce main", 1.0)))
    return tmp_path


def test_a_folder_of_another_name_is_not_redrawn(root):
    moved = (root / "results" / "main").rename(root / "results" / "other")
    with pytest.raises(BadInput, match="holds the experiment main"):
        merging.merge(moved)
    assert [path.name for path in moved.iterdir()] == ["result.json"]


def test_an_outcome_is_read_as_it_was_written(root):
    made, found = outcome(), read_outcome(root / "results" / "main")
    assert [c.readings for c in found.cells] == [c.readings for c in made.cells]
    assert [c.provenance for c in found.cells] == [c.provenance for c in made.cells]
    assert (found.experiment, found.sources) == (made.experiment, made.sources)


# How long a run took.


def test_the_clock_adds_up_what_was_stopped_and_forgets_what_was_killed(tmp_path, monkeypatch):
    times = iter((0.0, 10.0, 100.0, 105.0, 200.0, 300.0))
    monkeypatch.setattr(clock.time, "monotonic", lambda: next(times))

    def stopped():
        with clock.clocked(tmp_path):
            assert clock.seconds(tmp_path) is None  # what is left if it were killed here
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert clock.seconds(tmp_path) == 10.0
    with clock.clocked(tmp_path):
        pass
    assert clock.seconds(tmp_path) == 15.0
    (tmp_path / "clock.json").write_text(json.dumps({"seconds": None}))
    with clock.clocked(tmp_path):
        pass
    assert clock.seconds(tmp_path) is None
    (tmp_path / "result.json").touch()
    with clock.clocked(tmp_path):
        (tmp_path / "clock.json").unlink()
    assert not (tmp_path / "clock.json").exists()  # what has ended is left alone


@pytest.mark.parametrize("told", [{}, [1], {"seconds": "long"}, {"seconds": 1.0, "ended": 5}])
def test_a_damaged_clock_is_one_sentence(tmp_path, told):
    write_json(tmp_path / "clock.json", told)
    for ask in (clock.seconds, clock.finished):
        with pytest.raises(BadInput, match="clock.json"):
            ask(tmp_path)


def test_when_a_run_ended_survives_copying_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(clock.time, "time", lambda: 86400.0)
    with clock.clocked(tmp_path):
        pass
    (tmp_path / "result.json").touch()
    assert clock.finished(tmp_path) == "1970-01-02T00:00:00+00:00"
    (tmp_path / "clock.json").unlink()
    os.utime(tmp_path / "result.json", (0, 172800))
    assert clock.finished(tmp_path) == "1970-01-03T00:00:00+00:00"
