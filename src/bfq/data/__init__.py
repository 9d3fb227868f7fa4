"""Transitions: one type, where they come from, and what is done to them before learning."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfq.data.dataset import Dataset, from_arrays, from_episodes
    from bfq.data.sources import load_dataset

_HOMES = {
    "Dataset": "dataset",
    "from_arrays": "dataset",
    "from_episodes": "dataset",
    "load_dataset": "sources",
}

__all__ = ["Dataset", "from_arrays", "from_episodes", "load_dataset"]


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: processes that make data need none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bfq.data' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bfq.data.{_HOMES[name]}"), name)
