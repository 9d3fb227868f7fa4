"""Names of methods over and beside a figure: their colors, their columns, their lines."""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any, NamedTuple

from bfq.reports.drawing import COLORS, plain

Colors = Mapping[str, Any]
LONGEST = 34  # characters of a name
LETTER, SWATCH, LINE = (
    0.088,
    0.42,
    0.2,
)  # inches of a bold letter, of what stands before a name, of a row


class Legend(NamedTuple):
    """Names in their colors, in even columns over a panel."""

    colors: Colors
    wide: float  # inches there are

    @property
    def names(self) -> list[str]:
        """The names, no longer than is legible."""
        return [textwrap.shorten(name, LONGEST, placeholder=" …") for name in self.colors]

    @property
    def step(self) -> float:
        """Inches that the longest name needs."""
        return min(self.wide, SWATCH + LETTER * max(len(name) for name in self.names))

    @property
    def columns(self) -> int:
        """As many as there is room for, less those that would leave the last row short."""
        most = int(self.wide / self.step)
        return math.ceil(len(self.names) / math.ceil(len(self.names) / most))

    @property
    def inches(self) -> float:
        """Its height."""
        return LINE * math.ceil(len(self.names) / self.columns)

    def draw(self, axes: Any, left: float = 0.0, lift: float = 0.0) -> None:
        """Draws it over axes; `left` counts in widths of the axes, `lift` in inches."""
        for k, (name, color) in enumerate(zip(self.names, self.colors.values(), strict=True)):
            across = self.step * (k % self.columns)
            over = lift + self.inches - LINE * (k // self.columns + 0.5)
            where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
            look = {"color": color, "fontsize": 9.5, "fontweight": "bold"}
            axes.annotate(f"━ {plain(name)}", (left, 1), (72 * across, 72 * over), **where, **look)


def method_colors(names: Iterable[str], given: Colors | None = None) -> dict[str, Any]:
    """A color a method in their order; one that is given stays, so that several figures agree."""
    return {
        name: (given or {}).get(name, color)
        for name, color in zip(names, cycle(COLORS), strict=False)
    }


def balanced(name: str, line: int, lines: int) -> str:
    """A name over as few lines as it needs, of about one length; it breaks at blanks and after hyphens."""
    pieces = re.findall(r"\s*[^\s-]*-|\s*[^\s-]+", name)
    cut = [piece if len(piece) <= line else f"{piece[: line - 1]}…" for piece in pieces]
    needed = len(_filled(cut, line))
    best = next(found for width in range(line + 1) if len(found := _filled(cut, width)) <= needed)
    return plain("\n".join(best[:lines]) + (" …" if needed > lines else ""))


def _filled(pieces: Iterable[str], width: int) -> list[str]:
    """Lines of whole pieces, none wider than this unless one piece is."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece).lstrip()
    return lines
