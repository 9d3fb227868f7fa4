"""Networks: Equinox modules whose leaves are all arrays, so that they can be stacked and vmapped.

Critics and values are here; `constructor` finds every other network by name. `make_critics` and `make_policy`
build networks as an agent's Config describes them.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.primitives import use_kernels

Width = int | str  # of all hidden layers; or, as 256x128, of each one


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
    make: Callable[..., Any] = import_module("bfq.nets.kinds").constructor_of(role, kind)
    return make


def style(activation: str, norm: str) -> dict[str, Any]:
    """The options of a network whose activation or layer norm is not that of its kind."""
    return {k: v for k, v in (("activation", activation), ("norm", norm)) if v}


class Critics(eqx.Module):
    """Q_i(s, a): `count` critics with stacked parameters, evaluated in one batched product."""

    stacked: Any  # one network, every leaf of which has the critics along its first axis

    def __init__(
        self,
        key: Key,
        s: int,
        a: int,
        kind: str,
        width: Width,
        depth: int,
        count: int = 2,
        **own: Any,
    ):
        make = constructor("critic", kind)
        keys = jax.random.split(key, count)
        self.stacked = jax.vmap(lambda k: make(k, s + a, width, depth, **own))(keys)

    def __call__(
        self, observations: Float[Array, "*b s"], actions: Float[Array, "*b a"]
    ) -> Float[Array, "q *b"]:
        """Q_i(s, a), the critics along the first axis."""
        inputs, axis = jnp.concatenate([observations, actions], axis=-1), None
        if use_kernels():  # as one product with all weights, the rows would be transposed
            count, axis = len(jax.tree.leaves(self.stacked)[0]), 0
            inputs = jnp.broadcast_to(inputs, (count, *inputs.shape))
        each: Callable[..., Array] = jax.vmap(lambda net, x: net(x), in_axes=(0, axis))
        values = each(self.stacked, inputs)
        return values[..., 0]


class Value(eqx.Module):
    """V(s), a network of the same kinds as a critic."""

    net: Any

    def __init__(self, key: Key, s: int, kind: str, width: Width, depth: int, **own: Any):
        self.net = constructor("critic", kind)(key, s, width, depth, **own)

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b"]:
        """One number per state."""
        return self.net(observations)[..., 0]


def make_critics(key: Key, spec: Sequence[int], config: Any, more: int = 0) -> Critics:
    """Random critics; `more` numbers follow the action."""
    own = style(config.critic_activation, config.critic_norm)
    sizes = (config.critic_width, config.critic_depth, config.critic_count)
    return Critics(key, spec[0], spec[1] + more, config.critic, *sizes, **own)


def make_policy(
    role: str, kind: str, key: Key, spec: Sequence[int], config: Any, *more: Any
) -> Any:
    """A random network of the policy, of this role and kind."""
    own = style(config.activation, config.norm)
    return constructor(role, kind)(key, *spec, config.width, config.depth, *more, **own)
