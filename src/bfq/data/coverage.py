"""How far a cloud of observations reaches: its dimension, its spread, its gaps and its repeats."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from bfq.data.statistics import ColumnStatistics, Floats, chunks, parts, places, spaced, widened

GRID = 64  # bins a side of the picture
NEIGHBORS = 2_000  # rows among which the nearest is sought
SAMPLE_NUMBERS, SAMPLE_ROWS = (
    2_000_000,
    (500, 50_000),
)  # of the sample that gives the principal axes
HASHED = 10_000_000  # rows whose fingerprints are kept; of more, a share chosen by fingerprint
FAR = 1_000.0  # standard deviations beyond which cells are one


def coverage(observations: npt.NDArray[Any], stats: ColumnStatistics) -> dict[str, Any]:
    """Dimension, plane picture, spacing and cells of the observations, each divided by its deviation.

    Constant columns carry nothing and are left out.
    """
    live = np.flatnonzero(stats.std > 0)
    rows = spaced(
        len(observations), int(np.clip(SAMPLE_NUMBERS // max(len(live), 1), *SAMPLE_ROWS))
    )
    if not len(live):
        return {
            "varying": 0,
            "effective_dimension": 0.0,
            "plane": None,
            "spacing": None,
            "cells": 1,
        }
    mean, std = stats.mean[live], stats.std[live]
    sample = (np.asarray(observations[rows], np.float64)[:, live] - mean) / std
    variances, axes = principal(sample)
    nearest = spacing(sample[spaced(len(sample), NEIGHBORS)])
    return {
        "varying": len(live),
        "effective_dimension": participation(variances),
        "explained": (variances / variances.sum())[:2].tolist(),
        "plane": plane(observations, live, mean, std, axes, sample),
        "spacing": nearest,
        "cells": cells(observations, live, mean, std),
    }


def principal(sample: Floats) -> tuple[Floats, Floats]:
    """Variances along the principal axes, falling, and the first two axes as rows.

    Each axis points where its largest entry is positive, so that the picture does not flip.
    """
    centered = sample - sample.mean(0)
    _, sizes, axes = np.linalg.svd(centered, full_matrices=False)
    two = np.zeros((2, sample.shape[1]))
    two[: min(2, len(axes))] = axes[:2]
    largest = np.abs(two).argmax(1)
    return sizes**2 / len(sample), two * np.where(two[[0, 1], largest] < 0, -1.0, 1.0)[:, None]


def participation(variances: Floats) -> float:
    """The participation ratio (Σλ)² / Σλ²: d for a round cloud in d dimensions, 1 for a line."""
    total = float(np.square(variances).sum())
    return float(variances.sum() ** 2 / total) if total else 0.0


def plane(
    observations: npt.NDArray[Any], live: npt.NDArray[np.int64], mean: Floats, std: Floats,
    axes: Floats, sample: Floats,
) -> dict[str, Any]:  # fmt: skip
    """All rows counted on a grid over the first two principal axes, as far as the sample reaches."""
    shadow = sample @ axes.T
    low, high = np.array(
        [widened(*ends) for ends in zip(shadow.min(0), shadow.max(0), strict=True)]
    ).T
    counts = np.zeros(GRID * GRID, np.int64)
    for part in parts(observations):
        column, row = places((part[:, live] - mean) / std @ axes.T, low, high, GRID).T
        counts += np.bincount(row * GRID + column, minlength=len(counts))
    visited = float((counts > 0).mean())
    return {
        "counts": counts.reshape(GRID, GRID).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "visited": visited,
    }


def spacing(sample: Floats) -> dict[str, float] | None:
    """Distances to the nearest other row of the sample, divided by √d so that dimensions compare."""
    if len(sample) < 2:
        return None
    away = cKDTree(sample).query(sample, k=2)[0][:, 1] / np.sqrt(sample.shape[1])
    low, middle, high = np.quantile(away, (0.05, 0.5, 0.95)).tolist()
    return {"rows": len(sample), "q05": low, "median": middle, "q95": high}


def cells(
    observations: npt.NDArray[Any], live: npt.NDArray[np.int64], mean: Floats, std: Floats
) -> int:
    """How many distinct cells, one standard deviation wide in every dimension, were visited."""
    cut = (
        np.clip(np.floor((part[:, live] - mean) / std), -FAR, FAR).astype(np.int16)
        for part in parts(observations)
    )
    return distinct(cut, len(observations))


def repeats(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """How many rows are the exact copy of an earlier one."""
    size = len(arrays[0])
    joined = (
        # + 0 turns −0 into 0, which is the same number with other bits
        np.concatenate([part.reshape(len(part), -1) for part in chunk.values()], 1) + 0
        for chunk in chunks({str(k): array for k, array in enumerate(arrays)})
    )
    return size - distinct(joined, size)


def distinct(blocks: Iterable[npt.NDArray[Any]], size: int) -> int:
    """How many different rows there are, by their 64-bit fingerprints.

    Of more rows than can be kept, those whose checksum is a multiple of m: copies share a checksum, so m
    times their number estimates the whole.
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
