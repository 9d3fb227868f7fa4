"""The run folders that results name: results may be another machine's, or anybody's, and name any path."""

import os
from pathlib import Path

from bfq.run import RUNS


def run_folder(told: str) -> Path | None:
    """The folder, if it is one of the runs of this project; of all others nothing is read."""
    folder = Path(os.path.abspath(told))
    return (
        RUNS / folder.name if folder.parent == RUNS.absolute() else None
    )  # pages show no path of a machine
