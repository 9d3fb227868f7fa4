"""Policies judged by a log: each estimator on a problem whose values are known, and the whole evaluation."""

import json

import numpy as np
import pytest

import bfq
from bfq.cli.main import main
from bfq.offline import training
from bfq.offline.fitted_q import fit_values, q_values
from bfq.offline.log import by_episode, first_rows, returns_to_go, split_log
from bfq.offline.model import fit_model, replay_log, rollouts
from bfq.offline.record import read_offline
from bfq.offline.support import find_support
from bfq.offline.training import EstimatorSizes, Work
from bfq.offline.weighting import log_ratios, weighted_sum

WORK = Work(None, True)
SLIM = {"width": 8, "depth": 1}
SMALL = {"updates": 60, "networks": 2, "width": 8, "quiet": True}


def walks(episodes=12, steps=20, seed=0, rate=0.2, rewards=None):
    """Logged walks s' = s + rate · a from random starts, with reward −s unless another is given."""
    random = np.random.default_rng(seed)
    actions = random.uniform(-1.0, 1.0, (episodes, steps, 1)).astype(np.float32)
    starts = random.uniform(-1.0, 1.0, (episodes, 1, 1))
    states = np.concatenate([starts, starts + rate * np.cumsum(actions, axis=1)], axis=1)
    rows = np.concatenate(states[:, :-1]).astype(np.float32)
    return bfq.from_arrays(
        rows, np.concatenate(actions), -rows[:, 0] if rewards is None else rewards,
        next_observations=np.concatenate(states[:, 1:]).astype(np.float32),
        timeouts=np.tile(np.arange(steps) == steps - 1, episodes), name="walks",
    )  # fmt: skip


def down(observations):
    return np.full((len(observations), 1), -1.0)


def test_returns_of_a_log_and_their_scale():
    log = split_log(walks(5, 4, rewards=np.ones(20)), 0.5, seed=1)
    assert (len(log.held.last_rows), len(log.fit.last_rows)) == (2, 3)
    np.testing.assert_array_equal(first_rows(log.held), [0, 4])
    held = returns_to_go(log.held, log.held.rewards, 0.5)
    np.testing.assert_allclose(held, [1.875, 1.75, 1.5, 1.0] * 2)
    np.testing.assert_array_equal(by_episode(log.held, held), held.reshape(2, 4))
    assert log.center == 2.0  # 1 / (1 − γ)
    np.testing.assert_allclose(log.columns(log.fit)["rewards"], 0.0, atol=1e-7)


def test_what_networks_learn_does_not_depend_on_the_units_of_rewards():
    rewards = np.random.default_rng(0).normal(size=240)
    one, other = (split_log(walks(rewards=r), 0.9) for r in (rewards, 3.0 * rewards + 5.0))
    both = [log.columns(log.fit)["rewards"] for log in (one, other)]
    np.testing.assert_allclose(*both, atol=1e-4)
    np.testing.assert_allclose(one.bounds, other.bounds, rtol=1e-3)
    np.testing.assert_allclose(other.in_units(0.7), 3.0 * one.in_units(0.7) + 50.0, rtol=1e-4)


@pytest.mark.parametrize("ends", [False, True])
def test_fitted_q_finds_the_values_of_a_small_problem(ends):
    """A positive action changes the state; state 1 pays 1. With `ends`, every episode ends when paid."""
    random = np.random.default_rng(0)
    states = random.integers(0, 2, 400)
    actions = random.choice([-1.0, 1.0], 400)
    after = np.where(actions > 0, 1 - states, states)
    over = np.arange(400) % 4 == 3
    terminals = (states == 1) if ends else np.zeros(400, bool)
    data = bfq.from_arrays(
        states[:, None], actions[:, None], states, terminals=terminals, timeouts=over & ~terminals,
        next_observations=after[:, None],
    )  # fmt: skip
    log = split_log(data, 0.5)
    following = np.ones((2, len(log.fit), 1, 1), np.float32)
    following[1] = -1.0  # policy 0 always changes, policy 1 stays
    sizes = EstimatorSizes(networks=2, updates=1000, width=32)
    critics = fit_values(log, following, np.ones((2, len(log.fit)), np.float32), sizes, WORK)
    asked = log.transforms.normalize(np.array([[0.0], [1.0]], np.float32))
    taken = np.broadcast_to(following[:, :1], (2, 2, 1, 1))
    found = log.in_units(q_values(critics, asked, taken))
    # Changing: 0, 1, 0, 1, …; staying: always 0, or always 1.
    truth = [[0.5, 1.0], [0.0, 1.0]] if ends else [[2 / 3, 4 / 3], [0.0, 2.0]]
    np.testing.assert_allclose(found, np.repeat(np.array(truth)[:, None], 2, axis=1), atol=0.05)


def test_weights_are_unbiased_and_doubly_robust_needs_them_or_the_critic():
    """A bandit with reward 2 + a: actions are drawn from N(0, ½), the policy has mean 0.3."""
    actions = np.random.default_rng(0).normal(0.0, 0.5, (100_000, 1))
    rewards, zeros, ones = actions + 2.0, np.zeros_like(actions), np.ones((1, len(actions)))
    drawn = np.full((1, *actions.shape, 1), 0.3)
    ratios = log_ratios(lambda states: (zeros, zeros + 0.5), None, actions, drawn)[0][:, None]
    right, wrong = np.exp(ratios), np.exp(-2.0 * ratios)

    def estimate(weights, q=zeros, value=0.0, normalized=True):
        base = np.full(len(actions), value)
        return weighted_sum(weights, rewards - q, base, normalized, 0.9, ones)[0]

    assert right.mean() == pytest.approx(1.0, abs=0.01)
    assert estimate(right, normalized=False) == pytest.approx(2.3, abs=0.02)
    assert estimate(right) == pytest.approx(2.3, abs=0.02)
    assert estimate(wrong, rewards, 2.3) == pytest.approx(2.3)  # the critic is right
    assert estimate(right, zeros + 7.0, 7.0) == pytest.approx(2.3, abs=0.02)  # the weights are
    assert abs(estimate(wrong, zeros + 7.0, 7.0) - 2.3) > 0.1


def test_episodes_in_the_model_of_linear_dynamics_return_what_real_ones_do():
    log = split_log(walks(200, 10, seed=3), 0.9)
    model = fit_model(log, EstimatorSizes(networks=3, updates=1000, width=32), WORK)
    begin, speeds = np.array([[-0.5], [0.0], [0.5]], np.float32), np.array([0.2, -0.2])

    def act(observations, number):
        return np.broadcast_to(speeds[:, None, None], observations.shape).astype(np.float32)

    def tail(observations, number):
        return np.full(observations.shape[:2], 100.0)

    found = rollouts(log, model, act, begin, 2, tail, True)
    times = np.arange(10)
    states = begin.T + 0.2 * speeds[:, None, None] * times[:, None]  # (policies, steps, starts)
    assert (found.steps, found.discounted.shape) == (10, (2, 3, 3))
    np.testing.assert_allclose(found.undiscounted.mean(1), -states.sum(1), atol=0.3)
    expected = np.einsum("t,pts->ps", -(0.9**times), states) + 0.9**10 * 100.0
    np.testing.assert_allclose(found.discounted.mean(1), expected, atol=0.25)
    assert replay_log(log, model).correlation > 0.98


def test_actions_far_from_logged_ones_are_outside_the_support():
    log = split_log(walks(40, 20), 0.9)
    support = find_support(log)
    rows = (len(support.rows), 1, 1)
    assert support.outside(np.zeros(rows, np.float32)) < 0.1
    assert support.outside(np.full(rows, 3.0, np.float32)) == 1.0
    assert np.isnan(support.outside(np.full(rows, np.nan, np.float32)))


def test_policies_stand_beside_the_log(tmp_path):
    random = np.random.default_rng(5)

    def noisy(observations):
        return random.uniform(-1.0, 1.0, (len(observations), 1))

    sizes = SMALL | {"updates": 300, "width": 16, "discount": 0.9}
    found = bfq.evaluate_offline(
        down, walks(30), beside={"up": lambda o: -down(o), "noise": noisy}, **sizes, out=tmp_path
    )
    assert [one.name for one in found.policies] == ["down", "up", "noise"]
    for name in ("fqe", "model"):
        best, worst, middle = (one.values[name].value for one in found.policies)
        assert best > middle > worst
    assert read_offline(tmp_path) == found
    assert {"offline.json", "offline.png"} <= {file.name for file in tmp_path.iterdir()}
    assert not (tmp_path / "offline").exists()  # the unfinished networks
    assert all(word in str(found) for word in ("the log itself", "noise", "verdict"))


def test_a_killed_evaluation_continues_to_the_same_numbers(tmp_path, monkeypatch):
    def judged(out):
        found = bfq.evaluate_offline(down, walks(), out=out, **SMALL)
        return found.policies, found.fitted_q, found.model

    straight = judged(tmp_path / "straight")
    save, saved = training.save_checkpoint, []

    def killing(folder, done, states, keep):
        save(folder, done, states, keep=keep)
        saved.append((folder.name, done))
        if folder.name == "critics":
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "SAVE_S", 0.0)
    monkeypatch.setattr(training, "save_checkpoint", killing)
    for _ in range(2):  # it is killed twice
        with pytest.raises(KeyboardInterrupt):
            judged(tmp_path / "killed")
    assert 0 < saved[-2][1] < saved[-1][1] < SMALL["updates"]
    monkeypatch.undo()
    assert judged(tmp_path / "killed") == straight


@pytest.mark.parametrize(("policy", "data", "options", "words"), [
    (down, None, {}, "no run whose data could be used"),
    (down, walks(3), {}, "has 3 of at least 4 episodes"),
    (lambda o: o * np.nan, walks(), {}, "returns an action that is not finite"),
    (lambda o: 1 / 0, walks(), {}, "fails on observations of shape"),
    (lambda o: np.zeros((len(o), 7)), walks(), {}, "must return 1 numbers"),
    ("nothing.npz", walks(), {}, "nothing.npz cannot be judged"),
    ("nothing", walks(), {}, "there is no run in nothing"),
    ("json:nothing", walks(), {}, "unknown function in json 'nothing'"),
    (down, walks(), {"discount": 1.0}, "discount must be at least 0 and below 1"),
    (down, walks(), {"held_out": 2.0}, "held_out must be a share"),
    (down, walks(), {"updates": 0}, "updates must be a whole number"),
])  # fmt: skip
def test_bad_input_is_one_sentence_and_leaves_nothing(policy, data, options, words, tmp_path):
    with pytest.raises(bfq.BadInput) as refused:
        bfq.evaluate_offline(policy, data, out=tmp_path / "new", **options, quiet=True)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_the_command_judges_a_run_beside_its_export(tmp_path, capsys):
    run, file = tmp_path / "run", tmp_path / "policy.npz"
    bfq.train(walks(), agent="bc", steps=20, seeds=2, values=SLIM, out=run, quiet=True)
    bfq.export(run, file)
    walks(seed=1).save(tmp_path / "log")
    words = ["evaluate", str(run), "--offline", "--data", str(tmp_path / "log"), "--updates", "20"]
    words += ["--networks", "2", "--beside", str(file), "--json"]
    capsys.readouterr()
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    names = [one["name"] for one in found["policies"]]
    assert names == ["seed 0", "seed 1", str(file)]
    first, exported = found["policies"][0], found["policies"][2]
    assert exported["action_distance"] == pytest.approx(first["action_distance"], rel=1e-3)
    assert found == json.loads((run / "offline.json").read_text())
    for more in (["--episodes", "3"], ["--env", "Pendulum-v1"]):
        assert main([*words, *more]) == 2
    assert main(["evaluate", str(run), "--beside", str(file)]) == 2
