"""The generated tables of README.md and docs/ agree with the files in results/."""

import json
import re
import statistics
from pathlib import Path

import pytest

from bfq.agents.registry import agent_names
from bfq.errors import BadInput
from bfq_paper.experiments import EXPERIMENTS
from bfq_paper.merge import front_page
from bfq_paper.pages import BLOCK, TABLES, block, pages, rewritten

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs" / "paper" / "results.md").read_text()


def content(path):
    return json.loads((ROOT / path).read_text())


def test_every_block_is_up_to_date():
    marked = []
    for page in pages(ROOT):
        text = page.read_text()
        assert rewritten(text, ROOT, page) == text, f"{page}: run `make tables`"
        marked += [found[2] for found in BLOCK.finditer(text)]
    compared = {f"results/{name}" for name, each in EXPERIMENTS.items() if each.table}
    assert compared | set(TABLES) <= set(marked)
    own = {found[2] for found in BLOCK.finditer(README)}
    assert own == {"results/halfcheetah-mini", "results/agents"}


def test_the_checkerboard_table_and_its_promise():
    toy = content("results/checkerboard/toy.json")
    names = {"fm": "FM", "ddpm": "DDPM", "consistency": "Consistency", "shortcut": "Shortcut",
             "meanflow": "MeanFlow", "bfq": "BFQ"}  # fmt: skip
    for method, name in names.items():
        for steps, row in toy[method].items():
            distances = f"{row['energy_distance']:.4f} | {row['sliced_wasserstein2']:.4f}"
            squares = f"{100 * row['share_on_filled']:.1f}% | {row['squares_covered']:.0f} of 8"
            assert f"{name} | {steps} | {distances} | {squares}" in RESULTS
    seeds = (row["seeds"] for row in (toy["fm"]["1"], toy["fm"]["10"], toy["bfq"]["1"]))
    for fm1, fm10, bfq in zip(*seeds, strict=True):
        assert bfq["energy_distance"] <= 1.5 * fm10["energy_distance"]
        assert bfq["energy_distance"] <= fm1["energy_distance"] / 20
        assert bfq["squares_covered"] == 8


def test_the_table_of_agents():
    """Every agent has its row, and every one with a value beats Gaussian behavior cloning on the default."""
    rows, means = content("benchmarks/agents_h200.json"), {}
    speed = {(row["agent"], row["members"]): row["microseconds_per_update"] for row in rows}
    for name in agent_names():
        files = [f"results/agents/halfcheetah-{task}/{name}.json" for task in ("mini", "medium")]
        records = [content(file) if (ROOT / file).exists() else None for file in files]
        for record in filter(None, records):
            assert (len(record["members"]), record["agent"]) == (3, name)
        short = records[0]
        cells = [rounded(found["scores"]["return"]) if found else "–" for found in records]
        means[name] = statistics.mean(short["scores"]["return"])
        cells += [f"{speed[name, m]:,.0f}" if (name, m) in speed else "–" for m in (1, 6)]
        assert f"| [{name}](docs/agents/{name}.md) | {' | '.join(cells)} |" in README
    assert min(means, key=means.__getitem__) == "bc"


def rounded(values):
    return f"{statistics.mean(values):,.0f} ± {statistics.stdev(values):,.0f}".replace("-", "−")


def test_files_it_links_to_exist():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path


def test_tables_of_another_device_have_a_folder_between():
    assert "(results/cpu/efficiency/training_time.png)" in block(ROOT, "results/cpu/efficiency")
    page = front_page(ROOT / "results")
    assert "<h2>Action frequency and training time, cpu</h2>" in page
    for place in ("efficiency", "cpu/efficiency"):
        assert f'href="{place}/index.html"' in page
        assert f'src="{place}/training_time.png"' in page


@pytest.mark.parametrize(("text", "message"), [
    ("<!-- results/main -->\n<!-- results/eta -->\n<!-- end -->\n", "has no partner"),
    ("<!-- end -->\n", "has no partner"),
    ("<!-- results/agents -->\n", "has no partner"),
    ("<!-- results/cpu/nothing -->\n<!-- end -->\n", "cpu/nothing"),
])  # fmt: skip
def test_marks_without_a_partner_or_a_table_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        rewritten(text, ROOT, ROOT / "README.md")


def test_a_damaged_file_behind_a_table_is_named(tmp_path):
    folder = tmp_path / "results" / "data"
    folder.mkdir(parents=True)
    (folder / "local.json").write_text('{"rows": []}')
    with pytest.raises(BadInput, match="results/data"):
        block(tmp_path, "results/data")
    assert block(tmp_path, "results/main") == ""
