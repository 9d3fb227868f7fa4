"""What a policy sees and does in the simulator, and what is made of it."""

import numpy as np
import pytest

import bfq
from bfq.agents import Acting
from bfq.data.transforms import fit_transforms
from bfq.errors import BadInput
from bfq.evaluation import film as film_module
from bfq.evaluation import rollout as module
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.evaluation.rollout import Episodes, World, check_world, population_act, rollout
from bfq.evaluation.scores import scores
from bfq.run import Reference


class FakePopulation:
    """Members whose action is a known function of what they see."""

    keys, configs, members = np.zeros((2, 0)), np.zeros(2), (0, 1)

    class agent:  # noqa: N801 - stands where an Agent stands
        @staticmethod
        def act(*_):
            raise AssertionError("replaced below")


def test_policies_see_normalized_observations_and_act_in_the_worlds_units(monkeypatch):
    data = bfq.from_arrays(
        observations=np.random.default_rng(0).normal(5.0, 2.0, (100, 3)),
        actions=np.zeros((100, 1)), rewards=np.zeros(100), timeouts=np.arange(100) == 99,
        action_low=-2.0, action_high=6.0,
    )  # fmt: skip
    transforms = fit_transforms(data)
    seen = []

    def policy(states, observations, keys, configs, time):
        seen.append(np.asarray(observations))
        return np.full((2, 4, 1), 0.5, np.float32)

    monkeypatch.setattr(module, "_compiled_act", lambda act, acting: policy)
    act = population_act(FakePopulation, None, transforms, Protocol())
    observations = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(act(observations, 0), 4.0)  # −2 + ¾ · 8
    expected = (observations - transforms.observation_mean) / transforms.observation_std
    np.testing.assert_allclose(seen[0], expected, rtol=1e-5)


def test_rollout_sums_untransformed_rewards_and_starts_alike():
    world, protocol = World("Pendulum-v1", 5), Protocol(episodes=3, seed=7)
    starts = []

    def act(observations, time):
        if time == 0:
            starts.append(observations.copy())
        return np.zeros((2, 3, 1), np.float32)

    returns, success = rollout(act, world, protocol, members=2)
    assert np.isnan(success).all()  # a pendulum does not tell
    np.testing.assert_array_equal(starts[0][0], starts[0][1])
    np.testing.assert_array_equal(returns[0], returns[1])
    assert len(np.unique(returns[0])) == 3
    import gymnasium

    single = gymnasium.make("Pendulum-v1")
    single.reset(seed=8)
    expected = sum(np.float32(single.step(np.zeros(1, np.float32))[1]) for _ in range(5))
    np.testing.assert_allclose(returns[0, 1], expected, rtol=1e-6)


def test_scores_are_normalized_only_with_a_reference():
    returns = np.array([[-280.178953, -280.178953], [12135.0, 12135.0]])
    reference = Reference(-280.178953, 12135.0, "D4RL halfcheetah")
    episodes = Episodes(returns, np.full((2, 2), np.nan))
    np.testing.assert_allclose(scores(episodes, reference)["normalized"], [0.0, 100.0], atol=1e-9)
    assert scores(episodes, None)["normalized"] is None
    assert "success" not in scores(episodes, None)


def test_success_is_scored_in_per_cent_of_the_episodes():
    episodes = Episodes(
        np.array([[-200.0, -3.0], [-200.0, np.nan]]), np.array([[0.0, 1.0], [1.0, 1.0]])
    )
    found = scores(episodes, Reference(0.0, 1.0, "success"), "success")
    assert found["success"][0] == 0.5
    assert found["normalized"][0] == 50.0
    assert np.isnan(found["normalized"][1])  # a member that diverged


def test_protocols_round_trip_and_refuse_what_cannot_be():
    protocol = Protocol(5, 3, Acting(4, "softmax", 2.0, 0.5, "online"))
    assert protocol_from(protocol.describe()) == protocol
    for values in (
        {"episodes": 0}, {"candidates": 0}, {"candidates": 10**9}, {"temperature": float("inf")},
        {"softmax_weight": float("nan")}, {"seed": -1}, {"selection": "best"}, {"policy": "target"}, {"n": 1},
        {"checkpoint": "best"}, {"episodes": 2.5}, {"episodes": "x"}, {"seed": True}, {"temperature": "hot"},
    ):  # fmt: skip
        with pytest.raises(BadInput):
            protocol_from(values)


def test_a_simulator_that_does_not_fit_is_refused_before_training():
    data = bfq.from_arrays(
        np.zeros((9, 3)), np.zeros((9, 1)), np.zeros(9), timeouts=np.arange(9) == 8
    )
    check_world(World("Pendulum-v1", 10), data)
    for simulator, words in [
        ("MountainCarContinuous-v0", "shape"),
        ("CartPole-v1", "not vectors"),
        ("Nope-v0", "cannot be made"),
        ("this:Env-v0", "an id like Pendulum-v1"),
        ("", "an id like Pendulum-v1"),
    ]:
        with pytest.raises(BadInput, match=words):
            check_world(World(simulator, 10), data)
    wide = bfq.from_arrays(
        np.zeros((9, 3)),
        np.zeros((9, 1)),
        np.zeros(9),
        timeouts=np.arange(9) == 8,
        action_low=-9,
        action_high=9,
    )
    with pytest.raises(BadInput, match="takes actions from -2 to 2"):
        check_world(World("Pendulum-v1", 10), wide)


def test_simulators_are_closed_whatever_happens(monkeypatch):
    opened, closed = module.make_environments, []

    def make_environments(*arguments):
        simulators = opened(*arguments)
        monkeypatch.setattr(simulators, "close", lambda: closed.append(1))
        return simulators

    def act(observations, time):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "make_environments", make_environments)
    with pytest.raises(KeyboardInterrupt):
        rollout(act, World("Pendulum-v1", 5), Protocol(episodes=2), members=1)
    assert closed == [1]


def test_graphics_that_failed_are_not_asked_again(monkeypatch):
    """The first failure is an error; a second try in the same process has been seen to end it."""
    tries = []

    def broken(self):
        tries.append(1)
        raise RuntimeError("no display")

    monkeypatch.setattr(film_module.SerialEnvironments, "render", broken)
    monkeypatch.setattr(film_module, "_failures", [])

    def act(observations, time):
        return np.zeros((1, 1, 1))

    with pytest.raises(RuntimeError, match="no display"):
        film_module.strip(act, World("Pendulum-v1", 5), Protocol(), members=1)
    with pytest.raises(BadInput, match="graphics failed before: RuntimeError: no display"):
        film_module.strip(act, World("MountainCarContinuous-v0", 5), Protocol(), members=1)
    assert len(tries) == 1
