"""The versions of everything a number depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

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
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
