"""A page about each agent, written from its own file and its presets so that it cannot say anything else."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bfq.agents import Agent
from bfq.agents.registry import agent_names, get_agent
from bfq.cli.agent_facts import (
    Hyperparameter,
    explained,
    formulas,
    hyperparameters_of,
    sentence,
    story,
)
from bfq.files import make_folder, write_bytes
from bfq.presets import SECTIONS, entries
from bfq.settings import compose
from bfq.tasks.catalog import MINI, PAPER, PENDULUM, TASKS

WRITTEN = "<!-- Written by `make docs` from the agent's file and presets: change those. -->"
WHICH = """Which one? They differ most in what an action costs:

- one network call, any distribution of actions: `bfq`, `ofql`, `fql`, and `sorl` (1 to 8 calls);
- one call, one action for a state: `bc`, `td3_bc`, `iql`, `rebrac`, `srpo`;
- a chain of calls: diffusion in `dql`, `edp` and `idql`, a consistency model in `cac` (1 or 2), flows in
  `ifql`, `fawac` and `fbrac` (10).

Begin with `bfq`; `td3_bc` and `iql` are the fastest to train. `iql`, `idql` and `ifql` never ask the critics
about an action beyond the data while they learn."""
SHOWN = (*PAPER, MINI, PENDULUM.name)


def write_pages(folder: Path) -> list[Path]:
    """Writes a page an agent and the index, and names them."""
    make_folder(folder)
    written = []
    for name, text in pages().items():
        write_bytes(folder / name, text.encode())
        written.append(folder / name)
    return written


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    agents = [get_agent(name) for name in agent_names()]
    return {"README.md": index(agents), **{f"{agent.name}.md": page(agent) for agent in agents}}


def index(agents: Sequence[Agent]) -> str:
    """One line an agent."""
    rows = [(f"[{agent.name}]({agent.name}.md)", agent.title, sentence(agent)) for agent in agents]
    told = "`bfq agents NAME --task TASK` shows the values on a task, each with its source."
    return _page("Agents", [WRITTEN, WHICH, told, _table(("agent", "title", "idea"), rows)])


def page(agent: Agent) -> str:
    """All there is to know about an agent."""
    told = story(agent)
    return _page(
        agent.title,
        [
            WRITTEN,
            told.idea,
            *told.more,
            *([f"Reference: {agent.reference}."] if agent.reference else []),
            *(("## Algorithm", _code(told.code, "text")) if told.code else ()),
            *_notes(told.notes),
            *_equations(agent),
            "## Run it",
            _code(_commands(agent), "sh"),
            *_acting(agent),
            "## Hyperparameters",
            "Those marked * may differ from member to member of a population: `--set NAME=VALUE,VALUE`.",
            *_hyperparameters(agent),
            *_values(agent),
            *_sources(agent),
        ],
    )


def _notes(notes: list[str]) -> list[str]:
    return ["## Choices, and what differs from the reference", *notes] if notes else []


def _equations(agent: Agent) -> list[str]:
    """The docstrings of the agent's functions: the losses and what they are made of."""
    found = formulas(agent)
    if not found:
        return []
    rows = [(f"`{name}`", _line(text)) for name, text in found.items()]
    beside = (
        "; names with a dot are of the files beside it"
        if any("." in name for name in found)
        else ""
    )
    file = f"From [`{agent.name}.py`](../../src/bfq/agents/{agent.name}.py){beside}:"
    return ["## Equations", file, _table(("function", "what it computes"), rows)]


def _commands(agent: Agent) -> str:
    tasks = (MINI, PAPER[0])
    lines = [f"bfq train --task {task} --agent {agent.name}" for task in tasks]
    return "\n".join(
        [*lines, f"bfq agents {agent.name} --task {PAPER[0]}   # every value with its source"]
    )


def _acting(agent: Agent) -> list[str]:
    """What can be asked of it when it acts or is fed."""
    chooses = (
        "`--candidates N` draws N actions a state, and its critic chooses."
        if agent.chooses
        else "It cannot choose among candidates."
    )
    rules = " | ".join(f"`{name}`" for name in agent.samplers)
    samplers = (
        f" It acts in several steps: `--sampling-steps N`, `--sampler` {rules}." if rules else ""
    )
    needs = (
        " It learns from the action that follows in the log, so rows must be in order."
        if agent.needs
        else ""
    )
    return [chooses + samplers + needs]


def _hyperparameters(agent: Agent) -> list[str]:
    """A table for each group of fields, under the group's heading."""
    found: list[str] = []
    rows = hyperparameters_of(agent)
    for group in dict.fromkeys(row.group for row in rows):
        some = [_hyperparameter(row) for row in rows if row.group == group]
        found += [f"### {group}"] if group else []
        found.append(_table(("name", "default", "symbol", "meaning"), some))
    return found


def _hyperparameter(row: Hyperparameter) -> tuple[str, ...]:
    name = f"`{row.name}`" + (" *" if row.per_member else "")
    return name, f"`{_value(row.default)}`", row.symbol, explained(row.meaning, row.choices)


def _values(agent: Agent) -> list[str]:
    """By task, the values in which tasks of one family differ, or the paper's tasks from each other."""
    runs = {task: compose(task, agent.name) for task in SHOWN}
    flat = {
        task: {(s, name): value for s in SECTIONS for name, value in getattr(run, s).items()}
        for task, run in runs.items()
    }
    columns = [
        key for key in flat[PAPER[0]] if key[1] not in ("seed", "episodes") and _tuned(flat, key)
    ]
    if not columns:
        return []
    rows = [(task, *(_value(values[key]) for key in columns)) for task, values in flat.items()]
    head = ("task", *(f"`{name}`" for _, name in columns))
    return [
        "## Values by task",
        "What differs between tasks of one kind; the rest is below.",
        _table(head, rows),
    ]


def _tuned(flat: dict[str, dict[tuple[str, str], Any]], key: tuple[str, str]) -> bool:
    families: dict[str, set[Any]] = {}
    for task, values in flat.items():
        families.setdefault(TASKS[task].family, set()).add(values[key])
    return any(len(found) > 1 for found in families.values())


def _sources(agent: Agent) -> list[str]:
    """The presets in their order, each with its source; a later one overrides an earlier."""
    rows = [
        (_tasks(entry["tasks"]), _settings(entry), entry["source"].replace("|", "/"))
        for entry in entries(agent.name)
    ]
    if not rows:
        return []
    order = "Read from top to bottom: a later row overrides an earlier one."
    return ["## Presets and their sources", order, _table(("tasks", "values", "source"), rows)]


def _tasks(names: Iterable[str]) -> str:
    return ", ".join("all" if name == "*" else name for name in names)


def _settings(entry: dict[str, Any]) -> str:
    return ", ".join(
        f"`{'' if section == 'config' else section + ': '}{name} = {_value(value)}`"
        for section in SECTIONS
        for name, value in entry.get(section, {}).items()
    )


def _value(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


def _page(title: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"
