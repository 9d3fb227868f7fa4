"""Environments whose observations and actions are vectors of finite numbers, with errors in one sentence.

Observations with several parts (Dict, Tuple) are joined in the order of gymnasium's `flatten`, as in the
Minari datasets that bfq reads.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, MultiBinary, Tuple

from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]


def as_vectors(environment: Any, name: str) -> Any:
    """Flatten observations with several parts; refuse spaces that are missing or no vectors of numbers."""
    seen, acted = (getattr(environment, f"{of}_space", None) for of in ("observation", "action"))
    for space in _parts(seen):
        plain = isinstance(space, Box | MultiBinary)
        image = plain and len(space.shape) == 3 and space.dtype == np.uint8
        if image or not plain:
            what = f"images of shape {space.shape}" if image else f"a {_kind(space)} space"
            raise BadInput(f"the observations of {name} are {what}: bfq needs plain numbers.")
    if not isinstance(acted, Box):
        raise BadInput(
            f"the actions of {name} are a {_kind(acted)} space: bfq needs continuous actions (a Box)."
        )
    if len(acted.shape) != 1:
        raise BadInput(f"the actions of {name} have shape {acted.shape}: bfq needs a vector.")
    if isinstance(seen, Box) and len(seen.shape) == 1:
        return environment
    return gymnasium.wrappers.FlattenObservation(environment)


def _parts(space: Any) -> Iterator[Any]:
    if isinstance(space, Dict | Tuple):
        parts = space.spaces
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from _parts(part)
    else:
        yield space


def _kind(space: object) -> str:
    return type(space).__name__


# mypy does not read Gymnasium, so its classes have the type Any.
class Checked(gymnasium.Wrapper):  # type: ignore[misc]
    """An environment of the user: what it raises, and what does not fit its spaces, is one sentence."""

    def __init__(self, environment: Any, name: str):
        super().__init__(environment)
        self._name, self._shape = name, environment.observation_space.shape

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Floats, Any]:
        """Start an episode."""
        observation, info = self._call("reset", lambda: self.env.reset(seed=seed, options=options))
        return self._observation(observation), info

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Take a step; `info` keeps the success alone."""

        def step() -> Any:
            observation, reward, terminated, truncated, info = self.env.step(action)
            success = {"success": float(info["success"])} if "success" in info else {}
            return observation, float(reward), bool(terminated), bool(truncated), success

        observation, reward, terminated, truncated, info = self._call("step", step)
        if not np.isfinite(reward):
            raise BadInput(f"{self._name} returned a reward that is not finite: {reward}.")
        return self._observation(observation), reward, terminated, truncated, info

    def _call(self, what: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BadInput:
            raise
        except Exception as error:  # an environment may raise anything
            raise BadInput(f"{self._name} failed in {what}: {error!r}.") from error

    def _observation(self, observation: Any) -> Floats:
        vector: Floats = self._call("an observation", lambda: np.asarray(observation, np.float32))
        if vector.shape != self._shape:
            raise BadInput(
                f"{self._name} returned an observation of shape {vector.shape}, but its "
                f"observation_space has shape {self._shape}."
            )
        if not np.isfinite(vector).all():
            raise BadInput(f"{self._name} returned an observation with NaN or an infinite number.")
        return vector
