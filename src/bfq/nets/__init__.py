"""Networks: Equinox modules whose leaves are all arrays, so that they can be stacked and vmapped.

Critics and values are here; `constructor` finds every other network by name.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.primitives import use_kernels


class ActionNetwork(Protocol):
    """A network that returns a vector of the action's size: a velocity, or a denoiser."""

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        ...

    def __call__(self, noisy_action: Array, *inputs: Array) -> Array:
        """Evaluate the network at a_t, its times (one per row, or one for all rows) and s."""
        ...


def constructor(role: str, kind: str) -> Callable[..., Any]:
    """The constructor of a network: a critic, policy, velocity, flow or denoiser of some kind.

    An agent depends on no architecture: `bfq.nets.kinds`, which holds the table, is imported here.
    """
    make: Callable[..., Any] = import_module("bfq.nets.kinds").NETWORKS[role][kind]
    return make


class Critics(eqx.Module):
    """Q_i(s, a): `count` critics with stacked parameters, evaluated in one batched product."""

    stacked: Any  # one network, every leaf of which has the critics along its first axis

    def __init__(self, key: Key, s: int, a: int, kind: str, width: int, depth: int, count: int = 2):
        make, fan_in = constructor("critic", kind), s + a
        keys = jax.random.split(key, count)
        self.stacked = jax.vmap(lambda k: make(k, fan_in, width, depth))(keys)

    def __call__(
        self, observations: Float[Array, "*b s"], actions: Float[Array, "*b a"]
    ) -> Float[Array, "q *b"]:
        """Q_i(s, a), the critics along the first axis."""
        inputs, axis = jnp.concatenate([observations, actions], axis=-1), None
        if use_kernels():  # as one product with all weights, the rows would be transposed
            count, axis = len(self.stacked.output.bias), 0
            inputs = jnp.broadcast_to(inputs, (count, *inputs.shape))
        each: Callable[..., Array] = jax.vmap(lambda net, x: net(x), in_axes=(0, axis))
        values = each(self.stacked, inputs)
        return values[..., 0]


class Value(eqx.Module):
    """V(s), a network of the same kinds as a critic."""

    net: Any

    def __init__(self, key: Key, observation_dim: int, kind: str, width: int, depth: int):
        self.net = constructor("critic", kind)(key, observation_dim, width, depth)

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b"]:
        """One number per state."""
        return self.net(observations)[..., 0]
