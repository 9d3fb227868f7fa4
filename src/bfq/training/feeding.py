"""Where the loop gets its transitions: all of them on the device, or the next batches while it computes.

Both draw the same rows for the same seed and update, so a run does not depend on which of them it uses.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bfq.agents import Spec
from bfq.errors import BadInput
from bfq.training.population import Batches, Population, Rows, drawn, pack, side_by_side

Arrays = dict[str, npt.NDArray[np.float32]]
Fetch = Callable[[npt.NDArray[np.integer] | slice], Arrays]  # these rows, as the agent sees them
LIMIT = (
    "BFQ_MEMORY_GB"  # the environment variable that says how much memory the transitions may take
)
COPIES = 3  # of the transitions, while they are prepared and put on the device


class Feed(Protocol):
    """Transitions for the compiled program."""

    spec: Spec

    def take(self, start: int, length: int) -> Rows | Batches:
        """What the updates start, …, start + length − 1 need."""

    def prepare(self, start: int, length: int) -> None:
        """Begins to fetch what will be needed next."""


class OnDevice:
    """All transitions, packed on the device; each update draws its batch there."""

    def __init__(self, arrays: Arrays):
        self._rows = pack(arrays)
        self.spec = self._rows.spec

    def take(self, start: int, length: int) -> Rows:
        """All of them."""
        return self._rows

    def prepare(self, start: int, length: int) -> None:
        """Nothing is needed."""


class Streamed:
    """Only the rows that the next updates draw, fetched in a thread of its own while the device computes."""

    def __init__(self, population: Population, rows: int, fetch: Fetch):
        self._population, self._count, self._fetch = population, rows, fetch
        self.spec = side_by_side(fetch(slice(0, 1)))[1]
        self._thread = ThreadPoolExecutor(1)
        self._ready: dict[tuple[int, int], Future[npt.NDArray[np.float32]]] = {}

    def take(self, start: int, length: int) -> Batches:
        """The batches of these updates."""
        self.prepare(start, length)
        packed = self._ready.pop((start, length)).result()
        self._ready.clear()
        return Batches(jnp.asarray(packed), self.spec)

    def prepare(self, start: int, length: int) -> None:
        """Begins to read the batches of these updates."""
        if (start, length) not in self._ready:
            self._ready[start, length] = self._thread.submit(self._read, start, length)

    def _read(self, start: int, length: int) -> npt.NDArray[np.float32]:
        size = self._population.configs.batch_size
        index = np.asarray(
            drawn(
                self._population.keys, jnp.int32(start), length=length, size=size, rows=self._count
            )
        )
        rows, _ = side_by_side(self._fetch(index.reshape(-1)))
        return rows.reshape(*index.shape, -1)


def feed(population: Population, rows: int, row_bytes: int, fetch: Fetch) -> Feed:
    """All transitions on the device where they fit, otherwise a chunk of batches at a time."""
    if rows * row_bytes <= budget():
        return OnDevice(fetch(slice(None)))
    return Streamed(population, rows, fetch)


def budget() -> float:
    """Bytes that the transitions may take: what $BFQ_MEMORY_GB says, or a share of what is free."""
    chosen = os.environ.get(LIMIT)
    if chosen is not None:
        try:
            return float(chosen) * 2**30
        except ValueError as error:
            raise BadInput(f"{LIMIT} must be a number of gigabytes, not {chosen!r}.") from error
    device = jax.devices()[0]
    host = _free_memory() / COPIES
    if device.platform == "cpu":
        return host
    told = device.memory_stats() or {}
    return min(host, 0.5 * told.get("bytes_limit", np.inf))


def _free_memory() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2
