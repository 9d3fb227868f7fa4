"""`bfq agents`: the methods, and the values and sources of their hyperparameters."""

import argparse
from typing import Any

from bfq.cli.words import show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("name", nargs="?", metavar="AGENT", help="show this agent's hyperparameters")
    parser.add_argument(
        "--task", metavar="NAME", help="with the preset for this task; default the embedded one"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Lists the agents, or one agent's hyperparameters."""
    return _one(args) if args.name else _all(args)


def _all(args: argparse.Namespace) -> int:
    from bfq.agents import agent_names, get_agent

    found = [{"name": name, "title": get_agent(name).title} for name in agent_names()]
    if args.json:
        show_json(found)
        return 0
    for agent in found:
        print(f"{agent['name']:10} {agent['title']}")
    print("\n`bfq agents NAME` shows the hyperparameters, their values and where these come from.")
    return 0


def describe(name: str, task: str) -> list[dict[str, Any]]:
    """Every hyperparameter of an agent on a task: value, source, and whether members may differ in it."""
    from bfq.agents.agent import get_agent, numeric_fields
    from bfq.data.catalog import get_task
    from bfq.presets import preset
    from bfq.settings import compose

    agent, card, run_config = get_agent(name), get_task(task), compose(task, name)
    sources = preset(name, task, card.family)["config"]
    numeric = numeric_fields(agent.config())
    return [
        {
            "name": field,
            "value": value,
            "source": _source(name, field, value, sources, card.discount),
            "per_member": field in numeric,
        }
        for field, value in run_config.config.items()
    ]


def _source(agent: str, field: str, value: Any, sources: Any, discount: float) -> str:
    if field in sources:
        return str(sources[field].source)
    if field == "discount" and value == discount:
        return "the task's card"
    return f"default of bfq.agents.{agent}"


def _one(args: argparse.Namespace) -> int:
    from bfq.data.catalog import DEFAULT_TASK

    rows = describe(args.name, args.task or DEFAULT_TASK)
    if args.json:
        show_json(rows)
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{args.name} on {args.task or DEFAULT_TASK}",
                  caption="* may differ from member to member: --set NAME=VALUE,VALUE")  # fmt: skip
    for column in ("hyperparameter", "value", "source"):
        table.add_column(column)
    sources = list(dict.fromkeys(row["source"] for row in rows))
    for row in rows:
        name = row["name"] + (" *" if row["per_member"] else "")
        table.add_row(name, str(row["value"]), f"[{sources.index(row['source']) + 1}]")
    console = Console(markup=False)
    console.print(table)
    for number, source in enumerate(sources, start=1):
        console.print(f"[{number}] {source}")
    return 0
