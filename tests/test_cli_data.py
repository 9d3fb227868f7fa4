"""`bfq data`: make, import, inspect, reroll, download."""

import json

import h5py
import numpy as np
import pytest

from bfq.data.readers.d4rl import read_d4rl
from bfq.errors import BadInput
from bfq.tasks.locomotion import policy_file
from bfq.tasks.sources import load_dataset, stored_datasets


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def facts(command):
    """Run a `bfq data` command that succeeds, and return its JSON."""

    def run(words):
        code, out, _ = command("data", words, "--json")
        assert code == 0
        return json.loads(out)

    return run


def test_make_keeps_the_data_and_writes_d4rls_layout(tmp_path, command, facts):
    made = facts("make local/hopper-random --size 300 --out hopper.hdf5")
    assert made["transitions"] == len(load_dataset("local/hopper-random")) == 300
    assert load_dataset("local/hopper-random").sha256 == made["sha256"]
    with h5py.File(tmp_path / "hopper.hdf5") as file:
        assert {"observations", "timeouts", "infos"} <= set(file)
    assert 0 < len(read_d4rl(tmp_path / "hopper.hdf5")) <= 299
    tasks = {card["name"]: card for card in json.loads(command("tasks --json")[1])}
    assert tasks["local/hopper-random"]["data_here"] == "yes"
    assert tasks["halfcheetah-medium-v2"]["data_here"] == "needs a file"
    code, _, err = command("data make local/hopper-random")
    assert code == 2
    assert all(words in err for words in ("here already, with 300 transitions", "--replace"))
    assert facts("make local/hopper-random --size 100 --replace")["transitions"] == 100


def test_a_log_of_ones_own_goes_in_and_trains(tmp_path, command, facts):
    rng = np.random.default_rng(0)
    numbers = np.c_[np.repeat(np.arange(5), 20), rng.uniform(-1, 1, (100, 4))]
    head = "run,obs_0,obs_1,act_0,reward"
    np.savetxt(tmp_path / "log.csv", numbers, "%.4f", ",", header=head, comments="")
    words = "observations=obs_,actions=act_,episode_ids=run"
    found = facts(f"import log.csv --as mine --columns {words}")
    assert (found["transitions"], found["episodes"]) == (95, 5)  # the last row has no successor
    assert "mine" in stored_datasets()
    assert "mine" in command("tasks --json")[1]
    code, out, _ = command("train --task mine --agent bc --steps 20 --seeds 1 --set width=8 --json")
    assert (code, json.loads(out)["data"]["name"]) == (0, "mine")


def test_several_files_become_one_dataset(tmp_path, facts):
    same = {"actions": np.full((4, 1), 0.5), "rewards": np.arange(4.0), "timeouts": [0, 0, 0, 1],
            "next_observations": np.ones((4, 2))}  # fmt: skip
    for k in range(3):
        np.savez(tmp_path / f"{k}.npz", observations=np.full((4, 2), k + 0.5), **same)
    bounds = "--action-low -1 --action-high 1"
    assert facts(f"import 0.npz 1.npz 2.npz --as all {bounds}")["transitions"] == 12
    np.testing.assert_array_equal(load_dataset("all").observations[::4, 0], [0.5, 1.5, 2.5])


@pytest.mark.parametrize(("low", "kept_low"), [("-40,-2e1", [-40, -20]), ("-4.5e1", [-45, -45])])
def test_a_range_may_have_a_number_for_each_of_an_action(tmp_path, command, facts, low, kept_low):
    columns = {"observations": np.eye(4), "actions": np.outer([1, -1, 0.5, 0], [40, 20])}
    np.savez(tmp_path / "arm.npz", **columns, rewards=range(4), timeouts=[0, 0, 0, 1])
    words = f"import arm.npz --as arm --action-low {low}"
    facts(f"{words} --action-high 40,20")
    data = load_dataset("arm")
    assert (data.action_low.tolist(), data.action_high.tolist()) == (kept_low, [40, 20])
    for wrong, said in (("40,40,20", "an action has 2 numbers"), ("40,", "'40,' is not a list")):
        code, _, err = command(f"data {words} --replace --action-high {wrong}")
        assert (code, said in err) == (2, True)


def test_inspect_shows_numbers_and_writes_a_page(tmp_path, command, facts):
    facts("make local/hopper-random --size 200")
    code, shown, _ = command("data inspect local/hopper-random --replay --out page")
    assert (code, "transitions" in shown, "Hopper-v4" in shown) == (0, True, True)
    assert "local/hopper-random" in (tmp_path / "page" / "data.html").read_text()
    found = json.loads((tmp_path / "page" / "data.json").read_text())
    assert found["replay"]["relative"]["q95"] < 1e-4  # its own physics; solvers start elsewhere


def test_reroll_rolls_out_weight_files_and_similar_data_is_named(tmp_path, facts):
    for name in ("hopper-mine", "hopper-medium"):
        (tmp_path / f"{name}.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    found = facts("reroll hopper-mine.npz --size 150")
    assert (found["name"], found["transitions"]) == ("rerolled/hopper-mine", 150)
    old = facts("reroll hopper-mine.npz --size 150 --old-masses")
    assert old["name"] == "rerolled/hopper-mine-old-masses"
    assert old["sha256"] != found["sha256"]
    with pytest.raises(BadInput, match="local/hopper-medium, which"):
        load_dataset("hopper-medium-v2")
    facts("reroll hopper-medium.npz --size 100")
    with pytest.raises(BadInput, match="rerolled/hopper-medium, which is here"):
        load_dataset("hopper-medium-v2")
    (remark,) = facts("inspect rerolled/hopper-medium")["remarks"]
    assert "--old-masses" in remark


BAD = {
    "data": "required",
    "data mak": "invalid choice",
    "data make local/hoper-medium": "did you mean",
    "data make halfcheetah-medium-v2": "unknown dataset to generate",
    "data make local/hopper-random --size 0": "at least 1",
    "data make local/hopper-random --seed -1": "--seed",
    "data make local/hopper-random --out x.csv": "HDF5",
    "data make local/hopper-random --out nowhere/x.hdf5": "no folder",
    "data import none.npz --as x": "no file",
    "data import none.npz": "--as",
    "data import none.npz --as ../x": "cannot name a dataset",
    "data import none.npz --as x --columns observations": "--columns",
    "data import none.npz --as x --columns observations=a,observations=b": "twice",
    "data inspect hopper-medium-v2": "bfq data import FILE",
    "data inspect pendulum-mixed --replay": "no stored simulator states",
    "data reroll none.npz": "no file",
    "train --task checkerboard": "bfq toy",
    "train --task hopper-medium-v2 --steps 5": "is not here",
}


@pytest.mark.parametrize("words", sorted(BAD))
def test_bad_input_is_one_sentence_and_nothing_is_kept(words, tmp_path, command):
    (tmp_path / "log.txt").write_text("hello")
    code, out, err = command(words)
    assert (code, out, err[:5], err.count("\n")) == (2, "", "bfq: ", 1)
    assert BAD[words] in err
    assert stored_datasets() == []
    assert {path.name for path in tmp_path.iterdir()} <= {"log.txt", "home"}
