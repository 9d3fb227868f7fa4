"""The documentation's code runs, an agent is one file, and the agents' pages are what their files say."""

import importlib
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from tools.agent_pages import agent_page, agent_pages, formulas, split_docstring
from tools.command_page import command_page

import bfq
from bfq.agents.describe import hyperparameters_of, one_line
from bfq.agents.registry import agent_names, get_agent
from bfq.cli.main import main

DOCS = Path(__file__).parent.parent / "docs"
EXECUTED = [
    "programs.md",
    "coming-from/d3rlpy.md",
    "coming-from/stable-baselines3.md",
    "coming-from/corl.md",
]


def write_buffers():
    """The files that the pages read: a buffer of d3rlpy, and the arrays of one of Stable-Baselines3."""
    data = bfq.load_dataset("pendulum-mixed")[:20]
    with h5py.File("buffer.h5", "w") as file:
        file["columns"], file["num_episodes"] = ["observations", "actions", "rewards"], 20
        for k, episode in enumerate(data):
            file[f"terminated_{k}"] = False
            for name in ("observations", "actions", "rewards"):
                file[f"{name}_{k}"] = getattr(episode, name)
    arrays = {name: getattr(data, name) for name in ("observations", "rewards", "timeouts")}
    arrays |= {"next_observations": data.next_observations, "dones": data.timeouts}
    arrays["actions"] = data.actions / 2
    np.savez("replay.npz", **{name: array[:, None] for name, array in arrays.items()})


@pytest.mark.parametrize("name", EXECUTED)
def test_the_python_code_of_a_page_runs(name, tmp_path, monkeypatch):
    """Block after block with the same names, in a folder with the files that the page reads."""
    monkeypatch.chdir(tmp_path)
    write_buffers()
    page = DOCS / name
    text, names = page.read_text(), {"__name__": "__main__"}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        above = "\n" * text[: block.start(1)].count(
            "\n"
        )  # so that errors name the line of the page
        exec(compile(above + block[1], page, "exec"), names)


def test_the_pages_about_agents_are_up_to_date():
    wanted, folder = agent_pages(), DOCS / "agents"
    assert {path.name for path in folder.iterdir()} == set(wanted)
    stale = [name for name, text in wanted.items() if (folder / name).read_text() != text]
    assert not stale, "run `make docs`"


def test_the_page_about_commands_is_up_to_date():
    assert (DOCS / "command-line.md").read_text() == command_page(), "run `make docs`"


def test_formulas_include_shared_losses():
    assert {"iql.expectile_value_loss", "iql.value_backup_loss"} < set(formulas(get_agent("ifql")))
    assert "L_Q(φ) = Σ_i" in formulas(get_agent("edp"))["dql.critic_loss"]
    assert not [name for name in formulas(get_agent("bfq")) if "." in name]


@pytest.mark.parametrize("name", agent_names())
def test_an_agents_file_documents_itself(name):
    agent = get_agent(name)
    text, written = split_docstring(agent), agent_page(agent)
    assert text.idea.endswith(".")
    assert 20 < len(one_line(agent)) < 200
    assert "for each update" in text.code or "phases" in text.more[0]
    assert any("loss" in function for function in formulas(agent))
    for row in hyperparameters_of(agent):
        assert row.meaning, f"{row.name} has no comment beside it"
        assert isinstance(row.default, str) == bool(row.choices), row.name
    assert f"bfq train --task halfcheetah-medium-v2 --agent {name}" in written
    assert "## Presets and their sources" in written


def test_values_on_a_task_have_sources_in_every_section(capsys):
    assert main(["agents", "bfq", "--task", "local/halfcheetah-medium", "--json"]) == 0
    printed, sections = json.loads(capsys.readouterr().out), ("config", "data", "evaluation")
    found = {(part, row["name"]): row for part in sections for row in printed[part]}
    for key, value, source in [
        (("config", "eta"), 1.0, "the paper's table"),
        (("config", "discount"), 0.99, "card"),
        (("config", "width"), 256, "default of bfq.agents.bfq"),
        (("data", "reward"), "return_range", "card"),
        (("data", "observations"), "standardize", "CleanDiffuser"),
        (("evaluation", "softmax_weight"), 50.0, "CleanDiffuser"),
        (("evaluation", "episodes"), 50, "card"),
        (("evaluation", "seed"), 10_000, "default of bfq.evaluation"),
    ]:
        assert found[key]["value"] == value
        assert source in found[key]["source"]
    assert main(["agents", "bfq", "--task", "local/halfcheetah-medium"]) == 0
    shown = capsys.readouterr().out
    assert "evaluation: candidates" in shown
    assert "data: reward" in shown


def test_the_walk_names_functions_that_exist():
    page = (DOCS / "architecture.md").read_text()
    rows = re.findall(r"^\| \d+ \| `([\w.]+)\.(\w+)` ", page, re.M)
    assert len(rows) >= 12
    for module, name in rows:
        assert callable(getattr(importlib.import_module(module), name))
