"""Consistency actor-critic (CAC): a consistency model as the policy, sampled in one or two network calls.

    initialize the network F_θ of f_θ(x, t; s) = c_skip(t) x + c_out(t) F_θ(x, t; s), critics, copies θ′, φ′
    sample: x = f(80 z, 80; s); for two calls x ← f(x + √(2² − ε²) z′, 2; s) after it; clip
    for each update k:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ ~ f_θ′(·; s′)                                       the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′; y / std y with q_norm)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        t_i < t_{i+1} of the Karras grid with N(k) times, N from 2 to 150, restarted every 50,000 updates
        L_c = 100/(t_{i+1} − t_i) · ‖f_θ(a + t_{i+1} z, t_{i+1}; s) − sg f_θ′(a + t_i z, t_i; s)‖²
        a^π ~ f_θ(·; s)                                        with the gradient through every call
        θ  ← Adam on L_c − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

Differences from the authors' code: one call is made at t = 80; theirs is made at t = 2 from the same noise of
deviation 80, where c_skip alone leaves actions of deviation 4.7 that saturate (`literal_one_step`). Two calls
on every task; theirs has five on Walker2d medium and medium-replay. 1,000,000 updates (theirs: twice that on
locomotion) at a constant learning rate, which theirs is to 0.1 %. 10⁻⁶ is added to the |Q| that divides.
Their code restarts the curriculum after each evaluation, every 50,000 updates, and so does this one; with
`curriculum_updates` of at least `steps` it rises once over the whole run.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import actor_critic, fields, learning
from bfq.agents.actor_critic import State
from bfq.agents.contract import (
    Acting,
    Actions,
    Agent,
    Batch,
    Key,
    Loss,
    Metrics,
    Observations,
    Spec,
)
from bfq.agents.learning import Number, Step
from bfq.flow import few_steps
from bfq.nets import ActionNetwork, Critics


@fields.hyperparameters
class Config(actor_critic.Config):
    """Hyperparameters of CAC."""

    # Behavior: L_c
    consistency_steps: fields.Count = 2  # M, network calls from noise to action
    literal_one_step: bool = False  # M = 1: the call is at t = 2, as in the authors' code, not 80
    curriculum_updates: fields.Count = 50_000  # K, updates from N = 2 to N = 150
    scaled: bool = True  # weight 100/(t_{i+1} − t_i) in L_c

    # Value
    q_norm: bool = False  # y divided by its standard deviation over the batch

    # Optimization
    learning_rate: fields.NonNegative = 3e-4  # Adam, for the policy
    critic_learning_rate: fields.NonNegative = 3e-4  # Adam, for the critics
    schedule: fields.Schedule = "constant"  # of the learning rate

    # Networks
    network: fields.DenoiserKind = "official"  # official: 16 numbers for t | clean_diffuser: 64
    critic: fields.CriticKind = "plain"  # plain (the authors') | clean_diffuser

    def critic_rate(self) -> Number:
        """The critics' own learning rate; 0 stops them."""
        return self.critic_learning_rate

    def check(self) -> None:
        """Refuse a spread over a batch of one."""
        if self.q_norm and self.batch_size < 2:
            raise ValueError(
                "q_norm divides by a standard deviation: batch_size must be at least 2."
            )


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    return actor_critic.initial_state("denoiser", config.network, key, spec, config)


def consistency_of(policy: ActionNetwork, s: Observations) -> few_steps.Consistency:
    """f_θ(·, ·; s)."""
    return lambda x, t: few_steps.consistency_function(lambda x, t: policy(x, t, s), x, t)


def sample(
    policy: ActionNetwork, s: Observations, key: Key, config: Config, acting: Acting = Acting()
) -> Actions:
    """clip(f_θ(…)) in M calls or as many as acting asks for, from temperature · N(0, I)."""
    noise_key, chain_key = jax.random.split(key)
    noise = acting.temperature * jax.random.normal(noise_key, (len(s), policy.action_dim))
    steps = acting.sampling_steps or config.consistency_steps
    times = few_steps.sampling_times(steps, config.literal_one_step)
    action = few_steps.multistep(consistency_of(policy, s), noise, times, chain_key)
    return jnp.clip(action, -1.0, 1.0)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − y)², y = r + γ min_j Q_φj′(s′, a′), a′ ~ π_θ′."""
    target = actor_critic.backup_target(sample, state, batch, key, config)
    if config.q_norm:
        target = target / (target.std(ddof=1) + 1e-6)
    return actor_critic.fit_critics(critics, batch, target)


def imitation_loss(
    policy: ActionNetwork, teacher: Any, step: Step, batch: Batch, key: Key, config: Config
) -> Float[Array, ""]:
    """L_c(θ) at neighboring times of the grid of update `step`."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, batch.actions.shape)
    updates = min(config.curriculum_updates, config.steps)
    size = few_steps.grid_size(step % updates, updates)
    times = few_steps.neighboring_times(time_key, len(noise), size)
    online, fixed = (consistency_of(net, batch.observations) for net in (policy, teacher))
    return few_steps.consistency_loss(online, fixed, batch.actions, noise, *times, config.scaled)


def policy_loss(
    policy: ActionNetwork, critics: Critics, state: State, batch: Batch, key: Key, config: Config
) -> Loss:
    """L(θ) = L_c(θ) − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    bc_loss = imitation_loss(policy, state.policy_target, state.step, batch, bc_key, config)
    actions = sample(policy, batch.observations, action_key, config)
    value, q = learning.q_guidance(
        critics, batch.observations, actions, critic_key, config.guidance
    )
    return bc_loss - config.eta * value, {"bc_loss": bc_loss, "q_policy": q.mean()}


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of critics, policy and targets, in that order."""

    def loss(policy: ActionNetwork, critics: Critics, *rest: Any) -> Loss:
        return policy_loss(policy, critics, state, *rest)  # θ′ teaches

    return actor_critic.update_networks(critic_loss, loss, state, batch, key, config)


AGENT = Agent(
    "cac",
    "Consistency actor-critic",
    Config,
    init,
    update,
    partial(actor_critic.select, sample),
    samplers=("multistep",),
    reference="Ding and Jin, Consistency Models as a Rich and Efficient Policy Class for Reinforcement "
    "Learning, ICLR 2024",
    defaults="the authors' code for D4RL locomotion",
)
