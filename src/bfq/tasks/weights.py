"""Weight files of Gaussian policies, and how such a policy acts, in NumPy alone.

Layout: `hidden_{i}_w` (in × out), `hidden_{i}_b`, `mean_w`, `mean_b`, and `log_std_w`, `log_std_b` (a
function of the state) or `log_std` (a vector); optional `obs_mean`, `obs_std`; `meta` is JSON with
`activation` (relu, tanh) and `squash` (tanh, none). A pack of snapshots has the same arrays with a leading
axis, and `meta` has a list `snapshots` of what is known about each.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.readers.npz import read_arrays
from bfq.errors import BadInput
from bfq.files import write_bytes
from bfq.tasks.layers import check_fit, check_spread, layer, numbers

Floats = npt.NDArray[np.float32]
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
}
_SQUASHES: dict[str, Callable[[Floats], Floats]] = {"tanh": np.tanh, "none": lambda x: x}


@dataclass(frozen=True)
class Weights:
    """A policy's arrays and what is known about it."""

    arrays: dict[str, Floats]
    meta: dict[str, Any]

    @cached_property
    def _hidden(self) -> list[tuple[Floats, Floats]]:
        count = sum(name.startswith("hidden_") for name in self.arrays) // 2
        return [(self.arrays[f"hidden_{k}_w"], self.arrays[f"hidden_{k}_b"]) for k in range(count)]

    @cached_property
    def _head(self) -> tuple[Floats, Floats]:
        """μ and log σ as one layer: a call of a small policy takes as long as the calls of NumPy in it."""
        a = self.arrays
        if "log_std_w" in a:
            return np.hstack([a["mean_w"], a["log_std_w"]]), np.hstack(
                [a["mean_b"], a["log_std_b"]]
            )
        return np.hstack([a["mean_w"], np.zeros_like(a["mean_w"])]), np.hstack(
            [a["mean_b"], a["log_std"]]
        )

    def gaussian(self, observations: Floats) -> tuple[Floats, Floats]:
        """(μ(s), log σ(s)) before the squash."""
        x = observations
        missing = self._hidden[0][0].shape[0] - x.shape[-1]
        if missing:  # Ant policies of D4RL's time also take 84 contact forces, which were always 0
            x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
        if "obs_mean" in self.arrays:
            spread: Floats = np.maximum(
                self.arrays["obs_std"], 1e-6
            )  # 0 for numbers that never change
            x = (x - self.arrays["obs_mean"]) / spread
        activation = _ACTIVATIONS[self.meta["activation"]]
        for weight, bias in self._hidden:
            x = activation(x @ weight + bias)
        both = x @ self._head[0] + self._head[1]
        mean, log_std = both[..., : both.shape[-1] // 2], both[..., both.shape[-1] // 2 :]
        return mean, np.minimum(np.maximum(log_std, -20.0), 2.0)

    def act(self, observations: Floats, rng: np.random.Generator | None = None) -> Floats:
        """squash(μ + σ ε) in [−1, 1]; without random numbers, squash(μ)."""
        mean, log_std = self.gaussian(observations)
        noise: Any = (
            0.0 if rng is None else np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
        )
        action = _SQUASHES[self.meta["squash"]](mean + noise)
        return np.minimum(np.maximum(action, -1.0), 1.0).astype(np.float32)

    def snapshot(self, index: int) -> "Weights":
        """One policy of a pack."""
        shared = {name: value for name, value in self.meta.items() if name != "snapshots"}
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return Weights(arrays, {**shared, **self.meta["snapshots"][index]})


def save(path: Path, weights: Weights) -> None:
    """Writes the arrays in half precision: a tenth of a per cent of a weight is below what actions show."""
    half = {name: array.astype(np.float16) for name, array in weights.arrays.items()}
    image = BytesIO()
    # NumPy types the keywords of savez as its own options.
    np.savez_compressed(image, meta=np.array(json.dumps(weights.meta)), **half)  # type: ignore[arg-type]
    write_bytes(path, image.getvalue())


def load(path: Path) -> Weights:
    """Reads a policy or a pack, and sees that it can act; nothing in the file is executed."""
    try:
        found = read_arrays(path)
        meta = _meta(found.pop("meta"))
        arrays = {name: numbers(name, array) for name, array in found.items()}
        for policy in _policies(arrays, meta):
            _check(policy)
    except BadInput as error:
        raise BadInput(f"{path} is no weight file of a policy: {error}") from error
    except KeyError as error:
        raise BadInput(
            f"{path} is no weight file of a policy: it has no {error.args[0]}."
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is no weight file of a policy: {error}.") from error
    return Weights(arrays, meta)


def _meta(words: npt.NDArray[Any]) -> dict[str, Any]:
    meta = json.loads(str(words))
    if not isinstance(meta, dict):
        raise ValueError("its meta is no JSON object")
    if meta.get("activation") not in _ACTIVATIONS or meta.get("squash") not in _SQUASHES:
        raise ValueError("it does not say its activation (relu, tanh) and squash (tanh, none)")
    return meta


def _policies(arrays: Mapping[str, Floats], meta: Mapping[str, Any]) -> list[Mapping[str, Floats]]:
    """The arrays of the one policy, or those of each in a pack."""
    if "snapshots" not in meta:
        return [arrays]
    facts = meta["snapshots"]
    if not (
        facts
        and isinstance(facts, list)
        and all(a.shape[:1] == (len(facts),) for a in arrays.values())
    ):
        raise ValueError("its arrays are not those of the snapshots it lists")
    return [{name: array[k] for name, array in arrays.items()} for k in range(len(facts))]


def _check(arrays: Mapping[str, Floats]) -> None:
    """Refuses arrays that are no network: missing ones, or shapes that do not fit together."""
    halves = sum(name.startswith("hidden_") for name in arrays)
    names = [*(f"hidden_{k}" for k in range((halves + 1) // 2 or 1)), "mean"]
    layers = [layer(name, arrays[f"{name}_w"], arrays[f"{name}_b"]) for name in names]
    check_fit(layers)
    if "log_std_w" in arrays:
        check_spread(layers[-1], layer("log_std", arrays["log_std_w"], arrays["log_std_b"]))
    else:
        _check_width(arrays, "log_std", len(layers[-1][1]))
    for name in ("obs_mean", "obs_std") if "obs_mean" in arrays else ():
        _check_width(arrays, name, len(layers[0][0]))


def _check_width(arrays: Mapping[str, Floats], name: str, width: int) -> None:
    if arrays[name].shape != (width,):
        raise ValueError(f"{name} has the shape {arrays[name].shape} and not ({width},)")
