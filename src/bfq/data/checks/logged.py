"""A log that has been checked: what datasets are built from and what suspicions are raised on."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
BLOCK = 1 << 16  # rows worked on at a time, so that checks need little memory beside the data


@dataclass(frozen=True)
class Logged:
    """Rows in the order they were logged, in float32, with flags that are flags."""

    observations: Floats  # (N, s)
    actions: Floats  # (N, a), inside their range
    rewards: Floats  # (N,)
    next_observations: Floats | None  # (N, s)
    terminal: Flags  # (N,)
    timeout: Flags  # (N,)
    action_low: Floats  # (a,)
    action_high: Floats  # (a,)

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def ends(self) -> Flags:
        """The last row of each episode; the last row of all ends one in any case."""
        ends = self.terminal | self.timeout
        ends[-1] = True
        return ends

    @cached_property
    def last(self) -> Rows:
        """The number of each episode's last row."""
        return np.flatnonzero(self.ends)

    @cached_property
    def lengths(self) -> Rows:
        """The number of rows of each episode."""
        return np.diff(self.last, prepend=-1)


def blocks(size: int) -> Iterator[slice]:
    """All rows, a block at a time."""
    for begin in range(0, size, BLOCK):
        yield slice(begin, min(begin + BLOCK, size))


def row(which: Flags) -> str:
    """The first row of some, and how many there are in all."""
    count = int(which.sum())
    return f"row {int(which.argmax())} ({count:,} row{'s' * (count > 1)} in all, counted from 0)"
