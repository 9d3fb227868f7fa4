"""ε_θ(a_t, t; s): the residual network with layer norm and dropout of IDQL and SRPO.

Called as `net(noisy_action, time, observation, key)`; without a key nothing is dropped. The three codes that
use it differ in small ways, which `kind` keeps apart:

- "clean_diffuser": sinusoids of t and a small MLP with Mish; the last layer is linear in the residual stream;
- "idql": learned Fourier features, Mish before the last layer, Flax's first weights and layer norm (official);
- "srpo": as "idql" with random Fourier features that are never learned, and PyTorch's first weights.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.embeddings import TimeEmbedding
from bfq.nets.layers import (
    Initializer,
    LayerNorm,
    Linear,
    drop,
    inner,
    mish,
    torch_uniform,
    variance_scaling,
)
from bfq.nets.velocity import beside

KINDS = ("clean_diffuser", "idql", "srpo")


def lecun(key: PRNGKeyArray, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Truncated normal weights of variance 1/fan-in and zero biases: what Flax does unless told otherwise."""
    return jax.nn.initializers.lecun_normal()(key, (fan_in, fan_out)), jnp.zeros(fan_out)


class FourierEmbedding(eqx.Module):
    """Waves of 2π f_k t refined by a small MLP with Mish.

    Learnt f_k start from N(0, 0.2²) and the cosines come first (IDQL); fixed ones are drawn once from
    N(0, 30²) and the sines come first (SRPO).
    """

    frequencies: Float[Array, " f"]
    first: Linear
    second: Linear
    learned: bool = eqx.field(static=True)

    def __init__(
        self, key: PRNGKeyArray, dim: int, out: int, learned: bool, initialize: Initializer
    ):
        frequency_key, first_key, second_key = jax.random.split(key, 3)
        self.frequencies = (0.2 if learned else 30.0) * jax.random.normal(
            frequency_key, (dim // 2,)
        )
        self.first = Linear(first_key, dim, out, initialize)
        self.second = Linear(second_key, out, out, initialize)
        self.learned = learned

    def __call__(self, t: Float[Array, "*b"]) -> Float[Array, "*b o"]:
        """Embeds each time."""
        frequencies = self.frequencies if self.learned else jax.lax.stop_gradient(self.frequencies)
        angles = 2.0 * jnp.pi * t[..., None] * frequencies
        waves = [jnp.cos(angles), jnp.sin(angles)]
        code = jnp.concatenate(waves if self.learned else waves[::-1], axis=-1)
        return self.second(mish(self.first(code)))


class Block(eqx.Module):
    """X + Linear(Mish(Linear(LayerNorm(drop(x))))), four times as wide inside."""

    norm: LayerNorm
    expand: Linear
    contract: Linear

    def __init__(self, key: PRNGKeyArray, width: int, initialize: Initializer, norm_epsilon: float):
        expand_key, contract_key = jax.random.split(key)
        self.norm = LayerNorm(width, norm_epsilon)
        self.expand = Linear(expand_key, width, 4 * width, initialize)
        self.contract = Linear(contract_key, 4 * width, width, initialize)

    def __call__(
        self, x: Float[Array, "*b d"], rate: float, key: PRNGKeyArray | None
    ) -> Float[Array, "*b d"]:
        """Dropout acts on what enters the branch, not on the residual stream."""
        return x + inner(self.contract, mish(inner(self.expand, self.norm(drop(x, rate, key)))))


class NoiseResNet(eqx.Module):
    """`depth` residual blocks of `width` on a_t, an embedding of t, and s; it predicts the noise."""

    embed: TimeEmbedding | FourierEmbedding
    enter: Linear
    blocks: tuple[Block, ...]
    leave: Linear
    kind: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        kind: str,
        dropout: float = 0.1,
    ):
        embed_key, enter_key, leave_key, *block_keys = jax.random.split(key, 3 + depth)
        flax = kind == "idql"
        outer = variance_scaling(1.0) if flax else torch_uniform
        if kind == "clean_diffuser":
            self.embed = TimeEmbedding(embed_key, 64, 128, 64, 1)
        else:
            self.embed = FourierEmbedding(embed_key, 64, 128, kind == "idql", outer)
        fan_in = action_dim + self.embed.second.bias.shape[-1] + observation_dim
        self.enter = Linear(enter_key, fan_in, width, outer)
        inner, epsilon = (lecun, 1e-6) if flax else (torch_uniform, 1e-5)
        self.blocks = tuple(Block(k, width, inner, epsilon) for k in block_keys)
        self.leave = Linear(leave_key, width, action_dim, outer)
        self.kind, self.dropout = kind, dropout

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.leave.bias.shape[-1]

    def __call__(
        self,
        noisy_action: Float[Array, "*b a"],
        time: Float[Array, "..."],
        observation: Float[Array, "*b s"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "*b a"]:
        """Evaluates the network; time is one number a row, or one for all rows; a key switches dropout on."""
        (code,) = beside(observation, self.embed(time))
        clean = self.kind == "clean_diffuser"
        inputs = (noisy_action, code, observation) if clean else (noisy_action, observation, code)
        x = self.enter(jnp.concatenate(inputs, axis=-1))
        keys = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        for block, block_key in zip(self.blocks, keys, strict=True):
            x = block(x, self.dropout, block_key)
        return self.leave(x if clean else mish(x))
