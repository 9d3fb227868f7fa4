"""A trained member as a function from observations to actions, in the units of the log."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Acting, Agent
from bfq.agents.registry import check_acting
from bfq.data.transforms import Transforms
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.experiment import load_trained


class Policy:
    """A trained policy: call it with one observation, or a batch, in the units of the log."""

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
        sizes = len(self._transforms.observation_mean), len(self._transforms.action_low)
        how = f"temperature {self._acting.temperature:g}, candidates {self._acting.candidates}"
        return f"Policy({self._name!r}: observations {sizes[0]}, actions {sizes[1]}; {how})"

    def __call__(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the action, or actions; each call draws new noise, reproducible by the seed."""
        given = np.asarray(observations, np.float32)
        width = len(self._transforms.observation_mean)
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise BadInput(f"an observation has {width} numbers, but this has shape {given.shape}.")
        if not np.isfinite(given).all():
            raise BadInput("an observation holds a number that is not finite (NaN or infinite).")
        self._calls += 1
        key = jax.random.fold_in(self._key, 2**30 + self._calls)  # never a key of an update
        unit = self._act(self._transforms.normalize(np.atleast_2d(given)), key)
        actions = self._transforms.from_unit(np.asarray(unit)).astype(np.float32)
        return actions.reshape(*given.shape[:-1], -1)


def load_policy(
    folder: str | Path,
    member: int = 0,
    *,
    candidates: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
) -> Policy:
    """Load a member of a run at its last checkpoint; it acts as the run's protocol says by default."""
    trained = load_trained(folder)
    state, config = trained.member(member)
    given = {"candidates": candidates, "temperature": temperature}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    acting = replace(trained.protocol.acting, **changes)
    Protocol(acting=acting).check()
    check_acting(trained.population.agent, config, acting)
    return Policy(trained.population.agent, state, config, trained.transforms, acting, seed)
