"""Acting in an environment to gather experience: one environment per member, episode after episode."""

from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.transforms import Transforms
from bfq.envs.make import OWN, make_environment
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.evaluation.rollout import EnvironmentSpec, population_act
from bfq.training.population import Population

Floats = npt.NDArray[np.float32]


class Explorer:
    """Steps the environments of all members, with their policies and added noise."""

    def __init__(
        self,
        population: Population,
        transforms: Transforms,
        environment: EnvironmentSpec,
        protocol: Protocol,
        noise: float,
    ):
        self._population, self._transforms, self._protocol = population, transforms, protocol
        self._seeds, self._noise = [member.seed for member in population.members], noise
        own = OWN.get(environment.simulator)
        if own is not None and own.single and len(self._seeds) > 1:
            raise BadInput(
                f"{environment.simulator} cannot be copied, so several members cannot act in it: give its "
                "class or a function that makes it, or train one seed."
            )
        self._environments = [make_environment(*environment) for _ in self._seeds]
        self._episodes = [0] * len(self._seeds)
        self._observations = np.stack([self._start(k, 0) for k in range(len(self._seeds))])

    def _start(self, member: int, episode: int) -> Floats:
        """Start an episode, from a seed that depends on the member's seed and the number alone."""
        self._episodes[member] = episode
        (seed,) = np.random.SeedSequence((self._seeds[member], episode)).generate_state(1)
        observation, _ = self._environments[member].reset(seed=int(seed))
        return np.asarray(observation, np.float32)

    def repeat(self, member: int, episode: int, actions: Floats) -> Floats:
        """Start an episode of a member, repeat its first actions, and return the observation after them."""
        observation = self._start(member, episode)
        for action in self._transforms.from_unit(actions):
            observation, *_ = self._environments[member].step(action)
        self._observations[member] = observation
        return self._transforms.normalize(self._observations[member])

    def step(self, states: Any, time: int) -> Floats:
        """Act once in every environment; an episode that ends is followed by the next.

        Returns a row for each member, in the units of the agent: [s, a, s′, r, mask, end].
        """
        transforms, seen = self._transforms, self._observations.copy()
        act = population_act(self._population, states, transforms, self._protocol)
        unit = transforms.to_unit(np.nan_to_num(act(seen[:, None], time)[:, 0]))
        drawn = [
            np.random.default_rng((k, time, 1)).normal(size=unit.shape[1]) for k in self._seeds
        ]
        unit = np.clip(unit + self._noise * np.stack(drawn), -1.0, 1.0).astype(np.float32)
        following, (rewards, masks, ends) = (
            np.empty_like(seen),
            np.zeros((3, len(seen)), np.float32),
        )
        for k, action in enumerate(transforms.from_unit(unit)):
            following[k], rewards[k], terminated, truncated, _ = self._environments[k].step(action)
            masks[k], ends[k] = not terminated, terminated or truncated
            self._observations[k] = (
                self._start(k, self._episodes[k] + 1) if ends[k] else following[k]
            )
        numbers = np.stack([transforms.reward(rewards), masks, ends], axis=1)
        columns = [transforms.normalize(seen), unit, transforms.normalize(following), numbers]
        return np.concatenate(columns, axis=1).astype(np.float32)
