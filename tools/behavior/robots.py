"""The robots that behavior policies are trained on, stepped by several processes with shared arrays.

Nothing here imports JAX, since every worker process imports this file.
"""

import warnings
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.antmaze import as_maze_ant, flipped
from bfq.errors import unknown

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
REWARD_SCALE = 10.0  # reward of the directional Ant per meter
DIRECTION_STEPS = 100  # steps after which the directional Ant gets a new direction
TIMEOUT_S = 120.0  # a worker that does not answer for so long has died


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
        context = get_context("spawn")  # JAX's threads do not survive a fork
        count = len(robots)
        bodies = [get_robot(name) for name in robots]
        wide, acts = max(b.observation_dim for b in bodies), max(b.action_dim for b in bodies)
        blocks = [context.RawArray("f", count * width) for width in (acts, wide, wide, 1, 1, 1)]
        self.arrays = _views(blocks, count)
        self._done = context.Semaphore(0)
        self._starts = [context.Semaphore(0) for _ in range(processes)]
        self._order = context.RawValue("i", _RESET)
        self._processes = []
        for k, start in enumerate(self._starts):
            mine = range(k, count, processes)  # strided: each process gets its share of every robot
            jobs = [(i, robots[i], seed + i) for i in mine]
            arguments = (jobs, blocks, count, self._order, start, self._done)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._processes.append(process)

    def reset(self) -> Arrays:
        """Start an episode everywhere; the first time, each environment from its own seed."""
        return self._run(_RESET)

    def step(self, actions: Floats) -> Arrays:
        """Take one action in each environment. The next call reuses the arrays."""
        self.arrays.actions[:] = actions
        return self._run(_STEP)

    def _run(self, order: int) -> Arrays:
        self._order.value = order
        for start in self._starts:
            start.release()
        for _ in self._starts:
            if not self._done.acquire(timeout=TIMEOUT_S):
                raise RuntimeError("a simulator process does not answer")
        return self.arrays

    def close(self) -> None:
        """End the processes."""
        self._order.value = _STOP
        for start, process in zip(self._starts, self._processes, strict=True):
            start.release()
            process.join()


def episode_returns(
    robots: ParallelRobots, act: Callable[[Floats], Floats], limit: int = 1000
) -> npt.NDArray[np.float64]:
    """Run one episode in each environment and return the sums of rewards."""
    arrays = robots.reset()
    returns = np.zeros(len(arrays.rewards))
    running = np.ones(len(arrays.rewards), bool)
    for _ in range(limit):
        arrays = robots.step(act(arrays.observations))
        returns += np.where(running, arrays.rewards, 0.0)
        running &= arrays.ended == 0.0
        if not running.any():
            break
    return returns


_RESET, _STEP, _STOP = range(3)


def _views(blocks: Sequence[Any], count: int) -> Arrays:
    """Views of the shared blocks: matrices for actions and observations, vectors for the rest."""
    flat = [np.frombuffer(block, np.float32) for block in blocks]
    return Arrays(*(a.reshape(count, -1) for a in flat[:3]), *flat[3:])


def _serve(
    jobs: list[tuple[int, str, int]],
    blocks: Sequence[Any],
    count: int,
    order: Any,
    start: Any,
    done: Any,
) -> None:
    """Reset or step the environments of this process on each order."""
    arrays = _views(blocks, count)
    slots = [_Slot(arrays, index, name, seed) for index, name, seed in jobs]
    while True:
        start.acquire()
        if order.value == _STOP:
            return
        for slot in slots:
            slot.reset() if order.value == _RESET else slot.step()
        done.release()


class _Slot:
    """One environment and its row of the shared arrays."""

    def __init__(self, arrays: Arrays, index: int, name: str, seed: int):
        robot = get_robot(name)
        self._env = make_robot(name)
        self._arrays, self._index = arrays, index
        self._seed: int | None = seed
        self._wide, self._acts = robot.observation_dim, robot.action_dim

    def reset(self) -> None:
        """Start an episode."""
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None  # later episodes continue with the same random numbers
        self._arrays.observations[self._index, : self._wide] = observation

    def step(self) -> None:
        """Take one action, and reset if it ended the episode."""
        arrays, k = self._arrays, self._index
        observation, reward, terminated, truncated, _ = self._env.step(
            arrays.actions[k, : self._acts]
        )
        arrays.next_observations[k, : self._wide] = observation
        arrays.observations[k, : self._wide] = observation
        arrays.rewards[k], arrays.terminated[k] = reward, terminated
        arrays.ended[k] = terminated or truncated
        if terminated or truncated:
            self.reset()
