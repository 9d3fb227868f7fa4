"""What a policy sees and does in the simulator, its scores, and its pictures."""

from types import SimpleNamespace

import gymnasium
import jax
import numpy as np
import pytest

import bfq
from bfq.agents.contract import Acting
from bfq.data.transforms import fit_transforms
from bfq.errors import BadInput
from bfq.evaluation import film, rollout
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.evaluation.rollout import (
    EnvironmentSpec,
    EpisodeResults,
    check_environment,
    population_act,
    score_episodes,
)
from bfq.run import Reference

PENDULUM = EnvironmentSpec("Pendulum-v1", 5)


def dataset(rows=9, observations=3, **bounds):
    ends = np.arange(rows) == rows - 1
    seen = np.random.default_rng(0).normal(5.0, 2.0, (rows, observations))
    return bfq.from_arrays(seen, np.zeros((rows, 1)), np.zeros(rows), timeouts=ends, **bounds)


def test_policies_see_normalized_observations_and_act_in_the_units_of_the_log():
    transforms = fit_transforms(dataset(100, action_low=-2.0, action_high=6.0))
    agent = SimpleNamespace(act=lambda state, seen, key, config, acting: seen[..., :1] / 10)
    keys = jax.random.split(jax.random.key(0), 2)
    population = SimpleNamespace(agent=agent, keys=keys, configs=np.zeros(2))
    act = population_act(population, np.zeros(2), transforms, Protocol())
    observations = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    normalized = (observations - transforms.observation_mean) / transforms.observation_std
    expected = -2.0 + 8.0 * (normalized[..., :1] / 10 + 1) / 2
    np.testing.assert_allclose(act(observations, 0), expected, rtol=1e-5)


def test_rollout_sums_untransformed_rewards_and_episodes_start_alike():
    protocol, starts = Protocol(episodes=3, seed=7), []

    def act(observations, time):
        if time == 0:
            starts.append(observations.copy())
        return np.zeros((2, 3, 1), np.float32)

    returns, success, steps = rollout.rollout(act, PENDULUM, protocol, members=2)
    assert steps == 2 * 3 * 5
    assert rollout.rollout(act, PENDULUM, protocol, members=2, limit=2).steps == 2 * 3 * 2
    assert np.isnan(success).all()  # Pendulum has no success
    np.testing.assert_array_equal(starts[0][0], starts[0][1])
    np.testing.assert_array_equal(returns[0], returns[1])
    assert len(np.unique(returns[0])) == 3
    single = gymnasium.make("Pendulum-v1")
    single.reset(seed=8)
    expected = sum(np.float32(single.step(np.zeros(1, np.float32))[1]) for _ in range(5))
    np.testing.assert_allclose(returns[0, 1], expected, rtol=1e-6)


def test_only_simulators_in_an_episode_are_counted(monkeypatch):
    class Countdown:
        def __init__(self, simulator, seeds, episode_steps):
            self._left = np.array([4, 2, 1, 4])
            self.success = np.zeros(4)

        running = property(lambda self: self._left > 0)

        def reset(self):
            return np.zeros((4, 3), np.float32)

        def step(self, actions):
            self._left = self._left - 1
            return self.reset(), np.zeros(4), None, None

        def close(self):
            pass

    def act(observations, time):
        return np.zeros((2, 2, 1), np.float32)

    monkeypatch.setattr(rollout, "make_environments", Countdown)
    for limit, steps in ((None, 4 + 2 + 1 + 4), (2, 4 + 3)):
        found = rollout.rollout(act, PENDULUM, Protocol(episodes=2), members=2, limit=limit)
        assert found.steps == steps


def test_scores_are_normalized_only_with_a_reference():
    returns = np.array([[-280.178953, -280.178953], [12135.0, 12135.0]])
    reference = Reference(-280.178953, 12135.0, "D4RL halfcheetah")
    results = EpisodeResults(returns, np.full((2, 2), np.nan))
    normalized = score_episodes(results, reference)["normalized"]
    np.testing.assert_allclose(normalized, [0.0, 100.0], atol=1e-9)
    assert score_episodes(results, None).keys() == {"return"}


def test_success_is_scored_as_a_percentage_of_the_episodes():
    returns = np.array([[-200.0, -3.0], [-200.0, np.nan]])
    results = EpisodeResults(returns, np.array([[0.0, 1.0], [1.0, 1.0]]))
    found = score_episodes(results, Reference(0.0, 1.0, "success"), "success")
    assert found["success"][0] == 0.5
    assert found["normalized"][0] == 50.0
    assert found["normalized"][1] is None  # a diverged member


@pytest.mark.parametrize(
    "values",
    [
        {"episodes": 0}, {"candidates": 0}, {"candidates": 10**9}, {"temperature": float("inf")},
        {"softmax_weight": float("nan")}, {"seed": -1}, {"selection": "best"}, {"policy": "target"}, {"n": 1},
        {"checkpoint": "first"}, {"episodes": 2.5}, {"episodes": "x"}, {"seed": True}, {"temperature": "hot"},
    ],
)  # fmt: skip
def test_protocols_round_trip_and_refuse_wrong_values(values):
    protocol = Protocol(5, 3, Acting(4, "softmax", 2.0, 0.5, "online")).describe()
    assert protocol_from(protocol).describe() == protocol
    with pytest.raises(BadInput, match=next(iter(values))):
        protocol_from({**protocol, **values})


def check(environment, **changes):
    data = dataset(**changes)
    check_environment(environment, data.observation_dim, data.action_low, data.action_high)


@pytest.mark.parametrize(("simulator", "message"), [
    ("MountainCarContinuous-v0", "shape"),
    ("CartPole-v1", "continuous actions"),
    ("Nope-v0", "cannot be made"),
    ("this:Env-v0", "imports only if you name it"),
    ("", "an id like Pendulum-v1"),
])  # fmt: skip
def test_a_simulator_that_does_not_fit_the_data_is_refused(simulator, message):
    with pytest.raises(BadInput, match=message):
        check(EnvironmentSpec(simulator, 10))


def test_a_simulator_must_accept_the_actions_of_the_data():
    check(PENDULUM)
    with pytest.raises(BadInput, match="takes actions from -2 to 2"):
        check(PENDULUM, action_low=-9, action_high=9)


def test_simulators_are_closed_after_an_interruption(monkeypatch):
    opened, closed = rollout.make_environments, []

    def make_environments(*arguments):
        simulators = opened(*arguments)
        monkeypatch.setattr(simulators, "close", lambda: closed.append(1))
        return simulators

    def act(observations, time):
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout, "make_environments", make_environments)
    with pytest.raises(KeyboardInterrupt):
        rollout.rollout(act, PENDULUM, Protocol(episodes=2), members=1)
    assert closed == [1]


def test_rendering_is_not_tried_again_after_a_failure(monkeypatch):
    """A second try in the same process has crashed it."""
    tries = []

    def broken(self):
        tries.append(1)
        raise RuntimeError("no display")

    monkeypatch.setattr(film.SerialEnvironments, "render", broken)
    monkeypatch.setattr(film, "render_failures", [])

    def act(observations, time):
        return np.zeros((1, 1, 1))

    with pytest.raises(RuntimeError, match="no display"):
        film.strip(act, PENDULUM, Protocol(), members=1)
    with pytest.raises(BadInput, match="RuntimeError: no display"):
        film.strip(act, EnvironmentSpec("MountainCarContinuous-v0", 5), Protocol(), members=1)
    assert len(tries) == 1
