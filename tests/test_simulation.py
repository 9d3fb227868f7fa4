"""Simulators are made from an id alone, repeat by their seed, and do not disturb one another."""

import os
import subprocess
import sys
import tempfile
import warnings

import gymnasium
import numpy as np
import pytest

from bfq.errors import BadInput
from bfq.simulation.batch import RunnerBatch, Simulators, open_batch
from bfq.simulation.worlds import make_world

MAZE = "ogbench/antmaze-medium-singletask-v0"
SCENE = "ogbench/scene-singletask-task1-v0"


def path(simulators, steps=5, seed=0):
    """Observations along an episode of random actions, the first one included."""
    rng = np.random.default_rng(seed)
    seen = [simulators.reset()]
    for _ in range(steps):
        actions = rng.uniform(
            simulators.action_low, simulators.action_high, (len(seen[0]), len(simulators.action_low))
        )
        seen.append(simulators.step(actions.astype(np.float32))[0])
    return np.array(seen)


def test_an_id_that_would_import_a_module_is_refused():
    with pytest.raises(BadInput, match="not the id of a simulator"):
        make_world("os:Hopper-v4", 10)


def test_an_unknown_id_is_refused_in_a_sentence():
    for simulator in ("NoSuch-v1", "ogbench/no-such-singletask-v0", "bfq/NoSuch"):
        with pytest.raises(BadInput, match=simulator.rpartition("/")[2]):
            make_world(simulator, 10)


@pytest.mark.parametrize(
    ("simulator", "module", "extra"),
    [(MAZE, "ogbench", "ogbench"), ("AdroitHandPen-v1", "gymnasium_robotics", "adroit")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, simulator, module, extra):
    monkeypatch.setitem(sys.modules, module, None)  # importing it now fails as if it were not there
    with pytest.raises(BadInput, match=rf"{module}: pip install 'bfq-rl\[{extra}\]'"):
        make_world(simulator, 10)


def test_the_old_robots_are_made_in_silence_and_their_episodes_end_when_told():
    pytest.importorskip("mujoco")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulators = Simulators("HalfCheetah-v4", [0], 3)
    path(simulators, 2)
    assert simulators.running.all()
    truncated = simulators.step(np.zeros((1, 6), np.float32))[3]
    assert truncated.all()
    assert not simulators.running.any()


def test_a_world_that_tells_nothing_of_success_says_so_by_nan():
    simulators = Simulators("Pendulum-v1", [0, 1], 5)
    path(simulators)
    assert np.isnan(simulators.success).all()


def test_a_world_of_ogbench_without_a_single_task_is_refused():
    pytest.importorskip("ogbench")
    with pytest.raises(BadInput, match="has no reward"):
        make_world("ogbench/cube-single-v0", 10)


@pytest.mark.parametrize("simulator", [MAZE, SCENE, "AdroitHandPen-v1"])
def test_an_episode_repeats_by_its_seed_alone_and_leaves_numpys_generator_as_it_was(simulator):
    pytest.importorskip("ogbench")
    pytest.importorskip("gymnasium_robotics")
    np.random.seed(123)
    expected = np.random.RandomState(123).uniform(size=3)
    first = path(Simulators(simulator, [7, 8], 20))
    np.testing.assert_array_equal(np.random.uniform(size=3), expected)
    again = path(Simulators(simulator, [7, 8], 20))
    np.testing.assert_array_equal(first, again)
    assert (first[0, 0] != first[0, 1]).any()


def test_success_is_that_of_the_last_step():
    pytest.importorskip("ogbench")
    simulators = Simulators(MAZE, [0, 1], 50)
    simulators.reset()
    assert np.isnan(simulators.success).all()
    simulators._envs[1].unwrapped.set_xy(np.array([20.0, 20.0]))  # the goal: row 6, column 6
    rewards, terminated = simulators.step(np.zeros((2, 8), np.float32))[1:3]
    np.testing.assert_array_equal(simulators.success, [0.0, 1.0])
    np.testing.assert_array_equal(rewards, [-1.0, 0.0])
    np.testing.assert_array_equal(terminated, [False, True])


def test_mazes_leave_no_file_behind_and_none_open():
    pytest.importorskip("ogbench")
    make_world(MAZE, 10)  # whatever is opened once, by importing
    files, handles = set(os.listdir(tempfile.gettempdir())), len(os.listdir("/dev/fd"))
    worlds = [make_world(MAZE, 10) for _ in range(5)]
    left = {name for name in set(os.listdir(tempfile.gettempdir())) - files if name.endswith(".xml")}
    assert not left
    assert len(os.listdir("/dev/fd")) == handles
    worlds[0].reset(seed=0)


def test_worlds_that_share_a_model_move_as_a_world_with_a_model_of_its_own():
    pytest.importorskip("ogbench")
    simulators = Simulators(SCENE, [3, 4], 20)
    alone = gymnasium.make(SCENE.removeprefix("ogbench/"), disable_env_checker=True)
    simulators.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bounds that are rounded
        alone.reset(seed=4)
    locked, free = (world.unwrapped for world in simulators._envs)
    assert locked._model is free._model  # 70 MB that need not be kept twice
    locked._cur_button_states = np.array([0, 0])  # locks the drawer and the window from the next step on
    for world in (locked, free, alone.unwrapped):
        world._data.joint("drawer_slide").qvel[0] = -0.5
    action = np.array([0.2, 0.1, 0.3, 0.0, -0.5], np.float32)
    for _ in range(5):
        simulators.step(np.stack([action, action]))
        seen = alone.step(action)[0]
        np.testing.assert_array_equal(simulators.observations[1], seen.astype(np.float32))
    assert free._data.joint("drawer_slide").qpos[0] < locked._data.joint("drawer_slide").qpos[0] - 0.005


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is Linux's")
def test_a_world_can_be_drawn_without_a_screen():
    pytest.importorskip("ogbench")
    program = (  # in a process of its own, since MuJoCo looks for its graphics once
        "from bfq.simulation.batch import Simulators\n"
        f"simulators = Simulators({MAZE!r}, [0], 10, render=True); simulators.reset()\n"
        "frame = simulators.render(); print(frame.shape, frame.std() > 5); simulators.close()"
    )
    bare = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=bare, capture_output=True, text=True, check=False
    )
    if done.returncode and "EGL" in done.stderr:
        pytest.skip(f"no EGL here: {done.stderr.splitlines()[-1]}")
    assert (done.stdout.strip(), done.stderr) == ("(320, 320, 3) True", "")


def test_runners_on_all_cores_give_the_numbers_of_the_wrapped_robots():
    fast = open_batch("HalfCheetah-v4", [3, 4, 5], 1000)
    slow = Simulators("HalfCheetah-v4", [3, 4, 5], 1000)
    assert isinstance(fast, RunnerBatch)
    np.testing.assert_array_equal(fast.reset(), slow.reset())
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.uniform(-1, 1, (3, 6)).astype(np.float32)
        for a, b in zip(fast.step(actions), slow.step(actions), strict=True):
            np.testing.assert_array_equal(a, b)
    fast.close()
    slow.close()


def test_a_robot_that_fell_earns_nothing_more():
    batch = open_batch("Hopper-v4", [0, 1], 1000)
    batch.reset()
    while batch.running.any():
        batch.step(np.ones((2, 3), np.float32))
    _, rewards, terminated, truncated = batch.step(np.ones((2, 3), np.float32))
    assert not rewards.any()
    assert not terminated.any()
    assert not truncated.any()
    batch.close()


def test_another_episode_limit_is_left_to_the_wrapped_robots():
    assert isinstance(open_batch("Hopper-v4", [0], 10), Simulators)
