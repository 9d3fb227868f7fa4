"""Robots as heavy as they were when D4RL's data was collected.

MuJoCo before 2.1.2 took a capsule for a cylinder that is longer than its straight part by half a radius at
either end; today's masses are exact. With the old masses D4RL's stored steps are repeated to the rounding of
its files, and its policies return what is published for them; with today's, Hopper's fall short by an eighth.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from bfq.envs.optional import package

WEIGHTS = ("body_mass", "body_inertia", "body_ipos", "body_iquat")


def robot_file(name: str) -> Path:
    """A robot of Gymnasium's. Importing that for its path would take time and look for graphics."""
    found = importlib.util.find_spec("gymnasium")
    assert found is not None  # bfq needs it
    assert found.origin is not None
    return Path(found.origin).parent / "envs" / "mujoco" / "assets" / name


def weigh_as_mujoco_2(model: Any, file: Path) -> None:
    """Gives the robot of a file, alone in its model, the masses it had before MuJoCo 2.1.2."""
    mujoco = package("mujoco", "mujoco")
    then = _with_cylinders(mujoco, file)
    for weight in WEIGHTS:
        getattr(model, weight)[:] = getattr(then, weight)
    mujoco.mj_setConst(model, mujoco.MjData(model))


def _with_cylinders(mujoco: Any, file: Path) -> Any:
    """The robot with a cylinder in the place of each capsule's mass."""
    spec = mujoco.MjSpec.from_file(str(file))
    today = spec.compile()
    capsules = [  # with their numbers as compiled, before any geom is added
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
            fromto=[np.nan] * 6,  # its place is told by pos and quat
            pos=today.geom_pos[k].copy(),
            quat=today.geom_quat[k].copy(),
            density=geom.density,
        )
        geom.mass = 0.0
    return spec.compile()
