"""AntMaze: the maps, D4RL's environment against D4RL's own files, and the data generated in mazes."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo is imported, which reads it once
mujoco = pytest.importorskip("mujoco")

from bfq.envs.antmaze import (  # noqa: E402
    COURSES,
    FRAME_SKIP,
    MAZES,
    MazeRobots,
    as_maze_ant,
    build_maze,
    centers,
    draw_goals,
)
from bfq.envs.make import make_environment  # noqa: E402
from bfq.envs.robots import robot_file  # noqa: E402
from bfq.errors import BadInput  # noqa: E402
from bfq.tasks.mazes import KINDS, AntMazeBlock, antmaze_guide, walk_towards  # noqa: E402
from bfq.tasks.ogbench import NavigateBlock, navigate_guide  # noqa: E402
from bfq.tasks.recipes import recipe_for  # noqa: E402

STORED = Path(__file__).resolve().parents[2] / "shared" / "data" / "d4rl_files"
FILES = sorted(STORED.glob("antmaze-*.hdf5"))
UMAZE = "bfq/AntMaze-umaze-v0"


def cells_of(maze, places):
    return set(map(tuple, maze.cells_at(places).tolist()))


def step_from(model, qpos, qvel, action):
    """The state after one step of MuJoCo from a stored state."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, action
    mujoco.mj_step(model, data, FRAME_SKIP)
    return np.concatenate([data.qpos, data.qvel])


# The mazes


@pytest.mark.parametrize("name", MAZES)
def test_every_walk_along_the_waypoints_is_shortest_and_stays_off_the_walls(name):
    maze = MAZES[name]
    for goal in maze.free:
        distances = maze.distances[maze.numbers(goal)].reshape(maze.walls.shape)
        cells = maze.free.copy()
        for _ in range(int(distances[~maze.walls].max())):
            following = maze.next_cells(cells, np.broadcast_to(goal, cells.shape))
            here, there = tuple(cells.T), tuple(following.T)
            assert not maze.walls[there].any()
            assert (np.abs(following - cells).sum(1) <= 1).all()
            assert (distances[there] == np.maximum(distances[here] - 1, 0)).all()
            cells = following
        assert (cells == goal).all()


def test_a_small_maze_by_hand():
    maze = MAZES["umaze"]
    assert maze.distances[16, 5:10].tolist() == [
        np.inf,
        6.0,
        5.0,
        4.0,
        np.inf,
    ]  # to row 3, column 1
    assert maze.rooms.tolist() == [[1, 1], [1, 3], [3, 1], [3, 3]]  # ends and bends, no corridors
    assert centers((3, 1)).tolist() == [0.0, 8.0]
    places = np.array([[1.9, 6.1], [-1.9, -1.9], [2.1, 0.0], [99.0, -99.0]])
    assert maze.cells_at(places).tolist() == [[3, 1], [1, 1], [1, 2], [0, 4]]


@pytest.mark.parametrize("size", ["medium", "large", "giant"])
def test_the_maps_are_those_of_ogbench(size):
    pytest.importorskip("ogbench")
    theirs = make_environment(f"ogbench/antmaze-{size}-singletask-task1-v0", 1).unwrapped
    maze, rng = MAZES[size], np.random.default_rng(0)
    assert (theirs.maze_map.astype(bool) == maze.walls).all()
    for _ in range(200):
        cells = maze.free[rng.integers(len(maze.free), size=2)]
        here, there = centers(cells) + rng.uniform(-1.9, 1.9, (2, 2))
        expected, _ = theirs.get_oracle_subgoal(here, there)
        following = maze.next_cells(maze.cells_at(here), maze.cells_at(there))
        assert centers(following).tolist() == expected.tolist()


# D4RL's environment


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.stem if path else "none")
def test_steps_from_states_in_d4rls_files_end_where_d4rls_did(path):
    if path is None:
        pytest.skip("D4RL's files are not here")
    with pytest.importorskip("h5py").File(path) as file:
        states, actions = file["observations"][:].astype(np.float64), file["actions"][:]
    maze = MAZES[path.stem.split("-")[1]]
    assert not maze.walls[tuple(maze.cells_at(states[:, :2]).T)].any()
    model, errors = build_maze(maze), []
    for k in range(0, len(states) - 1, 3):
        if np.linalg.norm(states[k + 1, :2] - states[k, :2]) < 1.0:  # else a new episode starts
            after = step_from(model, states[k, :15], states[k, 15:], actions[k])
            errors.append(np.abs(after - states[k + 1]).max())
    assert np.median(errors) < 2e-6  # the files have 32 bits; today's masses would give 4e-3
    assert np.mean(np.array(errors) < 1e-4) > 0.99


def test_the_body_is_that_of_ogbench_except_for_the_old_masses_of_the_legs():
    pytest.importorskip("ogbench")
    theirs = make_environment("ogbench/antmaze-medium-singletask-task1-v0", 1).unwrapped.model
    ours = build_maze(MAZES["medium"])
    plain = mujoco.MjModel.from_xml_path(str(robot_file("ant.xml")))
    as_maze_ant(plain)
    for model in (plain, ours):
        assert model.opt.timestep == theirs.opt.timestep
        assert (model.actuator_gear == theirs.actuator_gear).all()
        for name in ("solimp", "solref", "friction", "margin"):
            for geom in ("aux_1_geom", "floor"):
                found = getattr(model, f"geom_{name}")[model.geom(geom).id]
                assert (found == getattr(theirs, f"geom_{name}")[theirs.geom(geom).id]).all()
    assert np.allclose(plain.body_mass, theirs.body_mass[: plain.nbody])
    # Twelve capsules of radius 0.08 as cylinders that are a radius longer than the straight part.
    lengths = 4 * np.array([0.2 * 2**0.5, 0.2 * 2**0.5, 0.4 * 2**0.5]) + 4 * 0.08
    legs = 5.0 * np.pi * 0.08**2 * lengths.sum()
    assert np.isclose(ours.body_mass.sum(), 5.0 * 4 / 3 * np.pi * 0.25**3 + legs)


@pytest.mark.parametrize("name", COURSES)
def test_the_walls_stand_where_the_map_has_them(name):
    maze = MAZES[name]
    model = build_maze(maze)
    geoms = [model.geom(k) for k in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_BOX)]
    assert len(geoms) == maze.walls.sum()
    for box in geoms:
        cell = maze.cells_at(box.pos[:2])
        assert maze.walls[tuple(cell)]
        assert [*box.pos, *box.size] == [*centers(cell), 1.0, 2.0, 2.0, 1.0]
        assert box.contype == box.conaffinity == 1


def test_an_ant_walks_out_of_its_cell_but_not_through_a_wall():
    ways = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    robots = MazeRobots(build_maze(MAZES["umaze"]), len(ways))  # at (0, 0), only +x is open
    robots.place(np.zeros((4, 2)), np.random.default_rng(0))
    furthest = np.zeros(4)
    for _ in range(150):
        robots.step(walk_towards(robots, ways))
        furthest = np.maximum(furthest, (robots.qpos[:, :2] * ways).sum(1))
    assert furthest[0] > 6.0
    assert ((furthest[1:] > 0.9) & (furthest[1:] < 2.0)).all()


CORNERS = {"umaze": (3, 1), "medium": (6, 6), "large": (7, 9)}


@pytest.mark.parametrize("name", CORNERS)
def test_episodes_start_at_the_origin_with_a_goal_in_its_corner(name):
    environment = make_environment(f"bfq/AntMaze-{name}-v0", 1000)
    first = [environment.reset(seed=seed) for seed in range(200)]
    starts = np.array([observation for observation, _ in first])
    goals = np.array([info["goal"] for _, info in first]) - centers(CORNERS[name])
    assert MAZES[name].marked("R").tolist() == [[1, 1]]
    assert starts.shape == (200, 29)
    assert (np.abs(starts[:, :2]) <= 0.1).all()
    assert np.allclose(np.linalg.norm(starts[:, 3:7], axis=1), 1.0)
    assert (np.abs(starts[:, 7:15]) <= 0.1).all()
    assert np.isclose(starts[:, 15:].std(), 0.1, rtol=0.1)
    assert ((goals >= 0.0) & (goals <= 1.5)).all()
    assert np.allclose(goals.mean(0), 0.75, atol=0.1)
    assert np.allclose(goals.var(0), (1.0 + 0.25) / 12.0, rtol=0.35)  # of U(0, 1) + U(0, 0.5)


def test_a_seed_repeats_an_episode_bit_for_bit():
    def episode(seed):
        environment = make_environment("bfq/AntMaze-medium-v0", 1000)
        seen = [environment.reset(seed=seed)[0]]
        environment.action_space.seed(seed)
        seen += [environment.step(environment.action_space.sample())[0] for _ in range(30)]
        return np.array(seen)

    assert (episode(3) == episode(3)).all()
    assert (episode(3) != episode(4)).any()


def test_only_arrival_not_falling_is_rewarded_and_ends_the_episode():
    environment = make_environment(UMAZE, 1000)
    observation, _ = environment.reset(seed=0)
    for distance, arrived in ((9.0, 0.0), (0.3, 1.0), (0.7, 0.0)):
        environment.unwrapped.goal = observation[:2] + (distance, 0.0)
        result = environment.step(np.zeros(8, np.float32))[1:]
        assert result == (arrived, bool(arrived), False, {"success": arrived})
    environment.reset(seed=0)
    environment.unwrapped.robots.data[0].qpos[3:7] = (0.0, 1.0, 0.0, 0.0)  # on its back
    for _ in range(20):
        observation, *result, _ = environment.step(environment.action_space.sample())
        assert result == [0.0, False, False]
    x, y = observation[4:6]
    assert 1.0 - 2.0 * (x**2 + y**2) < 0.0  # the z axis of the torso points down


def test_the_picture_shows_the_goal():
    environment = make_environment(UMAZE, 700, render=True)
    environment.reset(seed=0)
    try:
        picture = environment.render()
    except Exception as error:  # noqa: BLE001 - any failure of a machine without graphics
        pytest.skip(f"cannot render here: {error}")
    assert picture.shape == (480, 640, 3)
    colors = picture.astype(int)
    row, column = np.argwhere(colors[..., 0] - colors[..., 1:].max(-1) > 100).mean(0)  # red
    x, y = environment.unwrapped.goal
    meter = 480 / (1.05 * 5 * 4)  # pixels, at the top of the walls; the floor is a little smaller
    assert abs((column - 320) / meter - (x - 4.0)) < 0.7  # the middle of the maze is (4, 4)
    assert abs((240 - row) / meter - (y - 4.0)) < 0.7
    environment.close()


# Data by D4RL's recipe


@pytest.fixture(scope="module")
def short_walks():
    """In the U-maze, hand-chosen and test goals are in one cell, so that short walks arrive."""
    return AntMazeBlock("umaze", "play", episodes=4, steps=250)(seed=5, index=0)


def test_rewards_and_masks_are_of_arrival_at_the_test_goal_and_end_nothing(short_walks):
    near = np.linalg.norm(short_walks.next_observations[:, :2] - (0.75, 8.75), axis=1) <= 0.5
    assert 0 < near.sum() < len(near)
    assert (short_walks.rewards == near).all()
    assert (short_walks.masks == ~near).all()
    assert np.flatnonzero(short_walks.episode_ends).tolist() == [249, 499, 749, 999]


def test_rows_follow_one_another_with_noisy_actions_and_the_state_before_them(short_walks):
    block, (qpos, qvel) = short_walks, (short_walks.infos[name] for name in ("qpos", "qvel"))
    inside = ~block.episode_ends[:-1]
    assert (block.next_observations[:-1][inside] == block.observations[1:][inside]).all()
    assert (np.concatenate([qpos, qvel], axis=1).astype(np.float32) == block.observations).all()
    model = build_maze(MAZES["umaze"])
    for k in range(0, 1000, 50):
        after = step_from(model, qpos[k], qvel[k], block.actions[k])
        assert np.allclose(after, block.next_observations[k], atol=1e-3)
    assert np.abs(block.actions).max() == 1.0
    assert (np.abs(block.actions) < 1.0).mean() > 0.3


BLOCKS = [AntMazeBlock("medium", "diverse", 2, 15), NavigateBlock("antmaze-medium", 2, 15)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_a_block_is_a_function_of_seed_and_index(block):
    first, again = block(1, 2), pickle.loads(pickle.dumps(block))(1, 2)
    assert first.observations.shape == (30, 29)
    assert first.sha256 == again.sha256
    for other in (block(1, 3), block(2, 2)):
        assert not (other.observations == first.observations).all()


def test_play_goes_from_other_cells_to_hand_chosen_ones_and_diverse_anywhere():
    maze = MAZES["large"]
    chosen = {(1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9)}
    starts, ends = {}, {}
    for kind in KINDS:
        block = AntMazeBlock("large", kind, episodes=60, steps=1)(0, 0)
        goals = block.infos["goal"]
        starts[kind], ends[kind] = cells_of(maze, block.observations[:, :2]), cells_of(maze, goals)
        offsets = goals - centers(maze.cells_at(goals))
        assert ((offsets >= 0.0) & (offsets <= 1.5)).all()
    assert ends["play"] <= chosen
    assert not starts["play"] & chosen
    assert len(starts["diverse"] & chosen) > 1
    assert len(ends["diverse"] - chosen) > 10


@pytest.mark.parametrize("size", ["medium", "large"])
@pytest.mark.parametrize(("lowest", "guide_of"), [
    (0.0, antmaze_guide),  # right only up and right of a cell's center, where D4RL's data is
    (-1.99, lambda maze, rng: navigate_guide(maze, "antmaze", 0.5, rng)),
])  # fmt: skip
def test_no_waypoint_lies_behind_a_wall(size, lowest, guide_of):
    maze, rng = MAZES[size], np.random.default_rng(0)
    places, goals = centers(maze.free[rng.integers(len(maze.free), size=(2, 500))])
    places = places + rng.uniform(lowest, 1.99, (500, 2))
    ways = guide_of(maze, rng).waypoints(places, draw_goals(goals, rng)) - places
    for part in np.linspace(0.0, 1.0, 41):
        assert not maze.walls[tuple(maze.cells_at(places + part * ways).T)].any()


def test_an_ant_turns_where_d4rls_planner_turned():
    guide = antmaze_guide(MAZES["medium"], np.random.default_rng(0))
    goal = np.array([[16.5, 20.5]])  # of cell (6, 5), reached from (5, 6) through (6, 6)
    for y, cell in ((18.5, (6, 6)), (19.9, (6, 6)), (20.1, (6, 5))):
        (way,) = guide.waypoints(np.array([[20.5, y]]), goal)
        offset = way - centers(cell)
        assert ((offset >= 0.0) & (offset <= 1.0)).all()


def test_unknown_mazes_are_named():
    with pytest.raises(BadInput, match="did you mean 'bfq/AntMaze-large-v0'"):
        make_environment("bfq/AntMaze-lrge-v0", 9)
    for name in ("local/antmaze-middle-play", "local/antmaze-medium-divers"):
        with pytest.raises(BadInput, match="did you mean 'local/antmaze-"):
            recipe_for(name)


@pytest.mark.parametrize(("name", "block"), [
    ("local/antmaze-medium-play", AntMazeBlock("medium", "play")),
    ("local/pointmaze-giant-navigate", NavigateBlock("pointmaze-giant")),
])  # fmt: skip
def test_the_recipes_have_the_right_blocks(name, block):
    recipe = recipe_for(name, seed=3)
    assert (recipe.name, recipe.seed, recipe.size) == (name, 3, 1_000_000)
    assert recipe.parts[0].block == block
    (part,) = recipe_for(name, 500).parts
    assert part.size == 500
    assert part.block == replace(block, episodes=1)  # a few rows do not need a whole block


# Data by OGBench's recipe


def test_a_point_gets_new_goals_but_rewards_are_of_the_test_goal_before_the_step():
    pytest.importorskip("ogbench")
    maze = MAZES["medium"]
    block = NavigateBlock("pointmaze-medium", episodes=4, steps=400)(0, 0)
    assert block.observations.shape == block.actions.shape == (1600, 2)
    goals = block.infos["goal"]
    reached = (np.linalg.norm(block.next_observations - goals, axis=1) <= 1.0)[:-1]
    inside = ~block.episode_ends[:-1]
    assert reached[inside].sum() > 4
    assert ((goals[1:] != goals[:-1]).any(1)[inside] == reached[inside]).all()
    assert cells_of(maze, goals) <= set(map(tuple, maze.rooms.tolist()))
    assert (np.abs(goals - centers(maze.cells_at(goals))) <= 1.0).all()
    block = NavigateBlock("pointmaze-medium", episodes=8, steps=400)(0, 1)
    near = np.linalg.norm(block.observations - (20.0, 20.0), axis=1) <= 1.0  # the goal of task 1
    assert 0 < near.sum() < len(block)
    assert (block.rewards == near - 1.0).all()
    assert (block.masks == 1.0 - near).all()


@pytest.mark.parametrize("maze", ["antmaze-large", "pointmaze-large"])
def test_the_steps_are_those_of_ogbenchs_own_environment(maze):
    pytest.importorskip("ogbench")
    block = NavigateBlock(maze, episodes=1, steps=12)(0, 0)
    theirs = make_environment(f"ogbench/{maze}-singletask-task1-v0", 1000)
    theirs.reset(seed=0)
    theirs.unwrapped.set_state(block.infos["qpos"][0], block.infos["qvel"][0])
    for action, following in zip(block.actions, block.next_observations, strict=True):
        assert np.allclose(theirs.step(action)[0], following, atol=1e-5)


@pytest.mark.parametrize(("size", "steps"), [("large", 1000), ("giant", 2000)])
def test_episodes_are_as_long_as_published(size, steps):
    pytest.importorskip("ogbench")
    block = NavigateBlock(f"pointmaze-{size}", 1)(0, 0)
    assert np.flatnonzero(block.episode_ends).tolist() == [steps - 1]
