"""Score-regularized policy optimization (SRPO): the score of a behavior model regularizes a deterministic policy.

One run has three phases, and each update belongs to one of them:

    # behavior, the first 4/9 of the updates: a continuous diffusion
    t ~ U(10⁻³, 1),  a_t = α_t a + σ_t ε,  θ ← AdamW on E ‖ε_θ(a_t, t; s) − ε‖²          sum over dimensions
    # critic, the next 3/9: IQL
    ψ ← Adam on E |κ − 1[u < 0]| u²,  u = min_i Q_φi′(s, a) − V_ψ(s)
    φ ← Adam on ½ Σ_i E (Q_φi(s, a) − r − γ · mask · V(s′))²                              V before its step
    φ′ ← (1 − ρ) φ′ + ρ φ
    # policy, the last 2/9: behavior and critic are frozen
    a = π(s),  t ~ U(0.02, 0.98),  a_t = α_t a + σ_t z
    π ← Adam on E [ σ_t² ⟨sg ε_θ(a_t, t; s), a⟩ − β ⟨sg g, a⟩ ],  g = ∇_a ½ (Q_φ1′ + Q_φ2′)(s, a)
act: π(s)

A larger β gives Q more weight. Before the last phase the policy is its random initialization.

The official code trains the three for 2, 1.5 and 1 million updates in three runs; here they share `steps` in
the same proportions. Its batches are of 2048, 256 and 256: every update draws `batch_size`, and the last two
phases use the first rows of it. It fails at g / RMS(g) of 0 / 0, which is 0 here. Its critic phase also fits
an AWR policy for monitoring, which nothing else uses.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import fields, iql, learning
from bfq.agents.contract import (
    Actions,
    Agent,
    Batch,
    Key,
    Loss,
    Metrics,
    Observations,
    Spec,
)
from bfq.agents.deterministic import DETERMINISTIC
from bfq.agents.learning import Learner, Step, descend, learning_rate, polyak
from bfq.errors import BadInput
from bfq.flow.diffusion import vp_sde
from bfq.nets import Critics, make_critics, make_policy
from bfq.nets.policies import Deterministic
from bfq.nets.residual import NoiseResNet

METRICS = ("bc_loss", "value_loss", "critic_loss", "q", "v", "policy_loss", "q_policy")


@fields.hyperparameters
class Config(learning.ActorCritic):
    """Hyperparameters of SRPO."""

    # The phases share the updates in these parts; the official 2M, 1.5M and 1M are 4 : 3 : 2
    steps: fields.Count = 1_000_000  # updates of all three phases together
    behavior_parts: fields.Count = 4  # share of the behavior
    critic_parts: fields.Count = 3  # share of the critics
    policy_parts: fields.Count = 2  # share of the policy
    batch_size: fields.Count = 2048  # transitions per update; the behavior uses all of them
    critic_batch_size: fields.Count = 256  # the critics use this many of them, the first ones
    policy_batch_size: fields.Count = 256  # the policy uses this many of them, the first ones

    # Value
    beta: fields.NonNegative = 0.2  # β, the strength of Q against the behavior's score
    normalize_gradient: bool = False  # divide g by its RMS over action dimensions (AntMaze)
    subtract_noise: bool = False  # ε_θ − z instead of ε_θ: the same mean, less variance
    expectile: fields.Fraction = 0.7  # κ

    # Optimization
    schedule: fields.Schedule = "cosine"  # of the policy, over its own phase; the others: constant
    weight_decay: fields.Fixed = 0.01  # of the behavior only: PyTorch's AdamW

    # Networks
    width: fields.Width = 256  # units of the policy's hidden layers and the behavior's stream
    depth: fields.Depth = 2  # hidden layers of the policy (AntMaze: 4)
    behavior_depth: fields.Depth = 3  # residual blocks of the behavior
    critic: fields.CriticKind = "relu"  # kind of Q and V

    def check(self) -> None:
        """Refuse fewer updates than phases, and several widths."""
        iql.check_one_width(self)
        ends = (0, *phase_ends(self), self.steps)
        if any(begin == end for begin, end in pairwise(ends)):
            raise BadInput(
                f"{self.steps} steps are too few for three phases: each needs at least one."
            )


def phase_ends(config: Config) -> tuple[int, int]:
    """The updates at which the critic and the policy phase start."""
    parts = config.behavior_parts + config.critic_parts + config.policy_parts
    first = config.steps * config.behavior_parts // parts
    return first, config.steps * (config.behavior_parts + config.critic_parts) // parts


class State(NamedTuple):
    """Everything that training changes."""

    behavior: Learner  # θ
    value: Learner  # ψ
    critics: Learner  # φ
    critics_target: Critics  # φ′
    policy: Learner  # π
    told: Metrics  # the last value of each metric, because a phase updates only its own
    step: Step


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, the target critics equal to the critics."""
    behavior_key, value_key, critic_key, policy_key = jax.random.split(key, 4)
    behavior = NoiseResNet(behavior_key, *spec, int(config.width), config.behavior_depth, "srpo")
    value = iql.make_value(value_key, spec, config)
    critics = make_critics(critic_key, spec, config)
    policy = Deterministic(make_policy("policy", "relu", policy_key, spec, config))
    return State(
        behavior=learning.learner(behavior),
        value=learning.learner(value),
        critics=learning.learner(critics),
        critics_target=critics,
        policy=learning.learner(policy),
        told={name: jnp.zeros(()) for name in METRICS},
        step=jnp.zeros((), jnp.int32),
    )


def diffused(
    actions: Actions, key: Key, least: float, most: float
) -> tuple[Actions, Actions, Float[Array, " b"], Float[Array, " b"]]:
    """a_t = α_t a + σ_t ε with t ~ U(least, most): a_t, ε, t and σ_t."""
    time_key, noise_key = jax.random.split(key)
    t = jax.random.uniform(time_key, actions.shape[:1], minval=least, maxval=most)
    noise = jax.random.normal(noise_key, actions.shape)
    alpha, sigma = vp_sde(t)
    return alpha[:, None] * actions + sigma[:, None] * noise, noise, t, sigma


def behavior_loss(behavior: NoiseResNet, batch: Batch, key: Key) -> Float[Array, ""]:
    """E ‖ε_θ(a_t, t; s) − ε‖², with dropout."""
    diffusion_key, dropout_key = jax.random.split(key)
    noisy, noise, t, _ = diffused(batch.actions, diffusion_key, 1e-3, 1.0)
    predicted = behavior(noisy, t, batch.observations, dropout_key)
    return jnp.square(predicted - noise).sum(-1).mean()


def q_gradient(
    critics: Critics, observations: Observations, actions: Actions, normalize: bool
) -> tuple[Actions, Float[Array, ""]]:
    """g = ∇_a ½ (Q_1 + Q_2)(s, a), with `normalize` over its root mean square in each row; and the mean Q."""

    def total(a: Array) -> tuple[Array, Array]:
        q = critics(observations, a).mean(0)
        return q.sum(), q.mean()

    gradient, q = jax.grad(total, has_aux=True)(actions)
    size = jnp.sqrt(jnp.square(gradient).mean(-1, keepdims=True))
    return (gradient / jnp.maximum(size, 1e-12) if normalize else gradient), q


def policy_loss(
    policy: Deterministic, state: State, batch: Batch, key: Key, config: Config
) -> Loss:
    """E [σ_t² ⟨sg ε_θ, a⟩ − β ⟨sg g, a⟩], without dropout in ε_θ: its gradient in a is σ_t² ε_θ − β g."""
    actions = policy(batch.observations)
    fixed_actions = jax.lax.stop_gradient(actions)
    noisy, noise, t, sigma = diffused(fixed_actions, key, 0.02, 0.98)
    score = state.behavior.params(noisy, t, batch.observations)
    score = score - noise if config.subtract_noise else score
    gradient, q = q_gradient(
        state.critics_target, batch.observations, fixed_actions, config.normalize_gradient
    )
    direction = jax.lax.stop_gradient(jnp.square(sigma)[:, None] * score - config.beta * gradient)
    loss = (direction * actions).sum(-1).mean()
    return loss, {"q_policy": q}


def behavior_phase(state: State, batch: Batch, key: Key, config: Config) -> State:
    """One step of θ; the random frequencies of the time embedding stay fixed."""
    behavior, loss, _ = descend(
        state.behavior,
        lambda theta: (behavior_loss(theta, batch, key), None),
        learning_rate(config.learning_rate, "constant", state.step, config.steps),
        weight_decay=config.weight_decay,
    )
    fixed = eqx.tree_at(
        lambda net: net.embed.frequencies, behavior.params, state.behavior.params.embed.frequencies
    )
    return state._replace(
        behavior=behavior._replace(params=fixed), told={**state.told, "bc_loss": loss}
    )


def critic_phase(state: State, batch: Batch, key: Key, config: Config) -> State:
    """One step of ψ and one of φ, both with the networks before them; then φ′ follows."""
    batch = jax.tree.map(lambda rows: rows[: config.critic_batch_size], batch)

    def critic_loss(phi: Critics) -> tuple[Array, Metrics]:  # half of IQL's
        loss, metrics = iql.value_backup_loss(phi, state.value.params, batch, config.discount)
        return 0.5 * loss, metrics

    value, _, v_metrics = iql.fit_value(state, batch, config, config.critic_rate())
    critics, q_loss, q_metrics = descend(state.critics, critic_loss, config.critic_rate())
    target = polyak(state.critics_target, critics.params, config.critic_target_rate)
    metrics = {**state.told, **v_metrics, **q_metrics, "critic_loss": q_loss}
    return state._replace(value=value, critics=critics, critics_target=target, told=metrics)


def policy_phase(state: State, batch: Batch, key: Key, config: Config) -> State:
    """One step of π; its rate falls over this phase only."""
    batch = jax.tree.map(lambda rows: rows[: config.policy_batch_size], batch)
    begin = phase_ends(config)[1]
    rate = learning_rate(
        config.learning_rate, config.schedule, state.step - begin, config.steps - begin
    )
    policy, loss, metrics = descend(
        state.policy, lambda pi: policy_loss(pi, state, batch, key, config), rate
    )
    return state._replace(policy=policy, told={**state.told, **metrics, "policy_loss": loss})


PHASES = (behavior_phase, critic_phase, policy_phase)


def update(state: State, batch: Batch, key: Key, config: Config) -> tuple[State, Metrics]:
    """One update of the current phase; the other two cost nothing."""
    number = (state.step >= jnp.array(phase_ends(config))).sum()
    branches = [partial(phase, batch=batch, key=key, config=config) for phase in PHASES]
    new: State = jax.lax.switch(number, branches, state)
    return new._replace(step=state.step + 1), new.told


AGENT = Agent(
    "srpo",
    "Score-regularized policy optimization",
    Config,
    init,
    update,
    reference="Chen, Lu, Wang, Su and Zhu, Score Regularized Policy Optimization through Diffusion "
    "Behavior, ICLR 2024",
    defaults="the authors' code for D4RL locomotion",
    **DETERMINISTIC,
)
