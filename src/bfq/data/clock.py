"""The times of the rows of a log: their order, gaps between them, and rows on a regular grid."""

from typing import NamedTuple

import numpy as np

from bfq.data.cells import Cells, as_seconds
from bfq.data.checks import Rows
from bfq.data.dataset import Doubles, Flags
from bfq.data.defects import note
from bfq.errors import BadInput, counted

GAP = 1.5  # usual steps: a longer one is a gap
JITTER, MANY = 0.1, 0.05  # of the usual step; of the steps: so many that are off by more are noted
FINEST = 100  # resampled rows per row of the log


class TimeGrid(NamedTuple):
    """Where each row that is left lies in the file: between two rows of it, if resampled."""

    left: Rows
    right: Rows
    weight: Doubles  # of the right one

    def interpolate(self, values: Doubles) -> Doubles:
        """Values at the times of the grid."""
        if not self.weight.any():
            return values[self.left]
        weight = self.weight.reshape(-1, *[1] * (values.ndim - 1))
        return (1 - weight) * values[self.left] + weight * values[self.right]


class LogClock:
    """The column of times."""

    def __init__(self, cells: Cells, name: str, bad: Flags):
        self.name, self._cells = name, cells
        self._seconds = as_seconds(cells.columns[name])
        self.unread = ~np.isfinite(self._seconds) & ~bad
        self.late = np.zeros(len(bad), bool)

    def find_late(self, bad: Flags, ends: Flags, marked: bool) -> None:
        """Find rows that are not later than all good rows of their episode above them.

        Where nothing else marks the ends of episodes, a step back begins a new one.
        """
        rows = np.flatnonzero(~bad)
        _, ranks = np.unique(self._seconds[rows], return_inverse=True)
        begins = np.append(0, np.cumsum(ends))[rows]
        if not marked:
            begins = np.append(0, np.cumsum(np.diff(ranks) < 0))
        order = ranks + begins * (len(rows) + 1)
        self.late[rows[1:]] = order[1:] <= np.maximum.accumulate(order)[:-1]

    def cut_gaps(
        self, rows: Rows, terminal: Flags, timeout: Flags
    ) -> tuple[Flags, list[str], Flags]:
        """Time-outs with those before gaps, notes, and the rows of the file after gaps."""
        passed = np.diff(self._seconds[rows])
        inside = ~(terminal | timeout)[:-1]
        after = np.zeros(len(self._seconds), bool)
        forward = inside & (passed > 0)
        if not forward.any():
            return timeout, [], after
        step = float(np.median(passed[forward]))
        gaps, back = forward & (passed > GAP * step), inside & (passed < 0)
        after[rows[1:][gaps]] = True
        notes = [f"The rows are {step:g} s apart by {self.name}."]
        if back.any():
            which = counted(int(back.sum()), "row")
            notes.append(f"{self.name} goes back in {which}, which begin new episodes.")
        if gaps.any():
            first, most = rows[:-1][gaps][0], passed[gaps].max()
            line = self._cells.line(first)
            place = f"row {first}" if line is None else f"line {line} (row {first})"
            found = (
                f"{self.name} has {counted(int(gaps.sum()), 'gap')} of more than {GAP:g} steps of {step:g} s, "
                f"up to {most:g} s, and the first follows {place}"
            )
            notes.append(note("gap-in-time", found))
        steps = passed[forward & ~gaps]
        off = float((np.abs(steps - step) > JITTER * step).mean())
        if off > MANY:
            found = (
                f"{off:.0%} of the steps of {self.name} differ by more than {JITTER:.0%} from {step:g} s: they "
                f"take {steps.min():g} to {steps.max():g} s"
            )
            notes.append(note("uneven-steps", found))
        return timeout | np.append(gaps | back, False), notes, after

    def resample(
        self, rows: Rows, terminal: Flags, timeout: Flags, step: float
    ) -> tuple[TimeGrid, Flags, Flags]:
        """A regular grid within each piece, which begins at its first row and ends with its end."""
        times = self._seconds[rows]
        last = np.flatnonzero(np.append((terminal | timeout)[:-1], True))
        first = np.append(0, last[:-1] + 1)
        counts = np.floor((times[last] - times[first]) / step + 1e-6) + 1
        if counts.sum() > FINEST * len(rows):
            raise BadInput(
                f"resampling every {step:g} s would turn {len(rows):,} rows into {counts.sum():,.0f}: choose a "
                "larger step."
            )
        piece = np.repeat(np.arange(len(last)), counts.astype(int))
        ends = np.cumsum(counts.astype(int)) - 1
        passed = (np.arange(len(piece)) - np.append(0, ends[:-1] + 1)[piece]) * step
        # Rows of all pieces on one axis on which pieces do not overlap, so that one search serves all.
        length = float((times[last] - times[first]).max()) + 1.0
        axis = times - np.repeat(times[first], np.diff(last, prepend=-1))
        axis += np.repeat(np.arange(len(last)), np.diff(last, prepend=-1)) * length
        left = np.searchsorted(axis, piece * length + passed + 1e-6 * step, "right") - 1
        right = np.minimum(left + 1, last[piece])
        span = np.maximum(axis[right] - axis[left], step * 1e-6)
        weight = np.clip((piece * length + passed - axis[left]) / span, 0.0, 1.0)
        marks = np.zeros((2, len(piece)), bool)
        marks[:, ends] = terminal[last], timeout[last]
        return TimeGrid(rows[left], rows[right], weight), *marks
