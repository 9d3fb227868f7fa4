"""The page about a dataset: its facts in numbers and pictures."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.image import imsave

from bfq.reports.report import render

Facts = Mapping[str, Any]


def data_page(facts: Facts, replay: Facts | None) -> str:
    """Return the page of what `inspect` found, and `replay` if it ran."""
    observations, plane = facts["observations"], facts["coverage"]["plane"]
    errors = replay["dimensions"] if replay else {}
    return render(
        "data.html.j2",
        title=facts["name"],
        data=facts,
        plane=heat(plane["counts"]) if plane else None,
        observation_rows=_columns(observations, "low", "mean", "std", "high"),
        replay=replay,
        replay_rows=_columns(errors, "std", "median", "q95", "max"),
    )


def _columns(values: Facts, *names: str) -> list[tuple[float, ...]]:
    """One row per dimension."""
    return list(zip(*(values.get(name, ()) for name in names), strict=True))


def heat(counts: Sequence[Sequence[int]]) -> bytes:
    """A grid of counts as PNG, one pixel per cell: white where empty, darker where fuller."""
    grid = np.asarray(counts, np.float64)[::-1]  # pictures begin at the top
    shade = 0.25 + 0.75 * np.log1p(grid) / max(np.log1p(grid.max()), 1e-9)
    pixels = mpl.colormaps["Blues"](shade)
    pixels[grid == 0] = 1.0
    file = io.BytesIO()
    imsave(file, pixels, format="png", metadata={"Software": "bfq"})  # no version: the same bytes
    return file.getvalue()
