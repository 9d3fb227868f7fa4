"""Replay buffers of Stable-Baselines3, Tianshou and d3rlpy, read without these packages.

Stable-Baselines3: arrays (steps, environments, …) that start over when they are full, and actions scaled to
±1. Tianshou's HDF5: arrays in _meta, with one such ring per environment. d3rlpy's HDF5: arrays observations_K,
actions_K, rewards_K and terminated_K of episode K.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.arrays import from_arrays, from_episodes
from bfq.data.checks import FLAGS, as_flags, as_rows, mark_ends
from bfq.data.dataset import Dataset
from bfq.data.ranges import BOUNDS, ROUNDING, check_bounds
from bfq.data.readers.binary import open_arrays, open_hdf5
from bfq.errors import BadInput, counted

Array = npt.NDArray[Any]
STORED = 0.9  # of ±1: actions that reach this far, and no farther than 1, fill ±1
TIANSHOU = {  # names in _meta
    "actions": "act", "rewards": "rew", "next_observations": "obs_next", "terminals": "terminated",
    "timeouts": "truncated", "dones": "done",
}  # fmt: skip
RINGS = ("_offset", "_lengths", "last_index")  # first row, rows and newest row of each environment


def unstack(arrays: dict[str, Any]) -> tuple[str, ...]:
    """Turn arrays (steps, environments, …) into one log after the other, in place; return a note.

    Arrays (environments, steps, …) are recognized by their next observations. Other arrays are left alone.
    """
    seen = np.asarray(arrays["observations"])
    if seen.ndim != 3 or any(np.shape(array)[:2] != seen.shape[:2] for array in arrays.values()):
        return ()
    turned = len(seen) > 1
    if min(seen.shape[:2]) > 1:
        after = np.asarray(arrays.get("next_observations", seen))
        turned = np.mean(after[:-1] == seen[1:]) >= np.mean(after[:, :-1] == seen[:, 1:])
    if turned:
        arrays |= {name: np.swapaxes(array, 0, 1) for name, array in arrays.items()}
    several, steps = arrays["observations"].shape[:2]
    for name, array in arrays.items():
        arrays[name] = array.reshape(several * steps, *array.shape[2:])
    notes = _cut(arrays, np.full(several, steps))
    return (
        f"Arrays of shape {seen.shape} were read as {steps:,} steps of {counted(several, 'environment')}.",
        *notes,
    )


def _cut(arrays: dict[str, Any], sizes: Sequence[int] | Array) -> list[str]:
    """Mark the last row of each log as a time-out, unless it is a terminal; return notes."""
    flags = {
        name: as_flags(name, as_rows(name, np.asarray(arrays.pop(name))))
        for name in FLAGS
        if name in arrays
    }
    terminal, timeout, notes = mark_ends(len(arrays["rewards"]), flags)
    last = np.cumsum(sizes) - 1
    timeout[last] |= ~terminal[last]
    arrays |= {"terminals": terminal, "timeouts": timeout}
    return notes


def scale_actions(arrays: dict[str, Any], limits: dict[str, Any]) -> Iterator[str]:
    """Scale actions that fill ±1 to the given range, in place: Stable-Baselines3 stores them so."""
    most, (low, high) = np.abs(arrays["actions"]).max(initial=0), limits.values()
    if not STORED <= most <= 1 + ROUNDING:
        return
    if low is None or high is None:
        yield (
            "The actions fill ±1, as Stable-Baselines3 scales them: if the environment has another range, give it "
            "as --action-low and --action-high (in Python, action_low and action_high)."
        )
        return
    low, high = check_bounds(low, high, arrays["actions"].shape[-1])
    if (low != -1).any() or (high != 1).any():
        arrays["actions"] = _to_range(arrays["actions"], low, high)
        yield (
            "The actions fill ±1, as Stable-Baselines3 scales them: they were scaled to the given range."
        )


def _to_range(actions: Array, low: Any, high: Any) -> Array:
    return low + (actions + 1) / 2 * (high - low)


def from_stable_baselines(buffer: Any, **options: Any) -> Dataset:
    """The transitions in a ReplayBuffer or DictReplayBuffer of Stable-Baselines3."""
    capacity = len(buffer.rewards)
    order = np.arange(capacity if buffer.full else buffer.pos)
    order = (order + (buffer.pos if buffer.full else 0)) % capacity  # from the oldest row
    names = {"observations", "next_observations", "actions", "rewards", "dones", "timeouts"}
    if not getattr(buffer, "handle_timeout_termination", True):
        names.remove("timeouts")
    arrays: dict[str, Any] = {
        name: _flatten(getattr(buffer, name))[order] for name in names if hasattr(buffer, name)
    }
    space = getattr(buffer, "action_space", None)
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if space is not None and low is None:
        raise BadInput(f"the actions of the replay buffer are {space}: bfq needs a Box.")
    if low is not None and np.isfinite([low, high]).all():
        arrays["actions"] = _to_range(arrays["actions"], low, high)
        options = {"action_low": low, "action_high": high, **options}
    unstack(arrays)
    settings = {**dict.fromkeys(BOUNDS), "source": "Stable-Baselines3 replay buffer", **options}
    return from_arrays(**arrays, **settings)


def _flatten(values: Any) -> Array:
    """Parts of an observation, (steps, environments, …) each, side by side."""
    parts = [values[key] for key in sorted(values)] if isinstance(values, dict) else [values]
    if len(parts) == 1 and np.ndim(parts[0]) < 3:
        return np.asarray(parts[0])
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def is_tianshou(names: Sequence[str]) -> bool:
    """Whether a file has the arrays of Tianshou's replay buffers."""
    return {"_meta/act", "_meta/rew", "_meta/done"} <= set(names)


def read_tianshou(path: Path, **options: Any) -> Dataset:
    """Read the transitions in a ReplayBuffer or VectorReplayBuffer that save_hdf5 wrote."""
    with open_arrays(path) as table, open_hdf5(path) as file:
        parts = sorted(name for name in table.names if re.match("_meta/obs(/|$)", name))
        nexts = [name.replace("/obs", "/obs_next", 1) for name in parts]
        single = {word: f"_meta/{theirs}" for word, theirs in TIANSHOU.items()}
        found = table.read([*parts, *nexts, *single.values(), *RINGS])
        arrays: dict[str, Any] = {
            word: found[name] for word, name in single.items() if name in found
        }
        size = len(arrays["rewards"])
        for word, names in (("observations", parts), ("next_observations", nexts)):
            if all(name in found for name in names):
                arrays[word] = np.concatenate([found[name].reshape(size, -1) for name in names], 1)
        order = _ring_rows(found, size, int(file.attrs.get("_size", size)))
        arrays = {word: array[np.concatenate(order)] for word, array in arrays.items()}
        arrays["actions"] = arrays["actions"].reshape(len(arrays["rewards"]), -1)
    _cut(arrays, [len(rows) for rows in order])
    labels = {"name": path.stem, "source": f"Tianshou replay buffer {path.name}"}
    return from_arrays(**arrays, **{**dict.fromkeys(BOUNDS), **labels, **options})


def _ring_rows(found: Mapping[str, Array], size: int, held: int) -> list[Array]:
    """The rows of each environment, from the oldest: a full ring has been overwritten from its start."""
    starts = found.get("_offset", np.zeros(1, int))
    ends = np.append(starts[1:], size)
    lengths = found.get("_lengths", np.array([held]))
    newest = found.get("last_index", starts + lengths - 1)
    rows = []
    for start, end, length, last in zip(starts, ends, lengths, newest, strict=True):
        if not 0 <= start <= start + length <= end <= size:
            raise ValueError(f"its rows {start} to {start + length} are not in its {size} rows")
        oldest = last + 1 - start if start + length == end else 0
        rows.append(start + (oldest + np.arange(length)) % max(end - start, 1))
    return rows


def is_d3rlpy(names: Sequence[str]) -> bool:
    """Whether a file has the arrays of d3rlpy's replay buffers."""
    return {"actions_0", "rewards_0", "terminated_0"} <= set(names)


def read_d3rlpy(path: Path, **options: Any) -> Dataset:
    """Read the episodes in a ReplayBuffer or MDPDataset that d3rlpy dumped."""
    with open_arrays(path) as table:
        pattern = re.compile(r"(observations|actions|rewards|terminated)_(\d+)(_\d+)?")
        matches = [match for match in map(pattern.fullmatch, table.names) if match]
        found = table.read([match[0] for match in matches])
    episodes: dict[int, dict[str, Any]] = {}
    for match in sorted(matches, key=lambda match: int((match[3] or "_0")[1:])):
        parts = episodes.setdefault(int(match[2]), {}).setdefault(match[1], [])
        parts.append(found[match[0]])
    joined = [
        {word: _side_by_side(parts) for word, parts in episodes[number].items()}
        for number in sorted(episodes)
    ]
    labels = {"name": path.stem, "source": f"d3rlpy replay buffer {path.name}"}
    return from_episodes(joined, **{**dict.fromkeys(BOUNDS), **labels, **options})


def from_d3rlpy(buffer: Any, **options: Any) -> Dataset:
    """The episodes of d3rlpy's ReplayBuffer or MDPDataset, of version 1 or 2."""
    episodes = [
        {
            "observations": _side_by_side(episode.observations),
            "actions": episode.actions,
            "rewards": episode.rewards,
            "terminated": getattr(episode, "terminated", getattr(episode, "terminal", False)),
        }
        for episode in buffer.episodes
    ]
    settings = {**dict.fromkeys(BOUNDS), "source": "d3rlpy replay buffer", **options}
    return from_episodes(episodes, **settings)


def _side_by_side(parts: Any) -> Array:
    """The parts of a tuple of observations as one matrix."""
    if not isinstance(parts, list | tuple) or len(parts) == 1:
        return np.asarray(parts[0] if isinstance(parts, list | tuple) else parts)
    return np.concatenate([np.reshape(part, (len(part), -1)) for part in parts], axis=1)
