"""`bfq agents`: the methods, their hyperparameters, and the values and sources on a task.

An agent's file is its documentation: the module docstring is the description with the pseudo-code, and the
comment beside each field of `Config` is the meaning of that hyperparameter.
"""

import argparse
from collections.abc import Callable
from typing import Any

from bfq.cli.words import show_json, show_table
from bfq.errors import BadInput

PER_MEMBER = "* may have several values in one run: --set NAME=VALUE,VALUE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("name", nargs="?", metavar="AGENT", help="describe this agent and its hyperparameters")
    add("--task", metavar="NAME", help="show its values on this task, each with its source")
    add("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """List the agents, describe one, or show its values on a task."""
    if args.task and not args.name:
        raise BadInput("--task needs an agent: bfq agents NAME --task TASK.")
    if args.task:
        found: Any = {"agent": args.name, "task": args.task, **values_on(args.name, args.task)}
        show: Callable[[Any], None] = _show_values
    elif args.name:
        found, show = describe_agent(args.name), _show_agent
    else:
        from bfq.agents.describe import one_line
        from bfq.agents.registry import agent_names, get_agent

        agents = [get_agent(name) for name in agent_names()]
        found = [{"name": a.name, "title": a.title, "idea": one_line(a)} for a in agents]
        show = _show_list
    if args.json:
        show_json(found)
    else:
        show(found)
    return 0


def _show_list(found: list[dict[str, str]]) -> None:
    rows = [(agent["name"], agent["idea"]) for agent in found]
    caption = "bfq agents NAME shows the hyperparameters; --task TASK their values on a task."
    show_table(("agent", "description"), rows, caption=caption)


def _show_agent(found: dict[str, Any]) -> None:
    from bfq.agents.describe import with_choices

    print(found["idea"])
    rows = [
        (row["name"] + (" *" if row["per_member"] else ""), str(row["default"]),
         with_choices(row["meaning"], row["choices"]))
        for row in found["hyperparameters"]
    ]  # fmt: skip
    show_table(("hyperparameter", "default", "meaning"), rows, caption=PER_MEMBER)
    several = "several candidates per state" if found["chooses"] else "one action per state"
    samplers = f"; --sampler {' | '.join(found['samplers'])}" if found["samplers"] else ""
    print(f"Acting: {several}{samplers}.")
    print(f"bfq agents {found['name']} --task TASK shows its values on a task and their sources.")


def _show_values(found: dict[str, Any]) -> None:
    from bfq.presets import SECTIONS

    rows = [(section, row) for section in SECTIONS for row in found[section]]
    sources = list(dict.fromkeys(row["source"] for _, row in rows))
    lines = [
        (f"{'' if section == 'config' else section + ': '}{row['name']}{' *' if row['per_member'] else ''}",
         str(row["value"]), f"[{sources.index(row['source']) + 1}]")
        for section, row in rows
    ]  # fmt: skip
    title = f"{found['agent']} on {found['task']}"
    show_table(("", "value", "source"), lines, title, PER_MEMBER)
    for k, source in enumerate(sources, start=1):
        print(f"[{k}] {source}")


def values_on(name: str, task: str) -> dict[str, list[dict[str, Any]]]:
    """Every value of an agent on a task, by section, with its source."""
    from bfq.agents.fields import numeric_fields
    from bfq.agents.registry import get_agent
    from bfq.presets import SECTIONS, preset
    from bfq.settings import compose
    from bfq.tasks.catalog import get_task

    agent, card, run_config = get_agent(name), get_task(task), compose(task, name)
    presets = preset(name, card.like, card.family)
    numeric = numeric_fields(agent.config())
    origin = f": {agent.defaults}" if agent.defaults else ""
    defaults = {
        "config": f"default of bfq.agents.{name}{origin}",
        "data": "default of bfq.settings",
        "evaluation": "default of bfq.evaluation.protocol",
    }
    from_card = {"config": "discount", "data": "reward", "evaluation": "episodes"}

    def row(section: str, field: str, value: Any) -> dict[str, Any]:
        known = presets[section].get(field)
        other = "the task's card" if field == from_card[section] else defaults[section]
        varied = section == "config" and field in numeric
        source = known.source if known else other
        return {"name": field, "value": value, "source": source, "per_member": varied}

    values = {section: getattr(run_config, section).items() for section in SECTIONS}
    return {section: [row(section, *pair) for pair in values[section]] for section in SECTIONS}


def describe_agent(name: str) -> dict[str, Any]:
    """Everything that an agent's file says, for JSON."""
    from bfq.agents.describe import hyperparameters_of, one_line
    from bfq.agents.registry import get_agent

    agent = get_agent(name)
    return {
        **{name: getattr(agent, name) for name in ("name", "title", "chooses")},
        "idea": one_line(agent),
        "needs": list(agent.needs),
        "samplers": list(agent.samplers),
        "hyperparameters": [row._asdict() for row in hyperparameters_of(agent)],
    }
