"""The data of each row: the published file, a re-roll of D4RL's policies, or locally generated data."""

from typing import NamedTuple

from bfq import BadInput
from bfq.data import store
from bfq.tasks.catalog import PUBLISHED, TASKS
from bfq.tasks.sources import availability, how_to_get, is_stored
from bfq_paper.experiments import QUICK_TASK

KINDS = {
    "published": "the published data",
    "imported": "imported under this name, but not the published file",
    "rerolled": "re-rolled with the policies that collected D4RL's data; not D4RL's file",
    "local": "generated locally with the published recipe; not the published data",
    "embedded": "a small task of bfq that is in no table of the paper",
}
READY = ("yes", "generated in seconds", "can be generated")
FEW = 100_000  # transitions; published datasets that can be generated have at least 200,000


class Source(NamedTuple):
    """The data of a row; without data the row cannot be filled."""

    task: str  # the row
    data: str | None  # the task whose data and simulator are used
    kind: str
    words: str


def source_of(task: str) -> Source:
    """The best available data for a row, or why there is none."""
    for data in candidates(task):
        if availability(data) in READY:
            kind = _kind(data)
            name = "" if data == task else f"{data}, "
            return Source(task, data, kind, f"{task}: {name}{KINDS[kind]}{_few(data, kind)}.")
    words = f"{task} cannot be filled: its data is not here: {how_to_get(task)}"
    return Source(task, None, "none", words)


def candidates(task: str) -> list[str]:
    """The names under which the data of a row may exist, best first."""
    if task not in PUBLISHED:
        return [task]
    stem = task.removesuffix("-v2").removesuffix("-singletask-v0")
    # D4RL's data and reference scores were made with the old masses.
    near = (f"rerolled/{stem}-old-masses", f"rerolled/{stem}", f"local/{stem}")
    return [task, *(name for name in near if name in TASKS)]


def data_sha256(data: str) -> str | None:
    """The SHA-256 of stored data; None if it is not here or damaged."""
    try:
        return store.open_dataset(store.dataset_folder(data)).sha256 if is_stored(data) else None
    except BadInput:
        return None


def _few(data: str, kind: str) -> str:
    """A warning about data that is much smaller than the published."""
    if kind in ("published", "embedded") or not is_stored(data):
        return ""
    try:
        count = len(store.open_dataset(store.dataset_folder(data)))
    except BadInput:  # reported when the row is trained
        return ""
    return f"; it has only {count:,} transitions" if count < FEW else ""


def _kind(data: str) -> str:
    if data in PUBLISHED:
        return "imported" if _is_another_file(data) else "published"
    prefix, slash, _ = data.partition("/")
    return "embedded" if not slash or data in (QUICK_TASK, "local/halfcheetah-mini") else prefix


def _is_another_file(data: str) -> bool:
    """Whether the imported file differs from the published one, as far as its SHA-256 is known."""
    try:
        return store.made(store.dataset_folder(data)).get("published") is False
    except BadInput:
        return False
