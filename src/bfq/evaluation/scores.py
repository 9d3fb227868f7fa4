"""From episodes to what is reported."""

from typing import Any

import numpy as np

from bfq.evaluation.rollout import Episodes
from bfq.run import Reference
from bfq.training.loop import json_numbers

Scores = dict[str, Any]


def scores(episodes: Episodes, reference: Reference | None, metric: str = "return") -> Scores:
    """The mean return of each member, its share of successes where the world tells, and its normalized score.

    Without a reference `normalized` is null: a number would mean nothing. `metric` says what is normalized.
    """
    found: Scores = {"return": episodes.returns.mean(1).tolist()}
    if not np.isnan(episodes.success).all():
        # A member that diverged has no return, and so no success either.
        success = np.where(np.isnan(episodes.returns), np.nan, episodes.success)
        found["success"] = success.mean(1).tolist()
    found["normalized"] = (
        None if reference is None else [reference.normalize(value) for value in found[metric]]
    )
    return found


def told_scores(found: Scores) -> dict[str, list[float | None]]:
    """The scores that there are, as JSON has them: null for a member that diverged."""
    return {
        name: json_numbers(np.asarray(values))
        for name, values in found.items()
        if values is not None
    }
