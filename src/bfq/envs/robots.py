"""The four locomotion robots without Gymnasium's wrappers, bit for bit as its v4 tasks step them.

Gymnasium spends a third to a half of its time outside the physics. Here states are copied out once per step,
and observations, rewards and falls are computed for all robots together.

`-d4rl-v0` are the same robots with the masses they had when D4RL's data was collected. MuJoCo before 2.1.2
computed the mass of a capsule as that of a cylinder longer than its straight part by half a radius at either
end. With these masses D4RL's stored steps repeat to the rounding of its files, and its policies reach their
published returns; with today's masses, Hopper's fall short by an eighth.
"""

import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.envs.make import OLD_MASSES as SUFFIX
from bfq.envs.make import Environment, make_gymnasium, package
from bfq.envs.worker_pool import cores
from bfq.errors import BadInput, unknown

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
MAX_STEPS = 1000  # steps after which an episode is truncated


class Robot(NamedTuple):
    """The constants of one of Gymnasium's v4 tasks."""

    file: str
    frame_skip: int
    hidden: int  # leading positions that are not observed: the distance traveled
    speed_limit: float  # of observed velocities
    control_cost: float  # per unit of squared action
    healthy_reward: float  # per step without a fall
    jitter: float  # of the first state
    normal_velocities: bool  # first velocities: normal instead of uniform
    fallen: Callable[[Doubles, Doubles], Flags]  # from positions and velocities


def _never_falls(qpos: Doubles, qvel: Doubles) -> Flags:
    return np.zeros(len(qpos), bool)


def _hopper_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    wild = (np.abs(np.concatenate([qpos[:, 2:], qvel], axis=1)) >= 100.0).any(1)
    return ~((qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2) & ~wild)


def _walker_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    return ~((qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0))


def _ant_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    finite = np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)
    return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


ROBOTS = {
    "halfcheetah": Robot("half_cheetah.xml", 5, 1, np.inf, 0.1, 0.0, 0.1, True, _never_falls),
    "hopper": Robot("hopper.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _hopper_fell),
    "walker2d": Robot("walker2d.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _walker_fell),
    "ant": Robot("ant.xml", 5, 2, np.inf, 0.5, 1.0, 0.1, True, _ant_fell),
}
GYMNASIUM = {
    "halfcheetah": "HalfCheetah-v4",
    "hopper": "Hopper-v4",
    "walker2d": "Walker2d-v4",
    "ant": "Ant-v4",
}
OLD_MASSES = {robot: f"bfq/{name.removesuffix('-v4')}{SUFFIX}" for robot, name in GYMNASIUM.items()}


class Step(NamedTuple):
    """The result of one step; the rows of robots whose episode has ended are stale."""

    rewards: Doubles
    terminated: Flags
    truncated: Flags


class Robots:
    """Robots of one kind, one per seed, each in its first episode. After its end a robot stands still.

    Several threads share the robots: MuJoCo releases Python's lock while it computes.
    """

    def __init__(
        self, robot: str, seeds: Sequence[int], old_masses: bool = False, threads: int = 1
    ):
        if robot not in ROBOTS:
            raise unknown("robot", robot, ROBOTS)
        self._mujoco = mujoco = package("mujoco", "mujoco")
        self._robot = constants = ROBOTS[robot]
        self._model = mujoco.MjModel.from_xml_path(str(robot_file(constants.file)))
        if old_masses:
            set_old_masses(self._model, robot_file(constants.file))
        self._data = [mujoco.MjData(self._model) for _ in seeds]
        # Views of MuJoCo's memory: requesting one takes as long as copying what it shows.
        self._views = [(data, data.ctrl, data.qpos, data.qvel) for data in self._data]
        self._dt = self._model.opt.timestep * constants.frame_skip
        # Ant's progress is that of its torso, whose position MuJoCo knows from one substep earlier.
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
    def observations(self) -> Floats:
        """The current observations."""
        limit = self._robot.speed_limit
        columns = [self.qpos[:, self._robot.hidden :], np.clip(self.qvel, -limit, limit)]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def step(self, actions: Floats) -> Step:
        """Move every robot whose episode has not ended."""
        before, controls = self._progress(), actions.astype(np.float64)
        if self._threads is None:
            self._move(self._shares[0], controls)
        else:
            list(self._threads.map(lambda share: self._move(share, controls), self._shares))
        self._steps += 1
        forward = (self._progress() - before) / self._dt
        cost = np.float32(self._robot.control_cost) * np.square(actions).sum(1)
        fallen = self.running & self._robot.fallen(self.qpos, self.qvel)
        truncated = self.running & (self._steps >= MAX_STEPS)
        self.running &= ~(fallen | truncated)
        return Step(forward + self._robot.healthy_reward - cost, fallen, truncated)

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _move(self, share: range, controls: Doubles) -> None:
        step, model, skip = self._mujoco.mj_step, self._model, self._robot.frame_skip
        for k in share:
            if self.running[k]:
                data, ctrl, qpos, qvel = self._views[k]
                ctrl[:] = controls[k]
                step(model, data, skip)
                self.qpos[k], self.qvel[k] = qpos, qvel

    def _reset(self, k: int, rng: np.random.Generator) -> None:
        data, jitter = self._data[k], self._robot.jitter
        data.qpos[:] = data.qpos + rng.uniform(-jitter, jitter, self._model.nq)
        if self._robot.normal_velocities:
            data.qvel[:] = jitter * rng.standard_normal(self._model.nv)
        else:
            data.qvel[:] = rng.uniform(-jitter, jitter, self._model.nv)
        self._mujoco.mj_forward(self._model, data)
        self.qpos[k], self.qvel[k] = data.qpos, data.qvel

    def _progress(self) -> Doubles:
        if self._torso is None:
            return self.qpos[:, 0].copy()
        return np.array([data.xpos[self._torso, 0] for data in self._data])


class RobotEnvironments:
    """Robots on all cores, with the methods of `bfq.envs.batch.Environments`."""

    def __init__(self, simulator: str, seeds: Sequence[int]):
        old_masses = simulator in OLD_MASSES.values()
        known = OLD_MASSES if old_masses else GYMNASIUM
        robot = next(robot for robot, name in known.items() if name == simulator)
        self._robots = Robots(robot, seeds, old_masses, min(cores(), len(seeds)))
        self.success = np.full(len(seeds), np.nan, np.float32)

    @property
    def running(self) -> Flags:
        """Which episodes have not ended."""
        return self._robots.running

    def reset(self) -> Floats:
        """Return the first observations."""
        return self._robots.observations

    def step(self, actions: Floats) -> tuple[Floats, Floats, Flags, Flags]:
        """Return (observations, rewards, terminated, truncated); 0 and False for ended episodes."""
        running = self.running.copy()
        step = self._robots.step(actions)
        rewards = np.where(running, step.rewards, 0.0).astype(np.float32)
        return self._robots.observations, rewards, step.terminated, step.truncated

    def close(self) -> None:
        """End the threads."""
        self._robots.close()


def make_with_old_masses(simulator: str, episode_steps: int, render: bool) -> Environment:
    """Make one of Gymnasium's v4 tasks with the masses of D4RL's time."""
    if simulator not in OLD_MASSES.values():
        raise unknown("simulator", simulator, OLD_MASSES.values())
    name = simulator.removeprefix("bfq/").removesuffix(SUFFIX)
    environment = make_gymnasium(f"{name}-v4", episode_steps, render)
    bare: Any = environment.unwrapped
    set_old_masses(bare.model, robot_file(Path(bare.fullpath).name))
    return environment


def robot_file(name: str) -> Path:
    """Return the path of a robot in Gymnasium, without importing it, which takes time."""
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise BadInput("this needs gymnasium: pip install gymnasium.")
    return Path(found.origin).parent / "envs" / "mujoco" / "assets" / name


def set_old_masses(model: Any, file: Path) -> None:
    """Give the only robot in a model the masses that its file had before MuJoCo 2.1.2."""
    mujoco = package("mujoco", "mujoco")
    old = _with_cylinders(mujoco, file)
    for name in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
        getattr(model, name)[:] = getattr(old, name)
    mujoco.mj_setConst(model, mujoco.MjData(model))


def _with_cylinders(mujoco: Any, file: Path) -> Any:
    """Compile the robot with a cylinder in place of the mass of each capsule."""
    spec = mujoco.MjSpec.from_file(str(file))
    today = spec.compile()
    capsules = [  # with their compiled ids, before any geom is added
        (body, geom, int(geom.id))
        for body in spec.bodies
        for geom in body.geoms
        if geom.type == mujoco.mjtGeom.mjGEOM_CAPSULE
    ]
    for body, geom, k in capsules:
        radius, half = today.geom_size[k, :2]
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            size=[radius, half + radius / 2.0, 0.0],
            fromto=[np.nan] * 6,  # pos and quat give the place instead
            pos=today.geom_pos[k].copy(),
            quat=today.geom_quat[k].copy(),
            density=geom.density,
        )
        geom.mass = 0.0
    return spec.compile()
