"""The Ant of the mazes: its body, and many robots of one model stepped together without any wrapper."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.envs.optional import package

Doubles = npt.NDArray[np.float64]
Drive = Callable[[Any, npt.NDArray[np.float32]], None]  # puts an action into a MuJoCo world
FRAME_SKIP = 5
JITTER = 0.1  # of the first state: uniform for positions, normal for velocities


def as_maze_ant(model: Any) -> None:
    """Turns Gymnasium's Ant into that of the mazes (D4RL, OGBench): 10 Hz, weaker motors, softer contacts."""
    model.opt.timestep = 0.02
    model.actuator_gear[:, 0] = 30.0
    model.geom_solimp[:, :3] = (0.8, 0.8, 0.01)


def flipped(qpos: Doubles) -> npt.NDArray[np.bool_]:
    """Whether the torso's z axis points down: 1 − 2 (x² + y²) < 0 for its quaternion (w, x, y, z)."""
    return 1.0 - 2.0 * (qpos[..., 4] ** 2 + qpos[..., 5] ** 2) < 0.0


def motors(world: Any, action: npt.NDArray[np.float32]) -> None:
    """The action is what the motors are told."""
    world.ctrl[:] = action


def slide(world: Any, action: npt.NDArray[np.float32]) -> None:
    """OGBench's point: the action shifts it by up to 0.2 m an axis, and it stands still after."""
    world.qpos[:] += 0.2 * action
    world.qvel[:] = 0.0


class Herd:
    """Robots of one model, each in a world of its own. `qpos` and `qvel` are their present states."""

    def __init__(self, model: Any, count: int, drive: Drive = motors):
        self._mujoco = package("mujoco", "mujoco")
        self._model, self._drive = model, drive
        self.worlds = [self._mujoco.MjData(model) for _ in range(count)]
        self.qpos: Doubles = np.tile(model.qpos0, (count, 1))
        self.qvel: Doubles = np.zeros((count, model.nv))

    def place(self, places: Doubles, rng: np.random.Generator, normalize: bool = True) -> None:
        """Sets every robot down at its place, joints and speeds jittered.

        MuJoCo 2 made the jittered quaternion a unit one at once, MuJoCo 3 does so in the first step only.
        """
        for k, world in enumerate(self.worlds):
            self._mujoco.mj_resetData(self._model, world)
            world.qpos[:] += rng.uniform(-JITTER, JITTER, self._model.nq)
            world.qpos[:2] = places[k]
            world.qvel[:] = JITTER * rng.standard_normal(self._model.nv)
            if normalize:
                self._mujoco.mj_normalizeQuat(self._model, world.qpos)
            self._settle(k)

    def set_state(self, k: int, qpos: Doubles, qvel: Doubles) -> None:
        """Puts one robot into a state."""
        self._mujoco.mj_resetData(self._model, self.worlds[k])
        self.worlds[k].qpos[:], self.worlds[k].qvel[:] = qpos, qvel
        self._settle(k)

    def _settle(self, k: int) -> None:
        world = self.worlds[k]
        self._mujoco.mj_forward(self._model, world)
        self.qpos[k], self.qvel[k] = world.qpos, world.qvel

    def step(self, actions: npt.NDArray[np.float32]) -> None:
        """Moves every robot for a tenth of a second."""
        move, model, drive = self._mujoco.mj_step, self._model, self._drive
        for k, world in enumerate(self.worlds):
            drive(world, actions[k])
            move(model, world, FRAME_SKIP)
            self.qpos[k], self.qvel[k] = world.qpos, world.qvel
