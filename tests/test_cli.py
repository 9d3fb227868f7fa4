"""The command line as a user meets it."""

import errno
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bfq
from bfq.cli.main import VERBS, main
from bfq.data.readers import FORMATS
from bfq.options import OPTIONS, PROTOCOL
from bfq.tasks.catalog import TASKS
from bfq.tasks.pendulum import generate_pendulum

TINY = ["--set", "width=8", "--set", "critic_width=8", "--set", "depth=1", "--set", "critic_depth=1",
        "--set", "batch_size=16"]  # fmt: skip
SHORT = ["--steps", "40", "--seeds", "2", "--evaluations", "2", "--eval-episodes", "1"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    words = [
        "train",
        "--task",
        "pendulum-mixed",
        "--baseline",
        "bc",
        *SHORT,
        *TINY,
        "--set",
        "eta=0.5,1",
    ]
    assert main([*words, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "mine.npz"
    data = generate_pendulum(episodes=2)
    columns = {
        name: column
        for name, column in data.columns.items()
        if name not in ("masks", "episode_ends")
    }
    np.savez(
        path,
        **columns,
        timeouts=data.episode_ends,
        action_low=data.action_low,
        action_high=data.action_high,
    )
    return path


def test_train_shows_a_table_and_writes_a_report(finished, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # wide enough that no name is broken
    assert main(["report", str(finished)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "pendulum-mixed",
        "Behavior cloning",
        "Bootstrapped Flow Q-Learning",
        "eta=0.5",
        "eta=1",
    ):
        assert words in shown
    result = json.loads((finished / "result.json").read_text())
    assert [m["overrides"] for m in result["members"]] == [{"eta": 0.5}] * 2 + [{"eta": 1.0}] * 2
    assert result["command"].startswith(
        "bfq train --task pendulum-mixed --agent bfq --steps 40 --seeds 0,1 "
    )
    assert "--set eta=0.5,1.0" in result["command"]
    page = (finished / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert (finished / "learning_curves.png").read_bytes().startswith(b"\x89PNG")
    assert (finished / "baselines" / "bc" / "result.json").exists()


def test_the_command_in_the_result_trains_the_same_members(finished, tmp_path, capsys):
    words = json.loads((finished / "result.json").read_text())["command"].split()[1:]
    assert main([*words, "--evaluations", "2", "--out", str(tmp_path / "again"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["scores"] == json.loads((finished / "result.json").read_text())["scores"]


def test_a_stored_configuration_repeats_the_run(finished, tmp_path, capsys):
    config = str(finished / "config.json")
    assert main(["train", "--config", config, "--out", str(tmp_path / "again"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["scores"] == json.loads((finished / "result.json").read_text())["scores"]
    assert main(["train", "--config", config, "--steps", "3"]) == 2


def test_evaluate_scores_saved_members_again(finished, capsys, tmp_path):
    assert main(["evaluate", str(finished), "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert same["scores"] == json.loads((finished / "result.json").read_text())["scores"]
    words = ["--episodes", "2", "--candidates", "3", "--selection", "softmax", "--softmax-weight", "5",
             "--temperature", "0.5", "--policy", "online", "--out", str(tmp_path / "s.json")]  # fmt: skip
    assert main(["evaluate", str(finished), *words]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "softmax of 3 candidates, w = 5" in shown
    assert "mean ± std" in shown
    stored = json.loads((tmp_path / "s.json").read_text())
    assert stored["protocol"]["softmax_weight"] == 5
    assert stored["protocol"]["policy"] == "online"


def test_evaluate_films(finished, tmp_path):
    video = ["evaluate", str(finished), "--episodes", "1", "--video", str(tmp_path / "v.mp4")]
    told = subprocess.run(
        [sys.executable, "-m", "bfq.cli.main", *video], capture_output=True, check=True
    )
    assert b"XDG" not in told.stderr
    assert (tmp_path / "v.mp4").stat().st_size > 1000


def test_a_log_of_ones_own_trains_with_and_without_a_simulator(log, tmp_path, capsys):
    words = [
        "train",
        "--task",
        str(log),
        "--agent",
        "bc",
        "--steps",
        "20",
        "--seeds",
        "1",
        "--set",
        "width=8",
    ]
    assert main([*words, "--out", str(tmp_path / "blind")]) == 0
    result = json.loads((tmp_path / "blind" / "result.json").read_text())
    assert result["scores"] is None
    assert not (tmp_path / "blind" / "learning_curves.png").exists()
    judged = ["--simulator", "Pendulum-v1", "--episode-steps", "20", "--eval-episodes", "1"]
    capsys.readouterr()
    assert main([*words, *judged, "--out", str(tmp_path / "judged"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["simulator"], told["episode_steps"]) == ("Pendulum-v1", 20)
    scores = told["scores"]
    assert scores["normalized"] is None  # there is no reference for it
    assert len(scores["return"]) == 1
    assert main(["evaluate", str(tmp_path / "judged"), "--episode-steps", "5", "--json"]) == 0
    shorter = json.loads(capsys.readouterr().out)
    assert shorter["episode_steps"] == 5
    assert shorter["scores"]["return"][0] > scores["return"][0]  # Pendulum's rewards are negative
    assert main(["evaluate", str(tmp_path / "blind")]) == 2


@pytest.mark.parametrize(
    "verb", ["tasks", "agents", "doctor", "agents bfq", "agents bc --task pendulum-mixed"]
)
def test_telling_verbs_tell_in_words_and_json(verb, capsys):
    assert main(verb.split()) == 0
    assert len(capsys.readouterr().out) > 100
    assert main([*verb.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_tasks_are_one_line_each_under_headings_and_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert set(TASKS) <= set(named)
    assert len(named) == len(set(named))
    assert "Locomotion, rolled out locally from D4RL's policies" in lines


def test_tasks_are_found_by_a_word_and_one_is_told_in_full(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tasks", "Hopper", "--json"]) == 0
    found = [card["name"] for card in json.loads(capsys.readouterr().out)]
    assert found == [name for name in TASKS if "hopper" in name]
    assert main(["tasks", "local/hopper-medium"]) == 0  # a name, though others contain it
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "a third of the expert's return",
        "Hopper-v4",
        "bfq-rl[mujoco]",
        "hopper-medium-v2",
    ):
        assert words in shown
    assert main(["tasks", "hopper-medium-v2"]) == 0
    assert "bfq data make local/hopper-medium" in " ".join(capsys.readouterr().out.split())
    assert main(["tasks", "checker"]) == 0
    assert "bfq toy" in capsys.readouterr().out


def test_tasks_whose_data_is_here(capsys):
    assert main(["tasks", "--here", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {card["data_here"] for card in found} <= {"yes", "generated in seconds"}
    assert {"pendulum-mixed", "checkerboard"} <= {card["name"] for card in found}
    assert main(["tasks", "humanoid", "--here"]) == 0
    assert "None of these" in capsys.readouterr().out


def test_help_names_every_verb(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)
    for verb in VERBS:
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--help"])
        assert f"usage: bfq {verb}" in capsys.readouterr().out


def test_help_names_every_kind_of_file_that_is_read(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    assert all(ending in shown for ending in FORMATS)


BAD = {
    "trian": "did you mean 'train'",
    "train --task pendulum-mixd": "did you mean 'pendulum-mixed'",
    "train --task nothing.npz": "no file",
    "train --agent bfg": "did you mean 'bfq'",
    "train --set etta=1": "did you mean 'eta'",
    "train --set eta": "NAME=VALUE",
    "train --set eta=": "NAME=VALUE",
    "train --set eta=,": "NAME=VALUE",
    "train --set eta=1 --set eta=2": "given twice",
    "train --set eta=x": "a number",
    "train --set eta=nan": "finite",
    "train --set eta=inf": "finite",
    "train --set eta=-1": "from 0",
    "train --set eta=1,-1": "from 0",
    "train --set discount=1.5": "discount",
    "train --set boundary_ratio=2": "boundary_ratio",
    "train --set width=0": "from 1 to 65,536",
    "train --set batch_size=1": "batch_size",
    "train --set mixing=split,both": "structure",
    "train --set mixing=halves": "mixing",
    "train --set eta=1,1": "same value twice",
    "train --set steps=5 --steps 20": "twice",
    "train --set width=9 --set architecture=residual": "even width",
    "train --set policy_target_start=10000000000": "finite",
    "train --set eta=1e39": "from 0 to",
    "train --set width=1e9": "from 1 to 65,536",
    "train --set depth=100000": "from 1 to 256",
    "train --seeds 99999999999999999999": "from 1 to 10,000",
    "bench train --members 999999999": "from 1 to 10,000",
    "bench train --transitions 99999999999999999999": "from 1 to 2,147,483,647",
    "bench train --chunk 99999999999999999999": "from 1 to 2,147,483,647",
    "bench train --out .": "is a folder",
    "train --temperature inf": "temperature",
    "train --temperature 1e30": "temperature",
    "train --candidates 99999999999": "candidates",
    "train --agent bc --candidates 3": "cannot select among candidates",
    "train --agent dql --set denoising_steps=1": "at least 2",
    "train --agent cac --set q_norm=true --set batch_size=1": "batch_size",
    "train --agent sorl --sampling-steps 3": "power of two",
    "train --agent fql --sampling-steps 3": "fixed number",
    "train --agent dql --sampler dim": "did you mean 'ddim'",
    "train --baseline srpo --steps 2": "three phases",
    "bench train --members 0": "from 1 to 10,000",
    "bench train --transitions 0": "from 1 to",
    "bench train --set etta=1": "unknown hyperparameter",
    "bench train --out /proc/none/rows.json": "cannot write",
    "train --set candidates=5": "use --candidates",
    "train --baseline iql,bd": "unknown agent",
    "train --episode-steps 3": "episode limit",
    "train --track wandb": "not installed",
    "train --steps -3": "from 1 to",
    "train --steps 0": "from 1 to",
    "train --steps many": "--steps",
    "train --seeds 0": "from 1 to 10,000",
    "train --seeds x": "--seeds",
    "train --seeds -1,": "seeds",
    "train --seeds 1,1": "twice",
    "train --eval-episodes 0": "--eval-episodes must be a whole number from 1 to",
    "train --candidates 0": "candidates",
    "train --temperature -1": "temperature",
    "train --evaluations -1": "evaluations",
    "train --evaluations 0,20": "evaluations must be",
    "train --evaluations ,": "evaluations must be",
    "train --steps 5000 --evaluations 5000": "for one after 5,000 updates write 5000, with a comma",
    "train --evaluations 2,x": "--evaluations must be a whole number",
    "train --resume --evaluations ,": "without --evaluations",
    "train --resume --evaluations 0": "without --evaluations",
    "train --simulator Hopper-v5": "local/halfcheetah-mini is scored in",
    "train --track tensorbord": "did you mean 'tensorboard'",
    "train --task pendulum-mixed --out /proc/none/run": "cannot write",
    "train --resume --out nowhere": "no run to resume",
    "train --resume --steps 3": "without --steps",
    "train --config none.json": "no file",
    "train --baseline bq": "unknown agent",
    "tasks nowhere": "no task has 'nowhere' in its name",
    "evaluate nowhere --stepz 3": "--stepz 3; see `bfq evaluate --help`",
    "bench act --stepz 3": "--stepz 3; see `bfq bench act --help`",
    "--stepz": "--stepz; see `bfq --help`",
    "train --stepz 3": "unrecognized",
    "train --step 3": "unrecognized",
    "evaluate nowhere": "no run in nowhere",
    "evaluate": "required",
    "report nowhere": "nowhere",
    "agents bqf": "did you mean 'bfq'",
    "agents bfq --task pendulum": "did you mean",
    "toy --seeds 0": "at least 1",
}


@pytest.mark.parametrize("words", sorted(BAD))
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(
    words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bfq.experiment.execute", lambda *_: pytest.fail("training began"))
    assert main(words.split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert BAD[words] in told.err
    assert told.err.startswith("bfq: ")
    assert told.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_run_is_not_overwritten(finished, capsys):
    assert main(["train", *SHORT, "--out", str(finished)]) == 2
    assert "--resume" in capsys.readouterr().err


def test_a_finished_run_resumed_shows_its_result(finished, capsys):
    assert main(["train", "--resume", "--out", str(finished), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((finished / "result.json").read_text())


def test_runs_are_numbered_and_the_newest_unfinished_is_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", "--task", "pendulum-mixed", "--agent", "bc", "--steps", "20", "--seeds", "1",
             "--evaluations", "0", "--eval-episodes", "1", "--set", "width=8"]  # fmt: skip
    assert main(words) == 0
    assert main(words) == 0
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["pendulum-mixed-bc-001", "pendulum-mixed-bc-002"]
    assert main(["train", "--resume"]) == 2
    (tmp_path / "runs" / names[0] / "result.json").unlink()
    assert main(["train", "--resume"]) == 0
    assert (tmp_path / "runs" / names[0] / "result.json").exists()
    capsys.readouterr()


@pytest.mark.parametrize(
    "trouble", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")]
)
def test_too_little_memory_is_one_sentence(trouble, monkeypatch, capsys):
    def fail(_):
        raise trouble

    monkeypatch.setattr("bfq.cli.doctor.run", fail)
    assert main(["doctor"]) == 1
    told = capsys.readouterr().err
    assert "out of memory" in told
    assert told.count("\n") == 1


def endless(path):
    """A pipe into which nobody writes, in place of a file."""
    path.unlink()
    os.mkfifo(path)


def test_damaged_transforms_are_refused_in_a_sentence(finished, tmp_path, capsys):
    content = json.loads((finished / "config.json").read_text())
    for name, value in (
        ("observation_mean", -1), ("observation_mean", [0.0]), ("observation_std", []),
        ("observation_std", [0.0] * 3), ("action_high", -1), ("action_low", [0.0, 0.0]), ("action_low", None),
    ):  # fmt: skip
        changed = {**content, "transforms": {**content["transforms"], name: value}}
        (tmp_path / "config.json").write_text(json.dumps(changed))
        for verb in ("evaluate", "export"):
            assert main([verb, str(tmp_path)]) == 2
            told = capsys.readouterr().err
            assert "transforms" in told
            assert "Traceback" not in told


def test_damaged_runs_are_refused_in_a_sentence(finished, tmp_path, capsys):
    import shutil

    for damage, words in [
        (lambda f: (f / "config.json").write_text("{"), "not readable JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "its content: Expected `object`"),
        (lambda f: (f / "config.json").write_text('{"format": 2}'), "missing"),
        (lambda f: shutil.rmtree(f / "checkpoints"), "no checkpoint"),
        (lambda f: [p.unlink() for p in f.glob("checkpoints/*/state.safetensors")], "can be used"),
        (
            lambda f: [endless(p) for p in f.glob("checkpoints/*/state.safetensors")],
            "not a plain file",
        ),
        (lambda f: [endless(p) for p in f.glob("checkpoints/*/note.json")], "not a plain file"),
        (lambda f: endless(f / "config.json"), "not a plain file"),
    ]:
        folder = tmp_path / "copy"
        shutil.copytree(finished, folder)
        damage(folder)
        assert main(["evaluate", str(folder)]) == 2
        told = capsys.readouterr().err
        assert words in told
        assert "Traceback" not in told
        shutil.rmtree(folder)


def test_hostile_configurations_are_refused_in_a_sentence(finished, tmp_path, capsys):
    content = json.loads((finished / "config.json").read_text())
    for changes in (
        {"config": []}, {"config": {}},
        {"simulator": "os:Env"}, {"keep_going": 1}, {"more": 1},
        {"chunk": 0}, {"chunk": "a"}, {"seeds": None}, {"seeds": []},
        {"seeds": [2**70]}, {"seeds": [-1]}, {"varied": [1]}, {"varied": {"eta": "ab"}},
        {"data": {"foo": "x"}}, {"evaluation": [1]}, {"evaluation": {"episodes": "x"}}, {"evaluations": -1},
        {"simulator": 5}, {"reference": [1]}, {"reference": {"low": 1, "high": 1, "source": ""}},
        {"baselines": [5]}, {"task": 5},
        {"agent": [1]}, {"agent": 5}, {"format": 1},
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps({**content, **changes}))
        out = tmp_path / "run"
        assert main(["train", "--config", str(tmp_path / "config.json"), "--out", str(out)]) == 2, (
            changes
        )
        told = capsys.readouterr().err
        assert told.startswith("bfq: ")
        assert told.count("\n") == 1
        assert not out.exists()


def test_python_in_a_few_lines(tmp_path):
    data = bfq.from_arrays(
        observations=np.random.default_rng(0).normal(size=(50, 3)),
        actions=np.zeros((50, 1)),
        rewards=np.ones(50),
        timeouts=np.arange(50) % 10 == 9,
    )
    result = bfq.train(
        data, "bfq", steps=20, seeds=1, out=tmp_path / "run", quiet=True,
        values={"width": 8, "depth": 1, "critic_width": 8, "critic_depth": 1, "batch_size": 16},
        simulator="Pendulum-v1", episode_steps=10, eval_episodes=1,
    )  # fmt: skip
    assert len(result.scores["return"]) == 1
    policy = bfq.load_policy(result.folder)
    one, several = policy(np.zeros(3)), policy(np.zeros((4, 3)))
    assert one.shape == (1,)
    assert several.shape == (4, 1)
    assert np.abs(several).max() <= 1.0
    again = bfq.load_policy(result.folder, candidates=2)
    assert again(np.zeros(3)).shape == (1,)
    np.testing.assert_array_equal(bfq.load_policy(result.folder)(np.zeros(3)), one)
    with pytest.raises(bfq.BadInput, match="3 numbers"):
        policy(np.zeros(4))
    for strange in (np.nan, np.inf):
        with pytest.raises(bfq.BadInput, match="not finite"):
            policy([[0.0, 0.0, 0.0], [0.0, strange, 0.0]])
    wanted = "Policy('bfq': observations 3, actions 1; temperature "
    assert repr(policy).startswith(wanted)
    assert repr(again).endswith("candidates 2)")
    with pytest.raises(bfq.BadInput, match="members 0 to 0"):
        bfq.load_policy(result.folder, member=1)
    assert bfq.evaluate(result.folder, episodes=1).scores["return"] == result.scores["return"]


def test_a_diverged_member_has_null_for_scores(tmp_path, capsys):
    words = [
        "train",
        "--task",
        "pendulum-mixed",
        "--agent",
        "bc",
        *SHORT,
        "--set",
        "learning_rate=1e30",
    ]
    assert main([*words, "--keep-going", "--out", str(tmp_path / "nan")]) == 0
    capsys.readouterr()
    words = [
        "evaluate",
        str(tmp_path / "nan"),
        "--episodes",
        "1",
        "--out",
        str(tmp_path / "s.json"),
    ]
    assert main([*words, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["return"] == [None, None]
    assert json.loads((tmp_path / "s.json").read_text())["scores"] == scores
    assert main(words) == 0  # and as a table
    capsys.readouterr()


LONG = "n" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--out", LONG], ["train", "--task", f"{LONG}.npz"], ["train", "--task", LONG],
        ["train", "--resume", "--out", LONG], ["train", "--config", LONG], ["evaluate", LONG],
        ["report", LONG], ["report", "--out", LONG], ["export", LONG], ["data", "inspect", LONG],
        ["data", "import", f"{LONG}.npz", "--as", "mine"], ["data", "import", "mine.npz", "--as", LONG],
        ["reproduce", "toy", "--out", LONG],
    ],
)  # fmt: skip
def test_names_that_are_too_long_are_refused_in_a_sentence(
    words, log, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("bfq: ")
    assert told.count("\n") == 1
    assert os.listdir(tmp_path) == ["mine.npz"]


def test_links_in_a_circle_are_refused_in_a_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "a").symlink_to("a")
    monkeypatch.setattr("bfq.cli.doctor.run", lambda _: (tmp_path / "a").read_text())
    assert main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("bfq: ")
    assert "cannot name a file" in told
    assert told.count("\n") == 1


def test_other_troubles_of_the_system_are_not_hidden(monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "Input/output error", "a")

    monkeypatch.setattr("bfq.cli.doctor.run", fail)
    with pytest.raises(OSError, match="Input/output"):
        main(["doctor"])


def test_damaged_reward_transforms_are_refused_in_a_sentence(finished, tmp_path, capsys):
    content = json.loads((finished / "config.json").read_text())
    told = content["transforms"]["reward"]
    for changes in (
        {"scale": "a"}, {"scale": None}, {"scale": True}, {"shift": [1.0]}, {"shift": 1e300},
        {"scale": -1e39},
    ):  # fmt: skip
        changed = {**content["transforms"], "reward": {**told, **changes}}
        (tmp_path / "config.json").write_text(json.dumps({**content, "transforms": changed}))
        assert main(["evaluate", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "transforms.reward." in said
        assert said.count("\n") == 1


def test_a_link_in_place_of_the_lock_is_refused_and_its_target_kept(finished, tmp_path, capsys):
    import shutil

    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run" / ".lock").unlink()
    (tmp_path / "run" / ".lock").symlink_to("../precious")
    assert main(["train", "--resume", "--out", str(tmp_path / "run")]) == 2
    assert "not a plain file" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_score_told_again_carries_what_it_depends_on(finished, tmp_path, capsys):
    out = tmp_path / "again.json"
    assert main(["evaluate", str(finished), "--episodes", "1", "--out", str(out)]) == 0
    told, first = json.loads(out.read_text()), json.loads((finished / "result.json").read_text())
    assert told["data"]["sha256"] == first["data"]["sha256"]
    assert told["protocol"]["episodes"] == 1
    for name in ("transforms", "reference", "versions", "device", "precision", "config", "command"):
        assert told[name] == first[name]


@pytest.mark.parametrize("place", ["missing/e.json", "plain/e.json"])
def test_scores_are_not_lost_for_want_of_a_folder(finished, tmp_path, capsys, monkeypatch, place):
    (tmp_path / "plain").write_text("a file")
    monkeypatch.setattr(
        "bfq.api.evaluate", lambda *a, **k: pytest.fail("evaluated before it was refused")
    )
    assert main(["evaluate", str(finished), "--out", str(tmp_path / place)]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_policy_does_not_claim_what_its_agent_ignores(finished, tmp_path):
    beside = finished / "baselines" / "bc"
    with pytest.raises(bfq.BadInput, match="candidates"):
        bfq.load_policy(beside, candidates=7)
    acting = bfq.load_policy(finished, temperature=0.0, candidates=1)
    again = bfq.Result(finished, {}).policy(temperature=0.0, candidates=1)
    np.testing.assert_array_equal(acting(np.zeros(3)), again(np.zeros(3)))


def test_settings_of_the_agent_are_not_the_baselines_and_that_is_said(finished, tmp_path, capsys):
    words = ["train", "--task", "pendulum-mixed", "--baseline", "bc", *SHORT, *TINY]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "--set applies to bfq only" in said


def test_a_console_completes_the_public_names():
    assert dir(bfq) == sorted(bfq.__all__)


def test_the_keywords_of_python_are_the_options_of_the_command_line():
    train, evaluate = (inspect.signature(f).parameters for f in (bfq.train, bfq.evaluate))
    assert set(train) == {*OPTIONS, "out", "quiet"}
    assert set(evaluate) == {"folder", *PROTOCOL, "episode_steps", "video", "member"}
    for name, option in OPTIONS.items():
        if option.default is not None:
            assert train[name].default == option.default
        assert f"{name}: " in bfq.train.__doc__
    types = Path(bfq.__file__).with_suffix(".pyi").read_text()
    assert all(f" as {name}\n" in types for name in set(bfq.__all__) - set(bfq.PACKAGES))


AGENT = """
from bfq.agents import bc, hyperparameters

@hyperparameters
class Config(bc.Config):
    pass

AGENT = bc.AGENT._replace(name="mine", title="My agent", config=Config)
"""


def test_a_file_of_an_agent_is_executed_only_where_it_is_named(tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    words = ["--task", "pendulum-mixed", *SHORT, "--set", "width=8", "--out", "run"]

    def bfq_says(*words):
        command = [sys.executable, "-m", "bfq.cli.main", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert bfq_says("train", "--agent", "mine.py", *words)[0] == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["agent"] == "mine"
    for words in (["evaluate", "run", "--episodes", "1"], ["train", "--resume", "--out", "run"]):
        assert bfq_says(*words, "--agent", "mine.py")[0] == 0
        code, said = bfq_says(*words)
        assert code == 2
        assert "unknown agent 'mine'" in said.splitlines()[-1]
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"mine"', '"mine.py"'))
    assert bfq_says("train", "--config", "run/config.json", "--out", "again")[0] == 2
