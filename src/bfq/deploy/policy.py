"""A trained member as a function from observations to actions, in the units of the log."""

from pathlib import Path

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Acting
from bfq.errors import BadInput
from bfq.experiment import Trained, load_trained


class Policy:
    """A trained policy: call it with one observation, or a batch, in the units of the log."""

    def __init__(self, trained: Trained, member: int, acting: Acting, seed: int):
        agent, (state, config) = trained.population.agent, trained.member(member)
        self._name, self._acting, self._transforms = agent.name, acting, trained.transforms
        self._key, self._calls = jax.random.key(seed), 0
        self._act = jax.jit(
            lambda observations, key: agent.act(state, observations, key, config, acting)
        )

    def __repr__(self) -> str:
        sizes = len(self._transforms.observation_mean), len(self._transforms.action_low)
        how = f"temperature {self._acting.temperature:g}, candidates {self._acting.candidates}"
        return f"Policy({self._name!r}: observations {sizes[0]}, actions {sizes[1]}; {how})"

    def __call__(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the action, or actions; each call draws new noise, reproducible by the seed."""
        try:
            given = np.asarray(observations, np.float32)
        except (TypeError, ValueError) as error:
            raise BadInput(f"an observation must be a list of numbers: {error}.") from error
        width = len(self._transforms.observation_mean)
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise BadInput(f"an observation has {width} numbers, but this has shape {given.shape}.")
        if not np.isfinite(given).all():
            raise BadInput("an observation holds a number that is not finite (NaN or infinite).")
        self._calls += 1
        key = jax.random.fold_in(self._key, 2**30 + self._calls)  # never a key of an update
        unit = self._act(self._transforms.normalize(np.atleast_2d(given)), key)
        actions = self._transforms.from_unit(np.asarray(unit)).astype(np.float32)
        return actions.reshape(*given.shape[:-1], actions.shape[-1])


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
    acting = trained.protocol(candidates=candidates, temperature=temperature).acting
    return Policy(trained, member, acting, seed)
