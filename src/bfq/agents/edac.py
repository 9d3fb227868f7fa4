"""EDAC, ensemble-diversified actor-critic: SAC-N with far fewer critics, whose gradients must differ.

    for each update:
        draw (s, a, r, s′) from the data
        policy, α and y as in SAC-N
        g_i = ∇_a Q_φi(s, a) / ‖∇_a Q_φi(s, a)‖                                      at the data's actions
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)² + η E Σ_{i≠j} ⟨g_i, g_j⟩ / (N − 1)
        φ′ ← (1 − ρ) φ′ + ρ φ
    act: tanh μ_θ(s)

Critics that agree on the direction in which their value rises agree on rare actions too, and the least of them
then says little; η keeps them apart. Deviations are those of SAC-N. A critic whose gradient is exactly 0 has
g_i = 0; the authors' code adds 1e-10 to the norm.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, sac_n
from bfq.agents.contract import Actions, Agent, Batch, Key, Loss, Observations
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.sac_n import State
from bfq.nets import Critics
from bfq.nets.primitives import forward_mode


@fields.hyperparameters
class Config(sac_n.Config):
    """Hyperparameters of EDAC."""

    critic_count: fields.PairCount = 10  # N, critics; 50 on Hopper
    diversity: fields.NonNegative = 1.0  # η, how strongly the critics' gradients are kept apart


def action_gradients(
    critics: Critics, observations: Observations, actions: Actions
) -> Float[Array, "n b a"]:
    """g_i = ∇_a Q_φi(s, a) of length 1; 0 where there is no gradient."""

    def value(net: Any, a: Actions) -> Float[Array, ""]:
        return net(jnp.concatenate([observations, a], axis=-1)).sum()

    with forward_mode():  # kernels have no gradient of their gradient
        gradients = jax.vmap(jax.grad(value, argnums=1), (0, None))(critics.stacked, actions)
    squares = jnp.square(gradients).sum(-1, keepdims=True)
    return gradients * jax.lax.rsqrt(jnp.where(squares > 0.0, squares, 1.0))


def similarity_loss(
    critics: Critics, observations: Observations, actions: Actions
) -> Float[Array, ""]:
    """E Σ_{i≠j} ⟨g_i, g_j⟩ / (N − 1), where Σ_{i≠j} ⟨g_i, g_j⟩ = ‖Σ_i g_i‖² − Σ_i ‖g_i‖²."""
    g = action_gradients(critics, observations, actions)
    pairs = jnp.square(g.sum(0)).sum(-1) - jnp.square(g).sum((0, 2))
    return pairs.mean() / (len(g) - 1)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)² + η E Σ_{i≠j} ⟨g_i, g_j⟩ / (N − 1)."""
    td_loss, metrics = sac_n.critic_loss(critics, state, batch, key, config)
    similarity = similarity_loss(critics, batch.observations, batch.actions)
    return td_loss + config.diversity * similarity, {**metrics, "similarity": similarity}


AGENT = Agent(
    "edac",
    "Ensemble-diversified actor-critic",
    Config,
    sac_n.init,
    partial(sac_n.update, critic_loss),
    reference="An, Moon, Kim and Song, Uncertainty-Based Offline Reinforcement Learning with Diversified "
    "Q-Ensemble, NeurIPS 2021",
    defaults="the authors' for D4RL's HalfCheetah",
    **DETERMINISTIC,
)
