"""The four locomotion robots without wrappers, bit for bit like Gymnasium's v4 tasks.

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
    fallen: Callable[[Doubles, Doubles], Flags] = lambda qpos, qvel: np.zeros(len(qpos), bool)


def _hopper_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    wild = (np.abs(np.concatenate([qpos[:, 2:], qvel], axis=1)) >= 100.0).any(1)
    return ~((qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2) & ~wild)


def _walker_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    return ~((qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0))


def _ant_fell(qpos: Doubles, qvel: Doubles) -> Flags:
    finite = np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)
    return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


ROBOTS = {
    "halfcheetah": Robot("half_cheetah.xml", 5, 1, np.inf, 0.1, 0.0, 0.1, True),
    "hopper": Robot("hopper.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _hopper_fell),
    "walker2d": Robot("walker2d.xml", 4, 1, 10.0, 1e-3, 1.0, 5e-3, False, _walker_fell),
    "ant": Robot("ant.xml", 5, 2, np.inf, 0.5, 1.0, 0.1, True, _ant_fell),
}
GYMNASIUM = dict(zip(ROBOTS, ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Ant-v4"), strict=True))
OLD_MASSES = {robot: f"bfq/{name.removesuffix('-v4')}{SUFFIX}" for robot, name in GYMNASIUM.items()}


SIMULATORS = {GYMNASIUM[robot]: (robot, False) for robot in ROBOTS}
SIMULATORS |= {OLD_MASSES[robot]: (robot, True) for robot in ROBOTS}


class Robots:
    """One robot per seed in its first episode, with the methods of `SerialEnvironments`.

    Several threads share the robots: MuJoCo releases Python's lock while it computes.
    """

    def __init__(self, simulator: str, seeds: Sequence[int], threads: int | None = None):
        if simulator not in SIMULATORS:
            raise unknown("simulator", simulator, SIMULATORS)
        name, old_masses = SIMULATORS[simulator]
        mujoco, self.robot = package("mujoco", "mujoco"), ROBOTS[name]
        self.model = mujoco.MjModel.from_xml_path(str(robot_file(self.robot.file)))
        if old_masses:
            set_old_masses(self.model, robot_file(self.robot.file))
        self.data, self.action_dim = [mujoco.MjData(self.model) for _ in seeds], int(self.model.nu)
        # Views of MuJoCo's memory: requesting one takes as long as copying what it shows.
        self._views = [(data, data.ctrl, data.qpos, data.qvel) for data in self.data]
        self._mj_step, self._dt = mujoco.mj_step, self.model.opt.timestep * self.robot.frame_skip
        # Ant's progress is that of its torso, whose position MuJoCo knows from one substep earlier.
        self._torso = self.model.body("torso").id if name == "ant" else None
        self.qpos = np.zeros((len(seeds), self.model.nq))
        self.qvel = np.zeros((len(seeds), self.model.nv))
        self.running = np.ones(len(seeds), bool)
        self.success = np.full(len(seeds), np.nan, np.float32)
        self._steps = 0
        threads = min(cores(), len(seeds)) if threads is None else threads
        self._threads = ThreadPoolExecutor(threads) if threads > 1 else None
        self._shares = [range(first, len(seeds), threads) for first in range(threads)]
        for k, seed in enumerate(seeds):
            self._start(k, np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))))
            mujoco.mj_forward(self.model, self.data[k])
            self.qpos[k], self.qvel[k] = self.data[k].qpos, self.data[k].qvel

    @property
    def observations(self) -> Floats:
        """The current observations."""
        limit = self.robot.speed_limit
        columns = [self.qpos[:, self.robot.hidden :], np.clip(self.qvel, -limit, limit)]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def reset(self) -> Floats:
        """Return the first observations."""
        return self.observations

    def step(self, actions: Floats) -> tuple[Floats, Floats, Flags, Flags]:
        """Return (observations, rewards, terminated, truncated); 0 and False for ended episodes."""
        running, before = self.running.copy(), self._progress()
        controls = actions.astype(np.float64)
        if self._threads is None:
            self._move(self._shares[0], controls)
        else:
            list(self._threads.map(lambda share: self._move(share, controls), self._shares))
        self._steps += 1
        forward = (self._progress() - before) / self._dt
        cost = np.float32(self.robot.control_cost) * np.square(actions).sum(1)
        rewards = np.where(running, forward + self.robot.healthy_reward - cost, 0.0)
        fallen = running & self.robot.fallen(self.qpos, self.qvel)
        truncated = running & (self._steps >= MAX_STEPS)
        self.running = running & ~(fallen | truncated)
        return self.observations, rewards.astype(np.float32), fallen, truncated

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _move(self, share: range, controls: Doubles) -> None:
        step, model, skip = self._mj_step, self.model, self.robot.frame_skip
        for k in share:
            if self.running[k]:
                data, ctrl, qpos, qvel = self._views[k]
                ctrl[:] = controls[k]
                step(model, data, skip)
                self.qpos[k], self.qvel[k] = qpos, qvel

    def _start(self, k: int, rng: np.random.Generator) -> None:
        data, jitter = self.data[k], self.robot.jitter
        data.qpos[:] = data.qpos + rng.uniform(-jitter, jitter, self.model.nq)
        if self.robot.normal_velocities:
            data.qvel[:] = jitter * rng.standard_normal(self.model.nv)
        else:
            data.qvel[:] = rng.uniform(-jitter, jitter, self.model.nv)

    def _progress(self) -> Doubles:
        if self._torso is None:
            return self.qpos[:, 0].copy()
        return np.array([data.xpos[self._torso, 0] for data in self.data])


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
