"""The training loop: runs, checkpoints, resuming, health and trackers."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from msgspec import convert, to_builtins

from bfq.agents.registry import get_agent
from bfq.errors import BadInput, DiskTrouble
from bfq.experiment import run_to_end, start
from bfq.progress import Reporter
from bfq.settings import compose
from bfq.trained import last_scores
from bfq.training import checkpoint as checkpoints
from bfq.training import loop, monitoring
from bfq.training.checkpoint import (
    Clock,
    MetricSums,
    Position,
    checkpoint_folders,
    latest_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from bfq.training.loop import Stopped, loop_options, stop_signals
from bfq.training.monitoring import Diverged, Health

TINY = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16}
QUICK = {"seeds": [0, 4], "values": TINY, "evaluations": 2, "eval_episodes": 1, "chunk": 10}


def tiny_run(**changes):
    return compose("pendulum-mixed", "bfq", **{**QUICK, "steps": 120, **changes})


def train(folder: Path, **changes):
    start(tiny_run(**changes), folder)
    return run_to_end(folder, quiet=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return folder


def final_bytes(folder):
    state = checkpoint_folders(folder / "checkpoints")[0] / "state.safetensors"
    return state.read_bytes(), (folder / "metrics.jsonl").read_bytes()


def rows_of(folder: Path):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_writes_its_files(whole):
    names = {path.name for path in whole.iterdir()}
    files = "config.json metrics.jsonl checkpoints result.json report.html learning_curves.png"
    assert set(files.split()) <= names
    result = json.loads((whole / "result.json").read_text())
    assert result["members"] == [{"seed": 0, "overrides": {}}, {"seed": 4, "overrides": {}}]
    assert len(result["scores"]["return"]) == len(result["scores"]["normalized"]) == 2
    rows = rows_of(whole)
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [60, 120]
    assert rows[-1]["metrics"]["return"] == result["scores"]["return"]
    assert len(checkpoint_folders(whole / "checkpoints")) == 2


def spawn(folder):
    command = [sys.executable, "-m", "bfq.cli.main", "train", "--out", str(folder), "--resume"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition):
    end = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(whole, tmp_path):
    folder = tmp_path / "run"
    start(tiny_run(), folder)
    process = spawn(folder)
    wait_for(lambda: checkpoint_folders(folder / "checkpoints"))
    process.kill()
    process.communicate()
    # As if it were killed while writing a line and a checkpoint.
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 999, "ki')
    (folder / "checkpoints" / ".part-000000999").mkdir()
    assert not (folder / "result.json").exists()
    run_to_end(folder, quiet=True)
    assert final_bytes(folder) == final_bytes(whole)
    assert not list((folder / "checkpoints").glob(".part-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_saves_and_prints_how_to_resume(tmp_path, number):
    folder, metrics = tmp_path / "run", tmp_path / "run" / "metrics.jsonl"
    start(tiny_run(steps=100_000, evaluations=0), folder)
    process = spawn(folder)
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"bfq train --resume --out {folder}" in printed
    assert "Traceback" not in printed
    assert checkpoint_folders(folder / "checkpoints")


def test_stopping_between_log_rows_changes_nothing(whole, tmp_path, monkeypatch):
    folder, show = tmp_path / "run", Reporter.show
    start(tiny_run(), folder)
    for wanted in (30, 70):  # steps without a log row

        def stop_at(self, step, metrics, wanted=wanted):
            show(self, step, metrics)
            if step == wanted:
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Reporter, "show", stop_at)
        with pytest.raises(Stopped):
            run_to_end(folder, quiet=True)
        assert checkpoint_folders(folder / "checkpoints")[0].name == f"step-{wanted:09d}"
    monkeypatch.undo()
    run_to_end(folder, quiet=True)
    assert final_bytes(folder) == final_bytes(whole)


def test_a_signal_during_the_last_save_stops_the_run(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    start(tiny_run(steps=20), folder)

    def slow(checkpoints, step, *rest):
        save_checkpoint(checkpoints, step, *rest)
        if step == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop, "save_checkpoint", slow)
    with pytest.raises(Stopped, match="stopped at update 20, saved"):
        run_to_end(folder, quiet=True)
    monkeypatch.undo()
    assert run_to_end(folder, quiet=True).steps == 20


def test_stop_signals_restore_the_previous_handler():
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stop:
        assert stop() == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_nobody_checked_is_sent_again():
    # A shell's background processes ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop_signals():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_missing_metrics_are_an_error(whole, tmp_path):
    for content in (b"", (whole / "metrics.jsonl").read_bytes()[:-50]):
        folder = tmp_path / "run"
        shutil.copytree(whole, folder)
        (folder / "result.json").unlink()
        (folder / "metrics.jsonl").write_bytes(content)
        with pytest.raises(BadInput, match="shorter"):
            run_to_end(folder, quiet=True)
        shutil.rmtree(folder)


def test_damaged_metrics_are_an_error(tmp_path):
    evaluation = '{"kind": "evaluation", "metrics": %s}'
    for line in ("[" * 100_000, "[1]", evaluation % 5, evaluation % '{"return": [NaN]}'):
        (tmp_path / "metrics.jsonl").write_text(line + "\n")
        with pytest.raises(BadInput, match="metrics.jsonl, line 1"):
            last_scores(tmp_path, 1)


def test_intervals_are_multiples_of_a_chunk(tmp_path):
    options = loop_options(steps=1000, chunk=30, evaluations=4)
    assert options.log_every % 30 == options.checkpoint_every % 30 == 0
    assert options.eval_at == (270, 540, 810)
    assert loop_options(steps=5, chunk=100, evaluations=2).chunk == 5
    assert loop_options(steps=1000, chunk=100, evaluations=0).eval_at == ()
    options = loop_options(steps=1000, chunk=30, evaluations=[200, 500, 900])
    assert options.eval_at == (210, 510, 900)
    result = train(tmp_path / "run", steps=60, evaluations=[40, 20, 40])
    steps = [row["step"] for row in rows_of(tmp_path / "run") if row["kind"] == "evaluation"]
    assert steps == [20, 40, 60]
    assert "--evaluations 20,40" in result.command


def test_means_survive_a_checkpoint():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(5, 2)) for _ in range(3)]
    sums = MetricSums()
    for part in parts:
        sums = convert(to_builtins(sums.add({"x": part})), MetricSums)
    np.testing.assert_allclose(sums.means["x"], np.concatenate(parts).mean(0))
    assert MetricSums().add({"x": np.array([[np.nan, 1.0]])}).means == {"x": [None, 1.0]}


# Checkpoints

POSITION = Position(5, MetricSums(2, {"loss": [1.5, None]}), Clock(1.0, 20))


def tree(value=1.0):
    integers = jnp.arange(2, dtype=jnp.int32)
    return {"a": jnp.full((2, 3), float(value)), "b": (integers, jnp.zeros((2,)))}


def test_checkpoints_round_trip_and_only_the_last_are_kept(tmp_path):
    for step in (20, 30, 40):
        save_checkpoint(tmp_path, step, tree(step), POSITION, keep=2)
    names = [path.name for path in checkpoint_folders(tmp_path)]
    assert names == ["step-000000040", "step-000000030"]
    found = latest_checkpoint(tmp_path, jax.eval_shape(tree))
    assert (found.step, found.position) == (40, POSITION)
    for a, b in zip(jax.tree.leaves(found.states), jax.tree.leaves(tree(40)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def flip_a_bit(folder):
    content = bytearray((folder / "state.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "state.safetensors").write_bytes(content)


def edit_the_note(folder):
    note = json.loads((folder / "note.json").read_text())
    note["position"]["metrics_bytes"] += 1
    (folder / "note.json").write_text(json.dumps(note))


DAMAGE = {
    "a flipped bit": flip_a_bit,
    "a cut state": lambda folder: os.truncate(folder / "state.safetensors", 50),
    "no state": lambda folder: (folder / "state.safetensors").unlink(),
    "no note": lambda folder: (folder / "note.json").unlink(),
    "a cut note": lambda folder: os.truncate(folder / "note.json", 20),
    "another note": lambda folder: (folder / "note.json").write_text("[1]"),
    "an edited note": edit_the_note,
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(tmp_path, damage, capsys):
    for step in (20, 30):
        save_checkpoint(tmp_path, step, tree(step), POSITION)
    DAMAGE[damage](checkpoint_folders(tmp_path)[0])
    assert latest_checkpoint(tmp_path, jax.eval_shape(tree)).step == 20
    (message,) = capsys.readouterr().err.splitlines()
    assert "step-000000030" in message
    DAMAGE[damage](checkpoint_folders(tmp_path)[1])
    with pytest.raises(BadInput, match="no checkpoint"):
        latest_checkpoint(tmp_path, jax.eval_shape(tree))


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    save_checkpoint(tmp_path, 10, tree())
    like = jax.eval_shape(lambda: {"a": jnp.zeros((2, 4))})
    with pytest.raises(BadInput, match="does not fit the configuration"):
        read_checkpoint(checkpoint_folders(tmp_path)[0], like)


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics_bytes": None}, {"metrics_bytes": -1}, {"metrics_bytes": True},
        {"means": MetricSums(-2)}, {"means": MetricSums(21)}, {"means": MetricSums(2, {"x": 1.0})},
        {"means": MetricSums(2, {"x": [1.0]})}, {"means": MetricSums(2, {"x": ["a", 1]})},
        {"clock": None}, {"clock": Clock("1", 20)}, {"clock": Clock(-1.0, 20)}, {"clock": Clock(1.0, 21)},
        {"clock": Clock(1e308, 20)},
    ],
)  # fmt: skip
def test_a_position_that_contradicts_the_state_is_damage(tmp_path, changes):
    """The hash is right: somebody wrote it so."""
    save_checkpoint(tmp_path, 20, tree(), dataclasses.replace(POSITION, **changes))
    with pytest.raises(BadInput, match=r"note\.json|contradicts"):
        read_checkpoint(checkpoint_folders(tmp_path)[0], jax.eval_shape(tree))


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 10, tree(10))

    def full(path, content):
        path.write_bytes(content[:10])
        raise DiskTrouble("No space left on device")

    monkeypatch.setattr(checkpoints, "write_bytes", full)
    with pytest.raises(DiskTrouble, match=r"step 20 .*No space.* step-000000010 is kept"):
        save_checkpoint(tmp_path, 20, tree(20))
    monkeypatch.undo()
    assert latest_checkpoint(tmp_path, jax.eval_shape(tree)).step == 10
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000010"]


# Health

ERRORS = [*get_agent("bfq").watched, *get_agent("fql").watched]


def health(discount=0.9):
    rewards, discounts = np.array([-1.0, 0.5]), np.array([discount, discount])
    return Health(rewards, discounts, ["0", "1{'eta': 3.0}"], ERRORS)


def test_health_names_the_loss_the_member_and_the_update():
    chunk = {"critic_loss": np.ones((10, 2)), "policy_loss": np.ones((10, 2))}
    health().check(chunk, 100)
    chunk["critic_loss"][7, 0] = np.inf
    chunk["policy_loss"][3, 1] = np.nan
    message = r"policy_loss reached nan at update 104 of member 1\{'eta': 3.0\}"
    with pytest.raises(Diverged, match=message):
        health().check(chunk, 100)


def test_health_bounds_q_by_the_rewards():
    q = np.zeros((10, 2))
    # The rewards allow −10 to 5; the same width is tolerated on either side.
    health().check({"q": q + 19.0}, 0)
    q[4, 1] = 21.0
    message = r"mean Q reached 21 at update 5 of member .* values from -10 to 5"
    with pytest.raises(Diverged, match=message):
        health().check({"q": q}, 0)
    with pytest.raises(Diverged, match="mean Q reached -50 at update 1 "):
        health().check({"q": q - 50.0}, 0)
    silent = Health(np.zeros(5), np.array([0.99]), ["0"])
    silent.check({"q": np.full((3, 1), -0.5)}, 0)  # fresh networks, tiny rewards
    with pytest.raises(Diverged):
        silent.check({"q": np.full((3, 1), 11.0)}, 0)


@pytest.mark.parametrize("name", ERRORS)
def test_health_bounds_squared_errors_of_actions(name):
    chunk = {"q": np.zeros((10, 2)), name: np.ones((10, 2))}
    # The critics' loss has the size of the rewards and is not bounded.
    health().check({**chunk, "critic_loss": np.full((10, 2), 1e6)}, 5000)
    chunk[name][6, 1] = 1e18
    health().check(chunk, 993)  # the networks are still fresh
    message = rf"{name} reached 1e\+18 at update 1001 of member 1.*clip_norm"
    with pytest.raises(Diverged, match=message):
        health().check(chunk, 994)


def test_a_diverging_run_stops(tmp_path):
    with pytest.raises(Diverged, match="at update"):
        train(tmp_path / "run", values={**TINY, "learning_rate": 1e18}, steps=60)
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_diverging_member_does_not_stop_a_run_that_keeps_going(tmp_path):
    rates = {**TINY, "learning_rate": [1e-3, 1e18]}
    result = train(tmp_path / "run", values=rates, seeds=[0], keep_going=True, steps=30)
    assert np.isfinite(result.scores["return"][0])


# Trackers

ROW = {"step": 10, "kind": "train", "metrics": {"loss": [1.0, None]}}


def test_trackers_record_one_scalar_per_member(tmp_path, monkeypatch):
    fake = Mock()
    fake.init.return_value = fake
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for tracker in monitoring.open_trackers(["tensorboard", "wandb"], tmp_path, {}):
        tracker.log(ROW)
        tracker.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"train/loss/member0" in events.read_bytes()
    assert b"member1" not in events.read_bytes()
    fake.log.assert_called_once_with({"train/loss/member0": 1.0}, step=10)
    fake.finish.assert_called_once()
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BadInput, match="pip install"):
        monitoring.open_trackers(["wandb"], tmp_path, {})
    with pytest.raises(BadInput, match="did you mean 'tensorboard'"):
        monitoring.open_trackers(["tensorbord"], tmp_path, {})
