"""From a name to its data: stored here, generated, or read from a file; and file import."""

import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.data.readers import reader
from bfq.envs.make import resolve
from bfq.errors import BadInput, unknown
from bfq.options import IMPORT
from bfq.tasks.catalog import CHECKERBOARD, GENERATED, PENDULUM, PUBLISHED, TASKS, Task
from bfq.tasks.recipes import DataRecipe, Progress, generate_dataset, recipe_for

# Shows progress towards a number of rows.
Bar = Callable[[str, int], AbstractContextManager[Progress]]
HDF5 = (".hdf5", ".h5")
RESERVED = ("local/", "rerolled/")  # names of data that bfq generates
PACKAGES = {"mujoco": "mujoco", "ogbench": "ogbench", "adroit": "gymnasium_robotics"}


def no_bar(title: str, total: int) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda rows: None)


def load_dataset(
    data: Any, columns: Mapping[str, Any] | None = None, *, bar: Bar = no_bar, **options: Any
) -> Dataset:
    """Load the data of a task or an imported dataset by its name, or turn other data into a dataset.

    Data that bfq can generate is generated on first use and stored.

    Args:
        data: A name; the path of a file or folder; a dict of arrays; a pandas, Polars or Arrow table; a list of
            episodes; a Minari dataset; a replay buffer of d3rlpy or Stable-Baselines3.
        columns: Which column of a file or table is which, such as `{"observations": "temperature+pressure"}`.
        bar: Shows the progress of generating data.
        options: `action_low` and `action_high`, which are otherwise inferred, `name`, and, for tables and files,
            the options of `bfq data import`, such as `units={"temp": "degC"}`.
    """
    as_dataset = resolve("bfq.data.convert:as_dataset")
    if not isinstance(data, str | Path):
        return as_dataset(data, columns, **options)
    key = str(data)
    if key in TASKS or is_stored(key):
        if columns or options:
            raise BadInput(f"{key} has its own columns and range: leave columns and options out.")
        return _load_named(key, bar)
    if is_path(key):
        return as_dataset(data, columns, **options)
    raise unknown("task or file", key, [*TASKS, *stored_datasets()])


def _load_named(key: str, bar: Bar) -> Dataset:
    if key == PENDULUM:
        return resolve("bfq.tasks.pendulum:generate_pendulum")()
    if key == CHECKERBOARD:
        raise BadInput("the checkerboard has no states and no rewards: `bfq toy` trains on it.")
    if key in GENERATED and not is_stored(key):
        try:
            return generate_and_store(recipe_for(key), bar)
        except BadInput:
            if not is_stored(key):  # else another process has just generated it
                raise
    if is_stored(key):
        return store.open_dataset(store.dataset_folder(key))
    sentences = [f"the data of {key} is not here: {how_to_get(key)}", similar_data(key)]
    raise BadInput(" ".join(filter(None, sentences)))


def generate_and_store(
    recipe: DataRecipe, bar: Bar = no_bar, processes: int | None = None, replace: bool = False
) -> Dataset:
    """Generate a dataset and store it under its name."""
    folder = store.dataset_folder(recipe.name)
    if store.exists(folder) and not replace:
        raise BadInput(
            f"{recipe.name} is here already, with {len(store.open_dataset(folder)):,} transitions: "
            "add --replace to generate it again."
        )
    with bar(f"generating {recipe.name}", recipe.size) as progress:
        return generate_dataset(recipe, folder, processes, progress, replace)


def is_path(task: str) -> bool:
    """Whether this is the path of a file or folder of data and not the name of a task."""
    path = Path(task).expanduser()
    with suppress(OSError, ValueError):  # an impossible name
        return task not in TASKS and not is_stored(task) and bool(path.suffix or path.exists())
    return False


def is_stored(name: str) -> bool:
    """Whether a dataset of that name is stored on this machine."""
    try:
        return store.exists(store.dataset_folder(name))
    except (BadInput, OSError):  # not a valid name
        return False


def stored_datasets() -> list[str]:
    """Return the names of all datasets stored on this machine."""
    root = store.dataset_folder("x").parent
    return sorted(str(card.parent.relative_to(root)) for card in root.rglob(store.CARD))


def availability(task: str) -> str:
    """Return whether a task's data is here, can be generated, or needs a file."""
    if is_stored(task):
        return "yes"
    if task in (PENDULUM, CHECKERBOARD):
        return "generated in seconds"
    if task in GENERATED:
        for extra in ("mujoco", *TASKS[task].extra.split()):
            if extra in PACKAGES and importlib.util.find_spec(PACKAGES[extra]) is None:
                return f"can be generated with bfq-rl[{extra}]"
        return "can be generated"
    return "needs a file"


def how_to_get(task: str) -> str:
    """Return how to get the data of a task that bfq cannot generate."""
    if task.startswith("rerolled/"):
        return f"give the file of its policy, `bfq data reroll FILE --as {task}`."
    return f"fetch it with `bfq data download {task}`, or give its file, `bfq data import FILE --as {task}`."


def similar_data(task: str) -> str:
    """Name similar data that is here or can be generated, in a sentence; empty if there is none."""
    twins = [name for name, card in TASKS.items() if card.like == TASKS[task].like and name != task]
    here = [f"{name}, which is here" for name in twins if is_stored(name)]
    more = [name for name in twins if name in GENERATED and not is_stored(name)]
    listed = [*here, *(f"{name}, which `bfq data make {name}` generates" for name in more)]
    return f"Similar, but not the same data: {'; '.join(listed)}." if listed else ""


def read_any(
    path: Path,
    task: Task | None = None,
    columns: Mapping[str, str] | None = None,
    reward_on: Literal["state", "next_state"] = "state",
    **bounds: Any,
) -> Dataset:
    """Read any file or folder; `task` says how to read a published file.

    `reward_on` is for OGBench: whether the state before the action earns the reward, or the one after it.
    """
    if task is not None and path.is_file() and task.family == "ogbench":
        return reader("ogbench:read_ogbench")(path, task.like, reward_on)
    if task is not None and path.is_file():
        return reader("d4rl:read_d4rl")(path, task.episode_steps)
    return resolve("bfq.data.convert:as_dataset")(path, columns, **bounds)


def import_files(
    paths: Sequence[Path],
    name: str,
    columns: Mapping[str, str] | None = None,
    replace: bool = False,
    **settings: Any,
) -> Dataset:
    """Read files one after another, with only one in memory, into a dataset stored under `name`."""
    folder, task = store.dataset_folder(name), TASKS.get(name)
    _check_target(
        name, paths, {**(columns or {}), **{k: settings[k] for k in IMPORT if k in settings}}
    )
    if store.exists(folder) and not replace:
        raise BadInput(f"there is a dataset {name} already: add --replace, or choose another --as.")
    files: dict[str, list[str]] = {}  # with each note
    env: str | None = None
    with (
        store.Writer(folder, replace=replace) as writer,
        resolve("bfq.data.cells:collecting")(settings.pop("report", None)) as report,
    ):
        for path in paths:
            piece = read_any(path, task, columns, **report, **settings)
            _check_piece(path, piece, name)
            for note in piece.notes:
                files.setdefault(note, []).append(path.name)
            env = piece.env
            writer.append(piece)
        source = f"{len(paths)} files, {paths[0].name} to {paths[-1].name}"
        published = _is_published(paths, name)
        notes = [_name_files(note, names, len(paths)) for note, names in files.items()]
        if published is False:
            notes.append(f"Not the file that is published as {name}: its SHA-256 differs.")
        facts = {"files": [path.name for path in paths], "published": published}
        source = piece.source if len(paths) == 1 else source
        return writer.finish(name, source, tuple(notes), facts, env)


def _name_files(note: str, files: Sequence[str], total: int) -> str:
    """A note with the files that it is about, since its numbers are those of each file."""
    if total == 1:
        return note
    some, more = " and ".join(files[:2]), len(files) - 2
    listed = f"{some} and {more} more" if more > 0 else some
    return f"In each of the {total} files: {note}" if len(files) == total else f"{listed}: {note}"


def _check_target(name: str, paths: Sequence[Path], columns: Mapping[str, Any]) -> None:
    """Reserve the names of built-in tasks for the data they were published with."""
    if name.startswith(RESERVED) or (name in TASKS and name not in PUBLISHED):
        raise BadInput(f"{name} is reserved for data that bfq generates: choose another --as.")
    if name not in TASKS:
        return
    endings = (".npz",) if TASKS[name].family == "ogbench" else HDF5
    if columns or not all(path.suffix in endings for path in paths):
        raise BadInput(
            f"{name} is a built-in task, for its published files ({', '.join(endings)}) only: "
            "choose another --as."
        )


def _check_piece(path: Path, piece: Dataset, name: str) -> None:
    """Refuse a file of another task under the name of a published one."""
    task, own = TASKS.get(name), reader("d4rl:task_name")(path)
    if task is None:
        return
    if own != name and own in PUBLISHED:
        raise BadInput(f"{path.name} is named after {own}, not {name}: choose another --as.")
    sizes = (piece.observation_dim, piece.action_dim)
    if task.sizes is not None and task.sizes != sizes:
        raise BadInput(
            f"{piece.name} has {sizes[0]} observations and {sizes[1]} actions, but {name} has "
            f"{task.sizes[0]} and {task.sizes[1]}: choose another --as."
        )


def _is_published(paths: Sequence[Path], name: str) -> bool | None:
    """Whether these are a task's published files, by SHA-256; None where none is published."""
    try:
        remotes = resolve("bfq.data.published:remotes_for")(name) if name in TASKS else ()
    except BadInput:  # the files of this task are not published
        return None
    known = {remote.sha256 for remote in remotes}
    if not known or None in known or not all(path.is_file() for path in paths):
        return None
    for path in paths:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() not in known:
                return False
    return True
