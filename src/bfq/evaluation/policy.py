"""One trained member as a function from observations to actions, and its critics as a value function."""

from functools import cache
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Acting, Agent
from bfq.agents.registry import get_agent
from bfq.data.transforms import Transforms
from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]


@cache
def _compiled_act(agent: Agent, acting: Acting) -> Any:
    def act(state: Any, observations: Any, key: Any, config: Any) -> Any:
        return agent.act(state, observations, key, config, acting)

    return jax.jit(act)


@jax.jit
def _smallest_value(critics: Any, observations: Any, actions: Any) -> Any:
    return critics(observations, actions).min(0)


class Policy:
    """A trained policy: call it with one observation, or a batch, in the units of the log."""

    def __init__(
        self,
        agent: Agent,
        state: Any,
        config: Any,
        transforms: Transforms,
        acting: Acting,
        seed: int = 0,
    ):
        self._agent, self._state, self._config = agent, state, config
        self._transforms, self._acting, self._seed, self._calls = transforms, acting, seed, 0

    def __repr__(self) -> str:
        sizes = len(self._transforms.observation_mean), len(self._transforms.action_low)
        how = f"temperature {self._acting.temperature:g}, candidates {self._acting.candidates}"
        return f"Policy({self._agent.name!r}: observations {sizes[0]}, actions {sizes[1]}; {how})"

    def __getstate__(self) -> dict[str, Any]:
        """The policy with NumPy arrays and the name of its agent, for other processes."""
        arrays = jax.device_get((self._state, self._config))
        changed = {"_agent": self._agent.name, "_state": arrays[0], "_config": arrays[1]}
        return self.__dict__ | changed

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._agent = get_agent(state["_agent"])

    def __call__(self, observations: npt.ArrayLike) -> Floats:
        """Return the action, or actions; each call draws new noise, reproducible by the seed."""
        given = self._rows("an observation", observations, len(self._transforms.observation_mean))
        self._calls += 1
        # Never a key of an update.
        key = jax.random.fold_in(jax.random.key(self._seed), 2**30 + self._calls)
        act = _compiled_act(self._agent, self._acting)
        unit = act(self._state, self._transforms.normalize(np.atleast_2d(given)), key, self._config)
        actions = self._transforms.from_unit(np.asarray(unit)).astype(np.float32)
        return actions.reshape(*given.shape[:-1], actions.shape[-1])

    @property
    def discount(self) -> float:
        """γ of the agent."""
        return float(self._config.discount)

    def value(self, observations: npt.ArrayLike, actions: npt.ArrayLike | None = None) -> Any:
        """Return Q(s, a), the smallest of the critics, as a discounted return in the units of the log.

        Without `actions`, those of the policy. A reward transform that adds a constant c is undone as if
        episodes never ended, by c / (1 − γ).
        """
        critics = getattr(self._state, "critics", None)
        if critics is None:
            raise BadInput(f"{self._agent.name} has no critic, so it has no value of an action.")
        seen = self._rows("an observation", observations, len(self._transforms.observation_mean))
        acted = self(seen) if actions is None else actions
        done = self._rows("an action", acted, len(self._transforms.action_low))
        if seen.shape[:-1] != done.shape[:-1]:
            raise BadInput(
                f"there are {seen.shape[:-1]} observations and {done.shape[:-1]} actions."
            )
        unit = self._transforms.to_unit(np.atleast_2d(done))
        observed = self._transforms.normalize(np.atleast_2d(seen))
        reward = self._transforms.reward
        found = np.asarray(_smallest_value(critics.params, observed, unit), np.float64)
        values = (found - reward.shift / (1.0 - min(self.discount, 1.0 - 1e-6))) / reward.scale
        return values.reshape(seen.shape[:-1])[()]

    def _rows(self, noun: str, given: npt.ArrayLike, width: int) -> Floats:
        try:
            rows = np.asarray(given, np.float32)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{noun} must be a list of numbers: {error}.") from error
        if rows.ndim not in (1, 2) or rows.shape[-1] != width:
            raise BadInput(f"{noun} has {width} numbers, but this has shape {rows.shape}.")
        if not np.isfinite(rows).all():
            raise BadInput(f"{noun} holds a number that is not finite (NaN or infinite).")
        return rows
