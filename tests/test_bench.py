"""`bfq bench`: timing, operation counts, the table and the command."""

import argparse
import json
import time

import jax
import numpy as np
import pytest

from bfq.agents.contract import Acting, Spec
from bfq.agents.registry import configure, get_agent
from bfq.bench.measure import Sizes, random_transitions, time_acting, time_rollout, time_update
from bfq.bench.timing import device_limits, timed
from bfq.cli.bench import BENCHMARKS, measure, measurement_table
from bfq.evaluation.rollout import EpisodeResults
from bfq.reports.sweep_figures import growth_figure, growth_panels

SMALL = "--set depth=1 --set critic_depth=1 --width 8 --batch 16 --transitions 200"
QUICK = "--chunk 4 --repeats 2 --observations 3 --actions 2"


def test_the_first_call_is_not_timed():
    pauses = iter([0.2, 0.0, 0.0, 0.0])
    timing = timed(lambda: time.sleep(next(pauses)), 3)
    assert timing.low <= timing.median <= timing.high < 0.1


def test_slow_work_is_repeated_less_often():
    for pause, enough, repeats in ((0.1, 0.15, 2), (0.02, 0.0001, 1), (0.0, 10.0, 5)):
        assert timed(lambda pause=pause: time.sleep(pause), 5, enough=enough).repeats == repeats


def test_operations_and_bytes_are_those_of_one_update_of_all_members():
    agent = get_agent("bc")
    config = configure(agent, {"width": 32, "depth": 2, "batch_size": 64})
    sizes = Sizes(members=1, transitions=100, spec=Spec(8, 4), chunk=3, repeats=2)
    rows = random_transitions(sizes)
    one, three = (time_update(agent, config, rows, sizes._replace(members=m)) for m in (1, 3))
    first, later = 2 * 64 * 8 * 32, 2 * 64 * (32 * 32 + 32 * 4)  # operations of a forward pass
    assert one["flops"] == 2 * first + 3 * later  # the data needs no gradient
    parameters = 8 * 32 + 32 + 32 * 32 + 32 + 32 * 4 + 4
    state = jax.eval_shape(lambda: agent.init(jax.random.key(0), Spec(8, 4), config))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(state))
    assert numbers >= 3 * parameters  # with Adam's two moments
    assert one["bytes"] == 4 * (2 * numbers + 64 * (8 + 4 + 1 + 8 + 1))
    assert (three["flops"], three["bytes"]) == (3 * one["flops"], 3 * one["bytes"])
    assert one["spread"][0] <= one["microseconds_per_update"] <= one["spread"][1]
    rate = one["flops"] / (1e-6 * one["microseconds_per_update"])
    assert one["share_of_flops"] == pytest.approx(rate / device_limits().flops)


def test_acting_counts_batches_per_second_and_times_a_slow_policy_less():
    agent = get_agent("bc")
    config = configure(agent, {"width": 8})
    row = time_acting(agent, config, Acting(), Spec(3, 2), batch=10, calls=5)
    assert (row["width"], row["batch"], row["calls"]) == (8, 10, 5)
    assert row["spread"][0] <= row["batches_per_second"] <= row["spread"][1]
    slow = time_acting(agent, config, Acting(), Spec(3, 2), batch=10, calls=5, longest=1e-9)
    assert slow["calls"] == 1


def test_the_time_of_a_rollout_is_split():
    def rollout(act):
        time.sleep(0.04)
        for step in range(4):
            act(None, step)
            time.sleep(0.01)
        return EpisodeResults(np.zeros(1), np.zeros(1), steps=11)

    timing = time_rollout(rollout, lambda observations, step: time.sleep(0.02))
    assert timing.steps == 11
    assert timing.opening >= 0.04
    assert timing.policy >= 4 * 0.02
    assert timing.stepping >= 4 * 0.01
    total = timing.opening + timing.policy + timing.stepping
    assert total == pytest.approx(timing.seconds)


def test_one_row_per_agent_and_size(command, tmp_path):
    out = tmp_path / "rows.json"
    words = f"bench train --agent bc,rebrac --members 1,2 {SMALL} {QUICK} --json --out"
    code, printed, _ = command(words, out)
    rows = json.loads(printed)
    assert code == 0
    sizes = [(row["agent"], row["members"]) for row in rows]
    assert sizes == [("bc", 1), ("bc", 2), ("rebrac", 1), ("rebrac", 2)]
    needed = "agent members batch width device microseconds_per_update versions command"
    assert all(set(needed.split()) <= row.keys() for row in rows)
    assert all(row["width"] == 8 and row["batch"] == 16 and row["versions"] for row in rows)
    assert json.loads(out.read_text()) == rows


def test_a_file_is_replaced_when_all_rows_are_measured(tmp_path):
    out, part = tmp_path / "rows.json", tmp_path / "rows.json.part"
    out.write_text("before")
    args = argparse.Namespace(out=out, json=True, what="train", words=["bench", "train"])

    def rows():
        yield {"microseconds_per_update": 1.0}
        assert out.read_text() == "before"
        assert [row["microseconds_per_update"] for row in json.loads(part.read_text())] == [1.0]
        yield {"microseconds_per_update": 2.0}

    assert measure(args, rows()) == 0
    assert [row["command"] for row in json.loads(out.read_text())] == ["bfq bench train"] * 2
    assert not part.exists()


ROW = {
    "device": "this", "agent": "td3_bc", "members": 1, "precision": "float32", "batch": 256, "width": 256,
    "depth": 2, "flow_steps": None, "transitions": 1_000_000, "microseconds_per_update": 12345.6,
    "compile_seconds": 123.4, "share_of_flops": 0.123, "share_of_bytes": 0.123,
}  # fmt: skip
OTHER = {"members": 42, "batch": 1024, "width": 1024, "depth": 4, "flow_steps": 10, "transitions": 200}  # fmt: skip
COLUMNS = BENCHMARKS["train"].columns


def test_a_table_with_all_columns_fits_80_characters():
    shown = measurement_table(COLUMNS, [ROW, {**ROW, **OTHER}], 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert {"members", "transitions", "seconds", "flops"} <= set(shown.split())


def test_growth_is_plotted_along_the_lists(command, tmp_path):
    picture = tmp_path / "new" / "growth.png"
    words = f"bench train --agent td3_bc,bc --flow-steps 2,3 {SMALL} {QUICK} --json --figure"
    code, printed, _ = command(words, picture)
    rows = json.loads(printed)
    assert code == 0
    # An agent without inner steps is measured once.
    assert [(r["agent"], r["flow_steps"]) for r in rows] == [("td3_bc", None), ("bc", 2), ("bc", 3)]
    (steps,) = growth_panels(rows)
    assert [line.x for line in steps.lines] == [(), (2, 3)]
    assert picture.read_bytes() == growth_figure(rows)


def test_an_evaluation_is_timed_with_its_shares(command):
    words = ("bench evaluate --agent td3_bc --task pendulum-mixed --seeds 2 --episodes 3 "
             "--set width=8 --set critic_width=8")  # fmt: skip
    code, out, _ = command(words, "--repeats 3 --json")
    (row,) = json.loads(out)
    assert code == 0
    assert row["simulator_steps"] == 2 * 3 * 200  # Pendulum never ends early
    assert row["spread"][0] <= row["seconds"] <= row["spread"][1]
    assert row["simulator_steps_per_second"] == pytest.approx(1200 / row["seconds"])
    shares = [row[f"{part}_share"] for part in ("policy", "simulator", "opening")]
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1.0)
    code, out, _ = command(words, "--steps 5")
    assert (code, "members 2, episodes 3" in out) == (0, True)


REFUSED = {
    "train --members 1,2 --figure new/growth.pdf": ".png",
    "train --figure new/growth.png": "--figure",
    "train --members 2,2 --figure new/growth.png": "--figure",
    "train --flow-steps 2,5 --figure new/growth.png": "--figure",  # bfq has none
    "train --flow-steps 2,5": "--flow-steps",
    "train --flow-steps 5 --agent td3_bc,bfq": "td3_bc,bfq",
    "train --set eta=0.1,0.2": "eta",
    "train --members 1,2 --figure /proc/none/growth.png": "/proc/none",
    "train --flow-steps 0": "--flow-steps must be from 1 to",
    "train --flow-steps few": "few",
    "train --agent bc,dql --flow-steps 1": "at least 2",  # before bc is measured
    "act --members x": "--members",
    "act --chunk 0": "--chunk",
    "act --agent bq": "bq",
    "act --sampling-steps 3": "sampling",
    "act --flow-steps 2": "--flow-steps",
    "act --figure growth.png": "--figure",
    "evaluate --episodes 0": "--episodes must be from 1 to",
    "evaluate --agent bc --candidates 2": "cannot select",
    "evaluate --task nowhere": "nowhere",
    "evaluate --task mine.npz": "simulator",
    "evaluate --set etta=1": "etta",
    "": "WHAT",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_options_are_one_sentence_and_write_nothing(words, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("bench", words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert REFUSED[words] in err
    assert not list(tmp_path.iterdir())
