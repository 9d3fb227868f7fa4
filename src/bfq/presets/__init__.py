"""Values of the hyperparameters by agent and task, each with its source.

One TOML file per agent, read from top to bottom: an entry applies to the tasks and families that it names
("*" is all of them), and a later entry overrides an earlier one. `config` holds hyperparameters, `data` the
transforms and `evaluation` the protocol.
"""

import tomllib
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from bfq.options import Name, Value
from bfq.records import convert

SECTIONS = ("config", "data", "evaluation")


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """The values for some tasks and families."""

    tasks: Annotated[list[Name], Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=11)]
    config: dict[str, Value] = {}
    data: dict[Literal["observations", "reward"], Name] = {}
    evaluation: dict[str, Value] = {}

    def applies(self, task: str, family: str) -> bool:
        """Whether the entry is for this task of this family."""
        return not {"*", task, family}.isdisjoint(self.tasks)


class PresetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of an agent in their order."""

    preset: list[Entry]


class Sourced(NamedTuple):
    """A value and where it comes from."""

    value: Any
    source: str


Preset = dict[str, dict[str, Sourced]]


def entries(agent: str) -> list[Entry]:
    """The entries of an agent in their order; none if it has no file."""
    file = files(__package__) / f"{agent}.toml"
    if not file.is_file():
        return []
    return convert(tomllib.loads(file.read_text()), PresetFile, file.name).preset


def preset(agent: str, task: str, family: str) -> Preset:
    """The values for an agent on a task, by section."""
    chosen: Preset = {section: {} for section in SECTIONS}
    for entry in entries(agent):
        if entry.applies(task, family):
            for section, values in chosen.items():
                for name, value in getattr(entry, section).items():
                    values[name] = Sourced(value, entry.source)
    return chosen
