"""How often a policy can act: batches of actions a second, as the paper counts them."""

from typing import Any

import jax
import jax.numpy as jnp

from bfq.agents import Acting, Agent, Spec
from bfq.bench.timing import timed

BATCH = 2500  # actions at once: 50 environments with 50 candidates each
LONG = 4.0  # seconds: policies that need more for all calls are timed over fewer


def time_acting(
    agent: Agent, config: Any, acting: Acting, spec: Spec, batch: int = BATCH, calls: int = 300
) -> dict[str, Any]:
    """Calls a second that each make `batch` actions from as many observations, with fresh noise.

    They are timed together, at most `calls` of them.
    """
    state = agent.init(jax.random.key(0), spec, config)
    observations = jax.random.normal(jax.random.key(1), (batch, spec.observation_dim))

    # One call an action batch, as a user would make them; the loop is Python's, the noise's key stays on the
    # device, and the weights are part of the program, as in a policy that is deployed.
    @jax.jit
    def act(key: Any, observations: Any) -> tuple[Any, Any]:
        key, mine = jax.random.split(key)
        return key, agent.act(state, observations, mine, config, acting)

    one = timed(lambda: act(jax.random.key(2), observations), 1).median
    calls = max(1, min(calls, int(LONG / one)))

    def work() -> Any:
        key, last = jax.random.key(2), jnp.zeros(())
        for _ in range(calls):
            key, last = act(key, observations)
        return last

    timing = timed(work, 5)
    return {
        "agent": agent.name,
        "width": getattr(config, "width", None),
        "depth": getattr(config, "depth", None),
        "batch": batch,
        "candidates": acting.candidates,
        "sampling_steps": acting.sampling_steps,
        "calls": calls,
        "device": jax.devices()[0].device_kind,
        "batches_per_second": calls / timing.median,
        "spread": [calls / timing.high, calls / timing.low],
    }
