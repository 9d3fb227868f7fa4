"""Histograms as inline SVG, in the page's own colors: they stay sharp, and stretch to any width."""

import io
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.image import imsave

from bfq.reports.markup import Markup, tag

WIDTH, HEIGHT = (
    300.0,
    100.0,
)  # of the drawing's own units, which are stretched to the place there is


def bars(
    counts: Sequence[int], edges: Sequence[float], mean: float, words: str, whole: bool = False
) -> Markup:
    """A histogram whose bars tell their counts when pointed at, with a line at the mean.

    Of whole numbers the edges lie between, so the nearest inside are told.
    """
    top = max(counts, default=0) or 1
    step, room = WIDTH / len(counts), 0.5 if whole else 0.0
    drawn = [
        tag(
            "rect",
            tag("title", f"{count:,} from {number(low + room)} to {number(high - room)}"),
            x=f"{k * step + 0.4:.2f}",
            y=f"{HEIGHT - _height(count, top):.2f}",
            width=f"{step - 0.8:.2f}",
            height=f"{_height(count, top):.2f}",
        )
        for k, (count, low, high) in enumerate(zip(counts, edges[:-1], edges[1:], strict=True))
        if count
    ]
    at = f"{WIDTH * (mean - edges[0]) / (edges[-1] - edges[0]):.2f}"
    line = tag("line", x1=at, x2=at, y1="0", y2=str(HEIGHT))
    return tag(
        "div", _svg([*drawn, line], words), _ends(edges[0] + room, edges[-1] - room), class_="chart"
    )


def outline(counts: Sequence[int], low: float, high: float, words: str) -> Markup:
    """A histogram as one filled shape, for many small ones."""
    top, step = max(counts, default=0) or 1, WIDTH / len(counts)
    path = "".join(f"V{HEIGHT - _height(count, top):.1f}h{step:.2f}" for count in counts)
    shape = tag("path", d=f"M0 {HEIGHT:.0f}{path}V{HEIGHT:.0f}Z")
    return tag("div", _svg([shape], words), _ends(low, high), class_="chart small")


def heat(counts: Sequence[Sequence[int]]) -> bytes:
    """A grid of counts as a PNG, a pixel a cell: white where nothing is, darker where there is more."""
    grid = np.asarray(counts, np.float64)[::-1]  # pictures begin at the top
    shade = 0.25 + 0.75 * np.log1p(grid) / max(np.log1p(grid.max()), 1e-9)
    pixels = mpl.colormaps["Blues"](shade)
    pixels[grid == 0] = 1.0
    file = io.BytesIO()
    imsave(file, pixels, format="png", metadata={"Software": "bfq"})  # no version: the same bytes
    return file.getvalue()


def number(value: float) -> str:
    """A number with four figures and a true minus."""
    text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−")


def _svg(shapes: Sequence[Markup], words: str) -> Markup:
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return tag(
        "svg", *shapes, viewBox=box, preserveAspectRatio="none", role="img", aria_label=words
    )


def _ends(low: float, high: float) -> Markup:
    return tag("div", tag("span", number(low)), tag("span", number(high)), class_="ends")


def _height(count: int, top: int) -> float:
    """Bars of few rows stay visible beside tall ones."""
    return max(HEIGHT * count / top, 0.8) if count else 0.0
