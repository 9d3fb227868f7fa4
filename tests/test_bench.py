"""`bfq bench` measures what it says."""

import argparse
import importlib
import json
import time

import jax
import numpy as np
import pytest

from bfq.agents import Acting, Spec
from bfq.agents.registry import configure, get_agent
from bfq.bench.acting import time_acting
from bfq.bench.limits import limits
from bfq.bench.timing import timed
from bfq.bench.updates import Sizes, made_up, time_update
from bfq.bench.watching import watch
from bfq.cli.bench import MEASURES
from bfq.cli.bench_rows import measure, table
from bfq.cli.main import main
from bfq.reports.growth_figure import growth_figure, growth_panels

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


def test_slow_work_is_timed_less_often():
    assert timed(lambda: time.sleep(0.02), 5, enough=0.03).repeats == 2
    assert timed(lambda: time.sleep(0.02), 5, enough=0.0001).repeats == 1
    assert timed(lambda: None, 5, enough=10.0).repeats == 5


def test_work_is_counted_for_one_update_of_all_members():
    agent = get_agent("bc")
    config = configure(agent, {"width": 32, "depth": 2, "batch_size": 64})
    sizes = Sizes(members=1, transitions=100, spec=Spec(8, 4), chunk=3, repeats=2)
    rows = made_up(sizes)
    one, three = (time_update(agent, config, rows, sizes._replace(members=m)) for m in (1, 3))
    first, later = 2 * 64 * 8 * 32, 2 * 64 * (32 * 32 + 32 * 4)  # operations of a forward pass
    assert one["flops"] == 2 * first + 3 * later  # the data needs no gradient
    parameters = 8 * 32 + 32 + 32 * 32 + 32 + 32 * 4 + 4
    state = jax.tree.leaves(
        jax.eval_shape(lambda: agent.init(jax.random.key(0), Spec(8, 4), config))
    )
    assert sum(leaf.size for leaf in state) >= 3 * parameters  # with Adam's two moments
    batch = 64 * (8 + 4 + 1 + 8 + 1)
    assert one["bytes"] == 4 * (2 * sum(leaf.size for leaf in state) + batch)
    assert (three["flops"], three["bytes"]) == (3 * one["flops"], 3 * one["bytes"])
    assert one["spread"][0] <= one["microseconds_per_update"] <= one["spread"][1]
    assert one["share_of_flops"] == pytest.approx(
        one["flops"] / (1e-6 * one["microseconds_per_update"]) / limits().flops
    )


def test_acting_counts_batches_a_second():
    agent = get_agent("bc")
    row = time_acting(
        agent, configure(agent, {"width": 8}), Acting(), Spec(3, 2), batch=10, calls=5
    )
    assert row["width"] == 8
    assert row["spread"][0] <= row["batches_per_second"] <= row["spread"][1]
    assert (row["batch"], row["calls"]) == (10, 5)


def test_a_slow_policy_is_timed_over_fewer_calls(monkeypatch):
    agent, acting = get_agent("bc"), importlib.import_module("bfq.bench.acting")
    monkeypatch.setattr(acting, "LONG", 1e-9)
    row = time_acting(
        agent, configure(agent, {"width": 8}), Acting(), Spec(3, 2), batch=10, calls=5
    )
    assert row["calls"] == 1


def test_a_row_an_agent_and_size_with_its_command(capsys, tmp_path):
    out = tmp_path / "rows.json"
    words = [
        "bench",
        "train",
        "--agent",
        "bc,rebrac",
        "--members",
        "1,2",
        *SMALL,
        *QUICK,
        "--out",
        str(out),
    ]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["agent"], row["members"]) for row in rows] == [
        (a, m) for a in ("bc", "rebrac") for m in (1, 2)
    ]
    assert all(row["width"] == 8 and row["batch"] == 16 and row["versions"] for row in rows)
    assert json.loads(out.read_text()) == rows


def test_a_file_is_replaced_when_all_rows_are_there(capsys, tmp_path):
    out, part = tmp_path / "rows.json", tmp_path / "rows.json.part"
    out.write_text("before")
    args = argparse.Namespace(out=out, json=True, words=["bench", "train"])

    def measured():
        yield {"microseconds_per_update": 1.0}
        assert out.read_text() == "before"
        assert [row["microseconds_per_update"] for row in json.loads(part.read_text())] == [1.0]
        yield {"microseconds_per_update": 2.0}

    assert measure(args, MEASURES["train"], measured()) == 0
    rows = json.loads(out.read_text())
    assert [row["command"] for row in rows] == ["bfq bench train"] * 2
    assert not part.exists()


TRAINED = {
    "device": "this", "agent": "td3_bc", "members": 1, "precision": "float32", "batch": 256, "width": 256,
    "depth": 2, "flow_steps": None, "transitions": 1_000_000, "microseconds_per_update": 12345.6,
    "compile_seconds": 123.4, "share_of_flops": 0.123, "share_of_bytes": 0.123,
}  # fmt: skip


def test_numbers_are_not_cut_where_the_table_is_wider_than_the_terminal():
    columns = tuple(f"number_{k}" for k in range(6))
    shown = table(columns, [{"device": "this", **dict.fromkeys(columns, 12345.6)}], 30)
    assert shown.count("12,345.6") == 6


def test_what_all_measurements_share_is_told_once():
    columns = MEASURES["train"].columns
    title, heading, *rows = table(columns, [TRAINED, {**TRAINED, "width": 512}], 80).splitlines()
    assert title == "this, 1 member, float32, batch 256, depth 2, 1,000,000 transitions"
    assert (
        " ".join(heading.split())
        == "agent width µs an update compile seconds share of flops share of bytes"
    )
    assert [row.split()[:2] for row in rows] == [["td3_bc", "256"], ["td3_bc", "512"]]


def test_a_table_in_which_all_differs_fits_80_columns_with_whole_words():
    more = {
        "members": 42,
        "batch": 1024,
        "width": 1024,
        "depth": 4,
        "flow_steps": 10,
        "transitions": 200,
    }
    shown = table(MEASURES["train"].columns, [TRAINED, {**TRAINED, **more}], 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(
        f" {word} " in shown.replace("\n", " ")
        for word in ("members", "transitions", "seconds", "flops")
    )


def test_one_is_not_several():
    assert " 1 member " in MEASURES["train"].line(TRAINED)
    assert " 6 members " in MEASURES["train"].line({**TRAINED, "members": 6})
    assert "batches of 1 action " in MEASURES["act"].line(
        {"agent": "bc", "batch": 1, "batches_per_second": 1.0}
    )


def test_growth_is_drawn_along_what_varies(capsys, tmp_path):
    picture = tmp_path / "new" / "growth.png"
    words = ["bench", "train", "--agent", "td3_bc,bc", "--flow-steps", "2,3", *SMALL, *QUICK]
    assert main([*words, "--figure", str(picture), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found = [(row["agent"], row["flow_steps"]) for row in rows]
    assert found == [
        ("td3_bc", None),
        ("bc", 2),
        ("bc", 3),
    ]  # one without inner steps is measured once
    (steps,) = growth_panels(rows)
    assert [line.x for line in steps.lines] == [(), (2, 3)]
    assert picture.read_bytes() == growth_figure(rows)


REFUSED = {
    "train --members 1,2 --figure new/growth.pdf": "ends in .png",
    "train --figure new/growth.png": "several values",
    "train --members 2,2 --figure new/growth.png": "several values",
    "train --flow-steps 2,5 --figure new/growth.png": "several values",  # bfq has none
    "train --flow-steps 2,5": "bfq trains without inner steps",
    "train --flow-steps 5 --agent td3_bc,bfq": "td3_bc,bfq trains without inner steps",
    "train --set eta=0.1,0.2": "one value of eta",
    "train --members 1,2 --figure /proc/none/growth.png": "cannot write",
    "train --flow-steps 0": "--flow-steps must be from 1 to",
    "train --flow-steps few": "not a list of whole numbers",
    "train --agent bc,dql --flow-steps 1": "at least 2",  # before bc is measured
    "act --flow-steps 2": "unrecognized",
    "act --figure growth.png": "unrecognized",
    "evaluate --episodes 0": "--episodes must be from 1 to",
    "evaluate --agent bc --candidates 2": "cannot choose",
    "evaluate --task nowhere": "unknown task",
    "evaluate --task mine.npz": "no simulator",
    "evaluate --set etta=1": "unknown hyperparameter",
    "": "required",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_measured_is_one_sentence_and_writes_nothing(
    words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words.split()]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert REFUSED[words] in told.err
    assert told.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_evaluation_is_timed_where_scores_are_made(capsys):
    words = ["--agent", "td3_bc", "--task", "pendulum-mixed", "--seeds", "2", "--episodes", "3"]
    small = ["--set", "width=8", "--set", "critic_width=8"]
    assert main(["bench", "evaluate", *words, *small, "--repeats", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["simulator_steps"] == 2 * 3 * 200  # Pendulum never ends early
    assert row["spread"][0] <= row["seconds"] <= row["spread"][1]
    assert row["simulator_steps_per_second"] == pytest.approx(1200 / row["seconds"])
    shares = [row[f"{part}_share"] for part in ("policy", "simulator", "opening")]
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1.0)
    assert main(["bench", "evaluate", *words, *small, "--steps", "5"]) == 0
    assert "2 × 3 episodes" in capsys.readouterr().out


def test_time_is_told_apart_and_those_that_stand_still_are_not_counted():
    lengths = np.array([[4, 2], [1, 4]])

    def rollout(act):
        time.sleep(0.04)
        seen = np.zeros((2, 2, 3))
        for step in range(4):
            act(seen, step)
            time.sleep(0.01)
            seen = seen + (step < lengths)[..., None]

    def slow(observations, step):
        time.sleep(0.02)

    whole, cut = watch(rollout, slow), watch(rollout, slow, limit=2)
    assert whole.steps == 4 + 2 + 1 + 4
    assert whole.opening >= 0.04
    assert whole.policy >= 4 * 0.02
    assert whole.stepping >= 4 * 0.01
    assert whole.opening + whole.policy + whole.stepping == pytest.approx(whole.seconds)
    assert cut.steps == 4 + 3
    assert cut.policy < whole.policy


def test_the_table_is_readable_and_bad_words_are_refused(capsys):
    assert main(["bench", "act", "--agent", "bc", "--batch", "20"]) == 0
    assert "batches of 20 actions a second" in capsys.readouterr().out
    for words in (
        ["--members", "x"],
        ["--chunk", "0"],
        ["--agent", "bq"],
        ["--sampling-steps", "3"],
    ):
        assert main(["bench", "act", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
