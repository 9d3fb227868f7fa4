"""Statistics of columns that may be larger than memory, and the coverage of observations."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from bfq.data.dataset import Doubles, Moments, chunks
from bfq.errors import BadInput

GRID = 64  # bins per side of the picture
NEIGHBORS = 2_000  # rows searched for the nearest one
SAMPLE_NUMBERS, SAMPLE_ROWS = 2_000_000, (500, 50_000)  # of the sample for the principal axes
HASHED = 10_000_000  # rows with fingerprints in memory; of more rows, a share chosen by fingerprint
FAR = 1_000.0  # standard deviations beyond which cells are merged
CHUNK_ROWS, CHUNK_NUMBERS = 100_000, 2**23  # at most these are in memory at once

Counts = npt.NDArray[np.int64]


class ColumnStatistics(NamedTuple):
    """Range, mean and standard deviation of each column of an array."""

    low: Doubles
    high: Doubles
    mean: Doubles
    std: Doubles

    def as_lists(self) -> dict[str, list[float]]:
        """The same for JSON."""
        return {name: values.tolist() for name, values in self._asdict().items()}


def parts(array: npt.NDArray[Any]) -> Iterator[Doubles]:
    """An array chunk by chunk in double precision, as a matrix."""
    width = int(np.prod(array.shape[1:], dtype=int))
    for chunk in chunks({"": array}, max(1, min(CHUNK_ROWS, CHUNK_NUMBERS // max(width, 1)))):
        yield chunk[""].reshape(-1, width).astype(np.float64)


def column_statistics(name: str, array: npt.NDArray[Any]) -> ColumnStatistics:
    """Range, mean and standard deviation of every column."""
    moments, lows, highs = Moments(), [], []
    for part in parts(array):
        if not np.isfinite(part).all():
            raise BadInput(f"{name} hold NaN or an infinite value: repair these transitions.")
        moments.add(part)
        lows.append(part.min(0))
        highs.append(part.max(0))
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return ColumnStatistics(low, high, moments.mean, np.where(low == high, 0.0, moments.std))


def count_zeros(array: npt.NDArray[Any]) -> int:
    """The number of zeros."""
    return sum(int((part == 0).sum()) for part in parts(array))


def histograms(array: npt.NDArray[Any], low: Doubles, high: Doubles, bins: int) -> Counts:
    """Rows in each of `bins` equal bins of each column; the outer bins include all values beyond."""
    counts = np.zeros(len(low) * bins, np.int64)
    first = np.arange(len(low)) * bins
    for part in parts(array):
        index = bin_index(part, low, high, bins) + first
        counts += np.bincount(index.ravel(), minlength=len(counts))
    return counts.reshape(len(low), bins)


def bin_index(values: Doubles, low: Doubles, high: Doubles, bins: int) -> Counts:
    """The bin of every value, from 0 to bins − 1."""
    scaled = (values - low) * (bins / np.where(high > low, high - low, 1.0))
    return np.clip(scaled, 0, bins - 1).astype(np.int64)


def at_bounds(array: npt.NDArray[Any], low: Doubles, high: Doubles, slack: float) -> Doubles:
    """The share of rows in which each column lies within `slack` (a share of its range) of a bound."""
    margin, count = slack * (high - low), np.zeros(len(low))
    for part in parts(array):
        count += ((part <= low + margin) | (part >= high - margin)).sum(0)
    return count / len(array)


def evenly_spaced(size: int, wanted: int) -> Counts:
    """At most `wanted` row indices, evenly spaced from the first to the last."""
    return np.linspace(0, size - 1, min(size, wanted)).round().astype(np.int64)


def widened(low: float, high: float) -> tuple[float, float]:
    """A range for a histogram, even if all values are equal."""
    room = 0.0 if high > low else max(0.5, 1e-3 * abs(low))
    return low - room, high + room


def coverage(observations: npt.NDArray[Any], stats: ColumnStatistics) -> dict[str, Any]:
    """Dimension, planar picture, spacing and cells of the standardized observations.

    Constant columns are left out.
    """
    live = np.flatnonzero(stats.std > 0)
    if not len(live):
        nothing = {"plane": None, "spacing": None, "cells": 1}
        return {"varying": 0, "effective_dimension": 0.0, **nothing}
    size = int(np.clip(SAMPLE_NUMBERS // len(live), *SAMPLE_ROWS))
    rows, mean, std = evenly_spaced(len(observations), size), stats.mean[live], stats.std[live]
    sample = (np.asarray(observations[rows], np.float64)[:, live] - mean) / std
    variances, axes = principal(sample)
    nearest = spacing(sample[evenly_spaced(len(sample), NEIGHBORS)])
    return {
        "varying": len(live),
        "effective_dimension": participation(variances),
        "explained": (variances / variances.sum())[:2].tolist(),
        "plane": plane(observations, live, mean, std, axes, sample),
        "spacing": nearest,
        "cells": count_cells(observations, live, mean, std),
    }


def principal(sample: Doubles) -> tuple[Doubles, Doubles]:
    """Decreasing variances along the principal axes, and the first two axes as rows.

    The largest entry of each axis is positive, so that the picture does not flip.
    """
    centered = sample - sample.mean(0)
    _, sizes, axes = np.linalg.svd(centered, full_matrices=False)
    two = np.zeros((2, sample.shape[1]))
    two[: min(2, len(axes))] = axes[:2]
    largest = np.abs(two).argmax(1)
    return sizes**2 / len(sample), two * np.where(two[[0, 1], largest] < 0, -1.0, 1.0)[:, None]


def participation(variances: Doubles) -> float:
    """The participation ratio (Σλ)² / Σλ²: d for a round cloud in d dimensions, 1 for a line."""
    total = float(np.square(variances).sum())
    return float(variances.sum() ** 2 / total) if total else 0.0


def plane(
    observations: npt.NDArray[Any], live: npt.NDArray[np.int64], mean: Doubles, std: Doubles,
    axes: Doubles, sample: Doubles,
) -> dict[str, Any]:  # fmt: skip
    """Counts of all rows on a grid over the first two principal axes, within the range of the sample."""
    shadow = sample @ axes.T
    ends = zip(shadow.min(0), shadow.max(0), strict=True)
    low, high = np.array([widened(*pair) for pair in ends]).T
    counts = np.zeros(GRID * GRID, np.int64)
    for part in parts(observations):
        column, row = bin_index((part[:, live] - mean) / std @ axes.T, low, high, GRID).T
        counts += np.bincount(row * GRID + column, minlength=len(counts))
    grid, visited = counts.reshape(GRID, GRID).tolist(), float((counts > 0).mean())
    return {"counts": grid, "low": low.tolist(), "high": high.tolist(), "visited": visited}


def spacing(sample: Doubles) -> dict[str, float] | None:
    """Distances to the nearest other row of the sample, divided by √d so that dimensions compare."""
    if len(sample) < 2:
        return None
    away = cKDTree(sample).query(sample, k=2)[0][:, 1] / np.sqrt(sample.shape[1])
    low, middle, high = np.quantile(away, (0.05, 0.5, 0.95)).tolist()
    return {"rows": len(sample), "q05": low, "median": middle, "q95": high}


def count_cells(
    observations: npt.NDArray[Any], live: npt.NDArray[np.int64], mean: Doubles, std: Doubles
) -> int:
    """The number of visited cells, each one standard deviation wide in every dimension."""
    cut = (
        np.clip(np.floor((part[:, live] - mean) / std), -FAR, FAR).astype(np.int16)
        for part in parts(observations)
    )
    return count_distinct(cut, len(observations))


def count_repeats(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """The number of rows that are exact copies of an earlier one."""
    size = len(arrays[0])
    joined = (
        # + 0 turns −0 into 0, which is the same number with other bits
        np.concatenate([part.reshape(len(part), -1) for part in chunk.values()], 1) + 0
        for chunk in chunks({str(k): array for k, array in enumerate(arrays)})
    )
    return size - count_distinct(joined, size)


def count_distinct(blocks: Iterable[npt.NDArray[Any]], size: int) -> int:
    """The number of different rows, by their 64-bit fingerprints.

    If there are too many rows, only those with a checksum that is a multiple of m are counted: copies share
    a checksum, so m times that count estimates the total.
    """
    one_in = -(-size // HASHED)
    kept = np.sort(np.concatenate([_fingerprints(block, one_in) for block in blocks]))
    return min(size, one_in * (int(np.count_nonzero(np.diff(kept))) + min(len(kept), 1)))


def _fingerprints(block: npt.NDArray[Any], one_in: int) -> npt.NDArray[np.int64]:
    rows = np.ascontiguousarray(block)
    raw = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0].tolist()
    if one_in > 1:
        raw = [row for row in raw if zlib.crc32(row) % one_in == 0]
    return np.fromiter(map(hash, raw), np.int64, len(raw))
