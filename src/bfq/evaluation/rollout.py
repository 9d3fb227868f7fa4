"""Evaluation: episodes of all members together, with one network call per time step, and their scores."""

from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from bfq.agents.contract import Acting
from bfq.data.transforms import Transforms
from bfq.envs.batch import SerialEnvironments, make_environments
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.run import Numbers, Reference, json_numbers
from bfq.training.compilation import enable_compilation_cache
from bfq.training.population import Population

Floats = npt.NDArray[np.float32]
Act = Callable[[Floats, int], Floats]


class EnvironmentSpec(NamedTuple):
    """The environment of an evaluation."""

    simulator: str
    episode_steps: int


def check_environment(
    environment: EnvironmentSpec, observation_dim: int, action_low: Floats, action_high: Floats
) -> None:
    """Check, before training, that the environment exists, takes a step, and fits the data."""
    simulator = environment.simulator
    with closing(SerialEnvironments(simulator, [0], environment.episode_steps)) as one:
        observation, action = one.observations.shape[1:], one.action_low.shape
        low, high = one.action_low, one.action_high
        if (observation, action) != ((observation_dim,), action_low.shape):
            raise BadInput(
                f"{simulator} has observations of shape {observation} and actions of shape {action}, but the "
                f"data has {observation_dim} and {len(action_low)} numbers."
            )
        if (action_low < low).any() or (action_high > high).any():
            raise BadInput(
                f"{simulator} takes actions from {low.min():g} to {high.max():g}, but the data's range is "
                f"{action_low.min():g} to {action_high.max():g}: give action_low and action_high."
            )
        one.reset()
        one.step(((action_low + action_high) / 2).astype(np.float32)[None])


def population_act(
    population: Population, states: Any, transforms: Transforms, protocol: Protocol
) -> Act:
    """A function from (members, episodes) observations and the time step to actions, both untransformed."""
    enable_compilation_cache()
    policy = _compiled_act(population.agent.act, protocol.acting)

    def act(observations: Floats, time: int) -> Floats:
        normalized = transforms.normalize(observations)
        actions = policy(states, normalized, population.keys, population.configs, np.int32(time))
        return transforms.from_unit(np.asarray(actions))

    return act


@cache
def _compiled_act(act: Any, acting: Acting) -> Any:
    """The agent's act for all members, compiled once per way of acting."""

    def member(state: Any, observations: Any, key: Any, config: Any, time: Any) -> Any:
        # Updates fold in 0, 1, 2, …; acting counts down from the top of the range.
        return act(state, observations, jax.random.fold_in(key, 2**31 - 1 - time), config, acting)

    return jax.jit(jax.vmap(member, in_axes=(0, 0, 0, 0, None)))


class EpisodeResults(NamedTuple):
    """The result of every episode, (members, episodes)."""

    returns: npt.NDArray[np.float64]  # undiscounted, untransformed
    success: npt.NDArray[np.float64]  # 1 or 0 at the last step; NaN where there is no success
    steps: int = 0  # of all simulators together


def rollout(
    act: Act,
    environment: EnvironmentSpec,
    protocol: Protocol,
    members: int,
    limit: int | None = None,
) -> EpisodeResults:
    """Run the episodes of every member, for at most `limit` steps.

    Episode k starts in the same state for every member.
    """
    seeds = list(range(protocol.seed, protocol.seed + protocol.episodes)) * members
    shape, returns = (members, protocol.episodes), np.zeros(len(seeds))
    time = steps = 0
    opened = make_environments(environment.simulator, seeds, environment.episode_steps)
    with closing(opened) as simulators:
        observations = simulators.reset()
        while simulators.running.any() and time != limit:
            steps += int(simulators.running.sum())
            actions = act(observations.reshape(*shape, -1), time).reshape(len(seeds), -1)
            # A diverged member has no return; no simulator accepts NaN.
            diverged = ~np.isfinite(actions).all(1)
            finite = np.nan_to_num(actions, posinf=0.0, neginf=0.0)
            observations, rewards, _, _ = simulators.step(finite)
            returns += np.where(diverged, np.nan, rewards)
            time += 1
    success = simulators.success.astype(np.float64)
    return EpisodeResults(returns.reshape(shape), success.reshape(shape), steps)


def score_episodes(
    results: EpisodeResults, reference: Reference | None, metric: str = "return"
) -> dict[str, Numbers]:
    """Mean return, success rate where there is success, and normalized score of each member.

    `metric` is what is normalized, if there is a reference. A member that diverged has None.
    """
    found = {"return": results.returns.mean(1).tolist()}
    if not np.isnan(results.success).all():
        # A diverged member has no return, and so no success.
        success = np.where(np.isnan(results.returns), np.nan, results.success)
        found["success"] = success.mean(1).tolist()
    if reference is not None:
        found["normalized"] = [reference.normalize(value) for value in found[metric]]
    return {name: json_numbers(values) for name, values in found.items()}
