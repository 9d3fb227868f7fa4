"""Play data as OGBench's authors make it: an arm follows one random errand after another, open loop.

OGBench's oracles plan an errand once: key poses about 0.4 s apart, joined by lines, with smoothed noise of
0.1 × (0.05, 0.05, 0.05, 0.3, 1) on top, each action the difference between the plan and where the arm is.
When the plan ends, whatever came of it, the world names the next errand. No episode is stopped by success.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.data.readers.ogbench import CUBE, relabel, world_and_goal
from bfq.envs.make import package
from bfq.envs.ogbench import numpy_seeded
from bfq.errors import unknown
from bfq.tasks.harness import Recipe, part_of
from bfq.tasks.log import Log

ERRANDS = {"cube-single": ("cube",), "scene": ("cube", "button", "drawer", "window")}
NOISE, SMOOTHING = 0.1, 0.5
SIZE = 1_000_000
EPISODES = 10  # of a block, since a world takes a second to build
STEPS = 1000  # transitions an episode: the published files hold 1001 states
ERRAND = "errand"  # of a row: 0 goes on, 1 ends here, 2 ends here in success
STATE = ("qpos", "qvel", "button_states")  # of the simulator, before each action

Columns = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class PlayBlock:
    """Episodes of play in one world, with the rewards of one of its tasks."""

    world: str  # cube-single or scene
    episodes: int = EPISODES
    task: int = 2  # which of its five: this one is OGBench's default
    steps: int = STEPS

    def __post_init__(self) -> None:
        if self.world not in ERRANDS:
            raise unknown("world of play data", self.world, ERRANDS)

    @property
    def rewarded(self) -> str:
        """The name of the task whose rewards are given."""
        return f"{self.world}-play-singletask-task{self.task}-v0"

    def __call__(self, seed: int, index: int) -> Log:
        """Block number `index` of the data of that seed."""
        for_world, for_oracles = np.random.SeedSequence([seed, index]).generate_state(2)
        room = _room(self.world)
        room.reset(seed=int(for_world))
        oracles = {errand: _oracle(errand, room) for errand in ERRANDS[self.world]}
        with numpy_seeded(int(for_oracles)):  # which is where the oracles draw from
            episodes = [_episode_in_sight(room, oracles, self.steps) for _ in range(self.episodes)]
        columns = {
            name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]
        }
        return self._log(columns)

    def _log(self, columns: Columns) -> Log:
        last = np.arange(1, len(columns["actions"]) + 1) % self.steps == 0
        infos = {
            name: columns[name].astype(np.float64) for name in (*STATE, ERRAND) if name in columns
        }
        rewards, masks = relabel(
            world_and_goal(self.rewarded)[1], columns["qpos"], columns.get("button_states")
        )
        return Log(
            columns["observations"].astype(np.float32),
            columns["actions"].astype(np.float32),
            rewards,
            columns["next_observations"].astype(np.float32),
            np.zeros(len(last), bool),
            last,
            infos,
            masks,
        )


def recipe(name: str, size: int | None = None, seed: int = 0) -> Recipe:
    """What `local/WORLD-play` is made of; `size` is the number of transitions."""
    block = PlayBlock(name.removeprefix("local/").removesuffix("-play"))
    return Recipe(
        name,
        "played here by OGBench's own oracles after its published recipe; not OGBench's files",
        (part_of(partial(PlayBlock, block.world), size or SIZE, STEPS, EPISODES),),
        seed,
        f"ogbench/{block.world}-singletask-task{block.task}-v0",
        {"noise": NOISE, "smoothing": SMOOTHING, "task": block.task},
        (
            "Rewards and masks are those of the state before the action; episodes go on after a success.",
        ),
    )


def _room(world: str) -> Any:
    """The world with random beginnings and errands in place of a task, and nothing that stops an episode."""
    package("ogbench", "ogbench")
    made = gymnasium.make(
        f"{world}-v0", mode="data_collection", terminate_at_goal=False, disable_env_checker=True
    )
    return made.unwrapped


def _oracle(errand: str, room: Any) -> Any:
    module = package(f"ogbench.manipspace.oracles.plan.{errand}_plan", "ogbench")
    kind = getattr(module, f"{errand.capitalize()}PlanOracle")
    return kind(env=room, noise=NOISE, noise_smoothing=SMOOTHING)


def _episode_in_sight(room: Any, oracles: dict[str, Any], steps: int) -> Columns:
    """An episode in which a scene's cube stays in sight; others are left out, as in the published data."""
    while True:
        columns, final = _episode(room, oracles, steps)
        cube = np.vstack([columns["qpos"], final])[:, CUBE : CUBE + 3]
        if "button_states" not in columns or in_sight(cube):
            return columns


def in_sight(cube: npt.NDArray[np.float64]) -> bool:
    """Whether the cube's path keeps off the scene's right edge, and off its left one but in the drawer."""
    y, z = cube[:, 1], cube[:, 2]
    return not ((y >= 0.29) | ((y <= -0.3) & ((z < 0.06) | (z > 0.08)))).any()


def _episode(
    room: Any, oracles: dict[str, Any], steps: int
) -> tuple[Columns, npt.NDArray[np.float64]]:
    """One row a step, and the state in which the last step ends."""
    observation, info = room.reset()
    oracle = oracles[info["privileged/target_task"]]
    oracle.reset(observation, info)
    rows = []
    for _ in range(steps):
        # What is logged is what is done: the action is rounded before it is taken.
        action = np.clip(oracle.select_action(observation, info), -1.0, 1.0).astype(np.float32)
        following, _, _, _, info = room.step(action)
        before = {name: info[f"prev_{name}"] for name in STATE if name in info}
        errand = oracle.done * (1.0 + float(info["success"]))
        rows.append(
            {
                "observations": observation,
                "actions": action,
                "next_observations": following,
                ERRAND: np.float64(errand),
                **before,
            }
        )
        observation = following
        if oracle.done:
            planned, told = room.set_new_target()
            oracle = oracles[told["privileged/target_task"]]
            oracle.reset(planned, told)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, info["qpos"]
