"""Networks that receive times, as plain numbers or embedded: velocities and denoisers.

A velocity v_θ(a_t, r, t; s) is called as `net(noisy_action, r, t, observation)`, a denoiser ε_θ(a_t, t; s) as
`net(noisy_action, t, observation)`. Both return a vector of the action's size. A time is one number per row,
or one number for all rows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from jaxtyping import PRNGKeyArray as Key

from bfq.nets import Width, mlp
from bfq.nets.mlp import MLP, Finish, Initializer, Linear, apply_layers, torch_uniform

TIME_DIM = 64  # numbers in the code of a time of a velocity
Pair = tuple[Float[Array, " _"], Float[Array, " _"]]  # (r, t) of several rows


def columns(x: Float[Array, "*b s"], *codes: Float[Array, "... c"]) -> list[Array]:
    """Codes of times as columns beside x; one code for all rows is repeated."""
    return [jnp.broadcast_to(code, (*x.shape[:-1], code.shape[-1])) for code in codes]


class TrunkNetwork(eqx.Module):
    """A network that ends in an MLP with one output per action dimension."""

    trunk: eqx.AbstractVar[MLP]

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        return self.trunk.fan_out

    def at(self, code: Array, noisy_action: Array, observation: Array) -> Array:
        """Apply the trunk to [a_t, code of the times, s], CleanDiffuser's order."""
        codes = columns(observation, code)
        return self.trunk(jnp.concatenate([noisy_action, *codes, observation], axis=-1))


class FlowNet(TrunkNetwork):
    """The FQL family's network: an MLP with GELU on [s, x, numbers], called with (x, numbers…, s).

    Without numbers it is FQL's one-step policy μ_ω(z; s), with one the velocity v_θ(x_t, t; s), and with two
    SORL's velocity s_θ(x_t, t, k; s) of a step of length 2^−k. The state may have width 0.
    """

    trunk: MLP

    def __init__(
        self,
        key: Key,
        observation_dim: int,
        action_dim: int,
        width: Width,
        depth: int,
        numbers: int = 0,
        activation: str = "gelu",
        norm: str = "none",
    ):
        fan_in, first = observation_dim + action_dim + numbers, mlp.variance_scaling(1.0)
        self.trunk = MLP(key, fan_in, action_dim, width, depth, activation, norm, initialize=first)

    def __call__(
        self, x: Float[Array, "*b a"], *inputs: Float[Array, "..."]
    ) -> Float[Array, "*b a"]:
        """Apply the MLP; each number is one per row, or one for all rows."""
        *numbers, observation = inputs
        beside = columns(observation, *(number[..., None] for number in numbers))
        return self.trunk(jnp.concatenate([observation, x, *beside], axis=-1))


class RawTimeVelocity(FlowNet):
    """Architecture B′: FQL's MLP on [s, a_t, t, r] with the times as plain numbers."""

    def __init__(self, key: Key, s: int, a: int, width: Width, depth: int, *_: int, **own: Any):
        # A fifth size would scale times before an embedding, which is not there.
        super().__init__(key, s, a, width, depth, 2, **own)

    def __call__(self, x: Array, *inputs: Array) -> Array:
        """The velocity from (a_t, r, t, s); FQL's order has t first."""
        r, t, observation = inputs
        return super().__call__(x, t, r, observation)


def sinusoidal(x: Float[Array, "*b"], dim: int) -> Float[Array, "*b dim"]:
    """[cos(x f_k), sin(x f_k)] with f_k = 10000^(−k/(dim/2)): cosines first, as CleanDiffuser orders them."""
    half = dim // 2
    frequencies = 10000.0 ** (-jnp.arange(half) / half)
    angles = x[..., None] * frequencies
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def sines_first(x: Float[Array, "*b"], dim: int) -> Float[Array, "*b dim"]:
    """[sin(x f_k), cos(x f_k)] with f_k = 10000^(−k/(dim/2 − 1)): as official DQL orders and spaces them."""
    half = dim // 2
    angles = x[..., None] * 10000.0 ** (-jnp.arange(half) / (half - 1))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


CODES: dict[str, Callable[[Array, int], Array]] = {
    "cosines_first": sinusoidal,
    "sines_first": sines_first,
}


class TimeEmbedding(eqx.Module):
    """A sinusoidal code of scale · t, refined by a small MLP.

    `scale` multiplies t ∈ [0, 1] before the sinusoids: at 1 the code hardly changes between t = 0 and t = 1;
    at 100 times that are a few hundredths apart have unrelated codes.
    """

    first: Linear
    second: Linear
    dim: int = eqx.field(static=True)
    scale: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    code: str = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        dim: int,
        hidden: int,
        out: int,
        scale: int,
        activation: str = "mish",
        code: str = "cosines_first",
        initialize: Initializer = torch_uniform,
    ):
        first_key, second_key = jax.random.split(key)
        self.first = Linear(first_key, dim, hidden, initialize)
        self.second = Linear(second_key, hidden, out, initialize)
        self.dim, self.scale, self.activation, self.code = dim, scale, activation, code

    def __call__(self, t: Float[Array, "*b"]) -> Float[Array, "*b o"]:
        """Embed each time."""
        code = CODES[self.code](t * self.scale, self.dim)
        return apply_layers((self.first,), (Finish(self.activation),), ((),), self.second, code)


class EmbeddedVelocity(TrunkNetwork):
    """Architecture A (D4RL): an MLP with Mish on [a_t, embedding of t, embedding of r, s].

    CleanDiffuser's network for DQL with a second embedding, of its own weights, for r.
    """

    embed: TimeEmbedding  # of t and of r, stacked: one batched product instead of two small ones
    trunk: MLP

    def __init__(self, key: Key, s: int, a: int, width: Width, depth: int, scale: int, **own: Any):
        t_key, r_key, trunk_key = jax.random.split(key, 3)

        def embedding(k: Key) -> TimeEmbedding:
            return TimeEmbedding(k, TIME_DIM, 2 * TIME_DIM, TIME_DIM, scale)

        self.embed = jax.vmap(embedding)(jnp.stack([t_key, r_key]))
        style: dict[str, Any] = {"activation": "mish", **own}
        self.trunk = MLP(trunk_key, a + 2 * TIME_DIM + s, a, width, depth, **style)

    def code(self, r: Float[Array, "..."], t: Float[Array, "..."]) -> Float[Array, "*b c"]:
        """[embedding of t, embedding of r]."""
        both = jnp.stack(jnp.broadcast_arrays(t, r))
        of_t, of_r = jax.vmap(lambda net, time: net(time))(self.embed, both)
        return jnp.concatenate([of_t, of_r], axis=-1)

    def __call__(self, noisy_action: Array, r: Array, t: Array, observation: Array) -> Array:
        """The velocity, from times that are embedded first."""
        return self.at(self.code(r, t), noisy_action, observation)

    def embed_once(
        self, near: Pair, spans: tuple[Array, Array, Array], others: Sequence[Any]
    ) -> list[Callable[..., Array]]:
        """The velocity over (m, t), over (r, m), and at the rows of `near`, (r, t) and `others`.

        All times are embedded in one call, and none twice: the nested calls take t and r from the outer one,
        and a pair that serves all rows of a query is one row.
        """
        r, m, t = spans
        pairs = [near, (r, t), (m, m), *(tuple(map(jnp.atleast_1d, (q.r, q.t))) for q in others)]
        code = self.code(*(jnp.concatenate(times) for times in zip(*pairs, strict=True)))
        ends = np.cumsum([len(t) for _, t in pairs])[:-1]
        of_near, of_span, of_m, *of_others = jnp.split(code, ends)
        of_t, of_r = jnp.split(of_span, 2, axis=-1)
        m_as_t, m_as_r = jnp.split(of_m, 2, axis=-1)
        spread = [
            jnp.broadcast_to(part, (len(query.x), part.shape[1]))
            for part, query in zip(of_others, others, strict=True)
        ]

        def given(*code: Array, axis: int) -> Callable[..., Array]:
            joined = jnp.concatenate(code, axis)
            return lambda x, r, t, s: self.at(joined, x, s)

        return [
            given(of_t, m_as_r, axis=-1),
            given(m_as_t, of_r, axis=-1),
            given(of_near, of_span, *spread, axis=0),
        ]


class EmbeddedDenoiser(TrunkNetwork):
    """An MLP with Mish on [a_t, embedding of t, s]: the noise or the clean action, as it was trained."""

    embed: TimeEmbedding
    trunk: MLP

    def __init__(
        self,
        key: Key,
        s: int,
        a: int,
        width: Width,
        depth: int,
        time_dim: int,
        code: str,
        **own: Any,
    ):
        embed_key, trunk_key = jax.random.split(key)
        self.embed = TimeEmbedding(embed_key, time_dim, 2 * time_dim, time_dim, scale=1, code=code)
        style: dict[str, Any] = {"activation": "mish", **own}
        self.trunk = MLP(trunk_key, a + time_dim + s, a, width, depth, **style)

    def __call__(self, noisy_action: Array, t: Array, observation: Array) -> Array:
        """The prediction, from times that are embedded first."""
        return self.at(self.embed(t), noisy_action, observation)
