"""Agents: the contract, what several of them share, one file per agent, and `BFQ(eta=0.1)` to configure one."""

from importlib import import_module


def __getattr__(name: str) -> object:
    """The function of an agent, such as BFQ; names of modules are not in capitals."""
    if not name.isupper() and name != "with_networks":
        raise AttributeError(f"module 'bfq.agents' has no attribute {name!r}")
    found: object = import_module("bfq.agents.callables").attribute(name)
    return found
