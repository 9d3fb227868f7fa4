"""The policy that collected a D4RL file, which the file keeps beside its data as metadata/policy."""

from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.readers.hdf5 import names_in, read_arrays
from bfq.errors import BadInput
from bfq.tasks.layers import Layer, check_fit, check_spread, fit, layer
from bfq.tasks.weights import Weights

PLACE = "metadata/policy/"
WORDS = ("algorithm", "iteration")  # what else the file says about the policy
ACTIVATIONS = ("relu", "tanh")
SQUASHES = {"tanh_gaussian": "tanh", "gaussian": "none", "deterministic": "none"}
NO_SPREAD = -20.0  # log σ of a policy without noise: the least that Weights takes

Arrays = dict[str, npt.NDArray[Any]]


def stored_policy(path: Path) -> Weights:
    """The policy stored in a D4RL file, with what the file says about it."""
    names = [name for name in names_in(path) if name.startswith(PLACE)]
    if not names:
        raise BadInput(f"{path.name} stores no policy: only files that one policy collected do.")
    arrays = read_arrays(
        path, [*names, *(f"metadata/{word}" for word in WORDS), "infos/action_log_std"]
    )
    try:
        activation, squash = _kind(arrays)
        (*hidden, mean), turned = _layers(arrays)
        weights = {f"hidden_{k}_w": weight for k, (weight, _) in enumerate(hidden)}
        weights |= {f"hidden_{k}_b": bias for k, (_, bias) in enumerate(hidden)}
        weights |= {"mean_w": mean[0], "mean_b": mean[1], **_spread(arrays, mean, turned)}
    except KeyError as error:
        raise BadInput(f"the policy stored in {path.name} has no {error.args[0]}.") from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"the policy stored in {path.name} cannot be read: {error}.") from error
    told = {word: arrays[f"metadata/{word}"] for word in WORDS if f"metadata/{word}" in arrays}
    about = {word: value.item() for word, value in told.items() if value.ndim == 0}
    source = f"policy stored in {path.name}"
    return Weights(weights, {"activation": activation, "squash": squash, "source": source, **about})


def _kind(arrays: Arrays) -> tuple[str, str]:
    activation, output = (
        str(arrays[PLACE + word]) for word in ("nonlinearity", "output_distribution")
    )
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"its activation is {activation!r}, and only {', '.join(ACTIVATIONS)} are known"
        )
    if output not in SQUASHES:
        raise ValueError(f"its output is {output!r}, and only {', '.join(SQUASHES)} are known")
    return activation, SQUASHES[output]


def _layers(arrays: Arrays) -> tuple[list[Layer], bool]:
    """fc0, fc1, … and last_fc, and whether they had to be turned: SAC's files store (out × in)."""
    hidden = takewhile(lambda name: f"{PLACE}{name}/weight" in arrays, (f"fc{k}" for k in count()))
    stored = [_layer(arrays, name) for name in (*hidden, "last_fc")]
    turned = [(weight.T, bias) for weight, bias in stored]
    if fit(turned):
        return turned, True
    check_fit(stored)
    return stored, False


def _layer(arrays: Arrays, name: str) -> Layer:
    return layer(name, arrays[f"{PLACE}{name}/weight"], arrays[f"{PLACE}{name}/bias"])


def _spread(arrays: Arrays, mean: Layer, turned: bool) -> Arrays:
    """log σ: a layer, a vector, or as small as can be where the policy is deterministic."""
    if str(arrays[f"{PLACE}output_distribution"]) == "deterministic":
        return {"log_std": np.full(len(mean[1]), NO_SPREAD, np.float32)}
    weight, bias = _layer(arrays, "last_fc_log_std")
    weight = weight.T if turned else weight
    check_spread(mean, (weight, bias))
    if not (np.array_equal(weight, mean[0]) and np.array_equal(bias, mean[1])):
        return {"log_std_w": weight, "log_std_b": bias}
    # Adroit's expert files hold the layer of the mean twice; the data tells log σ, one vector for all states.
    column = arrays.get("infos/action_log_std", np.zeros(0))
    if column.shape[1:] != bias.shape or len(column) == 0 or np.ptp(column, axis=0).any():
        raise ValueError(
            "in place of log σ it has the mean again, and the data does not tell log σ"
        )
    return {"log_std": column[0].astype(np.float32)}
