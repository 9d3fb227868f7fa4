"""The loop around the updates: health, checkpoints, resuming, trackers."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bfq
from bfq import files
from bfq.agents.registry import get_agent
from bfq.cli.main import build_parser
from bfq.cli.words import read_options
from bfq.errors import BadInput, Busy, DiskTrouble
from bfq.experiment import complete, last_scores, start
from bfq.files import check_place, locked, write_json
from bfq.options import OPTIONS
from bfq.settings import command, compose
from bfq.training import checkpoint as checkpoints
from bfq.training import monitoring
from bfq.training.checkpoint import folders, latest_checkpoint, read_checkpoint, save_checkpoint
from bfq.training.loop import Loop, Means, Stopped, make_plan, stop_signals
from bfq.training.monitoring import Diverged, Health

TINY = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16}
QUICK = {
    "seeds": [0, 4],
    "values": TINY,
    "evaluations": 2,
    "eval_episodes": 1,
    "chunk": 10,
}


def tiny_run(**changes):
    return compose("pendulum-mixed", "bfq", **{**QUICK, "steps": 120, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    start(tiny_run(), folder)
    complete(folder, quiet=True)
    return folder


def final_bytes(folder: Path) -> tuple[bytes, bytes]:
    state = folders(folder / "checkpoints")[0] / "state.safetensors"
    return state.read_bytes(), (folder / "metrics.jsonl").read_bytes()


def test_a_run_leaves_what_it_promises(whole):
    names = {path.name for path in whole.iterdir()}
    assert {
        "config.json",
        "metrics.jsonl",
        "checkpoints",
        "result.json",
        "report.html",
        "learning_curves.png",
    } <= names
    result = json.loads((whole / "result.json").read_text())
    promised = (
        "task agent steps members scores protocol data versions train_seconds microseconds_per_step"
    )
    assert set(promised.split()) <= result.keys()
    assert result["members"] == [{"seed": 0, "overrides": {}}, {"seed": 4, "overrides": {}}]
    assert len(result["scores"]["return"]) == len(result["scores"]["normalized"]) == 2
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [60, 120]
    assert rows[-1]["metrics"]["return"] == result["scores"]["return"]
    assert len(folders(whole / "checkpoints")) == 2


def test_the_same_run_again_has_the_same_bytes(whole, tmp_path):
    start(tiny_run(), tmp_path / "run")
    complete(tmp_path / "run", quiet=True)
    assert final_bytes(tmp_path / "run") == final_bytes(whole)


def spawn(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bfq.cli.main", "train", "--out", str(folder), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_it_ends_with_the_same_bytes(whole, tmp_path):
    folder = tmp_path / "run"
    start(tiny_run(), folder)
    process = spawn(folder, "--resume")
    wait_for(lambda: folders(folder / "checkpoints"))
    process.kill()
    process.communicate()
    # as if killed while a line and a checkpoint were being written, too
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 999, "ki')
    (folder / "checkpoints" / ".part-000000999").mkdir()
    assert not (folder / "result.json").exists()
    complete(folder, quiet=True)
    assert final_bytes(folder) == final_bytes(whole)
    assert not list((folder / "checkpoints").glob(".part-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(tmp_path, number):
    folder = tmp_path / "run"
    start(tiny_run(steps=100_000, evaluations=0), folder)
    process = spawn(folder, "--resume")
    wait_for(
        lambda: (
            (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0
        )
    )
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"bfq train --resume --out {folder}" in said
    assert "Traceback" not in said
    assert len(folders(folder / "checkpoints")) >= 1


def test_stopping_between_log_rows_changes_nothing(whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    start(tiny_run(), folder)
    from bfq.training import loop

    for wanted in (30, 70):  # not where rows are written
        saved = []

        def stop_after(
            step, states, metrics, reporter, self, record=loop.Loop._record, wanted=wanted
        ):
            record(self, step, states, metrics, reporter)
            if step == wanted:
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(
            loop.Loop, "_record", lambda self, step, states, metrics, reporter: stop_after(
                step, states, metrics, reporter, self)
        )  # fmt: skip
        with pytest.raises(loop.Stopped):
            complete(folder, quiet=True)
        monkeypatch.undo()
        saved = folders(folder / "checkpoints")
        assert saved[0].name == f"step-{wanted:09d}"
    complete(folder, quiet=True)
    assert final_bytes(folder) == final_bytes(whole)


def tree(value=1.0):
    return {
        "a": jnp.full((2, 3), float(value)),
        "b": (jnp.arange(4, dtype=jnp.int32), jnp.zeros(())),
    }


def test_checkpoints_round_trip_and_only_the_last_are_kept(tmp_path):
    for step in (10, 20, 30):
        save_checkpoint(tmp_path, step, tree(step), {**GOOD, "metrics_bytes": step}, keep=2)
    assert [path.name for path in folders(tmp_path)] == ["step-000000030", "step-000000020"]
    found = latest_checkpoint(tmp_path, jax.eval_shape(tree), print)
    assert (found.step, found.extra["metrics_bytes"]) == (30, 30)
    for a, b in zip(jax.tree.leaves(found.states), jax.tree.leaves(tree(30)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def damage_state(folder):
    content = bytearray((folder / "state.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "state.safetensors").write_bytes(content)


DAMAGE = {
    "a flipped bit": damage_state,
    "a torn state": lambda folder: os.truncate(folder / "state.safetensors", 50),
    "no state": lambda folder: (folder / "state.safetensors").unlink(),
    "no note": lambda folder: (folder / "note.json").unlink(),
    "a torn note": lambda folder: os.truncate(folder / "note.json", 20),
    "a note of something else": lambda folder: (folder / "note.json").write_text("[1]"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_checkpoint_is_said_and_the_one_before_used(tmp_path, damage):
    for step in (10, 20):
        save_checkpoint(tmp_path, step, tree(step), {}, keep=2)
    DAMAGE[damage](folders(tmp_path)[0])
    said = []
    assert latest_checkpoint(tmp_path, jax.eval_shape(tree), said.append).step == 10
    assert len(said) == 1
    assert "step-000000020" in said[0]
    DAMAGE[damage](folders(tmp_path)[1])
    with pytest.raises(BadInput, match="no checkpoint"):
        latest_checkpoint(tmp_path, jax.eval_shape(tree), said.append)


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    save_checkpoint(tmp_path, 10, tree(), {}, keep=2)
    with pytest.raises(BadInput, match="another configuration"):
        read_checkpoint(folders(tmp_path)[0], jax.eval_shape(lambda: {"a": jnp.zeros((2, 4))}))


def test_embeddings_that_were_kept_apart_are_read_as_a_pair(tmp_path):
    """Checkpoints of earlier versions: of every member, the embedding of t and that of r."""
    old = {
        "policy": {
            f"embed_{time}": {"w": jnp.full((3, 4), v)} for time, v in (("t", 1.0), ("r", 2.0))
        }
    }
    save_checkpoint(tmp_path, 10, old, {}, keep=2)
    found = read_checkpoint(
        folders(tmp_path)[0], {"policy": {"embed": {"w": jnp.zeros((3, 2, 4))}}}
    )
    np.testing.assert_array_equal(found.states["policy"]["embed"]["w"][:, 0], 1.0)
    np.testing.assert_array_equal(found.states["policy"]["embed"]["w"][:, 1], 2.0)
    kept = read_checkpoint(folders(tmp_path)[0], old)  # the residual network still has two
    assert jax.tree.structure(kept.states) == jax.tree.structure(old)


def test_products_of_a_precision_that_is_not_here_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(BadInput, match="float16"):
        tiny_run(precision="float16")
    elsewhere = tiny_run(precision="bfloat16")  # settings may be of a run on another machine
    with pytest.raises(BadInput, match="NVIDIA"):
        start(elsewhere, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "--precision bfloat16" in command(elsewhere)


def test_a_full_disk_is_said_and_the_checkpoint_before_stands(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 10, tree(10), {}, keep=2)

    def full(path, content):
        path.write_bytes(content[:10])
        raise DiskTrouble("No space left on device")

    monkeypatch.setattr(checkpoints, "write_bytes", full)
    with pytest.raises(
        DiskTrouble, match=r"step 20 was not saved .*No space.* step-000000010, stands"
    ):
        save_checkpoint(tmp_path, 20, tree(20), {}, keep=2)
    monkeypatch.undo()
    assert latest_checkpoint(tmp_path, jax.eval_shape(tree), print).step == 10
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000010"]


def test_files_are_whole_or_absent(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    with pytest.raises(DiskTrouble, match="cannot write"):
        write_json(tmp_path / "no" / "a.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_is_trained_in_by_one_process(tmp_path):
    with locked(tmp_path), pytest.raises(BadInput, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


ERRORS = [*get_agent("bfq").watched, *get_agent("fql").watched]


def health(discount=0.9):
    return Health(
        np.array([-1.0, 0.5]), np.array([discount, discount]), ["0", "1{'eta': 3.0}"], ERRORS
    )


def test_health_names_the_loss_the_member_and_the_update():
    chunk = {"critic_loss": np.ones((10, 2)), "policy_loss": np.ones((10, 2))}
    health().check(chunk, 100)
    chunk["critic_loss"][7, 0] = np.inf
    chunk["policy_loss"][3, 1] = np.nan
    with pytest.raises(
        Diverged, match=r"policy_loss became nan at update 104 of member 1\{'eta': 3.0\}"
    ):
        health().check(chunk, 100)


def test_health_knows_what_the_rewards_allow():
    q = np.zeros((10, 2))
    health().check(
        {"q": q + 19.0}, 0
    )  # the rewards allow −10 to 5; a width more on either side is tolerated
    q[4, 1] = 21.0
    with pytest.raises(Diverged, match=r"mean Q reached 21 at update 5 of member .* beyond 5"):
        health().check({"q": q}, 0)
    with pytest.raises(Diverged, match=r"beyond -10"):
        health().check({"q": q - 50.0}, 0)


@pytest.mark.parametrize("name", ERRORS)
def test_health_knows_what_actions_allow(name):
    chunk = {"q": np.zeros((10, 2)), name: np.ones((10, 2))}
    health().check(
        {**chunk, "critic_loss": np.full((10, 2), 1e6)}, 5000
    )  # which has the rewards' size
    chunk[name][6, 1] = 1e18
    health().check(chunk, 993)  # so far networks are fresh
    with pytest.raises(
        Diverged, match=rf"{name} reached 1e\+18 at update 1001 of member 1.*clip_norm"
    ):
        health().check(chunk, 994)


def test_a_diverging_run_stops_and_keeps_its_last_good_checkpoint(tmp_path):
    run = tiny_run(values={**TINY, "learning_rate": 1e18}, steps=60)
    start(run, tmp_path / "run")
    with pytest.raises(Diverged, match="at update"):
        complete(tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "result.json").exists()


def test_fresh_networks_are_no_divergence_where_rewards_are_tiny():
    silent = Health(np.zeros(5), np.array([0.99]), ["0"])
    silent.check({"q": np.full((3, 1), -0.5)}, 0)
    with pytest.raises(Diverged):
        silent.check({"q": np.full((3, 1), 11.0)}, 0)


def test_a_diverging_member_does_not_stop_a_run_that_keeps_going(tmp_path):
    rates = {**TINY, "learning_rate": [1e-3, 1e18]}
    run = tiny_run(values=rates, seeds=[0], keep_going=True, steps=30)
    start(run, tmp_path / "run")
    result = complete(tmp_path / "run", quiet=True)
    assert np.isfinite(result.scores["return"][0])


def test_lost_metrics_are_noticed(whole, tmp_path):
    for content in (b"", (whole / "metrics.jsonl").read_bytes()[:-50]):
        folder = tmp_path / "run"
        shutil.copytree(whole, folder)
        (folder / "result.json").unlink()
        (folder / "metrics.jsonl").write_bytes(content)
        with pytest.raises(BadInput, match="shorter"):
            complete(folder, quiet=True)
        shutil.rmtree(folder)


def test_the_command_describes_the_whole_run(tmp_path):
    file, limit = (
        str(tmp_path / "a b;$(touch x).npz"),
        {"episode_steps": 7, "simulator": "Pendulum-v1"},
    )
    judged, changed = (
        {"policy": "online", "eval_seed": 5},
        {"observations": "none", "reward": "standardize"},
    )
    chosen = {"candidates": 4, "selection": "softmax", "softmax_weight": 2.5}
    for run in (
        tiny_run(values={**TINY, "preconditioned": False, "eta": [0.1, 0.2]}, chunk=None),
        compose(file, "bfq", seeds=[3], keep_going=True, **limit),
        compose("pendulum-mixed", "bc", baselines=["bfq"], evaluations=3),
        compose("pendulum-mixed", "dql", values={"sampler": "ddim"}, **judged, data=changed),
        compose("pendulum-mixed", "bfq", **chosen),
    ):
        words = shlex.split(command(run))
        asked = read_options(build_parser("train").parse_args(words[1:]), OPTIONS)
        assert compose(**asked) == run


def test_values_are_looked_at_together_and_not_one_by_one():
    """One alone would be refused beside the defaults."""
    told = {"denoising_steps": 1, "noise_schedule": "vp"}
    assert compose("pendulum-mixed", "dql", values=told).config["denoising_steps"] == 1
    with pytest.raises(BadInput, match="cosine"):
        compose("pendulum-mixed", "dql", values={"denoising_steps": 1})
    with pytest.raises(BadInput, match="boundary_ratio"):
        tiny_run(values={**TINY, "boundary_ratio": [0.5, 1.5]})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": [1.5]}, "whole number"),
        ({"seeds": 2.5}, "whole number"),
        ({"values": {"eta": []}}, "no value"),
        ({"eval_episodes": "x"}, "whole number"),
        ({"data": {"rewards": "x"}}, "did you mean 'reward'"),
        ({"data": {"reward": "x"}}, "reward transform"),
        ({"chunk": 0}, "from 1 to"),
        ({"chunk": 1.5}, "whole number"),
        ({"precision": "bfloat16"}, "NVIDIA"),
    ],
)
def test_bad_settings_of_ones_own_data_leave_nothing_behind(changes, says, tmp_path):
    if says == "NVIDIA" and jax.default_backend() != "cpu":
        pytest.skip("which this machine has")
    data = bfq.from_arrays(
        np.zeros((9, 3)), np.zeros((9, 1)), np.zeros(9), timeouts=np.arange(9) == 8
    )
    with pytest.raises(BadInput, match=says):
        bfq.train(data, out=tmp_path / "run", quiet=True, **{**QUICK, "steps": 20, **changes})
    assert not (tmp_path / "run").exists()


def test_means_survive_a_checkpoint():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(5, 2)) for _ in range(3)]
    straight, stopped = Means(), Means()
    for part in parts:
        straight.add({"x": part})
        stopped.add({"x": part})
        stopped = Means(json.loads(json.dumps(stopped.held())))
    means = straight.take()
    assert means == stopped.take()
    np.testing.assert_allclose(means["x"], np.concatenate(parts).mean(0))


def test_plan_counts_in_whole_chunks():
    plan = make_plan(steps=1000, chunk=30, evaluations=4)
    assert plan.log_every % 30 == plan.eval_every % 30 == plan.checkpoint_every % 30 == 0
    assert make_plan(steps=5, chunk=100, evaluations=2).chunk == 5
    assert make_plan(steps=1000, chunk=100, evaluations=0).eval_every == 0


def test_evaluations_come_when_they_are_asked_for(tmp_path):
    plan = make_plan(steps=1000, chunk=30, evaluations=[200, 500, 900])
    assert [step for step in range(30, 1001, 30) if plan.evaluates(step)] == [210, 510, 900]
    folder = tmp_path / "run"
    start(tiny_run(steps=60, evaluations=[40, 20, 40]), folder)
    complete(folder, quiet=True)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [20, 40, 60]
    assert "--evaluations 20,40" in json.loads((folder / "result.json").read_text())["command"]
    assert "--evaluations 5000," in command(tiny_run(steps=5000, evaluations=[5000]))
    assert tiny_run(steps=60, evaluations=np.array([40, 20])).evaluations == [20, 40]
    assert tiny_run(evaluations=np.int64(3)).evaluations == 3
    for wrong in ([], [0], [61], [2.5], [True], True, 2.5, "20"):
        with pytest.raises(BadInput, match="evaluations must be"):
            tiny_run(steps=60, evaluations=wrong)


def test_stop_signals_restore_what_was_there():
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stop:
        assert stop() == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_wish_to_stop_that_nobody_asked_about_is_not_lost():
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background has it ignored
    try:
        with pytest.raises(KeyboardInterrupt), stop_signals():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_wish_that_comes_during_the_last_save_is_heeded(tmp_path, monkeypatch):
    run, folder = tiny_run(steps=20), tmp_path / "run"
    start(run, folder)
    real = Loop._save

    def slow(self, step, states):
        real(self, step, states)
        if step == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Loop, "_save", slow)
    with pytest.raises(Stopped, match="stopped at update 20, saved"):
        complete(folder, quiet=True)
    monkeypatch.setattr(Loop, "_save", real)
    assert complete(folder, quiet=True).steps == 20


ROW = {"step": 10, "kind": "train", "metrics": {"loss": [1.0, None]}}


def test_tensorboard_gets_one_scalar_a_member(tmp_path):
    (tracker,) = monitoring.open_trackers(["tensorboard"], tmp_path, {})
    tracker.log(ROW)
    tracker.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"train/loss/member0" in events.read_bytes()
    assert b"member1" not in events.read_bytes()


def test_wandb_is_used_only_when_asked_for(tmp_path, monkeypatch):
    class Fake:
        def __init__(self):
            self.logged, self.ended = [], False

        def init(self, **settings):
            return self

        def log(self, scalars, step):
            self.logged.append((scalars, step))

        def finish(self):
            self.ended = True

    fake = Fake()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tracker,) = monitoring.open_trackers(["wandb"], tmp_path, {})
    tracker.log(ROW)
    tracker.close()
    assert fake.logged == [({"train/loss/member0": 1.0}, 10)]
    assert fake.ended
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BadInput, match="pip install"):
        monitoring.open_trackers(["wandb"], tmp_path, {})
    with pytest.raises(BadInput, match="did you mean 'tensorboard'"):
        monitoring.open_trackers(["tensorbord"], tmp_path, {})


def _linked(lock: Path) -> None:
    lock.symlink_to("../precious")


NO_LOCKS = {"a link": _linked, "a pipe": os.mkfifo, "a folder": Path.mkdir}


@pytest.mark.parametrize("kind", NO_LOCKS)
def test_a_lock_that_is_no_plain_file_is_refused_and_left_alone(tmp_path, kind):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    NO_LOCKS[kind](tmp_path / "run" / ".lock")
    with pytest.raises(BadInput, match="not a plain file"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_lock_is_opened_without_emptying_it(tmp_path):
    (tmp_path / ".lock").write_text("kept")
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == "kept"


def test_a_lock_that_was_taken_away_holds_nothing(tmp_path, monkeypatch):
    """Its holder moved the folder away between the opening and the locking of another."""
    real = files.fcntl.flock

    def late(file, how):
        (tmp_path / ".lock").unlink()
        real(file, how)

    monkeypatch.setattr(files.fcntl, "flock", late)
    with pytest.raises(Busy, match="another process"), locked(tmp_path):
        pass


GOOD = {
    "metrics_bytes": 5,
    "means": {"count": 2, "sums": {"loss": [1.5, None]}},
    "clock": {"train_seconds": 1.0, "steps": 20},
}


def test_what_goes_with_a_checkpoint_is_read_back(tmp_path):
    save_checkpoint(tmp_path, 20, tree(), GOOD, keep=2)
    assert read_checkpoint(folders(tmp_path)[0], jax.eval_shape(tree)).extra == GOOD


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics_bytes": None}, {"metrics_bytes": -1}, {"metrics_bytes": True}, {"metrics_bytes": 1.5},
        {"means": []}, {"means": {}}, {"means": {"count": "2", "sums": {}}},
        {"means": {"count": 2, "sums": 3}},
        {"means": {"count": 21, "sums": {}}}, {"means": {"count": 2, "sums": {"loss": 1.0}}},
        {"means": {"count": 2, "sums": {"loss": [1.0]}}}, {"means": {"count": 2, "sums": {"loss": ["a", 1]}}},
        {"clock": None}, {"clock": {}}, {"clock": {"train_seconds": "1", "steps": 20}},
        {"clock": {"train_seconds": 1.0, "steps": 0}}, {"clock": {"train_seconds": 1.0, "steps": []}},
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_tell_where_the_run_stood_is_damaged(tmp_path, changes):
    """Its hash is right: somebody wrote it so."""
    save_checkpoint(tmp_path, 10, tree(10), {}, keep=2)
    save_checkpoint(tmp_path, 20, tree(20), {**GOOD, **changes}, keep=2)
    said = []
    assert latest_checkpoint(tmp_path, jax.eval_shape(tree), said.append).step == 10
    assert "where the run stood" in said[0]


def test_a_note_with_holes_is_damaged(tmp_path):
    holes = [{k: v for k, v in GOOD.items() if k != name} for name in GOOD]
    for extra in [*holes, {"note": "nothing of a run"}]:
        save_checkpoint(tmp_path, 20, tree(), extra, keep=2)
        with pytest.raises(BadInput, match="where the run stood"):
            read_checkpoint(folders(tmp_path)[0], jax.eval_shape(tree))


@pytest.mark.parametrize(
    "line", ["[" * 100_000, "[1]", '{"kind": "evaluation", "metrics": 5}',
             '{"kind": "evaluation", "metrics": {"return": [NaN]}}'],
)  # fmt: skip
def test_damaged_metrics_are_said_in_a_sentence(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(BadInput, match="metrics.jsonl, line 1"):
        last_scores(tmp_path, 1)


@pytest.mark.parametrize("target", ["round", "nowhere"])
def test_a_link_that_leads_nowhere_is_no_place_for_a_run(tmp_path, target):
    (tmp_path / "round").symlink_to(target)
    with pytest.raises(BadInput, match="not a writable folder"):
        check_place(tmp_path / "round" / "run")
