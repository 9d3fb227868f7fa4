"""The page about a dataset: its facts in words, numbers and pictures."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.image import imsave

from bfq.reports.report import render, short_number

Facts = Mapping[str, Any]


def data_page(facts: Facts, replay: Facts | None) -> str:
    """Return the page of what `inspect` found, and `replay` if it ran."""
    observations, coverage = facts["observations"], facts["coverage"]
    columns = [observations[name] for name in ("low", "mean", "std", "high")]
    errors = replay["dimensions"] if replay else {}
    return render(
        "data.html.j2",
        title=facts["name"],
        data=facts,
        episode_facts=_episode_facts(facts["episodes"]),
        coverage_facts=_coverage_facts(facts),
        plane=heat(coverage["plane"]["counts"]) if coverage["plane"] else None,
        plane_caption=_plane_caption(coverage) if coverage["plane"] else "",
        observation_rows=list(zip(*columns, strict=True)),
        replay=replay,
        replay_rows=list(
            zip(*(errors.get(name, ()) for name in ("std", "median", "q95", "max")), strict=True)
        ),
    )


def heat(counts: Sequence[Sequence[int]]) -> bytes:
    """A grid of counts as PNG, one pixel per cell: white where empty, darker where fuller."""
    grid = np.asarray(counts, np.float64)[::-1]  # pictures begin at the top
    shade = 0.25 + 0.75 * np.log1p(grid) / max(np.log1p(grid.max()), 1e-9)
    pixels = mpl.colormaps["Blues"](shade)
    pixels[grid == 0] = 1.0
    file = io.BytesIO()
    imsave(file, pixels, format="png", metadata={"Software": "bfq"})  # no version: the same bytes
    return file.getvalue()


def _episode_facts(episodes: Facts) -> dict[str, str]:
    found = {}
    if episodes["masked_inside"]:
        found["terminal rows inside episodes"] = f"{episodes['masked_inside']:,}"
    if episodes["length_return_correlation"] is not None:
        correlation = round(episodes["length_return_correlation"], 2)
        found["correlation of length and return"] = short_number(correlation)
    return found


def _coverage_facts(facts: Facts) -> dict[str, str]:
    coverage, repeats, chain = facts["coverage"], facts["duplicates"], facts["consistency"]
    rows = facts["counts"]["transitions"]
    dimension = f"{coverage['effective_dimension']:.2f} of {coverage['varying']} that vary"
    found = {
        "effective dimension": dimension,
        "cells one standard deviation wide": (
            f"{coverage['cells']:,}, {rows / coverage['cells']:,.3g} transitions per cell"
        ),
        "repeated transitions": f"{repeats['transitions']:,} ({repeats['transitions'] / rows:.2%})",
        "repeated observations": (
            f"{repeats['observations']:,} ({repeats['observations'] / rows:.2%})"
        ),
    }
    if coverage["spacing"]:
        near = coverage["spacing"]
        found["nearest neighbor"] = (
            f"median {short_number(near['median'])} over {near['rows']:,} rows, 5% to 95% quantile "
            f"{short_number(near['q05'])} to {short_number(near['q95'])}"
        )
    if chain["equal"] is not None:
        error = (
            "" if chain["equal"] == 1 else f", error {short_number(chain['max_deviation'])} at most"
        )
        found["next observation equals the next row's"] = (
            f"in {chain['equal']:.2%} of {chain['compared']:,} rows{error}"
        )
    return found


def _plane_caption(coverage: Facts) -> str:
    axes = [
        f"{direction}: {name} principal axis, {share:.0%} of the variance."
        for direction, name, share in zip(
            ("Horizontal", "Vertical"), ("first", "second"), coverage["explained"], strict=False
        )
    ]
    visited = f"{coverage['plane']['visited']:.0%} of the plane was visited."
    return " ".join(["All observations, standardized.", *axes, f"Darker: more rows; {visited}"])
