"""Packages that are imported only when something needs them."""

import ctypes
import importlib
import os
import sys
from contextlib import suppress
from typing import Any

from bfq.errors import BadInput


def package(name: str, extra: str) -> Any:
    """An optional package, or a sentence about the extra that brings it."""
    choose_graphics()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(f"this needs {name}: pip install 'bfq-rl[{extra}]'.") from error


def choose_graphics() -> None:
    """Pictures go to files, so no screen is needed: settled here, since MuJoCo looks once, when imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("MUJOCO_GL"):
        return
    for backend, library in (("egl", "libEGL.so.1"), ("osmesa", "libOSMesa.so.8")):
        with suppress(OSError):
            ctypes.CDLL(library)
            os.environ["MUJOCO_GL"] = backend
            return
