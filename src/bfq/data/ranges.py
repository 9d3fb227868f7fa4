"""The range of actions: as given, or inferred from the data."""

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Flags, Floats
from bfq.data.defects import describe_rows, refuse
from bfq.errors import BadInput, counted

BOUNDS = ("action_low", "action_high")
ROUNDING = 1e-4  # of the range: values this far beyond a bound are clipped
USED = 0.1  # of ±1: data that stays closer to 0 than this has another range
EVEN = 0.8  # bounds with sizes that differ by less than this factor are taken as equal
MOST = 6  # ranges listed in a sentence


def check_bounds(low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> tuple[Floats, Floats]:
    """The given action bounds, one number for each action dimension."""
    try:
        lows, highs = (np.asarray(x).astype(np.float32, casting="same_kind") for x in (low, high))
    except (TypeError, ValueError) as error:
        raise BadInput(f"action_low and action_high must be numbers: {error}.") from error
    for name, bound in (("action_low", lows), ("action_high", highs)):
        if bound.shape not in ((), (width,)):
            held = counted(bound.size, "number") + f" in shape {bound.shape}" * (bound.ndim > 1)
            raise BadInput(
                f"{name} has {held}, but an action has {counted(width, 'number')}: give one number "
                "for all of them, or one for each."
            )
    lows, highs = np.broadcast_to(lows, (width,)).copy(), np.broadcast_to(highs, (width,)).copy()
    if not (np.isfinite(lows) & np.isfinite(highs) & (lows < highs)).all():
        raise BadInput("action_low must be below action_high in every dimension, and both finite.")
    return lows, highs


def clip_actions(actions: Floats, low: Floats, high: Floats) -> Floats:
    """Clip actions to their range; those beyond rounding are refused."""
    slack = ROUNDING * (high - low)
    outside: Flags = np.any((actions < low - slack) | (actions > high + slack), axis=1)
    if outside.any():
        whole = actions.shape[1] == 1 and actions.min() >= 0 and bool((actions % 1 == 0).all())
        numbered = " (bfq needs continuous actions: numbered choices do not fit)" if whole else ""
        raise refuse(
            "action-beyond-range",
            f"actions leave their range in {describe_rows(outside)}: they span {actions.min():.4g} to "
            f"{actions.max():.4g} and the range is {low.min():.4g} to {high.max():.4g}{numbered}",
        )
    return np.clip(actions, low, high)


def complete_range(
    actions: Floats, action_low: npt.ArrayLike | None, action_high: npt.ArrayLike | None
) -> tuple[Floats, Floats, tuple[str, ...]]:
    """The range of actions, with missing bounds inferred from the data, and a note about these.

    ±1, which needs no note, if the actions fit and use both sides of it. Otherwise the smallest and
    largest value of each dimension, rounded outward to two digits, and made symmetric if they nearly are.
    """
    if action_low is not None and action_high is not None:
        return *check_bounds(action_low, action_high, actions.shape[1]), ()
    low, high = actions.min(0).astype(np.float64), actions.max(0).astype(np.float64)
    most = float(np.maximum(-low, high).max())
    usual = USED <= most <= 1.0 + 2 * ROUNDING and low.min() < 0.0 < high.max()
    pairs = [
        (-1.0, 1.0) if usual else _round_outward(*pair) for pair in zip(low, high, strict=True)
    ]
    lows, highs = np.array(pairs).T
    missing = [
        name for name, bound in zip(BOUNDS, (action_low, action_high), strict=True) if bound is None
    ]
    lows, highs = check_bounds(
        lows if action_low is None else action_low,
        highs if action_high is None else action_high,
        actions.shape[1],
    )
    if usual and len(missing) == len(BOUNDS):
        return lows, highs, ()
    ranges = [f"{a:g} to {b:g}" for a, b in zip(lows, highs, strict=True)]
    several = ", ".join(ranges[:MOST]) + ", …" * (len(ranges) > MOST)
    listed = ranges[0] if len(set(ranges)) == 1 else f"{several} (one range per dimension)"
    what = "The range of the actions" if len(missing) > 1 else f"The {missing[0]} of the actions"
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
    sentence = (
        f"{what} was not given. They reach from {actions.min():.4g} to {actions.max():.4g}, so the range "
        f"was taken as {listed}. To set it: {flags} of bfq data import (in Python, {' and '.join(missing)})."
    )
    return lows, highs, (sentence,)


def _round_outward(low: float, high: float) -> tuple[float, float]:
    if low == high:
        return low - 1.0, high + 1.0  # a constant dimension does not reveal its range
    if min(-low, high) >= EVEN * max(-low, high):
        high = max(-low, high)
        low = -high
    digits = 1 - int(np.floor(np.log10(high - low)))  # decimals that keep two digits of the range
    step = 10.0**-digits
    slack = ROUNDING * (high - low) / step
    lower, upper = np.floor(low / step + slack) * step, np.ceil(high / step - slack) * step
    return round(lower, digits), round(upper, digits)
