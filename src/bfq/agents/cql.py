"""Conservative Q-learning, CQL(H): soft actor-critic whose critics are pushed down at actions not in the data.

    for each update:
        draw (s, a, r, s′) from the data
        policy and α as in SAC-N, with two critics
        a′ ~ π_θ(s′),  y = r + γ · mask · min_i Q_φi′(s′, a′)                        without the entropy
        b_1 … b_3n: n actions each from U(−1, 1)^d, from π_θ(s) and from π_θ(s′), with densities p_k
        L_H = E [log Σ_k exp(Q_φi(s, b_k) − log p_k) − Q_φi(s, a)]                  log ∫ exp Q, up to log 3n
        φ  ← Adam on Σ_i E (Q_φi(s, a) − y)² + c Σ_i L_H
        φ′ ← (1 − ρ) φ′ + ρ φ
    act: tanh μ_θ(s)

The penalty is least where Q is the log-density of the data's actions up to a constant, so a greedy policy stays
with them. c, the paper's α, is `conservatism` here, because α is the temperature of the entropy.

The defaults are CORL's. Deviations: the critics' step uses the policy after its step, theirs the one before.
Not implemented: the Lagrange multiplier that tunes c on AntMaze and Adroit, the maximum over sampled a′ in the
target, and CORL's reward normalization on Hopper.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, learning, sac_n
from bfq.agents.contract import Agent, Batch, Key, Loss
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.sac_n import State
from bfq.nets import Critics
from bfq.nets.policies import Squashed


@fields.hyperparameters
class Config(sac_n.Config):
    """Hyperparameters of CQL."""

    conservatism: fields.NonNegative = 10.0  # c, the weight of the penalty
    sampled_actions: fields.Count = 10  # n, actions from each of three distributions
    critic_count: fields.Count = 2  # critics

    # Optimization
    learning_rate: fields.NonNegative = 3e-5  # Adam, for policy and temperature
    critic_learning_rate: fields.NonNegative = 3e-4  # Adam, for the critics

    # Networks
    policy: fields.PolicyKind = "cql"  # ReLU, last layer near zero
    critic: fields.CriticKind = "cql"  # ReLU, orthogonal, last layer near zero


def log_sum_exp(
    critics: Critics, policy: Squashed, batch: Batch, key: Key, count: int
) -> Float[Array, "q b"]:
    """log Σ_k exp(Q_φi(s, b_k) − log p_k) over 3 · `count` actions for each state."""
    random_key, here_key, next_key = jax.random.split(key, 3)
    s, following = (jnp.repeat(x, count, 0) for x in (batch.observations, batch.next_observations))
    rows, a = len(s), batch.actions.shape[-1]
    uniform = jax.random.uniform(random_key, (rows, a), minval=-1.0, maxval=1.0)
    here, log_here = policy.draw(s, here_key)
    there, log_there = policy.draw(following, next_key)
    actions = jnp.concatenate([uniform, here, there])
    log_p = jnp.concatenate([jnp.full(rows, -a * jnp.log(2.0)), log_here, log_there])
    q = critics(jnp.tile(s, (3, 1)), actions) - log_p
    return jax.nn.logsumexp(q.reshape(len(q), 3, -1, count), axis=(1, 3))


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)² + c Σ_i E [log Σ_k exp(Q_φi(s, b_k) − log p_k) − Q_φi(s, a)]."""
    target_key, penalty_key = jax.random.split(key)
    policy: Squashed = state.policy.params
    next_values = learning.backup_values(
        state.critics_target,
        lambda s, k: policy.draw(s, k)[0],
        batch.next_observations,
        target_key,
    )
    target = learning.backup(batch, next_values, config)
    q = critics(batch.observations, batch.actions)
    rare = log_sum_exp(critics, policy, batch, penalty_key, config.sampled_actions)
    penalty = (rare - q).mean(1).sum()
    td_loss = learning.critic_loss(q, target)
    metrics = {"q": q.mean(), "td_loss": td_loss, "penalty": penalty}
    return td_loss + config.conservatism * penalty, metrics


AGENT = Agent(
    "cql",
    "Conservative Q-learning",
    Config,
    partial(sac_n.init, least=-20.0, shift=-1.0),
    partial(sac_n.update, critic_loss),
    reference="Kumar, Zhou, Tucker and Levine, Conservative Q-Learning for Offline Reinforcement Learning, "
    "NeurIPS 2020",
    defaults="CORL's for D4RL locomotion",
    **DETERMINISTIC,
)
