"""Gaussian policies in NumPy: acting, weight files, and the policies in D4RL's files.

A weight file has `hidden_{i}_w` (in × out), `hidden_{i}_b`, `mean_w`, `mean_b`, and `log_std_w`, `log_std_b`
(a function of the state) or `log_std` (a vector); optionally `obs_mean`, `obs_std`; `meta` is JSON with
`activation` (relu, tanh) and `squash` (tanh, none). A pack of snapshots has the same arrays with a leading
axis, and `meta` lists facts about each of its `snapshots`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from bfq.data.dataset import Column, Floats
from bfq.data.readers.binary import hdf5_names, read_hdf5, read_npz
from bfq.errors import BadInput

Layer = tuple[Floats, Floats]  # weight (in × out), bias
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
}
_SQUASHES: dict[str, Callable[[Floats], Floats]] = {"tanh": np.tanh, "none": lambda x: x}
STORED = "metadata/policy/"  # where D4RL's files have their policy
STORED_FACTS = ("algorithm", "iteration")
STORED_SQUASHES = {"tanh_gaussian": "tanh", "gaussian": "none", "deterministic": "none"}
STORED_CHOICES: dict[str, Mapping[str, Any]] = {
    "nonlinearity": _ACTIVATIONS,
    "output_distribution": STORED_SQUASHES,
}
LOG_STD = (-20.0, 2.0)  # the range of log σ


@dataclass(frozen=True)
class GaussianPolicy:
    """The arrays of a policy, and facts about it."""

    arrays: dict[str, Floats]
    meta: dict[str, Any]

    @cached_property
    def _hidden(self) -> list[Layer]:
        layers = sum(name.startswith("hidden_") for name in self.arrays) // 2
        return [(self.arrays[f"hidden_{k}_w"], self.arrays[f"hidden_{k}_b"]) for k in range(layers)]

    @cached_property
    def _head(self) -> Layer:
        """μ and log σ as one layer: the time of a small policy is the number of NumPy calls."""
        a = self.arrays
        weight, bias = a.get("log_std_w"), a.get("log_std_b")
        if weight is None or bias is None:
            weight, bias = np.zeros_like(a["mean_w"]), a["log_std"]
        return np.hstack([a["mean_w"], weight]), np.hstack([a["mean_b"], bias])

    def gaussian(self, observations: Floats) -> tuple[Floats, Floats]:
        """(μ(s), log σ(s)) before the squash."""
        x = observations
        missing = self._hidden[0][0].shape[0] - x.shape[-1]
        if missing:  # D4RL's Ant policies also take 84 contact forces, which were always 0
            x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
        if "obs_mean" in self.arrays:
            std: Floats = np.maximum(self.arrays["obs_std"], 1e-6)  # 0 where nothing varies
            x = (x - self.arrays["obs_mean"]) / std
        activation = _ACTIVATIONS[self.meta["activation"]]
        for weight, bias in self._hidden:
            x = activation(x @ weight + bias)
        both = x @ self._head[0] + self._head[1]
        mean, log_std = both[..., : both.shape[-1] // 2], both[..., both.shape[-1] // 2 :]
        return mean, np.minimum(np.maximum(log_std, LOG_STD[0]), LOG_STD[1])

    def act(self, observations: Floats, rng: np.random.Generator | None = None) -> Floats:
        """squash(μ + σ ε) in [−1, 1]; without random numbers, squash(μ)."""
        mean, log_std = self.gaussian(observations)
        if rng is not None:
            mean += np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
        action = _SQUASHES[self.meta["squash"]](mean)
        return np.minimum(np.maximum(action, -1.0), 1.0).astype(np.float32)

    def snapshot(self, index: int) -> "GaussianPolicy":
        """One policy of a pack."""
        shared = {name: value for name, value in self.meta.items() if name != "snapshots"}
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return GaussianPolicy(arrays, {**shared, **self.meta["snapshots"][index]})


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Turn whatever a damaged file causes into one sentence."""
    try:
        yield
    except KeyError as error:
        raise BadInput(f"{what}: it has no {error.args[0]}.") from error
    except (BadInput, ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{what}: {str(error).removesuffix('.')}.") from error


def load_weights(path: Path) -> GaussianPolicy:
    """Read a policy or a pack and check that it can act; nothing in the file is executed."""
    with _refused(f"{path} is not a weight file of a policy"):
        found = read_npz(path)
        meta = json.loads(str(found.pop("meta")))
        if not isinstance(meta, dict):
            raise ValueError("its meta is not a JSON object")
        if meta.get("activation") not in _ACTIVATIONS or meta.get("squash") not in _SQUASHES:
            raise ValueError("it does not name its activation (relu, tanh) and squash (tanh, none)")
        policy = GaussianPolicy({name: _numbers(name, found[name]) for name in found}, meta)
        for one in _policies(policy):
            _check(one.arrays)
    return policy


def _policies(policy: GaussianPolicy) -> list[GaussianPolicy]:
    """The policy, or those in a pack."""
    if "snapshots" not in policy.meta:
        return [policy]
    facts = policy.meta["snapshots"]
    if not facts or not isinstance(facts, list):
        raise ValueError("its list of snapshots is empty")
    if any(array.shape[:1] != (len(facts),) for array in policy.arrays.values()):
        raise ValueError("its arrays do not match its list of snapshots")
    return [policy.snapshot(k) for k in range(len(facts))]


def _check(arrays: Mapping[str, Floats]) -> None:
    """Check that no array is missing and that the shapes fit together."""
    layers = [_layer(name, arrays[f"{name}_w"], arrays[f"{name}_b"]) for name in _names(arrays)]
    if not _chains(layers):
        raise ValueError("the shapes of its layers do not fit together")
    outputs = layers[-1][1].shape
    if "log_std_w" in arrays:
        log_std = _layer("log_std", arrays["log_std_w"], arrays["log_std_b"])
        if any(one.shape != other.shape for one, other in zip(log_std, layers[-1], strict=True)):
            raise ValueError("the layer of its log σ does not fit that of its mean")
    vectors = {} if "log_std_w" in arrays else {"log_std": outputs}
    if "obs_mean" in arrays:
        vectors |= dict.fromkeys(("obs_mean", "obs_std"), layers[0][0].shape[:1])
    for name, shape in vectors.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape} and not {shape}")


def _names(arrays: Mapping[str, Floats]) -> list[str]:
    """The layers up to the mean."""
    halves = sum(name.startswith("hidden_") for name in arrays)
    return [*(f"hidden_{k}" for k in range((halves + 1) // 2 or 1)), "mean"]


def _numbers(name: str, array: Column) -> Floats:
    if array.dtype.kind != "f":
        raise ValueError(f"{name} does not hold floating-point numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        single = array.astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError(f"{name} holds NaN or an infinite value")
    return single


def _layer(name: str, weight: Column, bias: Column) -> Layer:
    if (weight.ndim, bias.ndim) != (2, 1):
        raise ValueError(f"{name} is not a matrix and a vector of numbers")
    return _numbers(name, weight), _numbers(name, bias)


def _chains(layers: Sequence[Layer]) -> bool:
    """Whether each layer takes what the previous layer returns."""
    inputs = [layers[0][0].shape[0], *(len(bias) for _, bias in layers)]
    return all(weight.shape == (inputs[k], len(bias)) for k, (weight, bias) in enumerate(layers))


def read_stored_policy(path: Path) -> GaussianPolicy:
    """Read the policy that collected a D4RL file, which the file stores beside its data."""
    names = [name for name in hdf5_names(path) if name.startswith(STORED)]
    if not names:
        raise BadInput(f"{path.name} stores no policy: only files that one policy collected do.")
    facts = {f"metadata/{fact}": fact for fact in STORED_FACTS}
    arrays = read_hdf5(path, [*names, *facts, "infos/action_log_std"])
    with _refused(f"the policy stored in {path.name} cannot be read"):
        activation, output = (str(arrays[STORED + name]) for name in STORED_CHOICES)
        for (name, known), value in zip(STORED_CHOICES.items(), (activation, output), strict=True):
            if value not in known:
                raise ValueError(f"its {name} is {value!r}, and only {', '.join(known)} are known")
        weights = _stored_weights(arrays, output == "deterministic")
        _check(weights)
        _replace_repeated_mean(weights, arrays)
    meta = {
        "activation": activation,
        "squash": STORED_SQUASHES[output],
        "source": f"policy stored in {path.name}",
    }
    known = {fact: arrays[name] for name, fact in facts.items() if name in arrays}
    meta |= {fact: value.item() for fact, value in known.items() if value.ndim == 0}
    return GaussianPolicy(weights, meta)


def _stored_weights(arrays: Mapping[str, Column], deterministic: bool) -> dict[str, Floats]:
    """The layers fc0, fc1, …, last_fc and last_fc_log_std under the names of weight files."""
    hidden = takewhile(lambda name: f"{STORED}{name}/weight" in arrays, (f"fc{k}" for k in count()))
    layers = {**{f"hidden_{k}": name for k, name in enumerate(hidden)}, "mean": "last_fc"}
    if not deterministic:
        layers["log_std"] = "last_fc_log_std"
    weights: dict[str, Floats] = {}
    for name, stored in layers.items():
        weight, bias = (arrays[f"{STORED}{stored}/{part}"] for part in ("weight", "bias"))
        weights[f"{name}_w"], weights[f"{name}_b"] = _layer(stored, weight, bias)
    turned = {name: array.T for name, array in weights.items()}  # SAC's files store (out × in)
    if _chains([(turned[f"{name}_w"], turned[f"{name}_b"]) for name in _names(turned)]):
        weights = turned
    if deterministic:
        weights["log_std"] = np.full(len(weights["mean_b"]), LOG_STD[0], np.float32)
    return weights


def _replace_repeated_mean(weights: dict[str, Floats], arrays: Mapping[str, Column]) -> None:
    """Adroit's expert files store the mean layer twice; their data has log σ in every row."""
    pairs = [(f"log_std_{part}", f"mean_{part}") for part in "wb"]
    if not all(a in weights and np.array_equal(weights[a], weights[b]) for a, b in pairs):
        return
    column = arrays.get("infos/action_log_std", np.zeros(0))
    if column.shape[1:] != weights["mean_b"].shape or not len(column) or np.ptp(column, 0).any():
        raise ValueError(
            "the layer of its log σ repeats the mean, and the data has no single log σ"
        )
    del weights["log_std_w"], weights["log_std_b"]
    weights["log_std"] = column[0].astype(np.float32)
