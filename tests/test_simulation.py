"""SerialEnvironments are made from an id alone, repeat by their seed, and do not disturb one another."""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from bfq.envs import batch
from bfq.envs.batch import (
    ParallelEnvironments,
    SerialEnvironments,
    make_environments,
    seconds_per_step,
)
from bfq.envs.make import make_environment, registered_limit
from bfq.envs.robots import RobotEnvironments
from bfq.envs.states import open_replay
from bfq.errors import BadInput
from bfq.run import RunConfig, read_config, write_config

MAZE = "ogbench/antmaze-medium-singletask-v0"
SCENE = "ogbench/scene-singletask-task1-v0"


def path(simulators, steps=5, seed=0):
    """Observations along an episode of random actions, the first one included."""
    rng = np.random.default_rng(seed)
    seen = [simulators.reset()]
    for _ in range(steps):
        actions = rng.uniform(
            simulators.action_low,
            simulators.action_high,
            (len(seen[0]), len(simulators.action_low)),
        )
        seen.append(simulators.step(actions.astype(np.float32))[0])
    return np.array(seen)


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that Gymnasium would import for the id `trap:Env-v0`."""
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return "trap:Env-v0"


def test_a_simulator_never_imports_a_module_named_in_its_id(trap):
    for make in (
        lambda: make_environment(trap, 10),
        lambda: make_environment(f"ogbench/{trap}", 10),
        lambda: make_environments(trap, [0, 1], 10),
        lambda: registered_limit(trap),
        lambda: open_replay(trap).__enter__(),
    ):
        with pytest.raises(BadInput, match="simulator must be an id like Pendulum-v1"):
            make()
    assert "trap" not in sys.modules


def test_a_run_record_with_a_module_as_its_simulator_is_refused(trap, tmp_path):
    config = RunConfig(
        task="log.npz", agent="bc", config={"steps": 1}, varied={}, seeds=[0], data={},
        evaluation={}, evaluations=0, simulator="Pendulum-v1", episode_steps=5, reference=None, chunk=1,
    )  # fmt: skip
    write_config(tmp_path, config)
    assert read_config(tmp_path).simulator == "Pendulum-v1"
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace("Pendulum-v1", trap))
    with pytest.raises(BadInput, match="config.json: simulator: "):
        read_config(tmp_path)
    assert "trap" not in sys.modules


def test_an_unknown_id_is_refused_in_a_sentence():
    for simulator in ("NoSuch-v1", "ogbench/no-such-singletask-v0", "bfq/NoSuch"):
        with pytest.raises(BadInput, match=simulator.rpartition("/")[2]):
            make_environment(simulator, 10)


@pytest.mark.parametrize(
    ("simulator", "module", "extra"),
    [(MAZE, "ogbench", "ogbench"), ("AdroitHandPen-v1", "gymnasium_robotics", "adroit")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch, simulator, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)  # importing it now fails as if it were not there
    with pytest.raises(BadInput, match=rf"{module}: pip install 'bfq-rl\[{extra}\]'"):
        make_environment(simulator, 10)


def test_the_old_robots_are_made_in_silence_and_their_episodes_end_when_told():
    pytest.importorskip("mujoco")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulators = SerialEnvironments("HalfCheetah-v4", [0], 3)
    path(simulators, 2)
    assert simulators.running.all()
    truncated = simulators.step(np.zeros((1, 6), np.float32))[3]
    assert truncated.all()
    assert not simulators.running.any()


def test_a_world_that_tells_nothing_of_success_says_so_by_nan():
    simulators = SerialEnvironments("Pendulum-v1", [0, 1], 5)
    path(simulators)
    assert np.isnan(simulators.success).all()


def test_a_world_of_ogbench_without_a_single_task_is_refused():
    pytest.importorskip("ogbench")
    with pytest.raises(BadInput, match="has no reward"):
        make_environment("ogbench/cube-single-v0", 10)


@pytest.mark.parametrize("simulator", [MAZE, SCENE, "AdroitHandPen-v1"])
def test_an_episode_repeats_by_its_seed_alone_and_leaves_numpys_generator_as_it_was(simulator):
    pytest.importorskip("ogbench")
    pytest.importorskip("gymnasium_robotics")
    np.random.seed(123)
    expected = np.random.RandomState(123).uniform(size=3)
    first = path(SerialEnvironments(simulator, [7, 8], 20))
    np.testing.assert_array_equal(np.random.uniform(size=3), expected)
    again = path(SerialEnvironments(simulator, [7, 8], 20))
    np.testing.assert_array_equal(first, again)
    assert (first[0, 0] != first[0, 1]).any()


def test_success_is_that_of_the_last_step():
    pytest.importorskip("ogbench")
    simulators = SerialEnvironments(MAZE, [0, 1], 50)
    simulators.reset()
    assert np.isnan(simulators.success).all()
    simulators.members[1].unwrapped.set_xy(np.array([20.0, 20.0]))  # the goal: row 6, column 6
    rewards, terminated = simulators.step(np.zeros((2, 8), np.float32))[1:3]
    np.testing.assert_array_equal(simulators.success, [0.0, 1.0])
    np.testing.assert_array_equal(rewards, [-1.0, 0.0])
    np.testing.assert_array_equal(terminated, [False, True])


def test_mazes_leave_no_file_behind_and_none_open():
    pytest.importorskip("ogbench")
    make_environment(MAZE, 10)  # whatever is opened once, by importing
    files, handles = set(os.listdir(tempfile.gettempdir())), len(os.listdir("/dev/fd"))
    worlds = [make_environment(MAZE, 10) for _ in range(5)]
    left = {
        name for name in set(os.listdir(tempfile.gettempdir())) - files if name.endswith(".xml")
    }
    assert not left
    assert len(os.listdir("/dev/fd")) == handles
    worlds[0].reset(seed=0)


def test_worlds_that_share_a_model_move_as_a_world_with_a_model_of_its_own():
    pytest.importorskip("ogbench")
    simulators = SerialEnvironments(SCENE, [3, 4], 20)
    alone = gymnasium.make(SCENE.removeprefix("ogbench/"), disable_env_checker=True)
    simulators.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bounds that are rounded
        alone.reset(seed=4)
    locked, free = (world.unwrapped for world in simulators.members)
    assert locked._model is free._model  # 70 MB that need not be kept twice
    locked._cur_button_states = np.array(
        [0, 0]
    )  # locks the drawer and the window from the next step on
    for world in (locked, free, alone.unwrapped):
        world._data.joint("drawer_slide").qvel[0] = -0.5
    action = np.array([0.2, 0.1, 0.3, 0.0, -0.5], np.float32)
    for _ in range(5):
        simulators.step(np.stack([action, action]))
        seen = alone.step(action)[0]
        np.testing.assert_array_equal(simulators.observations[1], seen.astype(np.float32))
    assert (
        free._data.joint("drawer_slide").qpos[0]
        < locked._data.joint("drawer_slide").qpos[0] - 0.005
    )


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is Linux's")
def test_a_world_can_be_drawn_without_a_screen():
    pytest.importorskip("ogbench")
    program = (  # in a process of its own, since MuJoCo looks for its graphics once
        "from bfq.envs.batch import SerialEnvironments\n"
        f"simulators = SerialEnvironments({MAZE!r}, [0], 10, render=True); simulators.reset()\n"
        "frame = simulators.render(); print(frame.shape, frame.std() > 5); simulators.close()"
    )
    bare = {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=bare, capture_output=True, text=True, check=False
    )
    if done.returncode and "EGL" in done.stderr:
        pytest.skip(f"no EGL here: {done.stderr.splitlines()[-1]}")
    assert (done.stdout.strip(), done.stderr) == ("(320, 320, 3) True", "")


def test_runners_on_all_cores_give_the_numbers_of_the_wrapped_robots():
    fast = make_environments("HalfCheetah-v4", [3, 4, 5], 1000)
    slow = SerialEnvironments("HalfCheetah-v4", [3, 4, 5], 1000)
    assert isinstance(fast, RobotEnvironments)
    np.testing.assert_array_equal(fast.reset(), slow.reset())
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.uniform(-1, 1, (3, 6)).astype(np.float32)
        for a, b in zip(fast.step(actions), slow.step(actions), strict=True):
            np.testing.assert_array_equal(a, b)
    fast.close()
    slow.close()


def test_a_robot_that_fell_earns_nothing_more():
    fallen = make_environments("Hopper-v4", [0, 1], 1000)
    fallen.reset()
    while fallen.running.any():
        fallen.step(np.ones((2, 3), np.float32))
    _, rewards, terminated, truncated = fallen.step(np.ones((2, 3), np.float32))
    assert not rewards.any()
    assert not terminated.any()
    assert not truncated.any()
    fallen.close()


def test_another_episode_limit_is_left_to_the_wrapped_robots():
    assert isinstance(make_environments("Hopper-v4", [0], 10), SerialEnvironments)


# On all cores


def same_numbers(simulator, count, steps, episode_steps):
    """Steps the same worlds in one process and in two, and compares everything they tell."""
    seeds, rng = range(5, 5 + count), np.random.default_rng(0)
    serial = SerialEnvironments(simulator, seeds, episode_steps)
    low, high = serial.action_low, serial.action_high
    with closing(ParallelEnvironments(simulator, seeds, episode_steps, 2)) as spread:
        np.testing.assert_array_equal(spread.reset(), serial.reset())
        for _ in range(steps):
            actions = rng.uniform(low, high, (count, len(low))).astype(np.float32)
            for a, b in zip(spread.step(actions), serial.step(actions), strict=True):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype
            np.testing.assert_array_equal(spread.running, serial.running)
            np.testing.assert_array_equal(spread.success, serial.success)
    serial.close()
    return serial


def test_simulators_in_processes_give_the_numbers_of_one_process():
    serial = same_numbers("MountainCarContinuous-v0", 3, 8, 6)
    assert not serial.running.any()  # all were cut off, and stood still


def test_antmazes_in_processes_give_the_numbers_of_one_process():
    pytest.importorskip("mujoco")
    same_numbers("bfq/AntMaze-umaze-v0", 3, 10, 20)


def test_long_evaluations_use_all_cores_and_short_ones_do_not(monkeypatch):
    monkeypatch.setattr(batch, "cores", lambda: 2)
    for seconds, kind in ((1e9, ParallelEnvironments), (1e-6, SerialEnvironments)):
        monkeypatch.setattr(batch, "seconds_per_step", lambda _, seconds=seconds: seconds)
        with closing(make_environments("Pendulum-v1", [0, 1], 10)) as opened:
            assert isinstance(opened, kind)
    monkeypatch.setattr(batch, "seconds_per_step", lambda _: 1e9)
    with closing(make_environments("Pendulum-v1", [0], 10)) as opened:
        assert isinstance(opened, SerialEnvironments)
    assert 0.0 < seconds_per_step("Pendulum-v1") < 1.0


class Own(gymnasium.Env):
    """A world of a user's script."""

    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return action, 1.0, False, False, {}


def test_a_world_that_only_the_users_script_knows_stays_in_its_process(monkeypatch):
    monkeypatch.setattr(batch, "cores", lambda: 2)
    monkeypatch.setattr(batch, "seconds_per_step", lambda _: 1e9)
    for name in (
        "Own-v0",
        "Pendulum-v1",
    ):  # unknown to another process, and known as something else
        monkeypatch.setitem(
            gymnasium.registry, name, gymnasium.envs.registration.EnvSpec(name, Own)
        )
        with closing(make_environments(name, [0, 1], 10)) as opened:
            assert isinstance(opened, SerialEnvironments)


def test_what_goes_wrong_in_a_process_is_one_sentence():
    with closing(ParallelEnvironments("Pendulum-v1", [0, 1], 10, 2)) as spread:
        spread.reset()
        with pytest.raises(BadInput, match=r"the simulator Pendulum-v1 failed: IndexError"):
            spread.step(np.zeros((2, 0), np.float32))
    with closing(ParallelEnvironments("Pendulum-v1", [0, 1], 10, 2)) as spread:
        spread.workers[1].kill()
        with pytest.raises(BadInput, match=r"Pendulum-v1 stopped: .* died \(exit code -9\)"):
            spread.reset()


def test_processes_end_with_the_one_who_started_them():
    program = (
        "import os\nfrom bfq.envs.batch import ParallelEnvironments\n"
        "spread = ParallelEnvironments('Pendulum-v1', [0, 1], 10, 2); spread.reset()\n"
        "print(*[worker.pid for worker in spread.workers], flush=True); os.kill(os.getpid(), 9)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    pids = [int(word) for word in told.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 10.0
    while any(Path(f"/proc/{pid}").exists() and _runs(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid):
    """Whether a process is more than a name that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
