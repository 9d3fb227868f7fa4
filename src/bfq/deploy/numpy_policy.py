"""An exported policy on NumPy alone: copy this file beside `policy.npz` to a machine without bfq or JAX.

    from numpy_policy import load
    policy = load("policy.npz")
    action = policy(observation)  # both in the units of the log

Nothing in the file is executed: it holds plain arrays and one JSON text, and every size is checked
before memory is allocated. One observation is fastest with one thread: OPENBLAS_NUM_THREADS=1.
"""

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.lib.format as npy
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
FORMAT = "bfq-policy-1"
LARGEST = 2**28  # bytes of a policy file
MOST_LAYERS = 64
OUTPUTS = ("plain", "tanh", "noise_minus")  # y | tanh(y) | noise − y
VECTORS = ("observation_mean", "observation_std", "action_low", "action_high")


def _constant(value: float) -> Floats:
    """A zero-dimensional array: ufuncs take it several times faster than a Python number."""
    return np.array(value, np.float32)


_ZERO, _HALF, _ONE, _TWO = map(_constant, (0.0, 0.5, 1.0, 2.0))
_MOST, _LEAST = _constant(20.0), _constant(-80.0)  # bounds of exponents: powers stay finite
_ROOT, _CUBE = _constant(math.sqrt(2.0 / math.pi)), _constant(0.044715 * math.sqrt(2.0 / math.pi))


def _none(x: Floats, a: Floats, b: Floats) -> None:
    """Activation of the last layer."""


def _relu(x: Floats, a: Floats, b: Floats) -> None:
    np.maximum(x, _ZERO, out=x)


def _tanh(x: Floats, a: Floats, b: Floats) -> None:
    np.tanh(x, out=x)


def _mish(x: Floats, a: Floats, b: Floats) -> None:
    """X · n / (n + 2), n = e(e + 2), e = exp(x)."""
    np.minimum(x, _MOST, out=a)
    np.exp(a, out=a)
    np.add(a, _TWO, out=b)
    np.multiply(a, b, out=a)
    np.add(a, _TWO, out=b)
    np.divide(a, b, out=a)
    np.multiply(x, a, out=x)


def _silu(x: Floats, a: Floats, b: Floats) -> None:
    """X / (1 + exp(−x))."""
    np.maximum(x, _LEAST, out=a)
    np.negative(a, out=a)
    np.exp(a, out=a)
    np.add(a, _ONE, out=a)
    np.divide(x, a, out=x)


def _gelu(x: Floats, a: Floats, b: Floats) -> None:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    np.multiply(x, x, out=a)
    np.multiply(a, _CUBE, out=a)
    np.add(a, _ROOT, out=a)
    np.multiply(a, x, out=a)
    np.tanh(a, out=a)
    np.add(a, _ONE, out=a)
    np.multiply(a, _HALF, out=a)
    np.multiply(x, a, out=x)


# Each works in place on x, with two scratch arrays of the same shape.
ACTIVATIONS: dict[str, Callable[[Floats, Floats, Floats], None]] = {
    "none": _none,
    "relu": _relu,
    "tanh": _tanh,
    "mish": _mish,
    "silu": _silu,
    "gelu": _gelu,
}


class _Pass:
    """The arrays of one call of the network, for one observation or for a batch."""

    def __init__(self, leading: tuple[int, ...], observations: int, layers: list[Any]):
        self.input = np.empty((*leading, layers[0][0].shape[0]), np.float32)
        self.observation = self.input[..., :observations]
        self.noise = self.input[..., observations:]
        self.layers = [
            (weight, bias, ACTIVATIONS[name], *np.empty((3, *leading, len(bias)), np.float32))
            for weight, bias, name in layers
        ]


class NumpyPolicy:
    """An exported policy: call it with one observation, or a batch.

    `metadata` describes its origin. Not thread-safe: it reuses its own arrays.
    """

    def __init__(self, arrays: dict[str, Floats], metadata: dict[str, Any], seed: int | None = 0):
        _check(arrays, metadata)
        self.metadata = metadata
        self.temperature = float(metadata["temperature"])
        self.observation_dim = len(arrays["observation_mean"])
        self.action_dim = len(arrays["action_low"])
        self.noise_dim = int(metadata["noise_dim"])
        self._mean, self._std, self._low, self._high = (arrays[name] for name in VECTORS)
        self._half = np.float32(0.5) * (self._high - self._low)
        self._middle = self._low + self._half
        self._output, self._random = metadata["output"], np.random.default_rng(seed)
        # Contiguous rows per input, so that the product is a sum of contiguous rows.
        self._layers = [
            (np.ascontiguousarray(arrays[f"weight_{k}"]), arrays[f"bias_{k}"], name)
            for k, name in enumerate(metadata["activations"])
        ]
        self._single = _Pass((), self.observation_dim, self._layers)

    def __repr__(self) -> str:
        agent, task, update = (self.metadata.get(name, "?") for name in ("agent", "task", "update"))
        sizes = f"observations {self.observation_dim}, actions {self.action_dim}"
        return (
            f"NumpyPolicy({agent!r} on {task!r}, update {update!r}: {sizes}; "
            f"temperature {self.temperature:g})"
        )

    def __call__(
        self,
        observation: npt.ArrayLike,
        noise: npt.ArrayLike | None = None,
        out: Floats | None = None,
    ) -> Floats:
        """Return the action, or one row of actions per row of observations.

        `noise` replaces the draw from N(0, I), with `noise_dim` numbers per action, and is multiplied
        by the temperature. `out` receives the action instead of a new array.
        """
        given = np.asarray(observation, np.float32)
        if given.ndim not in (1, 2) or given.shape[-1] != self.observation_dim:
            raise ValueError(
                f"an observation has {self.observation_dim} numbers, but this has shape {given.shape}."
            )
        if not np.isfinite(given).all():
            raise ValueError("an observation holds a number that is not finite (NaN or infinite).")
        arrays = self._single
        if given.ndim == 2:
            arrays = _Pass(given.shape[:1], self.observation_dim, self._layers)
        if self.noise_dim:
            self._fill_noise(arrays.noise, noise)
        np.subtract(given, self._mean, out=arrays.observation)
        np.divide(arrays.observation, self._std, out=arrays.observation)
        if out is None:
            out = np.empty((*given.shape[:-1], self.action_dim), np.float32)
        return self._forward(arrays, out)

    def _fill_noise(self, place: Floats, noise: npt.ArrayLike | None) -> None:
        if noise is not None:
            given = np.asarray(noise, np.float32)
            if given.shape != place.shape:
                raise ValueError(f"the noise for this has shape {place.shape}, not {given.shape}.")
        else:
            given = self._random.standard_normal(place.shape, np.float32)
        np.multiply(given, self.temperature, out=place)

    def _forward(self, arrays: _Pass, action: Floats) -> Floats:
        x = arrays.input
        for weight, bias, activate, y, a, b in arrays.layers:
            np.dot(x, weight, out=y)
            np.add(y, bias, out=y)
            activate(y, a, b)
            x = y
        if self._output == "noise_minus":
            np.subtract(arrays.noise, x, out=x)
        elif self._output == "tanh":
            np.tanh(x, out=x)
        # From [−1, 1] to the range of the log, and clipped there because of rounding errors.
        np.multiply(x, self._half, out=x)
        np.add(x, self._middle, out=x)
        np.maximum(x, self._low, out=x)
        return np.minimum(x, self._high, out=action)


def load(path: str | os.PathLike[str], seed: int | None = 0) -> NumpyPolicy:
    """Read a policy file; ValueError if it is not one. `seed` is that of the noise."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _read(archive)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is not a policy file: {error}.") from error
    except ValueError as error:
        raise ValueError(f"{path} is not a policy file: {error}") from error
    return NumpyPolicy(arrays, _metadata(arrays.pop("metadata", None)), seed)


def _read(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The arrays of an npz file, none larger than its size in the file."""
    infos = archive.infolist()
    if len(infos) > 2 * MOST_LAYERS + 8 or sum(info.file_size for info in infos) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB or has too many parts.")
    found = {}
    for info in infos:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("it is compressed in an unusual way.")
        with archive.open(info) as part:
            content = part.read(info.file_size)  # never more, whatever it would expand to
        found[info.filename.removesuffix(".npy")] = _array(info.filename, content)
    return found


def _array(name: str, content: bytes) -> npt.NDArray[Any]:
    """One array of plain numbers; its header must match the number of bytes that follow."""
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, by_columns, dtype = read[version](stream)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"its part {name!r} is not an array.") from error
    if dtype not in (np.dtype("<f4"), np.dtype("u1")):
        raise ValueError(f"its part {name!r} holds {dtype} and not float32 numbers.")
    left = content[stream.tell() :]
    strange = by_columns or len(shape) > 2 or min(shape, default=0) < 0
    if strange or math.prod(shape) * dtype.itemsize != len(left):
        raise ValueError(f"its part {name!r} has shape {shape} but {len(left)} bytes.")
    return np.frombuffer(left, dtype).reshape(shape)


def _metadata(text: npt.NDArray[Any] | None) -> dict[str, Any]:
    if text is None or text.dtype != np.uint8:
        raise ValueError("the policy file has no metadata.")
    try:
        facts = json.loads(text.tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError("the policy file's metadata is not JSON.") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"the policy file's metadata does not have format {FORMAT!r}.")
    return facts


def _require(ok: Any, sentence: str) -> None:
    if not ok:
        raise ValueError(sentence)


def _check(arrays: dict[str, Floats], facts: dict[str, Any]) -> None:
    """Check that the parts of a policy fit together and are finite."""
    names, output = facts.get("activations", []), facts.get("output")
    listed = isinstance(names, list) and 1 <= len(names) <= MOST_LAYERS
    _require(listed, "the policy lacks a list of activations.")
    known = all(isinstance(name, str) and name in ACTIVATIONS for name in names)
    _require(known, f"the policy has an activation other than {', '.join(ACTIVATIONS)}.")
    _require(output in OUTPUTS, f"the policy's output is not one of {', '.join(OUTPUTS)}.")
    layers = (f"{kind}_{k}" for kind in ("weight", "bias") for k in range(len(names)))
    expected = {*VECTORS, *layers}
    for wrong in sorted(set(arrays) ^ expected):
        does = "lacks" if wrong in expected else "has an unknown"
        raise ValueError(f"the policy {does} {wrong!r}.")
    for name, array in arrays.items():
        numbers: Any = array.dtype == np.float32 and array.size > 0 and np.isfinite(array).all()
        _require(numbers, f"the policy's {name} does not hold finite float32 numbers.")
    temperature, noise = facts.get("temperature"), facts.get("noise_dim", -1)
    scales = isinstance(temperature, int | float) and 0.0 <= temperature < math.inf
    _require(scales, "the policy's temperature is not a number of at least 0.")
    _require(type(noise) is int and noise >= 0, "the policy's noise_dim is not a count.")
    _check_sizes(arrays, output == "noise_minus", noise, len(names))


def _check_sizes(arrays: dict[str, Floats], needs_noise: bool, noise: int, layers: int) -> None:
    mean, std, low, high = (arrays[name] for name in VECTORS)
    fits: Any = mean.ndim == 1 and std.shape == mean.shape and (std > 0).all()
    _require(fits, "the policy's observation_std does not fit its observation_mean.")
    fits = low.ndim == 1 and high.shape == low.shape and (low < high).all()
    _require(fits, "the policy's action_high does not fit its action_low.")
    fits = noise == len(low) or (noise == 0 and not needs_noise)
    _require(fits, f"the policy's noise_dim is {noise}, with {len(low)} actions.")
    width = len(mean) + noise
    for k in range(layers):
        weight, bias = arrays[f"weight_{k}"], arrays[f"bias_{k}"]
        fits = weight.ndim == 2 and weight.shape[0] == width and bias.shape == weight.shape[1:]
        shapes = f"{weight.shape}, {bias.shape}"
        _require(fits, f"the policy's layer {k} has shapes {shapes} on {width}.")
        width = weight.shape[1]
    wrong = f"the policy's last layer has {width} numbers for {len(low)} actions."
    _require(width == len(low), wrong)
