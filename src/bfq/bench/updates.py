"""The time of one update of a whole population, from drawing the batch to moving the targets."""

import dataclasses
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents.agent import Agent, Spec
from bfq.bench.limits import limits
from bfq.bench.timing import timed
from bfq.training.population import Program, Rows, initial_states, members_of, pack, populate


class Sizes(NamedTuple):
    """What the time of an update depends on besides the agent."""

    members: int = 1
    transitions: int = 1_000_000
    spec: Spec = Spec(17, 6)
    chunk: int = 500  # updates in one compiled call
    repeats: int = 5  # calls that are timed


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


def time_update(agent: Agent, config: Any, rows: Rows, sizes: Sizes) -> dict[str, Any]:
    """Microseconds an update with their spread, the compilation apart, and the share of the device's limit.

    Operations and bytes are XLA's count for the compiled program, loops in an update counted once.
    """
    config = dataclasses.replace(
        config, steps=sizes.chunk
    )  # so that a call goes through every phase of a run
    population = populate(agent, config, members_of(range(sizes.members), {}))
    states, program = initial_states(population, sizes.spec), Program(population, sizes.chunk)
    began = time.perf_counter()
    program.compile(states, rows)
    compile_seconds = time.perf_counter() - began

    def work() -> Any:
        nonlocal states
        states, metrics = program(states, rows, jnp.int32(0))
        return metrics

    timing = timed(work, sizes.repeats)
    per_update = [seconds / sizes.chunk for seconds in timing]
    return {
        "agent": agent.name,
        "members": sizes.members,
        **_structure(config),
        "transitions": sizes.transitions,
        "device": jax.devices()[0].device_kind,
        "microseconds_per_update": 1e6 * per_update[0],
        "spread": [1e6 * per_update[1], 1e6 * per_update[2]],
        "compile_seconds": compile_seconds,
        **_work_done(program.cost(), per_update[0]),
        "device_bytes": _peak_bytes(),
    }


def _structure(config: Any) -> dict[str, Any]:
    told = dataclasses.asdict(config)
    return {"batch": told["batch_size"], "width": told.get("width"), "depth": told.get("depth")}


def _work_done(cost: dict[str, float], seconds: float) -> dict[str, float]:
    flops, moved, most = cost["flops"], cost["bytes accessed"], limits()
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
