"""A grid of hyperparameters: what is one run and what is several, which setting is best, and going on."""

import contextlib
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from bfq.agents.registry import get_agent
from bfq.cli.main import main
from bfq.errors import BadInput
from bfq.reports.sweep_figures import draw_sweeps
from bfq.sweep import _picture, combinations, folder_name, ranked

GRID = ["--set", "eta=0.1,1", "--set", "critic=plain,clean_diffuser", "--set", "width=8"]
SMALL = ["--task", "pendulum-mixed", "--seeds", "2", "--steps", "40", "--evaluations", "1"]
WORDS = ["sweep", *SMALL, *GRID, "--eval-episodes", "1", "--set", "policy_target_start=0"]


def test_numbers_share_a_run_and_the_rest_has_one_each():
    values = {"eta": [0.1, 1], "critic": ["plain", "fql"], "depth": [2, 3], "width": [8]}
    runs = combinations(get_agent("bfq"), values)
    assert [folder_name(values, run) for run in runs] == [
        "critic=plain,depth=2", "critic=plain,depth=3", "critic=fql,depth=2", "critic=fql,depth=3",
    ]  # fmt: skip
    assert {tuple(run["eta"]) for run in runs} == {(0.1, 1)}
    assert [run["width"] for run in runs] == [[8]] * 4
    (alone,) = combinations(get_agent("bfq"), {"eta": [0.1, 1]})
    assert folder_name({"eta": [0.1, 1]}, alone) == "run"


@pytest.mark.parametrize("values", [{}, {"eta": [0.1]}, {"eta": [0.1], "critic": ["plain"]}])
def test_one_setting_is_no_sweep(values):
    with pytest.raises(BadInput, match="nothing to sweep"):
        combinations(get_agent("bfq"), values)


def test_without_a_simulator_nothing_can_be_ranked(tmp_path, capsys):
    rows = {"observations": np.zeros((8, 2)), "actions": np.zeros((8, 1)), "rewards": np.zeros(8)}
    np.savez(tmp_path / "log.npz", **rows, terminals=np.zeros(8), timeouts=np.arange(8) == 7)
    with contextlib.chdir(tmp_path):
        assert main(["sweep", "--task", "log.npz", "--set", "eta=0.1,1", "--steps", "10"]) == 2
    assert (
        "no simulator to rank the settings in: name one with --simulator" in capsys.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    with contextlib.chdir(folder):
        assert main(WORDS) == 0
    (place,) = (folder / "runs").iterdir()
    return folder, place, json.loads((place / "sweep.json").read_text())


def test_the_settings_are_ranked_by_their_mean(swept):
    _, place, told = swept
    means = [row["mean"] for row in told["rows"]]
    assert means == sorted(means, reverse=True)
    assert means == [pytest.approx(sum(row["scores"]) / 2) for row in told["rows"]]
    settings = {(row["values"]["eta"], row["values"]["critic"]) for row in told["rows"]}
    assert settings == {(e, c) for e in (0.1, 1.0) for c in ("plain", "clean_diffuser")}
    for row in told["rows"]:
        assert f"critic={row['values']['critic']}" in row["run"]
        assert (
            json.loads((place / Path(row["run"]).name / "result.json").read_text())["data"]
            == told["data"]
        )
    assert {"sweep.png", "report.html", "table.md", "scores.png"} < {
        path.name for path in place.iterdir()
    }


def test_the_best_is_confirmed_on_seeds_that_did_not_choose_it(swept, tmp_path):
    _, _, told = swept
    words = shlex.split(told["confirm"])
    assert words[words.index("--seeds") + 1] == "2,3"
    with contextlib.chdir(tmp_path):
        assert main([*words[1:], "--out", "run", "--json"]) == 0
    run = json.loads((tmp_path / "run" / "result.json").read_text())
    best = told["rows"][0]["values"]
    assert {name: run["config"][name] for name in best} == best
    assert [member["seed"] for member in run["members"]] == [2, 3]


def test_the_same_words_train_nothing_again(swept, capsys):
    folder, place, told = swept
    files = sorted(place.glob("*/result.json"))
    before = [path.stat().st_mtime_ns for path in files]
    with contextlib.chdir(folder):
        assert main([*WORDS, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["rows"] == told["rows"]
    assert [path.stat().st_mtime_ns for path in files] == before


def test_another_sweep_in_its_place_is_refused_before_anything_is_done(swept, capsys):
    folder, place, _ = swept
    with contextlib.chdir(folder):
        assert main([*WORDS, "--seeds", "3", "--out", str(place)]) == 2
    assert "holds a run with other settings: choose another --out" in capsys.readouterr().err


def test_a_run_in_its_place_keeps_its_report(swept, capsys):
    folder, place, _ = swept
    inside = place / "critic=plain"
    before = {path: path.stat().st_mtime_ns for path in inside.iterdir()}
    with contextlib.chdir(folder):
        assert main([*WORDS, "--out", str(inside)]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.endswith(
        "holds a run of its own, whose report would be lost: choose another --out."
    )
    assert {path: path.stat().st_mtime_ns for path in inside.iterdir()} == before


def test_each_run_is_told_before_it_begins(swept, capsys):
    folder, _, _ = swept
    with contextlib.chdir(folder):
        assert main(WORDS) == 0
    told = capsys.readouterr().err
    assert "run 1 of 2, critic=plain\n" in told
    assert "run 2 of 2, critic=clean_diffuser\n" in told


def test_panels_of_one_task_have_one_scale():
    panels = {
        "critic=plain": {0.1: [10.0, 20.0], 1.0: [30.0]},
        "critic=fql": {0.1: [60.0], 1.0: [90.0]},
    }
    apart = draw_sweeps(panels, "eta", "eta", "score")
    level = draw_sweeps(panels, "eta", "eta", "score", level=True)
    assert len({axes.get_ylim() for axes in apart.axes}) == 2
    ((low, high),) = {axes.get_ylim() for axes in level.axes}
    assert low < 10.0 < 90.0 < high


def test_the_figure_of_a_sweep_has_one_scale(swept, monkeypatch):
    _, place, _ = swept
    drawn = []
    monkeypatch.setattr("bfq.sweep.sweep_figure", lambda *_, **how: drawn.append(how))
    values = {"eta": [0.1, 1], "critic": ["plain", "clean_diffuser"]}
    _picture(ranked(sorted(place.glob("critic=*")), values))
    assert drawn == [{"level": True}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is nothing to sweep"),
        (["--set", "eta=0.1,0.1"], "the same value twice"),
        (["--set", "critic=plain,plan"], "plan"),
        (["--set", "nothing=1,2"], "unknown hyperparameter of bfq 'nothing'"),
        (["--set", "critic=plain,plain"], "the same value twice"),
        (["--set", "candidates=1,2"], "is part of the evaluation"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(words, said, tmp_path, capsys):
    with contextlib.chdir(tmp_path):
        assert main(["sweep", *SMALL, *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert said in told
    assert not list(tmp_path.iterdir())
