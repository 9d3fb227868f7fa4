"""AntMaze: the maps, D4RL's world against D4RL's own files, and the data made in it and in OGBench's."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "egl")  # before anyone imports MuJoCo, which looks once
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
    flipped,
    make_antmaze,
)
from bfq.envs.make import make_environment  # noqa: E402
from bfq.envs.robots import robot_file  # noqa: E402
from bfq.errors import BadInput  # noqa: E402
from bfq.tasks.mazes import KINDS, AntMazeBlock, antmaze_guide, walk_towards  # noqa: E402
from bfq.tasks.ogbench import NavigateBlock, navigate_guide  # noqa: E402
from bfq.tasks.recipes import recipe_for  # noqa: E402

STORED = Path(__file__).resolve().parents[2] / "shared" / "data" / "d4rl_files"
FILES = sorted(STORED.glob("antmaze-*.hdf5"))
SIZES = ("medium", "large", "giant")


# The mazes


@pytest.mark.parametrize("name", MAZES)
def test_every_walk_along_the_waypoints_is_shortest_and_stays_off_the_walls(name):
    maze = MAZES[name]
    for goal in maze.free:
        far = maze.distances(tuple(goal))
        cells = maze.free.copy()
        for _ in range(int(far[~maze.walls].max())):
            following = maze.next_cells(cells, np.broadcast_to(goal, cells.shape))
            assert not maze.walls[tuple(following.T)].any()
            assert (np.abs(following - cells).sum(1) <= 1).all()
            assert (far[tuple(following.T)] == np.maximum(far[tuple(cells.T)] - 1, 0)).all()
            cells = following
        assert (cells == goal).all()


def test_a_small_maze_by_hand():
    maze = MAZES["umaze"]
    assert maze.distances((3, 1))[1].tolist() == [np.inf, 6.0, 5.0, 4.0, np.inf]
    assert maze.rooms.tolist() == [[1, 1], [1, 3], [3, 1], [3, 3]]  # ends and bends, no corridors
    assert centers((3, 1)).tolist() == [0.0, 8.0]
    assert maze.cells_at(np.array([[1.9, 6.1], [-1.9, -1.9], [2.1, 0.0], [99.0, -99.0]])).tolist() == [
        [3, 1], [1, 1], [1, 2], [0, 4],
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_the_maps_are_those_of_ogbench(size):
    pytest.importorskip("ogbench")
    world = make_environment(f"ogbench/antmaze-{size}-singletask-task1-v0", 1).unwrapped
    maze = MAZES[size]
    assert (world.maze_map.astype(bool) == maze.walls).all()
    rng = np.random.default_rng(0)
    for _ in range(200):
        here, there = (
            centers(maze.free[rng.integers(len(maze.free))]) + rng.uniform(-1.9, 1.9, 2)
            for _ in "ab"
        )
        wanted, _ = world.get_oracle_subgoal(here, there)
        assert (
            centers(maze.next_cells(maze.cells_at(here), maze.cells_at(there))).tolist()
            == wanted.tolist()
        )


# D4RL's world


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.stem if path else "none")
def test_a_step_from_a_state_in_d4rls_files_ends_where_d4rls_did(path):
    states, actions = _stored(path)
    model = build_maze(MAZES[path.stem.split("-")[1]])
    world = mujoco.MjData(model)
    errors = []
    for k in range(0, len(states) - 1, 3):
        mujoco.mj_resetData(model, world)
        world.qpos[:], world.qvel[:], world.ctrl[:] = states[k, :15], states[k, 15:], actions[k]
        mujoco.mj_step(model, world, FRAME_SKIP)
        if np.linalg.norm(states[k + 1, :2] - states[k, :2]) < 1.0:  # else a new episode begins
            errors.append(np.abs(np.concatenate([world.qpos, world.qvel]) - states[k + 1]).max())
    assert (
        np.median(errors) < 2e-6
    )  # the files have 32 bits; today's masses of the legs would give 4e-3
    assert np.mean(np.array(errors) < 1e-4) > 0.99


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path.stem if path else "none")
def test_the_ants_of_d4rls_files_keep_to_the_free_cells(path):
    states, _ = _stored(path)
    maze = MAZES[path.stem.split("-")[1]]
    assert not maze.walls[tuple(maze.cells_at(states[:, :2]).T)].any()


def _stored(path):
    if path is None:
        pytest.skip("D4RL's files are not here")
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return file["observations"][:].astype(np.float64), file["actions"][:]


def test_the_body_is_that_of_ogbench_but_for_the_old_masses_of_the_legs():
    pytest.importorskip("ogbench")
    theirs = make_environment("ogbench/antmaze-medium-singletask-task1-v0", 1).unwrapped.model
    ours = build_maze(MAZES["medium"])
    plain = mujoco.MjModel.from_xml_path(str(robot_file("ant.xml")))
    as_maze_ant(plain)
    for model in (plain, ours):
        assert model.opt.timestep == theirs.opt.timestep
        assert (model.actuator_gear == theirs.actuator_gear).all()
        for name in ("solimp", "solref", "friction", "margin"):
            leg, floor = (
                getattr(model, f"geom_{name}")[model.geom(geom).id]
                for geom in ("aux_1_geom", "floor")
            )
            assert (leg == getattr(theirs, f"geom_{name}")[theirs.geom("aux_1_geom").id]).all()
            assert (floor == getattr(theirs, f"geom_{name}")[theirs.geom("floor").id]).all()
    assert np.allclose(plain.body_mass, theirs.body_mass[: plain.nbody])
    # Twelve capsules of radius 0.08 as cylinders that are a radius longer than the straight part.
    lengths = 4 * np.array([0.2 * 2**0.5, 0.2 * 2**0.5, 0.4 * 2**0.5]) + 4 * 0.08
    legs = 5.0 * np.pi * 0.08**2 * lengths.sum()
    assert np.isclose(ours.body_mass.sum(), 5.0 * 4 / 3 * np.pi * 0.25**3 + legs)


@pytest.mark.parametrize("name", COURSES)
def test_the_walls_stand_where_the_map_says(name):
    maze = MAZES[name]
    model = build_maze(maze)
    boxes = [
        model.geom(k) for k in range(model.ngeom) if model.geom_type[k] == mujoco.mjtGeom.mjGEOM_BOX
    ]
    assert len(boxes) == maze.walls.sum()
    for box in boxes:
        assert maze.walls[tuple(maze.cells_at(box.pos[:2]))]
        assert box.pos[:2].tolist() == centers(maze.cells_at(box.pos[:2])).tolist()
        assert box.size.tolist() == [2.0, 2.0, 1.0]
        assert box.pos[2] == 1.0
        assert box.contype == box.conaffinity == 1


def test_an_ant_walks_out_of_its_cell_but_not_through_a_wall():
    ways = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    rng = np.random.default_rng(0)
    robots = MazeRobots(
        build_maze(MAZES["umaze"]), len(ways)
    )  # at (0, 0) only the way along x is open
    robots.place(np.zeros((4, 2)), rng)
    furthest = np.zeros(4)
    for _ in range(150):
        robots.step(walk_towards(robots, ways))
        furthest = np.maximum(furthest, (robots.qpos[:, :2] * ways).sum(1))
    assert furthest[0] > 6.0
    assert (furthest[1:] < 2.0).all()
    assert (furthest[1:] > 0.9).all()  # they did come to the wall


@pytest.mark.parametrize(
    ("name", "cell"), [("umaze", (3, 1)), ("medium", (6, 6)), ("large", (7, 9))]
)
def test_episodes_begin_at_the_origin_with_a_goal_in_its_corner(name, cell):
    world = make_antmaze(f"bfq/AntMaze-{name}-v0", 1000)
    starts, goals = [], []
    for seed in range(200):
        observation, info = world.reset(seed=seed)
        starts.append(observation)
        goals.append(info["goal"] - centers(cell))
    starts, goals = np.array(starts), np.array(goals)
    assert MAZES[name].marked("R").tolist() == [[1, 1]]
    assert starts.shape == (200, 29)
    assert (np.abs(starts[:, :2]) <= 0.1).all()
    assert np.allclose(np.linalg.norm(starts[:, 3:7], axis=1), 1.0)
    assert (np.abs(starts[:, 7:15]) <= 0.1).all()
    assert np.isclose(starts[:, 15:].std(), 0.1, rtol=0.1)
    assert ((goals >= 0.0) & (goals <= 1.5)).all()
    assert np.allclose(goals.mean(0), 0.75, atol=0.1)
    assert np.allclose(goals.var(0), (1.0 + 0.25) / 12.0, rtol=0.35)  # of U(0, 1) + U(0, 0.5)


def test_a_seed_repeats_an_episode_to_the_bit():
    def episode(seed):
        world = make_antmaze("bfq/AntMaze-medium-v0", 1000)
        seen = [world.reset(seed=seed)[0]]
        world.action_space.seed(seed)
        seen += [world.step(world.action_space.sample())[0] for _ in range(30)]
        return np.array(seen)

    assert (episode(3) == episode(3)).all()
    assert (episode(3) != episode(4)).any()


def test_arrival_alone_is_rewarded_and_ends_the_episode():
    world = make_antmaze("bfq/AntMaze-umaze-v0", 1000)
    observation, _ = world.reset(seed=0)
    idle = np.zeros(8, np.float32)
    assert world.step(idle)[1:] == (0.0, False, False, {"success": 0.0})
    world.unwrapped.goal = observation[:2] + (0.3, 0.0)
    assert world.step(idle)[1:] == (1.0, True, False, {"success": 1.0})
    world.unwrapped.goal = observation[:2] + (0.7, 0.0)
    assert world.step(idle)[1:] == (0.0, False, False, {"success": 0.0})


def test_falling_does_not_end_an_episode():
    world = make_antmaze("bfq/AntMaze-umaze-v0", 1000)
    world.reset(seed=0)
    world.unwrapped.robots.data[0].qpos[3:7] = (0.0, 1.0, 0.0, 0.0)  # on its back
    for _ in range(20):
        observation, reward, terminated, truncated, _ = world.step(world.action_space.sample())
        assert (reward, terminated, truncated) == (0.0, False, False)
    assert flipped(observation)


def test_the_picture_shows_the_goal_where_it_is():
    world = make_environment("bfq/AntMaze-umaze-v0", 700, render=True)
    world.reset(seed=0)
    try:
        picture = world.render()
    except Exception as error:  # noqa: BLE001 - whatever a machine without graphics trips over
        pytest.skip(f"no picture can be drawn here: {error}")
    assert picture.shape == (480, 640, 3)
    colors = picture.astype(int)
    row, column = np.argwhere(colors[..., 0] - colors[..., 1:].max(-1) > 100).mean(0)  # what is red
    x, y = world.unwrapped.goal
    meter = 480 / (
        1.05 * 5 * 4
    )  # pixels, at the height of the walls; the floor is a little further away
    assert abs((column - 320) / meter - (x - 4.0)) < 0.7  # the maze's middle is (4, 4)
    assert abs((240 - row) / meter - (y - 4.0)) < 0.7
    world.close()


def test_an_unknown_world_is_named():
    with pytest.raises(BadInput, match="did you mean 'bfq/AntMaze-large-v0'"):
        make_antmaze("bfq/AntMaze-lrge-v0", 1000)


# Data by D4RL's recipe


@pytest.fixture(scope="module")
def short_walks():
    """In the U-maze hand-chosen and test goals are in one cell, so that short walks arrive."""
    return AntMazeBlock("umaze", "play", episodes=4, steps=250)(seed=5, index=0)


def test_rewards_and_masks_are_of_arrival_at_the_test_goal_and_end_nothing(short_walks):
    log = short_walks
    near = np.linalg.norm(log.next_observations[:, :2] - (0.75, 8.75), axis=1) <= 0.5
    assert 0 < near.sum() < len(log)
    assert (log.rewards == near).all()
    assert (log.masks == ~near).all()
    assert np.flatnonzero(log.episode_ends).tolist() == [249, 499, 749, 999]


def test_rows_follow_one_another_and_carry_the_state_before_the_action(short_walks):
    log = short_walks
    inside = ~log.episode_ends[:-1]
    assert (log.next_observations[:-1][inside] == log.observations[1:][inside]).all()
    states = np.concatenate([log.infos["qpos"], log.infos["qvel"]], axis=1)
    assert (states.astype(np.float32) == log.observations).all()
    model = build_maze(MAZES["umaze"])
    for k in range(0, 1000, 50):
        world = mujoco.MjData(model)
        world.qpos[:], world.qvel[:], world.ctrl[:] = (
            log.infos["qpos"][k],
            log.infos["qvel"][k],
            log.actions[k],
        )
        mujoco.mj_step(model, world, FRAME_SKIP)
        assert np.allclose(
            np.concatenate([world.qpos, world.qvel]), log.next_observations[k], atol=1e-3
        )


def test_actions_are_noisy_and_within_bounds(short_walks):
    assert np.abs(short_walks.actions).max() == 1.0
    assert (np.abs(short_walks.actions) < 1.0).mean() > 0.3


BLOCKS = [AntMazeBlock("medium", "diverse", 2, 15), NavigateBlock("antmaze-medium", 2, 15)]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_a_function_of_seed_and_index(block):
    if isinstance(block, NavigateBlock):
        pytest.importorskip("ogbench")
    first, again = block(1, 2), pickle.loads(pickle.dumps(block))(1, 2)
    assert first.observations.shape == (30, 29)
    for name in ("observations", "actions", "rewards", "next_observations", "masks"):
        assert (getattr(first, name) == getattr(again, name)).all()
    assert not (block(1, 3).observations == first.observations).all()
    assert not (block(2, 2).observations == first.observations).all()


def test_play_goes_from_other_cells_to_hand_chosen_ones_and_diverse_anywhere():
    maze = MAZES["large"]
    chosen = {(1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9)}
    cells = {}
    for kind in KINDS:
        log = AntMazeBlock("large", kind, episodes=60, steps=1)(0, 0)
        starts, goals = log.observations[:, :2], log.infos["goal"]
        cells[kind] = [
            set(map(tuple, maze.cells_at(places).tolist())) for places in (starts, goals)
        ]
        offsets = goals - centers(maze.cells_at(goals))
        assert ((offsets >= 0.0) & (offsets <= 1.5)).all()
    assert cells["play"][1] <= chosen
    assert not cells["play"][0] & chosen
    assert len(cells["diverse"][0] & chosen) > 1
    assert len(cells["diverse"][1] - chosen) > 10


@pytest.mark.parametrize("size", ["medium", "large"])
@pytest.mark.parametrize("recipe", ["d4rl", "ogbench"])
def test_no_waypoint_lies_behind_a_wall(size, recipe):
    maze, rng = MAZES[size], np.random.default_rng(0)
    # D4RL's starts, waypoints and goals all lie up and right of a cell's center, where its planner is right.
    lowest = 0.0 if recipe == "d4rl" else -1.99
    guide = (
        antmaze_guide(maze, rng) if recipe == "d4rl" else navigate_guide(maze, "antmaze", 0.5, rng)
    )
    places, goals = centers(maze.free[rng.integers(len(maze.free), size=(2, 500))])
    places = places + rng.uniform(lowest, 1.99, (500, 2))
    goals = draw_goals(goals, rng)
    ways = guide.waypoints(places, goals) - places
    for part in np.linspace(0.0, 1.0, 41):
        assert not maze.walls[tuple(maze.cells_at(places + part * ways).T)].any()


def test_an_ant_turns_where_d4rls_planner_turned():
    maze, rng = MAZES["medium"], np.random.default_rng(0)
    goal = np.array([[16.5, 20.5]])  # of cell (6, 5), reached from (5, 6) through (6, 6)
    guide = antmaze_guide(maze, rng)
    for y, cell in ((18.5, (6, 6)), (19.9, (6, 6)), (20.1, (6, 5))):
        (way,) = guide.waypoints(np.array([[20.5, y]]), goal)
        offset = way - centers(cell)
        assert ((offset >= 0.0) & (offset <= 1.0)).all()


def test_unknown_mazes_and_kinds_are_named():
    with pytest.raises(BadInput, match="unknown maze 'middle'"):
        AntMazeBlock("middle", "play")
    with pytest.raises(BadInput, match="did you mean 'diverse'"):
        AntMazeBlock("medium", "divers")
    with pytest.raises(BadInput, match="did you mean 'antmaze-giant'"):
        NavigateBlock("antmaze-gaint")


@pytest.mark.parametrize("name", ["local/antmaze-medium-play", "local/pointmaze-giant-navigate"])
def test_the_recipes_know_their_blocks(name):
    recipe = recipe_for(name, seed=3)
    assert recipe.size == 1_000_000
    assert (recipe.name, recipe.seed) == (name, 3)
    (part,) = recipe_for(name, 500).parts
    assert part.size == 500
    known = {AntMazeBlock("medium", "play"), NavigateBlock("pointmaze-giant")}
    assert recipe.parts[0].block in known
    assert part.block in {
        replace(block, episodes=1) for block in known
    }  # a few rows need no whole block


# Data by OGBench's recipe


def test_a_point_that_reaches_its_goal_is_given_another():
    pytest.importorskip("ogbench")
    maze = MAZES["medium"]
    log = NavigateBlock("pointmaze-medium", episodes=4, steps=400)(0, 0)
    assert log.observations.shape == (1600, 2)
    assert log.actions.shape == (1600, 2)
    goals = log.infos["goal"]
    reached = (np.linalg.norm(log.next_observations - goals, axis=1) <= 1.0)[:-1]
    changed = (goals[1:] != goals[:-1]).any(1)
    inside = ~log.episode_ends[:-1]
    assert reached[inside].sum() > 4
    assert (changed[inside] == reached[inside]).all()
    rooms = set(map(tuple, maze.rooms.tolist()))
    assert set(map(tuple, maze.cells_at(goals).tolist())) <= rooms
    assert (np.abs(goals - centers(maze.cells_at(goals))) <= 1.0).all()


def test_rewards_are_of_the_state_before_the_step():
    pytest.importorskip("ogbench")
    log = NavigateBlock("pointmaze-medium", episodes=8, steps=400)(0, 1)
    there = (
        np.linalg.norm(log.observations - (20.0, 20.0), axis=1) <= 1.0
    )  # the goal of task 1, a meter around
    assert 0 < there.sum() < len(log)
    assert (log.rewards == there - 1.0).all()
    assert (log.masks == 1.0 - there).all()


@pytest.mark.parametrize("world", ["antmaze-large", "pointmaze-large"])
def test_the_steps_are_those_of_ogbenchs_own_world(world):
    pytest.importorskip("ogbench")
    log = NavigateBlock(world, episodes=1, steps=12)(0, 0)
    theirs = make_environment(f"ogbench/{world}-singletask-task1-v0", 1000)
    theirs.reset(seed=0)
    theirs.unwrapped.set_state(log.infos["qpos"][0], log.infos["qvel"][0])
    for k in range(12):
        following, *_ = theirs.step(log.actions[k])
        assert np.allclose(following, log.next_observations[k], atol=1e-5)


def test_episodes_are_as_long_as_published():
    pytest.importorskip("ogbench")
    assert np.flatnonzero(NavigateBlock("pointmaze-large", 1)(0, 0).episode_ends).tolist() == [999]
    assert np.flatnonzero(NavigateBlock("pointmaze-giant", 1)(0, 0).episode_ends).tolist() == [1999]
