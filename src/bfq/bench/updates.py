"""The time of one update of a whole population, from drawing the batch to moving the targets."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents import Agent, Spec
from bfq.agents.registry import configure
from bfq.bench.compiling import compiled_program
from bfq.bench.counting import Work, least_work
from bfq.bench.limits import limits
from bfq.bench.timing import timed
from bfq.training.population import Rows, pack

# What agents call the network calls from noise to action of their training; those in one call have none.
INNER_STEPS = ("flow_steps", "denoising_steps", "diffusion_steps", "consistency_steps")


class Sizes(NamedTuple):
    """What the time of an update depends on besides the agent."""

    members: int = 1
    transitions: int = 1_000_000
    spec: Spec = Spec(17, 6)
    chunk: int = 500  # updates in one compiled call
    repeats: int = 5  # calls that are timed
    precision: str = "float32"  # of the products
    enough: float = math.inf  # seconds of timing after which no further call is timed


def inner_steps(config: Any) -> str | None:
    """The agent's own name for the inner steps of its training, if it has them."""
    return next((name for name in INNER_STEPS if hasattr(config, name)), None)


class Resized(NamedTuple):
    """What is resized in an agent's configuration; None leaves it as it is."""

    width: int | None = None  # units of every hidden layer
    batch: int | None = None  # transitions an update
    flow_steps: int | None = None  # inner steps of training, by whatever name


def resize(agent: Agent, base: Mapping[str, Any], sizes: Resized, values: Mapping[str, Any]) -> Any:
    """The agent's Config at `base` with other sizes and values where it has them; values come last."""
    named = {"width": sizes.width, "critic_width": sizes.width, "batch_size": sizes.batch}
    own = inner_steps(agent.config())
    if own:
        named[own] = sizes.flow_steps
    changed = {**{name: size for name, size in named.items() if size is not None}, **values}
    return configure(
        agent, {**base, **{name: value for name, value in changed.items() if name in base}}
    )


def made_up(sizes: Sizes, needs: tuple[str, ...] = ()) -> Rows:
    """Transitions of random numbers, on the device: the time does not depend on what they say."""
    rng = np.random.default_rng(0)
    n, (s, a) = sizes.transitions, sizes.spec
    arrays = {
        "observations": rng.standard_normal((n, s), np.float32),
        "actions": rng.random((n, a), np.float32) * 2 - 1,
        "next_observations": rng.standard_normal((n, s), np.float32),
        "rewards": rng.standard_normal(n, np.float32),
        "masks": np.ones(n, np.float32),
    }
    if "next_actions" in needs:
        arrays |= {"next_actions": arrays["actions"], "next_known": np.ones(n, np.float32)}
    return pack(arrays)


def compile_update(agent: Agent, config: Any, sizes: Sizes) -> float:
    """Seconds to compile what `time_update` times; only the shape of the transitions is needed for it."""
    narrow = made_up(sizes._replace(transitions=1), agent.needs)
    many = (sizes.transitions, narrow.packed.shape[1])
    rows: Any = jax.eval_shape(lambda: dataclasses.replace(narrow, packed=jnp.zeros(many)))
    return compiled_program(
        agent,
        _short(config, sizes),
        rows,
        sizes.members,
        sizes.chunk,
        sizes.precision == "bfloat16",
    ).seconds


def time_update(agent: Agent, config: Any, rows: Rows, sizes: Sizes) -> dict[str, Any]:
    """Microseconds an update with their spread, the compilation apart, and the share of the device's limit.

    Operations and bytes are the least that an update needs, so a share is that of the time in which the
    device at its best would be done with them.
    """
    made = compiled_program(
        agent,
        _short(config, sizes),
        rows,
        sizes.members,
        sizes.chunk,
        sizes.precision == "bfloat16",
    )
    states, program = made.states, made.program

    def work() -> Any:
        nonlocal states
        states, metrics = program(states, rows, jnp.int32(0))
        return metrics

    timing = timed(work, sizes.repeats, sizes.enough)
    per_update = [seconds / sizes.chunk for seconds in timing[:3]]
    return {
        **described(agent, config, sizes),
        "microseconds_per_update": 1e6 * per_update[0],
        "spread": [1e6 * per_update[1], 1e6 * per_update[2]],
        "repeats": timing.repeats,
        "compile_seconds": made.seconds,
        "from_cache": made.from_cache,
        **_work_done(least_work(agent, config, sizes.spec), sizes.members, per_update[0]),
        "device_bytes": _peak_bytes(),
    }


def described(agent: Agent, config: Any, sizes: Sizes) -> dict[str, Any]:
    """All that a time depends on, by which two measurements can be told to be of the same thing."""
    told = dataclasses.asdict(config)
    return {
        "agent": agent.name,
        "members": sizes.members,
        "precision": sizes.precision,
        "batch": told["batch_size"],
        "width": told.get("width"),
        "depth": told.get("depth"),
        "flow_steps": told.get(inner_steps(config) or ""),
        "transitions": sizes.transitions,
        "chunk": sizes.chunk,
        "device": jax.devices()[0].device_kind,
    }


def _short(config: Any, sizes: Sizes) -> Any:
    """A run as long as one call, so that a call goes through every phase of a run."""
    return dataclasses.replace(config, steps=sizes.chunk)


def _work_done(least: Work, members: int, seconds: float) -> dict[str, float]:
    flops, moved, most = members * least.flops, members * least.bytes, limits()
    return {
        "flops": flops,
        "bytes": moved,
        "share_of_flops": flops / seconds / most.flops,
        "share_of_bytes": moved / seconds / most.bytes,
    }


def _peak_bytes() -> int | None:
    """The most memory of the device in use so far, where it tells."""
    told = jax.devices()[0].memory_stats() or {}
    return told.get("peak_bytes_in_use")
