"""From a name to its data: kept here, made here, or read from a file."""

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.data.store import dataset_folder
from bfq.errors import BadInput, unknown
from bfq.tasks.catalog import CHECKERBOARD, PENDULUM, TASKS
from bfq.tasks.harness import Progress, Recipe, make
from bfq.tasks.importing import read_any
from bfq.tasks.pendulum import make_pendulum
from bfq.tasks.recipes import COOKS, recipe_for

Bar = Callable[
    [str, int], AbstractContextManager[Progress]
]  # shows how far the making of so many rows is


def no_bar(title: str, total: int) -> AbstractContextManager[Progress]:
    """Shows nothing."""
    return nullcontext(lambda rows: None)


def load_dataset(name: str | Path, bar: Bar = no_bar) -> Dataset:
    """The data of a task or of an imported dataset by its name, or of a file by its path.

    Data that can be made here is made, and kept for the next time.
    """
    word = str(name)
    if word == PENDULUM.name:
        return make_pendulum()
    if word == CHECKERBOARD.name:
        raise BadInput("the checkerboard has no states and no rewards: `bfq toy` trains on it.")
    if is_kept(word):
        return store.load(dataset_folder(word))
    if word in COOKS:
        return _made_or_found(word, bar)
    if word in TASKS:
        other = instead(word)
        raise BadInput(
            f"the data of {word} is not here: {remedy(word)}{f' {other}' if other else ''}"
        )
    path = Path(name).expanduser()
    if path.suffix or path.exists():
        return read_any(path)
    raise unknown("task or file", word, [*TASKS, *kept()])


def _made_or_found(name: str, bar: Bar) -> Dataset:
    """The data made here, unless another process has just done so; Busy while one is at it."""
    try:
        return make_here(recipe_for(name), bar)
    except BadInput:
        if not is_kept(name):
            raise
        return store.load(dataset_folder(name))


def make_here(
    recipe: Recipe, bar: Bar = no_bar, processes: int | None = None, replace: bool = False
) -> Dataset:
    """Makes a dataset and keeps it under its name."""
    folder = dataset_folder(recipe.name)
    if store.exists(folder) and not replace:
        size = len(store.load(folder))
        raise BadInput(
            f"{recipe.name} is here already, with {size:,} transitions: add --replace to make it anew."
        )
    with bar(f"making {recipe.name}", recipe.size) as progress:
        return make(recipe, folder, processes, progress, replace)


def is_kept(name: str) -> bool:
    """Whether a dataset of that name is kept on this machine."""
    try:
        return store.exists(dataset_folder(name))
    except BadInput:  # no dataset can have that name
        return False


def kept() -> list[str]:
    """The names of all datasets kept on this machine."""
    root = dataset_folder("x").parent
    return sorted(str(card.parent.relative_to(root)) for card in root.rglob(store.CARD))


def availability(task: str) -> str:
    """Whether a task's data is here, can be made here, or needs a file."""
    if is_kept(task):
        return "yes"
    if task in (PENDULUM.name, CHECKERBOARD.name):
        return "made on the spot"
    if task in COOKS:
        needs = [extra for extra in ("mujoco", *TASKS[task].extra.split()) if _missing(extra)]
        return f"can be made here with bfq-rl[{needs[0]}]" if needs else "can be made here"
    return "needs a file"


def remedy(task: str) -> str:
    """How to get the data of a task that cannot be made here."""
    if task.startswith("rerolled/"):
        return f"give the file of its policy, `bfq data reroll FILE --as {task}`."
    return f"fetch it with `bfq data download {task}`, or give its file, `bfq data import FILE --as {task}`."


def instead(task: str) -> str:
    """Which data is like that of a task and is here or can be made here, in a sentence; empty if none is."""
    twins = [name for name, card in TASKS.items() if card.like == TASKS[task].like and name != task]
    here = [f"{name}, which is here" for name in twins if is_kept(name)]
    made = [
        f"{name}, which `bfq data make {name}` makes"
        for name in twins
        if name in COOKS and not is_kept(name)
    ]
    return f"Like it, but not the same data: {'; '.join(here + made)}." if here or made else ""


def _missing(extra: str) -> bool:
    package = {"mujoco": "mujoco", "ogbench": "ogbench", "adroit": "gymnasium_robotics"}.get(extra)
    return package is not None and importlib.util.find_spec(package) is None
