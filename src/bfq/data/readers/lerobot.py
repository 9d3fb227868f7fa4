"""LeRobot's datasets of versions 2 and 3: Parquet files described by meta/info.json.

Observations are all low-dimensional features named observation.…; images and other arrays are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data.dataset import Arrays, Dataset
from bfq.data.readers import Table
from bfq.data.readers.arrow import open_parquet
from bfq.data.readers.tables import Columns, from_table, our_names
from bfq.errors import BadInput
from bfq.options import Natural
from bfq.records import decode, read_text

INFO = Path("meta", "info.json")
NUMBERS = ("float", "int", "uint", "bool")  # begin the types of numbers
KNOWN = {  # our names of LeRobot's features
    "actions": "action", "rewards": "next.reward", "terminals": "next.terminated",
    "timeouts": "next.truncated", "dones": "next.done", "episode_ids": "episode_index",
}  # fmt: skip


@dataclass(frozen=True)
class Feature:
    """A column: numbers per row, or an image or video elsewhere."""

    dtype: str
    shape: list[Natural]


@dataclass(frozen=True)
class Info:
    """The fields of info.json that are used."""

    features: dict[str, Feature]
    codebase_version: str = "of unknown version"


def read_lerobot(folder: Path, columns: Columns | None = None, **options: Any) -> Dataset:
    """Read the episodes in a folder; `columns` and the options are those of `from_table`.

    Datasets without next.reward need `columns={"rewards": …}`: another feature or, in Python, a function that
    takes the table and returns a reward per row.
    """
    info = decode(read_text(folder / INFO), Info, str(folder / INFO))
    files = sorted((folder / "data").rglob("*.parquet"))
    if not files:
        raise BadInput(
            f"{folder / 'data'} holds no Parquet files: download the dataset with its data."
        )
    flat = [name for name, feature in info.features.items() if _is_flat(feature)]
    chosen = {word: name for word, name in KNOWN.items() if name in flat}
    seen = [name for name in flat if name.startswith("observation.")]
    given = {**({"observations": seen} if seen else {}), **chosen, **our_names(columns or {})}
    table = Table(flat, lambda names: _read(files, names), by_column=True)
    source = f"LeRobot dataset {folder.name}, {info.codebase_version}"
    dataset = from_table(table, folder.name, given, **{"source": source, **options})
    others = [name for name in info.features if name not in flat]
    note = f"Images and arrays that were left out: {', '.join(others)}."
    return replace(dataset, notes=(note, *dataset.notes)) if others else dataset


def _is_flat(feature: Feature) -> bool:
    return feature.dtype.startswith(NUMBERS) and len(feature.shape) < 2


def _read(files: Sequence[Path], names: Sequence[str]) -> Arrays:
    """The columns in all files, one after another."""
    pieces = []
    for file in files:
        with open_parquet(file) as table:
            pieces.append(table.read(names))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
