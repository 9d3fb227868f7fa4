"""Every network that a config can name; critics and policies are MLPs as each reference code has them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.mlp import MLP, Initializer, uniform, variance_scaling
from bfq.nets.residual import ResidualVelocity
from bfq.nets.velocity import EmbeddedDenoiser, EmbeddedVelocity, FlowNet, RawTimeVelocity


def orthogonal(gain: float) -> Initializer:
    """Weights with orthogonal rows or columns of length `gain`, and zero biases, as IQL."""

    def initialize(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
        tall = jax.random.normal(key, (max(fan_in, fan_out), min(fan_in, fan_out)))
        weight = nearest_orthogonal(tall)
        return gain * (weight if fan_in >= fan_out else weight.T), jnp.zeros(fan_out)

    return initialize


def nearest_orthogonal(tall: Float[Array, "n m"], iterations: int = 40) -> Float[Array, "n m"]:
    """The nearest matrix with orthonormal columns; for a Gaussian matrix, a uniformly random one.

    The Newton-Schulz step X ← X (3 − XᵀX)/2 drives every singular value to 1. It needs products only: JAX's
    QR, mapped over members, deadlocks on a CPU with two cores.
    """
    x = tall / jnp.linalg.norm(tall)

    def closer(_: Array, x: Array) -> Array:
        squares = jnp.matmul(x.T, x, precision="highest")
        return 1.5 * x - 0.5 * jnp.matmul(x, squares, precision="highest")

    return jax.lax.fori_loop(0, iterations, closer, x)


def clean_diffuser_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, LayerNorm, Tanh, then (Linear, LayerNorm, Mish) …, Linear."""
    return MLP(key, fan_in, 1, width, depth, "mish", norm="before", first_activation="tanh")


def plain_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and Mish, as official DQL and the paper's table."""
    return MLP(key, fan_in, 1, width, depth, "mish")


def fql_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, GELU, LayerNorm with variance-scaled weights, as the FQL family."""
    first = variance_scaling(1.0)
    return MLP(
        key, fan_in, 1, width, depth, "gelu", norm="after", initialize=first, norm_epsilon=1e-6
    )


def relu_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and ReLU with PyTorch's initial weights, as TD3-BC and SRPO."""
    return MLP(key, fan_in, 1, width, depth, "relu")


def iql_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and ReLU with orthogonal weights, as IQL's own code."""
    return MLP(key, fan_in, 1, width, depth, "relu", initialize=orthogonal(2**0.5))


def rebrac_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, ReLU, LayerNorm; hidden biases of 0.1 and a last layer near zero, as ReBRAC's own code."""
    return MLP(
        key, fan_in, 1, width, depth, "relu", norm="after",
        initialize=uniform(bias=0.1), initialize_output=uniform(3e-3), norm_epsilon=1e-6,
    )  # fmt: skip


def norm_mish_critic(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, LayerNorm, Mish, as CleanDiffuser's IDQL."""
    return MLP(key, fan_in, 1, width, depth, "mish", norm="before")


def relu_policy(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU with PyTorch's initial weights, as TD3-BC."""
    return MLP(key, s, a, width, depth, "relu")


def iql_policy(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU with orthogonal weights, as IQL's own code."""
    return MLP(key, s, a, width, depth, "relu", initialize=orthogonal(2**0.5))


def rebrac_policy(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU, hidden biases of 0.1 and a last layer near zero, as ReBRAC's own code."""
    first, last = uniform(bias=0.1), uniform(1e-3)
    return MLP(key, s, a, width, depth, "relu", initialize=first, initialize_output=last)


def fql_policy(
    key: PRNGKeyArray, s: int, a: int, width: int, depth: int, activation: str = "gelu"
) -> MLP:
    """GELU with variance-scaled weights, the last layer a hundredth of that, as the FQL family."""
    first, last = variance_scaling(1.0), variance_scaling(0.01)
    return MLP(key, s, a, width, depth, activation, initialize=first, initialize_output=last)


NETWORKS: dict[str, dict[str, Callable[..., Any]]] = {
    # Q(s, a) or V(s), from (key, fan_in, width, depth)
    "critic": {
        "clean_diffuser": clean_diffuser_critic,
        "plain": plain_critic,
        "fql": fql_critic,
        "relu": relu_critic,
        "iql": iql_critic,
        "rebrac": rebrac_critic,
        "norm_mish": norm_mish_critic,
    },
    # μ(s), from (key, observation_dim, action_dim, width, depth)
    "policy": {"relu": relu_policy, "iql": iql_policy, "rebrac": rebrac_policy, "fql": fql_policy},
    # v_θ(a_t, r, t; s), from (key, observation_dim, action_dim, width, depth, time_scale)
    "velocity": {
        "embedded": EmbeddedVelocity,
        "residual": ResidualVelocity,
        "raw_time": RawTimeVelocity,
    },
    # μ_ω(z; s) or v_θ(x_t, t; s), from (key, observation_dim, action_dim, width, depth, numbers)
    "flow": {"fql": FlowNet},
    # ε_θ(a_t, t; s), from (key, observation_dim, action_dim, width, depth)
    "denoiser": {
        "clean_diffuser": partial(EmbeddedDenoiser, time_dim=64, code="cosines_first"),  # DQL, EDP
        "official": partial(EmbeddedDenoiser, time_dim=16, code="sines_first"),  # DQL, CAC
        "edp": partial(EmbeddedDenoiser, time_dim=16, code="cosines_first"),  # EDP's own code
    },
}
