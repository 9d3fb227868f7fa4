"""Data for D4RL's AntMaze, made by its recipe with our own Ant policy.

An Ant set down in a random cell walks to a goal along cells found by breadth-first search: the policy is
told the direction of a point near the next cell's center, drawn anew each step, and its sampled action gets
Gaussian noise. `play` goes to the hand-chosen cells of D4RL's maps and starts elsewhere, `diverse` goes and
starts anywhere. The Ant stays about its goal until 1000 steps are over; one that falls on its back lies
there. Rewards are for the test's goal, which the Ant was not after: 1, and a mask of 0, where a step ends
within reach of it; the episode goes on.

What differs from D4RL: the policy; of equally short ways another may be taken; rewards are for the middle
of where the test draws its goals (D4RL's for one draw, the same in the whole file); an episode is 1000
steps with all their next states (D4RL's 1001 rows, the last of which its readers drop); and `diverse` is
what D4RL's paper says it is (the genuine files at hand, a few episodes each, go to hand-chosen cells there
too).
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from bfq.envs.antmaze import (
    COURSES,
    REACH,
    UNIT,
    Cells,
    Maze,
    MazeRobots,
    build_maze,
    centers,
    draw_goals,
)
from bfq.errors import unknown
from bfq.tasks.harness import Recipe, part_of
from bfq.tasks.log import Log
from bfq.tasks.waypoints import POLICY, Doubles, Guide, some, walk, walk_towards

KINDS = ("play", "diverse")
EPISODES = 8  # of a block
STEPS = 1000  # transitions an episode
SIZE = 1_000_000  # transitions, as D4RL's
NOISE = 0.2  # of the actions
SPREAD = 1.0  # starts and waypoints are off their cell's center by up to this, an axis


@dataclass(frozen=True)
class AntMazeBlock:
    """A few episodes: a function of (seed, index)."""

    maze: str  # umaze, medium, large
    kind: str  # play, diverse
    episodes: int = EPISODES
    steps: int = STEPS

    def __post_init__(self) -> None:
        if self.maze not in COURSES:
            raise unknown("maze", self.maze, COURSES)
        if self.kind not in KINDS:
            raise unknown("kind of AntMaze data", self.kind, KINDS)

    def __call__(self, seed: int, index: int) -> Log:
        """Block `index` of the data of this seed."""
        rng = np.random.default_rng([seed, index])
        course = COURSES[self.maze]
        starts, ends = _starts_and_ends(course.maze, self.kind)
        robots = MazeRobots(_model(self.maze), self.episodes)
        robots.place(_near(some(starts, self.episodes, rng), rng), rng)
        goals = draw_goals(centers(some(ends, self.episodes, rng)), rng)
        track = walk(robots, goals, self.steps, _guide(course.maze, rng), rng)
        reached = np.linalg.norm(track.qpos[1:, :, :2] - course.mean_goal, axis=-1) <= REACH
        return track.log(track.states(), reached.astype(np.float32), (~reached).astype(np.float32))


def recipe(name: str, size: int | None = None, seed: int = 0) -> Recipe:
    """What `local/antmaze-MAZE-KIND` is made of; `size` is the number of transitions."""
    maze, _, kind = name.removeprefix("local/antmaze-").partition("-")
    x, y = COURSES[maze].mean_goal
    return Recipe(
        name,
        "walked here by bfq's own Ant by the recipe of D4RL's AntMaze; not D4RL's data",
        (part_of(partial(AntMazeBlock, maze, kind), size or SIZE, STEPS, EPISODES),),
        seed,
        f"bfq/AntMaze-{maze}-v0",
        {"policies": [POLICY]},
        (
            f"Reward 1, mask 0 where a step ends within {REACH:g} m of ({x:g}, {y:g}); episodes go on.",
        ),
    )


@cache
def _model(maze: str) -> Any:
    return build_maze(COURSES[maze].maze)


def _starts_and_ends(maze: Maze, kind: str) -> tuple[Cells, Cells]:
    if kind == "diverse":
        return maze.free, maze.free
    chosen = maze.marked("G")
    return np.array([cell for cell in maze.free if cell.tolist() not in chosen.tolist()]), chosen


def _guide(maze: Maze, rng: np.random.Generator) -> Guide:
    def waypoints(places: Doubles, goals: Doubles) -> Doubles:
        last = _cells_begun(maze, goals)
        following = maze.next_cells(_cells_begun(maze, places), last)
        arriving = (following == last).all(axis=1, keepdims=True)
        return np.where(arriving, goals, _near(following, rng))

    return Guide(
        waypoints,
        move=lambda robots, directions: walk_towards(robots, directions, rng),
        renew=lambda places, goals: goals,
        noise=NOISE,
    )


def _cells_begun(maze: Maze, places: Doubles) -> Cells:
    """A cell of D4RL's planner goes from its center to the next one's: an Ant turns once it has passed it."""
    return maze.cells_at(np.maximum(places, 0.0) - UNIT / 2.0)


def _near(cells: Cells, rng: np.random.Generator) -> Doubles:
    return centers(cells) + rng.uniform(0.0, SPREAD, cells.shape)
