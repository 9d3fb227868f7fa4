"""The one type of data: flat arrays of transitions, with the end of an episode kept apart from its value.

`masks` is 0 where the future must not be bootstrapped (a terminal state). `episode_ends` marks the last row
of each episode. A time-out ends an episode and keeps its mask at 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.checks import NEEDED, as_array, check
from bfq.data.defects import refuse
from bfq.data.statistics import Summary, gather, summarize
from bfq.data.suspicions import check_succession, notes_on
from bfq.errors import unknown

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]
COLUMNS = ("observations", "actions", "rewards", "next_observations", "masks", "episode_ends")


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
    infos: Mapping[str, npt.NDArray[Any]] = field(
        default_factory=dict
    )  # qpos, qvel, …: rows no agent sees

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

    @property
    def row_bytes(self) -> int:
        """Bytes of a transition as learning holds it."""
        return 4 * (2 * self.observation_dim + self.action_dim + 2)

    @cached_property
    def summary(self) -> Summary:
        """What must be known of every number in it."""
        return summarize(
            self.columns, {"action_low": self.action_low, "action_high": self.action_high}
        )

    @property
    def episode_returns(self) -> npt.NDArray[np.float64]:
        """The undiscounted return of every episode, the last one included even if it is cut short."""
        return self.summary.episode_returns

    @property
    def sha256(self) -> str:
        """A fingerprint of every number that learning can see."""
        return self.summary.sha256

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns that learning can see, one row a transition."""
        return {name: getattr(self, name) for name in COLUMNS}

    def rows(self, which: slice) -> "Dataset":
        """Some of the rows, as a dataset of their own."""
        columns: dict[str, Any] = {name: column[which] for name, column in self.columns.items()}
        return replace(
            self, **columns, infos={name: column[which] for name, column in self.infos.items()}
        )

    def drawn(self, index: npt.NDArray[np.integer]) -> "Dataset":
        """These rows, in this order and without their infos, read with little memory."""
        columns: dict[str, Any] = gather(self.columns, index)
        return replace(self, **columns, infos={})

    def next_actions(self, which: slice | npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
        """The action logged after each of these rows, and 0 where none was, since the episode ends there."""
        rows = np.arange(len(self))[which]
        following = np.minimum(rows + 1, len(self) - 1)
        ended = gather({"episode_ends": self.episode_ends}, rows)["episode_ends"]
        known = ~ended & (following > rows)
        return gather({"actions": self.actions}, following)["actions"], known.astype(np.float32)

    def known(self, summary: Summary) -> "Dataset":
        """The same dataset with what was worked out before, so that no number must be read for it again."""
        vars(self)["summary"] = summary  # where cached_property looks
        return self

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
    dones: npt.ArrayLike | None = None,
    episode_starts: npt.ArrayLike | None = None,
    episode_ids: npt.ArrayLike | None = None,
    episode_lengths: npt.ArrayLike | None = None,
    infos: Mapping[str, npt.ArrayLike] | None = None,
    action_low: npt.ArrayLike = -1.0,
    action_high: npt.ArrayLike = 1.0,
    name: str = "arrays",
    source: str = "arrays given by the user",
) -> Dataset:
    """Builds a dataset from logged arrays, or says in a sentence what is wrong with them.

    `terminals` marks states after which nothing follows, `timeouts` rows after which the log merely stops.
    Where these are not known, `dones` (an end of either kind), `episode_starts`, `episode_ids` or
    `episode_lengths` tell where episodes end. Without `next_observations` they are the next row's
    observations; the last row of a timed-out episode, whose successor was not logged, is then left out.
    """
    columns = {
        "observations": observations, "actions": actions, "rewards": rewards, "terminals": terminals,
        "timeouts": timeouts, "next_observations": next_observations, "dones": dones,
        "episode_starts": episode_starts, "episode_ids": episode_ids, "episode_lengths": episode_lengths,
    }  # fmt: skip
    log, told = check(columns, action_low, action_high)
    ends, following, left_out = log.ends, log.next_observations, 0
    kept: slice | Flags = slice(None)
    if following is None:
        following = np.concatenate([log.observations[1:], log.observations[-1:]])
        ends, kept = _without_unseen_successors(log.ends, log.terminal)
        left_out = len(log) - int(kept.sum())
    if left_out == len(log):
        raise refuse(
            "no-transition-left", "no transition is left, because every row ends an episode"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # differences of very large numbers
        notes = (*told, *check_succession(log), *notes_on(log, left_out))
    return Dataset(
        log.observations[kept],
        log.actions[kept],
        log.rewards[kept],
        following[kept],
        (~log.terminal[kept]).astype(np.float32),
        ends[kept],
        log.action_low,
        log.action_high,
        name,
        source,
        notes,
        {key: _aligned(key, value, len(log))[kept] for key, value in (infos or {}).items()},
    )


def _aligned(name: str, column: npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    array = as_array(name, column)
    if array.ndim == 0 or len(array) != size:
        raise refuse(
            "different-lengths", f"{name} have shape {array.shape}, but there are {size} rows"
        )
    return array


def from_episodes(episodes: Sequence[Mapping[str, npt.ArrayLike]], **settings: Any) -> Dataset:
    """Builds a dataset from episodes, each with observations, actions, rewards and whether it `terminated`.

    An episode of T actions has T observations, or T + 1 with the one after its last action. `terminals` may
    be given instead of `terminated`, one flag a row. `settings` are those of `from_arrays`, such as
    action_low.
    """
    columns: dict[str, Any] = join(episodes)
    return from_arrays(**columns, **settings)


def _without_unseen_successors(ends: Flags, terminal: Flags) -> tuple[Flags, Flags]:
    """Drops time-out rows, whose next observation was never logged; the row before becomes the last."""
    kept = terminal | ~ends
    last = ends | np.concatenate([ends[1:] & ~kept[1:], [False]])
    return last, kept


EPISODE_PARTS = (*NEEDED, "terminated", "terminals")


def join(episodes: Sequence[Mapping[str, npt.ArrayLike]]) -> Arrays:
    """One row a step: observations, actions, rewards, flags, and next observations if they were logged."""
    if not len(episodes):
        raise refuse("no-rows", "there is no episode in it")
    parts = [_part(f"episode {number}", episode) for number, episode in enumerate(episodes)]
    for name in parts[0]:
        for number, part in enumerate(parts):
            _alike(name, number, parts[0], part)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _part(title: str, episode: Mapping[str, npt.ArrayLike]) -> Arrays:
    for name in episode:
        if name not in EPISODE_PARTS:
            raise unknown(f"part of {title}", str(name), EPISODE_PARTS)
    for name in NEEDED:
        if name not in episode:
            raise refuse("missing-column", f"{title} has no {name}")
    arrays = {name: as_array(f"{title}: {name}", episode[name]) for name in NEEDED}
    rows = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    steps, seen = rows["rewards"], arrays["observations"]
    if rows["actions"] != steps or rows["observations"] - steps not in (0, 1):
        told = ", ".join(f"{count} {name}" for name, count in rows.items())
        raise refuse(
            "different-lengths",
            f"{title} has {told}, where one reward for each action is needed, and as many observations or "
            "one more",
        )
    if steps == 0:
        raise refuse("no-rows", f"there is no step in {title}")
    shifted = {"next_observations": seen[1:]} if len(seen) > steps else {}
    return {**arrays, "observations": seen[:steps], **shifted, **_ends(title, episode, steps)}


def _ends(title: str, episode: Mapping[str, npt.ArrayLike], steps: int) -> Arrays:
    terminals = np.zeros(steps)
    if "terminals" in episode:
        terminals = as_array(f"{title}: terminals", episode["terminals"])
        if terminals.shape != (steps,):
            raise refuse(
                "different-lengths",
                f"{title} has {steps} steps, but its terminals have shape {terminals.shape}",
            )
    else:
        terminals[-1] = float(np.asarray(episode.get("terminated", False)))
    return {"terminals": terminals, "timeouts": (np.arange(steps) == steps - 1) & (terminals != 1)}


def _alike(name: str, number: int, first: Arrays, part: Arrays) -> None:
    """Refuses an episode whose rows are not as wide as those of the first, or that ends otherwise."""
    if name not in part or len(part) != len(first):
        with_one_more, without = (0, number) if "next_observations" in first else (number, 0)
        raise refuse(
            "different-lengths",
            f"episode {with_one_more} has one observation more than actions, episode {without} has not",
        )
    if part[name].shape[1:] != first[name].shape[1:]:
        raise refuse(
            "mixed-widths",
            f"{name} have rows of shape {first[name].shape[1:]} in episode 0 but {part[name].shape[1:]} in "
            f"episode {number}",
        )
