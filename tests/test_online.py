"""Runs that start from other runs, with more updates, other data, or experience in an environment."""

import json

import numpy as np
import pytest

import bfq

VALUES = {"width": 16, "critic_width": 16, "batch_size": 32}
SMALL = {"values": VALUES, "seeds": 2, "quiet": True}
HERE = {"env": "Pendulum-v1", "episode_steps": 7, "eval_episodes": 1, "evaluations": 2}
STATE = "checkpoints/step-000000060/state.safetensors"


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BFQ_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def make_log(rows=100, scale=1.0):
    draw = np.random.default_rng(rows).normal
    return bfq.from_arrays(
        observations=scale * draw(size=(rows, 3)), actions=np.clip(draw(size=(rows, 1)), -2, 2),
        rewards=draw(size=rows), terminals=np.zeros(rows), timeouts=np.arange(rows) % 20 == 19,
        action_low=-2.0, action_high=2.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    out = tmp_path_factory.mktemp("off") / "run"
    return bfq.train(make_log(), "rebrac", steps=40, out=out, **SMALL, **HERE)


@pytest.fixture(scope="module")
def tuned(offline, tmp_path_factory):
    out = tmp_path_factory.mktemp("on") / "run"
    return bfq.finetune(offline, steps=60, evaluations=2, quiet=True, out=out)


def experience(folder):
    rows = np.fromfile(folder / "replay.f32", np.float32).reshape(-1, 2, 3 + 1 + 3 + 3)
    return np.split(rows, np.cumsum([3, 1, 3, 1, 1]).tolist(), axis=-1)


def test_a_run_starts_from_the_weights_and_transforms_of_another(offline, tmp_path):
    more = make_log(140, scale=3.0)
    run = bfq.train(more, start_from=offline, steps=20, out=tmp_path / "run", quiet=True)
    config = json.loads((run.folder / "config.json").read_text())
    first = json.loads((offline.folder / "config.json").read_text())
    assert (run.record.agent, run.record.steps, len(run.record.members)) == ("rebrac", 20, 2)
    assert config["transforms"] == first["transforms"]
    assert config["parent"] | {"sha256": ""} == {"step": 40, "updates": 40, "sha256": ""}
    assert config["dataset"]["transitions"] == len(more)
    assert f"--from {offline.folder}" in run.record.command
    begun = bfq.train(start_from=offline, steps=1, out=tmp_path / "one", quiet=True, chunk=1)
    old, new = (r.policy()(np.ones((5, 3))) for r in (offline, begun))
    assert 0 < np.abs(old - new).max() < 0.05  # one update further
    grandchild = bfq.train(start_from=begun, steps=1, out=tmp_path / "two", quiet=True)
    assert json.loads((grandchild.folder / "config.json").read_text())["parent"]["updates"] == 41


@pytest.mark.parametrize(("options", "said"), [
    ({"transforms": {"reward": "standardize"}}, "leave out --transform"),
    ({"values": {"width": 32}}, "structure of its networks"),
    ({"seeds": 3}, "number of"),
    ({"agent": "bc", "values": {}}, "hyperparameter of bc"),
    ({"online": 10, "steps": 10}, "steps are given twice"),
    ({"replay": "new"}, "--replay is for"),
    ({"online": 0}, "online must be"),
])  # fmt: skip
def test_what_does_not_fit_the_other_run_is_refused(options, said, offline, tmp_path):
    with pytest.raises(bfq.BadInput, match=said):
        bfq.train(start_from=offline, out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run" / "config.json").exists()


def test_experience_is_what_the_environment_answers(offline, tuned):
    seen, acted, following, rewards, masks, ends = experience(tuned.folder)
    assert len(seen) == 60
    assert np.flatnonzero(ends[:, 0, 0]).tolist() == list(range(6, 60, 7))  # episodes of 7 steps
    assert masks.all()  # Pendulum never terminates
    inside = ends[:-1, 0, 0] == 0
    np.testing.assert_array_equal(following[:-1, 0][inside], seen[1:, 0][inside])
    assert not np.array_equal(seen[:, 0], seen[:, 1])  # every member acts for itself
    transforms = json.loads((tuned.folder / "config.json").read_text())["transforms"]
    mean, std = (np.array(transforms[f"observation_{name}"]) for name in ("mean", "std"))
    cosine, sine, speed = (seen[:, 0] * std + mean).T
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, atol=1e-4)
    cost = np.arctan2(sine, cosine) ** 2 + 0.1 * speed**2 + 0.001 * (2 * acted[:, 0, 0]) ** 2
    reward = transforms["reward"]
    expected = reward["scale"] * -cost + reward["shift"]
    np.testing.assert_allclose(rewards[:, 0, 0], expected, atol=1e-3)


def test_the_record_says_how_the_policy_was_trained(offline, tuned):
    record = json.loads((tuned.folder / "result.json").read_text())
    assert record["online"] == {"replay": "symmetric", "exploration": 0.1}
    assert record["steps"] == 60
    assert "--online 60" in record["command"]
    assert "online" not in json.loads((offline.folder / "result.json").read_text())
    assert list(dict.fromkeys(tuned.evaluations["step"])) == [40, 60]
    assert bfq.export(tuned).path.exists()


@pytest.mark.parametrize("replay", ["symmetric", "balanced", "new"])
def test_a_stopped_run_continues_with_the_same_experience_and_bytes(replay, offline, tmp_path):
    options = {
        "start_from": offline,
        "online": 60,
        "replay": replay,
        "evaluations": 2,
        "quiet": True,
    }
    whole = bfq.train(**options, out=tmp_path / "whole").folder
    fit = bfq.fit(**options, out=tmp_path / "parts")
    for progress in fit:
        if progress.step == 20:
            break
    with (fit.folder / "replay.f32").open("ab") as file:
        file.write(b"rows of a process that was killed")
    bfq.train(**options, out=tmp_path / "parts", resume=True)
    for name in ("replay.f32", "metrics.jsonl", STATE):
        assert (fit.folder / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_damaged_file_of_experience_is_refused(offline, tmp_path):
    options = {"start_from": offline, "online": 60, "evaluations": 0, "quiet": True}
    fit = bfq.fit(**options, out=tmp_path / "run")
    for progress in fit:
        if progress.step == 20:
            break
    replay = fit.folder / "replay.f32"
    whole = replay.read_bytes()
    replay.write_bytes(whole[:100])
    with pytest.raises(bfq.BadInput, match="shorter than"):
        bfq.train(**options, out=fit.folder, resume=True)
    replay.write_bytes(np.full(len(whole) // 4, np.nan, np.float32).tobytes())
    with pytest.raises(bfq.BadInput, match="not finite"):
        bfq.train(**options, out=fit.folder, resume=True)


def test_agents_without_critics_and_runs_without_environments_are_refused(tmp_path):
    options = {"steps": 5, "seeds": 1, "values": {"width": 8}, "quiet": True}
    bc = bfq.train(make_log(), "bc", out=tmp_path / "bc", **options)
    with pytest.raises(bfq.BadInput, match="name one with --env"):
        bfq.finetune(bc, steps=5)
    with pytest.raises(bfq.BadInput, match="bc has no critic"):
        bfq.finetune(bc, "Pendulum-v1", steps=5, out=tmp_path / "on")


def test_the_command_line_does_the_same(offline, tuned, tmp_path, command):
    run = f"--from {offline.folder} --out {tmp_path / 'run'}"
    code, out, _ = command("train --online 60 --evaluations 2 --json", run)
    assert (code, json.loads(out)["scores"]) == (0, tuned.scores)
    assert (tmp_path / "run" / STATE).read_bytes() == (tuned.folder / STATE).read_bytes()
