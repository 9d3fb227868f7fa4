"""The checkerboard figure: the truth beside what each method makes of it, as PNG bytes."""

import io
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {"truth": "#111111", "generated": "#0072B2"}
INK, QUIET, FRAME = "#1F2933", "#6B7682", "#D5DADF"
PANEL = 2.0  # inches a side
STYLE = {"font.family": "sans-serif", "font.size": 10.0, "text.color": INK}


class Panel(NamedTuple):
    """One cloud of points with its title, a line beneath it, and what it is: a key of COLOURS."""

    title: str
    note: str
    points: npt.NDArray[np.float32]
    role: str


def toy_figure(panels: list[Panel]) -> bytes:
    """All panels in a row on the same axes, a little wider than the first one's cloud."""
    half = 1.35 * float(np.abs(panels[0].points).max())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL * len(panels), PANEL + 0.52))
        figure.subplots_adjust(left=0.008, right=0.992, bottom=0.03, top=0.79, wspace=0.06)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel, half)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=180, facecolor="white")
    return buffer.getvalue()


def _draw(axis: Axes, panel: Panel, half: float) -> None:
    x, y = panel.points.T
    axis.scatter(x, y, s=1.6, alpha=0.28, linewidths=0, color=COLOURS[panel.role])
    axis.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set(color=FRAME, linewidth=0.8)
    axis.set_title(panel.title, fontsize=11, fontweight="bold", color=INK, pad=20)
    axis.text(0.5, 1.03, panel.note, transform=axis.transAxes, ha="center", fontsize=8, color=QUIET)
