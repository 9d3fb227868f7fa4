"""Agents as functions with their hyperparameters as keywords: `BFQ(eta=0.1, width=256)`.

`__init__.pyi` holds the same signatures for editors; `python -m tools.agent_stub` writes it.
"""

import inspect
from typing import Any

from bfq.agents.contract import Agent, Spec
from bfq.agents.describe import hyperparameters_of, one_line, with_choices
from bfq.agents.fields import field_types
from bfq.agents.registry import ConfiguredAgent, agent_names, get_agent, load_agent
from bfq.errors import BadInput
from bfq.nets.own import use_own


def callable_names() -> dict[str, str]:
    """The name of each agent by that of its function, which is in capitals."""
    return {name.upper(): name for name in agent_names() if name.isidentifier()}


def attribute(name: str) -> Any:
    """The function of an agent, or `with_networks`."""
    if name == "with_networks":
        return with_networks
    known = callable_names()
    if name not in known:
        raise AttributeError(f"module 'bfq.agents' has no attribute {name!r}")
    return function_of(get_agent(known[name]))


def function_of(agent: Agent) -> Any:
    """A function that configures an agent; its signature and its docstring list the hyperparameters."""

    def configured(**values: Any) -> ConfiguredAgent:
        return ConfiguredAgent(agent, {}).with_values(**values)

    configured.__name__ = configured.__qualname__ = agent.name.upper()
    configured.__module__ = "bfq.agents"
    configured.__doc__ = documentation(agent)
    configured.__signature__ = signature(agent)  # type: ignore[attr-defined]
    return configured


def signature(agent: Agent) -> inspect.Signature:
    """Every hyperparameter as a keyword with its type and its default."""
    default, keyword = agent.config(), inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=getattr(default, name), annotation=kind)
        for name, kind in field_types(default).items()
    ]
    return inspect.Signature(parameters, return_annotation=ConfiguredAgent)


def documentation(agent: Agent) -> str:
    """The idea of an agent, and each hyperparameter."""
    rows = [
        f"    {row.name}: {with_choices(row.meaning, row.choices) or row.name}."
        for row in hyperparameters_of(agent)
    ]
    return "\n".join([one_line(agent), "", "Args:", *rows])


def with_networks(
    agent: str | Agent, name: str, *, policy: Any = None, critic: Any = None
) -> Agent:
    """The agent under another name with networks of one's own, each made by `(key, inputs, outputs)`.

    A network is an Equinox module that maps one vector to another, such as `equinox.nn.MLP`.
    """
    old = load_agent(agent)
    networks = {k: v for k, v in (("policy", policy), ("critic", critic)) if v is not None}

    def init(key: Any, spec: Spec, config: Any) -> Any:
        with use_own(networks) as built:
            state = old.init(key, spec, config)
        for place in networks.keys() - built:
            raise BadInput(f"{old.name} has no {place} that can be replaced.")
        return state

    return old._replace(name=name, title=f"{old.title} with own networks", init=init)
