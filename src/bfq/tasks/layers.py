"""Layers of a policy as a file gives them: finite numbers, in shapes that fit together.

What is wrong is said in a ValueError, whose words go into the sentence about the file.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Layer = tuple[Floats, Floats]  # weight (in × out), bias


def numbers(name: str, array: npt.NDArray[Any]) -> Floats:
    """An array in single precision, finite even so."""
    if array.dtype.kind != "f":
        raise ValueError(f"{name} does not hold floating-point numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        single = array.astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError(f"{name} holds NaN or an infinite value")
    return single


def layer(name: str, weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> Layer:
    """A matrix and a vector."""
    if (weight.ndim, bias.ndim) != (2, 1):
        raise ValueError(f"{name} is not a matrix and a vector of numbers")
    return numbers(name, weight), numbers(name, bias)


def fit(layers: Sequence[Layer]) -> bool:
    """Whether each layer takes what the one before it gives."""
    inputs = [layers[0][0].shape[0], *(len(bias) for _, bias in layers)]
    return all(weight.shape == (inputs[k], len(bias)) for k, (weight, bias) in enumerate(layers))


def check_fit(layers: Sequence[Layer]) -> None:
    """Refuses layers that do not chain."""
    if not fit(layers):
        raise ValueError("the shapes of its layers do not fit together")


def check_spread(mean: Layer, log_std: Layer) -> None:
    """Refuses a layer of log σ that is not beside the layer of the mean."""
    if any(ours.shape != theirs.shape for ours, theirs in zip(log_std, mean, strict=True)):
        raise ValueError("the layer of its log σ does not fit that of its mean")
