"""D4RL's AntMaze (v2) on today's MuJoCo, and the mazes that it shares with OGBench.

The environment follows D4RL fact by fact: the maps, walls 2 m high, the Ant (10 Hz, motors of ±30, contacts,
masses), 29 observations (15 positions, 14 velocities) without the goal, a start at the origin with jitter, a
goal drawn at every reset at its cell's center + U(0, 1) + U(0, 0.5) per axis, and reward 1 and the end of the
episode within 0.5 m of it. A fallen Ant lies until the time is up. From the states in D4RL's files, a step
ends where D4RL's did, to the rounding of the files (median error 6e-7); in about 1 step of 1000, nearly
always at a wall, positions are off by up to 0.003.

What differs: the random numbers (each environment has its own generator, seeded by `reset`; D4RL drew goals
from NumPy's global one), how actions are written (±1 with a gear of 30, where D4RL scaled them to ±30: the
same force), the rendering, and the version of MuJoCo.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from bfq.envs.make import Environment, package
from bfq.envs.robots import Doubles, Floats, robot_file, set_old_masses
from bfq.errors import unknown

Cells = npt.NDArray[np.int64]  # (…, 2): row, column
Places = npt.NDArray[np.float64]  # (…, 2): x along the columns, y along the rows, in meters
Actuation = Callable[[Any, Floats], None]  # applies an action to MuJoCo's data
UNIT = 4.0  # side of a cell, in meters
ORIGIN = 1  # row and column of the cell whose center is (0, 0)
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1))  # the first of equally short ways, as in OGBench
FRAME_SKIP = 5
JITTER = 0.1  # of the first state: uniform for positions, normal for velocities
REACH = 0.5  # meters from the goal that count as arrival
SPREADS = (1.0, 0.5)  # per axis, the goal is off its cell's center by a uniform draw of each
WALL_HEIGHT = 2.0
PICTURE = (480, 640)  # height, width
FIELD_OF_VIEW = 45.0  # degrees, vertical


@dataclass(frozen=True)
class Maze:
    """A map: # is a wall, R the start of D4RL's tasks, G the goals of its play data."""

    rows: tuple[str, ...]

    @cached_property
    def walls(self) -> npt.NDArray[np.bool_]:
        """Which cells are walls."""
        return np.array([[mark == "#" for mark in row] for row in self.rows])

    @cached_property
    def free(self) -> Cells:
        """All cells without a wall, row by row."""
        return np.argwhere(~self.walls)

    @cached_property
    def rooms(self) -> Cells:
        """Free cells that are not the middle of a straight corridor."""
        return np.array([cell for cell in self.free if not self._is_corridor(*cell)])

    def marked(self, mark: str) -> Cells:
        """The cells with this letter on the map."""
        return np.argwhere(np.array([list(row) for row in self.rows]) == mark)

    def next_cells(self, cells: Cells, goals: Cells) -> Cells:
        """The next cell on a shortest path from each cell to its goal; at the goal, the cell itself."""
        here, there = self.numbers(cells), self.numbers(goals)
        return np.stack(np.divmod(self._next[there, here], self.walls.shape[1]), axis=-1)

    def cells_at(self, places: Places) -> Cells:
        """The cells that contain these places; beyond the map, the cells at its edge."""
        indices = np.floor(places[..., ::-1] / UNIT + ORIGIN + 0.5).astype(np.int64)
        return np.clip(indices, 0, np.array(self.walls.shape) - 1)

    def numbers(self, cells: Cells) -> Cells:
        """The numbers of the cells in reading order."""
        return cells @ (self.walls.shape[1], 1)

    @cached_property
    def distances(self) -> Doubles:
        """[goal, cell] → steps on a shortest path, by the numbers of both; infinite without one."""
        free = ~self.walls.ravel()
        joined = np.zeros((free.size, free.size))
        np.put_along_axis(joined, self._around, free[:, None] & free[self._around], axis=1)
        return shortest_path(joined, unweighted=True)

    @cached_property
    def _next(self) -> Cells:
        """[goal, cell] → next cell, by the numbers of all three."""
        return self._around[np.arange(self.walls.size), self.distances[:, self._around].argmin(-1)]

    @cached_property
    def _around(self) -> Cells:
        """The numbers of each cell and of its neighbors; beyond the edge lies the cell itself."""
        cells = np.argwhere(np.ones_like(self.walls))[:, None] + [(0, 0), *NEIGHBORS]
        return self.numbers(np.clip(cells, 0, np.array(self.walls.shape) - 1))

    def _is_corridor(self, row: int, column: int) -> bool:
        around = [bool(self.walls[row + down, column + right]) for down, right in NEIGHBORS]
        return around in ([False, True, False, True], [True, False, True, False])


def centers(cells: npt.ArrayLike) -> Places:
    """Return the centers of these cells."""
    return UNIT * (np.asarray(cells, np.float64)[..., ::-1] - ORIGIN)


MAZES = {
    "umaze": Maze((
        "#####",
        "#R..#",
        "###.#",
        "#G..#",
        "#####",
    )),
    "medium": Maze((
        "########",
        "#R.##..#",
        "#..#..G#",
        "##...###",
        "#..#...#",
        "#G#..#.#",
        "#...#G.#",
        "########",
    )),
    "large": Maze((
        "############",
        "#R...#G....#",
        "#.##.#.#.#.#",
        "#....G.#..G#",
        "#.####.###.#",
        "#.G#.#.....#",
        "##.#.#.#.###",
        "#..#G.G#.G.#",
        "############",
    )),
    "giant": Maze((
        "################",
        "#R#......##....#",
        "#.#.##.#.#..##.#",
        "#...#..#...#...#",
        "#.###.######.#.#",
        "#...#...#....#.#",
        "###.#.#..#.#.###",
        "#...#..#...#...#",
        "#.#.#.######.#.#",
        "#.###...#...##.#",
        "#.....#...#....#",
        "################",
    )),
}  # fmt: skip


class Course(NamedTuple):
    """A maze and the cell in which the goal is drawn."""

    maze: Maze
    goal_cell: tuple[int, int]

    @property
    def mean_goal(self) -> Doubles:
        """The mean of the distribution of goals."""
        return centers(self.goal_cell) + sum(SPREADS) / 2.0


COURSES = {
    "umaze": Course(MAZES["umaze"], (3, 1)),
    "medium": Course(MAZES["medium"], (6, 6)),
    "large": Course(MAZES["large"], (7, 9)),
}
SIMULATORS = {f"bfq/AntMaze-{size}-v0": size for size in COURSES}


def make_antmaze(simulator: str, episode_steps: int, render: bool = False) -> Environment:
    """Make the maze with this id (D4RL's episodes have 1000 steps, in the U-maze 700)."""
    if simulator not in SIMULATORS:
        raise unknown("simulator", simulator, SIMULATORS)
    environment = AntMaze(COURSES[SIMULATORS[simulator]], "rgb_array" if render else None)
    return gymnasium.wrappers.TimeLimit(environment, episode_steps)


def draw_goals(cell_centers: Places, rng: np.random.Generator) -> Places:
    """Draw a goal for each cell center, as D4RL does."""
    return cell_centers + sum(rng.uniform(0.0, spread, cell_centers.shape) for spread in SPREADS)


def as_maze_ant(model: Any) -> None:
    """Turn Gymnasium's Ant into that of D4RL and OGBench: 10 Hz, weaker motors, softer contacts."""
    model.opt.timestep = 0.02
    model.actuator_gear[:, 0] = 30.0
    model.geom_solimp[:, :3] = (0.8, 0.8, 0.01)


def build_maze(maze: Maze) -> Any:
    """Build the MuJoCo model of the maze with D4RL's Ant, a mark at the goal and a camera above."""
    mujoco, ant = package("mujoco", "mujoco"), robot_file("ant.xml")
    spec = mujoco.MjSpec.from_file(str(ant))
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
    _decorate(mujoco, spec, maze)
    model = spec.compile()
    as_maze_ant(model)
    set_old_masses(model, ant)
    return model


def _decorate(mujoco: Any, spec: Any, maze: Maze) -> None:
    """Add what only rendering needs: a mark at the goal, a camera above, and a plain floor."""
    # The mark lies above the floor: MuJoCo would compile one at (0, 0, 0) as immovable.
    mark = {"pos": [0.0, 0.0, 0.05], "size": [REACH, 0.02, 0.0], "rgba": [0.9, 0.1, 0.1, 1.0]}
    spec.worldbody.add_site(name="goal", type=mujoco.mjtGeom.mjGEOM_CYLINDER, **mark)
    rows, columns = maze.walls.shape
    height = 1.05 * UNIT * max(rows, columns * PICTURE[0] / PICTURE[1])  # the whole maze is visible
    above = WALL_HEIGHT + height / 2.0 / np.tan(np.radians(FIELD_OF_VIEW / 2.0))
    middle = centers(((rows - 1) / 2.0, (columns - 1) / 2.0))
    spec.worldbody.add_camera(name="above", pos=[*middle, above], fovy=FIELD_OF_VIEW)
    floor = spec.texture("texplane")
    floor.rgb1, floor.rgb2 = [0.2, 0.3, 0.4], [0.1, 0.2, 0.3]
    spec.material("MatPlane").reflectance = 0.0


def motors(data: Any, action: Floats) -> None:
    """Set the motors to the action."""
    data.ctrl[:] = action


def slide(data: Any, action: Floats) -> None:
    """Move OGBench's point by up to 0.2 m per axis; it stands still afterwards."""
    data.qpos[:] += 0.2 * action
    data.qvel[:] = 0.0


class MazeRobots:
    """Robots that share one model, stepped together. `qpos` and `qvel` are their current states."""

    def __init__(self, model: Any, count: int, actuation: Actuation = motors):
        self._mujoco = package("mujoco", "mujoco")
        self._model, self._actuation = model, actuation
        self.data = [self._mujoco.MjData(model) for _ in range(count)]
        self.qpos: Doubles = np.tile(model.qpos0, (count, 1))
        self.qvel: Doubles = np.zeros((count, model.nv))

    def place(self, places: Places, rng: np.random.Generator, normalize: bool = True) -> None:
        """Put every robot at its place with jittered joints and velocities.

        MuJoCo 2 normalized the jittered quaternion at once, MuJoCo 3 does so only in the first step.
        """
        for k, data in enumerate(self.data):
            self._mujoco.mj_resetData(self._model, data)
            data.qpos[:] += rng.uniform(-JITTER, JITTER, self._model.nq)
            data.qpos[:2] = places[k]
            data.qvel[:] = JITTER * rng.standard_normal(self._model.nv)
            if normalize:
                self._mujoco.mj_normalizeQuat(self._model, data.qpos)
            self._update(k)

    def set_state(self, k: int, qpos: Doubles, qvel: Doubles) -> None:
        """Set one robot to a state."""
        self._mujoco.mj_resetData(self._model, self.data[k])
        self.data[k].qpos[:], self.data[k].qvel[:] = qpos, qvel
        self._update(k)

    def step(self, actions: Floats) -> None:
        """Move every robot for a tenth of a second."""
        step, model, apply = self._mujoco.mj_step, self._model, self._actuation
        for k, data in enumerate(self.data):
            apply(data, actions[k])
            step(model, data, FRAME_SKIP)
            self.qpos[k], self.qvel[k] = data.qpos, data.qvel

    def _update(self, k: int) -> None:
        data = self.data[k]
        self._mujoco.mj_forward(self._model, data)
        self.qpos[k], self.qvel[k] = data.qpos, data.qvel


# mypy does not read Gymnasium, so its classes have the type Any.
class AntMaze(gymnasium.Env):  # type: ignore[misc]
    """The Ant in a maze as a Gymnasium environment; `info["success"]` is 1 on arrival."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, course: Course, render_mode: str | None = None):
        self._course, self.render_mode = course, render_mode
        self._model = build_maze(course.maze)
        self.robots = MazeRobots(self._model, 1)
        self._renderer: Any = None
        self.goal = course.mean_goal
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Doubles, Any]:
        """Start an episode at the origin, with a new goal."""
        super().reset(seed=seed)
        self.goal = draw_goals(centers(self._course.goal_cell), self.np_random)
        self._model.site("goal").pos[:2] = self.goal
        self.robots.place(self.np_random.uniform(-JITTER, JITTER, (1, 2)), self.np_random)
        return self._observation(), {"goal": self.goal.copy()}

    def step(self, action: Floats) -> tuple[Doubles, float, bool, bool, dict[str, Any]]:
        """Move for a tenth of a second, then check for arrival."""
        self.robots.step(np.asarray(action)[None])
        arrived = bool(np.linalg.norm(self.robots.qpos[0, :2] - self.goal) <= REACH)
        return self._observation(), float(arrived), arrived, False, {"success": float(arrived)}

    def set_state(self, qpos: Doubles, qvel: Doubles) -> None:
        """Set the Ant to a logged state."""
        self.robots.set_state(0, qpos, qvel)

    def render(self) -> npt.NDArray[np.uint8]:
        """Render the maze from above, with the goal in red."""
        if self._renderer is None:
            self._renderer = package("mujoco", "mujoco").Renderer(self._model, *PICTURE)
        self._renderer.update_scene(self.robots.data[0], camera="above")
        return self._renderer.render()

    def close(self) -> None:
        """Close the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _observation(self) -> Doubles:
        return np.concatenate([self.robots.qpos[0], self.robots.qvel[0]])
