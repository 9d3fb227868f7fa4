"""From a run to a policy file: the plan of one member, checked against the agent, in one format."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bfq.deploy.formats import FORMATS, arrays_of
from bfq.deploy.numpy_policy import FORMAT, NumpyPolicy
from bfq.deploy.plan import PolicyPlan, plan_of
from bfq.errors import BadInput, unknown
from bfq.files import check_place, make_folder, write_bytes
from bfq.run import versions
from bfq.trained import Trained, load_trained

TRIED = 256  # random observations on which plan and agent are compared
TOLERANCE = 1e-3  # of half the action range; rounding errors are far smaller


@dataclass(frozen=True)
class Exported:
    """A written policy file with its metadata."""

    path: Path
    format: str
    size: int  # bytes
    metadata: dict[str, Any]


def export(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    member: int = 0,
    format: str | None = None,
    temperature: float | None = None,
    policy: str | None = None,
) -> Exported:
    """Write one member of a run to `out`, by default into the run's folder.

    The format is the suffix of `out` unless given. The policy draws one action per observation, even
    if the run's protocol selects among several candidates; the metadata states this.
    """
    path, format = _place(Path(folder), out, member, format)
    trained = load_trained(folder)
    acting = trained.protocol(temperature=temperature, policy=policy, candidates=1).acting
    agent, (state, config) = trained.population.agent, trained.member(member)
    plan, which = plan_of(agent, state, acting.policy, acting.temperature, trained.transforms)
    metadata = _metadata(trained, member, plan, which)

    def act(observations: Any, key: Any) -> Any:
        return agent.act(state, observations, key, config, acting)

    metadata["deviation"] = check_plan(plan, act, metadata)
    content = FORMATS[format](plan, metadata)
    make_folder(path.parent)
    write_bytes(path, content)
    return Exported(path, format, len(content), metadata)


def _place(folder: Path, out: str | Path | None, member: int, kind: str | None) -> tuple[Path, str]:
    """The path of the file and its format, checked before any work is done."""
    path = Path(out or folder / f"policy-{member}.{kind or 'npz'}")
    kind = kind or path.suffix.removeprefix(".") or "npz"
    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    if path.is_dir():
        raise BadInput(f"{path} is a folder: name the file, such as {path / ('policy.' + kind)}.")
    if out is not None:
        check_place(path.parent)
    return path, kind


def _metadata(trained: Trained, member: int, plan: PolicyPlan, which: str) -> dict[str, Any]:
    """The origin of the policy, its inputs and outputs, and what the NumPy runtime needs."""
    run, chosen = trained.run, trained.population.members[member]
    candidates = run.evaluation["candidates"]
    remark = "It draws one action per observation."
    if not plan.noise_dim:
        remark = "It is deterministic."
    elif candidates > 1:
        remark = f"{remark[:-1]}; the run's protocol lets the critic choose among {candidates}."
    labels = run.dataset.labels if run.dataset else None
    named = {"inputs": labels.observations, "outputs": labels.actions} if labels else {}
    return {
        "format": FORMAT,
        "agent": run.agent,
        "task": run.dataset.name if run.dataset else run.task,
        "update": trained.checkpoint.step,
        "member": member,
        "seed": chosen.seed,
        "overrides": chosen.overrides,
        "policy": which,
        "observation_dim": plan.observation_dim,
        "action_dim": plan.action_dim,
        **plan.metadata,
        "protocol_candidates": candidates,
        "remark": remark,
        **{side: [asdict(one) for one in several] for side, several in named.items()},
        "versions": versions(),
    }


def check_plan(plan: PolicyPlan, act: Callable[[Any, Any], Any], metadata: dict[str, Any]) -> float:
    """Return the largest deviation of plan and agent, in halves of the action range."""
    transforms = plan.transforms
    random = np.random.default_rng(0)
    unit = random.normal(size=(TRIED, plan.observation_dim)).astype(np.float32)
    observations = transforms.observation_mean + transforms.observation_std * unit
    key = jax.random.key(0)
    expected = np.asarray(jax.jit(act)(transforms.normalize(observations), key))
    noise = acting_noise(key, TRIED, plan.noise_dim) if plan.noise_dim else None
    found = NumpyPolicy(arrays_of(plan), metadata)(observations, noise)
    half = 0.5 * (transforms.action_high - transforms.action_low)
    deviation = float(np.abs((found - transforms.from_unit(expected)) / half).max())
    if not deviation <= TOLERANCE:
        raise BadInput(
            f"the exported policy would not act like {metadata['agent']}: they differ by "
            f"{deviation:.2g} of half the action range."
        )
    return deviation


def acting_noise(key: Any, count: int, size: int) -> Any:
    """The noise that an agent draws from this key: see `bfq.agents.learning.best_of_n`."""
    return jax.random.normal(jax.random.split(key)[0], (count, size))
