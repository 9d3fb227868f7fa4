"""bfq: expressive one-step policies from logged data.

Bootstrapped Flow Q-Learning and the methods it is compared with, on one data type, under one evaluation
protocol, trained as one compiled program.
"""

from typing import Any

__version__ = "0.1.0"

# The public names of each module; __init__.pyi has the same names for type checkers.
_NAMES = {
    "api": ("train", "fit", "Fit", "finetune", "sweep", "Sweep", "plan"),
    "results": ("evaluate", "report", "Result", "load_result", "load_policy", "Frame"),
    "training.loop": ("Progress", "Stopped"),
    "training.monitoring": ("Diverged",),
    "hooks": ("patience",),
    "offline.evaluate": ("evaluate_offline",),
    "deploy.export": ("export",),
    "data.dataset": ("Dataset",),
    "data.arrays": ("from_arrays", "from_episodes"),
    "tasks.sources": ("load_dataset",),
    "evaluation.policy": ("Policy",),
    "errors": ("BadInput",),
    "run": ("versions",),
    "agents.contract": ("Agent", "Batch", "Spec", "Acting"),
    "agents.fields": ("hyperparameters",),
    "agents.registry": ("register",),
}
_HOMES = {name: f"bfq.{module}" for module, names in _NAMES.items() for name in names}
# Packages with formulas, statistics and facts that others may build on.
PACKAGES = (
    "agents", "bench", "data", "evaluators", "flow", "nets", "progress", "reports", "tasks",
    "training",
)  # fmt: skip

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
