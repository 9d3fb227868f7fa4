"""What an agent's own file says about it: its idea, its pseudo-code, its fields and their meaning."""

import ast
import dataclasses
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from bfq.agents import Agent, numeric_fields
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

# A comment may begin with the paper's symbol: "γ", "η, the strength of …", "ρ for φ′", "T, the times of …".
SYMBOL = re.compile(r"([A-ZΑ-Ωα-ω][₀-₉′]?(?:_\w+)?)(?=$|[,;:.]| for )")
COMMON = ("init", "update", "act")  # functions that every agent has


class Story(NamedTuple):
    """An agent's docstring, taken apart."""

    idea: str  # the first paragraph
    more: list[str]  # what follows it before the pseudo-code
    code: str  # the pseudo-code
    notes: list[str]  # what follows that: choices, and deviations from the reference


class Hyperparameter(NamedTuple):
    """A field of a Config."""

    name: str
    default: Any
    symbol: str
    meaning: str
    group: str  # the heading it stands under
    per_member: bool  # whether members of a population may differ in it
    choices: list[str]  # of a word


def module_of(agent: Agent) -> ModuleType:
    """The file that an agent is."""
    return import_module(agent.config.__module__)


def story(agent: Agent) -> Story:
    """The agent's docstring: paragraphs, then pseudo-code, then paragraphs."""
    blocks = inspect.cleandoc(module_of(agent).__doc__ or agent.title).split("\n\n")
    codes = [k for k, block in enumerate(blocks) if k and _is_code(block)]
    first, last = (codes[0], codes[-1]) if codes else (len(blocks), len(blocks))
    return Story(
        _joined(blocks[0]),
        [_joined(block) for block in blocks[1:first]],
        inspect.cleandoc("\n" + "\n\n".join(blocks[first : last + 1])),
        [_joined(block) for block in blocks[last + 1 :]],
    )


def _is_code(block: str) -> bool:
    return any(line.startswith("    ") for line in block.splitlines())


def _joined(block: str) -> str:
    return " ".join(block.split())


def sentence(agent: Agent) -> str:
    """The idea in one sentence."""
    return re.split(r"(?<=[.])\s", story(agent).idea)[0]


def formulas(agent: Agent) -> dict[str, str]:
    """What the functions of the agent's file compute, and the losses that it shares, in their own words."""
    found = inspect.getmembers(module_of(agent), inspect.isfunction)
    own = [(name, f) for name, f in found if f.__module__ == agent.config.__module__]
    own.sort(key=lambda pair: pair[1].__code__.co_firstlineno)
    told = [(name, f) for name, f in own if name not in COMMON and not name.startswith("_")]
    return {
        name: inspect.getdoc(f) or "" for name, f in [*told, *_shared_losses(agent)] if f.__doc__
    }


def _shared_losses(agent: Agent) -> list[tuple[str, Any]]:
    """The losses of other files that the agent's file asks for by name, in the order it does."""
    module = module_of(agent)
    asked = [
        (
            f"{node.value.id}.{node.attr}",
            getattr(getattr(module, node.value.id, None), node.attr, None),
        )
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    return [
        (name, f)
        for name, f in dict(asked).items()
        if name.endswith("_loss") and inspect.isfunction(f)
    ]


def hyperparameters_of(agent: Agent) -> list[Hyperparameter]:
    """Every field of an agent's Config, with the meaning that its comment gives."""
    default, numeric = agent.config(), numeric_fields(agent.config())
    comments = _comments(agent)
    found = []
    for field in dataclasses.fields(default):
        meaning, group = comments.get(field.name, ("", ""))
        symbol = SYMBOL.match(meaning)
        found.append(
            Hyperparameter(
                field.name,
                getattr(default, field.name),
                symbol[1] if symbol else "",
                meaning,
                group,
                field.name in numeric,
                choices(agent, field.name) if field.type is str else [],
            )
        )
    return found


def explained(meaning: str, choices: list[str]) -> str:
    """A field's meaning, with the choices that its comment leaves out."""
    missing = [word for word in choices if word not in meaning]
    return meaning + (f" (also {', '.join(missing)})" if missing else "")


def choices(agent: Agent, field: str) -> list[str]:
    """What a word can be, as the agent itself says when it refuses another."""
    try:
        configure(agent, {field: "?"})
    except BadInput as refused:
        said = re.search(r"there are: (.*)\.$", str(refused))
        return said[1].split(", ") if said else []
    return []


def _comments(agent: Agent) -> dict[str, tuple[str, str]]:
    """The comment beside each field, and the heading above it; a field without one has its heading's."""
    source = inspect.getsource(module_of(agent))
    body = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == agent.config.__name__
    )
    said = dict(_comment_lines(source))
    beside = {line: text for line, (text, alone) in said.items() if not alone}
    found, group, line = {}, "", 0
    for node in body:
        headings = [text for k, (text, alone) in said.items() if alone and line < k < node.lineno]
        if line:  # after the docstring
            group = " ".join(headings) if headings else group
        line = node.end_lineno or node.lineno
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            texts = [beside[k] for k in range(node.lineno, line + 1) if k in beside]
            found[node.target.id] = (" ".join(texts) or group, group)
    return found


def _comment_lines(source: str) -> Iterator[tuple[int, tuple[str, bool]]]:
    """Each comment with its line, and whether it stands there alone."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.strip().startswith("#")
            yield token.start[0], (token.string.removeprefix("#").strip(), alone)


def facts(name: str) -> dict[str, Any]:
    """All that the agent's file says, for a program to read."""
    agent = get_agent(name)
    return {
        "name": agent.name,
        "title": agent.title,
        "idea": sentence(agent),
        "chooses": agent.chooses,
        "needs": list(agent.needs),
        "samplers": list(agent.samplers),
        "hyperparameters": [row._asdict() for row in hyperparameters_of(agent)],
    }
