"""π(s): policies that need no sampling chain, deterministic or Gaussian.

Both are one MLP; the kinds differ in activation and first weights, as the reference codes do.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import ACTIVATIONS, drop, orthogonal, uniform, variance_scaling
from bfq.nets.mlp import MLP

LOG_STD_RANGE = (-5.0, 2.0)  # IQL's bounds on log σ
DROPOUT = 0.1  # share of hidden units left out while training, where a policy has dropout


def _relu(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU with PyTorch's first weights, as TD3-BC."""
    return MLP(key, s, a, width, depth, "relu")


def _iql(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU with orthogonal weights, as IQL's own code."""
    return MLP(key, s, a, width, depth, "relu", initialize=orthogonal(2**0.5))


def _rebrac(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """ReLU, hidden biases of 0.1 and a last layer near zero, as ReBRAC's own code."""
    return MLP(
        key,
        s,
        a,
        width,
        depth,
        "relu",
        initialize=uniform(bias=0.1),
        initialize_output=uniform(1e-3),
    )


def _fql(key: PRNGKeyArray, s: int, a: int, width: int, depth: int) -> MLP:
    """GELU with variance-scaled weights and a small last layer, as the FQL family."""
    return fql_like(key, s, a, width, depth, "gelu")


def fql_like(key: PRNGKeyArray, s: int, a: int, width: int, depth: int, activation: str) -> MLP:
    """An MLP with the FQL family's first weights: variance-scaled, the last layer a hundredth of that."""
    first, last = variance_scaling(1.0), variance_scaling(0.01)
    return MLP(key, s, a, width, depth, activation, initialize=first, initialize_output=last)


KINDS: dict[str, Callable[[PRNGKeyArray, int, int, int, int], MLP]] = {
    "relu": _relu,
    "iql": _iql,
    "rebrac": _rebrac,
    "fql": _fql,
}


def dropped_out(
    net: MLP, x: Float[Array, "*b i"], key: PRNGKeyArray, rate: float
) -> Float[Array, "*b o"]:
    """The MLP with each hidden unit at 0 with probability `rate`, else at 1/(1 − rate) of itself."""
    for k, (linear, activation) in enumerate(zip(net.hidden, net.activations, strict=True)):
        x = drop(ACTIVATIONS[activation](linear(x)), rate, jax.random.fold_in(key, k))
    return net.output(x)


class Deterministic(eqx.Module):
    """a = tanh μ(s)."""

    mean: MLP

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b a"]:
        """The action, within (−1, 1)."""
        return jnp.tanh(self.mean(observations))

    def smoothed(
        self,
        observations: Float[Array, "*b s"],
        key: PRNGKeyArray,
        noise: float | Float[Array, ""],
        bound: float | Float[Array, ""],
    ) -> Float[Array, "*b a"]:
        """clip(π(s) + clip(noise · N(0, I), ±bound), ±1): TD3's action in a target."""
        action = self(observations)
        shift = jnp.clip(noise * jax.random.normal(key, action.shape), -bound, bound)
        return jnp.clip(action + shift, -1.0, 1.0)


class Gaussian(eqx.Module):
    """N(μ(s), σ² I) with one σ for each action dimension, or σ = 1; never squashed.

    `tanh_mean` bounds μ, not the distribution.
    """

    mean: MLP
    log_std: Float[Array, " a"] | None  # None: σ = 1
    tanh_mean: bool = eqx.field(static=True)

    def __init__(self, mean: MLP, unit_std: bool = False, tanh_mean: bool = False):
        self.mean, self.tanh_mean = mean, tanh_mean
        self.log_std = None if unit_std else jnp.zeros(mean.output.bias.shape[-1])

    def __call__(
        self, observations: Float[Array, "*b s"], dropout_key: PRNGKeyArray | None = None
    ) -> Float[Array, "*b a"]:
        """μ(s), the action at evaluation; with a key, as in training with dropout."""
        if dropout_key is None:
            mean = self.mean(observations)
        else:
            mean = dropped_out(self.mean, observations, dropout_key, DROPOUT)
        return jnp.tanh(mean) if self.tanh_mean else mean

    def log_prob(
        self,
        observations: Float[Array, "*b s"],
        actions: Float[Array, "*b a"],
        dropout_key: PRNGKeyArray | None = None,
    ) -> Float[Array, "*b"]:
        """log N(a; μ(s), σ² I) = −½ Σ ((a − μ)/σ)² − Σ log σ − (d/2) log 2π."""
        log_std = jnp.zeros(()) if self.log_std is None else jnp.clip(self.log_std, *LOG_STD_RANGE)
        z = (actions - self(observations, dropout_key)) * jnp.exp(-log_std)
        return -(0.5 * jnp.square(z) + log_std + 0.5 * jnp.log(2.0 * jnp.pi)).sum(-1)
