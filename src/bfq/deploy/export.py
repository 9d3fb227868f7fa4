"""From a run to a policy file: the plan of one member, proven against the agent, in one of the formats."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bfq.agents.registry import check_acting
from bfq.deploy.c_source import c_source
from bfq.deploy.numpy_policy import FORMAT, VECTORS, NumpyPolicy
from bfq.deploy.onnx_file import onnx_model
from bfq.deploy.plan import Plan, plan_of
from bfq.errors import BadInput, unknown
from bfq.evaluation.protocol import Protocol
from bfq.experiment import Trained, load_trained
from bfq.files import check_place, make_folder, write_bytes
from bfq.run import versions

TRIED = 256  # made-up observations on which the plan must do what the agent does
TOLERANCE = 1e-3  # of half the action range; rounding alone is far below


@dataclass(frozen=True)
class Exported:
    """What was written, and what it says of itself."""

    path: Path
    format: str
    size: int  # bytes
    metadata: dict[str, Any]


def export_policy(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    member: int = 0,
    format: str | None = None,
    temperature: float | None = None,
    policy: str | None = None,
) -> Exported:
    """Writes one member of a run to `out`, by default into the run's folder.

    The format is that of the file's name unless given. The policy draws one action a state, also where the
    run's protocol lets the critic choose among several: the metadata says so.
    """
    path, format = _place(Path(folder), out, member, format)
    trained = load_trained(folder)
    wishes: dict[str, Any] = {"temperature": temperature, "policy": policy}
    told = {name: wish for name, wish in wishes.items() if wish is not None}
    acting = replace(trained.protocol.acting, candidates=1, **told)
    Protocol(acting=acting).check()
    state, config = trained.member(member)
    agent, transforms = trained.population.agent, trained.transforms
    check_acting(agent, config, acting)
    plan, which = plan_of(agent, state, acting.policy, acting.temperature, transforms)
    metadata = _metadata(trained, member, plan, which)

    def act(observations: Any, key: Any) -> Any:
        return agent.act(state, observations, key, config, acting)

    metadata["deviation"] = prove(plan, act, metadata)
    content = FORMATS[format](plan, metadata)
    make_folder(path.parent)
    write_bytes(path, content)
    return Exported(path, format, len(content), metadata)


def _place(
    folder: Path, out: str | Path | None, member: int, format: str | None
) -> tuple[Path, str]:
    """Where to write and in which format, checked before any work is done."""
    suffix = Path(out).suffix.removeprefix(".") if out is not None else ""
    format = format or suffix or "npz"
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    path = Path(out) if out is not None else folder / f"policy-{member}.{format}"
    if path.is_dir():
        raise BadInput(f"{path} is a folder: name the file, such as {path / ('policy.' + format)}.")
    if out is not None:
        check_place(path.parent)
    return path, format


def _metadata(trained: Trained, member: int, plan: Plan, which: str) -> dict[str, Any]:
    """Where the policy comes from and what it takes and gives; the NumPy runtime reads it as well."""
    run = trained.run
    candidates = trained.protocol.acting.candidates
    remark = "It draws one action a state."
    if not plan.noise_dim:
        remark = "The same observation gives the same action."
    elif candidates > 1:
        remark = f"It draws one action a state; the run's protocol lets the critic choose among {candidates}."
    return {
        "format": FORMAT,
        "agent": run.agent,
        "task": run.task,
        "update": trained.checkpoint.step,
        "member": member,
        "seed": trained.population.members[member].seed,
        "overrides": dict(trained.population.members[member].overrides),
        "policy": which,
        "observation_dim": plan.observation_dim,
        "action_dim": plan.action_dim,
        **runtime_metadata(plan),
        "protocol_candidates": candidates,
        "remark": remark,
        "versions": versions(),
    }


def runtime_metadata(plan: Plan) -> dict[str, Any]:
    """What the NumPy runtime must know besides the arrays."""
    return {
        "noise_dim": plan.noise_dim,
        "temperature": float(plan.temperature),
        "activations": [layer.activation for layer in plan.layers],
        "output": plan.output,
    }


def arrays_of(plan: Plan) -> dict[str, Any]:
    """The plan's arrays by the names that they have in the file."""
    vectors = {name: np.asarray(getattr(plan.transforms, name), np.float32) for name in VECTORS}
    weights = {f"weight_{k}": layer.weight for k, layer in enumerate(plan.layers)}
    return {
        **vectors,
        **weights,
        **{f"bias_{k}": layer.bias for k, layer in enumerate(plan.layers)},
    }


def npz(plan: Plan, metadata: dict[str, Any]) -> bytes:
    """The plan as the bytes of an npz file, without anything that would need unpickling."""
    text = np.frombuffer(json.dumps(metadata, allow_nan=False).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, metadata=text, **arrays_of(plan))
    return file.getvalue()


FORMATS: dict[str, Callable[[Plan, dict[str, Any]], bytes]] = {
    "npz": npz,
    "c": lambda plan, metadata: c_source(plan, metadata).encode(),
    "onnx": onnx_model,
}


def prove(plan: Plan, act: Callable[[Any, Any], Any], metadata: dict[str, Any]) -> float:
    """The largest difference of plan and agent on made-up observations, in halves of the action range."""
    transforms = plan.transforms
    random = np.random.default_rng(0)
    unit = random.normal(size=(TRIED, plan.observation_dim)).astype(np.float32)
    observations = transforms.observation_mean + transforms.observation_std * unit
    key = jax.random.key(0)
    wanted = np.asarray(jax.jit(act)(transforms.normalize(observations), key))
    noise = noise_of(key, TRIED, plan.noise_dim) if plan.noise_dim else None
    found = NumpyPolicy(arrays_of(plan), metadata)(observations, noise)
    half = 0.5 * (transforms.action_high - transforms.action_low)
    deviation = float(np.abs((found - transforms.from_unit(wanted)) / half).max())
    if not deviation <= TOLERANCE:
        raise BadInput(
            f"the file would not act as {metadata['agent']} does: they differ by {deviation:.2g} of half the "
            "action range."
        )
    return deviation


def noise_of(key: Any, count: int, size: int) -> Any:
    """The noise that an agent draws from this key before its temperature: see `values.choose`."""
    return jax.random.normal(jax.random.split(key)[0], (count, size))
