"""Write docs/agents: a page about each agent, generated from its file and its presets.

python -m tools.agent_pages docs/agents
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bfq.agents.contract import Agent
from bfq.agents.registry import agent_names, get_agent
from bfq.cli.agents import formulas, hyperparameters_of, one_line, split_docstring, with_choices
from bfq.files import make_folder, write_bytes
from bfq.presets import SECTIONS, Entry, entries
from bfq.settings import compose
from bfq.tasks.catalog import DEFAULT_TASK, PAPER, PENDULUM, TASKS

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
        for name, value in entry.values(section).items()
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
