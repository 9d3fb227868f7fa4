"""The README's numbers are those of the files it names."""

import json
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def spelled(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}".replace("-", "−")


def result(name: str) -> dict:
    return json.loads((ROOT / "results" / "pendulum-mixed" / name).read_text())


@pytest.mark.parametrize("name", ["result.json", "bc.json"])
def test_the_demo_table(name):
    scores = result(name)["scores"]
    for kind in ("return", "normalized"):
        assert spelled(scores[kind]) in README


def test_the_data_row():
    data = result("result.json")["data"]
    assert f"−{-data['return_mean']:.1f} | {data['normalized_mean']:.1f}" in README


def test_the_checkerboard_table_and_its_promise():
    toy = json.loads((ROOT / "results" / "checkerboard" / "toy.json").read_text())
    for method in ("fm", "bfq"):
        for steps, row in toy[method].items():
            cells = (
                f"{method.upper()} | {steps}",
                f"{row['energy_distance']:.4f} | {row['sliced_wasserstein2']:.4f}",
                f"{100 * row['share_on_filled']:.1f}% | {row['squares_covered']:.0f} of 8",
            )
            assert " | ".join(cells) in README
    for k in range(3):
        fm1, fm10, bfq = (row["seeds"][k] for row in (toy["fm"]["1"], toy["fm"]["10"], toy["bfq"]["1"]))
        assert bfq["energy_distance"] <= 1.5 * fm10["energy_distance"]
        assert bfq["energy_distance"] <= fm1["energy_distance"] / 20
        assert bfq["squares_covered"] == 8


def test_files_it_links_to_exist():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
