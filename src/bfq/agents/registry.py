"""Finding agents by name, object or file, and checking their hyperparameters and options of acting.

A name is found if the agent is part of bfq, if an installed package offers it in the entry point group
`bfq.agents`, or if it was registered in this process. A file is executed only when the user names it
(`load_agent`), never because a run folder mentions it.
"""

import dataclasses
import importlib
import pkgutil
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb
from typing import Any

from bfq.agents.contract import Acting, Agent
from bfq.agents.fields import field_types, numeric_fields
from bfq.errors import BadInput, unknown
from bfq.records import check_value

GROUP = "bfq.agents"  # the entry point group in which other packages offer agents
registered: dict[str, Agent] = {}  # agents of this process, besides those of bfq
_files: dict[str, Path] = {}  # files of registered agents


def register(agent: Agent | Callable[[], Agent]) -> Agent:
    """Register an agent under its name; as a decorator, register what the function returns."""
    new = agent if isinstance(agent, Agent) else agent()
    if not re.fullmatch(r"[\w-]+", check_value("an agent's name", new.name, str)):
        raise BadInput(f"{new.name!r} cannot name an agent: use letters, digits, dashes and _.")
    if not re.fullmatch(r"[^<>\x00-\x1f\x7f]+", check_value("an agent's title", new.title, str)):
        raise BadInput(f"the title of agent {new.name} must have no <, > and line breaks.")
    if new.name in _modules() and _built_in(new.name) is not None:
        raise BadInput(f"{new.name} is an agent of bfq: choose another name.")
    registered[new.name] = new
    return new


@dataclasses.dataclass(frozen=True)
class ConfiguredAgent:
    """An agent with values of some hyperparameters, as `bfq.agents.BFQ(eta=0.1)` returns it.

    A list of numbers means that all of them are trained, each with every seed.
    """

    agent: Agent
    values: Mapping[str, Any]

    def with_values(self, **values: Any) -> "ConfiguredAgent":
        """The agent with other values of these hyperparameters, which are checked."""
        new = {name: _checked(self.agent, name, value) for name, value in values.items()}
        return dataclasses.replace(self, values={**self.values, **new})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"{self.agent.name.upper()}({given})"


def _checked(agent: Agent, name: str, value: Any) -> Any:
    """A value, several values of a number, or the widths of several layers as text."""
    several = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else None
    if several is not None and name.endswith("width"):
        value, several = "x".join(map(str, several)), None
    if several is None or name not in numeric_fields(agent.config()):
        return typed(agent, {name: value})[name]
    if not several:
        raise BadInput(f"{name} has no value.")
    return [typed(agent, {name: one})[name] for one in several]


def get_agent(name: str) -> Agent:
    """Return the agent of that name; BadInput names the nearest one."""
    agent = _find(name) or _offered(name)
    if agent is None:
        raise BadInput(
            f"{unknown('agent', name, agent_names())} For an agent in a file: --agent path/to/file.py."
        )
    return agent


def load_agent(chosen: str | Agent) -> Agent:
    """Return the agent that the user chose by object, by name, or by a Python file, which is executed."""
    if isinstance(chosen, Agent):
        return register(chosen) if chosen is not _find(chosen.name) else chosen
    if str(chosen).endswith(".py"):
        return _execute(Path(chosen))
    return get_agent(check_value("agent", chosen, str))


def agent_names() -> list[str]:
    """The names of all agents that `get_agent` finds."""
    own = [name for name in _modules() if _built_in(name) is not None]
    return sorted({*own, *registered, *(point.name for point in entry_points(group=GROUP))})


def _find(name: str) -> Agent | None:
    return registered.get(name) or (_built_in(name) if name in _modules() else None)


def _modules() -> list[str]:
    """The modules of this package, agents and others, without importing them."""
    package = importlib.import_module("bfq.agents")
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


def _built_in(file: str) -> Agent | None:
    """The agent at the end of a module of this package."""
    found: Agent | None = getattr(importlib.import_module(f"bfq.agents.{file}"), "AGENT", None)
    return found


def _offered(name: str) -> Agent | None:
    """The agent that an installed package offers under this name."""
    for point in entry_points(group=GROUP, name=name):
        agent = point.load()
        if not isinstance(agent, Agent) or agent.name != name:
            raise BadInput(f"the entry point {name} of {GROUP} is not an agent of this name.")
        return agent
    return None


def spell_agent(name: str) -> str:
    """What --agent takes for this agent: the file it was loaded from in this process, or its name."""
    return str(_files.get(name, name))


def _execute(file: Path) -> Agent:
    """Import a Python file and register the agent that it defines."""
    if not file.is_file():
        raise BadInput(f"there is no file {file}.")
    module_name, before = f"bfq_agent_{file.stem}", dict(registered)
    loader = SourceFileLoader(module_name, str(file))
    module = types.ModuleType(module_name)
    module.__file__ = str(file)
    sys.modules[module_name] = module
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        raise BadInput(f"{file} is not valid Python, line {error.lineno}: {error.msg}.") from error
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        line = max(
            (at.lineno or 0) for at in extract_tb(error.__traceback__) if at.filename == str(file)
        )
        kind = type(error).__name__
        raise BadInput(f"{file} cannot be imported, line {line}: {kind}: {error}.") from error
    new = [agent for name, agent in registered.items() if before.get(name) is not agent]
    found = [module.AGENT] if isinstance(getattr(module, "AGENT", None), Agent) else new
    if len(found) != 1:
        raise BadInput(
            f"{file} must define one agent, as AGENT = bfq.Agent(…); it has {len(found)}."
        )
    _files[found[0].name] = file.absolute()
    return register(found[0])


IGNORED = {"policy": "has no moving average of its policy", "temperature": "acts without noise"}


def check_acting(agent: Agent, config: Any, acting: Acting) -> None:
    """Refuse an option of acting that the agent does not use."""
    for name in agent.ignores(config):
        default = getattr(Acting(), name)
        if getattr(acting, name) != default:
            raise BadInput(f"{agent.name} {IGNORED[name]}: leave {name} at {default}.")
    if acting.candidates > 1 and not agent.chooses:
        raise BadInput(f"{agent.name} cannot select among candidates: leave candidates at 1.")
    if acting.sampling_steps and not agent.samplers:
        raise BadInput(
            f"{agent.name} acts in a fixed number of network calls: leave sampling_steps at 0."
        )
    if acting.sampler != "trained" and acting.sampler not in agent.samplers:
        raise unknown(f"sampler of {agent.name}", acting.sampler, ["trained", *agent.samplers])


def configure(agent: Agent, values: Mapping[str, Any]) -> Any:
    """The agent's Config with some values replaced; ranges, choices and rules between fields are checked."""
    config = dataclasses.replace(agent.config(), **typed(agent, values))
    check_config(config)
    return config


def check_config(config: Any) -> None:
    """Check the rules between fields: those of the Config's `check`, and of each Config it extends."""
    try:
        for cls in type(config).__mro__:
            vars(cls).get("check", bool)(config)
    except ValueError as error:
        raise BadInput(str(error)) from error


def typed(agent: Agent, values: Mapping[str, Any]) -> dict[str, Any]:
    """Each value as the type of its hyperparameter; rules between fields are not checked."""
    types = field_types(agent.config())
    strange = [name for name in values if name not in types]
    if strange:
        raise unknown(f"hyperparameter of {agent.name}", strange[0], types)
    return {
        name: check_value(f"{agent.name}'s {name}", value, types[name])
        for name, value in values.items()
    }
