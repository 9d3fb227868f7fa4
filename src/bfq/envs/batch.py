"""Many seeded simulators stepped together: any world, on one core or on all, or runners without wrappers."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.cores import cores
from bfq.envs.crew import Dead, Helper
from bfq.envs.runners import GYMNASIUM, MOST_STEPS, OLD_MASSES, Runners
from bfq.envs.worlds import World, make_world
from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Stepped = tuple[Floats, Floats, Flags, Flags]
RUNNERS = {  # simulator: robot, whether it has the old masses
    **{world: (robot, False) for robot, world in GYMNASIUM.items()},
    **{world: (robot, True) for robot, world in OLD_MASSES.items()},
}

WORTH_S = 20.0  # of stepping on one core; for less, starting processes is not worth their time


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
    processes = min(cores(), len(seeds))
    if processes > 1 and len(seeds) * episode_steps * seconds_per_step(simulator) > WORTH_S:
        with suppress(Elsewhere):
            return Spread(simulator, seeds, episode_steps, processes)
    return Simulators(simulator, seeds, episode_steps)


@cache
def seconds_per_step(simulator: str, steps: int = 10) -> float:
    """About how long one step of one simulator takes."""
    one = Simulators(simulator, [0], steps)
    one.reset()
    still = np.clip(np.zeros((1, len(one.action_low)), np.float32), one.action_low, one.action_high)
    one.step(still)  # the first may prepare something
    began = time.perf_counter()
    for _ in range(steps - 1):
        one.step(still)
    one.close()
    return (time.perf_counter() - began) / (steps - 1)


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

    def __init__(
        self, simulator: str, seeds: Sequence[int], episode_steps: int, render: bool = False
    ):
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


class Elsewhere(Exception):
    """Another process would not have the same simulator."""


class Spread:
    """Simulators in several processes, each with its share; the numbers are those of `Simulators`."""

    def __init__(self, simulator: str, seeds: Sequence[int], episode_steps: int, processes: int):
        self._simulator, self._count = simulator, len(seeds)
        self._shares = [slice(k, None, processes) for k in range(processes)]
        self._helpers = [
            Helper(silent=k > 0) for k in range(processes)
        ]  # what all would say, one says
        try:
            answers = self._all(
                _open, [(simulator, seeds[share], episode_steps) for share in self._shares]
            )
            if any(answer != _registered(simulator) for answer in answers):
                raise Elsewhere
        except BaseException:
            self.close()
            raise
        self.running = np.zeros(self._count, bool)
        self.success = np.full(self._count, np.nan, np.float32)

    def reset(self) -> Floats:
        """Begins an episode in each simulator, from its own seed."""
        self.running[:] = True
        self.success[:] = np.nan
        (observations,) = self._gathered(self._all(_reset, [() for _ in self._shares]))
        return observations

    def step(self, actions: Floats) -> Stepped:
        """(observations, rewards, terminated, truncated); zeros and falses where an episode is over."""
        answers = self._all(_step, [(actions[share],) for share in self._shares])
        observations, rewards, terminated, truncated, self.success = self._gathered(answers)
        self.running &= ~(terminated | truncated)
        return observations, rewards, terminated, truncated

    def close(self) -> None:
        """Ends the processes."""
        for helper in self._helpers:
            helper.close()

    def _all(self, function: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Every process calls the function, at the same time."""
        try:
            for helper, own in zip(self._helpers, arguments, strict=True):
                helper.tell(function, *own)
            return [helper.answer() for helper in self._helpers]
        except Dead as error:
            raise BadInput(f"the simulator {self._simulator} stopped: {error}.") from error
        except (BadInput, Elsewhere):
            raise
        except Exception as error:
            raise BadInput(f"the simulator {self._simulator} failed: {error!r}.") from error

    def _gathered(self, answers: list[tuple[Any, ...]]) -> list[Any]:
        """The arrays of all simulators from those of the shares."""
        whole = [np.empty((self._count, *part.shape[1:]), part.dtype) for part in answers[0]]
        for share, answer in zip(self._shares, answers, strict=True):
            for array, part in zip(whole, answer, strict=True):
                array[share] = part
        return whole


# What a helping process does for `Spread`.

_HELD: list[Simulators] = []  # its share


def _open(simulator: str, seeds: Sequence[int], episode_steps: int) -> str:
    try:
        _HELD.append(Simulators(simulator, seeds, episode_steps))
    except BadInput as error:
        raise Elsewhere from error  # perhaps the user's script knows this simulator, and here it is unknown
    return _registered(simulator)


def _registered(simulator: str) -> str:
    """How Gymnasium makes this simulator, as text; a function of the user's script has an address in it."""
    return repr(gymnasium.registry.get(simulator))


def _reset() -> tuple[Floats]:
    return (_HELD[0].reset(),)


def _step(actions: Floats) -> tuple[Any, ...]:
    return (*_HELD[0].step(actions), _HELD[0].success)


def _vectors(space: gymnasium.Space[Any], simulator: str) -> gymnasium.spaces.Box:
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise BadInput(f"{simulator} has observations or actions that are not vectors of numbers.")
    return space
