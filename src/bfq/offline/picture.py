"""The picture of an offline evaluation: estimates of every policy, and what fitted Q got right in the log."""

from typing import Any

import numpy as np

from bfq.offline.record import Calibration, Judgment, OfflineRecord
from bfq.reports import drawing

MOST = 24  # policies in the picture, the best by their bound
SHOWN = {"fqe": "fitted Q", "model": "model", "wis": "weighted IS", "dr": "doubly robust"}
APART = 0.18  # rows between the estimates of one policy


def draw_offline(record: OfflineRecord) -> bytes:
    """The picture as PNG."""
    ranked = sorted(
        record.policies, key=lambda one: -np.inf if one.bound is None else one.bound, reverse=True
    )[:MOST]
    tall = 0.4 * len(ranked) + 0.6
    figure = drawing.panel_figure(
        [max(tall, 1.6), 2.2], left=2.2, right=0.3, above=0.75, below=0.6, top=0.1
    )
    top, bottom = figure.axes
    _draw_values(top, record, ranked)
    drawing.draw_heading(
        top, "What the log says about each policy",
        f"discounted return, γ = {record.discount:g}, 95% intervals; gray: the log itself", left=-0.4,
    )  # fmt: skip
    _draw_calibration(bottom, {"fitted Q": record.fitted_q, "model": record.model})
    drawing.draw_heading(
        bottom, "The log's own returns, as predicted",
        "means of tenths of the predictions; on the line, predictions are right", left=-0.4,
    )  # fmt: skip
    return drawing.as_png(figure)


def _draw_values(axes: Any, record: OfflineRecord, ranked: list[Judgment]) -> None:
    log = record.log.value
    ends = [end for end in (log.low, log.high) if end is not None]
    if len(ends) == 2:
        axes.axvspan(*ends, color=drawing.HAIR, lw=0)
    middle = (len(SHOWN) - 1) / 2
    for k, (name, words) in enumerate(SHOWN.items()):
        color, shift = drawing.COLORS[k], (k - middle) * APART
        for place, policy in enumerate(ranked):
            found = policy.values[name]
            thin = name in ("wis", "dr") and (policy.effective_episodes or 0.0) < 10.0
            if found.value is None or thin:
                continue
            y, label = place + shift, words if place == 0 else None
            axes.plot([found.low, found.high], [y, y], color=color, lw=1.4, alpha=0.7)
            axes.plot(found.value, y, "o", color=color, ms=4, label=label)
    axes.set_yticks(range(len(ranked)), [drawing.literal(policy.name) for policy in ranked])
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    drawing.style_axes(axes, "x")
    axes.legend(
        frameon=False, fontsize=drawing.SMALL, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4
    )


def _draw_calibration(axes: Any, found: dict[str, Calibration]) -> None:
    ends = [end for one in found.values() for end in (*one.predicted, *one.observed)]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=drawing.QUIET, lw=0.8)
    for k, (name, one) in enumerate(found.items()):
        axes.plot(one.predicted, one.observed, "o-", color=drawing.COLORS[k], ms=4, label=name)
    axes.set_xlabel("predicted", color=drawing.QUIET, fontsize=drawing.SMALL)
    axes.set_ylabel("observed", color=drawing.QUIET, fontsize=drawing.SMALL)
    drawing.style_axes(axes, "both")
    axes.legend(frameon=False, fontsize=drawing.SMALL)
