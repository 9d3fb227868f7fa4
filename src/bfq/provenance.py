"""The versions of everything a number depends on, and names that depend on settings."""

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Hyperparameters that came later, each with the value that changes nothing.
ADDED = {"squares": "mean", "composition_weight": 1.0}

PACKAGES = (
    "bfq-rl",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numpy",
    "gymnasium",
    "mujoco",
    "ogbench",
    "gymnasium-robotics",
)


def versions() -> dict[str, str]:
    """Python, the platform, and the packages that are installed."""
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def place(runs: Path, words: str, settings: dict[str, Any]) -> Path:
    """The folder of some work: other settings, another folder."""
    stem = words.replace("/", "-").replace(" ", "-")
    return runs / f"{stem}-{fingerprint(settings)}"


def fingerprint(settings: dict[str, Any]) -> str:
    """A short name of settings: others have another.

    What is off (0, False, None, nothing, or a word as it was before there was a choice) is left out. A switch
    that is added later and is off changes nothing of what runs before it have found: it changes no name.
    """
    told = json.dumps(_that_are_on(settings), sort_keys=True, default=list)
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def _that_are_on(settings: dict[str, Any]) -> dict[str, Any]:
    told = {k: _that_are_on(v) if isinstance(v, dict) else v for k, v in settings.items()}
    return {name: value for name, value in told.items() if value and value != ADDED.get(name)}
