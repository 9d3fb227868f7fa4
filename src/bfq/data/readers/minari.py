"""Minari datasets on disk: one HDF5 group per episode, read without Minari.

An episode of T steps has T + 1 observations, so the successor of the last step is known and no row is lost.
Observations with several parts (Dict, Tuple) are joined in the order of gymnasium's `flatten`, including all
parts: AntMaze has the position of the ant only in achieved_goal. A policy then sees what gymnasium's
FlattenObservation wrapper returns.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import h5py
import numpy as np
import numpy.typing as npt

from bfq.data.arrays import from_episodes
from bfq.data.dataset import Arrays, Dataset
from bfq.data.ranges import BOUNDS, ROUNDING
from bfq.data.readers.arrow import open_feather, open_parquet
from bfq.data.readers.binary import check_claim, open_hdf5, owned, owned_array, read_values
from bfq.errors import BadInput, counted, unknown
from bfq.options import Name, Natural, Positive
from bfq.records import decode, read_text

MAIN, METADATA = "main_data.hdf5", "metadata.json"
FORMATS = ("hdf5", "arrow", "parquet")
FLAT = ("Box", "MultiBinary")  # spaces with plain numbers as values
COLUMNS = ("actions", "rewards", "terminations", "truncations")
STATE = ("qpos", "qvel")  # infos that are read: the state before the action

T = TypeVar("T")


@dataclass(frozen=True)
class Metadata:
    """The fields of metadata.json that are used; the spaces are JSON inside JSON."""

    total_steps: Positive
    dataset_id: Name | None = None
    data_format: Name = "hdf5"
    env_spec: str | None = None
    observation_space: str | None = None
    action_space: str | None = None


@dataclass(frozen=True)
class EnvSpec:
    """The environment the data comes from."""

    id: Name | None = None


@dataclass(frozen=True)
class Space:
    """A gymnasium space as Minari serializes it."""

    type: Name = "Box"
    shape: list[Natural] | None = None
    dtype: Name | None = None
    low: Any = None
    high: Any = None
    subspaces: "dict[Name, Space] | list[Space] | None" = None


def read_minari(
    folder: Path,
    name: str | None = None,
    observation_keys: Sequence[str] | None = None,
    episodes: Iterable[int] | None = None,
    **limits: npt.ArrayLike,
) -> Dataset:
    """Read the transitions of a Minari dataset: all episodes, or those with the given numbers.

    `observation_keys` selects the parts of an observation and their order, such as ("observation",
    "desired_goal"); by default all are joined. `limits` replace the bounds of the action space.
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    metadata = _read_metadata(data)
    known = metadata.dataset_id or (data.parent if data.name == "data" else data).name
    spec = _decode_part(data, metadata, "env_spec", EnvSpec) or EnvSpec()
    seen = _decode_part(data, metadata, "observation_space", Space)
    acted = _decode_part(data, metadata, "action_space", Space) or Space()
    with _open_episodes(data, metadata.data_format) as source:
        numbers = _episode_numbers(source.numbers, episodes)
        leaves = source.parts(numbers[0]) if seen is None else _leaves(seen)
        parts = _choose_parts(dict(leaves), observation_keys)
        rows = [_episode(*source.read(number, parts), parts, number) for number in numbers]
    bounds, notes = _clip(acted, rows)
    dataset = from_episodes(
        rows,
        **{**bounds, **limits},
        name=name or known,
        source=f"Minari dataset {known}" + (f" of {spec.id}" if spec.id else ""),
    )
    env = spec.id if spec.id and re.fullmatch(r"[\w./-]+", spec.id) else None
    return replace(dataset, notes=(*dataset.notes, *notes), env=env)


def from_minari(
    dataset: Any, observation_keys: Sequence[str] | None = None, **options: Any
) -> Dataset:
    """Read the transitions of a `minari.MinariDataset`, only of the episodes it was filtered to."""
    try:
        folder, numbers = Path(dataset.spec.data_path), [int(k) for k in dataset.episode_indices]
    except (AttributeError, TypeError) as error:
        raise BadInput("from_minari takes a dataset from minari.load_dataset.") from error
    return read_minari(folder, observation_keys=observation_keys, episodes=numbers, **options)


def find_minari(dataset_id: str) -> Path:
    """The folder of a dataset that Minari has stored on this machine, by its id."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    here = {str(card.parents[1].relative_to(root)) for card in root.rglob(f"data/{METADATA}")}
    if not here:
        raise BadInput(f"there is no Minari dataset in {root}: try `minari download {dataset_id}`.")
    if dataset_id not in here:
        raise unknown("Minari dataset", dataset_id, here)
    return root / dataset_id


def _read_metadata(data: Path) -> Metadata:
    """The metadata of a dataset; Minari wrote none before 0.5."""
    path = data / METADATA
    if not path.is_file():
        if not (data / MAIN).is_file():
            raise BadInput(f"there is no Minari dataset in {data}: no {METADATA} and no {MAIN}.")
        return Metadata(1)
    metadata = decode(read_text(path), Metadata, str(path))
    if metadata.data_format not in FORMATS:
        known = ", ".join(FORMATS)
        raise BadInput(
            f"{path}: data_format is {metadata.data_format}, but bfq reads only {known}."
        )
    return metadata


def _decode_part(data: Path, metadata: Metadata, key: str, kind: type[T]) -> T | None:
    """A field that is JSON inside JSON; Minari writes Infinity for a bound that does not exist."""
    content = getattr(metadata, key)
    return content and decode(
        re.sub("-?Infinity|NaN", "null", content), kind, f"{data / METADATA}: {key}"
    )


class Episodes(NamedTuple):
    """The stored episodes, whatever their format."""

    numbers: set[int]
    parts: Callable[[int], Iterator[tuple[str, Space]]]  # of an observation, as stored
    read: Callable[[int, Sequence[str]], tuple[Arrays, Arrays]]  # arrays and infos of an episode


@contextmanager
def _open_episodes(data: Path, form: str) -> Iterator[Episodes]:
    if form == "hdf5":
        with open_hdf5(data / MAIN) as file:
            names = (re.fullmatch(r"episode_(\d+)", name) for name in file)
            claimed = [0]
            yield Episodes(
                {int(match[1]) for match in names if match},
                lambda number: _stored_parts(owned(file, f"episode_{number}/observations")),
                lambda number, parts: _read_group(file, number, parts, claimed),
            )
        return
    folders = {int(path.name): path for path in data.iterdir() if path.name.isdecimal()}
    yield Episodes(
        set(folders),
        lambda number: iter([("", Space())]),
        lambda number, parts: _read_tables(folders[number], parts, form),
    )


def _episode_numbers(there: set[int], chosen: Iterable[int] | None) -> list[int]:
    numbers = sorted(there) if chosen is None else list(chosen)
    if not numbers:
        raise BadInput("there is no episode in the Minari dataset.")
    if not there.issuperset(numbers):
        raise BadInput(f"the Minari dataset has no episode {min(set(numbers) - there)}.")
    return numbers


def _leaves(space: Space, path: str = "") -> Iterator[tuple[str, Space]]:
    """The parts of an observation in gymnasium's order, each with its space."""
    inner = space.subspaces
    if isinstance(inner, list):
        inner = {f"_index_{k}": part for k, part in enumerate(inner)}
    if inner is None:
        yield path, space
    for key, part in (inner or {}).items():
        yield from _leaves(part, f"{path}/{key}")


def _stored_parts(group: Any, path: str = "") -> Iterator[tuple[str, Space]]:
    """The parts of a stored observation, where no space is recorded."""
    if not isinstance(group, h5py.Group):
        yield path, Space()
        return
    # _index_10 comes after _index_9.
    for key in sorted(group, key=lambda key: (len(key) * key.startswith("_index_"), key)):
        yield from _stored_parts(owned(group, key), f"{path}/{key}")


def _choose_parts(parts: dict[str, Space], keys: Sequence[str] | None) -> list[str]:
    if keys and "" in parts:
        raise BadInput("the observations in the dataset have no parts: leave observation_keys out.")
    names = [] if keys else list(parts)
    for key in keys or ():
        found = [name for name in parts if name == f"/{key}" or name.startswith(f"/{key}/")]
        if not found:
            raise unknown("part of the observation", key, (name[1:] for name in parts))
        names += found
    for name in names:
        space = parts[name]
        is_image = len(space.shape or []) == 3 and space.dtype == "uint8"
        if space.type not in FLAT or is_image:
            what = "images" if space.type == "Box" else f"a {space.type} space"
            raise BadInput(
                f"the observations{name} of the Minari dataset are {what}, and bfq needs plain numbers: "
                "choose other parts with observation_keys."
            )
    return [f"observations{name}" for name in names]


def _read_group(
    file: h5py.File, number: int, parts: Sequence[str], claimed: list[int]
) -> tuple[Arrays, Arrays]:
    """An episode in HDF5; `claimed` counts the bytes that all episodes declared."""
    group = owned(file, f"episode_{number}")
    arrays = {key: owned_array(group, key) for key in (*parts, *COLUMNS)}
    for key, array in arrays.items():
        if array is None:
            raise ValueError(f"episode_{number} has no {key}")
    places = {key: f"infos/{key}" for key in STATE}
    states: dict[str, Any] = {
        key: owned_array(group, place)
        for key, place in places.items()
        if isinstance(owned(group, place), h5py.Dataset)
    }
    claimed[0] += sum(array.nbytes for array in (*arrays.values(), *states.values()))
    check_claim(file, claimed[0])
    infos = {key: read_values(array) for key, array in states.items()}
    return {key: read_values(array) for key, array in arrays.items()}, infos


def _read_tables(folder: Path, parts: Sequence[str], form: str) -> tuple[Arrays, Arrays]:
    """An episode in Arrow or Parquet files: T + 1 rows, of which the last only has an observation."""
    names = {part: part.replace("/_index_", ".").replace("/", ".") for part in parts}
    names |= {name: name for name in COLUMNS}
    pieces = []
    for file in sorted(folder.glob(f"*.{form}")):
        with (open_parquet if form == "parquet" else open_feather)(file) as table:
            states = {key: f"infos.{key}" for key in STATE if f"infos.{key}" in table.names}
            found = table.read([*names.values(), *states.values()])
            pieces.append({key: found[name] for key, name in (names | states).items()})
    if not pieces:
        raise BadInput(f"there is no {form} file in {folder}.")
    arrays = {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}
    infos = {key: arrays.pop(key) for key in STATE if key in arrays}
    return {key: array if key in parts else array[:-1] for key, array in arrays.items()}, infos


def _episode(arrays: Arrays, infos: Arrays, parts: Sequence[str], number: int) -> dict[str, Any]:
    """The arrays of an episode as `from_episodes` takes them."""
    steps = arrays["rewards"].size
    if steps == 0:
        raise ValueError(f"episode_{number} has no step")
    lengths = dict.fromkeys(COLUMNS, steps) | dict.fromkeys(parts, steps + 1)
    for key, length in lengths.items():
        if arrays[key].shape[:1] != (length,):
            raise ValueError(f"episode_{number} has {steps} rewards but {key} {arrays[key].shape}")
        if arrays[key].dtype.kind not in "fiub":
            raise ValueError(f"{key} of episode_{number} are not numbers")
    with np.errstate(over="ignore"):  # infinite values are refused later, with their row
        flat = [arrays[part].reshape(steps + 1, -1) for part in parts]
        observations = np.concatenate(flat, axis=1, dtype=np.float32, casting="same_kind")
    return {
        "observations": observations,
        "actions": arrays["actions"].reshape(steps, -1),
        "rewards": arrays["rewards"],
        "terminals": arrays["terminations"],
        "infos": {
            key: array
            for key, array in infos.items()
            if array.shape[:1] == (steps + 1,) and array.dtype.kind in "fiub"
        },
    }


def _clip(space: Space, episodes: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Clip the actions to their space; return its range, None where it has no bounds, and notes."""
    if space.type != "Box":
        raise BadInput(f"the actions of the dataset are a {space.type} space: bfq needs a Box.")
    actions = np.concatenate([episode["actions"] for episode in episodes])
    try:
        ends = [np.asarray(end, np.float32).reshape(-1) for end in (space.low, space.high)]
        low, high = (np.broadcast_to(end, actions.shape[1:]).copy() for end in ends)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"action_space in {METADATA} does not fit the actions: {error}.") from error
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return dict.fromkeys(BOUNDS), []
    for episode in episodes:
        episode["actions"] = np.clip(episode["actions"], low, high)
    slack = ROUNDING * (high - low)
    beyond = int(((actions < low - slack) | (actions > high + slack)).any(1).sum())
    rows = f"{beyond} of {counted(len(actions), 'row')}"
    notes = [f"Actions of {rows} were clipped to the action space."] if beyond else []
    return dict(zip(BOUNDS, (low, high), strict=True)), notes


def write_minari(dataset: Dataset, dataset_id: str, **settings: Any) -> Any:
    """Create a Minari dataset; `settings` are those of `create_dataset_from_buffers`, such as author."""
    try:
        import minari
        from gymnasium import registry
        from gymnasium.spaces import Box
    except ImportError as error:
        raise BadInput(
            "writing Minari datasets needs minari: pip install 'bfq-rl[minari]'."
        ) from error
    buffers = []
    for number, episode in enumerate(dataset.episodes):
        if not np.array_equal(episode.next_observations[:-1], episode.observations[1:]):
            raise BadInput(
                f"episode {number} of {dataset.name} cannot be a Minari episode: its next observations are not "
                "those of the rows below."
            )
        seen = np.concatenate([episode.observations, episode.next_observations[-1:]])
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=seen,
                actions=np.asarray(episode.actions),
                rewards=episode.rewards.tolist(),
                terminations=episode.terminals.tolist(),
                truncations=episode.timeouts.tolist(),
            )
        )
    known = {"env": dataset.env} if dataset.env in registry else {}
    known["observation_space"] = Box(-np.inf, np.inf, (dataset.observation_dim,), np.float32)
    known["action_space"] = Box(dataset.action_low, dataset.action_high, dtype=np.float32)
    return minari.create_dataset_from_buffers(dataset_id, buffers, **{**known, **settings})
