"""Trains behavior policies: several robots and seeds at once, one compiled program, many simulators.

`python -m tools.behavior.train --robot halfcheetah hopper --env-steps 4000000 --out DIR` writes
DIR/ROBOT.npz, a pack of snapshots along the way (see `weights`), and DIR/log.jsonl.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import jax
import numpy as np

from bfq.agents import Metrics, Spec
from bfq.tasks.weights import Floats
from tools.behavior import population, sac
from tools.behavior.diary import Diary, Member
from tools.behavior.robots import ROBOTS, get_robot
from tools.behavior.workers import Workers, episode_returns


@dataclass(frozen=True)
class Settings:
    """What to train and for how long; steps are counted for each member."""

    members: tuple[Member, ...]
    env_steps: int
    envs: int  # simulators a member
    updates: int  # gradient steps for each step of these simulators
    warmup: int  # first steps, with uniform actions and no learning
    capacity: int  # transitions that a member remembers
    snapshots: int  # policies to keep, besides the first
    minutes: float  # the run stops when they are over
    config: sac.Config = sac.Config()

    @property
    def spec(self) -> Spec:
        """The sizes that hold every robot."""
        robots = [get_robot(member.robot) for member in self.members]
        return Spec(max(r.observation_dim for r in robots), max(r.action_dim for r in robots))

    @property
    def joints(self) -> Floats:
        """(member, action): 1 for each action that the member's robot has."""
        counts = np.array([get_robot(member.robot).action_dim for member in self.members])
        return (np.arange(self.spec.action_dim) < counts[:, None]).astype(np.float32)

    @property
    def snapshot_steps(self) -> set[int]:
        """Steps of the simulators at which to keep the policies: T (k/N)², dense where learning is fast."""
        total = self.env_steps // self.envs
        return {round(total * (k / self.snapshots) ** 2) for k in range(self.snapshots + 1)}


def train(settings: Settings, workers: Workers, diary: Diary, seed: int) -> sac.State:
    """Acts, learns and remembers; the simulators move while the device learns from what came before."""
    members, envs, spec = len(settings.members), settings.envs, settings.spec
    states = population.start(jax.random.key(seed), members, spec, settings.config)
    memory = population.empty(members, settings.capacity // envs * envs, spec)
    act_key, learn_key = jax.random.split(jax.random.key(seed + 1))
    rng, due = np.random.default_rng(seed), settings.snapshot_steps
    joints, metrics = settings.joints, Metrics()
    observations = workers.reset().observations.copy()
    for step in count():
        over = step == settings.env_steps // envs or diary.seconds > 60.0 * settings.minutes
        if over or step in due:
            diary.snapshot(states, step * envs, metrics)
        if over:
            break
        if step * envs < settings.warmup:
            uniform = 2.0 * rng.random((members, envs, spec.action_dim), np.float32) - 1.0
            actions = uniform * joints[:, None]
        else:
            seen = observations.reshape(members, envs, -1)
            # Waits for the actions before it learns, so that learning runs beside the simulators.
            actions = np.asarray(population.act(states.policy.params, seen, joints, act_key, step))
            states, metrics = population.learn(
                states,
                memory,
                joints,
                learn_key,
                step,
                updates=settings.updates,
                spec=spec,
                config=settings.config,
            )
        arrays = workers.step(actions.reshape(members * envs, -1))
        diary.count(arrays)
        memory = population.remember(memory, population.transitions(observations, arrays, members))
        observations = arrays.observations.copy()
    return states


def evaluate(settings: Settings, workers: Workers, diary: Diary, states: sac.State) -> None:
    """Writes what the last policies return, sampled and at their middle."""
    members, joints, key = len(settings.members), settings.joints, jax.random.key(0)
    policies, calls = states.policy.params, count()

    def sampled(seen: Floats) -> Floats:
        split = seen.reshape(members, settings.envs, -1)
        actions = population.act(policies, split, joints, key, next(calls))
        return np.asarray(actions).reshape(len(seen), -1)

    def middle(seen: Floats) -> Floats:
        actions = population.act_best(policies, seen.reshape(members, settings.envs, -1), joints)
        return np.asarray(actions).reshape(len(seen), -1)

    for name, act in (("stochastic", sampled), ("deterministic", middle)):
        returns = episode_returns(workers, act).reshape(members, settings.envs)
        for member, values in zip(settings.members, returns, strict=True):
            measured = {"mean": float(values.mean()), "std": float(values.std())}
            diary.write(
                {"evaluation": name, "robot": member.robot, "seed": member.seed, **measured}
            )


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.behavior.train", description="Trains SAC policies."
    )
    parser.add_argument("--robot", nargs="+", choices=list(ROBOTS), required=True)
    parser.add_argument(
        "--env-steps", type=int, required=True, help="simulator steps of each member"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the packs and the log")
    parser.add_argument("--seeds", type=int, default=1, help="members for each robot")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--envs", type=int, default=64, help="simulators of each member")
    parser.add_argument(
        "--updates", type=int, default=16, help="gradient steps a step of the simulators"
    )
    parser.add_argument("--batch-size", type=int, default=sac.Config.batch_size)
    parser.add_argument(
        "--critic-norm", choices=("none", "before", "after"), default=sac.Config.critic_norm
    )
    parser.add_argument(
        "--warmup", type=int, default=10_000, help="first steps, with uniform actions"
    )
    parser.add_argument(
        "--capacity", type=int, default=1_000_000, help="transitions a member remembers"
    )
    parser.add_argument("--snapshots", type=int, default=50, help="policies of each member to keep")
    parser.add_argument(
        "--processes", type=int, default=2, help="processes that step the simulators"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="stops training after so long")
    return parser.parse_args(words)


def recipe(a: argparse.Namespace) -> str:
    """The command that repeats a run, with every setting but its folder."""
    words = ["python -m tools.behavior.train"]
    for name, value in vars(a).items():
        if name != "out":
            words += [
                f"--{name.replace('_', '-')}",
                *map(str, value if isinstance(value, list) else [value]),
            ]
    return " ".join(words)


def main(words: Sequence[str] | None = None) -> None:
    """Trains as the command line says and writes the packs."""
    a = arguments(words)
    seeds = range(a.seed, a.seed + a.seeds)
    members = tuple(Member(robot, seed) for robot in a.robot for seed in seeds)
    config = sac.Config(batch_size=a.batch_size, critic_norm=a.critic_norm)
    plan = (a.env_steps, a.envs, a.updates, a.warmup, a.capacity, a.snapshots, a.minutes)
    settings = Settings(members, *plan, config)
    a.out.mkdir(parents=True, exist_ok=True)
    workers = Workers([m.robot for m in members for _ in range(a.envs)], a.seed, a.processes)
    with (a.out / "log.jsonl").open("w") as log:
        diary = Diary(members, a.envs, log)
        states = train(settings, workers, diary, a.seed)
        for pack in diary.packs(recipe(a)):
            save_policy(a.out / f"{pack.meta['robot']}.npz", pack)
        evaluate(settings, workers, diary, states)
    workers.close()


if __name__ == "__main__":
    main()
