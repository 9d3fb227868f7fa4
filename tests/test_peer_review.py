"""What users of other libraries typed when they tried bfq: each row of their review works, or a sentence helps."""

import json
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from equinox.nn import MLP
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.spaces import Box, Tuple

import bfq
from bfq.agents.td3_bc import AGENT
from bfq.deploy.numpy_policy import load as load_numpy

STEPS, ROWS = 20, 120
ENDS = np.arange(ROWS) % STEPS == STEPS - 1
DRAW = np.random.default_rng(0)
LOG = {  # of a pendulum: six episodes of 20 steps that a time limit ends
    "observations": DRAW.normal(size=(ROWS, 3)), "actions": DRAW.uniform(-2, 2, (ROWS, 1)),
    "rewards": DRAW.normal(size=ROWS), "terminals": np.zeros(ROWS), "timeouts": ENDS,
}  # fmt: skip
NEEDED = ("observations", "actions", "rewards")
RANGE = {"action_low": -2, "action_high": 2}
TINY = {"width": 8, "critic_width": 8, "batch_size": 16}
SMALL = {"agent": "td3_bc", "steps": 40, "seeds": 1, "values": TINY, "chunk": 10, "quiet": True}
HERE = {"env": "Pendulum-v1", "episode_steps": 5, "eval_episodes": 1, "evaluations": 2}
PENDULUM = "gymnasium.envs.classic_control:PendulumEnv"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def log():
    return bfq.from_arrays(**LOG, **RANGE, name="my log")


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    return bfq.train(log, out=tmp_path_factory.mktemp("runs") / "one", **SMALL, **HERE)


@pytest.fixture(scope="module")
def unjudged(log, tmp_path_factory):
    return bfq.train(log, out=tmp_path_factory.mktemp("runs") / "two", **SMALL)


@pytest.fixture
def imported(command):
    """Import a file on the command line: everything that was printed."""
    words = "data import {} --as mine --replace --action-low -2 --action-high 2"

    def run(file):
        code, out, err = command(words.format(file))
        assert code == 0, err
        return " ".join((out + err).split())

    return run


# Feature walk: the steps of d3rlpy's tutorial


def test_a_dataset_from_arrays(log):
    arrays = {name: LOG[name] for name in NEEDED}
    same = bfq.from_arrays(**arrays, terminated=LOG["terminals"], truncated=ENDS, **RANGE)
    assert same.sha256 == log.sha256
    assert not log.terminals.any()
    assert log.timeouts.sum() == len(log.episodes) == 6
    assert (log[:2] + log[2:]).sha256 == log.sha256
    log.save("kept")
    assert bfq.load_dataset("kept").sha256 == log.sha256


@pytest.mark.parametrize("agent", [
    bfq.agents.TD3_BC(eta=2.5, width=[16, 8], critic_learning_rate=1e-3),
    bfq.agents.CQL(critic_count=3, activation="tanh"), bfq.agents.SAC_N(critic_count=4),
    bfq.agents.EDAC(critic_width=8),
    bfq.agents.with_networks("td3_bc", "own", policy=lambda key, i, o: MLP(i, o, 8, 1, key=key)),
])  # fmt: skip
def test_configure_and_fit_algorithms_and_networks(agent, log):
    tiny = {**SMALL, "steps": 1, "values": {"batch_size": 16}, "agent": agent}
    assert bfq.train(log, **tiny).policy()(log.observations).shape == (114, 1)


def test_evaluators_while_it_trains(log):
    training, held_out = log.split(0.3)
    found = bfq.evaluators
    asked = {"td": lambda policy, _: found.td_error(policy, held_out), "value": found.value,
             "match": found.action_error}  # fmt: skip
    table = bfq.train(training, **SMALL, **HERE, evaluators=asked).evaluations
    assert {"return", *asked} < set(table)
    assert np.isfinite(table["td"]).all()


def test_callbacks_loggers_a_loop_and_early_stopping(log):
    seen, rows = [], []
    logger = SimpleNamespace(log=rows.append, close=lambda: None)
    result = bfq.train(log, **SMALL, callbacks=[seen.append], track=logger)
    assert [progress.step for progress in seen] == [10, 20, 30, 40]
    assert set(rows[0]) == {"step", "kind", "metrics"}
    assert len(result.metrics["critic_loss"]) == len(rows) == 4
    fit = bfq.fit(log, **SMALL, **HERE)
    for progress in fit:
        if progress.mean("critic_loss") > 0:
            break
    assert fit.result.record.steps == 10
    assert bfq.load_policy(fit.result)([1.0, 0.0, 0.0]).shape == (1,)
    assert bfq.train(log, **SMALL, stop=lambda now: now.step == 20).record.steps == 20


def test_save_load_act_and_predict_values(unjudged, log):
    policy = bfq.load_policy(unjudged.folder)
    assert {"value", "discount"} < set(dir(policy))
    assert policy(log.observations).shape == log.actions.shape
    assert policy.value(log.observations, log.actions).shape == (len(log),)
    assert np.isscalar(policy.value([1.0, 0.0, 0.0], [0.0]))
    assert np.isfinite(bfq.evaluators.value(policy, log))  # without a simulator


def test_plots_and_policy_files(run):
    for ending in ("c", "npz", "onnx"):
        exported = bfq.export(run, f"p.{ending}")
        assert exported.path.stat().st_size
        assert exported.metadata["task"] == run.record.task == "my log"
        assert str(run.folder.parent) not in json.dumps(exported.metadata)
    assert {"report.html", "learning_curves.png"} < {file.name for file in run.folder.iterdir()}
    assert not list(run.folder.rglob("*.store"))  # the data is not copied


def test_online_fine_tuning(run):
    tuned = bfq.finetune(run, steps=20, evaluations=1, quiet=True)
    assert tuned.scores["return"][0] < 0
    assert tuned.record.online.replay == "symmetric"


def test_resuming_lengthening_and_more_data(log, run):
    again = bfq.train(log, out=run.folder, resume=True, **SMALL, **HERE)
    assert again.scores == run.scores
    longer = bfq.train(log + log, start_from=run, steps=10, quiet=True)
    config = json.loads((longer.folder / "config.json").read_text())
    assert config["parent"]["updates"] == 40


@pytest.mark.parametrize(("change", "sentence"), [
    ({"values": {"alpha": 2.5}}, "unknown hyperparameter of td3_bc 'alpha'"),
    ({"values": {"eta": "much"}}, "eta must be a finite number of at least 0, not 'much'"),
    ({"transforms": {"observations": "minmax"}}, "unknown observation transform .* standardize"),
    ({"transforms": {"reward": lambda r: r}}, "transforms must be names with numbers or words"),
    ({"track": "comet"}, "unknown tracker 'comet'"),
    ({"env": "CartPole-v1"}, "a Discrete space: bfq needs continuous actions"),
    ({"env": "MyPendulum-v0"}, "MyPendulum-v0"),
    ({"agent": "cgl"}, "unknown agent 'cgl'.*For an agent in a file"),
    ({"data": 5}, "cannot read data from a int: give a Dataset, a path, a dict of arrays"),
    ({"data": {"x": np.zeros(9)}}, r"name the columns with .*\(in Python, columns"),
])  # fmt: skip
def test_what_training_refuses(change, sentence, log):
    with pytest.raises(bfq.BadInput, match=sentence) as refused:
        bfq.train(**{"data": log, **SMALL, **change})
    assert "\n" not in str(refused.value)
    assert not Path("runs").exists()


def test_what_else_is_refused(run, unjudged):
    twice = {**LOG, "terminated": ENDS}
    pictures = {**LOG, "observations": np.zeros((ROWS, 8, 8, 3))}
    for sentence, call in {
        "terminals are given twice, also as terminated": lambda: bfq.from_arrays(**twice),
        "turn images into a few features": lambda: bfq.from_arrays(**pictures),
        "no environment: name one with --env": lambda: bfq.evaluate(unjudged),
        "unknown format 'pt': .*c, npz, onnx": lambda: bfq.export(run, "p.pt"),
        "--steps differs": lambda: bfq.train(out=run.folder, resume=True, steps=80, quiet=True),
    }.items():
        with pytest.raises(bfq.BadInput, match=sentence):
            call()
    for typed in ("callback", "simulator", "evaluation", "mapping"):
        with pytest.raises(TypeError, match=typed):
            bfq.train(**{typed: 1})
    assert all(issubclass(error, Exception) for error in (bfq.Diverged, bfq.Stopped))
    choices = bfq.from_arrays(**{**LOG, "actions": np.arange(ROWS) % 2})
    assert any("choices and not quantities" in note for note in choices.notes)


# Interoperability: what other libraries write


def test_d3rlpys_buffers(imported, log):
    parts = [{n: LOG[n][k : k + STEPS] for n in NEEDED} for k in range(0, ROWS, STEPS)]
    with h5py.File("d3.h5", "w") as file:
        file["columns"], file["num_episodes"] = NEEDED, len(parts)
        for k, part in enumerate(parts):
            file[f"terminated_{k}"] = False
            for name, array in part.items():
                file[f"{name}_{k}"] = array
    assert "transitions 114 " in imported("d3.h5")
    assert bfq.from_episodes(parts, **RANGE).sha256 == log.sha256


def test_stable_baselines_buffers(imported, command):
    arrays = {**LOG, "actions": LOG["actions"] / 2, "dones": ENDS}
    del arrays["terminals"]
    arrays["next_observations"] = np.roll(LOG["observations"], -1, 0)
    np.savez("sb3.npz", **{name: column[:, None] for name, column in arrays.items()})
    printed = imported("sb3.npz")
    assert "120 steps of 1 environment" in printed
    assert "scaled to the given range" in printed
    Path("sb3.pkl").touch()
    assert re.search("save it as .npz", command("data import sb3.pkl --as sb3")[2])


@pytest.mark.filterwarnings("ignore")  # Minari wants an author and an address
def test_minari_brings_its_environment(command, monkeypatch, tmp_path):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    collector = minari.DataCollector(gymnasium.make("Pendulum-v1", max_episode_steps=10))
    for k in range(3):
        collector.reset(seed=k)
        while not any(collector.step(collector.action_space.sample())[2:4]):
            pass
    theirs = collector.create_dataset("pend/mixed-v0")
    collector.close()
    result = bfq.train(theirs, **SMALL, evaluations=1, eval_episodes=1)
    assert result.record.simulator == "Pendulum-v1"
    assert "Pendulum-v1" in command("data import pend/mixed-v0 --as pend")[1]


def test_data_frames(log):
    place = {f"s{k}": column for k, column in enumerate(LOG["observations"].T)}
    torque, ids = LOG["actions"][:, 0], np.arange(ROWS) // STEPS
    table = pa.table({**place, "torque": torque, "reward": LOG["rewards"], "run": ids})
    which = {"observations": "s", "actions": "torque", "episode_ids": "run"}
    assert bfq.load_dataset(table, which, **RANGE).sha256 == log.sha256
    assert bfq.train(table, columns=which, **SMALL).record.data.transitions == 114
    pa.parquet.write_table(table, "log.parquet")
    assert bfq.load_dataset("log.parquet", which, **RANGE).sha256 == log.sha256
    frame = pytest.importorskip("pandas").DataFrame(table.to_pydict()).convert_dtypes()
    assert bfq.load_dataset(frame, which, **RANGE).sha256 == log.sha256


def test_lerobot_folders(imported):
    rows = {"observation.state": LOG["observations"].tolist(), "action": LOG["actions"].tolist(),
            "next.reward": LOG["rewards"], "episode_index": np.arange(ROWS) // STEPS}  # fmt: skip
    features = {name: {"dtype": "float32", "shape": [1]} for name in rows}
    features["observation.state"]["shape"] = [3]
    folder = Path("lerobot/data/chunk-000")
    folder.mkdir(parents=True)
    for half in (slice(0, 60), slice(60, ROWS)):
        table = pa.table({name: column[half] for name, column in rows.items()})
        pa.parquet.write_table(table, folder / f"file-{half.start:03}.parquet")
    Path("lerobot/meta").mkdir()
    Path("lerobot/meta/info.json").write_text(json.dumps({"features": features}))
    printed = imported("lerobot")
    assert "transitions 114 " in printed
    assert "all 6 episodes" in printed  # of both files


@pytest.mark.parametrize("env", [
    PendulumEnv, gymnasium.make("Pendulum-v1"), lambda: PendulumEnv(), "Pendulum-v1", PENDULUM,
])  # fmt: skip
def test_any_environment_judges_also_afterwards(env, unjudged):
    found = bfq.evaluate(unjudged, env=env, episode_steps=5, episodes=1)
    same = bfq.evaluate(unjudged, env="Pendulum-v1", episode_steps=5, episodes=1)
    assert found.scores == same.scores


def test_an_environment_on_the_command_line(command, unjudged):
    words = f"evaluate {unjudged.folder} --episode-steps 5 --episodes 1 --env"
    assert [command(words, name)[0] for name in (PENDULUM, "MyPendulum-v0")] == [0, 2]
    assert "bfq train --task pendulum-mixed" in command("data make pendulum-mixed")[2]


class Motor(gymnasium.ObservationWrapper):
    """Its observation is a pair, the state and the set point, as in gym-electric-motor."""

    def __init__(self):
        super().__init__(PendulumEnv())
        self.observation_space = Tuple((Box(-1, 1, (2,)), Box(-8, 8, (1,))))

    def observation(self, observation):
        return observation[:2], observation[2:]


def test_a_motor_with_a_set_point(imported):
    seen, rest = LOG["observations"], {n: LOG[n] for n in LOG if n != "observations"}
    np.savez("motor.npz", state=seen[:, :2], reference=seen[:, 2:], **rest)
    assert "Columns not used: reference" in imported("motor.npz")
    options = {**SMALL, **HERE, "env": Motor, "columns": {"observations": "state+reference"}}
    result = bfq.train("motor.npz", **options)
    assert result.scores["return"][0] < 0


# As a library


def test_an_agent_from_outside(log):
    tiny = AGENT._replace(name="tiny", title="Tiny")
    result = bfq.train(log, **{**SMALL, "agent": tiny}, **HERE)
    assert bfq.evaluate(result).agent == "tiny"
    assert bfq.export(result, "p.npz").metadata["agent"] == "tiny"
    assert "Tiny" in bfq.report([result], "page").read_text()


def test_a_sweep(log):
    done = bfq.sweep(log, **{**SMALL, "values": {**TINY, "eta": [0.1, 1.0]}}, **HERE)
    assert done.best == {"eta": done.table["eta"][0]}
    assert len(done.table["mean"]) == 2


def test_silence(capsys):
    (seen := LOG["observations"].copy())[:, 0] = 1  # which is worth a note
    log = bfq.from_arrays(**{**LOG, "observations": seen}, **RANGE)
    assert log.notes
    bfq.train(log, **SMALL)
    assert capsys.readouterr() == ("", "")


def test_policies_elsewhere(run, log):
    theirs = load_numpy(bfq.export(run, "p.npz").path)
    ours = pickle.loads(pickle.dumps(run.policy()))
    np.testing.assert_allclose(theirs(log.observations), ours(log.observations), atol=1e-5)
