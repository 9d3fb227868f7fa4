"""The one look of all figures: colors, headings, axes, PNG bytes."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bfq.reports.runs import Group, Run
from bfq.reports.tables import ranged

# Okabe and Ito's colors first, told apart by all eyes, then others far from them and from each other.
COLORS = (
    *("#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#009E73", "#6A3D9A", "#56B4E9", "#8C2D04"),
    *("#B0B000", "#E7298A", "#004D40", "#9E7B5A", "#7F8CFF", "#A50026", "#66C2A5", "#3B3B6D"),
)
INK, QUIET, HAIR = "#1F2933", "#6B7682", "#E8EBEE"
DPI = 180
WIDTH = 7.4  # inches
ROUND = (1, 2, 2.5, 5, 10)  # steps between numbers on an axis
FONT = 10.0  # points, of labels


def agent_colors(runs: Sequence[Run]) -> dict[str, Any]:
    """A color an agent, the same in every figure of these runs: blue is the first run's."""
    agents = [run.agent for run in runs] + [each.agent for run in runs for each in run.baselines]
    return {agent: COLORS[k % len(COLORS)] for k, agent in enumerate(dict.fromkeys(agents))}


def group_color(run: Run, group: Group, colors: dict[str, Any]) -> Any:
    """The agent's color, or one of an even scale of lightness for the values of a sweep."""
    groups = run.groups
    if len(groups) == 1:
        return colors[run.agent]
    return mpl.colormaps["viridis"](np.linspace(0.0, 0.75, len(groups))[groups.index(group)])


def heading(axes: Any, title: str, words: str, left: float = 0.0, lift: float = 0.0) -> None:
    """A bold title with quiet words under it; `left` counts in widths of the axes, `lift` in points."""
    lines = (
        (title, 21, {"color": INK, "fontsize": 13, "fontweight": "bold"}),
        (words, 8, {"color": QUIET}),
    )
    for text, height, look in lines:
        place = {"xy": (left, 1), "xytext": (0, height + lift)}
        where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "baseline"}
        axes.annotate(plain(text), **place, **where, **{"fontsize": FONT, **look})


def measured(words: str, seeds: Sequence[int], banded: bool = True) -> str:
    """What a panel shows, in words: its unit, and what was made of the seeds."""
    if max(seeds) == 1:
        return f"{words}, one seed"
    interval = " and 95% interval" if banded else ""
    return f"{words}, mean{interval} of {ranged(seeds, 'seed')}"


def style(axes: Any, grid: str = "y") -> None:
    """A floor, faint lines across it, quiet numbers."""
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#B8C0C8")
    axes.grid(axis=grid, color=HAIR, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9, length=0, pad=5)


def plain(text: str) -> str:
    """Text in which matplotlib sees no mathematics and no half of a character."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def png(figure: Figure) -> bytes:
    """The figure's bytes: the same run, the same bytes."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter the font lacks is a box, and no news
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()
