"""A trained member as a function from observations to actions, in the world's units."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents import Acting, Agent
from bfq.agents.registry import check_acting
from bfq.data.transforms import Transforms
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.experiment import load_trained


class Policy:
    """One member. Call it with an observation, or a batch of them, in the units of the log."""

    def __init__(
        self,
        agent: Agent,
        state: Any,
        config: Any,
        transforms: Transforms,
        acting: Acting,
        seed: int,
    ):
        self._name, self._acting = agent.name, acting
        self._transforms, self._key, self._calls = transforms, jax.random.key(seed), 0
        self._act = jax.jit(
            lambda observations, key: agent.act(state, observations, key, config, acting)
        )

    def __repr__(self) -> str:
        """What it is, in a line."""
        seen, done = len(self._transforms.observation_mean), len(self._transforms.action_low)
        how = f"temperature {self._acting.temperature:g}, candidates {self._acting.candidates}"
        return f"Policy({self._name!r}: observations {seen}, actions {done}; {how})"

    def __call__(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The action, or actions; successive calls draw new noise, the same for the same seed."""
        given = np.asarray(observations, np.float32)
        width = len(self._transforms.observation_mean)
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise BadInput(f"an observation has {width} numbers, but this has shape {given.shape}.")
        if not np.isfinite(given).all():
            raise BadInput("an observation holds a number that is not finite (NaN or infinite).")
        self._calls += 1
        key = jax.random.fold_in(
            self._key, 2**30 + self._calls
        )  # away from the keys of the updates
        actions = self._act(self._transforms.normalize(np.atleast_2d(given)), key)
        world = self._transforms.from_unit(np.asarray(actions)).astype(np.float32)
        return world.reshape(*given.shape[:-1], -1)


def load_policy(
    folder: str | Path,
    member: int = 0,
    *,
    candidates: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
) -> Policy:
    """A member of a finished or unfinished run, ready to act as its protocol says unless told otherwise."""
    trained = load_trained(folder)
    state, config = trained.member(member)
    wishes: dict[str, Any] = {"candidates": candidates, "temperature": temperature}
    acting = replace(trained.protocol.acting, **{k: v for k, v in wishes.items() if v is not None})
    Protocol(acting=acting).check()
    check_acting(trained.population.agent, config, acting)
    return Policy(trained.population.agent, state, config, trained.transforms, acting, seed)
