"""Q(s, a): an ensemble of independent critics, evaluated at once; and V(s), of the same kinds."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import orthogonal, uniform, variance_scaling
from bfq.nets.mlp import MLP
from bfq.nets.primitives import use_kernels


def _clean_diffuser(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, LayerNorm, Tanh, then (Linear, LayerNorm, Mish) …, Linear."""
    return MLP(key, fan_in, 1, width, depth, "mish", norm="before", first_activation="tanh")


def _plain(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and Mish alone, as official DQL and the paper's table."""
    return MLP(key, fan_in, 1, width, depth, "mish")


def _fql(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, GELU, LayerNorm with variance-scaled weights, as the FQL family."""
    xavier = variance_scaling(1.0)
    return MLP(
        key, fan_in, 1, width, depth, "gelu", norm="after", initialize=xavier, norm_epsilon=1e-6
    )


def _relu(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and ReLU alone with PyTorch's first weights, as TD3-BC and SRPO."""
    return MLP(key, fan_in, 1, width, depth, "relu")


def _iql(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear and ReLU with orthogonal weights, as IQL's own code."""
    return MLP(key, fan_in, 1, width, depth, "relu", initialize=orthogonal(2**0.5))


def _rebrac(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, ReLU, LayerNorm; hidden biases of 0.1 and a last layer near zero, as ReBRAC's own code."""
    return MLP(
        key, fan_in, 1, width, depth, "relu", norm="after",
        initialize=uniform(bias=0.1), initialize_output=uniform(3e-3), norm_epsilon=1e-6,
    )  # fmt: skip


def _norm_mish(key: PRNGKeyArray, fan_in: int, width: int, depth: int) -> MLP:
    """Linear, LayerNorm, Mish, as CleanDiffuser's IDQL."""
    return MLP(key, fan_in, 1, width, depth, "mish", norm="before")


KINDS: dict[str, Callable[[PRNGKeyArray, int, int, int], MLP]] = {
    "clean_diffuser": _clean_diffuser,
    "plain": _plain,
    "fql": _fql,
    "relu": _relu,
    "iql": _iql,
    "rebrac": _rebrac,
    "norm_mish": _norm_mish,
}


class Value(eqx.Module):
    """V(s)."""

    net: MLP

    def __init__(self, key: PRNGKeyArray, observation_dim: int, kind: str, width: int, depth: int):
        self.net = KINDS[kind](key, observation_dim, width, depth)

    def __call__(self, observations: Float[Array, "*b s"]) -> Float[Array, "*b"]:
        """One number a state."""
        return self.net(observations)[..., 0]


class Critics(eqx.Module):
    """`count` critics with stacked parameters: one batched product instead of `count` small ones."""

    stacked: MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        kind: str,
        width: int,
        depth: int,
        count: int = 2,
    ):
        def make(k: PRNGKeyArray) -> MLP:
            return KINDS[kind](k, observation_dim + action_dim, width, depth)

        self.stacked = jax.vmap(make)(jax.random.split(key, count))

    def __call__(
        self, observations: Float[Array, "*b s"], actions: Float[Array, "*b a"]
    ) -> Float[Array, "q *b"]:
        """Q_i(s, a), the critics along the first axis."""
        inputs = jnp.concatenate([observations, actions], axis=-1)
        if use_kernels():  # as one product with all weights, the rows would be transposed
            count = self.stacked.output.bias.shape[0]
            several = jnp.broadcast_to(inputs, (count, *inputs.shape))
            return jax.vmap(lambda net, x: net(x))(self.stacked, several)[..., 0]
        values: Array = jax.vmap(lambda net: net(inputs))(self.stacked)
        return values[..., 0]
