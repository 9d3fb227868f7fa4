"""An agent in a file outside the package: found, trained, resumed, evaluated, reported and exported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import bfq
from bfq.agents.registry import agent_names, get_agent, load_agent, registered
from bfq.cli.main import main
from bfq.errors import BadInput

FILE = Path(__file__).parent.parent / "examples" / "my_agent.py"


def printed(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    words = ["train", "--task", "pendulum-mixed", "--agent", str(FILE), "--steps", "200", "--seeds", "1",
             "--set", "eta=0.1,1", "--set", "width=32", "--set", "batch_size=64", "--evaluations", "2",
             "--eval-episodes", "1", "--out", str(folder), "--json"]  # fmt: skip
    assert main(words) == 0
    return folder


def test_it_trains(trained):
    record = json.loads((trained / "result.json").read_text())
    assert (record["agent"], record["steps"]) == ("my_agent", 200)
    assert len(record["scores"]["return"]) == 2
    assert f"--agent {FILE}" in record["command"]
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    losses = [row["metrics"]["bc_loss"] for row in rows if row["kind"] == "train"]
    assert (np.array(losses[-1]) < np.array(losses[0])).all()


def test_its_file_is_executed_only_if_the_user_names_it(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(registered, "my_agent")  # as in another process
    config = json.loads((trained / "config.json").read_text())
    Path("trap.py").write_text("raise SystemExit('executed')")
    Path("config.json").write_text(json.dumps({**config, "agent": "trap.py"}))
    for words, agent in (
        (["evaluate", trained], "my_agent"), (["train", "--resume", "--out", trained], "my_agent"),
        (["train", "--config", "config.json", "--out", "run"], "trap.py"),
    ):  # fmt: skip
        assert main([*map(str, words)]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"unknown agent '{agent}'" in error
        assert "--agent path/to/file.py" in error


def test_it_resumes_to_the_same_scores(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    first = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    shutil.rmtree(max(folder.glob("checkpoints/step-*")))
    resumed = printed(capsys, "train", "--resume", "--out", folder, "--agent", FILE)
    assert resumed["scores"] == first["scores"]


def test_it_is_evaluated_and_reported(trained, tmp_path, capsys):
    found = printed(capsys, "evaluate", trained, "--episodes", "1", "--agent", FILE)
    assert found["scores"] == json.loads((trained / "result.json").read_text())["scores"]
    assert main(["report", str(trained), "--out", str(tmp_path)]) == 0
    assert "Regularized actor-critic" in (tmp_path / "report.html").read_text()


def test_it_is_exported(trained, tmp_path, capsys):
    file = tmp_path / "policy.npz"
    assert printed(capsys, "export", trained, "--agent", FILE, "--out", file)["agent"] == "my_agent"
    action = bfq.load_policy(trained)(np.array([1.0, 0.0, 0.0], np.float32))
    assert np.abs(action).max() <= 2.0  # in the simulator's units


def test_registration_by_object_and_by_decorator():
    agent = load_agent(str(FILE))
    assert get_agent("my_agent") is agent
    assert "my_agent" in agent_names()
    other = agent._replace(name="my_other_agent")
    assert bfq.register(lambda: other) is other
    assert load_agent("my_other_agent") is other
    with pytest.raises(BadInput, match="choose another name"):
        bfq.register(agent._replace(name="bfq"))
    for change in ({"name": "../x"}, {"name": 5}, {"title": "<b>"}):
        with pytest.raises(BadInput, match="agent"):
            bfq.register(agent._replace(**change))
    with pytest.raises(BadInput, match="agent must be"):
        load_agent(None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1", "must define one agent"),
        ("def", "not valid Python, line 1"),
        ("\n1 / 0", "line 2: ZeroDivisionError"),
        ("raise SystemExit", "line 1: SystemExit"),
    ],
)
def test_a_file_without_an_agent_is_refused(code, words, tmp_path):
    file = tmp_path / "nothing.py"
    file.write_text(code)
    with pytest.raises(BadInput, match=words):
        load_agent(str(file))
    with pytest.raises(BadInput, match="there is no file"):
        load_agent(str(tmp_path / "absent.py"))
