"""Names beside the ends of lines, moved apart where they would overlap."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bfq.reports.drawing import FONT, plain
from bfq.reports.tables import decimals, number_text

LINE, LONG = (
    18,
    30,
)  # characters in a line of a label: with room for two lines, and with room for one
SMALL = 8.0  # points, of labels that have one line only


@dataclass(frozen=True)
class Label:
    """Text beside the point where a line ends."""

    text: str
    color: Any
    x: float
    y: float
    small: bool = False
    strong: bool = True

    @property
    def inches(self) -> float:
        """Its height, with some air."""
        font, air = (SMALL, 1.5) if self.small else (FONT, 5.0)
        return (1.25 * font * (self.text.count("\n") + 1) + air) / 72


def named(name: str, value: float, unit: str, small: bool = False) -> str:
    """A name over at most two lines with its value behind it, or under it where it would stick out."""
    number = number_text(value, decimals(value, unit))
    if small:
        return plain(f"{textwrap.shorten(name, LONG, placeholder=' …')}  {number}")
    lines = textwrap.wrap(name, LINE, max_lines=2, placeholder=" …") or [""]
    fits = len(lines[-1]) + 2 + len(number) <= LINE
    return plain("\n".join(lines) + ("  " if fits else "\n") + number)


def label_ends(axes: Any, labels: list[Label], height: float) -> None:
    """Names the lines at the right of axes of this height in inches, in their colors."""
    to_axes = axes.transData + axes.transAxes.inverted()
    axes.set_ylim(axes.get_ylim())  # the labels' places hold for this scale
    ordered = sorted(labels, key=lambda label: label.y)
    ends = [to_axes.transform((label.x, label.y)) for label in ordered]
    places = spread([float(end[1]) for end in ends], [label.inches / height for label in ordered])
    for label, end, place in zip(ordered, ends, places, strict=True):
        axes.plot(
            [end[0] + 0.012, 1.02, 1.04],
            [end[1], end[1], place],
            color=label.color,
            lw=0.8,
            alpha=0.6,
            transform=axes.transAxes,
            clip_on=False,
        )
        axes.text(
            1.05,
            place,
            label.text,
            color=label.color,
            fontsize=SMALL if label.small else FONT,
            fontweight="bold" if label.strong else "normal",
            ha="left",
            va="center",
            transform=axes.transAxes,
            linespacing=1.1,
        )


def spread(wanted: Sequence[float], heights: Sequence[float], low: float = 0.0) -> list[float]:
    """Places nearest to the wanted ones (which ascend) so that boxes of these heights do not overlap.

    Boxes that collide are merged into a block centered on the mean of what its members wanted, but not
    below `low`, and not above 1 as long as there is room.
    """
    blocks: list[
        list[tuple[float, float]]
    ] = []  # of each member its height, and where it wants the foot
    for place, height in zip(wanted, heights, strict=True):
        blocks.append([(height, place - height / 2)])
        while len(blocks) > 1 and _foot(blocks[-2], low) + _size(blocks[-2]) > _foot(
            blocks[-1], low
        ):
            below, above = blocks[-2:]
            blocks[-2:] = [below + [(size, foot - _size(below)) for size, foot in above]]
    return [
        _foot(block, low) + _size(block[:k]) + height / 2
        for block in blocks
        for k, (height, _) in enumerate(block)
    ]


def _size(block: Sequence[tuple[float, float]]) -> float:
    return sum(height for height, _ in block)


def _foot(block: Sequence[tuple[float, float]], low: float) -> float:
    wanted = sum(foot for _, foot in block) / len(block)
    return max(min(wanted, 1.0 - _size(block)), low)
