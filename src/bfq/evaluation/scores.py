"""From episode returns to what is reported."""

from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.catalog import Reference

Scores = dict[str, Any]


def scores(returns: npt.NDArray[np.float64], reference: Reference | None) -> Scores:
    """The mean return of each member, and its normalised score where a reference exists.

    `returns` is (members, episodes). Without a reference `normalized` is null: a number would mean nothing.
    """
    means = returns.mean(1)
    normalized = None if reference is None else [reference.normalise(float(mean)) for mean in means]
    return {"return": means.tolist(), "normalized": normalized}
