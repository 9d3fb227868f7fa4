"""Every network that a config can name; critics and policies are MLPs as each reference code has them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets import Width
from bfq.nets.mlp import MLP, Initializer, uniform, variance_scaling
from bfq.nets.own import own_constructor
from bfq.nets.residual import ResidualVelocity
from bfq.nets.velocity import EmbeddedDenoiser, EmbeddedVelocity, FlowNet, RawTimeVelocity


def orthogonal(gain: float) -> Initializer:
    """Weights with orthogonal rows or columns of length `gain`, and zero biases, as IQL."""

    def initialize(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
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


def perceptron_critic(activation: str, **options: Any) -> Callable[..., MLP]:
    """The constructor of an MLP with one output; another activation is that of every layer."""

    def make(key: Key, fan_in: int, width: Width, depth: int, **own: Any) -> MLP:
        first = {"first_activation": ""} if "activation" in own else {}
        chosen = {"activation": activation, **options, **first, **own}
        return MLP(key, fan_in, 1, width, depth, **chosen)

    return make


IQL_WEIGHTS = orthogonal(2**0.5)
# Hidden biases of 0.1; the last layer starts near zero.
REBRAC_CRITIC: dict[str, Any] = {
    "initialize": uniform(bias=0.1),
    "initialize_output": uniform(3e-3),
}
REBRAC_POLICY: dict[str, Any] = {
    "initialize": uniform(bias=0.1),
    "initialize_output": uniform(1e-3),
}
FQL_POLICY: dict[str, Any] = {
    "initialize": variance_scaling(1.0),
    "initialize_output": variance_scaling(0.01),
}

NETWORKS: dict[str, dict[str, Callable[..., Any]]] = {
    # Q(s, a) or V(s), from (key, fan_in, width, depth)
    "critic": {
        # Linear, LayerNorm, Tanh, then (Linear, LayerNorm, Mish) …, Linear
        "clean_diffuser": perceptron_critic("mish", norm="before", first_activation="tanh"),
        "plain": perceptron_critic("mish"),  # official DQL, and the paper's table
        "fql": perceptron_critic(
            "gelu", norm="after", initialize=variance_scaling(1.0), norm_epsilon=1e-6
        ),
        "relu": perceptron_critic("relu"),  # PyTorch's initial weights: TD3-BC and SRPO
        "iql": perceptron_critic("relu", initialize=IQL_WEIGHTS),
        "edac": perceptron_critic("relu", **REBRAC_CRITIC),  # and SAC-N
        "cql": perceptron_critic(
            "relu", initialize=IQL_WEIGHTS, initialize_output=orthogonal(1e-2)
        ),
        "rebrac": perceptron_critic("relu", norm="after", norm_epsilon=1e-6, **REBRAC_CRITIC),
        "norm_mish": perceptron_critic("mish", norm="before"),  # CleanDiffuser's IDQL
    },
    # μ(s), from (key, observation_dim, action_dim, width, depth)
    "policy": {
        "relu": partial(MLP, activation="relu"),  # PyTorch's initial weights: TD3-BC
        "iql": partial(MLP, activation="relu", initialize=IQL_WEIGHTS),
        "rebrac": partial(MLP, activation="relu", **REBRAC_POLICY),
        "fql": partial(MLP, activation="gelu", **FQL_POLICY),
        "cql": partial(MLP, activation="relu", initialize_output=variance_scaling(1e-4)),
    },
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


def constructor_of(role: str, kind: str) -> Callable[..., Any]:
    """The constructor of a network, in place of which a user may have put another one."""
    return own_constructor(role) or NETWORKS[role][kind]
