"""D4RL's AntMaze (v2) on today's MuJoCo: an Ant must walk to a goal it is not told of.

The world is D4RL's fact by fact: the maps, walls 2 m high, the Ant (10 Hz, motors of ±30, contacts,
masses), 29 observations (15 positions, 14 velocities), start at the origin with jitter, a goal drawn at
every reset at its cell's center + U(0, 1) + U(0, 0.5) an axis, reward 1 and the end within 0.5 m of it,
reward 0 before. A fallen Ant lies until the time is up. From the states in D4RL's files a step here ends
where D4RL's did, to the rounding of the files (median error 6e-7); in about 1 step of 1000, nearly always
at a wall, positions are off by up to 0.003.

What differs: the random numbers (a world here has a generator of its own, seeded by `reset`; D4RL drew
goals from NumPy's global one), how actions are written (±1 with a gear of 30, where D4RL scaled them to
±30: the same force), the picture, and the version of MuJoCo.
"""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from bfq.envs.masses import robot_file, weigh_as_mujoco_2
from bfq.envs.maze_ant import JITTER, Herd, as_maze_ant
from bfq.envs.mazes import MAZES, UNIT, Maze, centers
from bfq.envs.optional import package
from bfq.errors import unknown

Doubles = npt.NDArray[np.float64]
ANT = robot_file("ant.xml")
REACH = 0.5  # meters from the goal that count as arrival
SPREADS = (
    1.0,
    0.5,
)  # the goal is off its cell's center by a uniform draw of each of these, an axis
WALL_HEIGHT = 2.0
PICTURE = (480, 640)  # height, width
FIELD_OF_VIEW = 45.0  # degrees, of the height of the picture


class Course(NamedTuple):
    """A maze and the cell in which the goal is drawn."""

    maze: Maze
    goal_cell: tuple[int, int]

    @property
    def mean_goal(self) -> Doubles:
        """The middle of where goals are drawn."""
        return centers(self.goal_cell) + sum(SPREADS) / 2.0


COURSES = {
    "umaze": Course(MAZES["umaze"], (3, 1)),
    "medium": Course(MAZES["medium"], (6, 6)),
    "large": Course(MAZES["large"], (7, 9)),
}
NAMES = {f"AntMaze-{size}-v0": size for size in COURSES}


def make(name: str, render: bool = False) -> "AntMaze":
    """The world of that name, without a limit on the length of an episode (D4RL: 1000 steps, umaze 700)."""
    if name not in NAMES:
        raise unknown("world", name, NAMES)
    return AntMaze(COURSES[NAMES[name]], "rgb_array" if render else None)


def draw_goals(middles: Doubles, rng: np.random.Generator) -> Doubles:
    """A goal for each cell center, as D4RL draws them: off it by two uniform draws an axis."""
    return middles + sum(rng.uniform(0.0, spread, middles.shape) for spread in SPREADS)


def build(maze: Maze) -> Any:
    """The MuJoCo model of the maze with D4RL's Ant in it, a mark for the goal and a camera above."""
    mujoco = package("mujoco", "mujoco")
    spec = mujoco.MjSpec.from_file(str(ANT))
    for row, column in np.argwhere(maze.walls):
        spec.worldbody.add_geom(
            name=f"wall_{row}_{column}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[*centers((row, column)), WALL_HEIGHT / 2.0],
            size=[UNIT / 2.0, UNIT / 2.0, WALL_HEIGHT / 2.0],
            contype=1,
            conaffinity=1,
            rgba=[0.7, 0.5, 0.3, 1.0],
        )
    _furnish(mujoco, spec, maze)
    model = spec.compile()
    as_maze_ant(model)
    weigh_as_mujoco_2(model, ANT)
    return model


def _furnish(mujoco: Any, spec: Any, maze: Maze) -> None:
    """What is there for pictures only: a mark for the goal, a camera above, and a calm floor."""
    # The mark lies above the floor: one at (0, 0, 0) would be compiled as fixed to its place.
    mark = {"pos": [0.0, 0.0, 0.05], "size": [REACH, 0.02, 0.0], "rgba": [0.9, 0.1, 0.1, 1.0]}
    spec.worldbody.add_site(name="goal", type=mujoco.mjtGeom.mjGEOM_CYLINDER, **mark)
    spec.worldbody.add_camera(name="above", pos=_above(maze), fovy=FIELD_OF_VIEW)
    floor = spec.texture("texplane")
    floor.rgb1, floor.rgb2 = [0.2, 0.3, 0.4], [0.1, 0.2, 0.3]
    spec.material("MatPlane").reflectance = 0.0


def _above(maze: Maze) -> list[float]:
    """From where a camera that looks down has the whole maze in the picture."""
    rows, columns = maze.walls.shape
    height = 1.05 * UNIT * max(rows, columns * PICTURE[0] / PICTURE[1])
    middle = centers(((rows - 1) / 2.0, (columns - 1) / 2.0))
    return [*middle, WALL_HEIGHT + height / 2.0 / np.tan(np.radians(FIELD_OF_VIEW / 2.0))]


# Gymnasium is not read by mypy, so its classes are Any to it.
class AntMaze(gymnasium.Env):  # type: ignore[misc]
    """The Ant in a maze, with Gymnasium's verbs. `info["success"]` is 1 in the step that reaches the goal."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, course: Course, render_mode: str | None = None):
        self._course, self.render_mode = course, render_mode
        self._model = build(course.maze)
        self._ant = Herd(self._model, 1)
        self._renderer: Any = None
        self.goal = course.mean_goal
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Doubles, dict[str, Any]]:
        """Begins an episode at the origin, with a goal drawn anew."""
        super().reset(seed=seed)
        self.goal = draw_goals(centers(self._course.goal_cell), self.np_random)
        self._model.site("goal").pos[:2] = self.goal
        self._ant.place(self.np_random.uniform(-JITTER, JITTER, (1, 2)), self.np_random)
        return self._observation(), {"goal": self.goal.copy()}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Doubles, float, bool, bool, dict[str, Any]]:
        """Moves for a tenth of a second; arrival is judged after the move."""
        self._ant.step(np.asarray(action)[None])
        arrived = bool(np.linalg.norm(self._ant.qpos[0, :2] - self.goal) <= REACH)
        return self._observation(), float(arrived), arrived, False, {"success": float(arrived)}

    def set_state(self, qpos: Doubles, qvel: Doubles) -> None:
        """Puts the Ant into a state of a log."""
        self._ant.set_state(0, qpos, qvel)

    def render(self) -> npt.NDArray[np.uint8]:
        """The maze from above, the goal marked in red."""
        if self._renderer is None:
            self._renderer = package("mujoco", "mujoco").Renderer(self._model, *PICTURE)
        self._renderer.update_scene(self._ant.worlds[0], camera="above")
        picture: npt.NDArray[np.uint8] = self._renderer.render()
        return picture

    def close(self) -> None:
        """Gives back what drawing has taken."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _observation(self) -> Doubles:
        return np.concatenate([self._ant.qpos[0], self._ant.qvel[0]])
