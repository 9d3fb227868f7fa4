"""`bfq doctor`: check what works on this machine and what to install for the rest."""

import argparse
import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bfq.cli.words import show_json
from bfq.envs.make import resolve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def _resets(simulator: str, render: bool = False) -> Callable[[], str]:
    def check() -> str:
        from bfq.envs.batch import SerialEnvironments

        one = SerialEnvironments(simulator, [0], 10, render)
        one.reset()
        height, width, _ = one.render().shape if render else (0, 0, 0)
        one.close()
        return f"{width} × {height} pixels" if render else f"{simulator} resets"

    return check


def _free(folder: Path) -> str:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise PermissionError(f"{there} cannot be written to")
    return f"{folder}, {shutil.disk_usage(there).free / 2**30:.1f} GiB free"


def _module(name: str) -> Callable[[], str]:
    return lambda: f"{name} {getattr(importlib.import_module(name), '__version__', '')}".strip()


CHECKS: tuple[tuple[str, Callable[[], str], str], ...] = (
    ("JAX devices", lambda: ", ".join(device.device_kind for device in resolve("jax:devices")()),
     "install jax for your device"),
    ("JAX computes", lambda: f"1 + 1 = {resolve('jax.numpy:add')(1, 1)}", "reinstall jax"),
    ("simulator", _resets("Pendulum-v1"), "pip install gymnasium"),
    ("plots", _module("matplotlib"), "pip install matplotlib"),
    ("disk", lambda: _free(Path.cwd()), "choose another folder"),
    ("data folder", lambda: _free(resolve("bfq.data.store:home")()),
     "choose another with the environment variable BFQ_HOME"),
    ("compiled programs", lambda: resolve("bfq.training.compilation:cache_status")(),
     "set XDG_CACHE_HOME to a folder of your own"),
    ("robots (optional)", _resets("HalfCheetah-v4"), "pip install 'bfq-rl[mujoco]'"),
    ("drawing robots (optional)", _resets("HalfCheetah-v4", render=True),
     "install EGL or OSMesa, such as Debian's libegl1 or libosmesa6"),
    ("OGBench (optional)", _module("ogbench"), "pip install 'bfq-rl[ogbench]'"),
    ("Adroit (optional)", _resets("AdroitHandPen-v1"), "pip install 'bfq-rl[adroit]'"),
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
