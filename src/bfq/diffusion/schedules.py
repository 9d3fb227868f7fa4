"""How much of an action is left at each time: a_t = α_t a + σ_t ε with α² + σ² = 1.

Discrete schedules are indexed from 0, the least noise, to T − 1, the most.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Schedule(NamedTuple):
    """Signal and noise at each of T times."""

    alpha: Float[Array, " T"]
    sigma: Float[Array, " T"]
    ends_noisy: bool = (
        True  # at index 0 there is noise left: samplers go on from it to the action itself
    )

    @property
    def times(self) -> int:
        """T."""
        return self.alpha.shape[0]


def _schedule(alpha: Float[np.ndarray, " T"], ends_noisy: bool) -> Schedule:
    """σ from α in double precision: where α is near 1, single precision would lose half of σ's digits."""
    sigma = np.sqrt(1.0 - alpha**2)
    return Schedule(jnp.asarray(alpha, jnp.float32), jnp.asarray(sigma, jnp.float32), ends_noisy)


def from_betas(betas: Float[np.ndarray, " T"]) -> Schedule:
    """α_t² = Π_{i ≤ t} (1 − β_i)."""
    return _schedule(np.sqrt(np.cumprod(1.0 - betas)), ends_noisy=True)


def vp(count: int, least: float = 0.1, most: float = 10.0) -> Schedule:
    """β_i = 1 − exp(−β_min/T − ½(β_max − β_min)(2i − 1)/T²), i = 1 … T: official DQL and IDQL."""
    i = np.arange(1, count + 1)
    return from_betas(1.0 - np.exp(-least / count - 0.5 * (most - least) * (2 * i - 1) / count**2))


def linear(count: int) -> Schedule:
    """β from 10⁻⁴ to 0.02 in equal steps, both times 1000/T: official EDP."""
    scale = 1000.0 / count
    return from_betas(np.linspace(scale * 1e-4, scale * 0.02, count))


def cosine(count: int, offset: float = 0.008, latest: float = 0.9946) -> Schedule:
    """α(t) = cos(π/2 · (t + s)/(1 + s)) / cos(π/2 · s/(1 + s)) at T times from 10⁻³ to 1: CleanDiffuser.

    No time is later than 0.9946. CleanDiffuser's code moves only the last one there, which is the same up to
    T = 186; beyond, its noise would fall again at the end.
    """
    t = np.minimum(np.linspace(1e-3, 1.0, count), latest)
    alpha = np.cos(np.pi / 2 * (t + offset) / (1 + offset)) / np.cos(
        np.pi / 2 * offset / (1 + offset)
    )
    return _schedule(alpha, ends_noisy=False)


def vp_sde(
    t: Float[Array, "*b"], least: float = 0.1, most: float = 20.0
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """α and σ at any t ∈ (0, 1]: log α(t) = −t²(β_max − β_min)/4 − β_min t/2 (SRPO)."""
    log_alpha = -(t**2) * (most - least) / 4 - 0.5 * least * t
    return jnp.exp(log_alpha), jnp.sqrt(-jnp.expm1(2.0 * log_alpha))


SCHEDULES = {"vp": vp, "cosine": cosine, "linear": linear}
