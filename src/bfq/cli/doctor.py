"""`bfq doctor`: check what works on this machine and what to install for the rest."""

import argparse
import importlib
import os
import shutil
from collections.abc import Callable
from typing import Any

from bfq.cli.words import show_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def _devices() -> str:
    import jax

    return ", ".join(str(device.device_kind) for device in jax.devices())


def _update() -> str:
    import jax.numpy as jnp

    return f"1 + 1 = {int(jnp.asarray(1) + 1)}"


def _pendulum() -> str:
    from bfq.envs.batch import SerialEnvironments

    simulators = SerialEnvironments("Pendulum-v1", [0], 10)
    simulators.reset()
    simulators.close()
    return "Pendulum-v1 resets"


def _robot() -> str:
    from bfq.envs.robots import Robots

    Robots("HalfCheetah-v4", [0]).close()
    return f"{_module('mujoco')()}, a robot resets"


def _adroit() -> str:
    from bfq.envs.make import make_environment

    make_environment("AdroitHandPen-v1", 100).close()
    return "AdroitHandPen-v1 resets"


def _drawing() -> str:
    from bfq.envs.batch import SerialEnvironments

    simulators = SerialEnvironments("HalfCheetah-v4", [0], 10, render=True)
    simulators.reset()
    height, width, _ = simulators.render().shape
    simulators.close()
    return f"{width} × {height} pixels"


def _data_folder() -> str:
    from bfq.data.store import home

    folder = home()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise PermissionError(f"{there} cannot be written to")
    return f"{folder}, {shutil.disk_usage(there).free / 2**30:.1f} GiB free"


def _compiled() -> str:
    from bfq.training.compilation import cache_status

    return cache_status()


def _disk() -> str:
    free = shutil.disk_usage(".").free / 2**30
    if not os.access(".", os.W_OK):
        raise PermissionError("this folder cannot be written to")
    return f"{free:.1f} GiB free here"


def _module(name: str) -> Callable[[], str]:
    return lambda: f"{name} {getattr(importlib.import_module(name), '__version__', '')}".strip()


CHECKS: tuple[tuple[str, Callable[[], str], str], ...] = (
    ("JAX devices", _devices, "install jax for your device"),
    ("JAX computes", _update, "reinstall jax"),
    ("simulator", _pendulum, "pip install gymnasium"),
    ("plots", _module("matplotlib"), "pip install matplotlib"),
    ("disk", _disk, "choose another folder"),
    ("data folder", _data_folder, "choose another with the environment variable BFQ_HOME"),
    ("compiled programs", _compiled, "set XDG_CACHE_HOME to a folder of your own"),
    ("robots (optional)", _robot, "pip install 'bfq-rl[mujoco]'"),
    ("drawing robots (optional)", _drawing,
     "install EGL or OSMesa, such as Debian's libegl1 or libosmesa6"),
    ("OGBench (optional)", _module("ogbench"), "pip install 'bfq-rl[ogbench]'"),
    ("Adroit (optional)", _adroit, "pip install 'bfq-rl[adroit]'"),
    ("Parquet (optional)", _module("pyarrow"), "pip install 'bfq-rl[parquet]'"),
    ("ONNX files (optional)", _module("onnx"), "pip install 'bfq-rl[onnx]'"),
    ("video (optional)", _module("imageio_ffmpeg"), "pip install 'bfq-rl[video]'"),
    ("TensorBoard (optional)", _module("tensorboardX"), "pip install 'bfq-rl[tensorboard]'"),
    ("W&B (optional)", _module("wandb"), "pip install 'bfq-rl[wandb]'"),
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run every check; the exit code is 1 if one that is not optional fails."""
    from bfq.run import versions

    findings: list[dict[str, Any]] = []
    for name, check, remedy in CHECKS:
        try:
            findings.append({"check": name, "works": True, "says": check()})
        except Exception as error:  # noqa: BLE001 - any failure is a result
            findings.append({"check": name, "works": False, "says": f"{error}: {remedy}"})
    well = all(f["works"] for f in findings if "optional" not in f["check"])
    if args.json:
        show_json({"well": well, "findings": findings, "versions": versions()})
        return 0 if well else 1
    for finding in findings:
        print(f"{'✓' if finding['works'] else '✗'} {finding['check']:26} {finding['says']}")
    print("versions: " + ", ".join(f"{name} {number}" for name, number in versions().items()))
    return 0 if well else 1
