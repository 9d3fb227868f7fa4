"""The four running robots stepped without any wrapper, to the bit as Gymnasium's v4 tasks step them.

Gymnasium spends a third to a half of its time outside the physics; here states are copied out once a step and
observations, rewards and falls are worked out for all robots together.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.envs.masses import robot_file, weigh_as_mujoco_2
from bfq.envs.optional import package
from bfq.errors import unknown

Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
MOST_STEPS = 1000  # an episode ends there by time-out


class Body(NamedTuple):
    """What tells one robot from another, in the numbers of Gymnasium's v4 tasks."""

    file: str
    frame_skip: int
    hidden: int  # leading positions that the robot does not see: how far it has come
    speed_limit: float  # of what it sees
    effort: float  # cost of a unit of squared action
    alive: float  # reward of a step without a fall
    jitter: float  # of the first state
    normal_speeds: bool  # first velocities: normal rather than uniform
    fallen: Callable[[Doubles, Doubles], Flags]  # by positions and velocities


def _never(qpos: Doubles, qvel: Doubles) -> Flags:
    return np.zeros(len(qpos), bool)


def _hopper_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    wild = (np.abs(np.concatenate([qpos[:, 2:], qvel], axis=1)) >= 100.0).any(1)
    return ~((qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2) & ~wild)


def _walker_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    return ~((qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0))


def _ant_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    finite = np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)
    return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


BODIES = {
    "halfcheetah": Body("half_cheetah.xml", 5, 1, np.inf, 0.1, 0.0, 0.1, True, _never),
    "hopper": Body("hopper.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _hopper_fell),
    "walker2d": Body("walker2d.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _walker_fell),
    "ant": Body("ant.xml", 5, 2, np.inf, 0.5, 1.0, 0.1, True, _ant_fell),
}
GYMNASIUM = {
    "halfcheetah": "HalfCheetah-v4",
    "hopper": "Hopper-v4",
    "walker2d": "Walker2d-v4",
    "ant": "Ant-v4",
}


OLD_MASSES = {name: f"bfq/{world.removesuffix('-v4')}-d4rl-v0" for name, world in GYMNASIUM.items()}


class Step(NamedTuple):
    """What one step gives; rows of robots whose episode is over are stale."""

    rewards: Doubles
    terminated: Flags
    truncated: Flags


class Runners:
    """Robots of one kind, one a seed, each in its first episode; one whose episode is over stands still.

    Several threads share the robots: MuJoCo computes without holding Python's lock.
    """

    def __init__(
        self, robot: str, seeds: Sequence[int], old_masses: bool = False, threads: int = 1
    ):
        if robot not in BODIES:
            raise unknown("robot", robot, BODIES)
        self._mujoco = mujoco = package("mujoco", "mujoco")
        self._body = body = BODIES[robot]
        self._model = mujoco.MjModel.from_xml_path(str(robot_file(body.file)))
        if old_masses:
            weigh_as_mujoco_2(self._model, robot_file(body.file))
        self._worlds = [mujoco.MjData(self._model) for _ in seeds]
        # Views of MuJoCo's own memory: asking it for them anew takes as long as copying what they show.
        self._views = [(world, world.ctrl, world.qpos, world.qvel) for world in self._worlds]
        self._dt = self._model.opt.timestep * body.frame_skip
        # Ant's progress is that of its torso, which MuJoCo knows as it was a substep ago.
        self._torso = self._model.body("torso").id if robot == "ant" else None
        self.qpos = np.zeros((len(seeds), self._model.nq))
        self.qvel = np.zeros((len(seeds), self._model.nv))
        self.running = np.ones(len(seeds), bool)
        self._steps = 0
        self._threads = ThreadPoolExecutor(threads) if threads > 1 else None
        self._shares = [range(first, len(seeds), threads) for first in range(threads)]
        for k, seed in enumerate(seeds):
            self._reset(k, np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))))

    @property
    def action_dim(self) -> int:
        """Motors of the robot."""
        return int(self._model.nu)

    @property
    def observations(self) -> npt.NDArray[np.float32]:
        """What the robots see now."""
        limit = self._body.speed_limit
        seen = [self.qpos[:, self._body.hidden :], np.clip(self.qvel, -limit, limit)]
        return np.concatenate(seen, axis=1).astype(np.float32)

    def step(self, actions: npt.NDArray[np.float32]) -> Step:
        """Moves every robot that is still running."""
        before, doubles = self._progress(), actions.astype(np.float64)
        if self._threads is None:
            self._move(self._shares[0], doubles)
        else:
            list(self._threads.map(lambda share: self._move(share, doubles), self._shares))
        self._steps += 1
        forward = (self._progress() - before) / self._dt
        effort = np.float32(self._body.effort) * np.square(actions).sum(1)
        fallen = self.running & self._body.fallen(self.qpos, self.qvel)
        late = self.running & (self._steps >= MOST_STEPS)
        self.running &= ~(fallen | late)
        return Step(forward + self._body.alive - effort, fallen, late)

    def _move(self, share: range, actions: Doubles) -> None:
        step, model, skip, running = (
            self._mujoco.mj_step,
            self._model,
            self._body.frame_skip,
            self.running,
        )
        for k in share:
            if running[k]:
                world, ctrl, qpos, qvel = self._views[k]
                ctrl[:] = actions[k]
                step(model, world, skip)
                self.qpos[k], self.qvel[k] = qpos, qvel

    def close(self) -> None:
        """Ends the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _reset(self, k: int, rng: np.random.Generator) -> None:
        world, jitter = self._worlds[k], self._body.jitter
        world.qpos[:] = world.qpos + rng.uniform(-jitter, jitter, self._model.nq)
        if self._body.normal_speeds:
            world.qvel[:] = jitter * rng.standard_normal(self._model.nv)
        else:
            world.qvel[:] = rng.uniform(-jitter, jitter, self._model.nv)
        self._mujoco.mj_forward(self._model, world)
        self.qpos[k], self.qvel[k] = world.qpos, world.qvel

    def _progress(self) -> Doubles:
        if self._torso is None:
            return self.qpos[:, 0].copy()
        return np.array([world.xpos[self._torso, 0] for world in self._worlds])
