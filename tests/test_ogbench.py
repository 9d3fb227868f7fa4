"""OGBench's files, rewards and play data agree with the package that defines them."""

import functools
import warnings

import gymnasium
import numpy as np
import pytest

from bfq.data.readers.ogbench import LAYOUTS, layout_and_goal, read_ogbench, relabel
from bfq.envs.batch import SerialEnvironments
from bfq.envs.ogbench import numpy_seeded
from bfq.errors import BadInput
from bfq.tasks.ogbench import PlayBlock, is_visible
from bfq.tasks.recipes import recipe_for

ogbench = pytest.importorskip("ogbench")
ANT = "antmaze-large-navigate-singletask-v0"
COLUMNS = ("observations", "actions", "next_observations", "rewards", "masks")


@functools.cache
def package_environment(name):
    """The package's own environment; its task is set later, since building it takes a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about bounds that are rounded
        return gymnasium.make(f"{name}-singletask-v0", disable_env_checker=True)


def package_labels(name, number, columns):
    environment = package_environment(name)
    environment.unwrapped._reward_task_id = number
    columns = dict(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ogbench.relabel_utils.relabel_dataset(f"{name}-singletask-v0", environment, columns)
    return columns["rewards"], columns["masks"]


def states_near(goal, width, size=4000, dtype=np.float32):
    """States on both sides of the goal's thresholds, and some on them."""
    rng = np.random.default_rng(0)
    qpos = rng.normal(size=(size, width))
    axes = len(goal.point)
    ways = rng.normal(size=(size, axes))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    ways *= rng.choice([0.0, 0.999999, 1.0, 1.000001, 1.6], (size, 1))
    qpos[:, goal.start : goal.start + axes] = np.array(goal.point) + goal.tolerance * ways
    for index, value in goal.joints:
        qpos[:, index] = value + rng.choice([-0.05, -0.04, 0.0, 0.04, 0.0400001], size)
    return qpos.astype(dtype), rng.integers(0, 2, (size, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [
    *("antmaze-medium", "antmaze-large", "antmaze-giant", "antmaze-teleport"),
    *("humanoidmaze-medium", "pointmaze-large", "cube-single", "scene"),
])  # fmt: skip
def test_rewards_are_exactly_those_of_the_package(name, dtype):
    for number in range(1, 6):
        goal = layout_and_goal(f"{name}-singletask-task{number}-v0")[1]
        qpos, buttons = states_near(goal, LAYOUTS[name].qpos, dtype=dtype)
        rewards, masks = relabel(goal, qpos, buttons)
        expected = package_labels(name, number, {"qpos": qpos, "button_states": buttons})
        np.testing.assert_array_equal(rewards, expected[0])
        np.testing.assert_array_equal(masks, expected[1])
        parts = 5 if name == "scene" else 1
        assert set(rewards) == set(range(-parts, 1))  # every number of satisfied parts occurred
        np.testing.assert_array_equal(masks == 0, rewards == 0)


SIZES = ["antmaze-giant", "humanoidmaze-large", "pointmaze-medium", "cube-single", "scene"]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_simulator(name):
    environments = SerialEnvironments(f"ogbench/{name}-singletask-v0", [0], 5)
    environments.reset()
    bare = environments.members[0].unwrapped
    sizes = (environments.observations.shape[1], len(bare.data.qpos), bare._reward_task_id)
    layout = LAYOUTS[name]
    assert sizes == (layout.observation, layout.qpos, layout.default)


def maze_file(path, change=None):
    """A file of an ant's trajectories of 6, 1 and 4 states; the first passes the goal."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(11, 29)).astype(np.float32)
    states[2, :2] = [36.0, 24.0]  # row 7, column 10
    actions, ends = rng.uniform(-1, 1, (11, 8)), np.isin(np.arange(11), [5, 6, 10])
    columns = {"observations": states, "actions": actions.astype(np.float32), "terminals": ends,
               "qpos": states[:, :15], "qvel": states[:, 15:], **(change or {})}  # fmt: skip
    np.savez(path, **{name: column for name, column in columns.items() if column is not None})
    return path


def test_a_file_is_read_as_the_package_reads_it(tmp_path):
    path = maze_file(tmp_path / "antmaze.npz")
    dataset = read_ogbench(path, ANT)
    theirs = ogbench.load_dataset(path, add_info=True)
    theirs["rewards"], theirs["masks"] = package_labels("antmaze-large", 1, theirs)
    assert len(dataset) == 5 + 0 + 3
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(dataset, name), theirs[name], err_msg=name)
        assert getattr(dataset, name).dtype == np.float32
    np.testing.assert_array_equal(dataset.episode_ends, theirs["terminals"] == 1)
    for name in ("qpos", "qvel"):
        np.testing.assert_array_equal(dataset.infos[name], theirs[name])


def test_success_within_a_trajectory_ends_the_value_and_not_the_episode(tmp_path):
    path = maze_file(tmp_path / "antmaze.npz")
    dataset = read_ogbench(path, ANT)
    np.testing.assert_array_equal(dataset.masks, [1, 1, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(dataset.rewards, dataset.masks * -1)
    np.testing.assert_array_equal(np.flatnonzero(dataset.episode_ends), [4, 7])
    shifted = read_ogbench(path, ANT, reward_on="next_state")
    np.testing.assert_array_equal(shifted.masks, [1, 0, 1, 1, 1, 1, 1, 1])
    assert any("after the action" in note for note in shifted.notes)
    assert "on the next state" in shifted.source
    with pytest.raises(BadInput, match="not to 'goal'"):
        read_ogbench(path, ANT, reward_on="goal")


def test_a_task_has_one_goal_whatever_its_name_says_about_the_data():
    names = ("cube-single-play-singletask-v0", "cube-single-singletask-task2-v0")
    first, second = map(layout_and_goal, names)
    assert first == second
    assert layout_and_goal("scene-play-singletask-task4-v0")[1].buttons == (1, 0)
    with pytest.raises(BadInput, match="antmaze-large"):
        layout_and_goal("antmaze-larg-navigate-singletask-v0")
    with pytest.raises(BadInput, match="not a single task"):
        layout_and_goal("cube-single-play-v0")


@pytest.mark.parametrize(("change", "sentence"), [
    ({"qpos": None}, "does not have the layout"),
    ({"next_observations": np.zeros((11, 29))}, "does not have the layout"),
    ({"qpos": np.zeros((11, 21))}, "a file of another environment"),
    ({"qpos": np.zeros((4, 15))}, "one row per state"),
    ({"qpos": np.full((11, 15), np.nan)}, "finite"),
    ({"actions": np.full((11, 8), 3.0)}, "leave their range in row 0"),
    ({"terminals": np.zeros(11)}, "does not end a trajectory"),
    ({"terminals": np.ones(11)}, "no transition"),
    ({"observations": np.array([{}] * 11)}, "not a readable npz file"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(tmp_path, change, sentence):
    with pytest.raises(BadInput, match=sentence):
        read_ogbench(maze_file(tmp_path / "antmaze.npz", change=change), ANT)


def test_files_without_arrays_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no arrays here")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("text.npz", "one.npy", "nowhere.npz"):
        with pytest.raises(BadInput, match=name):
            read_ogbench(tmp_path / name, ANT)


@functools.cache
def play(scene, index=0, steps=60, episodes=2):
    return PlayBlock(scene, episodes=episodes, steps=steps)(5, index)


@pytest.mark.parametrize("scene", ["cube-single", "scene"])
def test_play_data_is_whole_episodes_with_the_rewards_of_the_task(scene):
    block = play(scene)
    np.testing.assert_array_equal(np.flatnonzero(block.episode_ends), [59, 119])
    inside, following = ~block.episode_ends[:-1], block.next_observations
    np.testing.assert_array_equal(following[:-1][inside], block.observations[1:][inside])
    assert (following[59] != block.observations[60]).any()
    assert np.abs(block.actions).max() <= 1.0
    _, goal = layout_and_goal(f"{scene}-singletask-task2-v0")
    qpos = block.infos["qpos"]
    rewards, masks = relabel(goal, qpos, block.infos.get("button_states"))
    np.testing.assert_array_equal(block.rewards, rewards)
    np.testing.assert_array_equal(block.masks, masks)
    np.testing.assert_allclose(block.observations[:, :6], qpos[:, :6], rtol=1e-6)  # the arm
    cube = block.observations[:, 19:22] / 10 + [0.425, 0, 0]
    np.testing.assert_allclose(cube, qpos[:, 14:17], atol=1e-6)


def test_play_data_depends_on_seed_and_index_alone():
    np.random.seed(0)
    block = play("cube-single")
    np.random.seed(1)
    again, other = play.__wrapped__("cube-single"), play("cube-single", 1, 5, 1)
    assert block.sha256 == again.sha256
    assert block.infos["qpos"].tobytes() == again.infos["qpos"].tobytes()
    assert (block.observations[0] != other.observations[0]).any()


def test_play_moves_the_cube_and_records_how_subtasks_end():
    block = play("cube-single", 2, 130, 1)  # a subtask takes about 90 steps
    cube = block.infos["qpos"][:, 14:17]
    assert cube[:, 2].max() > 0.08  # lifted
    assert np.linalg.norm(cube[-1, :2] - cube[0, :2]) > 0.05
    ends = set(np.unique(play("cube-single", 1, 130).infos["subtask"]))
    assert {0.0, 2.0} <= ends <= {0.0, 1.0, 2.0}


def test_play_data_in_ogbenchs_layout_is_read_back_as_the_same_transitions(tmp_path):
    block = play("scene")
    last = np.flatnonzero(block.episode_ends)
    columns = {"observations": block.observations, "actions": block.actions,
               "terminals": np.zeros(len(block), bool), **block.infos}  # fmt: skip
    final = {name: column[last] for name, column in columns.items()}
    final |= {"observations": block.next_observations[last], "terminals": True}
    # One more state per trajectory, of which only the observation is used.
    longer = {name: np.insert(columns[name], last + 1, final[name], axis=0) for name in columns}
    np.savez(tmp_path / "scene.npz", **longer)
    dataset = read_ogbench(tmp_path / "scene.npz", "scene-play-singletask-v0")
    for name in (*COLUMNS, "episode_ends"):
        np.testing.assert_array_equal(getattr(dataset, name), getattr(block, name), err_msg=name)


def test_a_cube_in_the_drawer_is_visible_and_one_beyond_the_edges_is_not():
    assert is_visible(np.array([[0.4, 0.1, 0.02], [0.33, -0.356, 0.066]]))
    assert not is_visible(np.array([[0.4, 0.1, 0.02], [0.4, 0.29, 0.02]]))
    assert not is_visible(np.array([[0.4, -0.31, 0.02], [0.4, 0.0, 0.02]]))
    with pytest.raises(BadInput, match="cube-single"):
        recipe_for("local/cube-singel-play")


def test_an_oracle_solves_the_single_task_and_its_rewards_are_those_of_the_data():
    from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

    environments = SerialEnvironments("ogbench/cube-single-singletask-task2-v0", [3], 200)
    environments.reset()
    bare = environments.members[0].unwrapped
    goal_of_block = {"": 0, "_pos": np.array([0.5, 0.0, 0.02]), "_yaw": np.zeros(1)}
    subtask = {f"privileged/target_block{end}": value for end, value in goal_of_block.items()}
    oracle, states, received = CubePlanOracle(env=bare, noise=0.0), [], []
    with numpy_seeded(0):
        oracle.reset(None, {**bare.compute_ob_info(), **subtask})
    while environments.running.any():
        states.append(bare.data.qpos.copy())
        action = oracle.select_action(None, bare.compute_ob_info())
        reward, terminated = environments.step(action[None].astype(np.float32))[1:3]
        received.append(reward[0])
    assert environments.success[0] == 1.0
    assert terminated[0]
    _, goal = layout_and_goal("cube-single-singletask-task2-v0")
    rewards, masks = relabel(goal, np.array(states), None)
    np.testing.assert_array_equal(rewards, received)
    last = [len(received) - 1]  # success ends the episode at once
    np.testing.assert_array_equal(np.flatnonzero(masks == 0), last)
