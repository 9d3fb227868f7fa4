"""Experience gathered while a run trains, and the batches drawn from it and from the data.

Every member acts in its own environment: one step for each update, `chunk` steps at a time. Transitions are
appended to `replay.f32`. A resumed run cuts that file at its checkpoint and repeats the actions of the episodes
under way, so it continues where an uninterrupted run would be.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput, say
from bfq.files import check_regular, writing
from bfq.run import OnlineConfig
from bfq.training.population import Arrays, Feed, Population, Transitions, pack_columns

Floats = npt.NDArray[np.float32]
FILE = "replay.f32"
SAME = 1e-4  # the most by which a repeated observation may differ from the one in the file


class Collector(Protocol):
    """The environments of all members."""

    def step(self, states: Any, time: int) -> Floats:
        """Act once in every environment; an episode that ends is followed by the next.

        Returns a row for each member, in the units of the agent: [s, a, s′, r, mask, end].
        """

    def repeat(self, member: int, episode: int, actions: Floats) -> Floats:
        """Start an episode of a member, repeat its first actions, and return the observation after them."""


class Online(Feed):
    """Batches from the data and from experience, which is gathered when they are asked for."""

    def __init__(
        self,
        population: Population,
        data: Arrays,
        config: OnlineConfig,
        steps: int,
        collector: Callable[[], Collector],
        folder: Path,
    ):
        self._log, self.spec = pack_columns(data)
        self._seeds = [member.seed for member in population.members]
        self._size: int = population.configs.batch_size
        self._config, self._file, self._open = config, folder / FILE, collector
        self._collector: Collector | None = None
        # Packed transitions, and last whether an episode ends.
        shape = (len(self._seeds), steps, self._log.shape[1] + 1)
        self._experience = np.zeros(shape, np.float32)

    def take(self, start: int, length: int, states: Any = None) -> Transitions:
        """Act `length` times, and draw the batches of as many updates."""
        collector = self._collector = self._collector or self._continue(start)
        rows = np.stack([collector.step(states, start + k) for k in range(length)])
        with writing(self._file), self._file.open("ab") as file:
            file.write(rows.tobytes())
        self._add(start, rows)
        batches = [self._draw(k, start, length) for k in range(len(self._seeds))]
        return Transitions(jnp.asarray(np.stack(batches, axis=1)), self.spec)

    def _continue(self, done: int) -> Collector:
        """The environments, where the episodes under way stood after this many updates."""
        self._read(done)
        collector, (s, a) = self._open(), self.spec
        for member, rows in enumerate(self._experience[:, :done]):
            ends = np.flatnonzero(rows[:, -1])
            under_way = rows[ends[-1] + 1 if len(ends) else 0 :]
            if not done:
                continue
            seen = collector.repeat(member, len(ends), under_way[:, s : s + a])
            if len(under_way) and np.abs(seen - under_way[-1, s + a : 2 * s + a]).max() > SAME:
                say("note: the environment does not repeat itself, so the resumed run differs.")
        return collector

    def _read(self, done: int) -> None:
        """Read the experience up to a checkpoint, and cut the file there."""
        check_regular(self._file)
        s, a = self.spec
        shape = (done, len(self._seeds), 2 * s + a + 3)
        size = 4 * shape[0] * shape[1] * shape[2]
        with writing(self._file), self._file.open("a+b") as file:
            if file.seek(0, 2) < size:
                raise BadInput(
                    f"{self._file} is shorter than the checkpoint records: it is damaged."
                )
            file.truncate(size)
            file.seek(0)
            rows = np.frombuffer(file.read(), np.float32).reshape(shape)
        if not np.isfinite(rows).all():
            raise BadInput(f"{self._file} is damaged: it holds numbers that are not finite.")
        self._add(0, rows)

    def _add(self, start: int, rows: Floats) -> None:
        """Add rows of shape (steps, m, d). The action after a transition is known one step later."""
        (s, a), stop, experience = self.spec, start + len(rows), self._experience
        base = 2 * s + a + 2
        experience[:, start:stop, :base] = rows.swapaxes(0, 1)[..., :base]
        experience[:, start:stop, -1] = rows.swapaxes(0, 1)[..., -1]
        if experience.shape[2] > base + 1 and stop:  # for agents that need the next action
            before = slice(max(start - 1, 0), stop - 1)
            following = experience[:, before.start + 1 : stop, s : s + a]
            experience[:, before, base : base + a] = following
            experience[:, before, base + a] = 1.0 - experience[:, before, -1]

    def _draw(self, member: int, start: int, length: int) -> Floats:
        """The batches of a member, from its seed and the number of the update alone."""
        random = np.random.default_rng((self._seeds[member], start))
        shape, gathered = (length, self._size), self._experience[member, : start + length, :-1]
        fresh = gathered[random.integers(0, len(gathered), shape)]
        if self._config.replay == "new":
            return fresh
        logged = self._log[random.integers(0, len(self._log), shape)]
        if self._config.replay == "symmetric":
            chosen = np.broadcast_to(np.arange(self._size) < self._size // 2, shape)
        else:
            chosen = random.random(shape) < len(gathered) / (len(gathered) + len(self._log))
        return np.where(chosen[..., None], fresh, logged)
