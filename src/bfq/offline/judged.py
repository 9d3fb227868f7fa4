"""What is judged: the members of a run, exported files, and any function from observations to actions."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bfq.data.dataset import Dataset, Floats
from bfq.data.transforms import Transforms
from bfq.deploy import numpy_policy
from bfq.errors import BadInput, unknown
from bfq.evaluation.rollout import Act
from bfq.trained import Trained

ROWS = 8192  # observations in one call
TRIED = 64  # observations on which a policy is tried first
Function = Callable[[Floats], Any]  # of a batch of observations, or of one


class Judged(NamedTuple):
    """policies that are judged together."""

    names: tuple[str, ...]
    act: Act  # observations (policies, rows, s) and a number for the noise -> actions in units
    rows: int = ROWS  # observations in one call


def members_of_run(
    trained: Trained, dataset: Dataset, prefix: str | None, acting: Mapping[str, Any]
) -> Judged:
    """All members of a run, which act as its protocol says, with the changes that are not None."""
    sizes = len(trained.transforms.observation_mean), len(trained.transforms.action_low)
    if sizes != (dataset.observation_dim, dataset.action_dim):
        raise BadInput(
            f"the run has {sizes[0]} observations and {sizes[1]} actions, but {dataset.name} has "
            f"{dataset.observation_dim} and {dataset.action_dim}."
        )
    names = []
    for member in trained.run.members:
        values = [f"{name}={value:g}" for name, value in member.overrides.items()]
        names.append(", ".join(filter(None, [prefix, f"seed {member.seed}", *values])))
    protocol = trained.protocol(**acting)
    rows = max(128, ROWS // protocol.acting.candidates)
    return Judged(tuple(names), trained.act(protocol), rows)


def controller(given: Any, dataset: Dataset, name: str | None = None) -> Judged:
    """A function, an exported .npz or .onnx file, or `module:function`, which is imported."""
    called = name or str(getattr(given, "__name__", given))
    if not callable(given):
        readers = {".npz": numpy_policy.load, ".onnx": _read_onnx}
        read: Any = readers.get(Path(given).suffix, _imported)
        try:
            given = read(given)
        except (OSError, ValueError) as error:
            raise BadInput(f"{called} cannot be judged: {error}") from error

    def act(observations: Floats, number: int) -> Floats:
        return _call(given, called, observations[0], dataset.action_dim)[None]

    return Judged((called,), act)


def _call(policy: Function, name: str, observations: Floats, actions: int) -> Floats:
    """The actions of a function at a batch of observations, all at once or one by one."""
    shape = len(observations), actions
    try:
        found = np.asarray(policy(observations), np.float32)
        if found.shape != shape:
            found = np.asarray([policy(row) for row in observations], np.float32).reshape(shape)
    except Exception as error:
        raise BadInput(
            f"{name} fails on observations of shape {observations.shape}: {error!r}. It must return "
            f"{actions} numbers for each observation."
        ) from error
    if not np.isfinite(found).all():
        where = observations[np.argmin(np.isfinite(found).all(1))]
        raise BadInput(f"{name} returns an action that is not finite at {where.tolist()}.")
    return found


def _imported(given: str) -> Function:
    """A function that the user names."""
    module, _, attribute = str(given).partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        code = importlib.import_module(module)
    except Exception as error:
        raise BadInput(f"the module of the policy {given} fails: {error!r}.") from error
    found: Function | None = getattr(code, attribute, None)
    if not callable(found):
        known = [name for name, value in vars(code).items() if callable(value)]
        raise unknown(f"function in {module}", attribute, known)
    return found


def _read_onnx(path: Any) -> Function:
    """An exported ONNX graph; its noise is drawn here."""
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise BadInput("an .onnx file needs onnxruntime; .npz needs nothing.") from error
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # of the runtime's own types
        raise BadInput(f"{path} cannot be judged: {error}") from error
    random, inputs = np.random.default_rng(0), {i.name: i.shape[-1] for i in session.get_inputs()}

    def act(observations: Floats) -> Any:
        given = {"observation": np.atleast_2d(observations)}
        if "noise" in inputs:
            size = len(given["observation"]), inputs["noise"]
            given["noise"] = random.standard_normal(size, np.float32)
        return session.run(["action"], given)[0]

    return act


def joined(several: Sequence[Judged]) -> Judged:
    """Several groups as one."""
    ends = np.cumsum([len(group.names) for group in several])[:-1]

    def act(observations: Floats, number: int) -> Floats:
        parts = zip(several, np.split(observations, ends), strict=True)
        return np.concatenate([group.act(part, number) for group, part in parts])

    names = tuple(name for group in several for name in group.names)
    return Judged(names, act, min(group.rows for group in several))


def is_random(judged: Judged, observations: Floats) -> bool:
    """Whether the same observation can get different actions."""
    tried = np.broadcast_to(observations[:TRIED], (len(judged.names), *observations[:TRIED].shape))
    return not np.array_equal(judged.act(tried, 0), judged.act(tried, 1), equal_nan=True)


def actions_at(
    judged: Judged, transforms: Transforms, observations: Floats, draws: int,
    show: Callable[[int], object] = lambda done: None,
) -> Floats:  # fmt: skip
    """Actions within ±1 of every policy: (policies, rows, draws, a); NaN where a member has diverged."""
    count, policies = len(observations), len(judged.names)
    size = min(judged.rows, count)
    found = np.empty((policies, count, draws, len(transforms.action_low)), np.float32)
    for begin in range(0, count, size):
        some = observations[begin : begin + size]
        # Blocks of equal size, since every size is compiled.
        block = np.concatenate([some, np.repeat(some[-1:], size - len(some), axis=0)])
        block = np.broadcast_to(block, (policies, *block.shape))
        for k in range(draws):
            acted = judged.act(block, begin * draws + k)[:, : len(some)]
            found[:, begin : begin + size, k] = transforms.to_unit(acted)
        show(min(begin + size, count))
    return found
