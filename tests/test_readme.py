"""The README's numbers are those of the files it names."""

import json
import re
import statistics
from pathlib import Path

import pytest

from bfq.agents import agent_names
from bfq.reproduction.experiments import EXPERIMENTS
from bfq.reproduction.readme import BLOCK, rewritten
from bfq.reproduction.readme_tables import TABLES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_table_of_results_is_what_its_files_say():
    """`make tables` writes them anew."""
    assert rewritten(README, ROOT) == README, "run `make tables`"
    marked = [found[2] for found in BLOCK.finditer(README)]
    assert README.count("<!-- end -->") == len(marked) == len(set(marked))
    compared = [name for name, experiment in EXPERIMENTS.items() if experiment.table]
    assert {f"results/{name}" for name in compared} | set(TABLES) == set(marked)


def spelled(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}".replace("-", "−")


def result(name: str) -> dict:
    return json.loads((ROOT / "results" / "halfcheetah-mini" / name).read_text())


@pytest.mark.parametrize("name", ["result.json", "bc.json"])
def test_the_demo_table(name):
    scores = result(name)["scores"]
    for kind in ("return", "normalized"):
        assert spelled(scores[kind]) in README


def test_the_data_row():
    data = result("result.json")["data"]
    assert f"{data['return_mean']:.1f} | {data['normalized_mean']:.1f}" in README


def test_the_table_of_data_made_here():
    rows = {
        row["name"]: row for row in json.loads((ROOT / "results" / "data" / "local.json").read_text())["rows"]
    }
    for robot in ("halfcheetah", "hopper", "walker2d", "ant"):
        levels = ("random", "medium-replay", "medium", "medium-expert", "expert")
        means = [rows[f"local/{robot}-{level}"]["return_mean"] for level in levels]
        assert means == sorted(means)
        assert f"| {robot} | {' | '.join(f'{mean:.0f}' for mean in means)} |".replace("-", "−") in README


def test_policies_rolled_out_anew_return_what_they_are_known_for():
    rows = json.loads((ROOT / "results" / "data" / "rerolled.json").read_text())["rows"]
    today = {row["policy"].split("-")[0]: row["return_mean"] for row in rows if not row["old_masses"]}
    assert abs(today["halfcheetah"] - 4770) < 100
    assert abs(today["walker2d"] - 2850) < 250
    assert abs(today["hopper"] - 1250) < 100
    assert all(row["episodes"] >= 100 for row in rows)


def test_the_checkerboard_table_and_its_promise():
    toy = json.loads((ROOT / "results" / "checkerboard" / "toy.json").read_text())
    names = {"fm": "FM", "ddpm": "DDPM", "consistency": "Consistency", "shortcut": "Shortcut",
             "meanflow": "MeanFlow", "bfq": "BFQ"}  # fmt: skip
    for method, name in names.items():
        for steps, row in toy[method].items():
            cells = (
                f"{name} | {steps}",
                f"{row['energy_distance']:.4f} | {row['sliced_wasserstein2']:.4f}",
                f"{100 * row['share_on_filled']:.1f}% | {row['squares_covered']:.0f} of 8",
            )
            assert " | ".join(cells) in README
    for k in range(3):
        fm1, fm10, bfq = (row["seeds"][k] for row in (toy["fm"]["1"], toy["fm"]["10"], toy["bfq"]["1"]))
        assert bfq["energy_distance"] <= 1.5 * fm10["energy_distance"]
        assert bfq["energy_distance"] <= fm1["energy_distance"] / 20
        assert bfq["squares_covered"] == 8


def test_the_table_of_agents():
    """Every agent has its row, and every one with a value beats Gaussian behaviour cloning on the default."""
    speed = {
        (row["agent"], row["members"]): row["microseconds_per_update"]
        for row in json.loads((ROOT / "benchmarks" / "agents_h200.json").read_text())
    }
    means = {}
    for name in agent_names():
        short, longer = (
            json.loads((ROOT / "results" / "agents" / f"halfcheetah-{task}" / f"{name}.json").read_text())
            for task in ("mini", "medium")
        )
        assert len(short["members"]) == len(longer["members"]) == 3
        assert short["agent"] == longer["agent"] == name
        means[name] = statistics.mean(short["scores"]["return"])
        cells = [rounded(found["scores"]["return"]) for found in (short, longer)]
        cells += [f"{speed[name, members]:.0f}" for members in (1, 6)]
        assert f"| [{name}](docs/agents/{name}.md) | {' | '.join(cells)} |" in README
    assert min(means, key=means.__getitem__) == "bc"


def rounded(values: list[float]) -> str:
    return f"{statistics.mean(values):.0f} ± {statistics.stdev(values):.0f}".replace("-", "−")


def test_files_it_links_to_exist():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
