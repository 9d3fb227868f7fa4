"""Policies of one network call: deterministic, Gaussian or squashed Gaussian, each one MLP."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.mlp import MLP

Number = float | Float[Array, ""]
LOG_STD_RANGE = (-5.0, 2.0)  # IQL's bounds on log σ
DROPOUT = 0.1  # share of hidden units left out while training, where a policy has dropout


def drop(x: Float[Array, "*b d"], rate: float, key: Key | None) -> Float[Array, "*b d"]:
    """Sets a share `rate` of the numbers to 0 and divides the others by 1 − rate; without a key, x itself."""
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1.0 - rate, x.shape), x / (1.0 - rate), 0.0)


def dropped_out(net: MLP, x: Float[Array, "*b i"], key: Key, rate: float) -> Float[Array, "*b o"]:
    """The MLP with each hidden unit at 0 with probability `rate`, else at 1/(1 − rate) of itself."""
    for k, (linear, finish, norm) in enumerate(net.layers()):
        x = drop(finish(linear(x), *norm), rate, jax.random.fold_in(key, k))
    return net.output(x)


class Deterministic(eqx.Module):
    """a = tanh μ(s)."""

    mean: Any

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b a"]:
        """The action, within (−1, 1)."""
        return jnp.tanh(self.mean(observations))

    def smoothed(
        self, observations: Float[Array, "*b s"], key: Key, noise: Number, bound: Number
    ) -> Float[Array, "*b a"]:
        """clip(π(s) + clip(noise · N(0, I), ±bound), ±1): TD3's action in a target."""
        action = self(observations)
        shift = jnp.clip(noise * jax.random.normal(key, action.shape), -bound, bound)
        return jnp.clip(action + shift, -1.0, 1.0)


class Squashed(eqx.Module):
    """tanh u with u ~ N(μ(s), σ(s)² I): one MLP gives μ and log σ, as in soft actor-critic."""

    net: Any
    least: float = eqx.field(static=True)  # the lower bound on log σ
    shift: float = eqx.field(static=True)  # added to log σ

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b a"]:
        """tanh μ(s), the action at evaluation."""
        return jnp.tanh(jnp.split(self.net(observations), 2, axis=-1)[0])

    def draw(
        self, observations: Float[Array, "*b s"], key: Key
    ) -> tuple[Float[Array, "*b a"], Float[Array, "*b"]]:
        """An action and log π(a | s) = Σ log N(u; μ, σ) − log(1 − tanh² u).

        log(1 − tanh² u) = 2 (log 2 − u − softplus(−2u)) stays finite for large |u|.
        """
        mean, log_std = jnp.split(self.net(observations), 2, axis=-1)
        log_std = jnp.clip(log_std + self.shift, self.least, LOG_STD_RANGE[1])
        noise = jax.random.normal(key, mean.shape)
        u = mean + jnp.exp(log_std) * noise
        normal = -0.5 * jnp.square(noise) - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        squash = 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))
        return jnp.tanh(u), (normal - squash).sum(-1)


class Gaussian(eqx.Module):
    """N(μ(s), σ² I) with one σ for each action dimension, or σ = 1; never squashed.

    `tanh_mean` bounds μ, not the distribution.
    """

    mean: Any
    log_std: Float[Array, " a"] | None  # None: σ = 1
    tanh_mean: bool = eqx.field(static=True)

    def __init__(self, mean: Any, unit_std: bool = False, tanh_mean: bool = False):
        self.mean, self.tanh_mean = mean, tanh_mean
        self.log_std = None if unit_std else jnp.zeros(mean.fan_out)

    def __call__(
        self, observations: Float[Array, "*b s"], dropout_key: Key | None = None
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
        dropout_key: Key | None = None,
    ) -> Float[Array, "*b"]:
        """log N(a; μ(s), σ² I) = −½ Σ ((a − μ)/σ)² − Σ log σ − (d/2) log 2π."""
        log_std = jnp.zeros(()) if self.log_std is None else jnp.clip(self.log_std, *LOG_STD_RANGE)
        z = (actions - self(observations, dropout_key)) * jnp.exp(-log_std)
        return -(0.5 * jnp.square(z) + log_std + 0.5 * jnp.log(2.0 * jnp.pi)).sum(-1)
