"""Weight files of Gaussian policies, and how such a policy acts, in NumPy alone.

Layout: `hidden_{i}_w` (in × out), `hidden_{i}_b`, `mean_w`, `mean_b`, and `log_std_w`, `log_std_b` (a
function of the state) or `log_std` (a vector); optional `obs_mean`, `obs_std`; `meta` is JSON with
`activation` (relu, tanh) and `squash` (tanh, none). A pack of snapshots has the same arrays with a leading
axis, and `meta` has a list `snapshots` of what is known about each.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from bfq.errors import BadInput

Floats = npt.NDArray[np.float32]
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {"relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}
_SQUASHES: dict[str, Callable[[Floats], Floats]] = {"tanh": np.tanh, "none": lambda x: x}


@dataclass(frozen=True)
class Weights:
    """A policy's arrays and what is known about it."""

    arrays: dict[str, Floats]
    meta: dict[str, Any]

    def gaussian(self, observations: Floats) -> tuple[Floats, Floats]:
        """(μ(s), log σ(s)) before the squash."""
        a = self.arrays
        # Ant policies of D4RL's time also take 84 contact forces, which were always 0.
        missing = a["hidden_0_w"].shape[0] - observations.shape[-1]
        x = np.pad(observations, [(0, 0)] * (observations.ndim - 1) + [(0, missing)])
        if "obs_mean" in a:
            spread: Floats = np.maximum(a["obs_std"], 1e-6)  # 0 for numbers that never change
            x = (x - a["obs_mean"]) / spread
        activation = _ACTIVATIONS[self.meta["activation"]]
        for k in range(sum(name.startswith("hidden_") for name in a) // 2):
            x = activation(x @ a[f"hidden_{k}_w"] + a[f"hidden_{k}_b"])
        mean = x @ a["mean_w"] + a["mean_b"]
        log_std = a["log_std"] if "log_std" in a else x @ a["log_std_w"] + a["log_std_b"]
        return mean, np.broadcast_to(np.clip(log_std, -20.0, 2.0), mean.shape)

    def act(self, observations: Floats, rng: np.random.Generator | None = None) -> Floats:
        """squash(μ + σ ε) in [−1, 1]; without random numbers, squash(μ)."""
        mean, log_std = self.gaussian(observations)
        noise = 0.0 if rng is None else np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
        return np.clip(_SQUASHES[self.meta["squash"]](mean + noise), -1.0, 1.0).astype(np.float32)

    def snapshot(self, index: int) -> "Weights":
        """One policy of a pack."""
        shared = {name: value for name, value in self.meta.items() if name != "snapshots"}
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return Weights(arrays, {**shared, **self.meta["snapshots"][index]})


def save(path: Path, weights: Weights) -> None:
    """Writes the arrays in half precision: a tenth of a per cent of a weight is below what actions show."""
    half = {name: array.astype(np.float16) for name, array in weights.arrays.items()}
    with path.open("wb") as file:
        # NumPy types the keywords of savez as its own options.
        np.savez_compressed(file, meta=np.array(json.dumps(weights.meta)), **half)  # type: ignore[arg-type]


def load(path: Path) -> Weights:
    """Reads a policy or a pack; nothing in the file is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name].astype(np.float32) for name in file.files if name != "meta"}
            meta = json.loads(str(file["meta"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise BadInput(f"{path} is no weight file of a policy: {error}") from error
    needed = {"hidden_0_w", "hidden_0_b", "mean_w", "mean_b"}
    if not isinstance(meta, dict) or needed - set(arrays) or not {"log_std", "log_std_w"} & set(arrays):
        raise BadInput(f"{path} is no weight file of a policy: arrays are missing in it.")
    if meta.get("activation") not in _ACTIVATIONS or meta.get("squash") not in _SQUASHES:
        raise BadInput(f"{path} does not say its activation (relu, tanh) and squash (tanh, none).")
    return Weights(arrays, meta)
