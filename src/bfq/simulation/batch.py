"""Many seeded simulators stepped together."""

import os
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]


class Simulators:
    """One simulator a seed. A simulator whose episode is over stands still until the next reset."""

    def __init__(self, simulator: str, seeds: Sequence[int], episode_steps: int, render: bool = False):
        if ":" in simulator or not simulator:  # `module:Id` would make Gymnasium import the module
            raise BadInput(f"{simulator!r} is not the id of a simulator.")
        mode = {"render_mode": "rgb_array"} if render else {}
        if render:  # pictures go to files, so no screen is needed
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        try:
            self._envs: list[Any] = [
                gymnasium.make(simulator, max_episode_steps=episode_steps, **mode) for _ in seeds
            ]
        except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
            raise BadInput(f"the simulator {simulator} cannot be made here: {error}") from error
        for space in (self._envs[0].observation_space, self._envs[0].action_space):
            if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
                raise BadInput(f"{simulator} has observations or actions that are not vectors of numbers.")
        self._seeds = list(seeds)
        self.running = np.zeros(len(seeds), bool)
        self.observations = np.zeros((len(seeds), *self._envs[0].observation_space.shape), np.float32)

    @property
    def action_low(self) -> Floats:
        """The smallest action the simulator takes."""
        low: Floats = self._envs[0].action_space.low.astype(np.float32)
        return low

    @property
    def action_high(self) -> Floats:
        """The largest action the simulator takes."""
        high: Floats = self._envs[0].action_space.high.astype(np.float32)
        return high

    def reset(self) -> Floats:
        """Begins an episode in each simulator, from its own seed."""
        for k, (env, seed) in enumerate(zip(self._envs, self._seeds, strict=True)):
            self.observations[k], _ = env.reset(seed=seed)
        self.running[:] = True
        return self.observations.copy()

    def step(self, actions: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """(observations, rewards, terminated, truncated); zeros and falses where an episode is over."""
        rewards = np.zeros(len(self._envs), np.float32)
        terminated, truncated = np.zeros(len(self._envs), bool), np.zeros(len(self._envs), bool)
        for k in np.flatnonzero(self.running):
            obs, reward, terminated[k], truncated[k], _ = self._envs[k].step(actions[k])
            self.observations[k], rewards[k] = obs, reward
        self.running &= ~(terminated | truncated)
        return self.observations.copy(), rewards, terminated, truncated

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """A picture of one simulator."""
        frame: npt.NDArray[np.uint8] = self._envs[index].render()
        return frame

    def close(self) -> None:
        """Gives back what the simulators hold."""
        for env in self._envs:
            env.close()
