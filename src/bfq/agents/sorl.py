"""Scalable Offline RL with shortcut models (SORL): one flow policy for 1, 2, 4 or 8 steps.

    for each update, with k = log2 M the index of a step of length 1/M:
        # policy evaluation
        M drawn from {1, 2, 4, 8};  a′ = clip(M Euler steps of s_θ(·, ·, k; s′) from z′)
        y = r + γ · mask · Q̄_φ′(s′, a′, M)                     M is an input of the critics
        (φ, θ) ← Adam on mean_i E (Q_φi(s, a, M) − y)²          θ has gradient 0, and still has momentum
        # policy improvement, with φ as it was before the update
        L_flow = E ‖s_θ(x_t, t, 3; s) − (a − (1 − ϵ) x0)‖²      t on a grid of eighths
        L_cons = E ‖s_θ(x_t, t, k; s) − sg ½(v₁ + v₂)‖²         k ∈ {2, 1, 0}, two half steps of s_θ′
        M drawn again;  a^π = clip(M Euler steps of s_θ from z)  backpropagation through M steps
        (φ, θ) ← Adam on 10 L_flow + 10 L_cons − c E Q̄_φ(s, a^π, M) / sg E|Q̄_φ|
        # targets
        φ′, θ′ ← (1 − ρ) φ′ + ρ φ, (1 − ρ) θ′ + ρ θ             with φ and θ before the update

As in the reference, one Adam on the joint parameters takes two steps per update, each with the joint
gradient's norm bounded by 1. The network that a step does not concern has gradient 0 in it, and its moments
decay and still move it, so the momentum of each network acts twice per update. The critics inside the actor's
loss, and both targets, lag.

Deviations: the reference's critic loss differentiates through a′ into the policy; here y has no gradient, as
in its paper. M comes from the number of the update instead of the member's key, so all members of a
population share it and only M steps are computed; it is uniform and independent either way. 1e-6 is added to
E|Q̄|. Logged actions are not clipped to ±(1 − 1e-5), and there is no validation set.

The reference acts with the online policy (`policy = "online"`), in 8 steps (SORL-8) or in 1 (SORL-1), and the
online critics compare candidates. The public code has no locomotion settings: they are the same code's with
the paper's c.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bfq.agents import fields, fql, learning
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
from bfq.agents.learning import Learner, Step, descend, learning_rate, polyak
from bfq.errors import BadInput
from bfq.flow.few_steps import jump, levels, shortcut_losses
from bfq.nets import ActionNetwork, Critics, make_critics, make_policy


@fields.hyperparameters
class Config(fql.FlowConfig):
    """Hyperparameters of SORL."""

    eta: fields.NonNegative = 100.0  # c, the strength of value guidance
    bc_weight: fields.NonNegative = 10.0  # weight of L_flow
    consistency_weight: fields.NonNegative = 10.0  # weight of L_cons
    flow_steps: fields.Count = 8  # the most steps of the policy, a power of two
    learning_rate: fields.NonNegative = 1e-4  # Adam
    clip_norm: fields.Fixed = 1.0  # bound on the joint gradient's norm in each step; 0: none
    policy_target_rate: fields.Fraction = 0.005  # ρ for θ′

    def check(self) -> None:
        """Refuse a number of steps that is not a power of two."""
        if self.flow_steps < 2 or self.flow_steps.bit_count() != 1:
            raise BadInput(f"flow_steps must be a power of two from 2 on, not {self.flow_steps}.")


class Networks(NamedTuple):
    """What the one optimizer moves."""

    critics: Critics  # φ
    policy: ActionNetwork  # θ


class State(NamedTuple):
    """Everything that training changes."""

    networks: Learner  # φ, θ
    critics_target: Critics  # φ′
    policy_target: ActionNetwork  # θ′
    step: Step


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them; M is one more input of the critics."""
    critic_key, policy_key = jax.random.split(key)
    critics = make_critics(critic_key, spec, config, 1)
    policy = make_policy("flow", "fql", policy_key, spec, config, 2)
    zero = jnp.zeros((), jnp.int32)
    return State(learning.learner(Networks(critics, policy)), critics, policy, zero)


def with_steps(
    critics: Critics, count: Float[Array, ""] | float
) -> Callable[[Array, Array], Array]:
    """Q_φ(·, ·, M): the critics with the number of steps appended to the action."""

    def q(observations: Array, actions: Array) -> Array:
        m = jnp.full((*actions.shape[:-1], 1), count, actions.dtype)
        return critics(observations, jnp.concatenate([actions, m], axis=-1))

    return q


def sample(
    policy: ActionNetwork, s: Observations, key: Key, count: int, temperature: float = 1.0
) -> Actions:
    """a = clip(M steps from temperature · N(0, I), −1, 1)."""
    noise = temperature * jax.random.normal(key, (len(s), policy.action_dim))
    return jnp.clip(jump(policy, noise, s, count), -1.0, 1.0)


def sample_drawn(
    policy: ActionNetwork, observations: Observations, key: Key, k: Step, config: Config
) -> Actions:
    """`sample` with M = 2^k; all members of a population share k, so only M steps are computed."""
    branches = [partial(sample, count=2**index) for index in range(levels(config.flow_steps) + 1)]
    return jax.lax.switch(k, branches, policy, observations, key)


def drawn_indices(step: Step, config: Config) -> Int[Array, "2"]:
    """k = log2 M of the critics' and of the policy's loss, uniform, from the number of the update only."""
    key = jax.random.fold_in(jax.random.key(0), step)
    return jax.random.randint(key, (2,), 0, levels(config.flow_steps) + 1)


def critic_loss(
    critics: Critics, state: State, batch: Batch, key: Key, k: Step, config: Config
) -> Loss:
    """L_Q = mean_i E (Q_φi(s, a, M) − r − γ Q̄_φ′(s′, a′, M))², a′ by M steps of the policy itself."""
    m = jnp.exp2(k.astype(jnp.float32))
    return fql.td_loss(
        with_steps(critics, m),
        with_steps(state.critics_target, m),
        lambda s, key: sample_drawn(state.networks.params.policy, s, key, k, config),
        batch,
        key,
        config,
    )


def policy_loss(
    policy: ActionNetwork, state: State, batch: Batch, key: Key, k: Step, config: Config
) -> Loss:
    """L_π = 10 L_flow + 10 L_cons − c E Q̄_φ(s, a^π, M) / sg E|Q̄_φ|, with φ and θ′ before the update."""
    flow_key, action_key = jax.random.split(key)
    bc_loss, consistency = shortcut_losses(
        policy, state.policy_target, batch.actions, batch.observations, flow_key, config.flow_steps
    )
    actions = sample_drawn(policy, batch.observations, action_key, k, config)
    q = with_steps(state.networks.params.critics, jnp.exp2(k.astype(jnp.float32)))(
        batch.observations, actions
    )
    imitation = config.bc_weight * bc_loss + config.consistency_weight * consistency
    loss = imitation - config.eta * fql.mean_value(q, normalized=True)
    parts = {"bc_loss": bc_loss, "consistency_loss": consistency, "q_policy": q.mean()}
    return loss, {"policy_loss": loss, **parts}


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """Two steps of the one Adam, for the critics and then for the policy, then the targets."""
    critic_key, policy_key = jax.random.split(key)
    k_critic, k_policy = drawn_indices(state.step, config)
    rate = learning_rate(config.learning_rate, config.schedule, state.step, config.steps)
    networks, _, q_metrics = descend(
        state.networks,
        lambda now: critic_loss(now.critics, state, batch, critic_key, k_critic, config),
        rate,
        config.clip_norm,
    )
    networks, _, pi_metrics = descend(
        networks,
        lambda now: policy_loss(now.policy, state, batch, policy_key, k_policy, config),
        rate,
        config.clip_norm,
    )
    before = state.networks.params
    critics_target = polyak(state.critics_target, before.critics, config.critic_target_rate)
    policy_target = polyak(state.policy_target, before.policy, config.policy_target_rate)
    new = State(networks, critics_target, policy_target, state.step + 1)
    return new, {**q_metrics, **pi_metrics}


def act(
    state: State, observations: Observations, key: Key, config: Config, acting: Acting
) -> Actions:
    """M steps per action; of N candidates, the online critics at this M select one."""
    count = acting.sampling_steps or config.flow_steps
    if count > config.flow_steps or count.bit_count() != 1:
        raise BadInput(
            f"sorl samples in a power of two of steps up to {config.flow_steps}, not in {count}."
        )
    critics, policy = state.networks.params
    policy = policy if acting.policy == "online" else state.policy_target
    q = with_steps(critics, float(count))
    return learning.best_of_n(
        lambda s, k: sample(policy, s, k, count, acting.temperature),
        lambda s, a: learning.aggregated(q(s, a), config),
        observations,
        key,
        acting,
    )


AGENT = Agent(
    "sorl",
    "SORL, shortcut models",
    Config,
    init,
    update,
    act,
    samplers=("euler",),
    reference="Espinosa-Dice and others, Scaling Offline RL via Efficient and Expressive Shortcut Models, "
    "2025",
    defaults="the authors' code",
)
