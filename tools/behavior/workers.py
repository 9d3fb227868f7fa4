"""Many simulators stepped at once by several processes that share their arrays.

No JAX in here: every worker process imports this file.
"""

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tools.behavior.robots import get_robot, make_robot

Floats = npt.NDArray[np.float32]
PATIENCE_S = 120.0  # a worker that is silent for so long has died


class Arrays(NamedTuple):
    """What one step takes and gives, a row a simulator; robots with fewer numbers leave the rest 0."""

    actions: Floats  # in: what to do
    observations: Floats  # where each simulator is now, after a reset if its episode ended
    next_observations: Floats  # where the action led, before any reset
    rewards: Floats
    terminated: Floats  # 1 where the robot fell
    ended: Floats  # 1 where the episode is over, by a fall or by the time limit


class Workers:
    """One simulator a robot's name, split over processes; simulators begin anew when an episode ends."""

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
            mine = range(
                k, count, processes
            )  # strided, so that each process has its share of every robot
            jobs = [(i, robots[i], seed + i) for i in mine]
            arguments = (jobs, blocks, count, self._order, start, self._done)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._processes.append(process)

    def reset(self) -> Arrays:
        """Begins a new episode everywhere; the first time, each from its own seed."""
        return self._run(_RESET)

    def step(self, actions: Floats) -> Arrays:
        """Takes one action in each simulator. The arrays are reused by the next call."""
        self.arrays.actions[:] = actions
        return self._run(_STEP)

    def _run(self, order: int) -> Arrays:
        self._order.value = order
        for start in self._starts:
            start.release()
        for _ in self._starts:
            if not self._done.acquire(timeout=PATIENCE_S):
                raise RuntimeError("a simulator process does not answer")
        return self.arrays

    def close(self) -> None:
        """Ends the processes."""
        self._order.value = _STOP
        for start, process in zip(self._starts, self._processes, strict=True):
            start.release()
            process.join()


def episode_returns(
    workers: Workers, act: Callable[[Floats], Floats], limit: int = 1000
) -> npt.NDArray[np.float64]:
    """The return of one episode in each simulator, all from a fresh start."""
    arrays = workers.reset()
    returns = np.zeros(len(arrays.rewards))
    running = np.ones(len(arrays.rewards), bool)
    for _ in range(limit):
        arrays = workers.step(act(arrays.observations))
        returns += np.where(running, arrays.rewards, 0.0)
        running &= arrays.ended == 0.0
        if not running.any():
            break
    return returns


_RESET, _STEP, _STOP = range(3)


def _views(blocks: Sequence[Any], count: int) -> Arrays:
    """The shared blocks as arrays: matrices for actions and observations, vectors for the rest."""
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
    """A worker's life: resets or steps its own simulators whenever told to."""
    arrays = _views(blocks, count)
    seats = [_Seat(arrays, index, name, seed) for index, name, seed in jobs]
    while True:
        start.acquire()
        if order.value == _STOP:
            return
        for seat in seats:
            seat.reset() if order.value == _RESET else seat.step()
        done.release()


class _Seat:
    """One simulator and its row of the shared arrays."""

    def __init__(self, arrays: Arrays, index: int, name: str, seed: int):
        robot = get_robot(name)
        self._env = make_robot(name)
        self._arrays, self._index = arrays, index
        self._seed: int | None = seed
        self._wide, self._acts = robot.observation_dim, robot.action_dim

    def reset(self) -> None:
        """Begins an episode."""
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None  # later episodes go on with the same random numbers
        self._arrays.observations[self._index, : self._wide] = observation

    def step(self) -> None:
        """Acts once, and begins anew when that ended the episode."""
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
