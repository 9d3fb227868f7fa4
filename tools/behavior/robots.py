"""The robots that behavior policies are trained on, stepped by several processes.

Nothing here imports JAX, since every worker process imports this file.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.antmaze import as_maze_ant
from bfq.envs.worker_pool import WorkerGroup
from bfq.errors import unknown

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
REWARD_SCALE = 10.0  # reward of the directional Ant per meter
DIRECTION_STEPS = 100  # steps after which the directional Ant gets a new direction


def flipped(qpos: Doubles) -> npt.NDArray[np.bool_]:
    """Whether the torso's z axis points down: 1 − 2 (x² + y²) < 0 for its quaternion."""
    return 1.0 - 2.0 * (qpos[..., 4] ** 2 + qpos[..., 5] ** 2) < 0.0


class RobotSpec(NamedTuple):
    """A simulator with its sizes; D4RL's scores refer to the rewards and dynamics of v4."""

    name: str
    simulator: str
    observation_dim: int
    action_dim: int


ROBOTS = {
    robot.name: robot
    for robot in (
        RobotSpec("halfcheetah", "HalfCheetah-v4", 17, 6),
        RobotSpec("hopper", "Hopper-v4", 11, 3),
        RobotSpec("walker2d", "Walker2d-v4", 17, 6),
        RobotSpec("ant", "Ant-v4", 27, 8),
        RobotSpec("ant-direction", "Ant-v4 with the maze Ant's body", 29, 8),
    )
}


def get_robot(name: str) -> RobotSpec:
    """Return the robot of that name; BadInput names the nearest one."""
    if name not in ROBOTS:
        raise unknown("robot", name, ROBOTS)
    return ROBOTS[name]


def make_robot(name: str) -> Any:
    """Make an environment of the robot, with episodes of at most 1000 steps."""
    if get_robot(name).name == "ant-direction":
        return DirectionalAnt(_make("Ant-v4", terminate_when_unhealthy=False))
    return _make(ROBOTS[name].simulator)


def _make(simulator: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        # v4 is out of date on purpose: see RobotSpec.
        warnings.filterwarnings("ignore", message=".*out of date.*", category=DeprecationWarning)
        return gymnasium.make(simulator, disable_env_checker=True, **options)


# mypy does not read Gymnasium, so its classes have the type Any.
class DirectionalAnt(gymnasium.Wrapper):  # type: ignore[misc]
    """The maze Ant, rewarded for moving in a direction z: reward = 10 · Δxy · z.

    It observes qpos without x and y, qvel, and z (13 + 14 + 2 numbers). z is redrawn every 100 steps. A flipped
    Ant cannot get up and would earn no more rewards, so it ends the episode with value 0.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        as_maze_ant(self.unwrapped.model)
        self.direction: npt.NDArray[np.float64] = np.array([1.0, 0.0])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float64)
        self._steps = 0

    def reset(self, **options: Any) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        """Start an episode with a new direction."""
        state, info = self.env.reset(**options)
        self._steps = 0
        self._turn()
        return np.concatenate([state, self.direction]), info

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Move for a tenth of a second; the reward is for the direction observed before the move."""
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


class Arrays(NamedTuple):
    """Inputs and outputs of one step, one row per environment, padded with 0."""

    actions: Floats  # input
    observations: Floats  # current, after a reset if the episode ended
    next_observations: Floats  # result of the action, before any reset
    rewards: Floats
    terminated: Floats  # 1 where the robot fell
    ended: Floats  # 1 where the episode ended, by a fall or by the time limit


class ParallelRobots:
    """One environment per name, split over processes; an environment resets when its episode ends."""

    def __init__(self, robots: Sequence[str], seed: int, processes: int):
        self.count, seeds = len(robots), range(seed, seed + len(robots))
        width = max(get_robot(name).observation_dim for name in robots)
        self._group = WorkerGroup(self.count, processes)
        shares = self._group.shares  # strided, so that each worker has its share of every robot
        self._group.call(_open, [(robots[share], seeds[share], width) for share in shares])

    def reset(self) -> Floats:
        """Start an episode everywhere; the first time, each environment from its own seed."""
        (observations,) = self._group.gather(
            self._group.call(_reset, [()] * len(self._group.shares))
        )
        return observations

    def step(self, actions: Floats) -> Arrays:
        """Take one action in each environment."""
        own = [(actions[share],) for share in self._group.shares]
        return Arrays(actions, *self._group.gather(self._group.call(_step, own)))

    def close(self) -> None:
        """End the processes."""
        self._group.close()


def episode_returns(
    robots: ParallelRobots, act: Callable[[Floats], Floats], limit: int = 1000
) -> npt.NDArray[np.float64]:
    """Run one episode in each environment and return the sums of rewards."""
    observations = robots.reset()
    returns, running = np.zeros(robots.count), np.ones(robots.count, bool)
    for _ in range(limit):
        arrays = robots.step(act(observations))
        observations = arrays.observations
        returns += np.where(running, arrays.rewards, 0.0)
        running &= arrays.ended == 0.0
        if not running.any():
            break
    return returns


_SLOTS: list["_Slot"] = []  # the environments of this worker


def _open(robots: Sequence[str], seeds: Sequence[int], width: int) -> None:
    _SLOTS.extend(_Slot(*one, width) for one in zip(robots, seeds, strict=True))


def _reset() -> tuple[Floats]:
    return (np.stack([slot.reset() for slot in _SLOTS]),)


def _step(actions: Floats) -> list[Floats]:
    rows = [slot.step(action) for slot, action in zip(_SLOTS, actions, strict=True)]
    return [np.asarray(column, np.float32) for column in zip(*rows, strict=True)]


class _Slot:
    """One environment, with observations padded to a common width."""

    def __init__(self, name: str, seed: int, width: int):
        self._env, self._robot, self._width = make_robot(name), get_robot(name), width
        self._seed: int | None = seed

    def reset(self) -> Floats:
        """Start an episode."""
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None  # later episodes continue with the same random numbers
        return self._padded(observation)

    def step(self, action: Floats) -> tuple[Floats, Floats, float, bool, bool]:
        """Take one action, and reset if it ended the episode."""
        state, reward, terminated, truncated, _ = self._env.step(action[: self._robot.action_dim])
        following, ended = self._padded(state), terminated or truncated
        return self.reset() if ended else following, following, reward, terminated, ended

    def _padded(self, observation: npt.NDArray[Any]) -> Floats:
        padded = np.zeros(self._width, np.float32)
        padded[: len(observation)] = observation
        return padded
