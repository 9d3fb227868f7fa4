"""Gradient steps, target networks, TD targets, Q guidance and best-of-N selection, shared by all agents."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from bfq.agents import fields
from bfq.agents.contract import Acting, Actions, Batch, Key, Observations
from bfq.nets import Critics
from bfq.nets.primitives import map_leaves, use_kernels

T = TypeVar("T")
Number = float | Float[Array, ""]
Step = Int[Array, ""]
Row = Float[Array, " b"]
Values = Float[Array, "q *b"]  # of each critic
Followers = list[tuple[Any, Number]]  # targets, each with its rate
Draw = Callable[[Observations, Key], Actions]
Evaluate = Callable[[Observations, Actions], Array]  # Q of each critic, or one number per row

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's usual constants

_adam = optax.scale_by_adam(BETA_1, BETA_2, EPSILON)


@fields.hyperparameters
class ValueBased:
    """Hyperparameters of agents with critics; an agent adds its own and may change defaults."""

    steps: fields.Count = 1_000_000  # gradient updates; the horizon of a schedule
    batch_size: fields.Count = 256  # transitions per update
    discount: fields.Fraction = 0.99  # γ
    learning_rate: fields.NonNegative = 3e-4  # Adam, for all networks
    schedule: fields.Schedule = "constant"  # of the learning rate
    critic_target_rate: fields.Fraction = 0.005  # ρ for φ′

    # Several critics as one value, in the TD target and among candidates
    critic_count: fields.Count = 2  # critics
    aggregation: fields.Aggregation = "min"  # lower: mean − pessimism · std
    pessimism: fields.NonNegative = 1.0  # standard deviations below the mean, for lower

    # Networks
    width: fields.Width = 256  # units of a hidden layer of the policy; 256x128: of each one
    depth: fields.Depth = 2  # hidden layers of the policy
    activation: fields.OwnActivation = ""  # of the policy, instead of its kind's
    norm: fields.OwnNorm = ""  # layer norm of the policy, instead of its kind's
    critic_width: fields.Width = 256  # units of a hidden layer of a critic, and of V
    critic_depth: fields.Depth = 2  # hidden layers of a critic, and of V
    critic_activation: fields.OwnActivation = ""  # of critics and V, instead of their kind's
    critic_norm: fields.OwnNorm = ""  # layer norm of critics and V, instead of their kind's


@fields.hyperparameters
class ActorCritic(ValueBased):
    """Hyperparameters of agents whose critics have an optimizer of their own."""

    critic_learning_rate: fields.Fixed = 0.0  # Adam, for critics and V; 0: as the policy

    def critic_rate(self) -> Number:
        """The critics' own learning rate if one is given, else that of the policy."""
        return self.critic_learning_rate or self.learning_rate


def varied_critic_rate(config: Any) -> Number:
    """`critic_rate` where members of a population may differ in it."""
    return or_default(config.critic_learning_rate, config.learning_rate)


class Learner(NamedTuple):
    """Parameters and their Adam moments."""

    params: Any
    moments: Any


def learner(params: Any) -> Learner:
    """Start the optimization of `params`."""
    return Learner(params, _adam.init(params))


def learning_rate(base: Number, schedule: str, step: Step, steps: int) -> Float[Array, ""]:
    """The learning rate of update `step`, counted from 0.

    - "constant": base;
    - "cosine": base · ½(1 + cos(π step / steps)), 0 at the end;
    - "warmup_cosine": linear from 0 over the first 5 %, then a cosine down to 10 % of base (MeanFlowQL).
    """
    if schedule == "constant":
        return jnp.asarray(base, jnp.float32)
    progress = step.astype(jnp.float32) / steps
    if schedule == "cosine":
        return base * 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    falling = 0.1 + 0.45 * (1.0 + jnp.cos(jnp.pi * (progress - 0.05) / 0.95))
    return base * jnp.where(progress < 0.05, progress / 0.05, falling)


def or_default(value: Number, default: Number) -> Float[Array, ""]:
    """The value, or the default where the value is 0."""
    return jnp.where(jnp.asarray(value) > 0.0, value, default)


def descend(
    state: Learner,
    loss: Callable[[Any], tuple[Array, T]],
    rate: Number,
    clip_norm: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Learner, Float[Array, ""], T]:
    """One Adam step on `loss(params) -> (value, extra)`.

    `clip_norm` > 0 bounds the norm of the gradient; `weight_decay` is AdamW's.
    """
    bounds = (clip_norm, weight_decay)
    new, _, value, extra = descend_with_target(state, None, loss, rate, 0.0, *bounds)
    return new, value, extra


def descend_with_target(
    state: Learner,
    target: Any,
    loss: Callable[[Any], tuple[Array, T]],
    rate: Number,
    target_rate: Number,
    clip_norm: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Learner, Any, Float[Array, ""], T]:
    """One Adam step and a Polyak step of the target, if there is one, in one pass over memory."""
    (value, extra), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(state.params)
    if clip_norm:
        norm = optax.tree.norm(gradient)
        factor = jnp.where(norm > clip_norm, clip_norm / jnp.maximum(norm, 1e-12), 1.0)
        gradient = jax.tree.map(lambda g: factor * g, gradient)
    followers = [] if target is None else [(target, target_rate)]
    new, moved = _adam_step(state, gradient, rate, weight_decay, followers)
    return new, moved[0] if moved else None, value, extra


def _adam_step(
    state: Learner, gradient: Any, rate: Number, weight_decay: float, followers: Followers
) -> tuple[Learner, list[Any]]:
    """Optax's Adam, written out so that every array is read and written once."""
    count = optax.safe_increment(state.moments.count)
    scalars = (rate, 1.0 - BETA_1**count, 1.0 - BETA_2**count, *(rho for _, rho in followers))
    old = (state.params, state.moments.mu, state.moments.nu, *(target for target, _ in followers))

    def step(rate: Array, c_1: Array, c_2: Array, *rest: Array) -> tuple[Array, ...]:
        rhos, (g, p, mu, nu, *targets) = rest[: len(followers)], rest[len(followers) :]
        mu = BETA_1 * mu + (1.0 - BETA_1) * g
        nu = BETA_2 * nu + (1.0 - BETA_2) * g * g
        direction = (mu / c_1) / (jnp.sqrt(nu / c_2) + EPSILON)
        p = p - rate * (direction + weight_decay * p if weight_decay else direction)
        return p, mu, nu, *((1.0 - rho) * t + rho * p for rho, t in zip(rhos, targets, strict=True))

    unmoved_at_zero = [None, None, None, *range(3, len(scalars))]
    params, mu, nu, *moved = map_leaves(
        step, scalars, gradient, *old, changed=len(old), unmoved_at_zero=unmoved_at_zero
    )
    return Learner(params, optax.ScaleByAdamState(count, mu, nu)), moved


def polyak(target: T, online: T, rate: Number) -> T:
    """target ← (1 − rate) · target + rate · online."""

    def mix(rho: Array, b: Array, a: Array) -> tuple[Array]:
        return ((1.0 - rho) * a + rho * b,)

    return map_leaves(mix, (rate,), online, target, changed=1, unmoved_at_zero=[0])[0]


def every(step: Step, interval: int, do: Callable[[T], T], state: T) -> T:
    """`do(state)` if `interval` divides the number of the update, else the unchanged state.

    All members of a population share the number of the update, so nothing is computed when it is not due.
    """
    if interval == 1:
        return do(state)
    return jax.lax.cond(step % interval == 0, do, lambda unchanged: unchanged, state)


def due(step: Step, every: int, start: int = 0) -> Float[Array, ""]:
    """1 at every `every`-th update from `start` on, else 0."""
    return ((step % every == 0) & (step >= start)).astype(jnp.float32)


def aggregate(values: Values, how: str, pessimism: Number = 1.0) -> Float[Array, "*b"]:
    """The min (clipped double Q) over the critics, their mean, or mean − pessimism · std."""
    if how == "lower":
        return values.mean(0) - pessimism * jnp.sqrt(values.var(0) + 1e-12)
    return values.min(0) if how == "min" else values.mean(0)


def aggregated(values: Values, config: Any) -> Float[Array, "*b"]:
    """One value from those of all critics, as the config has it."""
    return aggregate(values, config.aggregation, config.pessimism)


def td_target(rewards: Row, masks: Row, next_values: Values, discount: Number, *how: Any) -> Row:
    """y = r + γ · mask · Q′(s′, a′), without gradient; `how` as in `aggregate`."""
    return jax.lax.stop_gradient(rewards + discount * masks * aggregate(next_values, *how))


def backup(batch: Batch, next_values: Values, config: Any) -> Row:
    """`td_target` of a batch, with the critics aggregated as the config has it."""
    how = (config.discount, config.aggregation, config.pessimism)
    return td_target(batch.rewards, batch.masks, next_values, *how)


def backup_values(
    q: Evaluate, draw: Draw, next_s: Observations, key: Key, samples: int = 1, best: str = "each"
) -> Values:
    """Q_i′(s′, a′), for samples > 1 with the best of several a′.

    "each": every critic takes its own maximum (max-Q backup); "together": the a′ with the largest mean over
    critics (MeanFlowQL's best-of-N target).
    """
    repeated = jnp.repeat(next_s, samples, axis=0)
    values = q(repeated, draw(repeated, key))
    values = values.reshape(values.shape[0], -1, samples)
    if best == "each":
        return values.max(-1)
    preferred = values.mean(0).argmax(-1)[None, :, None]
    return jnp.take_along_axis(values, preferred, axis=-1)[..., 0]


def critic_loss(values: Values, target: Row, averaged: bool = False) -> Float[Array, ""]:
    """Σ_i E (Q_i(s, a) − y)², or the mean over critics (FQL family)."""
    errors = jnp.square(values - target).mean(1)
    return errors.mean() if averaged else errors.sum()


def normalize_by_magnitude(values: Float[Array, " b"]) -> Float[Array, ""]:
    """E Q / sg E|Q|."""
    return values.mean() / (jax.lax.stop_gradient(jnp.abs(values).mean()) + 1e-6)


def guidance_from(values: Values, key: Key, how: str) -> Float[Array, ""]:
    """E Q / sg E|Q|, which does not change when all critics are scaled by the same number.

    - "random": Q_k divided by the other critic's |Q_j|, k drawn at each update (DQL, CleanDiffuser);
    - "mean" over the critics (FQL family), "min" (ReBRAC), "first", Q_1 (TD3-BC), each divided by its own
      magnitude;
    - "unnormalized": the mean over the critics, not divided (FQL on OGBench).
    """
    if how == "unnormalized":
        return aggregate(values, "mean").mean()
    if how != "random":
        return normalize_by_magnitude(values[0] if how == "first" else aggregate(values, how))
    means, sizes = values.mean(1), jax.lax.stop_gradient(jnp.abs(values).mean(1)) + 1e-6
    first = jax.random.bernoulli(key)
    return jnp.where(first, means[0] / sizes[1], means[1] / sizes[0])


def q_guidance(
    critics: Critics, observations: Observations, actions: Actions, key: Key, how: str
) -> tuple[Float[Array, ""], Values]:
    """`guidance_from` the critics' values, and these values; "random" may exchange the two critics.

    With "random" only Q_k has a gradient. On a CPU the two critics are called one after the other, so that
    the gradient of Q_j is not computed; on a GPU one call is faster.
    """
    if how != "random" or use_kernels():
        q = critics(observations, actions)
        return guidance_from(q, key, how), q
    first = jax.random.bernoulli(key)

    def one(is_first: Array) -> Array:
        # A select, not an index: for several members an index would be a gather.
        chosen: Critics = jax.tree.map(
            lambda leaf: jnp.where(is_first, leaf[:1], leaf[1:]), critics
        )
        return chosen(observations, actions)

    q_k, q_j = one(first), jax.lax.stop_gradient(one(~first))
    return q_k.mean() / (jnp.abs(q_j).mean() + 1e-6), jnp.concatenate([q_k, q_j])


def best_of_n(
    sample: Draw, values: Evaluate, observations: Observations, key: Key, acting: Acting
) -> Actions:
    """Draw N candidates per state; take the best one, or draw one from softmax(w · Q)."""
    sample_key, choice_key = jax.random.split(key)
    n = acting.candidates
    if n == 1:
        return sample(observations, sample_key)
    repeated = jnp.repeat(observations, n, axis=0)
    actions = sample(repeated, sample_key)
    q = values(repeated, actions).reshape(-1, n)
    if acting.selection == "softmax":
        index = jax.random.categorical(choice_key, acting.softmax_weight * q, axis=-1)
    else:
        index = q.argmax(-1)
    offered = actions.reshape(-1, n, actions.shape[-1])
    return jnp.take_along_axis(offered, index[:, None, None], axis=1)[:, 0]
