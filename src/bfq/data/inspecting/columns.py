"""Statistics of arrays that may be larger than memory, a chunk of rows at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.summary import Moments, chunks
from bfq.errors import BadInput

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
CHUNK_ROWS, CHUNK_NUMBERS = 100_000, 2**23  # at most these are in memory at once


class Columns(NamedTuple):
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


def columns(name: str, array: npt.NDArray[Any]) -> Columns:
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
    return Columns(low, high, moments.mean, np.where(low == high, 0.0, moments.std))


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
