"""The checkerboard figure: the truth beside what each method makes of it, as PNG bytes."""

import io
import math
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {"truth": "#111111", "generated": "#0072B2"}
INK, QUIET, FRAME = "#1F2933", "#6B7682", "#D5DADF"
PANEL = 2.0  # inches a side
MOST = 8  # panels in a row
STYLE = {"font.family": "sans-serif", "font.size": 10.0, "text.color": INK}


class Panel(NamedTuple):
    """One cloud of points with its title, a line beneath it, and what it is: a key of COLORS."""

    title: str
    note: str
    points: npt.NDArray[np.float32]
    role: str


def toy_figure(panels: list[Panel]) -> bytes:
    """All panels on the same axes, a little wider than the first one's cloud, in as few rows as fit."""
    rows = math.ceil(len(panels) / MOST)
    columns = math.ceil(len(panels) / rows)
    half = 1.35 * float(np.abs(panels[0].points).max())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL * columns, rows * (PANEL + 0.52)))
        above, below = 0.21 / rows, 0.03 / rows  # room for titles, and beneath
        figure.subplots_adjust(
            left=0.008, right=0.992, bottom=below, top=1 - above, wspace=0.06, hspace=0.316
        )
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            _draw(axis, panel, half)
        for axis in axes[len(panels) :]:
            axis.remove()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=180, facecolor="white")
    return buffer.getvalue()


def _draw(axis: Axes, panel: Panel, half: float) -> None:
    x, y = panel.points.T
    axis.scatter(x, y, s=1.6, alpha=0.28, linewidths=0, color=COLORS[panel.role])
    axis.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set(color=FRAME, linewidth=0.8)
    axis.set_title(panel.title, fontsize=11, fontweight="bold", color=INK, pad=20)
    axis.text(0.5, 1.03, panel.note, transform=axis.transAxes, ha="center", fontsize=8, color=QUIET)
