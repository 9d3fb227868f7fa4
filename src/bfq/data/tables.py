"""Files of arrays: npz and HDF5, read without executing anything in them."""

import contextlib
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bfq.data.dataset import Dataset, from_arrays
from bfq.errors import BadInput

HDF5_ENDINGS = (".hdf5", ".h5")
KNOWN = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
BOUNDS = ("action_low", "action_high")
WORDS = ("name", "source")  # written by write_npz, so that a dataset keeps its origin


def read_file(path: Path) -> Dataset:
    """The dataset in a file; its ending says how it is read."""
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise BadInput(f"there is no file {path}.")
    if path.suffix == ".npz":
        arrays = _read_npz(path)
    elif path.suffix in HDF5_ENDINGS:
        arrays = _read_hdf5(path)
    else:
        raise BadInput(
            f"{path.name} ends in {path.suffix or 'nothing'}: bfq reads .npz, .hdf5 and .h5 files."
        )
    columns = {name: arrays[name] for name in (*KNOWN, *BOUNDS) if name in arrays}
    told = {name: str(arrays[name]) for name in WORDS if name in arrays and np.ndim(arrays[name]) == 0}
    told = {name: " ".join(words.split())[:200] for name, words in told.items()}
    for needed in ("observations", "actions", "rewards"):
        if needed not in columns:
            raise BadInput(
                f"{path.name} has no {needed}: it holds {', '.join(sorted(arrays)) or 'nothing'}; "
                f"name its arrays {', '.join(KNOWN)}."
            )
    return from_arrays(**columns, **{"name": path.stem, "source": f"file {path.name}", **told})


def _read_npz(path: Path) -> dict[str, Any]:
    """The arrays we know by name; others are not even unpacked."""
    try:
        with path.open("rb") as file:  # NumPy leaves its own file open where it fails
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            wanted = [name for name in archive.files if name in (*KNOWN, *BOUNDS, *WORDS)]
            return {name: archive[name] for name in wanted} or dict.fromkeys(archive.files)
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        if "allow_pickle" in str(error):
            raise BadInput(
                f"{path.name} is not an npz file of plain arrays (pickled objects are never loaded)."
            ) from error
        raise BadInput(f"{path.name} is not a readable npz file: {error or type(error).__name__}.") from error


def _read_hdf5(path: Path) -> dict[str, Any]:
    """The arrays we know by name, if the file itself holds them: links to other files are not followed."""
    try:
        with h5py.File(path, "r") as file:
            wanted = [name for name in (*KNOWN, *BOUNDS) if name in file.keys()]  # noqa: SIM118 - follows no link
            return {name: _own_array(file, name) for name in wanted} or dict.fromkeys(file.keys())
    except Exception as error:  # noqa: BLE001 - whatever a parser of untrusted files trips over is bad input
        raise BadInput(
            f"{path.name} is not a readable HDF5 file: {error or type(error).__name__}."
        ) from error


def _own_array(file: h5py.File, name: str) -> Any:
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name} is a link")
    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError(f"{name} is not an array of the file's own")
    return found[()]


def write_npz(dataset: Dataset, path: Path) -> None:
    """Writes a dataset as plain arrays, beside its place and then renamed into it."""
    arrays = {
        "observations": dataset.observations,
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        "next_observations": dataset.next_observations,
        "terminals": dataset.masks == 0,
        "timeouts": dataset.episode_ends & (dataset.masks == 1),
        "action_low": dataset.action_low,
        "action_high": dataset.action_high,
        "name": np.array(dataset.name),
        "source": np.array(dataset.source),
    }
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise BadInput(f"cannot write {path}: {error.strerror}.") from error
