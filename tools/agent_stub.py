"""Write src/bfq/agents/__init__.pyi: every agent as a function, for editors and type checkers.

python -m tools.agent_stub
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

from bfq.agents.callables import callable_names, documentation
from bfq.agents.contract import Agent
from bfq.agents.fields import field_types, numeric_fields
from bfq.agents.registry import get_agent
from bfq.files import write_bytes

FILE = Path("src/bfq/agents/__init__.pyi")
HEAD = '''"""Agents as functions. Written by `python -m tools.agent_stub`: change the agents' files instead."""

from collections.abc import Sequence
from typing import Literal

from bfq.agents.callables import with_networks as with_networks
from bfq.agents.registry import ConfiguredAgent as ConfiguredAgent
'''


def stub() -> str:
    """The whole file."""
    return (
        "\n\n".join(
            [HEAD.rstrip(), *(function(n, get_agent(a)) for n, a in callable_names().items())]
        )
        + "\n"
    )


def function(name: str, agent: Agent) -> str:
    """The signature of an agent and its docstring."""
    default, varied = agent.config(), numeric_fields(agent.config())
    lines = [
        f"    {field}: {spelled(kind, field in varied, field)} = {getattr(default, field)!r},"
        for field, kind in field_types(default).items()
    ]
    text = documentation(agent).replace("\n", "\n    ").replace("\n    \n", "\n\n")
    return "\n".join(
        [f"def {name}(", "    *,", *lines, ") -> ConfiguredAgent:", f'    """{text}\n    """']
    )


def spelled(kind: Any, varied: bool, name: str) -> str:
    """A type as written in the stub: without its range, and with several values where they are allowed."""
    if get_origin(kind) and hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    if words := literals(kind):
        return f"Literal[{', '.join(map(repr, words))}]"
    if name.endswith("width"):
        return "int | str | Sequence[int]"
    return f"{kind.__name__} | Sequence[{kind.__name__}]" if varied else kind.__name__


def literals(kind: Any) -> Iterable[Any]:
    """The words of a Literal; none of another type."""
    return get_args(kind) if str(kind).startswith("typing.Literal") else ()


if __name__ == "__main__":
    write_bytes(FILE, stub().encode())
