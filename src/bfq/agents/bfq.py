"""Bootstrapped Flow Q-Learning (BFQ): one network call from noise to action, learned by composing steps.

    initialize the policy's velocity v_θ, critics Q_φ1, Q_φ2, and copies θ′, φ′
    for each update:
        draw (s, a, r, s′) from the data
        # policy evaluation
        a′ = clip(ε′ − v_θ′(ε′, 0, 1; s′))                    one call of the EMA policy
        y  = r + γ · mask · min_i Q_φi′(s′, a′)                (max over 10 a′ for the max-Q backup)
        φ  ← Adam on Σ_i (Q_φi(s, a) − y)²
        # policy improvement
        L_bnd  = ‖v_θ(a_t, t − Δ, t; s) − (ε − a)‖²            short displacements follow the velocity
        L_comp = ‖π_θ(a_t, r, t; s) − sg π_θ(π_θ(a_t, m, t; s), r, m; s)‖²       long ones are composed
        a^π = clip(ε″ − v_θ(ε″, 0, 1; s))                      one call, so no backpropagation through time
        θ  ← Adam on λ L_bnd + (1 − λ) L_comp − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|
        # targets
        θ′, φ′ ← (1 − ρ) θ′ + ρ θ, (1 − ρ) φ′ + ρ φ            each with its own rate and interval

Where the paper leaves a choice open, a hyperparameter selects it; docs/method.md lists them.
"""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bfq.agents import actor_critic, fields, learning
from bfq.agents.actor_critic import State
from bfq.agents.contract import Acting, Actions, Agent, Batch, Key, Loss, Observations, Spec
from bfq.flow import maps
from bfq.nets import ActionNetwork, Critics

Times = Float[Array, " b"]
SHORTEST = 0.01  # spans below it count as this long where squares are divided by a span
TimeRule = Literal["nested", "ordered", "sorted_below"]


@fields.hyperparameters
class Config(actor_critic.Config):
    """Hyperparameters of BFQ."""

    batch_size: fields.PairCount = 256  # transitions per update: at least one for each BC loss

    # Behavior: L_BC = λ L_bnd + (1 − λ) L_comp
    boundary_ratio: fields.Fraction = 0.5  # λ
    max_offset: fields.Fraction = 1e-3  # Δ_max
    mixing: Literal["split", "update", "both"] = "split"  # estimates of one loss; update: paper's ξ
    time_rule: TimeRule = (
        "nested"  # paper's algorithm: nested | text: ordered | table: sorted_below
    )
    full_span_share: fields.FixedFraction = 0.0  # share of L_comp at (r, t) = (0, 1); not in paper
    composition_bound: fields.Fixed = 0.0  # on |a_m| and |a_r|; 0: none; not in the paper
    composition_power: fields.NonNegative = 0.0  # p: squares / max(t − r, 0.01)^p; not in the paper
    composition_weight: fields.NonNegative = 1.0  # factor on L_comp; not in the paper
    composition_huber: fields.Fixed = 0.0  # c > 0: √(e² + c²) − c per row; not in the paper
    preconditioned: bool = True  # False: the network predicts the displacement (ablation)
    squares: Literal["mean", "sum"] = "mean"  # ‖·‖²: mean (the field's code) | sum (as written)

    # Optimization
    critic_learning_rate: fields.NonNegative = 0.0  # for the critics; 0: as the policy
    constant_critic_rate: bool = False  # True: the schedule is for the policy only (MeanFlowQL)
    weight_decay: fields.Fixed = 0.0  # of the policy only; 0.01: CleanDiffuser, PyTorch's AdamW
    bound_penalty: fields.Fixed = 0.0  # weight of E relu(|a^π| − 1) before clipping (MeanFlowQL: 1)

    # Networks
    architecture: fields.Architecture = "embedded"  # embedded (A) | residual (B) | raw_time (B′)
    time_scale: fields.Count = 10  # factor on t and r before their sinusoids; larger: η acts more

    critic_rate = learning.varied_critic_rate
    check = fields.check_residual


def init(key: Key, spec: Spec, config: Config) -> State:
    """Random networks, targets equal to them."""
    kind, scale = config.architecture, config.time_scale
    return actor_critic.initial_state("velocity", kind, key, spec, config, scale)


def sample(
    policy: ActionNetwork, s: Observations, key: Key, config: Config, acting: Acting = Acting()
) -> Actions:
    """a = clip(π_θ(ε, 0, 1; s), −1, 1), ε ~ temperature · N(0, I): one network call."""
    noise = acting.temperature * jax.random.normal(key, (len(s), policy.action_dim))
    return jnp.clip(maps.one_step(policy, noise, s, config.preconditioned), -1.0, 1.0)


def critic_loss(critics: Critics, state: State, batch: Batch, key: Key, config: Config) -> Loss:
    """L_Q(φ) = Σ_i E (Q_φi(s, a) − r − γ min_j Q_φj′(s′, a′))², a′ ~ π_θ′."""
    target = actor_critic.backup_target(sample, state, batch, key, config)
    return actor_critic.fit_critics(critics, batch, target)


def boundary_loss(
    action: Actions, noise: Actions, r: Times, t: Times, s: Observations, config: Config
) -> maps.Question:
    """L_bnd = E ‖v_θ(a_t, r, t; s) − (ε − a)‖², with r within Δ_max of t."""
    target = maps.conditional_velocity(action, noise)
    target = target if config.preconditioned else (t - r)[:, None] * target
    query = maps.Query(maps.noisy_action(action, noise, t), r, t, s)
    return maps.Question(query, lambda v: jnp.square(v - target).mean())


def composition_loss(
    a_t: Actions, target: Actions, r: Times, t: Times, s: Observations, config: Config
) -> maps.Question:
    """L_comp = E ‖π_θ(a_t, r, t; s) − sg π_θ(π_θ(a_t, m, t; s), r, m; s)‖², as displacements from a_t."""

    def loss(v: Actions) -> Float[Array, ""]:
        error = ((t - r)[:, None] * v if config.preconditioned else v) - target
        scale = jnp.maximum(t - r, SHORTEST) ** config.composition_power
        squares, c = jnp.square(error) / scale[:, None], config.composition_huber
        return (jnp.sqrt(squares.mean(-1) + c**2) - c).mean() if c else squares.mean()

    return maps.Question(maps.Query(a_t, r, t, s), loss)


def composed_displacement(
    late: maps.Velocity,
    early: maps.Velocity,
    a_t: Actions,
    times: tuple[Times, Times, Times],
    s: Observations,
    config: Config,
) -> Actions:
    """sg (a_t − π_θ(π_θ(a_t, m, t; s), r, m; s)), with `late` over (m, t) and `early` over (r, m).

    A bound on the composed states keeps a target that the network makes from growing with the network.
    """
    (r, m, t), bound = times, config.composition_bound
    limit = partial(jnp.clip, min=-bound, max=bound) if bound else lambda a: a
    a_m = limit(maps.flow_map(late, a_t, m, t, s, config.preconditioned))
    a_r = limit(maps.flow_map(early, a_m, r, m, s, config.preconditioned))
    return jax.lax.stop_gradient(a_t - a_r)


def bootstrap_loss(
    policy: Any, action: Actions, s: Observations, key: Key, config: Config, *others: maps.Question
) -> tuple[Float[Array, ""], dict[str, Array], list[Any]]:
    """L_BC = λ L_bnd + (1 − λ) w L_comp, its two parts, and the results of `others`, from one network call.

    L_BC is estimated in one of three ways with the same expectation:

    - "split": half of the batch estimates L_bnd, the other half L_comp, weighted λ and 1 − λ. At the
      paper's λ = ½ each sample counts the same. The shapes do not depend on λ, so members may differ in it.
    - "update": as the paper has it, ξ ~ Bernoulli(λ) once per update chooses the loss of the whole batch.
    - "both": both losses on the whole batch.
    """
    noise_key, boundary_key, composition_key, span_key, xi_key = jax.random.split(key, 5)
    noise, half = jax.random.normal(noise_key, action.shape), len(action) // 2
    split = config.mixing == "split"
    one, two = (slice(half), slice(half, None)) if split else (slice(None), slice(None))

    near = maps.boundary_times(boundary_key, len(action[one]), config.max_offset)
    draw = maps.COMPOSITION_TIMES[config.time_rule]
    spans = draw(composition_key, len(action[two]), config.max_offset)
    r, m, t = spans = maps.with_full_spans(span_key, spans, config.full_span_share)
    late, early, velocity = maps.share_times(policy, near, spans, [each.query for each in others])
    a_t = maps.noisy_action(action[two], noise[two], t)
    target = composed_displacement(late, early, a_t, spans, s[two], config)
    boundary, composition, *rest = maps.together(
        velocity,
        boundary_loss(action[one], noise[one], *near, s[one], config),
        composition_loss(a_t, target, r, t, s[two], config),
        *others,
    )
    weight: Any = config.boundary_ratio
    if config.mixing == "update":
        weight = jax.random.bernoulli(xi_key, weight).astype(action.dtype)
    loss = weight * boundary + (1.0 - weight) * (config.composition_weight * composition)
    return loss, {"boundary_loss": boundary, "composition_loss": composition}, rest


def guidance(
    critics: Critics, noise: Actions, s: Observations, key: Key, config: Config
) -> maps.Question:
    """E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|, Q_φ(s, a^π), and E relu(|a^π| − 1) before clipping."""

    def result(displacement: Actions) -> tuple[Array, Array, Array]:
        proposed = noise - displacement
        actions = jnp.clip(proposed, -1.0, 1.0)
        value, q = learning.q_guidance(critics, s, actions, key, config.guidance)
        return value, q, jnp.maximum(jnp.abs(proposed) - 1.0, 0.0).mean()

    return maps.Question(maps.full_span(noise, s), result)


def policy_loss(policy: Any, critics: Critics, batch: Batch, key: Key, config: Config) -> Loss:
    """L(θ) = L_BC(θ) − η E Q_φ(s, a^π) / sg E|Q_φ(s, a^π)|, varied by `squares` and `guidance`."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    action, s = batch.actions, batch.observations
    guide = guidance(critics, jax.random.normal(action_key, action.shape), s, critic_key, config)
    bc_loss, parts, results = bootstrap_loss(policy, action, s, bc_key, config, guide)
    value, q, outside = results[0]
    loss = (action.shape[-1] if config.squares == "sum" else 1) * bc_loss - config.eta * value
    if config.bound_penalty:
        loss += config.bound_penalty * outside
    return loss, {"bc_loss": bc_loss, **parts, "q_policy": q.mean()}


AGENT = Agent(
    "bfq",
    "Bootstrapped Flow Q-Learning",
    Config,
    init,
    partial(actor_critic.update_networks, critic_loss, policy_loss),
    partial(actor_critic.select, sample),
    network=actor_critic.acting_network,
    watched=("boundary_loss", "composition_loss"),
    reference="Bootstrapped Flow Q-Learning, ICML 2026",
    defaults="the paper's for D4RL locomotion, in CleanDiffuser's frame",
)
