"""A population and its data: members that train together, and the transitions they learn from.

Members differ in their seed and in numeric hyperparameters. Transitions are packed as rows of one array,
`[s, a, s′, r, mask]` and, for agents that need them, `[a′, known]`: drawing a batch is one gather. All rows
are on the device where they fit; otherwise the next batches are read from the disk while the device computes.
Both ways draw the same rows, so a run does not depend on which of them it uses.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, Int, Key

from bfq.agents.contract import Agent, Batch, Spec
from bfq.agents.fields import numeric_fields
from bfq.errors import BadInput
from bfq.run import Member

Arrays = dict[str, npt.NDArray[np.float32]]
Fetch = Callable[[npt.NDArray[np.integer] | slice], Arrays]  # these rows, in the agent's units
COLUMNS = ("observations", "actions", "next_observations", "rewards", "masks", "next_actions",
           "next_known")  # fmt: skip
MEMORY = "BFQ_MEMORY_GB"  # environment variable: the most memory that transitions may take
COPIES = 3  # of the transitions, while they are prepared and put on the device


class Population(NamedTuple):
    """What stays the same while a population trains: a member axis on every leaf."""

    agent: Agent
    configs: Any  # the agent's Config with leaves of shape (m,)
    keys: Key[Array, " m"]
    members: tuple[Member, ...]
    half: bool = False  # products of bfloat16 numbers


def create_population(
    agent: Agent, config: Any, members: Sequence[Member], half: bool = False, earlier: int = 0
) -> Population:
    """Stack the members' hyperparameters along the member axis.

    `earlier`: updates of the runs that this one starts from; its random numbers are not theirs.
    """
    varied = {name for member in members for name in member.overrides}
    structural = sorted(varied - set(numeric_fields(config)))
    if structural:
        raise BadInput(
            f"{structural[0]} is part of {agent.name}'s structure, so it cannot take several values in one "
            "run: give one value, and start one run for each."
        )
    singles = [dataclasses.replace(config, **member.overrides) for member in members]
    configs = jax.tree.map(lambda *leaves: jnp.asarray(leaves, jnp.float32), *singles)
    keys = jnp.stack([jax.random.key(member.seed) for member in members])
    if earlier:
        keys = jax.vmap(lambda key: jax.random.fold_in(key, earlier))(keys)
    return Population(agent, configs, keys, tuple(members), half)


def initial_states(population: Population, spec: Spec) -> Any:
    """The state of every member before its first update."""
    init = population.agent.init

    def start(key: Key[Array, ""], config: Any) -> Any:
        return init(jax.random.fold_in(key, 0), spec, config)

    return jax.jit(jax.vmap(start))(population.keys, population.configs)


@partial(jax.tree_util.register_dataclass, data_fields=["packed"], meta_fields=["spec"])
@dataclasses.dataclass(frozen=True)
class Transitions:
    """Packed transitions: all of them, or the batches of the next updates."""

    packed: Float[Array, "n d"] | Float[Array, "c m b d"]
    spec: Spec

    @property
    def streamed(self) -> bool:
        """Whether these are batches: one for each of the next updates and members."""
        return bool(self.packed.ndim == 4)

    def batch(self, index: Int[Array, " b"]) -> Batch:
        """The batch of these rows."""
        return unpack(self.packed[index], self.spec)


def unpack(rows: Float[Array, "b d"], spec: Spec) -> Batch:
    """Split packed rows into the columns of a batch."""
    s, a = spec
    ends = np.cumsum([s, a, s, 1, 1]).tolist()
    observations, actions, following, rewards, masks, rest = jnp.split(rows, ends, axis=-1)
    batch = Batch(observations, actions, rewards[:, 0], following, masks[:, 0])
    if rest.shape[-1]:
        batch = batch._replace(next_actions=rest[:, :a], next_known=rest[:, a])
    return batch


def pack_columns(arrays: Arrays) -> tuple[npt.NDArray[np.float32], Spec]:
    """Pack prepared transitions as rows of one array."""
    columns = [arrays[name].reshape(len(arrays["masks"]), -1) for name in COLUMNS if name in arrays]
    return np.concatenate(columns, axis=1), Spec(columns[0].shape[1], columns[1].shape[1])


def pack(arrays: Arrays) -> Transitions:
    """Pack prepared transitions and put them on the device."""
    packed, spec = pack_columns(arrays)
    return Transitions(jnp.asarray(packed), spec)


def update_keys(key: Key[Array, ""], step: Int[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of an update's batch and of the update itself, from a member's key and the step alone."""
    batch_key, update_key = jax.random.split(jax.random.fold_in(key, step + 1))
    return batch_key, update_key


def draw_rows(batch_key: Key[Array, ""], size: int, rows: int) -> Int[Array, " b"]:
    """The rows of a batch, drawn uniformly with replacement."""
    return jax.random.randint(batch_key, (size,), 0, rows)


@partial(jax.jit, static_argnames=("length", "size", "rows"))
def draw_ahead(
    keys: Key[Array, " m"], start: Int[Array, ""], *, length: int, size: int, rows: int
) -> Int[Array, "c m b"]:
    """The rows that the program would draw for its next updates."""

    def draw(step: Array, key: Key[Array, ""]) -> Array:
        return draw_rows(update_keys(key, step)[0], size, rows)

    over_members = jax.vmap(draw, in_axes=(None, 0))
    return jax.vmap(over_members, in_axes=(0, None))(start + jnp.arange(length), keys)


class Feed:
    """Where the batches of a run come from."""

    spec: Spec

    def take(self, start: int, length: int, states: Any = None) -> Transitions:
        """All transitions, or the batches of these updates."""
        raise NotImplementedError

    def prepare(self, start: int, length: int) -> None:
        """Start to read what these updates need, if anything can be read ahead."""


class OnDevice(Feed):
    """All transitions on the device; each update draws its batch there."""

    def __init__(self, arrays: Arrays):
        self._rows = pack(arrays)
        self.spec = self._rows.spec

    def take(self, start: int, length: int, states: Any = None) -> Transitions:
        """All transitions."""
        return self._rows


class Streamed(Feed):
    """Only the rows that the next updates draw, read in a thread while the device computes."""

    def __init__(self, population: Population, rows: int, fetch: Fetch):
        self._population, self._count, self._fetch = population, rows, fetch
        self.spec = pack_columns(fetch(slice(0, 1)))[1]
        self._thread = ThreadPoolExecutor(1)
        self._ready: dict[tuple[int, int], Future[npt.NDArray[np.float32]]] = {}

    def take(self, start: int, length: int, states: Any = None) -> Transitions:
        """The batches of these updates."""
        self.prepare(start, length)
        packed = self._ready.pop((start, length)).result()
        self._ready.clear()
        return Transitions(jnp.asarray(packed), self.spec)

    def prepare(self, start: int, length: int) -> None:
        """Start to read the batches of these updates."""
        if (start, length) not in self._ready:
            self._ready[start, length] = self._thread.submit(self._read, start, length)

    def _read(self, start: int, length: int) -> npt.NDArray[np.float32]:
        keys, size = self._population.keys, self._population.configs.batch_size
        drawn = draw_ahead(keys, jnp.int32(start), length=length, size=size, rows=self._count)
        index = np.asarray(drawn)
        packed, _ = pack_columns(self._fetch(index.reshape(-1)))
        return packed.reshape(*index.shape, -1)


def feed(population: Population, rows: int, row_bytes: int, fetch: Fetch) -> Feed:
    """All transitions on the device where they fit, otherwise a chunk of batches at a time."""
    if rows * row_bytes <= memory_budget():
        return OnDevice(fetch(slice(None)))
    return Streamed(population, rows, fetch)


def memory_budget() -> float:
    """Bytes that the transitions may take: $BFQ_MEMORY_GB, or a share of the free memory."""
    chosen = os.environ.get(MEMORY)
    if chosen is not None:
        try:
            return float(chosen) * 2**30
        except ValueError as error:
            raise BadInput(f"{MEMORY} must be a number of gigabytes, not {chosen!r}.") from error
    device = jax.devices()[0]
    host = free_memory() / COPIES
    if device.platform == "cpu":
        return host
    statistics = device.memory_stats() or {}
    return min(host, 0.5 * statistics.get("bytes_limit", np.inf))


def free_memory() -> float:
    """Bytes of memory that are free on the host."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2
