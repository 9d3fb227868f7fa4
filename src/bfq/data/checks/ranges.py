"""The range of the actions: as it is given, or as far as the data tells."""

from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
ROUNDING = 1e-4  # of the range: what rounding may add beyond a bound
USED = 0.1  # of ±1: data that stays closer to 0 than this has another range
EVEN = 0.8  # bounds whose sizes differ by less than this factor are meant to be the same


def bounds(low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> tuple[Floats, Floats]:
    """The given bounds, one number for each action dimension."""
    try:
        lows, highs = (np.asarray(x).astype(np.float32, casting="same_kind") for x in (low, high))
    except (TypeError, ValueError) as error:
        raise BadInput(f"action_low and action_high must be numbers: {error}.") from error
    for bound in (lows, highs):
        if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != width):
            raise BadInput(
                f"action_low and action_high must be numbers or one number for each of the {width} "
                f"action dimensions, not of shape {bound.shape}."
            )
    lows, highs = np.broadcast_to(lows, (width,)).copy(), np.broadcast_to(highs, (width,)).copy()
    if not (np.isfinite(lows) & np.isfinite(highs) & (lows < highs)).all():
        raise BadInput("action_low must be below action_high in every dimension, and both finite.")
    return lows, highs


def from_data(actions: npt.NDArray[Any]) -> tuple[Floats, Floats, str]:
    """A range that holds all actions, and a sentence about it unless it is the usual one.

    ±1 where the actions fit and use both sides of it. Otherwise the least and greatest of each dimension,
    rounded outward to two figures, and the same on both sides where they nearly are.
    """
    low, high = actions.min(0).astype(np.float64), actions.max(0).astype(np.float64)
    most = float(np.maximum(-low, high).max())
    if USED <= most <= 1.0 + 2 * ROUNDING and low.min() < 0.0 < high.max():
        return np.full(len(low), -1.0, np.float32), np.full(len(low), 1.0, np.float32), ""
    pairs = [_rounded(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    lows, highs = np.array(pairs, np.float32).T
    return lows.copy(), highs.copy(), _sentence(low, high, pairs)


def _rounded(low: float, high: float) -> tuple[float, float]:
    if low == high:
        return low - 1.0, high + 1.0  # a dimension that never moved tells nothing about its range
    if min(-low, high) >= EVEN * max(-low, high):
        high = max(-low, high)
        low = -high
    figures = 1 - int(np.floor(np.log10(high - low)))  # decimals that keep two figures of the range
    step = 10.0**-figures
    slack = ROUNDING * (high - low) / step
    return round(np.floor(low / step + slack) * step, figures), round(
        np.ceil(high / step - slack) * step, figures
    )


def _sentence(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], pairs: list[tuple[float, float]]
) -> str:
    told = [f"{a:g} to {b:g}" for a, b in dict.fromkeys(pairs)]
    if len(told) > 3:
        told = [f"a range for each of the {len(pairs)} dimensions, {told[0]} for the first"]
    return (
        f"The range of the actions was not given. They reach from {low.min():.4g} to {high.max():.4g}, so "
        f"{' and '.join(told)} was taken. To give the true range: --action-low and --action-high (in Python, "
        "action_low and action_high)."
    )
