"""Build a dataset from logged arrays or episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.checks import NEEDED, as_array, check_columns, check_lengths
from bfq.data.dataset import COLUMNS, Arrays, Dataset, Flags
from bfq.data.defects import refuse
from bfq.data.suspicions import check_succession, find_suspicions
from bfq.errors import unknown
from bfq.options import Name
from bfq.records import Labels, check_value

EPISODE_PARTS = (*NEEDED, "terminated", "terminals", "infos")


def from_arrays(
    observations: npt.ArrayLike,
    actions: npt.ArrayLike,
    rewards: npt.ArrayLike,
    terminals: npt.ArrayLike | None = None,
    timeouts: npt.ArrayLike | None = None,
    next_observations: npt.ArrayLike | None = None,
    *,
    terminated: npt.ArrayLike | None = None,
    truncated: npt.ArrayLike | None = None,
    dones: npt.ArrayLike | None = None,
    episode_starts: npt.ArrayLike | None = None,
    episode_ids: npt.ArrayLike | None = None,
    episode_lengths: npt.ArrayLike | None = None,
    infos: Mapping[str, npt.ArrayLike] | None = None,
    action_low: npt.ArrayLike | None = -1.0,
    action_high: npt.ArrayLike | None = 1.0,
    name: str = "arrays",
    source: str = "arrays given by the user",
    labels: Labels | None = None,
) -> Dataset:
    """Build a dataset from logged arrays; BadInput says what is wrong with them and where.

    `terminals` marks states after which nothing follows, `timeouts` rows after which the log merely stops;
    `terminated` and `truncated` are Gymnasium's names of the same. If these are not known, `dones` (an end of
    either kind), `episode_starts`, `episode_ids` or `episode_lengths` say where episodes end. Without
    `next_observations` the observation of the next row is used; the last row of a timed-out episode, which has
    no logged successor, is then left out. A bound of the actions that is None is inferred from the data.
    """
    columns = {
        "observations": observations, "actions": actions, "rewards": rewards,
        "terminals": _either("terminals", terminals, "terminated", terminated),
        "timeouts": _either("timeouts", timeouts, "truncated", truncated),
        "next_observations": next_observations, "dones": dones,
        "episode_starts": episode_starts, "episode_ids": episode_ids, "episode_lengths": episode_lengths,
    }  # fmt: skip
    check_value("name", name, Name)
    log, found = check_columns(columns, action_low, action_high)
    log = replace(log, labels=labels)
    ends, following, left_out = log.ends, log.next_observations, 0
    kept: slice | Flags = slice(None)
    if following is None:
        following = np.concatenate([log.observations[1:], log.observations[-1:]])
        kept = log.terminal | ~log.ends  # time-out rows have no logged successor
        ends = log.ends | np.append(
            log.ends[1:] & ~kept[1:], False
        )  # the row above becomes the last
        left_out = len(log) - int(kept.sum())
    if left_out == len(log):
        raise refuse("no-transition-left", "no transition is left: every row ends an episode")
    with np.errstate(over="ignore", invalid="ignore"):  # differences of very large numbers
        notes = (*found, *check_succession(log), *find_suspicions(log, left_out))
    masks = (~log.terminal).astype(np.float32)
    extra = {key: np.atleast_1d(as_array(key, column)) for key, column in (infos or {}).items()}
    check_lengths({"rewards": log.rewards, **extra})
    rows = (log.observations, log.actions, log.rewards, following, masks, ends)
    chosen: Any = {column: values[kept] for column, values in zip(COLUMNS, rows, strict=True)}
    chosen["infos"] = {key: column[kept] for key, column in extra.items()}
    chosen |= {"action_low": log.action_low, "action_high": log.action_high}
    return Dataset(**chosen, name=name, source=source, notes=notes, labels=labels)


def _either(name: str, flags: Any, other: str, same: Any) -> Any:
    if flags is not None and same is not None:
        raise refuse("column-twice", f"{name} are given twice, also as {other}")
    return flags if same is None else same


def from_episodes(episodes: Sequence[Mapping[str, Any]], **settings: Any) -> Dataset:
    """Build a dataset from episodes with observations, actions, rewards, `terminated` and `infos`.

    An episode of T actions has T observations, or T + 1 with the one after its last action. `terminals`, one
    flag per row, can replace `terminated`. `settings` are those of `from_arrays`, such as action_low.
    """
    if not len(episodes):
        raise refuse("no-rows", "there is no episode in it")
    parts = [_part(f"episode {number}", episode) for number, episode in enumerate(episodes)]
    for number, part in enumerate(parts):
        _check_alike(number, parts[0], part)
    columns: Any = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    infos: list[Any] = [episode.get("infos", {}) for episode in episodes]
    extra = {
        name: np.concatenate(
            [one[name][: len(part["rewards"])] for one, part in zip(infos, parts, strict=True)]
        )
        for name in infos[0]
        if all(name in one for one in infos)
    }
    return from_arrays(**columns, infos=extra, **settings)


def _part(title: str, episode: Mapping[str, Any]) -> Arrays:
    """One row per step: observations, actions, rewards, flags, and next observations if logged."""
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
        listed = ", ".join(f"{count} {name}" for name, count in rows.items())
        raise refuse(
            "different-lengths",
            f"{title} has {listed}, but needs one reward per action, and as many observations or one more",
        )
    if steps == 0:
        raise refuse("no-rows", f"there is no step in {title}")
    shifted = {"next_observations": seen[1:]} if len(seen) > steps else {}
    last = np.arange(steps) == steps - 1
    terminated = last * float(np.asarray(episode.get("terminated", False)))
    terminals = as_array(f"{title}: terminals", episode.get("terminals", terminated))
    if terminals.shape != (steps,):
        found = f"{title} has {steps} steps, but its terminals have shape {terminals.shape}"
        raise refuse("different-lengths", found)
    ends = {"terminals": terminals, "timeouts": last & (terminals != 1)}
    return {**arrays, "observations": seen[:steps], **shifted, **ends}


def _check_alike(number: int, first: Arrays, part: Arrays) -> None:
    """Refuse an episode with rows of another width than the first, or another kind of end."""
    if part.keys() != first.keys():
        longer, other = (0, number) if "next_observations" in first else (number, 0)
        found = f"episode {longer} has one observation more than actions, episode {other} does not"
        raise refuse("different-lengths", found)
    for name in first:
        shapes = first[name].shape[1:], part[name].shape[1:]
        if shapes[0] != shapes[1]:
            found = f"{name} have rows of shape {shapes[0]} in episode 0 but {shapes[1]} in episode {number}"
            raise refuse("mixed-widths", found)
