"""v_θ(a_t, r, t; s): the networks that a flow-map policy is made of.

All are called as `net(noisy_action, r, t, observation)` and return a vector of the action's size.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.embeddings import TimeEmbedding
from bfq.nets.layers import Linear, gelu, inner, small_normal, variance_scaling, zeros
from bfq.nets.mlp import MLP

Velocity = Callable[[Array, Array, Array, Array], Array]  # (a_t, r, t, s) -> v, as the flow sees it


@runtime_checkable
class VelocityNet(Protocol):
    """A velocity that knows the size of what it maps: what every network below is."""

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        ...

    def __call__(
        self,
        noisy_action: Float[Array, "*b a"],
        r: Float[Array, "..."],
        t: Float[Array, "..."],
        observation: Float[Array, "*b s"],
    ) -> Float[Array, "*b a"]:
        """Evaluates the network; r and t are one number a row, or one number for all rows."""
        ...


def beside(x: Float[Array, "*b s"], *codes: Float[Array, "... c"]) -> list[Array]:
    """Codes of the times, one a row; where one time serves all rows it is embedded once and repeated."""
    return [jnp.broadcast_to(code, (*x.shape[:-1], code.shape[-1])) for code in codes]


class EmbeddedVelocity(eqx.Module):
    """Architecture A (D4RL): an MLP with Mish on [a_t, embedding of t, embedding of r, s].

    CleanDiffuser's network for DQL with a second embedding, of its own weights, for r.
    """

    embed: TimeEmbedding  # of t and of r, stacked: one batched product instead of two small ones
    trunk: MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        time_scale: int,
        time_dim: int = 64,
    ):
        t_key, r_key, trunk_key = jax.random.split(key, 3)

        def embedding(k: PRNGKeyArray) -> TimeEmbedding:
            return TimeEmbedding(k, time_dim, 2 * time_dim, time_dim, time_scale)

        self.embed = jax.vmap(embedding)(jnp.stack([t_key, r_key]))
        fan_in = action_dim + 2 * time_dim + observation_dim
        self.trunk = MLP(trunk_key, fan_in, action_dim, width, depth, "mish")

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.trunk.output.bias.shape[-1]

    def code(self, r: Float[Array, "..."], t: Float[Array, "..."]) -> Float[Array, "*b c"]:
        """[embedding of t, embedding of r]."""
        both = jnp.stack(jnp.broadcast_arrays(t, r))
        of_t, of_r = jax.vmap(lambda net, time: net(time))(self.embed, both)
        return jnp.concatenate([of_t, of_r], axis=-1)

    def at(self, code: Array, noisy_action: Array, observation: Array) -> Array:
        """Concatenates in CleanDiffuser's order and applies the trunk."""
        codes = beside(observation, code)
        return self.trunk(jnp.concatenate([noisy_action, *codes, observation], axis=-1))

    def __call__(self, noisy_action: Array, r: Array, t: Array, observation: Array) -> Array:
        """The velocity, from times that are embedded first."""
        return self.at(self.code(r, t), noisy_action, observation)


class RawTimeVelocity(eqx.Module):
    """Architecture B′: FQL's MLP on [s, a_t, t, r] with the times as plain numbers."""

    trunk: MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        activation: str = "gelu",
    ):
        fan_in = observation_dim + action_dim + 2
        self.trunk = MLP(
            key, fan_in, action_dim, width, depth, activation, initialize=variance_scaling(1.0)
        )

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.trunk.output.bias.shape[-1]

    def __call__(self, noisy_action: Array, r: Array, t: Array, observation: Array) -> Array:
        """Concatenates in FQL's order and applies the trunk."""
        codes = beside(observation, t[..., None], r[..., None])
        return self.trunk(jnp.concatenate([observation, noisy_action, *codes], axis=-1))


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

    def __init__(self, key: PRNGKeyArray, width: int, residual_scale: float = 0.1):
        keys = jax.random.split(key, 5)
        self.modulation = Linear(keys[0], width, 6 * width, zeros)
        self.gain_attention, self.gain_mlp = jnp.ones(width), jnp.ones(width)
        self.value = Linear(keys[1], width, width, small_normal)
        self.project = Linear(keys[2], width, width, small_normal)
        self.expand = Linear(keys[3], width, 4 * width, small_normal)
        self.contract = Linear(keys[4], 4 * width, width, small_normal)
        self.residual_scale = residual_scale

    def __call__(
        self, x: Float[Array, "*b d"], code: Float[Array, "... d"]
    ) -> Float[Array, "*b d"]:
        """x + 0.1 (block(x) − x)."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = jnp.split(
            inner(self.modulation, jax.nn.silu(code)), 6, axis=-1
        )
        y = rms_norm(x, self.gain_attention) * (1.0 + scale_a) + shift_a
        x_attended = x + gate_a * inner(self.project, inner(self.value, y))
        y = rms_norm(x_attended, self.gain_mlp) * (1.0 + scale_m) + shift_m
        x_out = x_attended + gate_m * inner(self.contract, gelu(inner(self.expand, y)))
        return x + self.residual_scale * (x_out - x)


class ResidualVelocity(eqx.Module):
    """Architecture B (OGBench, Adroit): MeanFlowQL's small DiT-style residual network.

    The last layer starts at zero, so the first policy is a = ε; so do the modulations, and the rest small.
    """

    token: Linear
    position: Float[Array, " d"]
    embed_t: TimeEmbedding
    embed_r: TimeEmbedding
    blocks: tuple[ResidualBlock, ...]
    final_modulation: Linear
    final_gain: Float[Array, " d"]
    output: Linear

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        time_scale: int,
    ):
        keys = jax.random.split(key, depth + 6)
        self.token = Linear(keys[0], observation_dim + action_dim, width, small_normal)
        self.position = 0.005 * jax.random.normal(keys[1], (width,))
        self.embed_t, self.embed_r = (
            TimeEmbedding(k, width, width, width, time_scale, "silu", initialize=small_normal)
            for k in (keys[2], keys[3])
        )
        self.blocks = tuple(ResidualBlock(k, width) for k in keys[6:])
        self.final_modulation = Linear(keys[4], width, 2 * width, zeros)
        self.final_gain = jnp.ones(width)
        self.output = Linear(keys[5], width, action_dim, zeros)

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.output.bias.shape[-1]

    def __call__(self, noisy_action: Array, r: Array, t: Array, observation: Array) -> Array:
        """Runs the one token [s, a_t] through the modulated blocks."""
        x = self.token(jnp.concatenate([observation, noisy_action], axis=-1)) + self.position
        code = self.embed_t(t) + self.embed_r(
            r
        )  # one row if one time serves all: so are its modulations
        for block in self.blocks:
            x = block(x, code)
        shift, scale = jnp.split(self.final_modulation(jax.nn.silu(code)), 2, axis=-1)
        return self.output(rms_norm(x, self.final_gain) * (1.0 + scale) + shift)


VelocityFactory = Callable[[PRNGKeyArray, int, int, int, int, int], VelocityNet]

ARCHITECTURES: dict[str, VelocityFactory] = {
    "embedded": EmbeddedVelocity,
    "residual": ResidualVelocity,
    "raw_time": lambda key, s, a, width, depth, time_scale: RawTimeVelocity(
        key, s, a, width, depth
    ),
}
