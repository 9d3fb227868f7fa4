"""Many seeded environments stepped together, in one process or in several."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.make import OLD_MASSES, OWN, make_environment, resolve
from bfq.envs.worker_pool import WorkerDied, WorkerGroup, cores
from bfq.errors import BadInput

if TYPE_CHECKING:
    from bfq.envs.robots import Robots

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Stepped = tuple[Floats, Floats, Flags, Flags]
# One episode per environment; an environment whose episode has ended stands still. `success` is the
# `info["success"]` of the last step, 1 or 0, and NaN where there is none.
Environments: TypeAlias = "SerialEnvironments | ParallelEnvironments | Robots"
FASTER = {  # simulators with a faster implementation that gives the same numbers
    name: "bfq.envs.robots:Robots"
    for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant")
    for name in (f"{robot}-v4", f"bfq/{robot}{OLD_MASSES}")
}
FASTER_LIMIT = 1000  # steps per episode in the faster implementation
PARALLEL_S = 20.0  # seconds of stepping on one core that outweigh the start of worker processes


def make_environments(simulator: str, seeds: Sequence[int], episode_steps: int) -> Environments:
    """Make one environment per seed, in the fastest way that gives the same numbers."""
    if simulator in FASTER and episode_steps == FASTER_LIMIT:
        return resolve(FASTER[simulator])(simulator, seeds)
    own = OWN.get(simulator)
    if own and own.single:
        return SuccessiveEnvironments(simulator, seeds, episode_steps)
    processes = 1 if own and not own.importable else min(cores(), len(seeds))
    if processes > 1 and len(seeds) * episode_steps * seconds_per_step(simulator) > PARALLEL_S:
        with suppress(UnlikeHere):  # a worker would open another environment under this id
            return ParallelEnvironments(simulator, seeds, episode_steps, processes)
    return SerialEnvironments(simulator, seeds, episode_steps)


@cache
def seconds_per_step(simulator: str) -> float:
    """Measure about how long one step of one environment takes."""
    steps = 10
    one = SerialEnvironments(simulator, [0], steps)
    one.reset()
    still = np.clip(np.zeros((1, len(one.action_low)), np.float32), one.action_low, one.action_high)
    one.step(still)  # the first step may initialize something
    started = time.perf_counter()
    for _ in range(steps - 1):
        one.step(still)
    one.close()
    return (time.perf_counter() - started) / (steps - 1)


class SerialEnvironments:
    """One environment per seed, stepped one after another."""

    def __init__(
        self, simulator: str, seeds: Sequence[int], episode_steps: int, render: bool = False
    ):
        self.members = [make_environment(simulator, episode_steps, render) for _ in seeds]
        observed: Any = self.members[0].observation_space
        acted: Any = self.members[0].action_space
        self.action_low, self.action_high = acted.low.astype("f4"), acted.high.astype("f4")
        self._seeds = list(seeds)
        self.running = np.zeros(len(seeds), bool)
        self.observations = np.zeros((len(seeds), *observed.shape), np.float32)
        self.success = np.full(len(seeds), np.nan, np.float32)

    def reset(self) -> Floats:
        """Start an episode in each environment, from its own seed."""
        for k, (environment, seed) in enumerate(zip(self.members, self._seeds, strict=True)):
            self.observations[k], _ = environment.reset(seed=seed)
        self.running[:] = True
        return self.observations.copy()

    def step(self, actions: Floats) -> Stepped:
        """Return (observations, rewards, terminated, truncated); 0 and False for ended episodes."""
        rewards = np.zeros(len(self.members), np.float32)
        terminated, truncated = np.zeros((2, len(self.members)), bool)
        for k in np.flatnonzero(self.running):
            step = self.members[k].step(actions[k])
            self.observations[k], rewards[k], terminated[k], truncated[k], info = step
            self.success[k] = info.get("success", np.nan)
        self.running &= ~(terminated | truncated)
        return self.observations.copy(), rewards, terminated, truncated

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Render one environment."""
        frame: Any = self.members[index].render()
        return np.asarray(frame, np.uint8)

    def close(self) -> None:
        """Close every environment."""
        for environment in self.members:
            environment.close()


class SuccessiveEnvironments(SerialEnvironments):
    """One instance that cannot be copied: it runs one episode after the other."""

    def reset(self) -> Floats:
        """Start the first episode; the others wait."""
        self.observations[0], _ = self.members[0].reset(seed=self._seeds[0])
        self.running[:] = True
        return self.observations.copy()

    def step(self, actions: Floats) -> Stepped:
        """Step the current episode; at its end, start the next one."""
        current = int(np.argmax(self.running))
        self.running[current + 1 :] = False
        result = super().step(actions)
        self.running[current + 1 :] = True
        following = current + 1
        if not self.running[current] and following < len(self.members):
            first, _ = self.members[following].reset(seed=self._seeds[following])
            self.observations[following] = first
        return self.observations.copy(), *result[1:]


class UnlikeHere(Exception):
    """A worker process does not have the same simulator as this process."""


class ParallelEnvironments:
    """Environments in several processes; the numbers are those of `SerialEnvironments`."""

    def __init__(self, simulator: str, seeds: Sequence[int], episode_steps: int, processes: int):
        self._simulator = simulator
        self.group = WorkerGroup(len(seeds), processes)
        try:
            opened = [(simulator, seeds[share], episode_steps) for share in self.group.shares]
            if any(one != _registered(simulator) for one in self._call(_open, opened)):
                raise UnlikeHere
        except BaseException:
            self.close()
            raise
        self.running = np.zeros(len(seeds), bool)
        self.success = np.full(len(seeds), np.nan, np.float32)

    def reset(self) -> Floats:
        """Start an episode in each environment, from its own seed."""
        self.running[:] = True
        (observations,) = self.group.gather(self._call(_reset, [()] * len(self.group.shares)))
        return observations

    def step(self, actions: Floats) -> Stepped:
        """Return (observations, rewards, terminated, truncated); 0 and False for ended episodes."""
        answers = self._call(_step, [(actions[share],) for share in self.group.shares])
        observations, rewards, terminated, truncated, self.success = self.group.gather(answers)
        self.running &= ~(terminated | truncated)
        return observations, rewards, terminated, truncated

    def close(self) -> None:
        """End the processes."""
        self.group.close()

    def _call(self, function: Any, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            return self.group.call(function, arguments)
        except WorkerDied as error:
            raise BadInput(f"the simulator {self._simulator} stopped: {error}.") from error
        except (BadInput, UnlikeHere):
            raise
        except Exception as error:
            raise BadInput(f"the simulator {self._simulator} failed: {error!r}.") from error


# What a worker process does for `ParallelEnvironments`.

_SHARE: list[SerialEnvironments] = []


def _open(simulator: str, seeds: Sequence[int], episode_steps: int) -> str:
    try:
        if ":" in simulator:
            from bfq.envs.own import admit

            admit(simulator)
        _SHARE.append(SerialEnvironments(simulator, seeds, episode_steps))
    except BadInput as error:
        raise UnlikeHere from error  # the user's script may have registered this simulator
    return _registered(simulator)


def _registered(simulator: str) -> str:
    """Describe what Gymnasium has registered; classes of the user's script by address."""
    return repr(gymnasium.registry.get(simulator))


def _reset() -> tuple[Floats]:
    return (_SHARE[0].reset(),)


def _step(actions: Floats) -> tuple[Any, ...]:
    return (*_SHARE[0].step(actions), _SHARE[0].success)
