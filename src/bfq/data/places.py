"""Where data is kept on this machine: one folder, which the user can choose."""

import os
from pathlib import Path

from bfq.errors import BadInput

HOME = "BFQ_HOME"  # the environment variable that names the folder


def home() -> Path:
    """The folder of everything that can be made or fetched again: $BFQ_HOME, or bfq in the user's cache."""
    chosen = os.environ.get(HOME)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "bfq"


def dataset_folder(name: str) -> Path:
    """Where the dataset of that name is kept; a name may have folders in it, such as local/hopper-medium."""
    parts = name.split("/")
    if not all(
        part and part.strip(".") and part.isprintable() and "\\" not in part for part in parts
    ):
        raise BadInput(f"{name!r} cannot name a dataset: use letters, digits, dashes and slashes.")
    return home().joinpath("datasets", *parts)


def downloads() -> Path:
    """Where fetched files are kept as they came."""
    return home() / "downloads"
