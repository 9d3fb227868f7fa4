"""Robots as heavy as when D4RL was made: the masses by hand, and D4RL's own steps repeated."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from bfq.data.readers import d4rl
from bfq.data.replay import replay
from bfq.envs.make import make_environment
from bfq.envs.robots import GYMNASIUM, OLD_MASSES, Robots, robot_file, set_old_masses

FILES = Path(__file__).resolve().parents[2] / "shared" / "data" / "d4rl_files"


def test_a_capsule_weighs_as_a_cylinder_half_a_radius_longer_at_either_end():
    model = mujoco.MjModel.from_xml_path(str(robot_file("hopper.xml")))
    today = model.body_mass.copy()
    set_old_masses(model, robot_file("hopper.xml"))
    radius, half = model.geom("torso_geom").size[:2]
    body = model.body("torso").id
    length = 2 * half + radius
    assert model.body_mass[body] == pytest.approx(1000 * np.pi * radius**2 * length)
    along = model.body_mass[body] * radius**2 / 2
    assert min(model.body_inertia[body]) == pytest.approx(along)
    exact = 1000 * np.pi * radius**2 * (2 * half + 4 / 3 * radius)
    assert today[body] == pytest.approx(exact)


@pytest.mark.parametrize("robot", OLD_MASSES)
def test_runners_and_the_world_of_that_name_weigh_the_same(robot):
    world, runners, rng = (
        make_environment(OLD_MASSES[robot], 1000),
        Robots(robot, [5], True),
        np.random.default_rng(0),
    )
    np.testing.assert_array_equal(np.float32(world.reset(seed=5)[0]), runners.observations[0])
    for _ in range(10):
        action = (0.3 * rng.uniform(-1, 1, (1, runners.action_dim))).astype(np.float32)
        seen, reward, *_ = world.step(action[0])
        step = runners.step(action)
        np.testing.assert_array_equal(np.float32(seen), runners.observations[0])
        assert np.float32(reward) == np.float32(step.rewards[0])


@pytest.mark.skipif(not FILES.exists(), reason="the genuine files are not here")
@pytest.mark.parametrize("robot", ["halfcheetah", "hopper", "walker2d"])
def test_with_the_old_masses_the_steps_of_d4rl_are_repeated_to_rounding(robot):
    dataset = d4rl.read_d4rl(FILES / f"{robot}_medium-v2.hdf5")
    then = replay(dataset, OLD_MASSES[robot], rows=200)
    today = replay(dataset, GYMNASIUM[robot], rows=200)
    assert then["relative"]["q95"] < 1e-5
    assert today["relative"]["q95"] > 1e-3
