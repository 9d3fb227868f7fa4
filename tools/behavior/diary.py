"""What a training run leaves behind: a log, and packs of snapshots of its policies."""

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import IO, Any, NamedTuple

import jax
import numpy as np

from bfq.agents import Metrics
from bfq.tasks.weights import Floats, GaussianPolicy
from tools.behavior import sac
from tools.behavior.robots import get_robot
from tools.behavior.workers import Arrays

RECENT = 32  # episodes whose mean is the return of a snapshot while training


class Member(NamedTuple):
    """One run of the population."""

    robot: str
    seed: int


class Diary:
    """Returns of the episodes that ended lately, and the snapshots so far."""

    def __init__(self, members: Sequence[Member], envs: int, log: IO[str]):
        self.members, self._envs, self._log = members, envs, log
        self._began = time.monotonic()
        self._running = np.zeros(len(members) * envs)
        self._recent: list[deque[float]] = [deque(maxlen=RECENT) for _ in members]
        self.policies: list[dict[str, Floats]] = []  # a snapshot each, members stacked
        self.facts: list[list[dict[str, Any]]] = []  # a snapshot each, a member each

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self._began

    def count(self, arrays: Arrays) -> None:
        """Adds a step's rewards to the running returns, and closes those that ended."""
        self._running += arrays.rewards
        for k in np.flatnonzero(arrays.ended):
            self._recent[k // self._envs].append(float(self._running[k]))
            self._running[k] = 0.0

    def snapshot(self, states: sac.State, env_steps: int, metrics: Metrics) -> None:
        """Keeps every member's policy and writes a line for each."""
        self.policies.append(jax.device_get(sac.layers(states.policy.params)))
        values = {name: np.asarray(value) for name, value in metrics.items()}
        self.facts.append([])
        for k, member in enumerate(self.members):
            mean = float(np.mean(self._recent[k])) if self._recent[k] else None
            fact = {"seed": member.seed, "env_steps": env_steps, "training_return": mean}
            self.facts[-1].append(fact)
            learned = {name: float(value[k]) for name, value in values.items()}
            self.write({"robot": member.robot, **fact, "seconds": self.seconds, **learned})

    def write(self, row: dict[str, Any]) -> None:
        """Adds a line to the log, rounded to what a reader needs."""
        short = {name: round(x, 4) if isinstance(x, float) else x for name, x in row.items()}
        print(json.dumps(short), file=self._log, flush=True)

    def packs(self, recipe: str) -> Iterator[GaussianPolicy]:
        """The snapshots of each robot, all its seeds together, without the padding."""
        for name in dict.fromkeys(member.robot for member in self.members):
            robot = get_robot(name)
            mine = [k for k, member in enumerate(self.members) if member.robot == name]
            stacked = {
                layer: np.stack([policy[layer][k] for k in mine for policy in self.policies])
                for layer in self.policies[0]
            }
            meta = {
                "activation": "relu",
                "squash": "tanh",
                "robot": name,
                "simulator": robot.simulator,
                "mujoco": version("mujoco"),
                "recipe": recipe,
                "snapshots": [facts[k] for k in mine for facts in self.facts],
            }
            yield GaussianPolicy(
                _without_padding(stacked, robot.observation_dim, robot.action_dim), meta
            )


def _without_padding(
    arrays: dict[str, Floats], observation_dim: int, action_dim: int
) -> dict[str, Floats]:
    """The rows and columns that belong to the robot."""
    cut = dict(arrays, hidden_0_w=arrays["hidden_0_w"][:, :observation_dim])
    for layer in ("mean_w", "mean_b", "log_std_w", "log_std_b"):
        cut[layer] = arrays[layer][..., :action_dim]
    return cut
