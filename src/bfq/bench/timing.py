"""Times of repeated work, after it has warmed up."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Timing(NamedTuple):
    """Seconds of one piece of work: the median and the extremes over repeats."""

    median: float
    low: float
    high: float
    repeats: int


def finished(result: Any) -> Any:
    """The result once the device has computed it."""
    for leaf in jax.tree.leaves(result):
        leaf.block_until_ready()
    return result


def timed(work: Callable[[], Any], repeats: int, enough: float = math.inf) -> Timing:
    """Runs the work once unseen, then `repeats` times, each until the device has finished.

    What is slow is timed less often: once `enough` seconds are timed, no further repeat begins.
    """
    finished(work())
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < enough:
        began = time.perf_counter()
        finished(work())
        seconds.append(time.perf_counter() - began)
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))
