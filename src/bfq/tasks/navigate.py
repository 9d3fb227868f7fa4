"""OGBench's navigate data for the mazes of points and Ants, made by its recipe with our own Ant policy.

A robot set down in a random cell walks to a goal in a random cell that is no mere corridor: its direction
is that of the next cell's center (in the goal's cell, of that cell's own), the Ant's action is the mean
of its policy, the point's the direction itself, and Gaussian noise comes on top. Whoever gets within
reach of the goal is given another. Nothing ends an episode but its length; an Ant on its back lies there
until then. Rewards and masks are those of the maze's first single task, judged on the state before the
step.

What differs from OGBench: the Ant's policy and the random numbers. An episode is one row shorter than in
OGBench's files, which keep the last state in a row of its own.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from bfq.data.readers.ogbench import Goal, relabel, world_and_goal
from bfq.envs.antmaze import MAZES, Cells, Maze, MazeRobots, centers, motors, slide
from bfq.envs.make import make_environment
from bfq.errors import unknown
from bfq.tasks.harness import Recipe, part_of
from bfq.tasks.log import Log
from bfq.tasks.waypoints import POLICY, Doubles, Floats, Guide, some, walk, walk_towards

NOISE = {"antmaze": 0.2, "pointmaze": 0.5}  # of the actions
STEPS = {"medium": 1000, "large": 1000, "giant": 2000}  # transitions an episode
WORLDS = tuple(f"{robot}-{maze}" for robot in NOISE for maze in STEPS)
EPISODES = 8  # of a block
SIZE = 1_000_000  # transitions, as OGBench's
SPREAD = 1.0  # starts and goals are off their cell's center by up to this either way, an axis


@dataclass(frozen=True)
class NavigateBlock:
    """A few episodes: a function of (seed, index)."""

    world: str  # antmaze-medium, …, pointmaze-giant
    episodes: int = EPISODES
    steps: int | None = None  # None: as published

    def __post_init__(self) -> None:
        if self.world not in WORLDS:
            raise unknown("world of navigate data", self.world, WORLDS)

    def __call__(self, seed: int, index: int) -> Log:
        """Block `index` of the data of this seed."""
        rng = np.random.default_rng([seed, index])
        robot, _, size = self.world.partition("-")
        maze, (_, goal) = MAZES[size], world_and_goal(f"{self.world}-navigate-singletask-v0")
        robots = MazeRobots(
            _model(self.world), self.episodes, slide if robot == "pointmaze" else motors
        )
        robots.place(_about(some(maze.free, self.episodes, rng), rng), rng, normalize=False)
        aims = _about(some(maze.rooms, self.episodes, rng), rng)
        guide = _guide(maze, robot, goal.tolerance, rng)
        track = walk(robots, aims, self.steps or STEPS[size], guide, rng)
        seen = track.qpos if robot == "pointmaze" else track.states()
        return track.log(seen, *_rewarded(goal, track.qpos[:-1]))


def recipe(name: str, size: int | None = None, seed: int = 0) -> Recipe:
    """What `local/WORLD-navigate` is made of; `size` is the number of transitions."""
    world = name.removeprefix("local/").removesuffix("-navigate")
    point = world.startswith("pointmaze")
    walker = "a point that slides towards waypoints" if point else "bfq's own walking Ant"
    return Recipe(
        name,
        f"made here by OGBench's published recipe with {walker}; not OGBench's data",
        (
            part_of(
                partial(NavigateBlock, world),
                size or SIZE,
                STEPS[world.partition("-")[2]],
                EPISODES,
            ),
        ),
        seed,
        f"ogbench/{world}-singletask-task1-v0",
        {} if point else {"policies": [POLICY]},
    )


@cache
def _model(world: str) -> Any:
    """OGBench's own model; all tasks of a maze have the same."""
    return make_environment(f"ogbench/{world}-singletask-task1-v0", episode_steps=1).unwrapped.model


def _guide(maze: Maze, robot: str, reach: float, rng: np.random.Generator) -> Guide:
    def renew(places: Doubles, goals: Doubles) -> Doubles:
        reached = np.linalg.norm(places - goals, axis=1, keepdims=True) <= reach
        return np.where(reached, _about(some(maze.rooms, len(goals), rng), rng), goals)

    return Guide(
        waypoints=lambda places, goals: centers(
            maze.next_cells(maze.cells_at(places), maze.cells_at(goals))
        ),
        move=_slide_towards if robot == "pointmaze" else walk_towards,
        renew=renew,
        noise=NOISE[robot],
    )


def _slide_towards(robots: MazeRobots, directions: Doubles) -> Floats:
    return directions.astype(np.float32)


def _rewarded(goal: Goal, qpos: Doubles) -> tuple[Floats, Floats]:
    steps, robots, _ = qpos.shape
    rewards, masks = relabel(goal, qpos.reshape(steps * robots, -1), None)
    return rewards.reshape(steps, robots), masks.reshape(steps, robots)


def _about(cells: Cells, rng: np.random.Generator) -> Doubles:
    return centers(cells) + rng.uniform(-SPREAD, SPREAD, cells.shape)
