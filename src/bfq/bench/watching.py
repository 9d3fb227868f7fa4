"""Where the time of an evaluation goes, read off a clock around the policy: the rollout is left as it is.

The policy's time is that of its calls, with the way of the numbers to the device and back. Before the first
call simulators are opened; between two calls they step.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Enough(Exception):
    """The policy has been called as often as wished."""


class Watched(NamedTuple):
    """One evaluation in seconds, and the steps of all its simulators together."""

    seconds: float
    opening: float
    policy: float
    steps: int

    @property
    def stepping(self) -> float:
        """Seconds in the simulators, and in what little stands between them and the policy."""
        return self.seconds - self.opening - self.policy


class _Door:
    """The policy, with a note of who comes to it and when.

    A simulator whose episode is over stands still, so those that run are those that have moved. The last step
    is not seen from here: it is taken to move as many as the one before it.
    """

    def __init__(self, act: Callable[[Any, int], Any], limit: int | None):
        self._act, self._limit = act, limit
        self._seen: Any = None
        self._moving = 0
        self.opened: float | None = None
        self.seconds, self.calls, self.steps = 0.0, 0, 0

    def __call__(self, observations: Any, time_step: int) -> Any:
        began = time.perf_counter()
        if self.opened is None:
            self.opened, self._moving = began, observations[..., 0].size
        else:
            self._moving = int((observations != self._seen).any(-1).sum())
            self.steps += self._moving
        if self.calls == self._limit:
            raise Enough
        self._seen, self.calls = observations, self.calls + 1
        asked = time.perf_counter()
        actions = self._act(observations, time_step)
        self.seconds += time.perf_counter() - asked
        return actions

    def last_step(self) -> None:
        """Counts the step after which no one came any more."""
        self.steps += self._moving


def watch(
    rollout: Callable[[Any], Any], act: Callable[[Any, int], Any], limit: int | None = None
) -> Watched:
    """Times a rollout of this policy, to its end or until the policy has been asked `limit` times."""
    door, began = _Door(act, limit), time.perf_counter()
    try:
        rollout(door)
        door.last_step()
    except Enough:
        pass
    ended = time.perf_counter()
    opening = (door.opened if door.opened is not None else ended) - began
    return Watched(ended - began, opening, door.seconds, door.steps)
