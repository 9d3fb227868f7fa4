"""The scripts in examples/ run as they are."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["own_environment"])
def test_a_short_script_runs_and_learns(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text().splitlines()) <= 40
    runpy.run_path(str(file), run_name="__main__")
    score, log = map(float, re.findall(r": (-?[\d.]+)", capsys.readouterr().out))
    assert score > log / 2  # both are costs


@pytest.mark.parametrize(("name", "lines"), [
    ("fine_tuning", r"( *\d+ steps: -\d+, -\d+\n){5}"),
    ("own_agent", r"(eta [\d.]+: -?[\d.]+\n){2}exported: policy.npz\n"),
])  # fmt: skip
def test_a_short_script_prints_its_results(name, lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bfq.agents.registry.registered", {})
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text().splitlines()) <= 40
    runpy.run_path(str(file), run_name="__main__")
    assert re.fullmatch(lines, capsys.readouterr().out)
