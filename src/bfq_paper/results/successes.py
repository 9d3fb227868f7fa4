"""Success rates as what they are: so many successes in so many episodes, with Wilson's interval."""

from typing import Any, NamedTuple

from bfq.reports.statistics import Interval, number_text, wilson
from bfq_paper.results.cells import Cell

UNIT = "success in %"
WORDS = (
    "Successes: of all episodes of all seeds, with Wilson's 95% interval in %. It holds for the policies "
    "that were trained here; what other seeds would bring is told by ±."
)


class Successes(NamedTuple):
    """How often one policy, or all those of a cell, came to the goal."""

    reached: int
    episodes: int

    @property
    def interval(self) -> Interval:
        """Of the rate."""
        return wilson(self.reached, self.episodes)

    @property
    def text(self) -> str:
        """For a table."""
        low, high = (number_text(100 * end, 1) for end in self.interval)
        return f"{self.reached:,} of {self.episodes:,} [{low}, {high}]"

    def describe(self) -> dict[str, Any]:
        """For result.json."""
        return {**self._asdict(), "wilson": self.interval._asdict()}


def by_seed(cell: Cell) -> list[Successes]:
    """Each seed of a cell that is scored by success and tells its episodes."""
    if cell.unit != UNIT or not cell.readings:
        return []
    record = cell.readings[0].record
    episodes = record.get("protocol", {}).get("episodes")
    shares = record.get("scores", {}).get("success") or []
    return [
        Successes(round(share * episodes), episodes)
        for share in shares
        if episodes and share is not None
    ]


def pooled(cell: Cell) -> Successes | None:
    """All episodes of a cell, whichever seed's they are."""
    found = by_seed(cell)
    return Successes(*map(sum, zip(*found, strict=True))) if found else None
