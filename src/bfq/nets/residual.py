"""Residual networks: MeanFlowQL's transformer-like velocity, and the noise network of IDQL and SRPO."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.mlp import (
    ACTIVATIONS,
    Initializer,
    LayerNorm,
    Linear,
    mish,
    torch_uniform,
    variance_scaling,
)
from bfq.nets.policies import drop
from bfq.nets.primitives import replaceable
from bfq.nets.velocity import TimeEmbedding, columns


def small_normal(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Truncated normal weights of variance 0.01 / fan-in with zero biases, as MeanFlowQL's policy."""
    weight = jax.nn.initializers.variance_scaling(0.01, "fan_in", "truncated_normal")(
        key, (fan_in, fan_out)
    )
    return weight, jnp.zeros(fan_out)


def zero_layer(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Zero weights and biases, so that the layer's output starts at exactly 0."""
    return jnp.zeros((fan_in, fan_out)), jnp.zeros(fan_out)


@replaceable
def block_linear(linear: Linear, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
    """The linear map within a residual block."""
    return linear(x)


def rms_norm(x: Float[Array, "*b d"], gain: Float[Array, " d"]) -> Float[Array, "*b d"]:
    """x / rms(x) · √d · gain: the √d, on top of the usual RMS norm, is MeanFlowQL's; `gain` is learned."""
    unit = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)
    return unit * gain * x.shape[-1] ** 0.5


class ResidualBlock(eqx.Module):
    """A transformer block over one token, modulated by the time code.

    Over a single token the softmax of the attention is 1, so attention is the linear value path; the
    queries and keys, which can then have no effect, are left out.
    """

    modulation: Linear
    gain_attention: Float[Array, " d"]
    gain_mlp: Float[Array, " d"]
    value: Linear
    project: Linear
    expand: Linear
    contract: Linear
    residual_scale: float = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(self, key: Key, width: int, residual_scale: float = 0.1, activation: str = "gelu"):
        keys = jax.random.split(key, 5)
        self.modulation = Linear(keys[0], width, 6 * width, zero_layer)
        self.gain_attention, self.gain_mlp = jnp.ones(width), jnp.ones(width)
        self.value = Linear(keys[1], width, width, small_normal)
        self.project = Linear(keys[2], width, width, small_normal)
        self.expand = Linear(keys[3], width, 4 * width, small_normal)
        self.contract = Linear(keys[4], 4 * width, width, small_normal)
        self.residual_scale, self.activation = residual_scale, activation

    def __call__(
        self, x: Float[Array, "*b d"], code: Float[Array, "... d"]
    ) -> Float[Array, "*b d"]:
        """x + 0.1 (block(x) − x)."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = jnp.split(
            block_linear(self.modulation, jax.nn.silu(code)), 6, axis=-1
        )
        y = rms_norm(x, self.gain_attention) * (1.0 + scale_a) + shift_a
        x_attended = x + gate_a * block_linear(self.project, block_linear(self.value, y))
        y = rms_norm(x_attended, self.gain_mlp) * (1.0 + scale_m) + shift_m
        h = ACTIVATIONS[self.activation](block_linear(self.expand, y))
        x_out = x_attended + gate_m * block_linear(self.contract, h)
        return x + self.residual_scale * (x_out - x)


class ResidualVelocity(eqx.Module):
    """Architecture B (OGBench, Adroit): MeanFlowQL's small DiT-style residual network.

    The last layer starts at zero, so the first policy is a = ε; so do the modulations, and the rest small.
    """

    single_times_apart: ClassVar[bool] = True  # see `bfq.flow.maps.together`

    token: Linear
    position: Float[Array, " d"]
    embed_t: TimeEmbedding
    embed_r: TimeEmbedding
    blocks: tuple[ResidualBlock, ...]
    final_modulation: Linear
    final_gain: Float[Array, " d"]
    output: Linear

    def __init__(self, key: Key, s: int, a: int, width: int, depth: int, scale: int, **own: Any):
        keys = jax.random.split(key, depth + 6)
        self.token = Linear(keys[0], s + a, width, small_normal)
        self.position = 0.005 * jax.random.normal(keys[1], (width,))
        self.embed_t, self.embed_r = (
            TimeEmbedding(k, width, width, width, scale, "silu", initialize=small_normal)
            for k in (keys[2], keys[3])
        )
        self.blocks = tuple(ResidualBlock(k, width, **own) for k in keys[6:])
        self.final_modulation = Linear(keys[4], width, 2 * width, zero_layer)
        self.final_gain = jnp.ones(width)
        self.output = Linear(keys[5], width, a, zero_layer)

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        return self.output.bias.shape[-1]

    def __call__(self, noisy_action: Array, r: Array, t: Array, observation: Array) -> Array:
        """Send the one token [s, a_t] through the modulated blocks."""
        x = self.token(jnp.concatenate([observation, noisy_action], axis=-1)) + self.position
        # One row if one time serves all rows, and so are its modulations.
        code = self.embed_t(t) + self.embed_r(r)
        for block in self.blocks:
            x = block(x, code)
        shift, scale = jnp.split(self.final_modulation(jax.nn.silu(code)), 2, axis=-1)
        return self.output(rms_norm(x, self.final_gain) * (1.0 + scale) + shift)


KINDS = ("clean_diffuser", "idql", "srpo")


def lecun(key: Key, fan_in: int, fan_out: int) -> tuple[Array, Array]:
    """Truncated normal weights of variance 1/fan-in and zero biases, Flax's default."""
    return jax.nn.initializers.lecun_normal()(key, (fan_in, fan_out)), jnp.zeros(fan_out)


class FourierEmbedding(eqx.Module):
    """Waves of 2π f_k t refined by a small MLP with Mish.

    Learned f_k start from N(0, 0.2²) and the cosines come first (IDQL); fixed ones are drawn once from
    N(0, 30²) and the sines come first (SRPO).
    """

    frequencies: Float[Array, " f"]
    first: Linear
    second: Linear
    learned: bool = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, out: int, learned: bool, initialize: Initializer):
        frequency_key, first_key, second_key = jax.random.split(key, 3)
        self.frequencies = (0.2 if learned else 30.0) * jax.random.normal(
            frequency_key, (dim // 2,)
        )
        self.first = Linear(first_key, dim, out, initialize)
        self.second = Linear(second_key, out, out, initialize)
        self.learned = learned

    def __call__(self, t: Float[Array, "*b"]) -> Float[Array, "*b o"]:
        """Embed each time."""
        frequencies = self.frequencies if self.learned else jax.lax.stop_gradient(self.frequencies)
        angles = 2.0 * jnp.pi * t[..., None] * frequencies
        waves = [jnp.cos(angles), jnp.sin(angles)]
        code = jnp.concatenate(waves if self.learned else waves[::-1], axis=-1)
        return self.second(mish(self.first(code)))


class Block(eqx.Module):
    """x + Linear(Mish(Linear(LayerNorm(drop(x))))), four times as wide inside."""

    norm: LayerNorm
    expand: Linear
    contract: Linear

    def __init__(self, key: Key, width: int, initialize: Initializer, norm_epsilon: float):
        expand_key, contract_key = jax.random.split(key)
        self.norm = LayerNorm(width, norm_epsilon)
        self.expand = Linear(expand_key, width, 4 * width, initialize)
        self.contract = Linear(contract_key, 4 * width, width, initialize)

    def __call__(
        self, x: Float[Array, "*b d"], rate: float, key: Key | None
    ) -> Float[Array, "*b d"]:
        """Dropout acts on what enters the branch, not on the residual stream."""
        return x + block_linear(
            self.contract, mish(block_linear(self.expand, self.norm(drop(x, rate, key))))
        )


class NoiseResNet(eqx.Module):
    """ε_θ(a_t, t; s): `depth` residual blocks with layer norm and dropout, as in IDQL and SRPO.

    The three codes that use it differ in small ways:

    - "clean_diffuser": sinusoids of t and an MLP with Mish; the last layer is linear in the residual stream;
    - "idql": learned Fourier features, Mish before the last layer, Flax's weights and layer norm (official);
    - "srpo": as "idql" with random Fourier features that are never learned, and PyTorch's weights.
    """

    embed: TimeEmbedding | FourierEmbedding
    enter: Linear
    blocks: tuple[Block, ...]
    leave: Linear
    kind: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
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
        first, epsilon = (lecun, 1e-6) if flax else (torch_uniform, 1e-5)
        self.blocks = tuple(Block(k, width, first, epsilon) for k in block_keys)
        self.leave = Linear(leave_key, width, action_dim, outer)
        self.kind, self.dropout = kind, dropout

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        return self.leave.bias.shape[-1]

    def __call__(
        self, noisy_action: Array, time: Array, observation: Array, key: Key | None = None
    ) -> Array:
        """Evaluate the network; time is one per row, or one for all rows; a key turns dropout on."""
        (code,) = columns(observation, self.embed(time))
        clean = self.kind == "clean_diffuser"
        inputs = (noisy_action, code, observation) if clean else (noisy_action, observation, code)
        x = self.enter(jnp.concatenate(inputs, axis=-1))
        keys = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        for block, block_key in zip(self.blocks, keys, strict=True):
            x = block(x, self.dropout, block_key)
        return self.leave(x if clean else mish(x))
