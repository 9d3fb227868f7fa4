"""The one type of data: flat arrays of transitions, and what is computed about them.

`masks` is 0 where the future must not be bootstrapped (a terminal state). `episode_ends` marks the last row
of each episode. A time-out ends an episode and keeps its mask at 1.

Everything is computed in one pass over chunks of rows, since the arrays may be larger than memory.
"""

import hashlib
import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from bfq.envs.make import resolve
from bfq.errors import BadInput
from bfq.records import Labels
from bfq.run import LARGEST_FLOAT32, Float32

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Spread = Annotated[float, Meta(ge=0, le=LARGEST_FLOAT32)]
Column = npt.NDArray[Any]
Columns = Mapping[str, Column]
Arrays = dict[str, Column]
COLUMNS = ("observations", "actions", "rewards", "next_observations", "masks", "episode_ends")
CHUNK = 1 << 16  # rows that are read in order
GATHER = 256  # rows that are read in any order


@dataclass(frozen=True)
class Dataset:
    """Transitions (s, a, r, s′, mask) in the order they were logged, in the units of the log."""

    observations: Floats  # (N, s)
    actions: Floats  # (N, a), between action_low and action_high
    rewards: Floats  # (N,)
    next_observations: Floats  # (N, s)
    masks: Floats  # (N,), 0 where the episode truly ended
    episode_ends: Flags  # (N,), true in the last row of each episode
    action_low: Floats  # (a,)
    action_high: Floats  # (a,)
    name: str
    source: str  # where the data comes from, in words
    notes: tuple[str, ...] = ()  # what a user should know about it
    infos: Columns = field(default_factory=dict)  # qpos, qvel, …: columns that agents do not see
    env: str | None = None  # the environment that the data names, such as Pendulum-v1
    labels: Labels | None = None  # names and units, if the data has them

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self):,} transitions, {len(self.episode_returns):,} episodes, "
            f"{self.observation_dim} observations, {self.action_dim} actions; {self.source})"
        )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def observation_dim(self) -> int:
        """Numbers in an observation."""
        return self.observations.shape[1]

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.actions.shape[1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a transition in memory during training."""
        return 4 * (2 * self.observation_dim + self.action_dim + 2)

    @cached_property
    def summary(self) -> "DataSummary":
        """The quantities that depend on every number in the dataset."""
        bounds = {"action_low": self.action_low, "action_high": self.action_high}
        return summarize_columns(self.columns, bounds)

    @property
    def episode_returns(self) -> Doubles:
        """The undiscounted return of every episode, including the last one if it is cut short."""
        return self.summary.episode_returns

    @property
    def sha256(self) -> str:
        """A fingerprint of every number that training can see."""
        return self.summary.sha256

    @property
    def last_rows(self) -> npt.NDArray[np.intp]:
        """The last row of every episode; the very last row always ends one."""
        return np.append(np.flatnonzero(self.episode_ends[:-1]), len(self) - 1)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that training can see, with one row per transition."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def terminals(self) -> Flags:
        """The rows after which nothing follows."""
        return np.asarray(self.masks) == 0

    @property
    def timeouts(self) -> Flags:
        """The rows after which only the log ends."""
        return self.episode_ends & ~self.terminals

    @property
    def episodes(self) -> list["Dataset"]:
        """Each episode as a dataset."""
        ends = self.last_rows + 1
        starts = np.append(0, ends[:-1])
        return [self.rows(slice(*pair)) for pair in zip(starts, ends, strict=True)]

    def __iter__(self) -> Iterator["Dataset"]:
        return iter(self.episodes)

    def __getitem__(self, which: Any) -> "Dataset":
        """Some episodes: `data[3]`, `data[2:5]`, `data[[4, 1]]`, or a flag for each episode."""
        ends = self.last_rows + 1
        starts = np.append(0, ends[:-1])
        try:
            chosen = np.atleast_1d(np.arange(len(ends))[which])
        except (IndexError, ValueError) as error:
            raise BadInput(f"there are {len(ends)} episodes in {self.name}: {error}.") from error
        if not len(chosen):
            raise BadInput(f"no episode of {self.name} is chosen: there are {len(ends)}.")
        if (np.diff(chosen) == 1).all():
            return self.rows(slice(starts[chosen[0]], ends[chosen[-1]]))
        rows = np.concatenate([np.arange(starts[k], ends[k]) for k in chosen])
        taken = replace(self.take(rows), infos=gather_rows(self.infos, rows))
        taken.episode_ends[np.cumsum((ends - starts)[chosen]) - 1] = True
        return taken

    def __add__(self, other: "Dataset") -> "Dataset":
        """The episodes of both, which must have the same sizes and action range."""
        for name in ("observation_dim", "action_dim", "action_low", "action_high"):
            one, two = getattr(self, name), getattr(other, name)
            if not np.array_equal(one, two):
                raise BadInput(
                    f"{self.name} and {other.name} cannot be joined: {name} is {one} and {two}."
                )
        if self.labels and other.labels and self.labels != other.labels:
            raise BadInput(f"{self.name} and {other.name} cannot be joined: their columns differ.")
        columns: dict[str, Any] = {
            name: np.concatenate([column, other.columns[name]])
            for name, column in self.columns.items()
        }
        columns["episode_ends"][len(self) - 1] = True
        infos = {
            name: np.concatenate([column, other.infos[name]])
            for name, column in self.infos.items()
            if name in other.infos and other.infos[name].shape[1:] == column.shape[1:]
        }
        return replace(
            self,
            **columns,
            infos=infos,
            name=" + ".join(dict.fromkeys((self.name, other.name))),
            source="; ".join(dict.fromkeys((self.source, other.source))),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            env=self.env if self.env == other.env else None,
            labels=self.labels or other.labels,
        )

    def filter(self, keep: Callable[["Dataset"], bool]) -> "Dataset":
        """The episodes for which `keep` returns true."""
        return self[np.array([bool(keep(episode)) for episode in self.episodes])]

    def split(self, share: float = 0.1, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """Two parts of whole episodes, drawn at random; the second has this share of them."""
        count = len(self.last_rows)
        held = round(share * count) or 1
        if not 0 < share < 1 or held >= count:
            raise BadInput(f"{self.name} has {count} episodes: a share of {share} leaves none.")
        drawn = np.random.default_rng(seed).permutation(count)
        return self[np.sort(drawn[held:])], self[np.sort(drawn[:held])]

    def save(self, folder: str | Path) -> "Dataset":
        """Save the dataset in a new folder, which `load_dataset` and `bfq train --task` take."""
        return resolve("bfq.data.store:save_dataset")(self, Path(folder).expanduser())

    def to_minari(self, dataset_id: str, **settings: Any) -> Any:
        """Create the Minari dataset with this id; `settings` are those of Minari, such as author."""
        return resolve("bfq.data.readers.minari:write_minari")(self, dataset_id, **settings)

    def rows(self, which: slice) -> "Dataset":
        """Some of the rows, as a dataset of their own."""
        columns: dict[str, Any] = {name: column[which] for name, column in self.columns.items()}
        infos = {name: column[which] for name, column in self.infos.items()}
        return replace(self, **columns, infos=infos)

    def take(self, index: npt.NDArray[np.integer]) -> "Dataset":
        """These rows, in this order and without infos, read with little memory."""
        columns: dict[str, Any] = gather_rows(self.columns, index)
        return replace(self, **columns, infos={})

    def next_actions(self, which: slice | npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
        """The action logged after each of these rows, and 0 where the episode ends there."""
        rows = np.arange(len(self))[which]
        following = np.minimum(rows + 1, len(self) - 1)
        ended = gather_rows({"ends": self.episode_ends}, rows)["ends"]
        known = (~ended & (following > rows)).astype(np.float32)
        return gather_rows({"actions": self.actions}, following)["actions"], known

    def describe(self) -> dict[str, Any]:
        """What a score records about its data."""
        returns = self.episode_returns
        return {
            "name": self.name,
            "source": self.source,
            "sha256": self.sha256,
            "transitions": len(self),
            "episodes": len(returns),
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
            "return_max": float(returns.max()),
        }


@dataclass(frozen=True)
class SummaryCard:
    """A fingerprint of all numbers, means and ranges, as dataset.json holds them."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    observation_mean: list[Float32]
    observation_std: list[Spread]
    reward_mean: Float32
    reward_std: Spread
    reward_low: Float32
    reward_high: Float32

    def __post_init__(self) -> None:
        if not self.reward_low <= self.reward_mean <= self.reward_high:
            raise ValueError("reward_mean must lie between reward_low and reward_high")


@dataclass(frozen=True)
class DataSummary(SummaryCard):
    """A summary with the undiscounted return of every episode, also of a last one that is cut short."""

    episode_returns: Doubles


def summarize_columns(columns: Columns, constants: Columns) -> DataSummary:
    """Summarize columns of equal length in one pass; `constants` only enter the fingerprint."""
    digests = {name: hashlib.sha256() for name in columns}
    observations, rewards = Moments(), Moments()
    kept: list[Doubles] = []
    for chunk in chunks(columns):
        for name, column in chunk.items():
            digests[name].update(np.ascontiguousarray(column).tobytes())
        observations.add(chunk["observations"])
        rewards.add(chunk["rewards"])
        kept.append(chunk["rewards"].astype(np.float64))
    digests |= {name: hashlib.sha256(column.tobytes()) for name, column in constants.items()}
    whole = hashlib.sha256()
    for name, column in {**columns, **constants}.items():
        kind = column.dtype.str, column.shape[1:]
        whole.update(f"{name} {kind} {len(column)} {digests[name].hexdigest()}\n".encode())
    received = np.concatenate(kept)
    starts = np.flatnonzero(np.append(True, columns["episode_ends"][:-1]))
    return DataSummary(
        whole.hexdigest(),
        observations.mean.tolist(),
        observations.std.tolist(),
        float(rewards.mean),
        float(rewards.std),
        float(received.min()),
        float(received.max()),
        np.add.reduceat(received, starts),
    )


def chunks(columns: Columns, rows: int = CHUNK) -> Iterator[dict[str, Column]]:
    """The columns in pieces that fit in memory."""
    for begin in range(0, len(next(iter(columns.values()))), rows):
        yield {name: np.asarray(column[begin : begin + rows]) for name, column in columns.items()}
        release_pages(columns)


def gather_rows(columns: Columns, index: npt.NDArray[np.integer]) -> dict[str, Column]:
    """These rows of each column, a few at a time: one row of a mapped file may map two megabytes."""
    parts = []
    for begin in range(0, len(index), GATHER):
        some = index[begin : begin + GATHER]
        parts.append({name: column[some] for name, column in columns.items()})
        release_pages(columns)
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def release_pages(columns: Columns) -> None:
    """Give back the memory of mapped files: until then each page that was read counts as ours."""
    maps = (getattr(column, "_mmap", None) for column in columns.values())
    for mapped in {id(one): one for one in maps if one}.values():
        if hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


class Moments:
    """Mean and population standard deviation of rows that arrive in pieces (Chan's update)."""

    def __init__(self) -> None:
        self._count, self._mean, self._squares = 0, np.zeros(()), np.zeros(())

    def add(self, rows: Column) -> None:
        """Add some more rows."""
        mean = rows.mean(0, dtype=np.float64)
        squares = np.square(rows - mean).sum(0)
        count = self._count + len(rows)
        shift = mean - self._mean
        between = np.square(shift) * (self._count * len(rows) / count)
        self._squares = self._squares + squares + between
        self._mean = self._mean + shift * (len(rows) / count)
        self._count = count

    @property
    def mean(self) -> Doubles:
        """The mean of each column."""
        return np.asarray(self._mean)

    @property
    def std(self) -> Doubles:
        """The standard deviation of each column."""
        return np.sqrt(self._squares / self._count)
