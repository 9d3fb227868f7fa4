"""ε_θ(a_t, t; s): the networks that a diffusion policy is made of.

All are called as `net(noisy_action, time, observation)` and return a vector of the action's size: the noise
or the clean action, as their user trains them.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.embeddings import TimeEmbedding
from bfq.nets.mlp import MLP
from bfq.nets.velocity import beside


@runtime_checkable
class Denoiser(Protocol):
    """A prediction that knows the size of what it denoises: what every network below is."""

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        ...

    def __call__(
        self,
        noisy_action: Float[Array, "*b a"],
        time: Float[Array, "..."],
        observation: Float[Array, "*b s"],
    ) -> Float[Array, "*b a"]:
        """Evaluates the network; the time is one number a row, or one number for all rows."""
        ...


class EmbeddedDenoiser(eqx.Module):
    """An MLP with Mish on [a_t, embedding of t, s], the embedding refined by a small MLP of its own."""

    embed: TimeEmbedding
    trunk: MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_dim: int,
        action_dim: int,
        width: int,
        depth: int,
        time_dim: int,
        code: str,
    ):
        embed_key, trunk_key = jax.random.split(key)
        self.embed = TimeEmbedding(embed_key, time_dim, 2 * time_dim, time_dim, scale=1, code=code)
        fan_in = action_dim + time_dim + observation_dim
        self.trunk = MLP(trunk_key, fan_in, action_dim, width, depth, "mish")

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self.trunk.output.bias.shape[-1]

    def __call__(
        self,
        noisy_action: Float[Array, "*b a"],
        time: Float[Array, "..."],
        observation: Float[Array, "*b s"],
    ) -> Float[Array, "*b a"]:
        """Concatenates in the references' order and applies the trunk."""
        codes = beside(observation, self.embed(time))
        return self.trunk(jnp.concatenate([noisy_action, *codes, observation], axis=-1))


DENOISERS: dict[str, Callable[[PRNGKeyArray, int, int, int, int], Denoiser]] = {
    "clean_diffuser": partial(
        EmbeddedDenoiser, time_dim=64, code="cosines_first"
    ),  # its DQL and EDP
    "official": partial(
        EmbeddedDenoiser, time_dim=16, code="sines_first"
    ),  # the authors of DQL and CAC
    "edp": partial(EmbeddedDenoiser, time_dim=16, code="cosines_first"),  # the authors of EDP
}
