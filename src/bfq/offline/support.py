"""How far a policy leaves the log, and how well predictions agree with the returns of the log."""

from typing import Any, NamedTuple

import numpy as np

from bfq.data.coverage import evenly_spaced
from bfq.data.dataset import Doubles, Floats
from bfq.offline.log import SplitLog
from bfq.offline.record import Calibration

NEAREST = 50  # logged states around a state
ROWS, HELD = 50_000, 1_000  # of the fitted part and of the held-out part
QUANTILE = 0.95


class Support(NamedTuple):
    """The actions that were logged in states similar to some held-out states."""

    rows: Any  # held-out rows
    neighbors: Floats  # (rows, nearest, a)
    limit: float  # the distance that 95% of the logged actions keep to them

    def distance(self, actions: Floats) -> Doubles:
        """The distance of actions (rows, a) to the nearest action that was logged in a similar state."""
        away = np.square(self.neighbors - actions[:, None]).sum(-1)
        return np.asarray(np.sqrt(away.min(1)), np.float64)

    def outside(self, drawn: Floats) -> float:
        """The share of actions (rows, draws, a) farther away than the limit; NaN if one is NaN."""
        far = np.array([self.distance(drawn[:, k]) for k in range(drawn.shape[1])])
        return float(np.where(np.isnan(far), np.nan, far > self.limit).mean())


def find_support(log: SplitLog) -> Support:
    """Find the nearest logged states of held-out states, and how near their actions usually are."""
    near, rows = evenly_spaced(len(log.fit), ROWS), evenly_spaced(len(log.held), HELD)
    normalize, to_unit = log.transforms.normalize, log.transforms.to_unit
    states, asked = normalize(log.fit.observations[near]), normalize(log.held.observations[rows])
    count = min(NEAREST, len(near))
    away = (
        np.square(states).sum(1) - 2.0 * asked @ states.T
    )  # squared, up to a constant of each row
    nearest = near[np.argpartition(away, count - 1, axis=1)[:, :count]]
    found = Support(rows, to_unit(log.fit.actions[nearest]), 0.0)
    logged = found.distance(to_unit(log.held.actions[rows]))
    return found._replace(limit=float(np.quantile(logged, QUANTILE)))


def calibrate(predicted: Doubles, returns: Doubles) -> Calibration:
    """Compare predictions with returns of the same rows."""
    order = np.array_split(np.argsort(predicted, kind="stable"), min(10, len(predicted)))
    variance, spread = float(predicted.var()), float(returns.std())
    covariance = float(((predicted - predicted.mean()) * (returns - returns.mean())).mean())
    size = variance**0.5 * spread
    return Calibration(
        covariance / size if size > 0 else 0.0,
        covariance / variance if variance > 0 else 0.0,
        float(predicted.mean() - returns.mean()),
        spread,
        [float(predicted[part].mean()) for part in order],
        [float(returns[part].mean()) for part in order],
    )
