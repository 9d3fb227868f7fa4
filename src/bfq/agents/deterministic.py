"""Acting of a deterministic policy without a moving average: one call, no noise, no candidates."""

from typing import Any

import jax.numpy as jnp

from bfq.agents.contract import Acting, Actions, Key, Observations


def online_network(state: Any, policy: str) -> tuple[Any, str]:
    """The trained policy, for agents without a moving average of it."""
    return state.policy.params, "online"


def act_by_mean(
    state: Any, observations: Observations, key: Key, config: Any, acting: Acting
) -> Actions:
    """clip(π(s), ±1) of the online policy, without randomness."""
    return jnp.clip(state.policy.params(observations), -1.0, 1.0)


# How a deterministic policy without a moving average acts: `Agent(…, **DETERMINISTIC)`.
DETERMINISTIC: dict[str, Any] = {
    "act": act_by_mean,
    "network": online_network,
    "chooses": False,
    "ignores": lambda config: ("policy", "temperature"),
}
