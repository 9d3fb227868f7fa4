"""Several processes at one command's parts."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from bfq.api import evaluate
from bfq.cli.main import main
from bfq.errors import Busy
from bfq.files import locked, make_folder
from bfq_paper import reproduce
from bfq_paper.cli_sharing import helped
from bfq_paper.plan.options import Options, chosen
from bfq_paper.reproduce import plan, share
from bfq_paper.work.bench import Bench, state

SMALL = ["reproduce", "main", "--quick", "--seeds", "0,1", "--tasks", "pendulum-mixed"]


@pytest.fixture
def here(tmp_path):
    with contextlib.chdir(tmp_path):
        yield tmp_path


def test_what_another_is_at_is_left_to_it(here, monkeypatch):
    """No results are written: that is for the command that asked for all."""
    wished = Options(
        quick=True, agents=["bc", "td3_bc"], tasks=["pendulum-mixed"], seeds=[0, 1], steps=20
    )
    (experiment,) = chosen("main", wished)
    made, bench = plan(experiment), Bench(evaluate, quiet=True)
    first, second = made.works
    make_folder(first.folder(bench))
    looks = []

    def patience(
        seconds,
    ):  # the first part stays busy: it is looked at again, and at last it is free
        looks.append([state(work, bench) for work in (first, second)])
        held.close()

    monkeypatch.setattr(reproduce.time, "sleep", patience)
    with contextlib.ExitStack() as held:
        held.enter_context(locked(first.folder(bench)))
        share(made, bench)
    assert looks == [["begun", "finished"]]
    assert [state(work, bench) for work in (first, second)] == ["finished", "finished"]
    assert not (here / "results").exists()


def test_two_processes_fill_what_one_command_asks_for(here, capsys):
    assert main([*SMALL, "--steps", "20", "--agents", "bc,td3_bc", "--jobs", "2"]) == 0
    told = json.loads((here / "results/main-quick/result.json").read_text())
    assert [cell["state"] for cell in told["cells"]] == ["done", "done"]
    assert told["command"].endswith("--jobs 2")
    assert "shared with 1 more, which tell of them in runs/shared" in capsys.readouterr().out
    (log,) = (here / "runs/shared").iterdir()
    assert "Traceback" not in log.read_text()


def checkpoints(folder):
    return list(folder.glob("runs/*/checkpoints/*"))


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


LONG = [*SMALL, "--steps", "1000000", "--agents", "bc"]


def test_those_that_help_save_and_stop_at_the_end_of_the_block(here):
    logs = here / "logs"
    with helped(1, [*LONG, "--share"], logs):
        wait_for(lambda: list(here.glob("runs/*/metrics.jsonl")))
    assert checkpoints(here)
    assert not list(here.glob("runs/*/result.json"))
    (log,) = logs.iterdir()
    assert "Traceback" not in log.read_text()


def test_those_that_help_end_with_a_first_that_is_killed(here):
    """They hold their run's lock as long as they are there."""
    first = subprocess.Popen(
        [sys.executable, "-c", f"""
import sys, time
from pathlib import Path
from bfq_paper.cli_sharing import helped
with helped(1, {[*LONG, "--share"]!r}, Path("logs")):
    time.sleep(1000)
"""], env=os.environ
    )  # fmt: skip
    wait_for(lambda: list(here.glob("runs/*/metrics.jsonl")))
    (folder,) = here.glob("runs/*-bc-*")
    first.kill()
    first.wait()
    wait_for(lambda: free(folder))
    assert checkpoints(here)


def test_one_that_fails_is_told_of(here, capsys):
    """It runs no module of the current folder, and its words are refused as all words are."""
    (here / "rich.py").write_text("raise SystemExit('a stranger')")
    with helped(1, ["reproduce", "--share", "nothing"], here / "logs"):
        (log,) = (here / "logs").iterdir()
        wait_for(lambda: "unknown experiment" in log.read_text())
        time.sleep(1.0)
    told = capsys.readouterr().out
    assert "has ended with code 2" in told
    assert str(log) in told


def free(folder):
    with contextlib.suppress(Busy), locked(folder):
        return True
    return False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["main", "--jobs", "0"], "--jobs must be from 1 to 64, not 0"),
        (["main", "--jobs", "65"], "--jobs must be from 1 to 64, not 65"),
        (["efficiency", "--jobs", "2"], "times are measured with nothing beside them"),
        (["all", "--jobs", "2"], "times are measured with nothing beside them"),
    ],
)
def test_jobs_that_cannot_be_are_refused(words, said, here, capsys):
    assert main(["reproduce", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(here.iterdir())
