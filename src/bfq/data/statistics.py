"""What must be known of every number in a dataset, worked out in one pass, a chunk at a time.

Statistics of arrays that may be larger than memory, a chunk of rows at a time.
"""

import hashlib
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]
Doubles = npt.NDArray[np.float64]
CHUNK = 1 << 16  # rows that are read in order
GATHER = 256  # rows that are read from anywhere


@dataclass(frozen=True)
class Summary:
    """A fingerprint of all numbers, the return of every episode, and means and ranges."""

    sha256: str
    episode_returns: Doubles  # undiscounted, the last one included even if it is cut short
    observation_mean: Doubles
    observation_std: Doubles
    reward_mean: float
    reward_std: float
    reward_low: float
    reward_high: float


def summarize(columns: Columns, constants: Columns) -> Summary:
    """The summary of columns of equal length; `constants` only enter the fingerprint."""
    work = Summarizer()
    for chunk in chunks(columns):
        work.add(chunk)
    return work.result(constants)


class Summarizer:
    """Works out the summary of columns that arrive in pieces."""

    def __init__(self) -> None:
        self._fingerprint, self._observations, self._rewards = Fingerprint(), Moments(), Moments()
        self._kept: list[Doubles] = []
        self._ends: list[Column] = []

    def add(self, columns: Columns) -> None:
        """Takes the next rows."""
        self._fingerprint.add(columns)
        self._observations.add(columns["observations"])
        self._rewards.add(columns["rewards"])
        self._kept.append(columns["rewards"].astype(np.float64))
        self._ends.append(columns["episode_ends"])

    def result(self, constants: Columns) -> Summary:
        """The summary of all rows so far."""
        self._fingerprint.add(constants)
        rewards, ends = np.concatenate(self._kept), np.concatenate(self._ends)
        starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
        return Summary(
            self._fingerprint.hexdigest(),
            np.add.reduceat(rewards, starts),
            self._observations.mean,
            self._observations.std,
            float(self._rewards.mean),
            float(self._rewards.std),
            float(rewards.min()),
            float(rewards.max()),
        )


def chunks(columns: Columns, rows: int = CHUNK) -> Iterator[dict[str, Column]]:
    """The columns in pieces that fit in memory."""
    for begin in range(0, len(next(iter(columns.values()))), rows):
        yield {name: np.asarray(column[begin : begin + rows]) for name, column in columns.items()}
        forget(columns)


def gather(columns: Columns, index: npt.NDArray[np.integer]) -> dict[str, Column]:
    """These rows of each column; few at a time, since a row of a mapped file may map two megabytes."""
    parts = []
    for begin in range(0, len(index), GATHER):
        parts.append(
            {name: column[index[begin : begin + GATHER]] for name, column in columns.items()}
        )
        forget(columns)
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def forget(columns: Columns) -> None:
    """Gives back the memory of mapped files: each page that was read counts as ours until then."""
    for mapped in {
        id(m): m for m in (getattr(column, "_mmap", None) for column in columns.values()) if m
    }.values():
        if hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


class Fingerprint:
    """SHA-256 over the names, types, shapes and bytes of columns, however they are cut into pieces."""

    def __init__(self) -> None:
        self._digests: dict[str, Any] = {}
        self._kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._rows: dict[str, int] = {}

    def add(self, columns: Columns) -> None:
        """Takes the next rows of each column."""
        for name, column in columns.items():
            self._digests.setdefault(name, hashlib.sha256()).update(
                np.ascontiguousarray(column).tobytes()
            )
            self._kinds[name] = (column.dtype.str, column.shape[1:])
            self._rows[name] = self._rows.get(name, 0) + len(column)

    def hexdigest(self) -> str:
        """The same word for the same numbers."""
        whole = hashlib.sha256()
        for name, digest in self._digests.items():
            whole.update(
                f"{name} {self._kinds[name]} {self._rows[name]} {digest.hexdigest()}\n".encode()
            )
        return whole.hexdigest()


class Moments:
    """Mean and population standard deviation of rows that arrive in pieces (Chan's update)."""

    def __init__(self) -> None:
        self._count, self._mean, self._squares = 0, np.zeros(()), np.zeros(())

    def add(self, rows: Column) -> None:
        """Takes some more rows."""
        mean = rows.mean(0, dtype=np.float64)
        squares = np.square(rows - mean).sum(0)
        count = self._count + len(rows)
        apart = mean - self._mean
        self._squares = (
            self._squares + squares + np.square(apart) * (self._count * len(rows) / count)
        )
        self._mean = self._mean + apart * (len(rows) / count)
        self._count = count

    @property
    def mean(self) -> Doubles:
        """The mean of each column."""
        return np.asarray(self._mean)

    @property
    def std(self) -> Doubles:
        """The standard deviation of each column."""
        return np.sqrt(self._squares / self._count)


Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
CHUNK_ROWS, CHUNK_NUMBERS = 100_000, 2**23  # at most these are in memory at once


class ColumnStatistics(NamedTuple):
    """What each column of an array holds."""

    low: Floats
    high: Floats
    mean: Floats
    std: Floats

    def tell(self) -> dict[str, list[float]]:
        """The same for JSON."""
        return {name: values.tolist() for name, values in self._asdict().items()}


def parts(array: npt.NDArray[Any]) -> Iterator[Floats]:
    """An array chunk by chunk in double precision, one column at least."""
    width = int(np.prod(array.shape[1:], dtype=int))
    for chunk in chunks({"": array}, max(1, min(CHUNK_ROWS, CHUNK_NUMBERS // max(width, 1)))):
        yield chunk[""].reshape(-1, width).astype(np.float64)


def column_statistics(name: str, array: npt.NDArray[Any]) -> ColumnStatistics:
    """Range, mean and standard deviation of every column."""
    moments, lows, highs = Moments(), [], []
    for part in parts(array):
        if not np.isfinite(part).all():
            raise BadInput(
                f"{name} hold NaN or an infinite value: remove or repair these transitions."
            )
        moments.add(part)
        lows.append(part.min(0))
        highs.append(part.max(0))
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return ColumnStatistics(low, high, moments.mean, np.where(low == high, 0.0, moments.std))


def zeros(array: npt.NDArray[Any]) -> int:
    """How many numbers are 0."""
    return sum(int((part == 0).sum()) for part in parts(array))


def histograms(array: npt.NDArray[Any], low: Floats, high: Floats, bins: int) -> Counts:
    """How many rows fall into each of `bins` equal bins of each column; the outer ones take all beyond."""
    counts = np.zeros(len(low) * bins, np.int64)
    first = np.arange(len(low)) * bins
    for part in parts(array):
        counts += np.bincount(
            (places(part, low, high, bins) + first).ravel(), minlength=len(counts)
        )
    return counts.reshape(len(low), bins)


def places(values: Floats, low: Floats, high: Floats, bins: int) -> Counts:
    """The bin of every value, between 0 and bins − 1."""
    scaled = (values - low) * (bins / np.where(high > low, high - low, 1.0))
    return np.clip(scaled, 0, bins - 1).astype(np.int64)


def at_bounds(array: npt.NDArray[Any], low: Floats, high: Floats, slack: float) -> Floats:
    """The share of rows in which each column lies within `slack` (a share of its range) of a bound."""
    margin, count = slack * (high - low), np.zeros(len(low))
    for part in parts(array):
        count += ((part <= low + margin) | (part >= high - margin)).sum(0)
    return count / len(array)


def spaced(size: int, wanted: int) -> Counts:
    """At most `wanted` row numbers, evenly spaced from the first to the last."""
    return np.linspace(0, size - 1, min(size, wanted)).round().astype(np.int64)


def widened(low: float, high: float) -> tuple[float, float]:
    """A range that a histogram can be drawn over, even where all values are the same."""
    room = 0.0 if high > low else max(0.5, 1e-3 * abs(low))
    return low - room, high + room
