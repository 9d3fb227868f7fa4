"""The robots that behavior policies are trained on, by name."""

import warnings
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.antmaze import as_maze_ant, flipped
from bfq.errors import unknown

REWARD_SCALE = 10.0  # reward of the directional Ant, a meter
DIRECTION_STEPS = 100  # steps between two directions of the directional Ant


class Robot(NamedTuple):
    """A simulator with its sizes. Rewards and dynamics of v4 are those that D4RL's scores refer to."""

    name: str
    simulator: str
    observation_dim: int
    action_dim: int


ROBOTS = {
    robot.name: robot
    for robot in (
        Robot("halfcheetah", "HalfCheetah-v4", 17, 6),
        Robot("hopper", "Hopper-v4", 11, 3),
        Robot("walker2d", "Walker2d-v4", 17, 6),
        Robot("ant", "Ant-v4", 27, 8),
        Robot("ant-direction", "Ant-v4 with the maze Ant's body", 29, 8),
    )
}


def get_robot(name: str) -> Robot:
    """The robot of that name, or a sentence with the nearest one."""
    if name not in ROBOTS:
        raise unknown("robot", name, ROBOTS)
    return ROBOTS[name]


def make_robot(name: str) -> Any:
    """A simulator of the robot, with episodes of at most 1000 steps."""
    if get_robot(name).name == "ant-direction":
        return DirectionalAnt(_make("Ant-v4", terminate_when_unhealthy=False))
    return _make(ROBOTS[name].simulator)


def _make(simulator: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        # v4 is out of date on purpose: see Robot.
        warnings.filterwarnings("ignore", message=".*out of date.*", category=DeprecationWarning)
        return gymnasium.make(simulator, disable_env_checker=True, **options)


# Gymnasium is not read by mypy, so its classes are Any to it.
class DirectionalAnt(gymnasium.Wrapper):  # type: ignore[misc]
    """The maze Ant told to move in a direction z: reward = 10 · Δxy · z.

    It sees qpos without x and y, qvel, and z (13 + 14 + 2 numbers). z is drawn anew every 100 steps. A
    flipped Ant cannot get up and would earn nothing for ever, so an episode ends there with value 0.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        as_maze_ant(self.unwrapped.model)
        self.direction: npt.NDArray[np.float64] = np.array([1.0, 0.0])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float64)
        self._steps = 0

    def reset(self, **options: Any) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        """Begins an episode with a new direction."""
        state, info = self.env.reset(**options)
        self._steps = 0
        self._turn()
        return np.concatenate([state, self.direction]), info

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Moves for a tenth of a second; the reward is for the direction that was seen before the move."""
        before = self.unwrapped.data.qpos[:2].copy()
        state, _, _, truncated, info = self.env.step(action)
        qpos = self.unwrapped.data.qpos
        reward = REWARD_SCALE * float((qpos[:2] - before) @ self.direction)
        self._steps += 1
        if self._steps % DIRECTION_STEPS == 0:
            self._turn()
        return np.concatenate([state, self.direction]), reward, bool(flipped(qpos)), truncated, info

    def _turn(self) -> None:
        angle = self.np_random.uniform(-np.pi, np.pi)
        self.direction = np.array([np.cos(angle), np.sin(angle)])
