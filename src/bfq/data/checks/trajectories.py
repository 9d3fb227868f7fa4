"""Episodes one by one, as loggers often keep them, joined into columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.checks.defects import refuse
from bfq.data.checks.validation import NEEDED, as_array
from bfq.errors import unknown

Columns = dict[str, npt.NDArray[Any]]
WORDS = (*NEEDED, "terminated", "terminals")


def join(episodes: Sequence[Mapping[str, npt.ArrayLike]]) -> Columns:
    """One row a step: observations, actions, rewards, flags, and next observations if they were logged."""
    if not len(episodes):
        raise refuse("no-rows", "there is no episode in it")
    parts = [_part(f"episode {number}", episode) for number, episode in enumerate(episodes)]
    for name in parts[0]:
        for number, part in enumerate(parts):
            _alike(name, number, parts[0], part)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _part(title: str, episode: Mapping[str, npt.ArrayLike]) -> Columns:
    for name in episode:
        if name not in WORDS:
            raise unknown(f"part of {title}", str(name), WORDS)
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


def _ends(title: str, episode: Mapping[str, npt.ArrayLike], steps: int) -> Columns:
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


def _alike(name: str, number: int, first: Columns, part: Columns) -> None:
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
