"""Mazes of square cells: their maps, where a cell lies, and the next cell on a shortest way."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]  # (…, 2): row, column
Places = npt.NDArray[np.float64]  # (…, 2): x along the columns, y along the rows, in meters
UNIT = 4.0  # side of a cell, in meters
ORIGIN = 1  # row and column of the cell whose center is (0, 0)
AROUND = (
    (-1, 0),
    (0, -1),
    (1, 0),
    (0, 1),
)  # of equally short ways the first of these is taken, as in OGBench


@dataclass(frozen=True)
class Maze:
    """A map: # is wall, all else free; R is the start of D4RL's tasks, G are the goals of its play data."""

    rows: tuple[str, ...]

    @cached_property
    def walls(self) -> npt.NDArray[np.bool_]:
        """Whether each cell is wall."""
        return np.array([[mark == "#" for mark in row] for row in self.rows])

    @cached_property
    def free(self) -> Cells:
        """All cells one can stand in, row by row."""
        return np.argwhere(~self.walls)

    @cached_property
    def rooms(self) -> Cells:
        """Free cells that are not the middle of a straight corridor."""
        return np.array([cell for cell in self.free if not self._is_corridor(*cell)])

    def marked(self, mark: str) -> Cells:
        """The cells with this letter on the map."""
        return np.argwhere(np.array([list(row) for row in self.rows]) == mark)

    def next_cells(self, cells: Cells, goals: Cells) -> Cells:
        """The next cell on a shortest way from each cell to its goal; at the goal, the cell itself."""
        columns = self.walls.shape[1]
        here, there = cells @ (columns, 1), goals @ (columns, 1)
        return np.stack(np.divmod(self._next[there, here], columns), axis=-1)

    def cells_at(self, places: Places) -> Cells:
        """The cells in which these places lie; beyond the map, the cells at its edge."""
        indices = np.floor(places[..., ::-1] / UNIT + ORIGIN + 0.5).astype(np.int64)
        return np.clip(indices, 0, np.array(self.walls.shape) - 1)

    def distances(self, goal: tuple[int, int]) -> npt.NDArray[np.float64]:
        """Steps from every cell to the goal, by breadth-first search; infinite in walls and where cut off."""
        far = np.full(self.walls.shape, np.inf)
        far[goal] = 0.0
        queue = deque([goal])
        while queue:
            cell = queue.popleft()
            for neighbor in self._free_around(cell):
                if np.isinf(far[neighbor]):
                    far[neighbor] = far[cell] + 1.0
                    queue.append(neighbor)
        return far

    @cached_property
    def _next(self) -> Cells:
        """[goal, cell] → next cell, all by their numbers in reading order."""
        size, columns = self.walls.size, self.walls.shape[1]
        table = np.tile(np.arange(size), (size, 1))
        for goal in map(tuple, self.free.tolist()):
            far = self.distances(goal)
            for cell in np.ndindex(*self.walls.shape):
                best = min([cell, *self._free_around(cell)], key=lambda one: far[one])
                table[goal[0] * columns + goal[1], cell[0] * columns + cell[1]] = (
                    best[0] * columns + best[1]
                )
        return table

    def _free_around(self, cell: tuple[int, ...]) -> list[tuple[int, int]]:
        near = [(cell[0] + down, cell[1] + right) for down, right in AROUND]
        rows, columns = self.walls.shape
        return [
            (i, j) for i, j in near if 0 <= i < rows and 0 <= j < columns and not self.walls[i, j]
        ]

    def _is_corridor(self, row: int, column: int) -> bool:
        around = [bool(self.walls[row + down, column + right]) for down, right in AROUND]
        return around in ([False, True, False, True], [True, False, True, False])


def centers(cells: npt.ArrayLike) -> Places:
    """Where the centers of these cells lie."""
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
