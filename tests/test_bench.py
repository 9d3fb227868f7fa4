"""`bfq bench` measures what it says."""

import json
import time

import pytest

from bfq.agents import Acting, Spec, get_agent
from bfq.agents.agent import configure
from bfq.bench.acting import time_acting
from bfq.bench.limits import limits
from bfq.bench.timing import timed
from bfq.bench.updates import Sizes, made_up, time_update
from bfq.cli.main import main

SMALL = [
    "--set",
    "depth=1",
    "--set",
    "critic_depth=1",
    "--width",
    "8",
    "--batch",
    "16",
    "--transitions",
    "200",
]
QUICK = ["--chunk", "4", "--repeats", "2", "--observations", "3", "--actions", "2"]


def test_the_first_call_is_not_counted():
    pauses = iter([0.2, 0.0, 0.0, 0.0])
    timing = timed(lambda: time.sleep(next(pauses)), 3)
    assert timing.low <= timing.median <= timing.high < 0.1


def test_work_is_counted_for_one_update_of_all_members():
    agent = get_agent("bc")
    config = configure(agent, {"width": 32, "depth": 2, "batch_size": 64})
    sizes = Sizes(members=1, transitions=100, spec=Spec(8, 4), chunk=3, repeats=2)
    rows = made_up(sizes)
    one, three = (time_update(agent, config, rows, sizes._replace(members=m)) for m in (1, 3))
    products = 2 * 64 * (8 * 32 + 32 * 32 + 32 * 4)  # of a forward pass; backward doubles most of them
    assert 2.5 * products < one["flops"] < 4.5 * products
    assert three["flops"] == pytest.approx(3 * one["flops"], rel=0.05)
    assert one["spread"][0] <= one["microseconds_per_update"] <= one["spread"][1]
    assert one["share_of_flops"] == pytest.approx(
        one["flops"] / (1e-6 * one["microseconds_per_update"]) / limits().flops
    )


def test_acting_counts_batches_a_second():
    agent = get_agent("bc")
    row = time_acting(agent, configure(agent, {"width": 8}), Acting(), Spec(3, 2), batch=10, calls=5)
    assert row["spread"][0] <= row["batches_per_second"] <= row["spread"][1]
    assert row["batch"] == 10


def test_a_row_an_agent_and_size_with_its_command(capsys, tmp_path):
    out = tmp_path / "rows.json"
    words = ["bench", "train", "--agent", "bc,rebrac", "--members", "1,2", *SMALL, *QUICK, "--out", str(out)]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["agent"], row["members"]) for row in rows] == [
        (a, m) for a in ("bc", "rebrac") for m in (1, 2)
    ]
    assert all(row["width"] == 8 and row["batch"] == 16 and row["versions"] for row in rows)
    assert json.loads(out.read_text()) == rows


def test_the_table_is_readable_and_bad_words_are_refused(capsys):
    assert main(["bench", "act", "--agent", "bc", "--batch", "20"]) == 0
    assert "batches of 20 actions a second" in capsys.readouterr().out
    for words in (["--members", "x"], ["--chunk", "0"], ["--agent", "bq"], ["--sampling-steps", "3"]):
        assert main(["bench", "act", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
