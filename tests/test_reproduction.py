"""`bfq reproduce`: plans, runs on tiny tasks, and several processes at one experiment."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import bfq
from bfq import BadInput
from bfq.bench import measure
from bfq.cli import main as cli
from bfq.cli.main import main
from bfq_paper import cli_reproduce, parts, run, sources
from bfq_paper.cells import Results, lock, read_results, results_in
from bfq_paper.experiments import EXPERIMENTS, QUICK, Column, Options, select_experiments
from bfq_paper.parts import TimedMethod, Training, parts_of, populations, short_hash
from bfq_paper.published import PAPER
from bfq_paper.run import make_plan, reproduce
from bfq_paper.sources import Source, source_of

TASK = "pendulum-mixed"
COMMAND = ["reproduce", "main", "--quick", "--agents", "bc,bfq", "--steps", "20"]


def quiet(sentence):
    """Print nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which the first part was trained before the command was interrupted."""
    folder, real = tmp_path_factory.mktemp("reproduction"), bfq.train

    def interrupted(task, agent, **options):
        if agent == "bfq":
            raise KeyboardInterrupt
        return real(task, agent, **options)

    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(bfq, "train", interrupted, raising=False)
        assert main(COMMAND) == 130
    return folder


@pytest.fixture(scope="module")
def finished(place):
    """The same folder after the command was repeated."""
    (first,) = (path for path in (place / "runs").glob("*-bc-*") if path.is_dir())
    before = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    partial = read_results(place / "results" / "main-quick")
    with contextlib.chdir(place):
        assert main(COMMAND) == 0
    assert [cell.column for cell in partial.cells] == ["bc"]
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == before
    return place


@pytest.fixture
def quick_bc():
    """The experiment of `finished`, with behavior cloning alone."""
    (experiment,) = select_experiments("main", Options(quick=True, agents=["bc"], steps=20))
    return experiment


def test_every_score_carries_everything_it_depends_on(finished):
    cells = {c.column: c for c in read_results(finished / "results" / "main-quick").cells}
    ours = cells["bfq"]
    assert [reading.name for reading in ours.readings] == ["N = 1", "N = 50"]
    assert [reading.record["protocol"]["candidates"] for reading in ours.readings] == [1, 50]
    assert len(cells["bc"].readings) == 1  # it has no critic to choose with
    assert [member["seed"] for member in ours.run["members"]] == [0, 1]
    assert all(len(reading.values) == 2 for reading in ours.readings)
    assert len(ours.run["data"]["sha256"]) == 64
    assert ours.run["source"]["kind"] == "embedded"
    for name in ("versions", "device", "command", "train_seconds", "config", "transforms"):
        assert ours.run[name]
    assert (ours.run["precision"], ours.run["steps"]) == ("float32", 20)
    assert len(ours.run["evaluations"]["normalized"]) == len(ours.run["evaluations"]["steps"])
    assert ours.readings[1].record["seconds"] > 0


def test_a_quick_run_leaves_a_marked_table_a_page_and_figures(finished):
    folder = finished / "results" / "main-quick"
    assert QUICK in (folder / "table.md").read_text().splitlines()[0]
    page = (folder / "index.html").read_text()
    assert f"({QUICK})</title>" in page.replace(" · bfq", "")
    pictures = {path.name for path in folder.glob("*.png")}
    assert {"scores.png", "learning_curves.png"} < pictures
    assert all(f'src="{name}"' in page for name in pictures - {"frames"} if "-bc-" not in name)
    (frames,) = folder.glob("frames-*-bfq-*.png")
    (run_folder,) = (path for path in (finished / "runs").glob("*-bfq-*") if path.is_dir())
    assert frames.read_bytes() == (run_folder / "frames.png").read_bytes()
    assert not (finished / "results" / "main").exists()


def test_nothing_runs_again(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished)
    monkeypatch.setattr(bfq, "train", None, raising=False)
    assert main([*COMMAND, "--json"]) == 0
    (content,) = json.loads(capsys.readouterr().out)
    assert [cell["column"] for cell in content["cells"]] == ["bc", "bfq"]
    assert main([*COMMAND, "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert [part["state"] for part in plan["parts"]] == ["finished", "finished"]


def test_results_of_another_machine_need_no_run_folder(finished, quick_bc, tmp_path, monkeypatch):
    """Only --again, or another setting, makes a cell run again."""
    monkeypatch.chdir(tmp_path)
    out = finished / "results"
    plan = make_plan(quick_bc, out)
    assert [plan.state(part) for part in plan.parts] == ["finished"]
    assert replace(plan, again=True).state(plan.parts[0]) == "not begun"
    for change in ({"steps": 30}, {"seeds": (0, 2)}, {"episodes": 3}, {"precision": "bfloat16"}):
        other = make_plan(replace(quick_bc, **change), out)
        assert other.state(other.parts[0]) == "not begun", change


def test_data_with_other_bytes_is_not_the_same_data(finished, quick_bc, monkeypatch):
    (part,), _ = parts_of(quick_bc)
    found = results_in(finished / "results", quick_bc)
    for digest, same in (("0" * 64, False), (None, True)):
        monkeypatch.setattr(parts, "data_sha256", lambda data, digest=digest: digest)
        assert part.has(found) is same


def test_a_part_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    real = bfq.train

    def failing(task, agent, **options):
        if agent == "bc":
            raise BadInput("too\nbad.")
        return real(task, agent, **options)

    monkeypatch.setattr(bfq, "train", failing, raising=False)
    assert main(COMMAND) == 1
    assert "bc failed: too bad." in capsys.readouterr().err
    assert read_results(Path("results/main-quick")).columns == ["bfq"]


def test_a_seed_without_a_score_fails_its_cell(finished, quick_bc, monkeypatch):
    (part,), _ = parts_of(quick_bc)
    (folder,) = (path for path in (finished / "runs").glob("*-bc-*") if path.is_dir())
    record = json.loads((folder / "result.json").read_text())
    record["scores"]["normalized"][1] = None
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text",
        lambda path, *rest: json.dumps(record) if path.name == "result.json" else real(path, *rest),
    )  # fmt: skip
    monkeypatch.setattr(bfq, "train", lambda *_, **__: None, raising=False)
    (cell,) = part.run(folder, True)
    assert (cell.state, cell.why) == ("failed", "diverged: no score of seed 1.")


def test_a_grid_trains_as_one_population():
    for name, members in (("lambda", 5), ("eta", 7)):
        (experiment,) = select_experiments(name, Options(quick=True))
        (part,), _ = parts_of(experiment)
        assert len(part.config.members) == 2 * members
    assert len(populations(EXPERIMENTS["preconditioning"].columns)) == 2
    labels = [[c.label for c in group] for group in populations(EXPERIMENTS["ogbench"].columns)]
    assert ["sorl-8", "sorl-1"] in labels  # the same weights, sampled in another way


def test_ogbench_also_has_the_mean_of_the_last_evaluations():
    rows = {"steps": [1, 2, 3, 4], "normalized": [[9.0, 9.0], [1.0, 2.0], [2.0, None], [3.0, 4.0]]}
    found = parts.last_mean(rows, 3)
    assert (found.name, found.values) == ("mean of the last 3", (2.0, None))
    assert found.record == {"steps": [2, 3, 4]}
    source = Source("cube-single-play-singletask-v0", "local/cube-single-play", "local", "")
    part = Training(EXPERIMENTS["ogbench"], source, (Column("bfq", "bfq"),))
    assert part.options["evaluations"] == [200_000, 500_000, 800_000, 900_000, 1_000_000]


def test_names_depend_on_settings():
    (quick,) = select_experiments("main", Options(quick=True, agents=["bc"]))
    several = (quick, replace(quick, steps=7), replace(quick, seeds=3))
    names = {parts_of(each)[0][0].folder for each in several}
    assert len(names) == 3
    assert all(name.startswith(f"{TASK}-bc-") for name in names)
    assert short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1}) != short_hash({"a": 2})


def test_a_dry_run_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "all", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    for experiment in EXPERIMENTS.values():
        assert experiment.title in shown
    assert "pen-human-v1 cannot be filled" in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "said"), [
    (["mian"], "did you mean main"),
    (["main", "--agents", "bfg"], "did you mean bfq"),
    (["main", "--tasks", "hoper-medium-v2"], "did you mean hopper-medium-v2"),
    (["main", "--tasks", "checkerboard"], "bfq reproduce toy"),
    (["main", "--seeds", "0"], "--seeds"),
    (["main", "--seeds", "3,3"], "--seeds"),
    (["main", "--steps", "0"], "--steps"),
    (["main", "--precision", "float16"], "unknown precision"),
    (["efficiency", "--seeds", "3"], "no option --seeds"),
    (["all", "--agents", "bfq"], "one experiment"),
    (["main", "--jobs", "0"], "--jobs"),
    (["all", "--jobs", "2"], "--jobs"),
    (["toy", "--json", "--out", "/proc/nowhere"], "cannot write"),
])  # fmt: skip
def test_bad_input_is_one_sentence_and_writes_nothing(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_every_cell_of_the_paper_has_its_place():
    for experiment in EXPERIMENTS.values():
        if experiment.table and experiment.kind == "scores":
            table = PAPER[experiment.table]
            assert set(table.columns) == {column.label for column in experiment.columns}
            assert set(table.rows) == set(experiment.rows)
    speed = {column.label for column in EXPERIMENTS["efficiency"].columns}
    assert speed == set(PAPER["efficiency"].rows)


def test_the_best_available_data_fills_a_row(monkeypatch):
    row, stem = "hopper-medium-v2", "hopper-medium"
    here = [f"local/{stem}", f"rerolled/{stem}", f"rerolled/{stem}-old-masses", row]
    kinds = ["local", "rerolled", "rerolled", "published"]
    for k, kind in enumerate(kinds):
        answers = dict.fromkeys(here[: k + 1], "yes").get
        monkeypatch.setattr(sources, "availability", lambda name, known=answers: known(name, ""))
        found = source_of(row)
        assert (found.data, found.kind) == (here[k], kind)
    monkeypatch.setattr(sources, "availability", lambda name: "needs a file")
    assert source_of(row).data is None
    assert "bfq data download hopper-medium-v2" in source_of(row).words


def test_times_are_measured_once_and_only_those_of_the_paper(tmp_path, monkeypatch):
    def timed(agent, config, rows, sizes):  # test_bench has the real one
        return {**measure.describe_update(agent, config, sizes), "microseconds_per_update": 3600.0}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parts, "time_update", timed)
    (experiment,) = select_experiments("efficiency", Options(quick=True, agents=["bfq-1", "fql-5"]))
    plan = make_plan(experiment, Path("out"))
    assert reproduce(plan, Path("out"), "test", quiet, True) == []
    found = results_in(Path("out"), experiment)
    assert {(c.row, c.column) for c in found.cells} == {
        ("frequency", "bfq-1"), ("training time", "bfq-1"), ("training time", "fql-5"),
    }  # fmt: skip
    row = found.at("training time", "fql-5").run["rows"][0]["training"]
    assert (row["width"], row["depth"], row["flow_steps"]) == (256, 4, 5)
    assert found.at("training time", "fql-5").unit == "hours"
    assert found.at("training time", "fql-5").ours.mean == 1.0
    monkeypatch.setattr(parts, "time_update", None)
    again = make_plan(experiment, Path("out"))
    assert [again.state(part) for part in again.parts] == ["finished", "finished"]
    assert isinstance(again.parts[0], TimedMethod)


def test_the_checkerboard_is_measured_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "toy", "--quick", "--seeds", "1"]) == 0
    found = read_results(Path("results/toy-quick"))
    assert found.rows[0] == "energy distance"
    assert found.columns == ["fm-1", "fm-2", "fm-5", "fm-10", "bfq-1"]
    assert (Path("results/toy-quick/toy.png")).read_bytes().startswith(b"\x89PNG")
    assert "toy.png" in Path("results/toy-quick/index.html").read_text()


def test_a_part_of_another_process_is_left_to_it(finished, quick_bc, tmp_path, monkeypatch):
    """It is tried again, and its cells are taken from the results if the other has finished it."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan(quick_bc, Path("out"))
    held = lock(run.RUNS / ".locks" / plan.parts[0].folder)
    held.acquire()
    waits = []

    def other_process(seconds):
        waits.append(seconds)
        cells = read_results(finished / "results" / "main-quick").cells
        run.add_results(Path("out"), Results(quick_bc), cells)
        held.release()

    monkeypatch.setattr(run.time, "sleep", other_process)
    monkeypatch.setattr(bfq, "train", None, raising=False)
    assert reproduce(plan, Path("out"), "test", quiet, True) == []
    assert waits == [run.PATIENCE_S]


def test_several_processes_share_the_work(tmp_path):
    words = [*COMMAND, "--jobs", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "bfq.cli.main", *words], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(bfq.__file__).parents[1])}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = read_results(tmp_path / "results" / "main-quick")
    assert found.columns == ["bc", "bfq"]
    (log,) = (tmp_path / "runs" / "shared").glob("*.log")
    assert "Traceback" not in log.read_text()
    assert len([path for path in (tmp_path / "runs").glob(f"{TASK}-*") if path.is_dir()]) == 2


def test_helpers_stop_with_the_first_process(tmp_path, monkeypatch):
    monkeypatch.setattr(run.sys, "executable", "/bin/sleep")
    real = subprocess.Popen

    def sleeping(command, **options):
        return real(["/bin/sleep", "60"], **options)

    monkeypatch.setattr(run.subprocess, "Popen", sleeping)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), run.helpers(2, ["reproduce"], tmp_path / "logs"):
        raise KeyboardInterrupt
    assert time.monotonic() - began < 10
    assert len(list((tmp_path / "logs").iterdir())) == 2
    assert signal.getsignal(signal.SIGTERM) is not None


@pytest.mark.parametrize("out", [["--out", "here"], ["--out=here"], []])
def test_the_recorded_command_has_no_place_of_this_machine(out, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(run, "reproduce", lambda *rest: seen.append(rest[2]) or [])
    monkeypatch.setattr(run, "make_plan", lambda experiment, *_: make_plan(experiment, tmp_path))
    parser = argparse.ArgumentParser()
    cli_reproduce.add_arguments(parser)
    words = ["toy", *out, "--seeds", "2"]
    args = parser.parse_args(words)
    args.words = ["reproduce", *words]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):  # nothing was run, so there is no table
        cli_reproduce.run(args)
    assert seen == ["bfq reproduce toy --seeds 2"]


def test_a_source_tree_that_is_not_installed_has_the_commands(monkeypatch):
    monkeypatch.setattr(cli, "entry_points", lambda group: ())
    for cached in (cli.verbs, cli.added_commands):
        cached.cache_clear()
    assert {"reproduce", "toy"} <= set(cli.verbs())
    monkeypatch.undo()
    for cached in (cli.verbs, cli.added_commands):
        cached.cache_clear()
