"""Data by OGBench's published recipes: `navigate` in mazes and `play` with a robot arm.

`navigate`: a robot starts in a random cell and walks to a goal in a random cell that is not a corridor. Its
direction is that of the next cell's center (in the goal's cell, of that cell's own center). The Ant's action
is the mean of bfq's Ant policy, the point's is the direction itself; both get Gaussian noise. A robot within
reach of its goal gets a new one. Only its length ends an episode; an Ant on its back lies there until then.
Rewards and masks are those of the maze's first single task, for the state before the step. The Ant's policy
and the random numbers differ from OGBench's.

`play`: OGBench's oracles plan one subtask after another, open loop: key poses about 0.4 s apart, joined by
lines, with smoothed noise of 0.1 × (0.05, 0.05, 0.05, 0.3, 1), each action the difference between the plan and
the arm. When the plan ends, whatever the result, the environment names the next subtask. Success does not end
an episode.

Episodes are one row shorter than in OGBench's files, which keep the last state in a separate row.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, Doubles, Floats
from bfq.data.readers.ogbench import CUBE, layout_and_goal, relabel
from bfq.envs.antmaze import MAZES, Maze, MazeRobots, centers, motors, slide
from bfq.envs.make import make_environment, package
from bfq.envs.ogbench import numpy_seeded
from bfq.tasks import mazes
from bfq.tasks.mazes import EPISODES, SIZE, SPREAD, Guide, draw_cells, near
from bfq.tasks.recipes import DataRecipe, block_data, part_of

NOISE = {"antmaze": 0.2, "pointmaze": 0.5}  # of the actions
STEPS = {"medium": 1000, "large": 1000, "giant": 2000}  # transitions per episode

SUBTASKS = {"cube-single": ("cube",), "scene": ("cube", "button", "drawer", "window")}
PLAY_NOISE, PLAY_SMOOTHING = 0.1, 0.5
PLAY_EPISODES = 10  # in a block, since an environment takes a second to build
PLAY_STEPS = 1000  # transitions per episode: the published files have 1001 states
SUBTASK = "subtask"  # column: 0 continues, 1 ends in failure, 2 ends in success
STATE = ("qpos", "qvel", "button_states")  # of the simulator, before each action
Columns = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class NavigateBlock:
    """A few episodes in a maze: a function of (seed, index)."""

    maze: str  # antmaze-medium, …, pointmaze-giant
    episodes: int = EPISODES
    steps: int | None = None  # None: as published

    def __call__(self, seed: int, index: int) -> Dataset:
        """Generate the block with this index."""
        rng = np.random.default_rng([seed, index])
        robot, _, size = self.maze.partition("-")
        maze, (_, goal) = MAZES[size], layout_and_goal(f"{self.maze}-navigate-singletask-v0")
        actuation = slide if robot == "pointmaze" else motors
        robots = MazeRobots(_model(self.maze), self.episodes, actuation)
        starts = near(draw_cells(maze.free, self.episodes, rng), rng, -SPREAD)
        robots.place(starts, rng, normalize=False)
        goals = near(draw_cells(maze.rooms, self.episodes, rng), rng, -SPREAD)
        guide = navigate_guide(maze, robot, goal.tolerance, rng)
        track = mazes.walk_to_goals(robots, goals, self.steps or STEPS[size], guide, rng)
        observations = track.qpos if robot == "pointmaze" else track.states()
        states = track.qpos[:-1].reshape(-1, track.qpos.shape[-1])
        rewards, masks = (
            column.reshape(-1, self.episodes) for column in relabel(goal, states, None)
        )
        return track.dataset(observations, rewards, masks)


def navigate_recipe(name: str, size: int | None = None, seed: int = 0) -> DataRecipe:
    """The recipe of `local/MAZE-navigate`; `size` is the number of transitions."""
    maze = name.removeprefix("local/").removesuffix("-navigate")
    point, steps = maze.startswith("pointmaze"), STEPS[maze.partition("-")[2]]
    walker = "a point that slides towards waypoints" if point else "bfq's own walking Ant"
    return DataRecipe(
        name,
        f"generated locally by OGBench's published recipe with {walker}; not OGBench's data",
        (part_of(partial(NavigateBlock, maze), size or SIZE, steps, EPISODES),),
        seed,
        f"ogbench/{maze}-singletask-task1-v0",
        {} if point else {"policies": [mazes.POLICY]},
    )


@cache
def _model(maze: str) -> Any:
    """OGBench's own model, the same for all tasks of a maze."""
    return make_environment(f"ogbench/{maze}-singletask-task1-v0", episode_steps=1).unwrapped.model


def navigate_guide(maze: Maze, robot: str, reach: float, rng: np.random.Generator) -> Guide:
    """OGBench's planner: cell centers on a shortest path, and a new goal after each arrival."""

    def next_goals(places: Doubles, goals: Doubles) -> Doubles:
        reached = np.linalg.norm(places - goals, axis=1, keepdims=True) <= reach
        drawn = near(draw_cells(maze.rooms, len(goals), rng), rng, -SPREAD)
        return np.where(reached, drawn, goals)

    def waypoints(places: Doubles, goals: Doubles) -> Doubles:
        return centers(maze.next_cells(maze.cells_at(places), maze.cells_at(goals)))

    def slide_towards(robots: MazeRobots, directions: Doubles) -> Floats:
        return directions.astype(np.float32)

    move = slide_towards if robot == "pointmaze" else mazes.walk_towards
    return Guide(waypoints, move, next_goals, NOISE[robot])


@dataclass(frozen=True)
class PlayBlock:
    """Episodes of play with the rewards of one task: a function of (seed, index)."""

    scene: str  # cube-single or scene
    episodes: int = PLAY_EPISODES
    task: int = 2  # of five: OGBench's default
    steps: int = PLAY_STEPS

    def __call__(self, seed: int, index: int) -> Dataset:
        """Generate the block with this index."""
        reset_seed, oracle_seed = np.random.SeedSequence([seed, index]).generate_state(2)
        package("ogbench", "ogbench")
        # Random starts and subtasks; nothing ends an episode.
        settings = {"mode": "data_collection", "terminate_at_goal": False}
        environment: Any = gymnasium.make(
            f"{self.scene}-v0", disable_env_checker=True, **settings
        ).unwrapped
        environment.reset(seed=int(reset_seed))
        oracles = {subtask: _oracle(subtask, environment) for subtask in SUBTASKS[self.scene]}
        with numpy_seeded(int(oracle_seed)):  # the oracles draw from NumPy's global generator
            count, steps = self.episodes, self.steps
            episodes = [_visible_episode(environment, oracles, steps) for _ in range(count)]
        columns = {name: np.concatenate([one[name] for one in episodes]) for name in episodes[0]}
        ends = np.arange(1, len(columns["actions"]) + 1) % self.steps == 0
        _, goal = layout_and_goal(f"{self.scene}-play-singletask-task{self.task}-v0")
        rewards, masks = relabel(goal, columns["qpos"], columns.get("button_states"))
        infos = {name: columns[name].astype(float) for name in (*STATE, SUBTASK) if name in columns}
        first, last = (columns["observations"], columns["actions"]), columns["next_observations"]
        return block_data((*first, rewards, last, masks), ends, infos)


def play_recipe(name: str, size: int | None = None, seed: int = 0) -> DataRecipe:
    """The recipe of `local/SCENE-play`; `size` is the number of transitions."""
    scene, task = name.removeprefix("local/").removesuffix("-play"), PlayBlock.task
    return DataRecipe(
        name,
        "generated locally with OGBench's own oracles by its published recipe; not OGBench's files",
        (part_of(partial(PlayBlock, scene), size or SIZE, PLAY_STEPS, PLAY_EPISODES),),
        seed,
        f"ogbench/{scene}-singletask-task{task}-v0",
        {"noise": PLAY_NOISE, "smoothing": PLAY_SMOOTHING, "task": task},
        (
            "Rewards and masks are those of the state before the action; episodes continue after success.",
        ),
    )


def _oracle(subtask: str, environment: Any) -> Any:
    module = package(f"ogbench.manipspace.oracles.plan.{subtask}_plan", "ogbench")
    kind = getattr(module, f"{subtask.capitalize()}PlanOracle")
    return kind(env=environment, noise=PLAY_NOISE, noise_smoothing=PLAY_SMOOTHING)


def _visible_episode(environment: Any, oracles: dict[str, Any], steps: int) -> Columns:
    """An episode in which the cube of a scene stays visible, as in the published data."""
    while True:
        columns, final = _episode(environment, oracles, steps)
        cube = np.vstack([columns["qpos"], final])[:, CUBE : CUBE + 3]
        if "button_states" not in columns or is_visible(cube):
            return columns


def is_visible(cube: Doubles) -> bool:
    """Whether a path of the cube avoids the right edge, and the left one outside the drawer."""
    y, z = cube[:, 1], cube[:, 2]
    return not ((y >= 0.29) | ((y <= -0.3) & ((z < 0.06) | (z > 0.08)))).any()


def _episode(environment: Any, oracles: dict[str, Any], steps: int) -> tuple[Columns, Doubles]:
    """One row per step, and the positions in which the last step ends."""
    observation, info = environment.reset()
    oracle = oracles[info["privileged/target_task"]]
    oracle.reset(observation, info)
    rows = []
    for _ in range(steps):
        # The action is rounded before it is taken, so that the log has the action that was taken.
        action = np.clip(oracle.select_action(observation, info), -1.0, 1.0).astype(np.float32)
        following, _, _, _, info = environment.step(action)
        row = {
            "observations": observation,
            "actions": action,
            "next_observations": following,
            SUBTASK: np.float64(oracle.done * (1.0 + float(info["success"]))),
        }
        rows.append(row | {name: info[f"prev_{name}"] for name in STATE if f"prev_{name}" in info})
        observation = following
        if oracle.done:
            planned, target = environment.set_new_target()
            oracle = oracles[target["privileged/target_task"]]
            oracle.reset(planned, target)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, info["qpos"]
