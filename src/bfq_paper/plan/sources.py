"""Which data fills a row: the published file, the same policies rolled out anew, or data made here."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from bfq.data import store
from bfq.data.store import dataset_folder
from bfq.envs.make import make_environment
from bfq.errors import BadInput
from bfq.tasks.catalog import PENDULUM, PUBLISHED, TASKS
from bfq.tasks.sources import availability, how_to_get, is_stored

STAND_IN = PENDULUM  # embedded, seconds to make, no simulator to install: for quick runs
KINDS = {
    "published": "the published data",
    "imported": "imported under this name, and not the published file",
    "rerolled": "rolled out here from the policies that collected D4RL's data, and not D4RL's file",
    "local": "made here after the published recipe, and not the published data",
    "embedded": "a small task that ships with bfq and is in no table of the paper",
}
FEW = 100_000  # transitions; the smallest published set of those that can be made here has 200,000
MADE_FIRST = "; it is made first"


class Source(NamedTuple):
    """What a row learns from; without data it cannot be filled."""

    task: str  # the row
    data: str | None  # the task whose data and simulator are used
    kind: str  # a key of KINDS, or none
    words: str  # one sentence

    @classmethod
    def told(cls, words: Mapping[str, Any]) -> "Source":
        """As a file tells of it; what it tells beside that is of no use here."""
        return cls(*(words[name] for name in cls._fields))

    @property
    def used(self) -> "Source":
        """The same of what needs no making: all that learns from it has done so."""
        return self._replace(words=self.words.replace(MADE_FIRST, ""))


def source_of(task: str) -> Source:
    """The best data there is for a row, or why there is none."""
    for data in _candidates(task):
        if _ready(data):
            return _checked(task, data)
    made = [
        f"{data} {availability(data)}" for data in _candidates(task) if data.startswith("local/")
    ]
    here = f"; {made[0]}" if made and "with" in made[0] else ""
    return Source(task, None, "none", f"{task} cannot be filled: {_missing(task)}{here}.")


def is_kept_here(task: str) -> bool:
    """Whether a row has data on this machine, with nothing to be made first."""
    return any(is_stored(data) for data in _candidates(task))


def at_hand(data: str) -> bool:
    """Whether reading data takes no making of it that would be worth a bar."""
    return is_stored(data) or data == PENDULUM


def as_good(task: str, data: str) -> list[str]:
    """The names of data for a row that stand no lower than `data`, which is one of them."""
    names = _candidates(task)
    return names[: names.index(data) + 1]


def _candidates(task: str) -> list[str]:
    """The names under which a row's data may be here, best first."""
    if task not in PUBLISHED:
        return [task]
    stem = task.removesuffix("-v2").removesuffix("-singletask-v0")
    # The old masses are those of the worlds in which D4RL's data and reference scores were made.
    near = (f"rerolled/{stem}-old-masses", f"rerolled/{stem}", f"local/{stem}")
    return [task, *(name for name in near if name in TASKS)]


def _ready(data: str) -> bool:
    return availability(data) in ("yes", "generated in seconds", "can be generated")


def _checked(task: str, data: str) -> Source:
    trouble = _no_world(data)
    if trouble:
        return Source(task, None, "none", f"{task} cannot be filled: {data} is here, but {trouble}")
    kind = _kind(data)
    made = "" if at_hand(data) else MADE_FIRST
    name = "" if data == task else f"{data}, "
    return Source(task, data, kind, f"{task}: {name}{KINDS[kind]}{made}{_few(data, kind)}.")


def _few(data: str, kind: str) -> str:
    """A word on data of which much less was made than is published."""
    if kind not in ("imported", "rerolled", "local") or not is_stored(data):
        return ""
    try:
        count = len(store.open_dataset(dataset_folder(data)))
    except BadInput:  # its row says so when its turn comes
        return ""
    return f"; it has {count:,} transitions only" if count < FEW else ""


def _kind(data: str) -> str:
    if data in PUBLISHED:
        return "published" if _is_published(data) else "imported"
    prefix, slash, _ = data.partition("/")
    return prefix if slash and data != "local/halfcheetah-mini" else "embedded"


def _is_published(data: str) -> bool:
    """Whether nothing speaks against it: files of which no SHA-256 is published are taken at their name."""
    try:
        return store.made(dataset_folder(data)).get("published") is not False
    except BadInput:  # its row says so when its turn comes
        return True


@cache
def _no_world(data: str) -> str:
    """Why the simulator of a task cannot be opened; nothing if it can."""
    card = TASKS[data]
    try:
        make_environment(card.simulator, card.episode_steps).close()
    except BadInput as error:
        return f"its simulator is not: {error}"
    return ""


def _missing(task: str) -> str:
    return f"its data is not here and cannot be made here: {how_to_get(task).rstrip('.')}"
