"""Values of the hyperparameters by agent and task, each with its source.

One TOML file an agent, read from top to bottom: an entry applies to the tasks and families it names ("*" is
all), and a later entry overrides an earlier one. `config` are the agent's hyperparameters, `data` the
transforms, `evaluation` the protocol.
"""

import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

SECTIONS = ("config", "data", "evaluation")


class Sourced(NamedTuple):
    """A value and where it comes from."""

    value: Any
    source: str


Preset = dict[str, dict[str, Sourced]]


def entries(agent: str) -> list[dict[str, Any]]:
    """An agent's entries in their order; none where it has no file."""
    file = files(__package__) / f"{agent}.toml"
    return list(tomllib.loads(file.read_text())["preset"]) if file.is_file() else []


def preset(agent: str, task: str, family: str) -> Preset:
    """The values for an agent on a task, by section."""
    chosen: Preset = {section: {} for section in SECTIONS}
    for entry in entries(agent):
        if {"*", task, family} & set(entry["tasks"]):
            for section in SECTIONS:
                for name, value in entry.get(section, {}).items():
                    chosen[section][name] = Sourced(value, entry["source"])
    return chosen
