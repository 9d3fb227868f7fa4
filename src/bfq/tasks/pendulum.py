"""Pendulum data from a mixture of scripted controllers, generated in seconds.

The good controllers pump energy until the pendulum can rise, and then hold it up. Two of them are one-sided:
where the pendulum hangs still, one always pushes left and one always right, so the same state has two good
actions, and their mean is the worst of all. The rest are sloppy and random controllers.
"""

from collections.abc import Callable

import numpy as np

from bfq.data.arrays import from_arrays
from bfq.data.dataset import Dataset, Floats
from bfq.envs.batch import SerialEnvironments
from bfq.tasks.catalog import PENDULUM, TASKS

Controller = Callable[[Floats, np.random.Generator], Floats]
MAX_TORQUE = 2.0
TOP_ENERGY = 5.0  # m g l/2 of the upright pendulum at rest
EPISODES = 100


def swing_up(side: float, gain: float, noise: float) -> Controller:
    """A controller that pumps energy towards the top, then holds with a PD rule.

    `side` is the direction in which it pushes a still pendulum; `gain` scales the hold, `noise` is added.
    """

    def control(observations: Floats, rng: np.random.Generator) -> Floats:
        cos, sin, speed = observations.T
        angle = np.arctan2(sin, cos)  # 0 is upright
        energy = speed**2 / 6.0 + TOP_ENERGY * cos  # ½ (m l²/3) θ̇² + m g (l/2) cos θ
        direction = np.where(np.abs(speed) < 0.3, side, np.sign(speed))
        pump = MAX_TORQUE * direction * np.sign(TOP_ENERGY - energy)
        hold = -gain * (12.0 * angle + 3.0 * speed)
        torque = np.where(np.abs(angle) < 0.45, hold, pump)
        torque = torque + noise * rng.standard_normal(torque.shape)
        return np.clip(torque, -MAX_TORQUE, MAX_TORQUE).astype(np.float32)[:, None]

    return control


def random_torque(observations: Floats, rng: np.random.Generator) -> Floats:
    """Uniformly random torque."""
    return rng.uniform(-MAX_TORQUE, MAX_TORQUE, (len(observations), 1)).astype(np.float32)


BEST = swing_up(side=1.0, gain=1.0, noise=0.0)

MIXTURE: tuple[tuple[Controller, float], ...] = (
    (swing_up(side=1.0, gain=1.0, noise=0.3), 0.15),
    (swing_up(side=-1.0, gain=1.0, noise=0.3), 0.15),
    (swing_up(side=1.0, gain=0.3, noise=1.0), 0.2),
    (swing_up(side=-1.0, gain=0.15, noise=1.5), 0.2),
    (random_torque, 0.3),
)


def generate_pendulum(episodes: int = EPISODES, seed: int = 0) -> Dataset:
    """Log the mixture of controllers; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, 2**31 - 1, episodes).tolist()
    task = TASKS[PENDULUM]
    environments = SerialEnvironments(task.simulator, seeds, task.episode_steps)
    shares = np.array([share for _, share in MIXTURE])
    chosen = np.searchsorted(np.cumsum(shares), (np.arange(episodes) + 0.5) / episodes)
    observations, rows = environments.reset(), []
    while environments.running.any():
        actions = np.zeros((episodes, 1), np.float32)
        for k, (controller, _) in enumerate(MIXTURE):
            actions[chosen == k] = controller(observations[chosen == k], rng)
        following, rewards, terminated, truncated = environments.step(actions)
        rows.append((observations, actions, rewards, terminated, truncated, following))
        observations = following
    environments.close()
    stacked = [np.stack(column, axis=1) for column in zip(*rows, strict=True)]
    columns = [column.reshape(-1, *column.shape[2:]) for column in stacked]
    source = f"{episodes} episodes of {len(MIXTURE)} scripted controllers, seed {seed}"
    return from_arrays(
        *columns, action_low=-MAX_TORQUE, action_high=MAX_TORQUE, name=PENDULUM, source=source
    )
