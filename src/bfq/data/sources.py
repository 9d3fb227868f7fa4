"""From a name to its data."""

from pathlib import Path

from bfq.data.catalog import PENDULUM, TASKS
from bfq.data.dataset import Dataset
from bfq.data.pendulum import make_pendulum
from bfq.data.tables import read_file
from bfq.errors import unknown

MAKERS = {PENDULUM.name: make_pendulum}


def load_dataset(name: str | Path) -> Dataset:
    """The data of a task by its name, or of a file by its path."""
    if str(name) in MAKERS:
        return MAKERS[str(name)]()
    path = Path(name).expanduser()
    if path.suffix or path.exists():
        return read_file(path)
    raise unknown("task or file", str(name), TASKS)


def availability(task: str) -> str:
    """Whether a task's data is here, can be made here, or needs a file."""
    return "can be made here" if task in MAKERS else "needs a file"
