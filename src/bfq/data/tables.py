"""Files of arrays: npz and HDF5, read without executing anything in them."""

import contextlib
import os
import zipfile
import zlib
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
    if not path.is_file():
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
    for needed in ("observations", "actions", "rewards"):
        if needed not in columns:
            raise BadInput(
                f"{path.name} has no {needed}: it holds {', '.join(sorted(arrays)) or 'nothing'}; "
                f"name its arrays {', '.join(KNOWN)}."
            )
    return from_arrays(**columns, **{"name": path.stem, "source": f"file {path.name}", **told})


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:  # NumPy leaves its own file open where it fails
            archive = np.load(file, allow_pickle=False)
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            raise BadInput(
                f"{path.name} holds pickled Python objects, which bfq never loads: save plain arrays."
            ) from error
        raise BadInput(f"{path.name} is not a readable npz file: {error}.") from error
    except (OSError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise BadInput(f"{path.name} is not a readable npz file: {error}.") from error


def _read_hdf5(path: Path) -> dict[str, Any]:
    try:
        with h5py.File(path, "r") as file:
            wanted = [n for n in (*KNOWN, *BOUNDS) if n in file and isinstance(file[n], h5py.Dataset)]
            found = {name: file[name][()] for name in wanted}
            return found or dict.fromkeys(file.keys())
    except OSError as error:
        raise BadInput(f"{path.name} is not a readable HDF5 file: {error}.") from error


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
