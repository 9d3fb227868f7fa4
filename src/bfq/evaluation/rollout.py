"""Episodes of all members at once: one call of the network a time step for every simulator."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents import Acting
from bfq.data.dataset import Dataset
from bfq.data.transforms import Transforms
from bfq.envs.batch import SerialEnvironments, make_environments
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.training.compiled import remember_compilations
from bfq.training.population import Population

Floats = npt.NDArray[np.float32]
Act = Callable[[Floats, int], Floats]


class World(NamedTuple):
    """Where episodes happen."""

    simulator: str
    episode_steps: int


def check_world(world: World, dataset: Dataset) -> None:
    """Refuses a simulator that does not exist or does not fit the data, before anything is trained for it."""
    simulators = SerialEnvironments(world.simulator, [0], world.episode_steps)
    seen, acted = simulators.observations.shape[1:], simulators.action_low.shape
    low, high = simulators.action_low, simulators.action_high
    simulators.close()
    if (seen, acted) != ((dataset.observation_dim,), (dataset.action_dim,)):
        raise BadInput(
            f"{world.simulator} has observations of shape {seen} and actions of shape {acted}, but the data "
            f"has {dataset.observation_dim} and {dataset.action_dim} numbers."
        )
    if (dataset.action_low < low).any() or (dataset.action_high > high).any():
        raise BadInput(
            f"{world.simulator} takes actions from {low.min():g} to {high.max():g}, but the data's range is "
            f"{dataset.action_low.min():g} to {dataset.action_high.max():g}: give action_low and action_high."
        )


def population_act(
    population: Population, states: Any, transforms: Transforms, protocol: Protocol
) -> Act:
    """Actions in the world's units for (members, episodes) observations, as a function of the time step."""
    remember_compilations()
    policy = _compiled_act(population.agent.act, protocol.acting)

    def act(observations: Floats, time: int) -> Floats:
        seen = transforms.normalize(observations)
        actions = policy(states, seen, population.keys, population.configs, np.int32(time))
        return transforms.from_unit(np.asarray(actions))

    return act


_PROGRAMS: dict[tuple[Any, Acting], Any] = {}


def _compiled_act(act: Any, acting: Acting) -> Any:
    """The agent's act for all members, compiled once for each way of acting."""

    def member(state: Any, observations: Any, key: Any, config: Any, time: Any) -> Any:
        # Updates fold in 0, 1, 2, …; acting counts down from the top of the range, where they never arrive.
        return act(state, observations, jax.random.fold_in(key, 2**31 - 1 - time), config, acting)

    if (act, acting) not in _PROGRAMS:
        _PROGRAMS[act, acting] = jax.jit(jax.vmap(member, in_axes=(0, 0, 0, 0, None)))
    return _PROGRAMS[act, acting]


class Episodes(NamedTuple):
    """What became of every episode, (members, episodes)."""

    returns: npt.NDArray[np.float64]  # undiscounted, untransformed
    success: npt.NDArray[np.float64]  # 1 or 0 at the last step; NaN in worlds that do not tell


def rollout(act: Act, world: World, protocol: Protocol, members: int) -> Episodes:
    """Runs every member's episodes. Episode k begins in the same state for every member."""
    seeds = list(range(protocol.seed, protocol.seed + protocol.episodes)) * members
    returns, time = np.zeros(len(seeds)), 0
    with closing(make_environments(world.simulator, seeds, world.episode_steps)) as simulators:
        observations = simulators.reset()
        while simulators.running.any():
            actions = act(observations.reshape(members, protocol.episodes, -1), time).reshape(
                len(seeds), -1
            )
            broken = ~np.isfinite(actions).all(
                1
            )  # a diverged member has no return; no simulator takes NaN
            observations, rewards, _, _ = simulators.step(
                np.nan_to_num(actions, posinf=0.0, neginf=0.0)
            )
            returns += np.where(broken, np.nan, rewards)
            time += 1
    shape = (members, protocol.episodes)
    return Episodes(returns.reshape(shape), simulators.success.astype(np.float64).reshape(shape))
