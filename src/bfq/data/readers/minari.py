"""Minari's datasets as they lie on the disk: one HDF5 group an episode, read without Minari itself.

An episode of T steps has T + 1 observations, so the last step's successor is known and no row is lost.
Observations in several parts (Dict, Tuple) are joined in the order of gymnasium's own `flatten`, all parts of
them: AntMaze keeps the ant's place in achieved_goal alone. A policy then sees what gymnasium's wrapper
FlattenObservation gives it.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from bfq.data.checks import TOLERANCE, from_data
from bfq.data.dataset import Dataset, from_arrays
from bfq.data.readers.hdf5 import check_claim, opened, own, own_array, values
from bfq.errors import BadInput, unknown
from bfq.files import read_json

MAIN, CARD = "main_data.hdf5", "metadata.json"
FLAT = ("Box", "MultiBinary")  # spaces whose values are plain numbers
COLUMNS = ("actions", "rewards", "terminations", "truncations")
STATE = ("qpos", "qvel")  # infos that are kept: the state before the row's action

Arrays = dict[str, npt.NDArray[Any]]
Card = dict[str, Any]
Floats = npt.NDArray[np.float32]


def read(
    folder: Path,
    name: str | None = None,
    observation_keys: Sequence[str] | None = None,
    episodes: Iterable[int] | None = None,
) -> Dataset:
    """The transitions of a Minari dataset: of all its episodes, or of those with the numbers given.

    `observation_keys` chooses the parts of an observation and their order, such as ("observation",
    "desired_goal"); by default all are joined.
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    card = _card(data)
    known = _words(card.get("dataset_id")) or (data.parent if data.name == "data" else data).name
    with opened(data / MAIN) as file:
        numbers = _numbers(file, episodes)
        parts = _chosen(_parts(card, file, numbers[0]), observation_keys)
        rows = _rows(file, numbers, parts)
    low, high, notes = _bounds(card, rows["actions"])
    dataset = from_arrays(
        rows["observations"],
        np.clip(rows["actions"], low, high),
        rows["rewards"],
        rows["terminals"],
        rows["timeouts"],
        rows["next_observations"],
        infos={key: rows[key] for key in STATE if key in rows},
        action_low=low,
        action_high=high,
        name=name or known,
        source=_source(card, known),
    )
    return replace(dataset, notes=(*dataset.notes, *notes))


def from_minari(dataset: Any, observation_keys: Sequence[str] | None = None) -> Dataset:
    """The transitions of a `minari.MinariDataset`, of just those episodes that it was filtered to."""
    try:
        folder, numbers = Path(dataset.spec.data_path), [int(k) for k in dataset.episode_indices]
    except (AttributeError, TypeError) as error:
        raise BadInput("from_minari takes a dataset that minari.load_dataset gave.") from error
    return read(folder, None, observation_keys, numbers)


def find(dataset_id: str) -> Path:
    """The folder of a dataset that Minari has downloaded or made on this machine, by its id."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    here = {str(card.parents[1].relative_to(root)) for card in root.rglob(f"data/{CARD}")}
    if not here:
        raise BadInput(f"there is no Minari dataset in {root}: try `minari download {dataset_id}`.")
    if dataset_id not in here:
        raise unknown("Minari dataset", dataset_id, here)
    return root / dataset_id


def _card(data: Path) -> Card:
    if not (data / CARD).is_file() and not (data / MAIN).is_file():
        raise BadInput(f"there is no Minari dataset in {data}: it would hold {CARD} and {MAIN}.")
    card = read_json(data / CARD) if (data / CARD).is_file() else {}  # Minari wrote none before 0.5
    if not isinstance(card, dict):
        raise BadInput(f"{data / CARD} does not describe a dataset.")
    if card.get("data_format", "hdf5") != "hdf5":
        raise BadInput(
            f"the Minari dataset in {data} is kept in the format {_words(card['data_format'])}: bfq reads "
            "those kept as HDF5, Minari's usual format."
        )
    return card


def _words(told: Any) -> str:
    return " ".join(told.split())[:200] if isinstance(told, str) else ""


def _source(card: Card, known: str) -> str:
    world = _words(_parsed(card, "env_spec").get("id"))
    return f"Minari dataset {known}" + (f" of {world}" if world else "")


def _parsed(card: Card, key: str) -> Card:
    """A part of the card that is JSON within JSON; empty where it is missing."""
    try:
        found = json.loads(card.get(key, "{}"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{key} in {CARD} is not readable JSON: {error}.") from error
    return found if isinstance(found, dict) else {}


def _numbers(file: h5py.File, chosen: Iterable[int] | None) -> list[int]:
    names = (re.fullmatch(r"episode_(\d+)", name) for name in file)
    there = {int(match[1]) for match in names if match}
    numbers = sorted(there) if chosen is None else list(chosen)
    if not numbers:
        raise BadInput("there is no episode in the Minari dataset.")
    if not there.issuperset(numbers):
        raise BadInput(f"the Minari dataset has no episode {min(set(numbers) - there)}.")
    return numbers


def _parts(card: Card, file: h5py.File, number: int) -> dict[str, Card]:
    """The parts of an observation in gymnasium's order, each with its space where the card tells it."""
    space = _parsed(card, "observation_space")
    return dict(_leaves(space) if space else _stored(own(file, f"episode_{number}/observations")))


def _leaves(space: Card, at: str = "") -> Iterator[tuple[str, Card]]:
    if not isinstance(space, dict):
        raise BadInput(f"observation_space in {CARD} does not describe a space.")
    inner = space.get("subspaces")
    if isinstance(inner, list):
        inner = {f"_index_{k}": part for k, part in enumerate(inner)}
    if not isinstance(inner, dict):
        yield at, space
        return
    for key, part in inner.items():
        yield from _leaves(part, f"{at}/{key}")


def _stored(group: Any, at: str = "") -> Iterator[tuple[str, Card]]:
    if not isinstance(group, h5py.Group):
        yield at, {}
        return
    for key in sorted(
        group, key=lambda key: (len(key), key) if key.startswith("_index_") else (0, key)
    ):
        yield from _stored(own(group, key), f"{at}/{key}")


def _chosen(parts: dict[str, Card], keys: Sequence[str] | None) -> list[str]:
    if keys and "" in parts:
        raise BadInput(
            "the observations of the Minari dataset have no parts: leave observation_keys out."
        )
    names = [] if keys else list(parts)
    for key in keys or ():
        found = [name for name in parts if name == f"/{key}" or name.startswith(f"/{key}/")]
        if not found:
            raise unknown("part of the observation", key, (name[1:] for name in parts))
        names += found
    for name in names:
        kind, shape = parts[name].get("type", "Box"), parts[name].get("shape", [])
        if kind not in FLAT or (len(shape) == 3 and parts[name].get("dtype") == "uint8"):
            what = "images" if kind == "Box" else f"a {kind} space"
            raise BadInput(
                f"the observations{name} of the Minari dataset are {what}, and bfq takes numbers only: "
                "choose other parts with observation_keys."
            )
    return [f"observations{name}" for name in names]


def _rows(file: h5py.File, numbers: Sequence[int], parts: Sequence[str]) -> Arrays:
    pieces, claimed = [], 0
    for number in numbers:
        arrays = _stored_arrays(file, f"episode_{number}", parts)
        claimed += sum(array.nbytes for array in arrays.values())
        check_claim(file, claimed)
        pieces.append(
            _transitions({key: values(array) for key, array in arrays.items()}, parts, number)
        )
    shared = set.intersection(*(set(piece) for piece in pieces))
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in shared}


def _stored_arrays(file: h5py.File, episode: str, parts: Sequence[str]) -> dict[str, h5py.Dataset]:
    group = own(file, episode)
    needed = {key: own_array(group, key) for key in (*parts, *COLUMNS)}
    for key, array in needed.items():
        if array is None:
            raise ValueError(f"{episode} has no {key}")
    infos = own(group, "infos")
    states = [
        key for key in STATE if infos is not None and isinstance(own(infos, key), h5py.Dataset)
    ]
    return needed | {key: own_array(infos, key) for key in states}


def _transitions(arrays: Arrays, parts: Sequence[str], number: int) -> Arrays:
    """The steps of one episode, each with the observation after it."""
    steps = arrays["rewards"].size
    if steps == 0:
        raise ValueError(f"episode_{number} has no step")
    lengths = dict.fromkeys(COLUMNS, steps) | dict.fromkeys(parts, steps + 1)
    for key, length in lengths.items():
        if arrays[key].shape[:1] != (length,):
            raise ValueError(
                f"episode_{number} has {steps} rewards and {key} of shape {arrays[key].shape}"
            )
        if arrays[key].dtype.kind not in "fiub":
            raise ValueError(f"{key} of episode_{number} are not numbers")
    with np.errstate(over="ignore"):  # an infinite value is refused later, with its row
        flat = [arrays[part].reshape(steps + 1, -1) for part in parts]
        observations = np.concatenate(flat, axis=1, dtype=np.float32, casting="same_kind")
    terminals, timeouts = (arrays[key].astype(bool) for key in ("terminations", "truncations"))
    timeouts[-1:] = True
    return {
        "observations": observations[:-1],
        "next_observations": observations[1:],
        "actions": arrays["actions"].reshape(steps, -1),
        "rewards": arrays["rewards"],
        "terminals": terminals,
        "timeouts": timeouts & ~terminals,
        **{key: arrays[key][:-1] for key in STATE if _is_state(arrays.get(key), steps)},
    }


def _is_state(array: npt.NDArray[Any] | None, steps: int) -> bool:
    """Whether a column of infos has a row for every observation, the first of them before any action."""
    return array is not None and array.shape[:1] == (steps + 1,) and array.dtype.kind in "fiub"


def _bounds(card: Card, actions: npt.NDArray[Any]) -> tuple[Floats, Floats, list[str]]:
    """The range of the action space, or one from the data where that has no end; and a word about it."""
    space = _parsed(card, "action_space")
    if space.get("type", "Box") != "Box":
        raise BadInput(
            f"the actions of the Minari dataset are a {_words(space['type'])} space: bfq needs a Box."
        )
    try:
        ends = [
            np.asarray(space.get(key, np.inf), np.float32).reshape(-1) for key in ("low", "high")
        ]
        low, high = (np.broadcast_to(end, actions.shape[1:]).copy() for end in ends)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the action space in {CARD} does not fit the actions: {error}.") from error
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        low, high, told = from_data(actions)
        return low, high, [told] if told else []
    slack = TOLERANCE * (high - low)
    beyond = int(((actions < low - slack) | (actions > high + slack)).any(1).sum())
    told = (
        f"Actions of {beyond} of {len(actions)} rows left the action space and were clipped to it."
    )
    return low, high, [told] if beyond else []
