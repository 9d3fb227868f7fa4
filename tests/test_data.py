"""The dataset type, its files, its checks and its transforms."""

import h5py
import numpy as np
import pytest

import bfq
from bfq.data.readers import delimited
from bfq.data.readers.tables import read_table
from bfq.data.transforms import REWARDS, apply_transforms, fit_transforms
from bfq.envs.batch import SerialEnvironments
from bfq.errors import BadInput
from bfq.tasks.catalog import PENDULUM, TASKS
from bfq.tasks.pendulum import BEST, generate_pendulum, random_torque
from bfq.tasks.sources import load_dataset


def columns(n=10, **changes):
    rng = np.random.default_rng(0)
    made = {
        "observations": rng.normal(size=(n, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "rewards": rng.normal(size=n).astype(np.float32),
        "terminals": np.zeros(n, bool),
        "timeouts": np.arange(n) % 5 == 4,
        "next_observations": rng.normal(size=(n, 3)).astype(np.float32),
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


ENDS = {"terminals": np.arange(10) == 9, "timeouts": np.arange(10) == 4}


def test_a_time_out_ends_the_episode_and_keeps_its_mask():
    data = bfq.from_arrays(**columns(**ENDS))
    assert data.masks.tolist() == [1.0] * 9 + [0.0]
    assert np.flatnonzero(data.episode_ends).tolist() == [4, 9]


def test_without_next_observations_rows_are_shifted_and_time_out_rows_left_out():
    # Two episodes of 5 rows, the first timed out, the second terminated: N − 1 time-out = 9 transitions.
    given = columns(**ENDS, next_observations=None)
    data = bfq.from_arrays(**given)
    assert len(data) == 9
    rows = [0, 1, 2, 3, 5, 6, 7, 8, 9]
    np.testing.assert_array_equal(data.observations, given["observations"][rows])
    following = given["observations"][[1, 2, 3, 4, 6, 7, 8, 9]]
    np.testing.assert_array_equal(data.next_observations[:8], following)
    assert data.masks.tolist() == [1.0] * 8 + [0.0]
    assert np.flatnonzero(data.episode_ends).tolist() == [3, 8]


def test_a_log_cut_off_at_its_end_loses_only_its_last_row():
    given = columns(timeouts=np.zeros(10, bool), next_observations=None)
    data = bfq.from_arrays(**given)
    assert len(data) == 9
    assert data.masks.all()
    assert np.flatnonzero(data.episode_ends).tolist() == [8]
    assert any("No episode end" in note for note in data.notes)


def test_rounding_beyond_a_bound_is_clipped_and_a_range_can_be_given():
    data = bfq.from_arrays(**columns(actions=np.full((10, 2), 1.00005)))
    assert data.actions.max() == 1.0
    given = columns(actions=np.full((10, 2), 4.0))
    wide = bfq.from_arrays(**given, action_low=[-4, -8], action_high=[4, 8])
    transforms, unit = fit_transforms(wide), np.array([[1.0, 0.5]], np.float32)
    np.testing.assert_allclose(transforms.to_unit(wide.actions)[:1], unit)
    np.testing.assert_allclose(transforms.from_unit(unit), [[4.0, 4.0]])
    for low, high in [(1.0, -1.0), (-np.inf, 1.0), ([-1.0] * 3, 1.0)]:
        with pytest.raises(BadInput, match="action_low"):
            bfq.from_arrays(**columns(), action_low=low, action_high=high)


def test_a_run_reads_its_data_once(tmp_path, monkeypatch):
    given, reads = columns(), []
    rows = np.c_[given["observations"], given["actions"], given["rewards"], given["terminals"]]
    names = "obs_0,obs_1,obs_2,act_0,act_1,reward,terminal"
    np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header=names, comments="")
    read = delimited.open_csv
    monkeypatch.setattr(delimited, "open_csv", lambda *args: reads.append(args) or read(*args))
    small = {"width": 8, "depth": 1, "batch_size": 4}
    options = {"steps": 2, "seeds": 1, "values": small, "out": tmp_path / "run", "quiet": True}
    assert bfq.train(tmp_path / "log.csv", "bc", **options).record
    assert len(reads) == 1


def test_bad_files_are_refused_and_pickles_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    given = columns(observations=np.array([Bomb()], object))
    np.savez(tmp_path / "pickle.npz", **given, allow_pickle=True)
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 not an archive")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        for name, value in columns(rewards=h5py.SoftLink("/observations")).items():
            file[name] = value
    for name, words in (
        ("pickle.npz", "pickled-objects"), ("torn.npz", "not a readable"),
        ("absent.npz", "no file"), ("link.h5", "has no rewards"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            read_table(tmp_path / name)
    with pytest.raises(BadInput, match="did you mean 'pendulum-mixed'"):
        load_dataset("pendulum-mix")


def test_observations_are_standardized_and_constant_columns_survive():
    seen = np.c_[np.full(1000, 7.0), np.random.default_rng(1).normal(5, 3, (1000, 2))]
    given = columns(1000, observations=seen, actions=np.full((1000, 2), 2.0))
    data = bfq.from_arrays(**given, action_low=-4, action_high=4)
    arrays = apply_transforms(fit_transforms(data, "standardize", "minus_one"), data)
    np.testing.assert_allclose(arrays["observations"].mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(arrays["observations"].std(0), [0.0, 1.0, 1.0], atol=1e-4)
    following = data.next_observations - data.observations.mean(0)
    scale = np.where([True, False, False], 1.0, data.observations.std(0))
    np.testing.assert_allclose(arrays["next_observations"], following / scale, atol=1e-4)
    np.testing.assert_allclose(arrays["actions"], 0.5)
    np.testing.assert_allclose(arrays["rewards"], data.rewards - 1.0, atol=1e-6)
    np.testing.assert_array_equal(arrays["masks"], data.masks)
    same = apply_transforms(fit_transforms(data, "none"), data)["observations"]
    np.testing.assert_array_equal(same, data.observations)
    # A column that varies by rounding only is constant too.
    varying = np.where(np.arange(1000) % 2, 0.1, np.nextafter(np.float32(0.1), np.float32(1)))
    seen = np.c_[varying, np.linspace(-1, 1, 1000), varying]
    data = bfq.from_arrays(**columns(1000, observations=seen))
    assert fit_transforms(data, "standardize").observation_std[0] == 1.0


def test_reward_transforms():
    data = bfq.from_arrays(**columns(rewards=np.arange(10.0)))
    assert data.episode_returns.tolist() == [10.0, 35.0]
    fitted = {name: fit_transforms(data, reward=name).reward for name in REWARDS}
    np.testing.assert_allclose(fitted["return_range"](data.rewards)[1], 1000 / 25)
    np.testing.assert_allclose(fitted["minus_one"](data.rewards)[0], -1.0)
    np.testing.assert_allclose(fitted["cql_antmaze"](np.float32([0, 1])), [-2.0, 2.0])
    np.testing.assert_allclose(fitted["min_max"](np.float32([0, 9])), [-1.0, 1.0])
    scaled = fitted["standardize"](data.rewards)
    np.testing.assert_allclose([scaled.mean(), scaled.std()], [0.0, 1.0], atol=1e-6)
    with pytest.raises(BadInput, match="reward transform"):
        fit_transforms(data, reward="return_rang")
    with pytest.raises(BadInput, match="observation transform"):
        fit_transforms(data, "standardize_")


def test_pendulum_data_is_the_same_for_the_same_seed_and_mixed():
    first, second = generate_pendulum(episodes=20, seed=3), generate_pendulum(episodes=20, seed=3)
    assert first.sha256 == second.sha256 != generate_pendulum(episodes=20, seed=4).sha256
    assert len(first) == 20 * 200
    assert first.masks.all()
    assert first.episode_ends.sum() == 20
    assert first.episode_returns.max() > -400
    assert first.episode_returns.min() < -800
    inside, following = ~first.episode_ends, first.next_observations
    np.testing.assert_array_equal(following[inside], first.observations[1:][inside[:-1]])


def test_pendulum_reference_is_what_its_controllers_reach():
    rng, reference = np.random.default_rng(0), TASKS[PENDULUM].reference
    for controller, expected in ((random_torque, reference.low), (BEST, reference.high)):
        simulators = SerialEnvironments("Pendulum-v1", range(500_000, 500_100), 200)
        observations, total = simulators.reset(), np.zeros(100)
        while simulators.running.any():
            observations, rewards, _, _ = simulators.step(controller(observations, rng))
            total += rewards
        assert abs(total.mean() - expected) < 4 * total.std() / 10


def test_masked_arrays_and_words_for_bounds_are_refused():
    with pytest.raises(BadInput, match="masked"):
        bfq.from_arrays(**columns(rewards=np.ma.masked_equal(np.arange(10.0), 3)))
    for low in ("x", 1j):
        with pytest.raises(BadInput, match="action_low"):
            bfq.from_arrays(**columns(), action_low=low)
    with pytest.raises(BadInput, match="name must be"):
        bfq.from_arrays(**columns(), name="<script>")
