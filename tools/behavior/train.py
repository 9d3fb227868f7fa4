"""Train behavior policies for several robots and seeds at once, in one compiled program.

`python -m tools.behavior.train --robot halfcheetah hopper --env-steps 4000000 --out DIR` writes
DIR/ROBOT.npz, a pack of snapshots taken during training (see `bfq.tasks.weights`), and DIR/log.jsonl.
"""

import argparse
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np

from bfq.agents.contract import Metrics, Spec
from bfq.data.dataset import Floats
from bfq.tasks.weights import GaussianPolicy
from tools.behavior import sac
from tools.behavior.robots import ROBOTS, Arrays, ParallelRobots, episode_returns, get_robot
from tools.behavior.saving import save_weights

RECENT = 32  # episodes whose mean return is logged with a snapshot


class Member(NamedTuple):
    """One run of the population."""

    robot: str
    seed: int


class SnapshotLog:
    """The returns of recent episodes, and the snapshots so far."""

    def __init__(self, members: Sequence[Member], envs: int, log: IO[str]):
        self.members, self._envs, self._log = members, envs, log
        self._started = time.monotonic()
        self._running = np.zeros(len(members) * envs)
        self._recent: list[deque[float]] = [deque(maxlen=RECENT) for _ in members]
        self.policies: list[dict[str, Floats]] = []  # one per snapshot, members stacked
        self.facts: list[list[dict[str, Any]]] = []  # [snapshot][member]

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def count(self, arrays: Arrays) -> None:
        """Add the rewards of a step to the running returns, and record the episodes that ended."""
        self._running += arrays.rewards
        for k in np.flatnonzero(arrays.ended):
            self._recent[k // self._envs].append(float(self._running[k]))
            self._running[k] = 0.0

    def snapshot(self, states: sac.State, env_steps: int, metrics: Metrics) -> None:
        """Store the policy of every member, and write a line for each."""
        self.policies.append(jax.device_get(sac.policy_arrays(states.policy.params)))
        values = {name: np.asarray(value) for name, value in metrics.items()}
        self.facts.append([])
        for k, member in enumerate(self.members):
            mean = float(np.mean(self._recent[k])) if self._recent[k] else None
            fact = {"seed": member.seed, "env_steps": env_steps, "training_return": mean}
            self.facts[-1].append(fact)
            learned = {name: float(value[k]) for name, value in values.items()}
            self.write({"robot": member.robot, **fact, "seconds": self.seconds, **learned})

    def write(self, row: dict[str, Any]) -> None:
        """Write a line to the log, with rounded numbers."""
        short = {name: round(x, 4) if isinstance(x, float) else x for name, x in row.items()}
        print(json.dumps(short), file=self._log, flush=True)

    def packs(self, recipe: str) -> Iterator[GaussianPolicy]:
        """The snapshots of each robot, with all seeds and without padding."""
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
    """Keep only the rows and columns of this robot."""
    cut = dict(arrays, hidden_0_w=arrays["hidden_0_w"][:, :observation_dim])
    for layer in ("mean_w", "mean_b", "log_std_w", "log_std_b"):
        cut[layer] = arrays[layer][..., :action_dim]
    return cut


@dataclass(frozen=True)
class Settings:
    """What to train and for how long; steps are per member."""

    members: tuple[Member, ...]
    env_steps: int
    envs: int  # environments per member
    updates: int  # gradient updates per step of these environments
    warmup: int  # first steps, with uniform actions and no learning
    capacity: int  # transitions in the replay memory of a member
    snapshots: int  # policies to keep, besides the first
    minutes: float  # of training at most
    config: sac.Config = sac.Config()

    @property
    def spec(self) -> Spec:
        """The largest sizes of all robots."""
        robots = [get_robot(member.robot) for member in self.members]
        return Spec(max(r.observation_dim for r in robots), max(r.action_dim for r in robots))

    @property
    def joints(self) -> Floats:
        """(member, action): 1 for each action that the member's robot has."""
        counts = np.array([get_robot(member.robot).action_dim for member in self.members])
        return (np.arange(self.spec.action_dim) < counts[:, None]).astype(np.float32)

    @property
    def snapshot_steps(self) -> set[int]:
        """The steps of the snapshots: T (k/N)², dense at first, where learning is fast."""
        total = self.env_steps // self.envs
        return {round(total * (k / self.snapshots) ** 2) for k in range(self.snapshots + 1)}


def train(settings: Settings, robots: ParallelRobots, log: SnapshotLog, seed: int) -> sac.State:
    """Train the members; the environments step while the device updates the networks."""
    members, envs, spec = len(settings.members), settings.envs, settings.spec
    states = sac.init_members(jax.random.key(seed), members, spec, settings.config)
    memory = sac.empty_memory(members, settings.capacity // envs * envs, spec)
    act_key, learn_key = jax.random.split(jax.random.key(seed + 1))
    rng, due = np.random.default_rng(seed), settings.snapshot_steps
    joints, metrics = settings.joints, Metrics()
    observations = robots.reset()
    for step in count():
        over = step == settings.env_steps // envs or log.seconds > 60.0 * settings.minutes
        if over or step in due:
            log.snapshot(states, step * envs, metrics)
        if over:
            break
        if step * envs < settings.warmup:
            uniform = 2.0 * rng.random((members, envs, spec.action_dim), np.float32) - 1.0
            actions = uniform * joints[:, None]
        else:
            seen = observations.reshape(members, envs, -1)
            # np.asarray waits for the actions, so that the updates run while the environments step.
            actions = np.asarray(
                sac.sample_actions(states.policy.params, seen, joints, act_key, step)
            )
            states, metrics = sac.update_members(
                states,
                memory,
                joints,
                learn_key,
                step,
                updates=settings.updates,
                spec=spec,
                config=settings.config,
            )
        arrays = robots.step(actions.reshape(members * envs, -1))
        log.count(arrays)
        memory = sac.remember(memory, sac.memory_rows(observations, arrays, members))
        observations = arrays.observations
    return states


def evaluate(
    settings: Settings, robots: ParallelRobots, log: SnapshotLog, states: sac.State
) -> None:
    """Log the returns of the last policies, with sampled and with mean actions."""
    members, joints, key = len(settings.members), settings.joints, jax.random.key(0)
    policies, calls = states.policy.params, count()

    def sampled(seen: Floats) -> Floats:
        split = seen.reshape(members, settings.envs, -1)
        actions = sac.sample_actions(policies, split, joints, key, next(calls))
        return np.asarray(actions).reshape(len(seen), -1)

    def mean(seen: Floats) -> Floats:
        actions = sac.mean_actions(policies, seen.reshape(members, settings.envs, -1), joints)
        return np.asarray(actions).reshape(len(seen), -1)

    for name, act in (("stochastic", sampled), ("deterministic", mean)):
        returns = episode_returns(robots, act).reshape(members, settings.envs)
        for member, values in zip(settings.members, returns, strict=True):
            measured = {"mean": float(values.mean()), "std": float(values.std())}
            log.write({"evaluation": name, "robot": member.robot, "seed": member.seed, **measured})


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.behavior.train", description="Train SAC policies."
    )
    parser.add_argument("--robot", nargs="+", choices=list(ROBOTS), required=True)
    parser.add_argument("--env-steps", type=int, required=True, help="environment steps per member")
    parser.add_argument("--out", type=Path, required=True, help="folder for the packs and the log")
    parser.add_argument("--seeds", type=int, default=1, help="seeds per robot")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--envs", type=int, default=64, help="environments per member")
    parser.add_argument(
        "--updates", type=int, default=16, help="gradient updates per step of the environments"
    )
    parser.add_argument("--batch-size", type=int, default=sac.Config.batch_size)
    parser.add_argument(
        "--critic-norm", choices=("none", "before", "after"), default=sac.Config.critic_norm
    )
    parser.add_argument(
        "--warmup", type=int, default=10_000, help="first steps, with uniform actions"
    )
    parser.add_argument(
        "--capacity", type=int, default=1_000_000, help="transitions in a replay memory"
    )
    parser.add_argument("--snapshots", type=int, default=50, help="snapshots per member")
    parser.add_argument(
        "--processes", type=int, default=2, help="processes that step the environments"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="limit of the training time")
    return parser.parse_args(words)


def recipe(a: argparse.Namespace) -> str:
    """Return the command that repeats a run, with every setting except its folder."""
    words = ["python -m tools.behavior.train"]
    for name, value in vars(a).items():
        if name != "out":
            words += [
                f"--{name.replace('_', '-')}",
                *map(str, value if isinstance(value, list) else [value]),
            ]
    return " ".join(words)


def main(words: Sequence[str] | None = None) -> None:
    """Train policies and write the packs."""
    a = arguments(words)
    seeds = range(a.seed, a.seed + a.seeds)
    members = tuple(Member(robot, seed) for robot in a.robot for seed in seeds)
    config = sac.Config(batch_size=a.batch_size, critic_norm=a.critic_norm)
    plan = (a.env_steps, a.envs, a.updates, a.warmup, a.capacity, a.snapshots, a.minutes)
    settings = Settings(members, *plan, config)
    a.out.mkdir(parents=True, exist_ok=True)
    robots = ParallelRobots([m.robot for m in members for _ in range(a.envs)], a.seed, a.processes)
    with (a.out / "log.jsonl").open("w") as file:
        log = SnapshotLog(members, a.envs, file)
        states = train(settings, robots, log, a.seed)
        for pack in log.packs(recipe(a)):
            save_weights(a.out / f"{pack.meta['robot']}.npz", pack)
        evaluate(settings, robots, log, states)
    robots.close()


if __name__ == "__main__":
    main()
