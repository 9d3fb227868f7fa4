"""How a network is told the time."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import Initializer, Linear, torch_uniform
from bfq.nets.mlp import Finish, apply_layers


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

    `scale` multiplies t ∈ [0, 1] before the sinusoids: at 1 the code hardly moves between t = 0 and t = 1,
    at 100 times a few hundredths apart have unrelated codes.
    """

    first: Linear
    second: Linear
    dim: int = eqx.field(static=True)
    scale: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    code: str = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
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
        """Embeds each time."""
        code = CODES[self.code](t * self.scale, self.dim)
        return apply_layers((self.first,), (Finish(self.activation),), ((),), self.second, code)
