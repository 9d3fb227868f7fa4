"""Many seeded simulators stepped together: any world, or runners without their wrappers."""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput
from bfq.simulation.cores import cores
from bfq.simulation.runners import GYMNASIUM, MOST_STEPS, OLD_MASSES, Runners
from bfq.simulation.worlds import World, make_world

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Stepped = tuple[Floats, Floats, Flags, Flags]
RUNNERS = {  # simulator: robot, whether it has the old masses
    **{world: (robot, False) for robot, world in GYMNASIUM.items()},
    **{world: (robot, True) for robot, world in OLD_MASSES.items()},
}


class Batch(Protocol):
    """Simulators with one episode each. One whose episode is over stands still."""

    success: Floats  # what each said of its last step: 1 or 0, NaN where the world does not tell

    @property
    def running(self) -> Flags:
        """Which episodes are not over."""

    def reset(self) -> Floats:
        """The first observations."""

    def step(self, actions: Floats) -> Stepped:
        """(observations, rewards, terminated, truncated); zeros and falses where an episode is over."""

    def close(self) -> None:
        """Gives back what the simulators hold."""


def open_batch(simulator: str, seeds: Sequence[int], episode_steps: int) -> Batch:
    """The simulators of that id, one a seed; the fastest way to the same numbers."""
    if simulator in RUNNERS and episode_steps == MOST_STEPS:
        return RunnerBatch(simulator, seeds)
    return Simulators(simulator, seeds, episode_steps)


class RunnerBatch:
    """Running robots, on all cores."""

    def __init__(self, simulator: str, seeds: Sequence[int]):
        robot, old_masses = RUNNERS[simulator]
        self._runners = Runners(robot, seeds, old_masses, min(cores(), len(seeds)))
        self.success = np.full(len(seeds), np.nan, np.float32)

    @property
    def running(self) -> Flags:
        """Which episodes are not over."""
        return self._runners.running

    def reset(self) -> Floats:
        """The first observations."""
        return self._runners.observations

    def step(self, actions: Floats) -> Stepped:
        """(observations, rewards, terminated, truncated); zeros and falses where an episode is over."""
        running = self.running.copy()
        step = self._runners.step(actions)
        rewards = np.where(running, step.rewards, 0.0).astype(np.float32)
        return self._runners.observations, rewards, step.terminated, step.truncated

    def close(self) -> None:
        """Ends the threads."""
        self._runners.close()


class Simulators:
    """One simulator a seed. A simulator whose episode is over stands still until the next reset.

    `success` is what each simulator said of its last step: 1 or 0, NaN where the world does not tell.
    """

    def __init__(self, simulator: str, seeds: Sequence[int], episode_steps: int, render: bool = False):
        self._envs: list[World] = [make_world(simulator, episode_steps, render) for _ in seeds]
        self._observed, self._acted = (
            _vectors(space, simulator)
            for space in (self._envs[0].observation_space, self._envs[0].action_space)
        )
        self._seeds = list(seeds)
        self.running = np.zeros(len(seeds), bool)
        self.observations = np.zeros((len(seeds), *self._observed.shape), np.float32)
        self.success = np.full(len(seeds), np.nan, np.float32)

    @property
    def action_low(self) -> Floats:
        """The smallest action the simulator takes."""
        return self._acted.low.astype(np.float32)

    @property
    def action_high(self) -> Floats:
        """The largest action the simulator takes."""
        return self._acted.high.astype(np.float32)

    def reset(self) -> Floats:
        """Begins an episode in each simulator, from its own seed."""
        for k, (env, seed) in enumerate(zip(self._envs, self._seeds, strict=True)):
            self.observations[k], _ = env.reset(seed=seed)
        self.running[:] = True
        self.success[:] = np.nan
        return self.observations.copy()

    def step(self, actions: Floats) -> Stepped:
        """(observations, rewards, terminated, truncated); zeros and falses where an episode is over."""
        rewards = np.zeros(len(self._envs), np.float32)
        terminated, truncated = np.zeros(len(self._envs), bool), np.zeros(len(self._envs), bool)
        for k in np.flatnonzero(self.running):
            obs, reward, terminated[k], truncated[k], info = self._envs[k].step(actions[k])
            self.observations[k], rewards[k] = obs, reward
            self.success[k] = info.get("success", np.nan)
        self.running &= ~(terminated | truncated)
        return self.observations.copy(), rewards, terminated, truncated

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """A picture of one simulator."""
        frame: Any = self._envs[index].render()
        return np.asarray(frame, np.uint8)

    def close(self) -> None:
        """Gives back what the simulators hold."""
        for env in self._envs:
            env.close()


def _vectors(space: gymnasium.Space[Any], simulator: str) -> gymnasium.spaces.Box:
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise BadInput(f"{simulator} has observations or actions that are not vectors of numbers.")
    return space
