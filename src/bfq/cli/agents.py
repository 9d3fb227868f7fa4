"""`bfq agents`: the methods, and the values and sources of their hyperparameters."""

import argparse
from pathlib import Path
from typing import Any

from bfq.cli.words import show_json
from bfq.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    add = parser.add_argument
    add("name", nargs="?", metavar="AGENT", help="what this agent is, and its hyperparameters")
    add("--task", metavar="NAME", help="its values on this task, each with its source")
    add("--pages", type=Path, metavar="DIR", help="write a page about each agent into this folder")
    add("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Lists the agents, tells what one is, or what its values on a task are; or writes pages about all."""
    if args.pages:
        return _pages(args)
    if args.task:
        return _values(args)
    return _one(args) if args.name else _all(args)


def _pages(args: argparse.Namespace) -> int:
    from bfq.cli.agent_pages import write_pages

    if args.name or args.task:
        raise BadInput("--pages writes a page about every agent: name none, and no task.")
    written = [str(path) for path in write_pages(args.pages)]
    if args.json:
        show_json(written)
    else:
        print(f"{len(written)} pages in {args.pages}")
    return 0


def _all(args: argparse.Namespace) -> int:
    from bfq.agents.registry import agent_names, get_agent
    from bfq.cli.agent_facts import sentence

    agents = [get_agent(name) for name in agent_names()]
    found = [
        {"name": agent.name, "title": agent.title, "idea": sentence(agent)} for agent in agents
    ]
    if args.json:
        show_json(found)
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "agent", "what it is", caption="bfq agents NAME says more; --task TASK its values there."
    )
    for agent in found:
        table.add_row(agent["name"], agent["idea"])
    Console(markup=False).print(table)
    return 0


def _one(args: argparse.Namespace) -> int:
    from bfq.cli.agent_facts import explained, facts

    told = facts(args.name)
    if args.json:
        show_json(told)
        return 0
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    console.print(told["idea"])
    table = Table(caption="* may differ from member to member: --set NAME=VALUE,VALUE")
    table.add_column("hyperparameter", no_wrap=True)
    table.add_column("default", overflow="fold")
    table.add_column("meaning", overflow="fold")
    for row in told["hyperparameters"]:
        name = row["name"] + (" *" if row["per_member"] else "")
        table.add_row(name, str(row["default"]), explained(row["meaning"], row["choices"]))
    console.print(table)
    console.print(_abilities(told))
    console.print(
        f"bfq agents {args.name} --task TASK shows its values on a task and where they come from."
    )
    return 0


def _abilities(told: dict[str, Any]) -> str:
    """How it acts, in a few words."""
    chooses = "can choose" if told["chooses"] else "cannot choose"
    samplers = (
        f"--sampler {' | '.join(told['samplers'])}" if told["samplers"] else "none to choose from"
    )
    return f"candidates: it {chooses} among several; samplers: {samplers}."


def describe(name: str, task: str) -> dict[str, list[dict[str, Any]]]:
    """Every value of an agent on a task by section, its source, and whether members may differ in it."""
    from bfq.agents import numeric_fields
    from bfq.agents.registry import get_agent
    from bfq.presets import SECTIONS, preset
    from bfq.settings import compose
    from bfq.tasks.catalog import get_task

    agent, card, run_config = get_agent(name), get_task(task), compose(task, name)
    known = preset(name, card.like, card.family)
    numeric = numeric_fields(agent.config())
    defaults = {
        "config": f"default of bfq.agents.{name}"
        + (f": {agent.defaults}" if agent.defaults else ""),
        "data": "default of bfq.settings",
        "evaluation": "default of bfq.evaluation.protocol",
    }
    from_card = {"config": "discount", "data": "reward", "evaluation": "episodes"}

    def source(section: str, field: str) -> str:
        if field in known[section]:
            return known[section][field].source
        return "the task's card" if field == from_card[section] else defaults[section]

    return {
        section: [
            {
                "name": field,
                "value": value,
                "source": source(section, field),
                "per_member": section == "config" and field in numeric,
            }
            for field, value in getattr(run_config, section).items()
        ]
        for section in SECTIONS
    }


def _values(args: argparse.Namespace) -> int:
    if not args.name:
        raise BadInput(
            "--task shows the values of one agent: name it, as bfq agents bfq --task TASK."
        )
    sections = describe(args.name, args.task)
    if args.json:
        show_json({"agent": args.name, "task": args.task, **sections})
        return 0
    from rich.console import Console
    from rich.table import Table

    rows = [row for section in sections.values() for row in section]
    sources = list(dict.fromkeys(row["source"] for row in rows))
    table = Table(title=f"{args.name} on {args.task}",
                  caption="* may differ from member to member: --set NAME=VALUE,VALUE")  # fmt: skip
    for column in ("", "value", "source"):
        table.add_column(column, overflow="fold")
    for section, some in sections.items():
        table.add_section()
        for row in some:
            name = f"{'' if section == 'config' else section + ': '}{row['name']}"
            mark = f"[{sources.index(row['source']) + 1}]"
            table.add_row(name + (" *" if row["per_member"] else ""), str(row["value"]), mark)
    console = Console(markup=False)
    console.print(table)
    for number, told in enumerate(sources, start=1):
        console.print(f"[{number}] {told}")
    return 0
