"""One-step flow Q-learning (OFQL): like BFQ, with a one-step policy learned by MeanFlow.

    initialize the policy's average velocity u_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(ε′ − u_θ′(ε′, 0, 1; s′))                    one call of the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        t, r sorted, r = t for a share of the samples; a_t = (1 − t) a + t ε, v = ε − a
        u_tgt = v − (t − r) (v · ∂_a u_θ + ∂_t u_θ)(a_t, r, t; s)        one Jacobian-vector product
        L_FBC = ‖u_θ(a_t, r, t; s) − sg u_tgt‖²
        a^π = clip(ε″ − u_θ(ε″, 0, 1; s))                      one call, so no backpropagation through time
        θ  ← Adam on L_FBC − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

There is no public code. Differences from the paper, which leave L_BC as the only difference from BFQ on D4RL:
an MLP refines each time's sinusoids (64 of them, the paper's size); critics have CleanDiffuser's layer norms
("plain" is the paper's); 1,000,000 updates (the paper: 2,000,000 on locomotion); rewards scaled as in
CleanDiffuser (the paper: raw, and 4(r − ½) on AntMaze); a cosine schedule, which the paper does not mention.
Losses are means over action dimensions. Unlike BFQ's, times are not scaled before their sinusoids: ∂_t u_θ
grows with a factor on t, and on the checkerboard MeanFlow learns with 1 to 30, does worse with 100 and
diverges with 1000.
"""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from bfq.agents import actor_critic, fields, learning
from bfq.agents.actor_critic import State
from bfq.agents.contract import Acting, Actions, Agent, Batch, Key, Loss, Observations, Spec
from bfq.flow.few_steps import meanflow_loss
from bfq.flow.maps import one_step
from bfq.nets import ActionNetwork, Critics


@fields.hyperparameters
class Config(actor_critic.Config):
    """Hyperparameters of OFQL."""

    # Behavior: L_FBC
    flow_ratio: fields.Fraction = 0.5  # λ, share of the samples with r = t
    time_rule: Literal["logit_normal", "uniform"] = "logit_normal"  # sigmoid of N(−0.4, 1)
    adaptive_power: fields.NonNegative = 0.0  # p of MeanFlow's weight (error² + c)^(−p)

    # Networks
    architecture: fields.Architecture = "embedded"  # as BFQ's
    time_scale: fields.Count = 1  # factor on t and r before their sinusoids; BFQ has 10

    check = fields.check_residual


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    kind, scale = config.architecture, config.time_scale
    return actor_critic.initial_state("velocity", kind, key, spec, config, scale)


def sample(
    policy: ActionNetwork, s: Observations, key: Key, config: Config, acting: Acting = Acting()
) -> Actions:
    """a = clip(ε − u_θ(ε, 0, 1; s), −1, 1), ε ~ temperature · N(0, I): one network call."""
    noise = acting.temperature * jax.random.normal(key, (len(s), policy.action_dim))
    return jnp.clip(one_step(policy, noise, s), -1.0, 1.0)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    target = actor_critic.backup_target(sample, state, batch, key, config)
    return actor_critic.fit_critics(critics, batch, target)


def policy_loss(
    policy: ActionNetwork, critics: Critics, batch: Batch, key: Key, config: Config
) -> Loss:
    """L(θ) = L_FBC(θ) − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    bc_loss = meanflow_loss(
        policy,
        batch.actions,
        batch.observations,
        bc_key,
        config.flow_ratio,
        config.time_rule,
        config.adaptive_power,
    )
    actions = sample(policy, batch.observations, action_key, config)
    value, q = learning.q_guidance(
        critics, batch.observations, actions, critic_key, config.guidance
    )
    return bc_loss - config.eta * value, {"bc_loss": bc_loss, "q_policy": q.mean()}


AGENT = Agent(
    "ofql",
    "One-step flow Q-learning",
    Config,
    init,
    partial(actor_critic.update_networks, critic_loss, policy_loss),
    partial(actor_critic.select, sample),
    network=actor_critic.acting_network,
    reference="Nguyen and Yoo, One-Step Flow Q-Learning, 2026",
    defaults="the paper's text, and BFQ's where it is silent",
)
