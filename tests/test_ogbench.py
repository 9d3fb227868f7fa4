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

ogbench = pytest.importorskip("ogbench")
ANT = "antmaze-large-navigate-singletask-v0"


@functools.cache
def package_world(world):
    """The package's own world; the task is set afterwards, since building it takes a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bounds that are rounded
        return gymnasium.make(f"{world}-singletask-v0", disable_env_checker=True)


def package_labels(world, number, columns):
    env = package_world(world)
    env.unwrapped._reward_task_id = number
    columns = dict(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ogbench.relabel_utils.relabel_dataset(f"{world}-singletask-v0", env, columns)
    return columns["rewards"], columns["masks"]


def states_about(goal, width, size=4000, dtype=np.float32):
    """States on both sides of the goal's thresholds, and some on them."""
    rng = np.random.default_rng(0)
    qpos = rng.normal(size=(size, width))
    axes = len(goal.point)
    ways = rng.normal(size=(size, axes))
    ways *= rng.choice([0.0, 0.999999, 1.0, 1.000001, 1.6], (size, 1)) / np.linalg.norm(
        ways, axis=1, keepdims=True
    )
    qpos[:, goal.start : goal.start + axes] = np.array(goal.point) + goal.tolerance * ways
    for index, value in goal.joints:
        qpos[:, index] = value + rng.choice([-0.05, -0.04, 0.0, 0.04, 0.0400001], size)
    return qpos.astype(dtype), rng.integers(0, 2, (size, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "world",
    [
        "antmaze-medium",
        "antmaze-large",
        "antmaze-giant",
        "antmaze-teleport",
        "humanoidmaze-medium",
        "pointmaze-large",
        "cube-single",
        "scene",
    ],
)
def test_rewards_are_the_packages_to_the_last_number(world, dtype):
    for number in range(1, 6):
        goal = layout_and_goal(f"{world}-singletask-task{number}-v0")[1]
        qpos, buttons = states_about(goal, LAYOUTS[world].qpos, dtype=dtype)
        rewards, masks = relabel(goal, qpos, buttons)
        expected = package_labels(world, number, {"qpos": qpos, "button_states": buttons})
        np.testing.assert_array_equal(rewards, expected[0])
        np.testing.assert_array_equal(masks, expected[1])
        parts = 5 if world == "scene" else 1
        assert set(rewards) == set(range(-parts, 1))  # every number of satisfied parts was met
        np.testing.assert_array_equal(masks == 0, rewards == 0)


@pytest.mark.parametrize(
    "world", ["antmaze-giant", "humanoidmaze-large", "pointmaze-medium", "cube-single", "scene"]
)
def test_a_worlds_numbers_are_those_of_its_simulator(world):
    simulators = SerialEnvironments(f"ogbench/{world}-singletask-v0", [0], 5)
    assert simulators.observations.shape[1] == LAYOUTS[world].observation
    simulators.reset()
    assert len(simulators.members[0].unwrapped.data.qpos) == LAYOUTS[world].qpos
    assert simulators.members[0].unwrapped._reward_task_id == LAYOUTS[world].default


def maze_file(path, lengths=(6, 1, 4), change=None):
    """A file of an ant's trajectories, of which the first passes the goal in its middle."""
    rng = np.random.default_rng(1)
    size = sum(lengths)
    qpos, qvel = (
        rng.normal(size=(size, 15)).astype(np.float32),
        rng.normal(size=(size, 14)).astype(np.float32),
    )
    qpos[2, :2] = [36.0, 24.0]  # row 7, column 10
    columns = {
        "observations": np.concatenate([qpos, qvel], 1),
        "actions": rng.uniform(-1, 1, (size, 8)).astype(np.float32),
        "terminals": np.isin(np.arange(1, size + 1), np.cumsum(lengths)),
        "qpos": qpos,
        "qvel": qvel,
    }
    np.savez(
        path,
        **{
            name: column
            for name, column in {**columns, **(change or {})}.items()
            if column is not None
        },
    )
    return path


def test_a_file_is_read_as_the_package_reads_it(tmp_path):
    path = maze_file(tmp_path / "antmaze.npz")
    dataset = read_ogbench(path, ANT)
    theirs = ogbench.load_dataset(path, add_info=True)
    theirs["rewards"], theirs["masks"] = package_labels("antmaze-large", 1, theirs)
    assert len(dataset) == 5 + 0 + 3
    for name in ("observations", "actions", "next_observations", "rewards", "masks"):
        np.testing.assert_array_equal(getattr(dataset, name), theirs[name], err_msg=name)
        assert getattr(dataset, name).dtype == np.float32
    np.testing.assert_array_equal(dataset.episode_ends, theirs["terminals"] == 1)
    for name in ("qpos", "qvel"):
        np.testing.assert_array_equal(dataset.infos[name], theirs[name])
    compact = ogbench.load_dataset(path, compact_dataset=True)
    np.testing.assert_array_equal(
        dataset.observations, compact["observations"][compact["valids"] == 1]
    )
    np.testing.assert_array_equal(
        dataset.episode_ends, compact["terminals"][compact["valids"] == 1] == 1
    )


def test_success_in_the_middle_of_a_trajectory_stops_the_value_and_not_the_episode(tmp_path):
    dataset = read_ogbench(maze_file(tmp_path / "antmaze.npz"), ANT)
    np.testing.assert_array_equal(dataset.masks, [1, 1, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(dataset.rewards, dataset.masks * -1)
    np.testing.assert_array_equal(np.flatnonzero(dataset.episode_ends), [4, 7])


def test_rewards_of_the_next_state_come_one_row_earlier_and_are_recorded(tmp_path):
    dataset = read_ogbench(maze_file(tmp_path / "antmaze.npz"), ANT, reward_on="next_state")
    np.testing.assert_array_equal(dataset.masks, [1, 0, 1, 1, 1, 1, 1, 1])
    assert any("after the action" in note for note in dataset.notes)
    assert "on the next state" in dataset.source
    with pytest.raises(BadInput, match="not to 'goal'"):
        read_ogbench(tmp_path / "antmaze.npz", ANT, reward_on="goal")


def test_a_task_has_one_goal_whatever_its_name_says_about_the_data():
    assert layout_and_goal("cube-single-play-singletask-v0") == layout_and_goal(
        "cube-single-singletask-task2-v0"
    )
    assert layout_and_goal("scene-play-singletask-task4-v0")[1].buttons == (1, 0)
    with pytest.raises(BadInput, match="antmaze-large"):
        layout_and_goal("antmaze-larg-navigate-singletask-v0")
    with pytest.raises(BadInput, match="not a single task"):
        layout_and_goal("cube-single-play-v0")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"qpos": None}, "does not have the layout"),
        ({"next_observations": np.zeros((11, 29))}, "does not have the layout"),
        ({"qpos": np.zeros((11, 21))}, "a file of another environment"),
        ({"qpos": np.zeros((4, 15))}, "one row per state"),
        ({"qpos": np.full((11, 15), np.nan)}, "finite"),
        ({"actions": np.full((11, 8), 3.0)}, "leave their range in row 0"),
        ({"terminals": np.zeros(11)}, "does not end a trajectory"),
        ({"terminals": np.ones(11)}, "no transition"),
        ({"observations": np.array([{}] * 11)}, "not a readable npz file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(tmp_path, change, sentence):
    with pytest.raises(BadInput, match=sentence):
        read_ogbench(maze_file(tmp_path / "antmaze.npz", change=change), ANT)


def test_what_is_no_npz_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "text.npz").write_text("no arrays here")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("text.npz", "one.npy", "nowhere.npz"):
        with pytest.raises(BadInput, match=name):
            read_ogbench(tmp_path / name, ANT)


@functools.cache
def play(world, index=0, steps=60, episodes=2):
    return PlayBlock(world, episodes=episodes, steps=steps)(5, index)


@pytest.mark.parametrize("world", ["cube-single", "scene"])
def test_play_data_is_whole_episodes_with_the_rewards_of_the_task(world):
    log = play(world)
    np.testing.assert_array_equal(np.flatnonzero(log.episode_ends), [59, 119])
    inside = ~log.episode_ends[:-1]
    np.testing.assert_array_equal(log.next_observations[:-1][inside], log.observations[1:][inside])
    assert (log.next_observations[59] != log.observations[60]).any()
    assert np.abs(log.actions).max() <= 1.0
    _, goal = layout_and_goal(f"{world}-singletask-task2-v0")
    rewards, masks = relabel(goal, log.infos["qpos"], log.infos.get("button_states"))
    np.testing.assert_array_equal(log.rewards, rewards)
    np.testing.assert_array_equal(log.masks, masks)
    np.testing.assert_allclose(
        log.observations[:, :6], log.infos["qpos"][:, :6], rtol=1e-6
    )  # the arm's joints
    np.testing.assert_allclose(
        log.observations[:, 19:22] / 10 + [0.425, 0, 0], log.infos["qpos"][:, 14:17], atol=1e-6
    )


def test_play_data_depends_on_seed_and_index_alone():
    np.random.seed(0)
    log = play("cube-single")
    np.random.seed(1)
    again, other = play.__wrapped__("cube-single"), play("cube-single", 1, 5, 1)
    for name in (
        "observations",
        "actions",
        "rewards",
        "next_observations",
        "episode_ends",
        "masks",
    ):
        assert getattr(log, name).tobytes() == getattr(again, name).tobytes(), name
    assert log.infos["qpos"].tobytes() == again.infos["qpos"].tobytes()
    assert (log.observations[0] != other.observations[0]).any()


def test_play_moves_the_cube_from_place_to_place():
    cube = play("cube-single", 2, 130, 1).infos["qpos"][:, 14:17]  # an errand takes about 90 steps
    assert cube[:, 2].max() > 0.08  # it was lifted
    assert np.linalg.norm(cube[-1, :2] - cube[0, :2]) > 0.05


def test_play_data_written_in_ogbenchs_layout_is_read_back_as_the_same_transitions(tmp_path):
    log = play("scene")
    last = np.flatnonzero(log.episode_ends)
    final = {"observations": log.next_observations[last], "actions": log.actions[last]}
    columns = {
        "observations": log.observations,
        "actions": log.actions,
        "terminals": np.zeros(len(log), bool),
        **log.infos,
    }
    arrays = {  # a state more in each trajectory, of which only the observation is ever used
        name: np.insert(
            column, last + 1, final.get(name, True if name == "terminals" else column[last]), axis=0
        )
        for name, column in columns.items()
    }
    np.savez(tmp_path / "scene.npz", **arrays)
    dataset = read_ogbench(tmp_path / "scene.npz", "scene-play-singletask-v0")
    for name in ("observations", "actions", "next_observations", "rewards", "masks"):
        np.testing.assert_array_equal(getattr(dataset, name), getattr(log, name), err_msg=name)
    np.testing.assert_array_equal(dataset.episode_ends, log.episode_ends)


def test_scenes_whose_cube_leaves_the_sight_are_told_from_those_where_it_lies_in_the_drawer():
    assert is_visible(np.array([[0.4, 0.1, 0.02], [0.33, -0.356, 0.066]]))
    assert not is_visible(np.array([[0.4, 0.1, 0.02], [0.4, 0.29, 0.02]]))
    assert not is_visible(np.array([[0.4, -0.31, 0.02], [0.4, 0.0, 0.02]]))


def test_an_unknown_world_of_play_is_refused():
    with pytest.raises(BadInput, match="cube-single"):
        PlayBlock("cube-singel")


def test_an_oracle_solves_the_single_task_and_is_paid_as_the_data_is():
    from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

    simulators = SerialEnvironments("ogbench/cube-single-singletask-task2-v0", [3], 200)
    simulators.reset()
    world = simulators.members[0].unwrapped
    errand = {
        "target_block": 0,
        "target_block_pos": np.array([0.5, 0.0, 0.02]),
        "target_block_yaw": np.zeros(1),
    }
    oracle, states, paid = CubePlanOracle(env=world, noise=0.0), [], []
    with numpy_seeded(0):
        oracle.reset(
            None, {**world.compute_ob_info(), **{f"privileged/{k}": v for k, v in errand.items()}}
        )
    while simulators.running.any():
        states.append(world.data.qpos.copy())
        action = oracle.select_action(None, world.compute_ob_info())
        rewards, terminated = simulators.step(action[None].astype(np.float32))[1:3]
        paid.append(rewards[0])
    assert simulators.success[0] == 1.0
    assert terminated[0]
    rewards, masks = relabel(
        layout_and_goal("cube-single-singletask-task2-v0")[1], np.array(states), None
    )
    np.testing.assert_array_equal(rewards, paid)
    np.testing.assert_array_equal(
        np.flatnonzero(masks == 0), [len(paid) - 1]
    )  # success ends the episode at once


def test_a_play_log_tells_which_errands_ended_and_how():
    log = play("cube-single", 1, 130)
    assert {0.0, 2.0} <= set(np.unique(log.infos["subtask"])) <= {0.0, 1.0, 2.0}
