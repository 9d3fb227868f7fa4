"""Environments of the user: an instance, a class, a function, or code named on the command line."""

import copy
import dataclasses
import functools
import json
import sys
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

import bfq
from bfq.cli.main import main
from bfq.envs import make
from bfq.envs.batch import ParallelEnvironments, SerialEnvironments, make_environments
from bfq.envs.make import make_environment, registered_limit
from bfq.envs.own import admit
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.evaluation.rollout import EnvironmentSpec, rollout

MODULE = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

class Mine(PendulumEnv):
    pass

class NeedsArguments(PendulumEnv):
    def __init__(self, mass):
        super().__init__()

def make(render_mode=None):
    return Mine(render_mode)

gymnasium.register("MyPendulum-v0", entry_point=Mine, max_episode_steps=77)
"""


class Uncopied(PendulumEnv):
    """An environment that holds something that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("a connection cannot be copied")


class Parts(gymnasium.ObservationWrapper):
    """A pendulum whose observation has three parts."""

    def __init__(self):
        super().__init__(PendulumEnv())
        parts = {"place": Box(-1, 1, (2, 1)), "a": Tuple((Box(-8, 8, (1,)), MultiBinary(2)))}
        self.observation_space = Dict(parts)

    def observation(self, observation):
        cosine, sine, speed = observation
        return {"place": np.array([[cosine], [sine]]), "a": (np.array([speed]), np.array([1, 0]))}


@pytest.fixture(autouse=True)
def _nothing_admitted(monkeypatch):
    monkeypatch.setattr(make, "OWN", {})
    for name in ("bfq.envs.own", "bfq.envs.batch"):
        monkeypatch.setattr(f"{name}.OWN", make.OWN)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module of environments in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    (tmp_path / "my_envs.py").write_text(MODULE)
    yield "my_envs"
    forget()


def forget():
    """Forget everything that the user has named, as in a new process."""
    make.OWN.clear()
    sys.modules.pop("my_envs", None)
    gymnasium.registry.pop("MyPendulum-v0", None)


def returns(env, episodes=3, limit=20):
    """The returns of episodes without torque."""

    def act(observations, time):
        return np.zeros((*observations.shape[:2], 1), np.float32)

    environment = EnvironmentSpec(admit(env), limit)
    return rollout(act, environment, Protocol(episodes), members=1).returns


def test_every_form_of_an_environment_gives_the_same_episodes(module):
    expected = returns("Pendulum-v1")
    assert np.unique(expected).size == 3
    forms = [
        PendulumEnv,
        PendulumEnv(),
        gymnasium.make("Pendulum-v1"),
        Uncopied(),
        lambda: PendulumEnv(),
        functools.partial(PendulumEnv, g=10.0),
        lambda **options: gymnasium.make("Pendulum-v1", **options),
        f"{module}:Mine",
        f"{module}:make",
        f"{module}:MyPendulum-v0",
    ]
    for env in forms:
        np.testing.assert_array_equal(returns(env), expected, str(env))
    assert (returns(functools.partial(PendulumEnv, g=5.0)) != expected).all()


def test_the_limit_is_that_of_the_specification(module):
    assert registered_limit(admit(f"{module}:MyPendulum-v0")) == 77
    assert registered_limit(admit(gymnasium.make("Pendulum-v1"))) == 200
    assert registered_limit(admit(PendulumEnv)) is None


def test_an_instance_is_copied_and_stays_as_it_was():
    instance = PendulumEnv()
    instance.reset(seed=1)
    before = copy.deepcopy(instance.state)
    returns(instance)
    np.testing.assert_array_equal(instance.state, before)


def test_an_instance_that_cannot_be_copied_runs_one_episode_after_the_other():
    instance, closed = Uncopied(), []
    instance.close = lambda: closed.append(1)
    name = admit(instance)
    with closing(make_environments(name, [0, 1], 3)) as environments:
        environments.reset()
        for step in range(6):
            assert environments.running.tolist() == [step < 3, True]
            _, rewards, _, ended = environments.step(np.zeros((2, 1), np.float32))
            assert np.flatnonzero(rewards).tolist() == [step // 3]
            assert ended.any() == (step in (2, 5))
    assert not environments.running.any()
    assert not closed  # it belongs to the user


def test_parts_of_an_observation_are_joined_as_gymnasium_flattens_them():
    with closing(SerialEnvironments(admit(Parts), [0], 5)) as environments:
        observed = environments.reset()[0]
    with closing(SerialEnvironments("Pendulum-v1", [0], 5)) as environments:
        cosine, sine, speed = environments.reset()[0]
    assert observed.tolist() == [speed, 1.0, 0.0, cosine, sine]  # a Dict is sorted by name


def test_named_code_also_runs_in_worker_processes(module):
    name = admit(f"{module}:Mine")
    with closing(ParallelEnvironments(name, [0, 1, 2], 5, 2)) as environments:
        inside = environments.reset()
    with closing(SerialEnvironments(name, [0, 1, 2], 5)) as environments:
        np.testing.assert_array_equal(inside, environments.reset())


@pytest.mark.parametrize("name", ["my_envs:Mine", "my_envs:MyPendulum-v0", "ogbench/my_envs:Mine"])
def test_code_that_only_a_file_names_is_not_imported(module, name):
    for use in (
        lambda: make_environment(name, 5), lambda: make_environments(name, [0], 5),
        lambda: registered_limit(name),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=f"imports only if you name it: add --env {name}"):
            use()
    assert module not in sys.modules


def broken(method, change):
    """A pendulum with another result of reset or step."""
    result = getattr(PendulumEnv, method)
    changed = lambda self, *a, **k: change(result(self, *a, **k))
    return type("Broken", (PendulumEnv,), {method: changed})


def raising(values):
    raise ValueError("the motor broke")


def spaces(**changes):
    """A pendulum with other spaces."""

    def make():
        environment = PendulumEnv()
        vars(environment).update(changes)
        return environment

    return make


@pytest.mark.parametrize(("env", "message"), [
    (broken("step", raising), r"Broken failed in step: ValueError\('the motor broke'\)"),
    (broken("reset", raising), "Broken failed in reset: ValueError"),
    (broken("step", lambda r: (np.full(3, np.nan), *r[1:])), "observation with NaN"),
    (broken("step", lambda r: (r[0][:2], *r[1:])), r"observation of shape \(2,\), but its"),
    (broken("step", lambda r: ("text", *r[1:])), "failed in an observation"),
    (broken("step", lambda r: (r[0], np.inf, *r[2:])), "reward that is not finite: inf"),
    (broken("step", lambda r: (r[0], None, *r[2:])), "failed in step: TypeError"),
    (broken("step", lambda r: r[:4]), "not enough values to unpack"),
    (spaces(action_space=Discrete(2)), "actions of .* are a Discrete space: bfq needs continuous"),
    (spaces(action_space=Box(-1, 1, (2, 2))), r"actions of .* have shape \(2, 2\)"),
    (spaces(observation_space=Box(0, 255, (8, 8, 3), np.uint8)), "are images of shape"),
    (spaces(observation_space=Dict({"a": Discrete(2)})), "observations of .* are a Discrete space"),
    (gymnasium.Env, "observations of .* are a NoneType space"),
    (dict, "makes a dict, not a Gymnasium environment"),
    (3, "env must be an id, module:Class, a Gymnasium environment, a class, or a function"),
    ("my_envs:NeedsArguments", "cannot be made: TypeError.*mass"),
    ("my_envs:Mien", "unknown environment in my_envs 'Mien': did you mean 'Mine'"),
    ("my_envs:gymnasium", "unknown environment in my_envs"),
    ("no_such:Mine", "module of the environment no_such:Mine fails: ModuleNotFoundError"),
    ("a:b:c", "env must be an id like Pendulum-v1"),
])  # fmt: skip
def test_what_is_wrong_is_one_sentence(module, env, message):
    with pytest.raises(BadInput, match=message) as caught:
        returns(env)
    assert "\n" not in str(caught.value)


# Runs

DRAW = np.random.default_rng(0)
COLUMNS = {
    "observations": DRAW.normal(size=(60, 3)), "actions": DRAW.uniform(-2, 2, (60, 1)),
    "rewards": DRAW.normal(size=60), "terminals": np.zeros(60), "timeouts": np.arange(60) % 20 == 19,
}  # fmt: skip

SMALL = {"steps": 40, "seeds": 1, "values": {"width": 8}, "eval_episodes": 1, "evaluations": 1,
         "quiet": True}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that was trained without an environment, on data of the pendulum."""
    place = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BFQ_HOME", str(place / "home"))
        data = bfq.from_arrays(**COLUMNS, action_low=-2, action_high=2, name="log")
        yield bfq.train(data, "bc", out=place / "run", **SMALL).folder, data


def test_a_run_without_an_environment_is_judged_afterwards(trained, module, capsys, tmp_path):
    folder, _ = trained
    with pytest.raises(BadInput, match="no environment: name one with --env"):
        bfq.evaluate(folder)
    found = bfq.evaluate(folder, env=PendulumEnv, episode_steps=5, episodes=2)
    assert (found.episode_steps, found.reference) == (5, None)
    assert found.simulator == "gymnasium.envs.classic_control.pendulum:PendulumEnv"
    words = ["evaluate", str(folder), "--env", "my_envs:Mine", "--episode-steps", "5", "--json"]
    assert main([*words, "--episodes", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == found.scores
    again = bfq.evaluate(folder, env="Pendulum-v1", episode_steps=5, episodes=2)
    assert again.scores == found.scores
    with pytest.raises(BadInput, match="has observations of shape .* but the data has 3 and 1"):
        bfq.evaluate(folder, env="MountainCarContinuous-v0")


def test_a_run_is_continued_only_with_its_environment(trained, module, tmp_path, capsys):
    _, data = trained
    folder = tmp_path / "run"
    options = {**SMALL, "env": "my_envs:Mine", "episode_steps": 5}
    scores = bfq.train(data, "bc", out=folder, **options).scores
    assert bfq.evaluate(folder, env="my_envs:Mine").scores == scores
    forget()
    (folder / "result.json").unlink()
    refused = "my_envs:Mine is code of your own, which bfq imports only if you name it"
    for words in (["evaluate"], ["train", "--resume", "--out"], ["train", "--config"]):
        assert main([*words, str(folder), *(["--out", "new"] if "--config" in words else [])]) == 2
        assert refused in capsys.readouterr().err
    assert "my_envs" not in sys.modules
    assert main(["train", "--resume", "--out", str(folder), "--env", "my_envs:Mine"]) == 0
    make.OWN.clear()
    (folder / "frames.png").unlink(missing_ok=True)
    assert main(["report", str(folder)]) == 0  # the page needs no environment
    assert f"no pictures of the policy: {refused}" in capsys.readouterr().err


def test_a_run_survives_an_environment_that_raises(trained, tmp_path):
    _, data = trained
    folder, options = tmp_path / "run", {**SMALL, "episode_steps": 5, "evaluations": 2}

    class Failing(PendulumEnv):
        broken = False

        def step(self, action):
            if self.broken:
                raise ValueError("the motor broke")
            return super().step(action)

    def callback(progress):
        Failing.broken = progress.step < 40

    with pytest.raises(BadInput, match="Failing failed in step: ValueError"):
        bfq.train(data, "bc", env=Failing, out=folder, callbacks=[callback], **options)
    Failing.broken = False
    whole = bfq.train(data, "bc", env=Failing, out=folder, resume=True, **options)
    plain = bfq.train(data, "bc", env=Failing, out=tmp_path / "plain", **options)
    assert whole.scores == plain.scores


def test_a_sweep_and_a_film_use_an_environment_of_ones_own(trained, module, tmp_path, capsys):
    folder, _ = trained
    pytest.importorskip("imageio_ffmpeg")
    film = "--env my_envs:make --episode-steps 3 --video a.gif"
    assert main(["evaluate", str(folder), *film.split()]) == 0
    assert (tmp_path / "a.gif").stat().st_size > 0
    with pytest.raises(BadInput, match="does not render: it was made without render_mode"):
        bfq.evaluate(folder, env=PendulumEnv(), episode_steps=3, video=tmp_path / "b.gif")
    np.savez("log.npz", **COLUMNS)
    sweep = "sweep --task log.npz --agent bc --steps 20 --seeds 2 --set width=8,16 --out s"
    scored = "--env my_envs:Mine --episode-steps 3 --eval-episodes 1"
    assert main(f"{sweep} {scored}".split()) == 0
    assert "confirm" in capsys.readouterr().out
    records = [json.loads(path.read_text()) for path in (tmp_path / "s").glob("*/result.json")]
    assert {record["simulator"] for record in records} == {"my_envs:Mine"}


def test_data_that_names_its_environment_is_scored_there(trained, tmp_path, capsys):
    _, data = trained
    options = SMALL | {"quiet": False}
    named = dataclasses.replace(data, env="Pendulum-v1")
    record = bfq.train(named, "bc", out=tmp_path / "run", **options).record
    assert (record.simulator, record.episode_steps) == ("Pendulum-v1", 200)
    said = "note: policies are scored in Pendulum-v1, which the data names"
    assert said in capsys.readouterr().err
    for env in ("NoSuch-v1", "CartPole-v1", "os:getcwd"):
        named = dataclasses.replace(data, env=env)
        record = bfq.train(named, "bc", out=tmp_path / env, **options).record
        assert record.scores is None
        assert f"names the environment {env}, which gives no scores: " in capsys.readouterr().err
