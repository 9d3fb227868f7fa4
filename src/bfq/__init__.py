"""bfq: expressive one-step policies from logged data.

Bootstrapped Flow Q-Learning and the methods it is compared with, on one data type, under one evaluation
protocol, trained as one compiled program.
"""

from typing import Any

__version__ = "0.1.0"

# The module of each public name; __init__.pyi has the same names for type checkers.
_HOMES = {
    "train": "bfq.api",
    "fit": "bfq.api",
    "Fit": "bfq.api",
    "finetune": "bfq.api",
    "sweep": "bfq.api",
    "Sweep": "bfq.api",
    "plan": "bfq.api",
    "evaluate": "bfq.results",
    "report": "bfq.results",
    "Result": "bfq.results",
    "load_result": "bfq.results",
    "Frame": "bfq.results",
    "Progress": "bfq.training.loop",
    "Stopped": "bfq.training.loop",
    "Diverged": "bfq.training.monitoring",
    "patience": "bfq.hooks",
    "export": "bfq.deploy.export",
    "Dataset": "bfq.data.dataset",
    "from_arrays": "bfq.data.arrays",
    "from_episodes": "bfq.data.arrays",
    "load_dataset": "bfq.tasks.sources",
    "Policy": "bfq.evaluation.policy",
    "load_policy": "bfq.results",
    "BadInput": "bfq.errors",
    "versions": "bfq.run",
    "Agent": "bfq.agents.contract",
    "Batch": "bfq.agents.contract",
    "Spec": "bfq.agents.contract",
    "Acting": "bfq.agents.contract",
    "hyperparameters": "bfq.agents.fields",
    "register": "bfq.agents.registry",
}
# Packages with formulas, statistics and facts that others may build on.
PACKAGES = (
    "agents",
    "bench",
    "data",
    "evaluators",
    "flow",
    "nets",
    "progress",
    "reports",
    "tasks",
    "training",
)

__all__ = sorted([*_HOMES, *PACKAGES])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `bfq --help` does not wait for JAX."""
    from importlib import import_module

    if name in PACKAGES:
        return import_module(f"bfq.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'bfq' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, imported or not: a console completes them."""
    return __all__
