"""Robots that walk through mazes along waypoints, and data by the recipe of D4RL's AntMaze.

An Ant starts in a random cell and walks to a goal along cells found by breadth-first search: its policy gets
the direction of a point near the next cell's center, drawn at each step, and its sampled action gets Gaussian
noise. `play` walks to the hand-chosen cells of D4RL's maps and starts elsewhere; `diverse` walks to and
starts in any cell. The Ant stays near its goal until 1000 steps are over; an Ant that falls on its back lies
there. Rewards are those of the task's goal, which the Ant does not seek: 1, and a mask of 0, where a step ends
within reach of it; the episode continues.

What differs from D4RL: the policy; the choice among equally short paths; rewards are for the mean of the task's
goals (D4RL's for one draw, the same in the whole file); an episode is 1000 steps with all next states (D4RL's
1001 rows, the last of which its readers drop); and `diverse` follows D4RL's paper (in the published files, in
the episodes that could be examined, it also walks to hand-chosen cells).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset, Doubles, Floats
from bfq.envs import antmaze
from bfq.envs.antmaze import COURSES, REACH, Cells, Maze, MazeRobots, centers
from bfq.tasks.locomotion import policy_file
from bfq.tasks.recipes import DataRecipe, block_data, part_of
from bfq.tasks.weights import load_weights

Number = TypeVar("Number", bound=np.generic)
POLICY = "ant-direction"
KINDS = ("play", "diverse")
EPISODES = 8  # in a block
STEPS = 1000  # transitions per episode
SIZE = 1_000_000  # transitions, as in D4RL and OGBench
NOISE = 0.2  # of the actions
SPREAD = 1.0  # starts and waypoints are off their cell's center by up to this, per axis


@dataclass(frozen=True)
class Guide:
    """Where robots at `places` on the way to `goals` go next; both are (n, 2)."""

    waypoints: Callable[[Doubles, Doubles], Doubles]  # places, goals → the points to walk to
    move: Callable[[MazeRobots, Doubles], Floats]  # robots, unit directions → actions
    next_goals: Callable[[Doubles, Doubles], Doubles]  # places, goals → goals after this step
    noise: float  # of the actions


@dataclass(frozen=True)
class Track:
    """T steps of n robots and their goals."""

    qpos: Doubles  # (T + 1, n, …)
    qvel: Doubles
    actions: Floats  # (T, n, …)
    goals: Doubles  # (T, n, 2)

    def states(self) -> Doubles:
        """Positions and velocities side by side."""
        return np.concatenate([self.qpos, self.qvel], axis=-1)

    def dataset(self, observations: Doubles, rewards: Floats, masks: Floats) -> Dataset:
        """One episode per robot; observations have T + 1 rows, rewards and masks T."""
        ends = np.zeros(rewards.shape, bool)
        ends[-1] = True
        seen = observations.astype(np.float32)
        columns = (seen[:-1], self.actions, rewards, seen[1:], masks)
        states = {"qpos": self.qpos[:-1], "qvel": self.qvel[:-1], "goal": self.goals}
        infos = {name: _by_episode(column) for name, column in states.items()}
        return block_data([_by_episode(column) for column in columns], _by_episode(ends), infos)


def _by_episode(column: npt.NDArray[Number]) -> npt.NDArray[Number]:
    return np.swapaxes(column, 0, 1).reshape(-1, *column.shape[2:])


def draw_cells(cells: Cells, count: int, rng: np.random.Generator) -> Cells:
    """Draw cells with replacement."""
    return cells[rng.integers(len(cells), size=count)]


def walk_to_goals(
    robots: MazeRobots, goals: Doubles, steps: int, guide: Guide, rng: np.random.Generator
) -> Track:
    """Step the robots towards their goals with noisy actions."""
    qpos, qvel = [robots.qpos.copy()], [robots.qvel.copy()]
    actions: list[Floats] = []
    pursued: list[Doubles] = []
    for _ in range(steps):
        places = robots.qpos[:, :2].copy()
        ways = guide.waypoints(places, goals) - places
        directions = ways / (np.linalg.norm(ways, axis=1, keepdims=True) + 1e-6)
        action = guide.move(robots, directions)
        noisy = action + guide.noise * rng.standard_normal(action.shape)
        actions.append(np.clip(noisy, -1.0, 1.0).astype(np.float32))
        pursued.append(goals)
        robots.step(actions[-1])
        qpos.append(robots.qpos.copy())
        qvel.append(robots.qvel.copy())
        goals = guide.next_goals(robots.qpos[:, :2], goals)
    return Track(np.array(qpos), np.array(qvel), np.array(actions), np.array(pursued))


_policy = cache(lambda name: load_weights(policy_file(name)))


def walk_towards(
    robots: MazeRobots, directions: Doubles, rng: np.random.Generator | None = None
) -> Floats:
    """Return the actions of Ants in these directions: the mean or, with `rng`, a sample."""
    seen = np.concatenate([robots.qpos[:, 2:], robots.qvel, directions], axis=1)
    return _policy(POLICY).act(seen.astype(np.float32), rng)


@dataclass(frozen=True)
class AntMazeBlock:
    """A few episodes: a function of (seed, index)."""

    maze: str  # umaze, medium, large
    kind: str  # play, diverse
    episodes: int = EPISODES
    steps: int = STEPS

    def __call__(self, seed: int, index: int) -> Dataset:
        """Generate the block with this index."""
        rng = np.random.default_rng([seed, index])
        course = COURSES[self.maze]
        starts = ends = course.maze.free
        if self.kind == "play":
            ends = course.maze.marked("G")
            starts = np.array([cell for cell in starts if cell.tolist() not in ends.tolist()])
        robots = MazeRobots(_model(self.maze), self.episodes)
        robots.place(near(draw_cells(starts, self.episodes, rng), rng), rng)
        goals = antmaze.draw_goals(centers(draw_cells(ends, self.episodes, rng)), rng)
        track = walk_to_goals(robots, goals, self.steps, antmaze_guide(course.maze, rng), rng)
        reached = np.linalg.norm(track.qpos[1:, :, :2] - course.mean_goal, axis=-1) <= REACH
        return track.dataset(track.states(), reached.astype("f4"), (~reached).astype("f4"))


def antmaze_recipe(name: str, size: int | None = None, seed: int = 0) -> DataRecipe:
    """The recipe of `local/antmaze-MAZE-KIND`; `size` is the number of transitions."""
    maze, _, kind = name.removeprefix("local/antmaze-").partition("-")
    x, y = COURSES[maze].mean_goal
    return DataRecipe(
        name,
        "generated locally with bfq's Ant by the recipe of D4RL's AntMaze; not D4RL's data",
        (part_of(partial(AntMazeBlock, maze, kind), size or SIZE, STEPS, EPISODES),),
        seed,
        f"bfq/AntMaze-{maze}-v0",
        {"policies": [POLICY]},
        (
            f"Where a step ends within {REACH:g} m of ({x:g}, {y:g}), the reward is 1 and the mask 0; "
            "the episode continues.",
        ),
    )


@cache
def _model(maze: str) -> Any:
    return antmaze.build_maze(COURSES[maze].maze)


def antmaze_guide(maze: Maze, rng: np.random.Generator) -> Guide:
    """D4RL's planner: points near the center of the next cell, and at last the goal."""

    def waypoints(places: Doubles, goals: Doubles) -> Doubles:
        # The planner's cells start at a center: an Ant turns after passing it.
        first, last = (
            maze.cells_at(np.maximum(points, 0.0) - antmaze.UNIT / 2.0)
            for points in (places, goals)
        )
        following = maze.next_cells(first, last)
        arriving = (following == last).all(axis=1, keepdims=True)
        return np.where(arriving, goals, near(following, rng))

    return Guide(waypoints, partial(walk_towards, rng=rng), lambda places, goals: goals, NOISE)


def near(cells: Cells, rng: np.random.Generator, least: float = 0.0) -> Doubles:
    """Points off the centers of the cells by `least` to SPREAD per axis."""
    return centers(cells) + rng.uniform(least, SPREAD, cells.shape)
