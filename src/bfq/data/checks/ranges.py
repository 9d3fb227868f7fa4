"""The range of the actions: as it is given, or as far as the data tells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
BOUNDS = ("action_low", "action_high")
ROUNDING = 1e-4  # of the range: what rounding may add beyond a bound
USED = 0.1  # of ±1: data that stays closer to 0 than this has another range
EVEN = 0.8  # bounds whose sizes differ by less than this factor are meant to be the same
MOST = 6  # ranges that a sentence tells


def bounds(low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> tuple[Floats, Floats]:
    """The given bounds, one number for each action dimension."""
    try:
        lows, highs = (np.asarray(x).astype(np.float32, casting="same_kind") for x in (low, high))
    except (TypeError, ValueError) as error:
        raise BadInput(f"action_low and action_high must be numbers: {error}.") from error
    for name, bound in (("action_low", lows), ("action_high", highs)):
        if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != width):
            held = f"is of shape {bound.shape}" if bound.ndim > 1 else f"has {_count(len(bound))}"
            raise BadInput(
                f"{name} {held}, but an action has {_count(width)}: give one number for all of them, or "
                "one for each."
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
    lows, highs = (bound.copy() for bound in np.array(pairs, np.float32).T)
    return lows, highs, _sentence(actions, lows, highs, BOUNDS)


def completed(
    actions: npt.NDArray[Any], action_low: npt.ArrayLike | None, action_high: npt.ArrayLike | None
) -> tuple[Floats, Floats, str]:
    """The range with what was not given of it taken from the data, which a sentence then tells."""
    low, high, told = from_data(actions)
    if action_low is None and action_high is None:
        return low, high, told
    missing = "action_low" if action_low is None else "action_high"
    low, high = bounds(
        low if action_low is None else action_low,
        high if action_high is None else action_high,
        actions.shape[1],
    )
    return low, high, _sentence(actions, low, high, [missing])


def _count(numbers: int) -> str:
    return f"{numbers} number{'s' * (numbers != 1)}"


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


def _sentence(actions: npt.NDArray[Any], low: Floats, high: Floats, missing: Sequence[str]) -> str:
    """What was not given, what the actions reach, and what the range is now."""
    lacking = "The range of the actions" if len(missing) > 1 else f"The {missing[0]} of the actions"
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
    return (
        f"{lacking} was not given. They reach from {actions.min():.4g} to {actions.max():.4g}, so the range "
        f"was taken as {_ranges(low, high)}. To give the true one: {flags} of bfq data import (in Python, "
        f"{' and '.join(missing)})."
    )


def _ranges(low: Floats, high: Floats) -> str:
    """Each range once, with the numbers of the action it is for where there are several."""
    numbers: dict[str, list[int]] = {}
    for k, (a, b) in enumerate(zip(low, high, strict=True)):
        numbers.setdefault(f"{a:g} to {b:g}", []).append(k)
    if len(numbers) == 1:
        return next(iter(numbers))
    told = [f"{span} for {_which(where)}" for span, where in list(numbers.items())[:MOST]]
    more = ", and others for the rest" if len(numbers) > MOST else ""
    return f"{', '.join(told)}{more} (numbers of an action, counted from 0)"


def _which(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(last)]))
