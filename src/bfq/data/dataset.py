"""The one type of data: flat arrays of transitions, with the end of an episode kept apart from its value.

`masks` is 0 where the future must not be bootstrapped (a terminal state). `episode_ends` marks the last row
of each episode. A time-out ends an episode and keeps its mask at 1.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.validation import check_columns, notes_on
from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Dataset:
    """Transitions (s, a, r, s′, mask) in the order they were logged, in the log's own units."""

    observations: Floats  # (N, s)
    actions: Floats  # (N, a), between action_low and action_high
    rewards: Floats  # (N,)
    next_observations: Floats  # (N, s)
    masks: Floats  # (N,), 0 where the episode truly ended
    episode_ends: Flags  # (N,), true in the last row of each episode
    action_low: Floats  # (a,)
    action_high: Floats  # (a,)
    name: str
    source: str  # how the data came to be, in words
    notes: tuple[str, ...] = ()  # what a user should know about it

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self):,} transitions, {len(self.episode_returns):,} episodes, "
            f"{self.observation_dim} observations, {self.action_dim} actions; {self.source})"
        )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def observation_dim(self) -> int:
        """Numbers in an observation."""
        return self.observations.shape[1]

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.actions.shape[1]

    @cached_property
    def episode_returns(self) -> npt.NDArray[np.float64]:
        """The undiscounted return of every episode, the last one included even if it is cut short."""
        starts = np.flatnonzero(np.concatenate([[True], self.episode_ends[:-1]]))
        return np.add.reduceat(self.rewards.astype(np.float64), starts)

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of every number in it."""
        digest = hashlib.sha256()
        for array in (
            self.observations, self.actions, self.rewards, self.next_observations,
            self.masks, self.episode_ends, self.action_low, self.action_high,
        ):  # fmt: skip
            digest.update(str((array.shape, array.dtype.str)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """What a score must say about the data behind it."""
        returns = self.episode_returns
        return {
            "name": self.name,
            "source": self.source,
            "sha256": self.sha256,
            "transitions": len(self),
            "episodes": len(returns),
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
            "return_max": float(returns.max()),
        }


def from_arrays(
    observations: npt.ArrayLike,
    actions: npt.ArrayLike,
    rewards: npt.ArrayLike,
    terminals: npt.ArrayLike | None = None,
    timeouts: npt.ArrayLike | None = None,
    next_observations: npt.ArrayLike | None = None,
    *,
    action_low: npt.ArrayLike = -1.0,
    action_high: npt.ArrayLike = 1.0,
    name: str = "arrays",
    source: str = "arrays given by the user",
) -> Dataset:
    """Builds a dataset from logged arrays, or says in a sentence what is wrong with them.

    `terminals` marks states after which nothing follows, `timeouts` rows after which the log merely stops.
    Without `next_observations` they are the next row's observations; the last row of a timed-out episode,
    whose successor was not logged, is then left out.
    """
    columns = {
        "observations": observations, "actions": actions, "rewards": rewards, "terminals": terminals,
        "timeouts": timeouts, "next_observations": next_observations,
    }  # fmt: skip
    for key, value in columns.items():
        if isinstance(value, np.ma.MaskedArray):
            raise BadInput(f"{key} are a masked array, whose mask would be lost: fill it first.")
    given = {key: np.asarray(value) for key, value in columns.items() if value is not None}
    width = given["actions"].shape[1] if given["actions"].ndim == 2 else 1
    low, high = _bounds(action_low, action_high, width)
    given = check_columns(given, low, high)

    size = len(given["rewards"])
    terminal = given.get("terminals", np.zeros(size)).astype(bool)
    ends = terminal | given.get("timeouts", np.zeros(size)).astype(bool)
    ends[-1] = True
    kept = np.ones(size, bool)
    if "next_observations" not in given:
        given["next_observations"] = np.concatenate([given["observations"][1:], given["observations"][-1:]])
        ends, kept = _without_unseen_successors(ends, terminal)
    if not kept.any():
        raise BadInput(
            "no transition is left: every row ends an episode without its next observation; "
            "give next_observations."
        )
    return Dataset(
        given["observations"][kept],
        given["actions"][kept],
        given["rewards"][kept],
        given["next_observations"][kept],
        (~terminal[kept]).astype(np.float32),
        ends[kept],
        low,
        high,
        name,
        source,
        tuple(notes_on(given, terminal, int((~kept).sum()))),
    )


def _without_unseen_successors(ends: Flags, terminal: Flags) -> tuple[Flags, Flags]:
    """Drops time-out rows, whose next observation was never logged; the row before becomes the last."""
    kept = terminal | ~ends
    last = ends | np.concatenate([ends[1:] & ~kept[1:], [False]])
    return last, kept


def _bounds(low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> tuple[Floats, Floats]:
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
