"""Robots that walk through a maze from waypoint to waypoint, and what they leave behind."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bfq.envs.antmaze import Cells, MazeRobots
from bfq.tasks.locomotion import shipped
from bfq.tasks.log import Log
from bfq.tasks.weights import Weights, load

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)
POLICY = "ant-direction"


@cache
def _walker() -> Weights:
    return load(shipped(POLICY))


def walk_towards(
    robots: MazeRobots, directions: Doubles, rng: np.random.Generator | None = None
) -> Floats:
    """What the Ants do to move that way: the policy's mean or, with random numbers, a draw from it."""
    seen = np.concatenate([robots.qpos[:, 2:], robots.qvel, directions], axis=1)
    return _walker().act(seen.astype(np.float32), rng)


@dataclass(frozen=True)
class Guide:
    """Tells robots at `places` on the way to `goals` where to go next; both are (n, 2)."""

    waypoints: Callable[[Doubles, Doubles], Doubles]  # places, goals → the points to head for
    move: Callable[[MazeRobots, Doubles], Floats]  # robots, unit directions → actions
    renew: Callable[[Doubles, Doubles], Doubles]  # places, goals → the goals from now on
    noise: float  # of the actions


@dataclass(frozen=True)
class Track:
    """T steps of n robots, and where they were heading."""

    qpos: Doubles  # (T + 1, n, …)
    qvel: Doubles
    actions: Floats  # (T, n, …)
    goals: Doubles  # (T, n, 2)

    def states(self) -> Doubles:
        """Positions and velocities side by side."""
        return np.concatenate([self.qpos, self.qvel], axis=-1)

    def log(self, observations: Doubles, rewards: Floats, masks: Floats) -> Log:
        """One episode after the other, each cut off at its end; observations have T + 1 rows, the rest T."""
        seen = observations.astype(np.float32)
        last = np.zeros(rewards.shape, bool)
        last[-1] = True
        states = {"qpos": self.qpos[:-1], "qvel": self.qvel[:-1], "goal": self.goals}
        return Log(
            _joined(seen[:-1]),
            _joined(self.actions),
            _joined(rewards),
            _joined(seen[1:]),
            _joined(np.zeros_like(last)),
            _joined(last),
            {name: _joined(column) for name, column in states.items()},
            _joined(masks),
        )


def _joined(column: npt.NDArray[Number]) -> npt.NDArray[Number]:
    return np.swapaxes(column, 0, 1).reshape(-1, *column.shape[2:])


def some(cells: Cells, count: int, rng: np.random.Generator) -> Cells:
    """So many of the cells, each drawn from all."""
    return cells[rng.integers(len(cells), size=count)]


def walk(
    robots: MazeRobots, goals: Doubles, steps: int, guide: Guide, rng: np.random.Generator
) -> Track:
    """Lets the robots walk: each step a direction, an action, noise on it, and perhaps a new goal."""
    qpos, qvel, actions, sought = [robots.qpos.copy()], [robots.qvel.copy()], [], []
    for _ in range(steps):
        places = robots.qpos[:, :2].copy()
        actions.append(_act(robots, guide, guide.waypoints(places, goals) - places, rng))
        sought.append(goals)
        robots.step(actions[-1])
        qpos.append(robots.qpos.copy())
        qvel.append(robots.qvel.copy())
        goals = guide.renew(robots.qpos[:, :2], goals)
    return Track(np.array(qpos), np.array(qvel), np.array(actions), np.array(sought))


def _act(robots: MazeRobots, guide: Guide, ways: Doubles, rng: np.random.Generator) -> Floats:
    directions = ways / (np.linalg.norm(ways, axis=1, keepdims=True) + 1e-6)
    actions = guide.move(robots, directions)
    return np.clip(actions + guide.noise * rng.standard_normal(actions.shape), -1.0, 1.0).astype(
        np.float32
    )
