"""Environments: made from an id alone, repeatable by their seed, independent, and fast without other numbers."""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from bfq.data.readers import d4rl
from bfq.data.replay import replay
from bfq.envs import batch
from bfq.envs.batch import ParallelEnvironments, SerialEnvironments, make_environments
from bfq.envs.make import make_environment, registered_limit
from bfq.envs.robots import (
    GYMNASIUM,
    MAX_STEPS,
    OLD_MASSES,
    SIMULATORS,
    Robots,
    robot_file,
    set_old_masses,
)
from bfq.envs.states import open_replay
from bfq.envs.worker_pool import WorkerPool
from bfq.errors import BadInput

MAZE = "ogbench/antmaze-medium-singletask-v0"
SCENE = "ogbench/scene-singletask-task1-v0"
FILES = Path(__file__).resolve().parents[2] / "shared" / "data" / "d4rl_files"


def path(environments, steps=5, seed=0):
    """Observations along an episode of random actions, the first one included."""
    rng = np.random.default_rng(seed)
    low, high = environments.action_low, environments.action_high
    seen = [environments.reset()]
    for _ in range(steps):
        actions = rng.uniform(low, high, (len(seen[0]), len(low))).astype(np.float32)
        seen.append(environments.step(actions)[0])
    return np.array(seen)


# Ids


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that Gymnasium would import for the id `trap:Env-v0`."""
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return "trap:Env-v0"


def test_a_simulator_never_imports_a_module_named_in_its_id(trap):
    for make in (
        lambda: make_environment(trap, 10), lambda: make_environment(f"ogbench/{trap}", 10),
        lambda: make_environments(trap, [0, 1], 10), lambda: registered_limit(trap),
        lambda: open_replay(trap).__enter__(),
    ):  # fmt: skip
        with pytest.raises(BadInput, match="which bfq imports only if you name it"):
            make()
    assert "trap" not in sys.modules


def test_unknown_ids_and_tasks_without_rewards_are_refused():
    for simulator in ("NoSuch-v1", "ogbench/no-such-singletask-v0", "bfq/NoSuch"):
        with pytest.raises(BadInput, match=simulator.rpartition("/")[2]):
            make_environment(simulator, 10)
    pytest.importorskip("ogbench")
    with pytest.raises(BadInput, match="has no reward"):
        make_environment("ogbench/cube-single-v0", 10)


PACKAGES = [(MAZE, "ogbench", "ogbench"), ("AdroitHandPen-v1", "gymnasium_robotics", "adroit")]


@pytest.mark.parametrize(("simulator", "module", "extra"), PACKAGES)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, simulator, module, extra):
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails as if it were missing
    with pytest.raises(BadInput, match=rf"{module}: pip install 'bfq-rl\[{extra}\]'"):
        make_environment(simulator, 10)


# Episodes


def test_the_v4_robots_cause_no_warnings_and_are_truncated_at_the_limit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environments = SerialEnvironments("HalfCheetah-v4", [0], 3)
    path(environments, 2)
    assert environments.running.all()
    assert environments.step(np.zeros((1, 6), np.float32))[3].all()
    assert not environments.running.any()


@pytest.mark.parametrize("simulator", [MAZE, SCENE, "AdroitHandPen-v1"])
def test_an_episode_depends_on_its_seed_alone_and_leaves_numpys_generator(simulator):
    pytest.importorskip("ogbench")
    pytest.importorskip("gymnasium_robotics")
    np.random.seed(123)
    expected = np.random.RandomState(123).uniform(size=3)
    first = path(SerialEnvironments(simulator, [7, 8], 20))
    np.testing.assert_array_equal(np.random.uniform(size=3), expected)
    np.testing.assert_array_equal(first, path(SerialEnvironments(simulator, [7, 8], 20)))
    assert (first[0, 0] != first[0, 1]).any()


def test_success_is_that_of_the_last_step_and_nan_where_there_is_none():
    environments = SerialEnvironments("Pendulum-v1", [0, 1], 5)
    path(environments)
    assert np.isnan(environments.success).all()
    pytest.importorskip("ogbench")
    environments = SerialEnvironments(MAZE, [0, 1], 50)
    environments.reset()
    assert np.isnan(environments.success).all()
    environments.members[1].unwrapped.set_xy(np.array([20.0, 20.0]))  # the goal: row 6, column 6
    rewards, terminated = environments.step(np.zeros((2, 8), np.float32))[1:3]
    np.testing.assert_array_equal(environments.success, [0.0, 1.0])
    np.testing.assert_array_equal(rewards, [-1.0, 0.0])
    np.testing.assert_array_equal(terminated, [False, True])


def test_mazes_leave_no_file_behind_and_none_open():
    pytest.importorskip("ogbench")
    make_environment(MAZE, 10)  # opens what is opened once, by importing
    folder = Path(tempfile.gettempdir())
    files, handles = set(folder.glob("*.xml")), len(os.listdir("/dev/fd"))
    environments = [make_environment(MAZE, 10) for _ in range(5)]
    assert set(folder.glob("*.xml")) <= files
    assert len(os.listdir("/dev/fd")) == handles
    environments[0].reset(seed=0)


def test_arms_that_share_a_model_move_like_one_with_its_own():
    pytest.importorskip("ogbench")
    environments = SerialEnvironments(SCENE, [3, 4], 20)
    alone = gymnasium.make(SCENE.removeprefix("ogbench/"), disable_env_checker=True)
    environments.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about bounds that are rounded
        alone.reset(seed=4)
    locked, free = (one.unwrapped for one in environments.members)
    assert locked._model is free._model  # 70 MB each
    locked._cur_button_states = np.array([0, 0])  # locks drawer and window from the next step on
    for one in (locked, free, alone.unwrapped):
        one._data.joint("drawer_slide").qvel[0] = -0.5
    action = np.array([0.2, 0.1, 0.3, 0.0, -0.5], np.float32)
    for _ in range(5):
        environments.step(np.stack([action, action]))
        expected = alone.step(action)[0].astype(np.float32)
        np.testing.assert_array_equal(environments.observations[1], expected)
    drawers = [one._data.joint("drawer_slide").qpos[0] for one in (free, locked)]
    assert drawers[0] < drawers[1] - 0.005


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is Linux's")
def test_rendering_needs_no_screen():
    pytest.importorskip("ogbench")
    program = (  # in a new process, since MuJoCo selects its graphics once
        "from bfq.envs.batch import SerialEnvironments\n"
        f"one = SerialEnvironments({MAZE!r}, [0], 10, render=True); one.reset()\n"
        "frame = one.render(); print(frame.shape, frame.std() > 5); one.close()"
    )
    bare = {name: os.environ[name] for name in os.environ if name not in ("DISPLAY", "MUJOCO_GL")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    if done.returncode and "EGL" in done.stderr:
        pytest.skip(f"no EGL here: {done.stderr.splitlines()[-1]}")
    assert (done.stdout.strip(), done.stderr) == ("(320, 320, 3) True", "")


# Robots without wrappers


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_robots_step_bit_for_bit_like_gymnasium(simulator):
    seeds, rng = [3, 1234567, 5], np.random.default_rng(0)
    robots = Robots(simulator, seeds, threads=2)
    singles = [make_environment(simulator, 1000) for _ in seeds]
    first = [one.reset(seed=seed)[0] for one, seed in zip(singles, seeds, strict=True)]
    np.testing.assert_array_equal(robots.reset(), np.float32(first))
    scale = 0.3 if "Hopper" in simulator or "Walker" in simulator else 1.0  # falls later
    for _ in range(120):
        running = robots.running.copy()
        actions = (scale * rng.uniform(-1, 1, (3, robots.action_dim))).astype(np.float32)
        observations, rewards, terminated, _ = robots.step(actions)
        assert not rewards[~running].any()
        for k in np.flatnonzero(running):
            observation, reward, fell, _, _ = singles[k].step(actions[k])
            np.testing.assert_array_equal(observations[k], np.float32(observation))
            assert (rewards[k], terminated[k]) == (np.float32(reward), fell)
    assert "HalfCheetah" in simulator or not robots.running.all()
    robots.close()


def test_robots_are_truncated_after_a_thousand_steps():
    robots = make_environments("HalfCheetah-v4", [0], MAX_STEPS)
    still = np.zeros((1, 6), np.float32)
    assert isinstance(robots, Robots)
    for _ in range(MAX_STEPS - 1):
        assert not robots.step(still)[3].any()
    assert robots.step(still)[3].all()
    assert not robots.running.any()
    assert isinstance(make_environments("HalfCheetah-v4", [0], 10), SerialEnvironments)


def test_a_capsule_weighs_as_a_cylinder_half_a_radius_longer_at_either_end():
    model = mujoco.MjModel.from_xml_path(str(robot_file("hopper.xml")))
    today = model.body_mass.copy()
    set_old_masses(model, robot_file("hopper.xml"))
    radius, half = model.geom("torso_geom").size[:2]
    body = model.body("torso").id
    old = 1000 * np.pi * radius**2 * (2 * half + radius)
    assert model.body_mass[body] == pytest.approx(old)
    assert min(model.body_inertia[body]) == pytest.approx(old * radius**2 / 2)
    assert today[body] == pytest.approx(1000 * np.pi * radius**2 * (2 * half + 4 / 3 * radius))


@pytest.mark.skipif(not FILES.exists(), reason="the genuine files are not here")
@pytest.mark.parametrize("robot", ["halfcheetah", "hopper", "walker2d"])
def test_with_the_old_masses_d4rls_steps_repeat_to_rounding(robot):
    dataset = d4rl.read_d4rl(FILES / f"{robot}_medium-v2.hdf5")
    assert replay(dataset, OLD_MASSES[robot], rows=200)["relative"]["q95"] < 1e-5
    assert replay(dataset, GYMNASIUM[robot], rows=200)["relative"]["q95"] > 1e-3


# Several processes


@pytest.mark.parametrize(
    ("simulator", "steps", "limit"), [("MountainCarContinuous-v0", 8, 6), ("bfq/AntMaze-umaze-v0", 10, 20)]
)  # fmt: skip
def test_environments_in_processes_give_the_numbers_of_one_process(simulator, steps, limit):
    seeds, rng = range(5, 8), np.random.default_rng(0)
    serial = SerialEnvironments(simulator, seeds, limit)
    low, high = serial.action_low, serial.action_high
    with closing(ParallelEnvironments(simulator, seeds, limit, 2)) as parallel:
        np.testing.assert_array_equal(parallel.reset(), serial.reset())
        for _ in range(steps):
            actions = rng.uniform(low, high, (3, len(low))).astype(np.float32)
            for a, b in zip(parallel.step(actions), serial.step(actions), strict=True):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype
            np.testing.assert_array_equal(parallel.running, serial.running)
            np.testing.assert_array_equal(parallel.success, serial.success)
    assert serial.running.all() == (steps < limit)  # environments beyond the limit stood still
    serial.close()


def test_long_evaluations_use_all_cores_and_short_ones_do_not(monkeypatch):
    monkeypatch.setattr(batch, "cores", lambda: 2)
    for seconds, seeds, parallel in (1e9, [0, 1], True), (1e-6, [0, 1], False), (1e9, [0], False):
        monkeypatch.setattr(batch, "seconds_per_step", lambda _, seconds=seconds: seconds)
        with closing(make_environments("Pendulum-v1", seeds, 10)) as opened:
            assert isinstance(opened, ParallelEnvironments) == parallel
    monkeypatch.undo()
    assert 0.0 < batch.seconds_per_step("Pendulum-v1") < 1.0


class Own(gymnasium.Env):
    """An environment of a user's script."""

    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return action, 1.0, False, False, {}


@pytest.mark.parametrize("name", ["Own-v0", "Pendulum-v1"])  # unknown, or another one, elsewhere
def test_an_environment_of_the_users_script_stays_in_its_process(monkeypatch, name):
    monkeypatch.setattr(batch, "cores", lambda: 2)
    monkeypatch.setattr(batch, "seconds_per_step", lambda _: 1e9)
    spec = gymnasium.envs.registration.EnvSpec(name, Own)
    monkeypatch.setitem(gymnasium.registry, name, spec)
    with closing(make_environments(name, [0, 1], 10)) as opened:
        assert isinstance(opened, SerialEnvironments)


def _exit(code):
    os._exit(code)


def test_failures_in_a_process_are_one_sentence():
    with closing(ParallelEnvironments("Pendulum-v1", [0, 1], 10, 2)) as parallel:
        parallel.reset()
        with pytest.raises(BadInput, match=r"the simulator Pendulum-v1 failed: IndexError"):
            parallel.step(np.zeros((2, 0), np.float32))
    with closing(ParallelEnvironments("Pendulum-v1", [0, 1], 10, 2)) as parallel:
        parallel.group.workers[1].process.kill()
        with pytest.raises(BadInput, match=r"Pendulum-v1 stopped: .* died \(exit code -9\)"):
            parallel.reset()
    with WorkerPool(1) as pool, pytest.raises(RuntimeError, match=r"died \(exit code 3\)"):
        pool.submit(_exit, 3).result()


def test_processes_end_with_their_parent():
    program = (
        "import os\nfrom bfq.envs.batch import ParallelEnvironments\n"
        "parallel = ParallelEnvironments('Pendulum-v1', [0, 1], 10, 2); parallel.reset()\n"
        "print(*[worker.process.pid for worker in parallel.group.workers], flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert len(shown.split()) == 2
    deadline = time.monotonic() + 10.0
    while any(map(_runs, shown.split())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid):
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
