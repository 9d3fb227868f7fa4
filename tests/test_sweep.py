"""Sweeps: how a grid is divided into runs, the ranking, and continuing."""

import contextlib
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import bfq
from bfq.agents.registry import get_agent
from bfq.cli.main import main
from bfq.errors import BadInput
from bfq.reports.sweep_figures import draw_sweeps
from bfq.sweeps import combinations, draw_ranking, folder_name, ranked

BFQ = get_agent("bfq")
GRID = {"eta": [0.1, 1.0], "critic": ["plain", "clean_diffuser"]}
SMALL = ["--task", "pendulum-mixed", "--seeds", "2", "--steps", "40", "--evaluations", "1"]
SWEEP = ["sweep", *SMALL, "--set", "eta=0.1,1", "--set", "critic=plain,clean_diffuser",
         "--set", "width=8", "--eval-episodes", "1", "--set", "policy_target_start=0"]  # fmt: skip


def test_numbers_share_a_run_and_other_hyperparameters_do_not():
    values = {"eta": [0.1, 1], "critic": ["plain", "fql"], "depth": [2, 3], "width": [8]}
    runs = combinations(BFQ, values)
    assert [folder_name(values, run) for run in runs] == [
        "critic=plain,depth=2", "critic=plain,depth=3", "critic=fql,depth=2", "critic=fql,depth=3",
    ]  # fmt: skip
    assert {tuple(run["eta"]) for run in runs} == {(0.1, 1)}
    assert [run["width"] for run in runs] == [[8]] * 4
    (alone,) = combinations(BFQ, {"eta": [0.1, 1]})
    assert folder_name({"eta": [0.1, 1]}, alone) == "run"


@pytest.mark.parametrize("values", [{}, {"eta": [0.1]}, {"eta": [0.1], "critic": ["plain"]}])
def test_a_single_setting_is_refused(values):
    with pytest.raises(BadInput, match="nothing to sweep"):
        combinations(BFQ, values)


def run_in(folder, *words):
    with contextlib.chdir(folder):
        return main([*words])


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The working folder, the folder of a finished sweep in it, and its record."""
    folder = tmp_path_factory.mktemp("sweep")
    assert run_in(folder, *SWEEP) == 0
    (place,) = (folder / "runs").iterdir()
    return folder, place, json.loads((place / "sweep.json").read_text())


def test_settings_are_ranked_by_their_mean(swept):
    _, place, record = swept
    means = [row["mean"] for row in record["rows"]]
    assert means == sorted(means, reverse=True)
    assert means == [pytest.approx(sum(row["scores"]) / 2) for row in record["rows"]]
    settings = {(row["values"]["eta"], row["values"]["critic"]) for row in record["rows"]}
    assert settings == {(eta, critic) for eta in GRID["eta"] for critic in GRID["critic"]}
    for row in record["rows"]:
        assert f"critic={row['values']['critic']}" in row["run"]
        result = json.loads((place / Path(row["run"]).name / "result.json").read_text())
        assert result["data"] == record["data"]
    names = {path.name for path in place.iterdir()}
    assert {"sweep.png", "report.html", "table.md", "scores.png"} < names


def test_the_best_setting_is_confirmed_on_other_seeds(swept, tmp_path):
    record = swept[2]
    words = shlex.split(record["confirm"])[1:]
    assert run_in(tmp_path, *words, "--out", "run", "--json") == 0
    run = json.loads((tmp_path / "run" / "result.json").read_text())
    best = record["rows"][0]["values"]
    assert {name: run["config"][name] for name in best} == best
    assert [member["seed"] for member in run["members"]] == [2, 3]


def test_the_same_command_trains_nothing_twice(swept, capsys):
    folder, place, record = swept
    files = sorted(place.glob("*/result.json"))
    before = [path.stat().st_mtime_ns for path in files]
    assert run_in(folder, *SWEEP, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == record["rows"]
    assert run_in(folder, *SWEEP) == 0
    assert "run 2 of 2, critic=clean_diffuser\n" in capsys.readouterr().err
    assert [path.stat().st_mtime_ns for path in files] == before


@pytest.mark.parametrize(("inside", "words", "said"), [
    (".", ["--seeds", "3"], "holds a run with other settings: choose another --out"),
    ("critic=plain", [], "holds a run, and its report would be lost: choose another --out"),
])  # fmt: skip
def test_folders_of_other_runs_are_not_changed(swept, capsys, inside, words, said):
    folder, place, _ = swept
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert run_in(folder, *SWEEP, *words, "--out", str(place / inside)) == 2
    assert said in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_panels_of_one_task_share_an_axis(swept, monkeypatch):
    panels = {"plain": {0.1: [10.0, 20.0], 1.0: [30.0]}, "fql": {0.1: [60.0], 1.0: [90.0]}}
    drawn = (draw_sweeps(panels, "eta", "eta", "score", level=level) for level in (False, True))
    limits = [{axes.get_ylim() for axes in figure.axes} for figure in drawn]
    assert [len(found) for found in limits] == [2, 1]
    ((low, high),) = limits[1]
    assert low < 10.0 < 90.0 < high
    drawn = []
    monkeypatch.setattr("bfq.sweeps.sweep_figure", lambda *_, **options: drawn.append(options))
    draw_ranking(ranked(sorted(swept[1].glob("critic=*")), GRID))
    assert drawn == [{"level": True}]


@pytest.mark.parametrize(("words", "said"), [
    ([], "there is nothing to sweep"),
    (["--set", "eta=0.1,0.1"], "the same value twice"),
    (["--set", "critic=plain,plan"], "plan"),
    (["--set", "nothing=1,2"], "unknown hyperparameter of bfq 'nothing'"),
    (["--set", "critic=plain,plain"], "the same value twice"),
    (["--set", "candidates=1,2"], "is part of the evaluation"),
    (["--task", "log.npz", "--set", "eta=0.1,1"], "no environment to rank the settings in"),
])  # fmt: skip
def test_bad_sweeps_are_refused_and_write_nothing(words, said, tmp_path, capsys):
    rows = {"observations": np.zeros((8, 2)), "actions": np.zeros((8, 1)), "rewards": np.zeros(8)}
    np.savez(tmp_path / "log.npz", **rows, terminals=np.zeros(8), timeouts=np.arange(8) == 7)
    assert run_in(tmp_path, "sweep", *SMALL, *words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]


def test_a_sweep_in_python_is_the_sweep_of_the_command_line(swept, tmp_path, capsys):
    _, place, record = swept
    options = {"steps": 40, "seeds": 2, "evaluations": 1, "eval_episodes": 1, "quiet": True}
    options["values"] = GRID | {"eta": [0.1, 1], "width": 8, "policy_target_start": 0}
    done = bfq.sweep("pendulum-mixed", **options, out=tmp_path / "sweep")
    assert capsys.readouterr().err == ""
    assert [row["scores"] for row in done.record["rows"]] == [
        row["scores"] for row in record["rows"]
    ]
    assert done.best == record["rows"][0]["values"]
    assert (done.confirm, done.record["command"]) == (record["confirm"], record["command"])
    assert list(done.table["mean"]) == [row["mean"] for row in record["rows"]]
    assert {run.folder.name for run in done.runs} == {path.name for path in place.glob("critic=*")}
    assert bfq.sweep("pendulum-mixed", **options, out=tmp_path / "sweep") == done
    with pytest.raises(BadInput, match="takes no stop"):
        bfq.sweep("pendulum-mixed", stop=print)
    with pytest.raises(BadInput, match="nothing to sweep"):
        bfq.sweep("pendulum-mixed", values={"eta": 1.0})
