"""The FQL family's network: an MLP on [s, x, numbers as they are], GELU, variance-scaled, no layer norm."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import variance_scaling
from bfq.nets.mlp import MLP
from bfq.nets.velocity import beside


class FlowNet(eqx.Module):
    """A vector of the action's size from x, some numbers, and s, called in this order.

    Without numbers it is FQL's one-step policy μ_ω(z; s), with one the velocity v_θ(x_t, t; s), and with two
    SORL's velocity s_θ(x_t, t, k; s) that serves a step of length 2^−k. The state may have width 0.
    """

    trunk: MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        numbers: int = 0,
        activation: str = "gelu",
    ):
        fan_in = observation_dim + action_dim + numbers
        self.trunk = MLP(
            key, fan_in, action_dim, width, depth, activation, initialize=variance_scaling(1.0)
        )

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.trunk.output.bias.shape[-1]

    def __call__(self, x: Float[Array, "*b a"], *told: Float[Array, "..."]) -> Float[Array, "*b a"]:
        """The MLP on [s, x, numbers]; each number is one a row, or one for all rows."""
        *numbers, observation = told
        columns = beside(observation, *(number[..., None] for number in numbers))
        return self.trunk(jnp.concatenate([observation, x, *columns], axis=-1))
