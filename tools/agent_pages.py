"""Write docs/agents: a page about each agent, generated from its file and its presets.

python -m tools.agent_pages docs/agents
"""

import ast
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bfq.agents.contract import Agent
from bfq.agents.describe import hyperparameters_of, module_of, one_line, with_choices
from bfq.agents.registry import agent_names, get_agent
from bfq.files import make_folder, write_bytes
from bfq.presets import SECTIONS, Entry, entries
from bfq.settings import compose
from bfq.tasks.catalog import DEFAULT_TASK, PAPER, PENDULUM, TASKS

COMMON = ("init", "update", "act")  # functions that every agent has
SHOWN = (*PAPER, DEFAULT_TASK, PENDULUM)


def agent_pages() -> dict[str, str]:
    """Every page by its file name."""
    agents = [get_agent(name) for name in agent_names()]
    rows = [(agent, one_line(agent)) for agent in agents]
    pages = {"README.md": _render("agents.md.j2", rows=rows)}
    return pages | {f"{agent.name}.md": agent_page(agent) for agent in agents}


def agent_page(agent: Agent) -> str:
    """The page about an agent."""
    rows = hyperparameters_of(agent)
    groups = [
        (group, [row for row in rows if row.group == group])
        for group in dict.fromkeys(row.group for row in rows)
    ]
    equations = {name: " ".join(text.split()) for name, text in formulas(agent).items()}
    return _render(
        "agent.md.j2",
        agent=agent,
        text=split_docstring(agent),
        equations=equations,
        shared=any("." in name for name in equations),
        mini=DEFAULT_TASK,
        task=PAPER[0],
        groups=groups,
        tuned=_tuned_values(agent),
        presets=[
            (_tasks(entry.tasks), _settings(entry), entry.source.replace("|", "/"))
            for entry in entries(agent.name)
        ],
    )


class Docstring(NamedTuple):
    """The parts of an agent's module docstring."""

    idea: str  # the first paragraph
    more: list[str]  # paragraphs before the pseudo-code
    code: str  # the pseudo-code
    notes: list[str]  # paragraphs after it: choices, and deviations from the reference


def split_docstring(agent: Agent) -> Docstring:
    """Split the docstring of an agent's file: paragraphs, pseudo-code, paragraphs."""
    blocks = inspect.cleandoc(module_of(agent).__doc__ or agent.title).split("\n\n")
    indented = [
        k for k, block in enumerate(blocks) if k and any(x[:4] == "    " for x in block.split("\n"))
    ]
    first, last = (indented[0], indented[-1] + 1) if indented else (len(blocks), len(blocks))
    idea, *paragraphs = [" ".join(block.split()) for block in blocks]
    code = inspect.cleandoc("\n" + "\n\n".join(blocks[first:last]))
    return Docstring(idea, paragraphs[: first - 1], code, paragraphs[last - 1 :])


def formulas(agent: Agent) -> dict[str, str]:
    """Docstrings of the functions in an agent's file, then of the shared losses that it uses."""
    module = module_of(agent)
    own = [
        (name, function)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and name not in COMMON and name[0] != "_"
    ]
    own.sort(key=lambda pair: pair[1].__code__.co_firstlineno)
    shared = {
        f"{node.value.id}.{node.attr}": getattr(vars(module).get(node.value.id), node.attr, None)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    losses = [(n, f) for n, f in shared.items() if n.endswith("_loss") and inspect.isfunction(f)]
    return {name: inspect.getdoc(f) or "" for name, f in [*own, *losses] if f.__doc__}


def _tuned_values(agent: Agent) -> tuple[list[str], dict[str, list[Any]]]:
    """The hyperparameters that differ between tasks of one family, and their values by task."""
    runs = {task: compose(task, agent.name) for task in SHOWN}
    flat = {
        task: {(s, name): value for s in SECTIONS for name, value in getattr(run, s).items()}
        for task, run in runs.items()
    }

    def tuned(key: tuple[str, str]) -> bool:
        families: dict[str, set[Any]] = {}
        for task, values in flat.items():
            families.setdefault(TASKS[task].family, set()).add(values[key])
        return any(len(values) > 1 for values in families.values())

    keys = [k for k in flat[PAPER[0]] if k[1] not in ("seed", "episodes") and tuned(k)]
    by_task = {task: [values[key] for key in keys] for task, values in flat.items()}
    return [name for _, name in keys], by_task


def _tasks(names: Iterable[str]) -> str:
    return ", ".join("all" if name == "*" else name for name in names)


def _settings(entry: Entry) -> str:
    return ", ".join(
        f"`{'' if section == 'config' else section + ': '}{name} = {_value(value)}`"
        for section in SECTIONS
        for name, value in getattr(entry, section).items()
    )


def _value(value: Any) -> str:
    """A value as typed on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(cells: Iterable[Any]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _render(template: str, **values: Any) -> str:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"value": _value, "row": _row}
    environment.globals["with_choices"] = with_choices
    return environment.get_template(template).render(**values)


def main(folder: Path) -> None:
    """Write all pages into `folder`."""
    make_folder(folder)
    for name, text in agent_pages().items():
        write_bytes(folder / name, text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
