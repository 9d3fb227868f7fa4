"""The library in Python: runs step by step, hooks, tables, policies and resuming."""

import json
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

import bfq

SMALL = {"width": 16, "critic_width": 16, "batch_size": 32, "eta": [0.1, 1.0]}
RUN = {"steps": 60, "seeds": 2, "values": SMALL, "chunk": 5, "quiet": True}
HERE = {"env": "Pendulum-v1", "episode_steps": 10, "eval_episodes": 1, "evaluations": 3}
BC = {"steps": 5, "seeds": 1, "values": {"width": 8}, "quiet": True}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BFQ_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def log():
    draw = np.random.default_rng(0).normal
    return bfq.from_arrays(
        observations=draw(size=(200, 3)), actions=np.clip(draw(size=(200, 1)), -2, 2),
        rewards=draw(size=200), terminals=np.zeros(200), timeouts=np.arange(200) % 20 == 19,
        action_low=-2.0, action_high=2.0, name="my log",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(log, tmp_path_factory):
    return bfq.train(log, out=tmp_path_factory.mktemp("whole") / "run", **RUN, **HERE)


def states(folder):
    return (folder / "checkpoints/step-000000060/state.safetensors").read_bytes()


def lines(folder):
    return (folder / "metrics.jsonl").read_text().splitlines()


def test_a_loop_yields_every_row_and_evaluation_and_equals_train(log, whole, tmp_path):
    fit = bfq.fit(log, out=tmp_path / "run", **RUN, **HERE)
    moments = list(fit)
    assert [moment.step for moment in moments] == list(range(5, 61, 5))
    assert [moment.step for moment in moments if moment.scores] == [20, 40, 60]
    last = moments[-1]
    assert last.steps == 60
    assert len(last.members) == len(last.metrics["critic_loss"]) == 4
    assert last.mean("return") == pytest.approx(np.mean(last.scores["return"]))
    assert last.mean("nothing") is None
    assert fit.result.scores == whole.scores
    for name in ("config.json", "metrics.jsonl"):
        assert (fit.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert states(fit.folder) == states(whole.folder)


def test_a_break_leaves_a_scored_run_that_continues_with_the_same_bytes(log, whole, tmp_path):
    fit = bfq.fit(log, out=tmp_path / "run", **RUN, **HERE)
    for progress in fit:
        if progress.step == 35:
            break
    result = fit.result
    assert result.record.steps == 35
    assert len(result.scores["return"]) == 4  # evaluated at the break
    assert (result.folder / "report.html").exists()
    assert result.policy()(np.zeros(3)).shape == (1,)
    assert bfq.evaluate(result).steps == 35
    assert bfq.export(result).path.exists()
    again = bfq.train(log, out=tmp_path / "run", resume=True, **RUN, **HERE)
    assert again.record.steps == 60
    assert lines(again.folder) == lines(whole.folder)
    assert states(again.folder) == states(whole.folder)


def test_callbacks_evaluators_trackers_and_stop(log, tmp_path, monkeypatch):
    seen, rows = [], []

    class Tracker:
        def log(self, row):
            rows.append(row)

        def close(self):
            rows.append("closed")

    result = bfq.train(
        log, out=tmp_path / "run", **RUN, evaluations=6, callbacks=[seen.append], track=Tracker(),
        evaluators={"error": bfq.evaluators.action_error, "td": bfq.evaluators.td_error,
                    "value": bfq.evaluators.value, "one": lambda policy, data: 1},
        stop=bfq.patience(2, "one"),
    )  # fmt: skip
    # The third evaluation is no better than the first.
    assert result.record.steps == seen[-1].step == 30
    assert result.scores is None
    assert {row["kind"] for row in rows[:-1]} == {"train", "evaluator"}
    assert rows[-1] == "closed"
    table = result.evaluations
    assert list(table["step"]) == [10] * 4 + [20] * 4 + [30] * 4
    assert list(table["eta"][:4]) == [0.1, 0.1, 1.0, 1.0]
    assert (table["error"] > 0).all()
    assert seen[-1].evaluations["one"] == [1.0] * 4
    assert len(result.metrics["critic_loss"]) == 6 * 4
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    assert list(result.metrics.to_pandas()["seed"][:4]) == [0, 1, 0, 1]


@pytest.mark.parametrize("where", ["callbacks", "stop", "evaluators", "track"])
def test_what_a_users_function_raises_is_one_sentence_and_nothing_is_lost(where, log, tmp_path):
    broken = True

    def fails(*_):
        if broken:
            raise KeyError("mine")
        return False

    class Tracker:
        log, close = staticmethod(fails), staticmethod(lambda: None)

    hooks = {
        "callbacks": [fails],
        "stop": fails,
        "evaluators": {"mine": fails},
        "track": [Tracker()],
    }
    options = {**BC, "steps": 60, "chunk": 5, "out": tmp_path / "run", "evaluations": 3}
    options |= {"agent": "bc", where: hooks[where]}
    with pytest.raises(bfq.BadInput, match=r"raised KeyError: 'mine'\.$"):
        bfq.train(log, **options)
    assert not (tmp_path / "run" / "result.json").exists()
    broken = False
    assert bfq.train(log, **options, resume=True).record.steps == 60
    steps = [(r["step"], r["kind"]) for r in map(json.loads, lines(tmp_path / "run"))]
    assert len(set(steps)) == len(steps)
    if where == "evaluators":
        assert [step for step, kind in steps if kind == "evaluator"] == [20, 40, 60]


def test_the_best_checkpoint_is_kept_and_named_in_the_protocol(log, tmp_path):
    options = RUN | HERE | {"evaluations": 6}
    result = bfq.train(log, out=tmp_path / "run", checkpoint="best", **options)
    table = result.evaluations
    means = {step: table["return"][table["step"] == step].mean() for step in table["step"]}
    best = max(means, key=means.get)
    assert result.record.steps == best
    assert np.mean(result.scores["return"]) == pytest.approx(means[best])
    assert result.record.protocol["checkpoint"] == "best"
    assert bfq.evaluate(result).scores == result.scores
    assert bfq.evaluate(result, checkpoint="last").steps == 60
    plain = bfq.train(log, out=tmp_path / "plain", **RUN)
    with pytest.raises(bfq.BadInput, match="--checkpoint best"):
        bfq.evaluate(plain, env="Pendulum-v1", checkpoint="best")


def act(policy):
    return policy(np.zeros(3))


def test_a_policy_has_values_and_works_in_a_process_pool(log, whole):
    policy = whole.policy(1)
    values = policy.value(log.observations, log.actions)
    assert values.shape == (190,)
    assert policy.value(log.observations[0], log.actions[0]) == pytest.approx(values[0], abs=1e-5)
    copy = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(copy(log.observations), whole.policy(1)(log.observations))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        expected = act(whole.policy(1))
        np.testing.assert_allclose(pool.submit(act, whole.policy(1)).result(), expected, atol=1e-6)
    with pytest.raises(bfq.BadInput, match="an action has 1 numbers"):
        policy.value(log.observations, log.observations)
    cloned = bfq.train(log, "bc", **BC).policy()
    with pytest.raises(bfq.BadInput, match="no critic"):
        cloned.value([0, 0, 0])


def test_values_are_in_units_of_return(tmp_path, monkeypatch):
    """With one state and rewards of 3 for ever, Q = 3 / (1 − γ), whatever scales and shifts the rewards."""
    monkeypatch.chdir(tmp_path)
    rows = 64
    draw = np.random.default_rng(0).uniform(-1, 1, size=(rows, 1))
    log = bfq.from_arrays(
        observations=np.zeros((rows, 1)), actions=draw, rewards=np.full(rows, 3.0) + 0.01 * draw[:, 0],
        terminals=np.zeros(rows), timeouts=np.arange(rows) == rows - 1, action_low=-1.0, action_high=1.0,
        next_observations=np.zeros((rows, 1)),
    )  # fmt: skip
    values = {"discount": 0.5, "critic_target_rate": 0.05, "width": 16, "critic_width": 16,
              "batch_size": 64, "learning_rate": 3e-3}  # fmt: skip
    for transform in ("none", "standardize", "hundredfold"):
        run = bfq.train(log, "td3_bc", steps=1500, seeds=1, values=values, quiet=True,
                        transforms={"reward": transform})  # fmt: skip
        tolerance = 0.05 if transform != "hundredfold" else 0.3
        assert run.policy().value([0.0], [0.0]) == pytest.approx(6.0, abs=tolerance), transform


def test_data_of_a_program_is_stored_once_and_keeps_its_name(log, whole, tmp_path, capsys):
    capsys.readouterr()
    other = bfq.train(log, "bc", **BC, out=tmp_path / "other")
    assert other.record.task == whole.record.task == "my log"
    assert capsys.readouterr() == ("", "")  # quiet prints nothing
    assert not list(other.folder.glob("*.store"))
    assert "memory/my-log-" in other.record.command
    exported = bfq.export(whole)
    assert exported.metadata["task"] == "my log"
    assert str(tmp_path.parent).encode() not in exported.path.read_bytes()


def test_resuming_accepts_options_that_agree_and_names_those_that_differ(log, tmp_path):
    out = tmp_path / "run"
    bfq.train(log, out=out, **RUN, **HERE)
    for agreeing in ({}, {"seeds": 2}, {"values": {"eta": [0.1, 1.0]}}, {"chunk": 7}):
        bfq.train(log, out=out, resume=True, quiet=True, **agreeing)
    for name, changed in {"steps": 61, "seeds": 3, "agent": "bc", "values": {"eta": 0.3}}.items():
        flag = "--set" if name == "values" else f"--{name}"
        with pytest.raises(bfq.BadInput, match=f"^{flag} differs"):
            bfq.train(log, out=out, resume=True, quiet=True, **{name: changed})
    with pytest.raises(bfq.BadInput, match="--task differs"):
        bfq.train("pendulum-mixed", out=out, resume=True, quiet=True)


def test_reports_and_exceptions_are_public(whole, tmp_path):
    assert bfq.report([whole], tmp_path / "page").read_text().startswith("<!doctype html>")
    assert issubclass(bfq.Diverged, Exception)
    assert issubclass(bfq.Stopped, Exception)
    with pytest.raises(bfq.BadInput, match="write it in the loop"):
        bfq.fit("pendulum-mixed", callbacks=[print])
    with pytest.raises(bfq.BadInput, match="a tracker is"):
        bfq.train("pendulum-mixed", track=5)


@pytest.mark.parametrize("kind", ["arrays", "episodes", "file", "folder"])
def test_data_may_be_anything_that_holds_transitions(kind, tmp_path):
    draw = np.random.default_rng(1).normal
    ends = np.arange(40) % 10 == 9
    arrays = {"s": draw(size=(40, 2)), "a": np.tanh(draw(size=(40, 1))), "rewards": draw(size=40),
              "terminals": np.zeros(40), "timeouts": ends}  # fmt: skip
    data, columns = arrays, {"observations": "s", "actions": "a"}
    if kind == "episodes":
        names = {"observations": "s", "actions": "a", "rewards": "rewards"}
        split = {name: np.split(arrays[column], 4) for name, column in names.items()}
        data, columns = [{name: split[name][k] for name in names} for k in range(4)], None
    elif kind == "file":
        data = tmp_path / "log.npz"
        np.savez(data, **arrays)
    elif kind == "folder":
        data, columns = tmp_path / "stored", None
        bfq.from_arrays(arrays["s"], arrays["a"], arrays["rewards"], terminals=arrays["terminals"],
                        timeouts=ends).save(data)  # fmt: skip
    run = bfq.train(data, "bc", columns=columns, **BC, out=tmp_path / "run")
    assert run.record.data.transitions == 36


@pytest.mark.parametrize("data", [5, None, object(), [1, 2], {"x": [1]}])
def test_what_is_no_data_is_refused_in_one_sentence(data, tmp_path):
    with pytest.raises(bfq.BadInput) as refused:
        bfq.train(data, "bc", out=tmp_path / "run")
    assert len(str(refused.value)) < 400
    assert not (tmp_path / "run").exists()
