"""The command line and the Python functions, as a user meets them."""

import contextlib
import errno
import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bfq
from bfq.cli.main import VERBS, interrupt, main
from bfq.data.readers import FORMATS
from bfq.options import OPTIONS, PROTOCOL
from bfq.tasks.catalog import TASKS
from bfq.tasks.pendulum import generate_pendulum

WIDTHS = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16}
TINY = [word for name, value in WIDTHS.items() for word in ("--set", f"{name}={value}")]
SHORT = "--steps 40 --seeds 2 --evaluations 2 --eval-episodes 1"
PENDULUM = ["--task", "pendulum-mixed"]


def output(capsys, *words):
    """What a successful command prints, as JSON."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys, *words):
    """The one line on standard error of a command that is refused."""
    capsys.readouterr()
    assert main([*words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = [line for line in printed.err.splitlines() if not line.startswith("evaluating")]
    assert line.startswith("bfq: ")
    return line


def content(file):
    return json.loads(file.read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two seeds and two values of eta, with a baseline."""
    folder, printed = tmp_path_factory.mktemp("cli") / "run", io.StringIO()
    words = ["train", *PENDULUM, "--baseline", "bc", *SHORT.split(), *TINY, "--set", "eta=0.5,1"]
    with contextlib.redirect_stderr(printed):
        assert main([*words, "--out", str(folder)]) == 0
    assert "--set applies to bfq only" in printed.getvalue()
    return folder


@pytest.fixture
def log(tmp_path):
    """A user's own file."""
    data = generate_pendulum(episodes=2)
    columns = {k: v for k, v in data.columns.items() if k not in ("masks", "episode_ends")}
    limits = {"action_low": data.action_low, "action_high": data.action_high}
    np.savez(tmp_path / "mine.npz", **columns, **limits, timeouts=data.episode_ends)
    return tmp_path / "mine.npz"


def test_train_writes_a_record_and_a_report(finished, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # wide enough for whole names
    assert main(["report", str(finished)]) == 0
    shown = capsys.readouterr().out
    for words in ("pendulum-mixed", "Behavior cloning", "eta=0.5", "eta=1"):
        assert words in shown
    result = content(finished / "result.json")
    assert [m["overrides"] for m in result["members"]] == [{"eta": 0.5}] * 2 + [{"eta": 1.0}] * 2
    assert "data:image/png;base64," in (finished / "report.html").read_text()
    assert (finished / "learning_curves.png").read_bytes().startswith(b"\x89PNG")
    assert (finished / "baselines" / "bc" / "result.json").exists()


def test_the_recorded_command_and_configuration_repeat_the_run(finished, tmp_path, capsys):
    result, config = content(finished / "result.json"), str(finished / "config.json")
    command = result["command"].split()[1:]
    for out, words in (("a", command), ("b", ["train", "--config", config])):
        again = output(capsys, *words, "--out", str(tmp_path / out))
        assert again["scores"] == result["scores"]
    assert main(["train", "--config", config, "--steps", "3"]) == 2


def test_evaluate_scores_a_run_under_its_own_protocol_and_others(finished, capsys, tmp_path):
    first = content(finished / "result.json")
    assert output(capsys, "evaluate", str(finished))["scores"] == first["scores"]
    words = ("--episodes 2 --candidates 3 --selection softmax --softmax-weight 5 --temperature 0.5 "
             f"--policy online --out {tmp_path / 's.json'}")  # fmt: skip
    assert main(["evaluate", str(finished), *words.split()]) == 0
    assert "3 candidates, softmax of weight 5" in " ".join(capsys.readouterr().out.split())
    stored = content(tmp_path / "s.json")
    asked = {"episodes": 2, "candidates": 3, "softmax_weight": 5.0, "policy": "online"}
    assert asked.items() <= stored["protocol"].items()
    assert set(stored) == set(first)
    for name in ("data", "transforms", "reference", "versions", "config", "command"):
        assert stored[name] == first[name]


def test_evaluate_writes_a_video(finished, tmp_path):
    command = [sys.executable, "-m", "bfq.cli.main", "evaluate", str(finished), "--episodes", "1",
               "--video", str(tmp_path / "v.mp4")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"XDG" not in done.stderr
    assert (tmp_path / "v.mp4").stat().st_size > 1000


def test_your_own_file_trains_with_and_without_a_simulator(log, tmp_path, capsys):
    words = f"train --task {log} --agent bc --steps 20 --seeds 1 --set width=8".split()
    blind, scored = str(tmp_path / "blind"), str(tmp_path / "scored")
    assert output(capsys, *words, "--out", blind)["scores"] is None
    assert not (tmp_path / "blind" / "learning_curves.png").exists()
    assert "no environment" in refusal(capsys, "evaluate", blind)
    env = "--env Pendulum-v1 --episode-steps 20 --eval-episodes 1"
    record = output(capsys, *words, *env.split(), "--out", scored)
    assert (record["simulator"], record["episode_steps"]) == ("Pendulum-v1", 20)
    assert record["scores"]["normalized"] is None  # there is no reference
    shorter = output(capsys, "evaluate", scored, "--episode-steps", "5")
    assert shorter["episode_steps"] == 5
    (short,), (long,) = shorter["scores"]["return"], record["scores"]["return"]
    assert short > long  # Pendulum's rewards are negative


@pytest.mark.parametrize("verb", ["agents", "doctor", "agents bfq"])
def test_commands_print_text_and_json(verb, capsys):
    assert main(verb.split()) == 0
    assert len(capsys.readouterr().out) > 100
    assert output(capsys, *verb.split())


def test_tasks_are_one_line_each_and_are_found_by_a_word(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert set(TASKS) <= set(named)
    assert len(named) == len(set(named))
    found = [card["name"] for card in output(capsys, "tasks", "Hopper")]
    assert found == [name for name in TASKS if "hopper" in name]
    assert main(["tasks", "local/hopper-medium"]) == 0  # a name, though others contain it
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("Hopper-v4", "bfq-rl[mujoco]", "hopper-medium-v2"):
        assert words in shown
    here = output(capsys, "tasks", "--here")
    assert {card["data_here"] for card in here} <= {"yes", "generated in seconds"}
    assert {"pendulum-mixed", "checkerboard"} <= {card["name"] for card in here}


def test_help_names_every_command_option_and_kind_of_file(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)
    for verb in VERBS:
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--help"])
        shown = capsys.readouterr().out
        assert f"usage: bfq {verb}" in shown
        if verb == "train":
            assert all(one in shown for one in (*FORMATS, *(o.flag for o in OPTIONS.values())))


BAD = {
    "trian": "did you mean 'train'",
    "train --task pendulum-mixd": "did you mean 'pendulum-mixed'",
    "train --task nothing.npz": "no file",
    "train --set etta=1": "did you mean 'eta'",
    "train --set eta": "NAME=VALUE",
    "train --set eta=": "NAME=VALUE",
    "train --set eta=1 --set eta=2": "given twice",
    "train --set eta=x": "a finite number",
    "train --set eta=-1": "at least 0",
    "train --set discount=1.5": "discount",
    "train --set width=0": "from 1 to 65,536",
    "train --set batch_size=1": "batch_size",
    "train --set mixing=split,both": "structure",
    "train --set mixing=halves": "mixing",
    "train --set eta=1,1": "same value twice",
    "train --set steps=5 --steps 20": "twice",
    "train --set width=9 --set architecture=residual": "even width",
    "train --set policy_target_start=10000000000": "from 0 to",
    "train --set depth=100000": "from 1 to 256",
    "train --temperature inf": "temperature",
    "train --agent bc --candidates 3": "cannot select among candidates",
    "train --agent dql --set denoising_steps=1": "at least 2",
    "train --agent cac --set q_norm=true --set batch_size=1": "batch_size",
    "train --agent fql --sampling-steps 3": "fixed number",
    "train --agent dql --sampler dim": "did you mean 'ddim'",
    "train --baseline srpo --steps 2": "three phases",
    "bench train --out /proc/none/rows.json": "cannot write",
    "train --set candidates=5": "use --candidates",
    "train --episode-steps 3": "episode limit",
    "train --track wandb": "not installed",
    "train --steps 0": "from 1 to",
    "train --steps many": "--steps",
    "train --seeds 0": "from 1 to 10,000",
    "train --seeds 1,1": "twice",
    "train --temperature -1": "temperature",
    "train --evaluations 0,20": "evaluations must be",
    "train --steps 5000 --evaluations 5000": "for one after 5,000 updates write 5000, with a comma",
    "train --evaluations 2,x": "--evaluations must be a whole number",
    "train --config run.json --evaluations 0": "without --evaluations",
    "train --env Hopper-v5": "local/halfcheetah-mini is scored in",
    "train --track tensorbord": "did you mean 'tensorboard'",
    "train --task pendulum-mixed --out /proc/none/run": "cannot write",
    "train --resume --out nowhere": "no run to resume",
    "train --config none.json": "no file",
    "tasks nowhere": "no task has 'nowhere' in its name",
    "--stepz": "--stepz; see `bfq --help`",
    "evaluate nowhere": "no run in nowhere",
    "evaluate nowhere --out .": "not a plain file",
    "agents bqf": "did you mean 'bfq'",
}


@pytest.mark.parametrize("words", sorted(BAD))
def test_bad_input_is_refused_and_nothing_is_written(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bfq.experiment.execute", lambda *_: pytest.fail("training began"))
    assert BAD[words] in refusal(capsys, *words.split())
    assert not list(tmp_path.iterdir())


def test_an_interrupt_is_not_lost_in_the_garbage_collector():
    previous = signal.signal(signal.SIGINT, interrupt)

    def _xla_gc_callback():  # JAX's; Python ignores what it raises
        signal.raise_signal(signal.SIGINT)

    try:
        _xla_gc_callback()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60.0)
    finally:
        signal.signal(signal.SIGINT, previous)


@pytest.mark.parametrize("words", [
    "train --out LONG", "train --task LONG.npz", "train --task LONG", "train --resume --out LONG",
    "train --config LONG", "evaluate LONG", "report LONG", "report --out LONG", "export LONG",
    "data inspect LONG", "data import LONG.npz --as mine", "data import mine.npz --as LONG",
    "reproduce toy --out LONG",
])  # fmt: skip
def test_names_that_are_too_long_are_refused(words, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    refusal(capsys, *words.replace("LONG", "n" * 300).split())
    assert os.listdir(tmp_path) == ["mine.npz"]


def test_errors_of_the_system(tmp_path, monkeypatch, capsys):
    def doctor(error):
        def fail(_):
            raise error

        monkeypatch.setattr("bfq.cli.doctor.run", fail)
        return main(["doctor"])

    for error in (MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")):
        assert doctor(error) == 1
        assert capsys.readouterr().err.startswith("bfq: out of memory")
    assert doctor(OSError(errno.ELOOP, "Too many levels", "a")) == 2
    assert "cannot name a file" in capsys.readouterr().err
    with pytest.raises(OSError, match="Input/output"):  # not hidden
        doctor(OSError(errno.EIO, "Input/output error", "a"))


def test_a_finished_run_is_not_trained_again(finished, capsys):
    assert "--resume" in refusal(capsys, "train", *SHORT.split(), "--out", str(finished))
    again = output(capsys, "train", "--resume", "--out", str(finished))
    assert again == content(finished / "result.json")


def test_runs_are_numbered_and_the_newest_unfinished_one_is_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "train --task pendulum-mixed --agent bc --steps 20 --seeds 1 --evaluations 0"
    words = [*words.split(), "--eval-episodes", "1", "--set", "width=8"]
    assert [main(words), main(words)] == [0, 0]
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["pendulum-mixed-bc-001", "pendulum-mixed-bc-002"]
    assert main(["train", "--resume"]) == 2
    (tmp_path / "runs" / names[0] / "result.json").unlink()
    assert main(["train", "--resume"]) == 0
    assert (tmp_path / "runs" / names[0] / "result.json").exists()


DAMAGE = [  # changes of config.json, and the field that the message names
    ({"config": []}, "config"), ({"config": {}}, "config."), ({"keep_going": 1}, "keep_going"),
    ({"more": 1}, "more"), ({"chunk": 0}, "chunk"), ({"chunk": "a"}, "chunk"), ({"seeds": None}, "seeds"),
    ({"seeds": []}, "seeds"), ({"seeds": [2**70]}, "seeds[0]"), ({"seeds": [-1]}, "seeds[0]"),
    ({"varied": [1]}, "varied"), ({"varied": {"eta": "ab"}}, "varied[...]"), ({"data": {"foo": "x"}}, "data: "),
    ({"evaluation": [1]}, "evaluation"), ({"evaluation": {"episodes": "x"}}, "evaluation.episodes"),
    ({"evaluations": -1}, "evaluations"), ({"simulator": 5}, "simulator"), ({"simulator": "os:"}, "simulator"),
    ({"simulator": "Pendulum-v1\n"}, "simulator"), ({"task": "x\n"}, "task"), ({"line\nbreak": 1}, "is unknown"),
    ({"reference": [1]}, "reference"), ({"reference": {"low": 1, "high": 1, "source": ""}}, "reference"),
    ({"baselines": [5]}, "baselines"), ({"task": 5}, "task"), ({"agent": [1]}, "agent"), ({"format": 1}, "format"),
]  # fmt: skip
TRANSFORMS = [
    ({"observation_mean": -1}, "observation_mean"), ({"observation_mean": [0.0]}, "observation_mean"),
    ({"observation_std": []}, "observation_std"), ({"observation_std": [0.0] * 3}, "observation_std"),
    ({"action_high": -1}, "action_high"), ({"action_low": [0.0, 0.0]}, "action_low"),
    ({"action_low": None}, "action_low"),
    *(({"reward": {"name": "none", "scale": 1.0, "shift": 0.0, **change}}, "reward.")
      for change in ({"scale": "a"}, {"scale": None}, {"scale": True}, {"shift": [1.0]}, {"shift": 1e300},
                     {"scale": -1e39})),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field"), DAMAGE)
def test_damaged_configurations_are_refused_by_field(finished, tmp_path, capsys, changes, field):
    file, out = tmp_path / "config.json", tmp_path / "run"
    file.write_text(json.dumps({**content(finished / "config.json"), **changes}))
    line = refusal(capsys, "train", "--config", str(file), "--out", str(out))
    assert f"{file}: " in line
    assert field in line
    assert not out.exists()


@pytest.mark.parametrize(("changes", "field"), TRANSFORMS)
def test_damaged_transforms_are_refused_with_the_field(finished, tmp_path, capsys, changes, field):
    config = content(finished / "config.json")
    config["transforms"] |= changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    line = refusal(capsys, "evaluate", str(tmp_path))
    assert "transforms" in line
    assert field in line


def endless(path):
    """Put a pipe into which nobody writes in place of a file."""
    path.unlink()
    os.mkfifo(path)


def test_damaged_run_folders_are_refused(finished, tmp_path, capsys):
    folder, states = tmp_path / "copy", "checkpoints/*/state.safetensors"
    for damage, words in [
        (lambda f: (f / "config.json").write_text("{"), "not readable JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "its content: Expected `object`"),
        (lambda f: (f / "config.json").write_text('{"format": 2}'), "missing"),
        (lambda f: shutil.rmtree(f / "checkpoints"), "no checkpoint"),
        (lambda f: [p.unlink() for p in f.glob(states)], "can be used"),
        (lambda f: [endless(p) for p in f.glob(states)], "not a plain file"),
        (lambda f: [endless(p) for p in f.glob("checkpoints/*/note.json")], "not a plain file"),
        (lambda f: endless(f / "config.json"), "not a plain file"),
    ]:
        shutil.copytree(finished, folder)
        damage(folder)
        assert main(["evaluate", str(folder)]) == 2
        printed = capsys.readouterr().err
        assert words in printed
        assert "Traceback" not in printed
        shutil.rmtree(folder)


@pytest.mark.parametrize("place", ["missing/e.json", "plain/e.json"])
def test_evaluate_checks_where_to_write_first(finished, tmp_path, capsys, monkeypatch, place):
    (tmp_path / "plain").write_text("a file")
    monkeypatch.setattr("bfq.results.evaluate", lambda *_, **__: pytest.fail("evaluated first"))
    words = ["evaluate", str(finished), "--out", str(tmp_path / place)]
    assert "there is no folder" in refusal(capsys, *words)


def test_a_diverged_seed_has_null_for_scores(tmp_path, capsys):
    run, scores = str(tmp_path / "nan"), tmp_path / "s.json"
    words = ["train", *PENDULUM, "--agent", "bc", *SHORT.split(), "--set", "learning_rate=1e30"]
    assert main([*words, "--keep-going", "--out", run]) == 0
    words = ["evaluate", run, "--episodes", "1", "--out", str(scores)]
    assert output(capsys, *words) == content(scores)
    assert content(scores)["scores"]["return"] == [None, None]
    assert main(words) == 0  # and as a table


def test_python_in_a_few_lines(tmp_path, tiny_data, finished):
    options = {
        "steps": 20, "seeds": 1, "values": WIDTHS, "eval_episodes": 1, "env": "Pendulum-v1",
        "episode_steps": 10, "out": tmp_path / "run", "quiet": True,
    }  # fmt: skip
    result = bfq.train(tiny_data, "bfq", **options)
    assert bfq.train(tiny_data, "bfq", **options, resume=True) == result
    with pytest.raises(bfq.BadInput, match="--steps differs"):
        bfq.train(tiny_data, "bfq", **{**options, "steps": 21}, resume=True)
    assert len(result.scores["return"]) == 1
    assert bfq.evaluate(result.folder, episodes=1).scores["return"] == result.scores["return"]
    policy = bfq.load_policy(result.folder)
    one, several = policy(np.zeros(3)), policy(np.zeros((4, 3)))
    assert (one.shape, several.shape) == ((1,), (4, 1))
    assert np.abs(several).max() <= 2.0
    np.testing.assert_array_equal(result.policy()(np.zeros(3)), one)
    assert bfq.load_policy(result.folder, candidates=2)(np.zeros(3)).shape == (1,)
    with pytest.raises(bfq.BadInput, match="3 numbers"):
        policy(np.zeros(4))
    assert policy(np.zeros((0, 3))).shape == (0, 1)
    with pytest.raises(bfq.BadInput, match="list of numbers"):
        policy([[0.0, 0.0, 0.0], [0.0]])
    for odd in (np.nan, np.inf):
        with pytest.raises(bfq.BadInput, match="not finite"):
            policy([[0.0, 0.0, 0.0], [0.0, odd, 0.0]])
    for member in (1, -1, 0.5, "first"):
        with pytest.raises(bfq.BadInput, match="members 0 to 0"):
            bfq.load_policy(result.folder, member=member)
        with pytest.raises(bfq.BadInput, match="member"):
            bfq.evaluate(result.folder, member=member)
    with pytest.raises(bfq.BadInput, match="candidates"):
        bfq.load_policy(finished / "baselines" / "bc", candidates=7)


def test_the_keywords_of_python_are_the_options_of_the_command_line():
    train, evaluate = (inspect.signature(f).parameters for f in (bfq.train, bfq.evaluate))
    hooks = {"evaluators", "callbacks", "stop", "track"}
    assert set(train) == {*OPTIONS, "out", "resume", "quiet", "data", "columns", *hooks} - {"task"}
    assert set(evaluate) == {"folder", *PROTOCOL, "env", "episode_steps", "video", "member"}
    for name, option in OPTIONS.items():
        if option.default is not None and name != "task":
            assert train[name].default == option.default
        assert f"{name}: " in bfq.train.__doc__ or name == "task"
    types = Path(bfq.__file__).with_suffix(".pyi").read_text()
    assert all(f" as {name}\n" in types for name in set(bfq.__all__) - set(bfq.PACKAGES))
