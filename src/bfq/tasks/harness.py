"""From a recipe to a dataset on the disk: on all cores, the same bytes for the same seed, and resumable."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data.dataset import Dataset
from bfq.data.store import Writer
from bfq.envs.worker_pool import WorkerPool, cores
from bfq.run import versions
from bfq.tasks.log import Block, Log

Progress = Callable[[int], None]  # told how many transitions are made


@dataclass(frozen=True)
class Part:
    """So many transitions of one kind."""

    block: Block
    size: int
    block_rows: int = (
        1  # transitions of a block, at most, where that is known: then none is made in vain
    )


def part_of(block_of: Callable[[int], Block], size: int, steps: int, most: int) -> Part:
    """A part in blocks of up to `most` episodes of at most so many steps; `block_of` takes their number."""
    episodes = min(most, -(-size // steps))  # a small part needs no whole block
    return Part(block_of(episodes), size, episodes * steps)


@dataclass(frozen=True)
class Recipe:
    """What to make: the parts follow one another, each truncated to its size."""

    name: str
    source: str  # how the data comes to be, in words
    parts: tuple[Part, ...]
    seed: int = 0
    simulator: str = ""
    about: Mapping[str, Any] = field(
        default_factory=dict
    )  # whatever else tells this data from other data
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Transitions in all."""
        return sum(part.size for part in self.parts)

    def told(self) -> dict[str, Any]:
        """What the bytes depend on."""
        return {
            "name": self.name,
            "seed": self.seed,
            "sizes": [part.size for part in self.parts],
            "simulator": self.simulator,
            **self.about,
            "versions": versions(),
        }


def make(
    recipe: Recipe,
    folder: Path,
    processes: int | None = None,
    progress: Progress = lambda _: None,
    replace: bool = False,
) -> Dataset:
    """Makes the dataset in `folder`; one that was killed goes on where it stood."""
    with Writer(folder, recipe.told(), replace) as writer, WorkerPool(processes or cores()) as pool:
        progress(writer.rows)
        lines = [
            _Line(part, _seed(recipe.seed, number), writer.pieces(number))
            for number, part in enumerate(recipe.parts)
        ]
        end = 0
        for number, line in enumerate(lines):
            begin, end = end, end + line.part.size
            while writer.rows < end:
                _fill(pool, lines[number:], writer.rows - begin)
                log = line.next_log().head(end - writer.rows)
                writer.append(_dataset(recipe, log), number)
                progress(writer.rows)
        return writer.finish(recipe.name, recipe.source, recipe.notes, recipe.told())


class _Line:
    """The blocks of one part that are under way, in their order."""

    def __init__(self, part: Part, seed: int, index: int):
        self.part, self._seed, self._index = part, seed, index
        self.under_way: deque[Future[Log]] = deque()
        self._typical = part.block_rows  # rows of a block

    def lacks(self, rows: int) -> bool:
        """Whether more blocks will be needed, if `rows` are there and those under way are typical."""
        return rows + self._typical * len(self.under_way) < self.part.size

    def ask(self, pool: WorkerPool) -> None:
        """Asks for the next block."""
        self.under_way.append(pool.submit(self.part.block, self._seed, self._index))
        self._index += 1

    def next_log(self) -> Log:
        """The next block, as soon as it is made."""
        log = self.under_way.popleft().result()
        self._typical = len(log)
        return log


def _fill(pool: WorkerPool, lines: Sequence[_Line], rows: int) -> None:
    """Keeps the workers busy, on later parts where the first, with so many rows there, needs no more."""
    if not lines[0].under_way:
        lines[0].ask(pool)
    for line in lines:
        while line.lacks(rows) and sum(len(each.under_way) for each in lines) < pool.capacity:
            line.ask(pool)
        rows = 0


def _seed(seed: int, part: int) -> int:
    """A seed of its own for each part, so that no two of them begin alike."""
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0])


def _dataset(recipe: Recipe, log: Log) -> Dataset:
    masks = 1.0 - log.terminals if log.masks is None else log.masks
    bound = np.ones(log.actions.shape[1], np.float32)
    return Dataset(
        log.observations,
        log.actions,
        log.rewards.astype(np.float32),
        log.next_observations,
        masks.astype(np.float32),
        log.terminals | log.timeouts,
        -bound,
        bound,
        recipe.name,
        recipe.source,
        infos=log.infos,
    )
