"""Stretches of rows that are there twice, found by a number that stands for each row."""

import numpy as np
import numpy.typing as npt

from bfq.data.checks.logged import Flags, Logged, blocks


def copied_rows(log: Logged) -> Flags:
    """Which rows repeat an earlier one, just as the row before or after them does.

    A robot at rest repeats its last row many times, which is no copy: a copied stretch repeats one as long.
    """
    keys = row_keys(log)
    order = np.argsort(keys, kind="stable")
    begins = np.append(True, keys[order][1:] != keys[order][:-1])
    first = np.empty(len(keys), np.intp)
    first[order] = order[begins][np.cumsum(begins) - 1]
    distance = np.arange(len(keys)) - first
    together = (distance[1:] > 0) & (distance[1:] == distance[:-1])
    return np.append(together, False) | np.append(False, together)


def row_keys(log: Logged) -> npt.NDArray[np.uint64]:
    """The same number for the same row, and hardly ever for another: Σ w_j x_j of its bits x, modulo 2⁶⁴."""
    parts = [log.observations, log.actions, log.rewards[:, None]]
    if log.next_observations is not None:
        parts.append(log.next_observations)
    rng = np.random.default_rng(0)
    weights = [rng.integers(1, 2**63, part.shape[1], dtype=np.uint64) * 2 + 1 for part in parts]
    keys = np.zeros(len(log), np.uint64)
    for part, weight in zip(parts, weights, strict=True):
        for block in blocks(len(log)):
            bits = np.ascontiguousarray(part[block]).view(np.uint32).astype(np.uint64)
            keys[block] += bits @ weight
    return keys
