"""`bfq data`: make, import, inspect, reroll, download."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from bfq.cli.main import main
from bfq.data.readers import d4rl
from bfq.errors import BadInput
from bfq.tasks.locomotion import policy_file
from bfq.tasks.sources import load_dataset, stored_datasets

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def told(capsys, *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_make_keeps_the_data_and_writes_d4rls_layout(tmp_path, capsys):
    made = told(
        capsys, "data", "make", "local/hopper-random", "--size", "300", "--out", "hopper.hdf5"
    )
    assert made["transitions"] == 300
    with h5py.File(tmp_path / "hopper.hdf5") as file:
        assert {"observations", "timeouts", "infos"} <= set(file)
    assert 0 < len(d4rl.read_d4rl(tmp_path / "hopper.hdf5")) <= 299
    tasks = {card["name"]: card for card in json.loads(_out(capsys, "tasks", "--json"))}
    assert tasks["local/hopper-random"]["data_here"] == "yes"
    assert tasks["halfcheetah-medium-v2"]["data_here"] == "needs a file"
    assert main(["data", "make", "local/hopper-random"]) == 2
    assert "add --replace" in capsys.readouterr().err
    assert (
        told(capsys, "data", "make", "local/hopper-random", "--size", "100", "--replace")[
            "transitions"
        ]
        == 100
    )


def _out(capsys, *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_a_log_of_ones_own_goes_in_and_trains(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [
        f"{run},{rng.normal():.4f},{rng.normal():.4f},{rng.uniform(-1, 1):.4f},{rng.normal():.4f}"
        for run in range(5)
        for _ in range(20)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["run,obs_0,obs_1,act_0,reward", *rows]))
    words = (
        "data",
        "import",
        "log.csv",
        "--as",
        "mine",
        "--map",
        "observations=obs_,actions=act_,episode_ids=run",
    )
    facts = told(capsys, *words)
    assert (facts["transitions"], facts["episodes"]) == (
        95,
        5,
    )  # the last row of a run has no successor
    assert "mine" in stored_datasets()
    assert "mine" in _out(capsys, "tasks", "--json")
    train = [
        "train",
        "--task",
        "mine",
        "--agent",
        "bc",
        "--steps",
        "20",
        "--seeds",
        "1",
        "--set",
        "width=8",
    ]
    assert main([*train, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["name"] == "mine"


def test_several_files_become_one_dataset(tmp_path, capsys):
    for k in range(3):
        columns = {
            "observations": np.full((4, 2), k + 0.5),
            "actions": np.full((4, 1), 0.5),
            "rewards": np.arange(4.0),
        }
        np.savez(
            tmp_path / f"{k}.npz",
            **columns,
            timeouts=[0, 0, 0, 1],
            next_observations=np.ones((4, 2)),
        )
    bounds = ("--action-low", "-1", "--action-high", "1")
    assert (
        told(capsys, "data", "import", "0.npz", "1.npz", "2.npz", "--as", "all", *bounds)[
            "transitions"
        ]
        == 12
    )
    np.testing.assert_array_equal(load_dataset("all").observations[::4, 0], [0.5, 1.5, 2.5])


@pytest.mark.parametrize(("low", "kept_low"), [("-40,-2e1", [-40, -20]), ("-4.5e1", [-45, -45])])
def test_a_range_may_have_a_number_for_each_of_an_action(tmp_path, capsys, low, kept_low):
    columns = {
        "observations": np.eye(4),
        "actions": np.outer([1, -1, 0.5, 0], [40, 20]),
        "rewards": range(4),
    }
    np.savez(tmp_path / "arm.npz", **columns, timeouts=[0, 0, 0, 1])
    words = ("data", "import", "arm.npz", "--as", "arm", "--action-low", low)
    told(capsys, *words, "--action-high", "40,20")
    data = load_dataset("arm")
    assert (data.action_low.tolist(), data.action_high.tolist()) == (kept_low, [40, 20])
    for wrong, sentence in (
        (
            "40,40,20",
            "action_high has 3 numbers, but an action has 2 numbers: give one number for all",
        ),
        ("40,", "'40,' is not a list of numbers"),
    ):
        assert main([*words, "--replace", "--action-high", wrong]) == 2
        assert sentence in capsys.readouterr().err


def test_a_file_that_train_cannot_read_by_itself_is_sent_to_import(tmp_path, capsys):
    (tmp_path / "arm.csv").write_text("q,F,gain\n1,2,3\n")
    assert main(["train", "--task", "arm.csv"]) == 2
    assert "with bfq data import FILE --as NAME --map observations=" in capsys.readouterr().err


def test_inspect_shows_numbers_and_writes_a_page(tmp_path, capsys):
    assert main(["data", "make", "local/hopper-random", "--size", "200"]) == 0
    capsys.readouterr()
    shown = _out(capsys, "data", "inspect", "local/hopper-random", "--replay", "--out", "page")
    assert "transitions" in shown
    assert "stored states stepped in Hopper-v4" in shown
    page = (tmp_path / "page" / "data.html").read_text()
    assert "local/hopper-random" in page
    facts = json.loads((tmp_path / "page" / "data.json").read_text())
    assert facts["replay"]["relative"]["q95"] < 1e-4  # its own physics; solvers start elsewhere


def test_reroll_rolls_out_weight_files(tmp_path, capsys):
    (tmp_path / "hopper-mine.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    facts = told(capsys, "data", "reroll", "hopper-mine.npz", "--size", "150")
    assert facts["name"] == "rerolled/hopper-mine"
    assert facts["transitions"] == 150
    old = told(capsys, "data", "reroll", "hopper-mine.npz", "--size", "150", "--old-masses")
    assert old["name"] == "rerolled/hopper-mine-old-masses"
    assert old["sha256"] != facts["sha256"]


def test_what_is_like_data_that_is_not_here_is_named(tmp_path, capsys):
    (tmp_path / "hopper-medium.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    with pytest.raises(
        BadInput, match="not the same data: local/hopper-medium, which `bfq data make local/"
    ):
        load_dataset("hopper-medium-v2")
    told(capsys, "data", "reroll", "hopper-medium.npz", "--size", "100")
    with pytest.raises(
        BadInput, match="rerolled/hopper-medium, which is here; local/hopper-medium, which"
    ):
        load_dataset("hopper-medium-v2")


def test_old_masses_are_hinted_at_where_they_matter(tmp_path, capsys):
    for name in ("hopper-medium", "hopper-mine"):
        (tmp_path / f"{name}.npz").write_bytes(policy_file("hopper-medium").read_bytes())
    hinted = "hint: D4RL's Hopper was lighter"
    assert hinted in _out(capsys, "data", "reroll", "hopper-medium.npz", "--size", "100")
    assert hinted not in _out(
        capsys, "data", "reroll", "hopper-medium.npz", "--size", "100", "--old-masses"
    )
    assert hinted not in _out(capsys, "data", "reroll", "hopper-mine.npz", "--size", "100")
    (remark,) = told(capsys, "data", "inspect", "rerolled/hopper-medium")["remarks"]
    assert "--old-masses" in remark
    assert told(capsys, "data", "inspect", "rerolled/hopper-medium-old-masses")["remarks"] == []


@pytest.mark.skipif(not SHARED.exists(), reason="the genuine files are not here")
def test_genuine_files_go_in_with_one_command(capsys):
    files = SHARED / "d4rl_files"
    facts = told(
        capsys, "data", "import", str(files / "hopper_medium-v2.hdf5"), "--as", "hopper-medium-v2"
    )
    assert facts["transitions"] == 910
    rolled = told(capsys, "data", "reroll", str(files / "hopper_medium-v2.hdf5"), "--size", "100")
    assert rolled["name"] == "rerolled/hopper-medium"
    log = SHARED / "logged" / "pendulum_replay_v1.1.0.npz"
    facts = told(capsys, "data", "import", str(log), "--as", "pendulum-log")
    assert (facts["transitions"], facts["episodes"]) == (99500, 500)


def test_a_log_cannot_pass_for_a_published_task_of_other_sizes(tmp_path, capsys):
    columns = {
        "observations": np.ones((4, 2)),
        "actions": np.zeros((4, 1)),
        "rewards": np.arange(4.0),
    }
    np.savez(tmp_path / "mine.npz", **columns, timeouts=[0, 0, 0, 1])
    assert main(["data", "import", "mine.npz", "--as", "hopper-medium-v2"]) == 2
    assert "published files" in capsys.readouterr().err
    assert main(["data", "import", "mine.npz", "--as", "local/hopper-medium"]) == 2
    assert "reserved" in capsys.readouterr().err
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
