"""From a recipe to a stored dataset: on all cores, resumable, and repeatable by its seed."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset
from bfq.data.store import Writer
from bfq.envs.make import resolve
from bfq.envs.worker_pool import WorkerPool, cores
from bfq.errors import BadInput, unknown
from bfq.run import versions
from bfq.tasks.catalog import GENERATED, PENDULUM

# A block of episodes is a function of (seed, index) alone, so any number of processes gives the same data.
Block = Callable[[int, int], Dataset]
Progress = Callable[[int], None]  # called with the number of transitions so far
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RecipePart:
    """A number of transitions of one kind."""

    block: Block
    size: int
    block_rows: int = 1  # at most in a block, if known: then no block is generated in vain


def part_of(block_of: Callable[[int], Block], size: int, steps: int, most: int) -> RecipePart:
    """A part in blocks of up to `most` episodes; `block_of` takes the number of episodes."""
    episodes = min(most, -(-size // steps))  # a small part does not need a whole block
    return RecipePart(block_of(episodes), size, episodes * steps)


@dataclass(frozen=True)
class DataRecipe:
    """What to generate: the parts follow one another, each truncated to its size."""

    name: str
    source: str  # where the data comes from, in words
    parts: tuple[RecipePart, ...]
    seed: int = 0
    simulator: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)  # what else the data depends on
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Transitions in all."""
        return sum(part.size for part in self.parts)

    def describe(self) -> dict[str, Any]:
        """Everything that the bytes depend on."""
        return {
            "name": self.name,
            "seed": self.seed,
            "sizes": [part.size for part in self.parts],
            "simulator": self.simulator,
            **self.about,
            "versions": versions(),
        }


def recipe_for(name: str, size: int | None = None, seed: int = 0) -> DataRecipe:
    """Return the recipe of a dataset that bfq can generate, with `size` transitions."""
    if name == PENDULUM:
        raise BadInput(f"{name} is generated in seconds by `bfq train --task {name}`.")
    if name not in GENERATED:
        raise unknown("dataset to generate", name, GENERATED)
    return resolve(GENERATED[name])(name, size, seed)


def block_data(
    columns: Sequence[Array], episode_ends: Array, infos: Mapping[str, Array]
) -> Dataset:
    """Whole episodes with actions in [−1, 1]; `infos` hold the state before each action.

    `columns` are observations, actions, rewards, next observations and masks.
    """
    seen, actions, rewards, following, masks = (column.astype(np.float32) for column in columns)
    bound = np.ones(actions.shape[1], np.float32)
    arrays = (seen, actions, rewards, following, masks, episode_ends, -bound, bound)
    return Dataset(*arrays, name="block", source="generated", infos=infos)


def generate_dataset(
    recipe: DataRecipe,
    folder: Path,
    processes: int | None = None,
    progress: Progress = lambda _: None,
    replace: bool = False,
) -> Dataset:
    """Generate the dataset in `folder`, continuing after the blocks that are already there."""
    description = recipe.describe()
    with Writer(folder, description, replace) as writer, WorkerPool(processes or cores()) as pool:
        progress(writer.rows)
        queues = [
            _BlockQueue(part, part_seed(recipe.seed, number), writer.pieces(number))
            for number, part in enumerate(recipe.parts)
        ]
        end = 0
        for number, one in enumerate(queues):
            start, end = end, end + one.part.size
            while writer.rows < end:
                _fill(pool, queues[number:], writer.rows - start)
                block = one.next_block()
                if len(block) > end - writer.rows:  # an episode that is cut off ends in a time-out
                    block = block.rows(slice(end - writer.rows))
                    block.episode_ends[-1] = True
                writer.append(block, number)
                progress(writer.rows)
        return writer.finish(recipe.name, recipe.source, recipe.notes, description)


def part_seed(seed: int, part: int) -> int:
    """Return a separate seed for each part, so that no two parts start alike."""
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0])


class _BlockQueue:
    """The blocks of one part that are being generated, in order."""

    def __init__(self, part: RecipePart, seed: int, index: int):
        self.part, self._seed, self._index = part, seed, index
        self.pending: deque[Future[Dataset]] = deque()
        self._typical = part.block_rows  # rows in a block

    def lacks(self, rows: int) -> bool:
        """Whether more blocks are needed if `rows` are written and the pending blocks are typical."""
        return rows + self._typical * len(self.pending) < self.part.size

    def submit(self, pool: WorkerPool) -> None:
        """Submit the next block."""
        self.pending.append(pool.submit(self.part.block, self._seed, self._index))
        self._index += 1

    def next_block(self) -> Dataset:
        """Wait for the next block."""
        block = self.pending.popleft().result()
        self._typical = len(block)
        return block


def _fill(pool: WorkerPool, queues: Sequence[_BlockQueue], rows: int) -> None:
    """Keep the workers busy, with later parts once the first needs no more blocks."""
    if not queues[0].pending:
        queues[0].submit(pool)
    for one in queues:
        while one.lacks(rows) and sum(len(each.pending) for each in queues) < pool.capacity:
            one.submit(pool)
        rows = 0
