"""What an agent's file says about it: the docstring of its module, and the comments beside its Config's fields."""

import dataclasses
import inspect
import re
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from bfq.agents.contract import Agent
from bfq.agents.fields import field_types, numeric_fields

# A comment may begin with the paper's symbol: "γ", "η, the strength of …", "ρ for φ′", "T, the times of …".
SYMBOL = re.compile(r"([A-ZΑ-Ωα-ω][₀-₉′]?(?:_\w+)?)(?=$|[,;:.]| for )")


class Hyperparameter(NamedTuple):
    """A field of a Config with what its comment says."""

    name: str
    default: Any
    symbol: str
    meaning: str
    group: str  # the comment above its group of fields
    per_member: bool  # whether members of a population may differ in it
    choices: list[str]  # the allowed words


def one_line(agent: Agent) -> str:
    """The first sentence of an agent's docstring."""
    idea = " ".join((module_of(agent).__doc__ or agent.title).split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s", idea)[0]


def module_of(agent: Agent) -> ModuleType:
    """The module of an agent, which is its documentation."""
    return import_module(agent.config.__module__)


def hyperparameters_of(agent: Agent) -> list[Hyperparameter]:
    """Every field of an agent's Config with the meaning that its comment gives."""
    default, numeric, comments = agent.config(), numeric_fields(agent.config()), _comments(agent)
    found = []
    for field in dataclasses.fields(default):
        meaning, group = comments.get(field.name, ("", ""))
        symbol = SYMBOL.match(meaning)
        value, choices = getattr(default, field.name), choices_of(default, field.name)
        texts = (symbol[1] if symbol else "", meaning, group)
        found.append(Hyperparameter(field.name, value, *texts, field.name in numeric, choices))
    return found


def with_choices(meaning: str, choices: list[str]) -> str:
    """The meaning of a field, with the choices that its comment leaves out."""
    missing = [word for word in choices if word not in meaning]
    return meaning + (f" (also {', '.join(missing)})" if missing else "")


def _comments(agent: Agent) -> dict[str, tuple[str, str]]:
    """The comment beside each field, or else that of its group, and the comment above its group."""
    found: dict[str, tuple[str, str]] = {}
    for cls in inspect.getmro(type(agent.config()))[-2::-1]:  # inherited fields first
        name = group = ""
        above = False  # whether the previous line was a comment above a group
        for line in inspect.getsource(cls).splitlines():
            code, _, comment = map(str.strip, line.partition("#"))
            if comment and not code:
                group, above = f"{group} {comment}" if above else comment, True
                continue
            if field := re.match(r"(\w+):", code):
                name, above = field[1], False
                found[name] = ("", group or found.get(name, ("", ""))[1])
            if comment:
                found[name] = (f"{found[name][0]} {comment}".strip(), found[name][1])
    return {name: (beside or of_group, of_group) for name, (beside, of_group) in found.items()}


def choices_of(config: Any, name: str) -> list[str]:
    """The allowed words of a hyperparameter; none if it is a number or a switch."""
    kind = field_types(config)[name]
    return list(get_args(kind)) if get_origin(kind) is Literal else []
