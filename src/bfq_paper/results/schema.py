"""Checks of the JSON that experiments read back: which keys an object must have, and their types."""

import math
from types import NoneType
from typing import Any

from bfq.errors import BadInput
from bfq.run import Numbers

NUMBER, MAYBE = (int, float), (int, float, NoneType)
RESULT: dict[str, Any] = {  # what result.json must hold; more is welcome
    "task": str,
    "agent": str,
    "title": str,
    "steps": int,
    "members": list,
    "scores": (dict, NoneType),
    "protocol": {
        "episodes": int,
        "seed": int,
        "checkpoint": str,
        "candidates": int,
        "selection": str,
        "softmax_weight": MAYBE,
        "temperature": NUMBER,
        "policy": str,
    },
    "data": {
        "name": str,
        "source": str,
        "sha256": (str, NoneType),
        "transitions": int,
        "episodes": (int, NoneType),
        "return_mean": MAYBE,
        "return_std": MAYBE,
        "return_max": MAYBE,
        "normalized_mean": MAYBE,
    },
    "transforms": dict,
    "reference": (dict, NoneType),
    "versions": dict,
    "device": str,
    "train_seconds": NUMBER,
    "microseconds_per_step": NUMBER,
    "config": dict,
    "command": str,
}
WORLD: dict[str, Any] = {"simulator": (str, NoneType), "episode_steps": (int, NoneType)}
MEMBER = {"seed": int, "overrides": dict}


def require(value: Any, schema: dict[str, Any], where: str, inside: str = "") -> None:
    """Refuses an object that lacks a key of the schema or has another type there."""
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {inside}expected an object, found {type(value).__name__}.")
    for name, kind in schema.items():
        if name not in value:
            raise BadInput(
                f"{where} lacks {inside}{name!r}: it was not written by this version of bfq."
            )
        if isinstance(kind, dict):
            require(value[name], kind, where, f"{inside}{name}: ")
        elif not isinstance(value[name], kind):
            raise BadInput(f"{where}: {inside}{name!r} cannot be a {type(value[name]).__name__}.")


def numbers(values: Any, count: int, where: str) -> Numbers:
    """A list of numbers or nulls, one a member; refuses anything else."""
    if not isinstance(values, list) or not all(isinstance(value, MAYBE) for value in values):
        raise BadInput(f"{where} is not a list of numbers.")
    if len(values) != count:
        raise BadInput(f"{where} has {len(values)} numbers for {count} members.")
    return [float(v) if v is not None and math.isfinite(v) else None for v in values]
