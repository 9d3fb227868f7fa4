"""`bfq data`: make, import, inspect, reroll, download."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from bfq.cli.main import main
from bfq.data.readers.d4rl import read_d4rl
from bfq.errors import BadInput
from bfq.tasks.locomotion import policy_file
from bfq.tasks.sources import load_dataset, stored_datasets

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bfq(capsys):
    """Run a command that succeeds, and return what it prints."""

    def run(command: str) -> str:
        assert main(command.split()) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def facts(bfq):
    """Run a `bfq data` command and return its JSON."""
    return lambda command: json.loads(bfq(f"data {command} --json"))


def test_make_keeps_the_data_and_writes_d4rls_layout(tmp_path, capsys, bfq, facts):
    made = facts("make local/hopper-random --size 300 --out hopper.hdf5")
    assert made["transitions"] == 300
    with h5py.File(tmp_path / "hopper.hdf5") as file:
        assert {"observations", "timeouts", "infos"} <= set(file)
    assert 0 < len(read_d4rl(tmp_path / "hopper.hdf5")) <= 299
    tasks = {card["name"]: card for card in json.loads(bfq("tasks --json"))}
    assert tasks["local/hopper-random"]["data_here"] == "yes"
    assert tasks["halfcheetah-medium-v2"]["data_here"] == "needs a file"
    assert main(["data", "make", "local/hopper-random"]) == 2
    assert "add --replace" in capsys.readouterr().err
    assert facts("make local/hopper-random --size 100 --replace")["transitions"] == 100


def test_a_log_of_ones_own_goes_in_and_trains(tmp_path, bfq, facts):
    rng = np.random.default_rng(0)
    rows = [
        f"{run},{rng.normal():.4f},{rng.normal():.4f},{rng.uniform(-1, 1):.4f},{rng.normal():.4f}"
        for run in range(5)
        for _ in range(20)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["run,obs_0,obs_1,act_0,reward", *rows]))
    found = facts("import log.csv --as mine --map observations=obs_,actions=act_,episode_ids=run")
    assert (found["transitions"], found["episodes"]) == (95, 5)  # the last row has no successor
    assert "mine" in stored_datasets()
    assert "mine" in bfq("tasks --json")
    train = "train --task mine --agent bc --steps 20 --seeds 1 --set width=8 --json"
    assert json.loads(bfq(train))["data"]["name"] == "mine"


def test_several_files_become_one_dataset(tmp_path, facts):
    same = {"actions": np.full((4, 1), 0.5), "rewards": np.arange(4.0), "timeouts": [0, 0, 0, 1],
            "next_observations": np.ones((4, 2))}  # fmt: skip
    for k in range(3):
        np.savez(tmp_path / f"{k}.npz", observations=np.full((4, 2), k + 0.5), **same)
    bounds = "--action-low -1 --action-high 1"
    assert facts(f"import 0.npz 1.npz 2.npz --as all {bounds}")["transitions"] == 12
    np.testing.assert_array_equal(load_dataset("all").observations[::4, 0], [0.5, 1.5, 2.5])


@pytest.mark.parametrize(("low", "kept_low"), [("-40,-2e1", [-40, -20]), ("-4.5e1", [-45, -45])])
def test_a_range_may_have_a_number_for_each_of_an_action(tmp_path, capsys, facts, low, kept_low):
    columns = {"observations": np.eye(4), "actions": np.outer([1, -1, 0.5, 0], [40, 20])}
    np.savez(tmp_path / "arm.npz", **columns, rewards=range(4), timeouts=[0, 0, 0, 1])
    command = f"import arm.npz --as arm --action-low {low}"
    facts(f"{command} --action-high 40,20")
    data = load_dataset("arm")
    assert (data.action_low.tolist(), data.action_high.tolist()) == (kept_low, [40, 20])
    for wrong, words in (
        ("40,40,20", "action_high has 3 numbers, but an action has 2 numbers: give one number"),
        ("40,", "'40,' is not a list of numbers"),
    ):
        assert main(f"data {command} --replace --action-high {wrong}".split()) == 2
        assert words in capsys.readouterr().err


def test_a_file_that_train_cannot_read_by_itself_is_sent_to_import(tmp_path, capsys):
    (tmp_path / "arm.csv").write_text("q,F,gain\n1,2,3\n")
    assert main(["train", "--task", "arm.csv"]) == 2
    assert "with bfq data import FILE --as NAME --map observations=" in capsys.readouterr().err


def test_inspect_shows_numbers_and_writes_a_page(tmp_path, bfq, facts):
    facts("make local/hopper-random --size 200")
    shown = bfq("data inspect local/hopper-random --replay --out page")
    assert "transitions" in shown
    assert "stored states stepped in Hopper-v4" in shown
    assert "local/hopper-random" in (tmp_path / "page" / "data.html").read_text()
    found = json.loads((tmp_path / "page" / "data.json").read_text())
    assert found["replay"]["relative"]["q95"] < 1e-4  # its own physics; solvers start elsewhere


def test_reroll_rolls_out_weight_files_and_similar_data_is_named(tmp_path, facts):
    for name in ("hopper-mine", "hopper-medium"):
        (tmp_path / f"{name}.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    found = facts("reroll hopper-mine.npz --size 150")
    assert found["name"] == "rerolled/hopper-mine"
    assert found["transitions"] == 150
    old = facts("reroll hopper-mine.npz --size 150 --old-masses")
    assert old["name"] == "rerolled/hopper-mine-old-masses"
    assert old["sha256"] != found["sha256"]
    similar = "not the same data: local/hopper-medium, which `bfq data make local/"
    with pytest.raises(BadInput, match=similar):
        load_dataset("hopper-medium-v2")
    facts("reroll hopper-medium.npz --size 100")
    similar = "rerolled/hopper-medium, which is here; local/hopper-medium, which"
    with pytest.raises(BadInput, match=similar):
        load_dataset("hopper-medium-v2")


def test_old_masses_are_hinted_at_where_they_matter(tmp_path, bfq, facts):
    for name in ("hopper-medium", "hopper-mine"):
        (tmp_path / f"{name}.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    hint = "hint: D4RL's Hopper was lighter"
    assert hint in bfq("data reroll hopper-medium.npz --size 100")
    assert hint not in bfq("data reroll hopper-medium.npz --size 100 --old-masses")
    assert hint not in bfq("data reroll hopper-mine.npz --size 100")
    (remark,) = facts("inspect rerolled/hopper-medium")["remarks"]
    assert "--old-masses" in remark
    assert facts("inspect rerolled/hopper-medium-old-masses")["remarks"] == []


@pytest.mark.skipif(not SHARED.exists(), reason="the genuine files are not here")
def test_genuine_files_go_in_with_one_command(facts):
    hopper = SHARED / "d4rl_files" / "hopper_medium-v2.hdf5"
    assert facts(f"import {hopper} --as hopper-medium-v2")["transitions"] == 910
    assert facts(f"reroll {hopper} --size 100")["name"] == "rerolled/hopper-medium"
    log = SHARED / "logged" / "pendulum_replay_v1.1.0.npz"
    found = facts(f"import {log} --as pendulum-log")
    assert (found["transitions"], found["episodes"]) == (99500, 500)


def test_a_log_cannot_pass_for_a_published_task(tmp_path, capsys):
    columns = {"observations": np.ones((4, 2)), "actions": np.zeros((4, 1)), "rewards": range(4)}
    np.savez(tmp_path / "mine.npz", **columns, timeouts=[0, 0, 0, 1])
    for name, words in (
        ("hopper-medium-v2", "published files"),
        ("local/hopper-medium", "reserved"),
    ):
        assert main(["data", "import", "mine.npz", "--as", name]) == 2
        assert words in capsys.readouterr().err
    assert stored_datasets() == []


BAD = {
    "data": "required",
    "data mak": "invalid choice",
    "data make local/hoper-medium": "did you mean",
    "data make halfcheetah-medium-v2": "unknown dataset to generate",
    "data make local/hopper-random --size 0": "at least 1",
    "data make local/hopper-random --seed -1": "--seed",
    "data make local/hopper-random --processes 0": "at least 1",
    "data make local/hopper-random --out x.csv": "HDF5",
    "data make local/hopper-random --out nowhere/x.hdf5": "no folder",
    "data import none.npz --as x": "no file",
    "data import log.txt --as x": "ends in .txt",
    "data import none.npz": "--as",
    "data import none.npz --as ../x": "cannot name a dataset",
    "data import none.npz --as <script>": "cannot name a dataset",
    "data import none.npz --as x --map observations": "--map",
    "data import none.npz --as x --map observations=a,observations=b": "twice",
    "data inspect hopper-medium-v2": "bfq data import FILE",
    "data inspect nothing": "unknown task or file",
    "data inspect pendulum-mixed --replay": "no stored simulator states",
    "data reroll none.npz": "no file",
    "data reroll log.txt --robot hopper": "log.txt",
    "data download local/hopper-medium": "local/hopper-medium",
    "train --task checkerboard": "bfq toy",
    "train --task hopper-medium-v2 --steps 5": "is not here",
}


@pytest.mark.parametrize("words", sorted(BAD))
def test_bad_input_is_one_sentence_and_nothing_is_kept(words, tmp_path, capsys):
    (tmp_path / "log.txt").write_text("hello")
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert BAD[words] in shown.err
    assert shown.err.startswith("bfq: ")
    assert shown.err.count("\n") == 1
    assert stored_datasets() == []
    assert {path.name for path in tmp_path.iterdir()} <= {"log.txt", "home"}
