"""What value-based agents share: TD targets, guidance by Q, and the choice among candidates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.agents import Acting, Batch, Metrics
from bfq.nets.critic import Critics
from bfq.nets.primitives import use_kernels

Number = float | Float[Array, ""]
AGGREGATIONS = ("min", "mean")
GUIDANCES = ("random", "mean", "min", "first", "unnormalized")
BACKUPS = ("each", "together")


def aggregate(values: Float[Array, "q *b"], how: str) -> Float[Array, "*b"]:
    """The ensemble's opinion: min (clipped double Q) or mean over the critics."""
    return values.min(0) if how == "min" else values.mean(0)


def td_target(
    rewards: Float[Array, " b"],
    masks: Float[Array, " b"],
    next_values: Float[Array, "q *b"],
    discount: Number,
    how: str,
) -> Float[Array, " b"]:
    """y = r + γ · mask · Q′(s′, a′)."""
    return jax.lax.stop_gradient(rewards + discount * masks * aggregate(next_values, how))


def backup_values(
    critics: Callable[[Array, Array], Array],
    sample: Callable[[Array, PRNGKeyArray], Array],
    next_observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    samples: int = 1,
    best: str = "each",
) -> Float[Array, "q b"]:
    """Q_i′(s′, a′), with samples > 1 the best of several a′.

    "each" takes the maximum for each critic on its own (max-Q backup); "together" takes the values of the a′
    that the critics' mean prefers (MeanFlowQL's best-of-N target).
    """
    repeated = jnp.repeat(next_observations, samples, axis=0)
    values = critics(repeated, sample(repeated, key))
    values = values.reshape(values.shape[0], -1, samples)
    if best == "each":
        return values.max(-1)
    preferred = values.mean(0).argmax(-1)[None, :, None]
    return jnp.take_along_axis(values, preferred, axis=-1)[..., 0]


def critic_loss(
    values: Float[Array, "q b"], target: Float[Array, " b"], averaged: bool = False
) -> Float[Array, ""]:
    """Σ_i E (Q_i(s, a) − y)², or the mean over critics (FQL family)."""
    errors = jnp.square(values - target).mean(1)
    return errors.mean() if averaged else errors.sum()


def td_loss(
    critics: Callable[[Array, Array], Array],
    targets: Callable[[Array, Array], Array],
    sample: Callable[[Array, PRNGKeyArray], Array],
    batch: Batch,
    key: PRNGKeyArray,
    discount: Number,
    how: str,
) -> tuple[Float[Array, ""], Metrics]:
    """L_Q = mean_i E (Q_i(s, a) − r − γ Q′(s′, a′))² with one a′ from `sample`, as the FQL family has it."""
    next_values = backup_values(targets, sample, batch.next_observations, key)
    target = td_target(batch.rewards, batch.masks, next_values, discount, how)
    q = critics(batch.observations, batch.actions)
    loss = critic_loss(q, target, averaged=True)
    return loss, {"critic_loss": loss, "q": q.mean()}


def expectile_loss(difference: Float[Array, "*b"], expectile: Number) -> Float[Array, ""]:
    """E |κ − 1[u < 0]| u²: its minimizer is the κ-expectile, the mean at κ = ½ and the maximum at κ → 1."""
    weight = jnp.where(difference < 0.0, 1.0 - expectile, expectile)
    return (weight * jnp.square(difference)).mean()


def expectile_value_loss(
    value: Callable[[Array], Array],
    targets: Callable[[Array, Array], Array],
    batch: Batch,
    expectile: Number,
) -> tuple[Float[Array, ""], Metrics]:
    """IQL's L_V = E |κ − 1[u < 0]| u², u = min_i Q_i′(s, a) − V(s): no action beyond the data is asked."""
    q = jax.lax.stop_gradient(aggregate(targets(batch.observations, batch.actions), "min"))
    v = value(batch.observations)
    loss = expectile_loss(q - v, expectile)
    return loss, {"value_loss": loss, "v": v.mean()}


def value_backup_loss(
    critics: Callable[[Array, Array], Array],
    value: Callable[[Array], Array],
    batch: Batch,
    discount: Number,
) -> tuple[Float[Array, ""], Metrics]:
    """IQL's L_Q = Σ_i E (Q_i(s, a) − r − γ · mask · V(s′))², without gradient into V."""
    next_values = value(batch.next_observations)[None]
    target = td_target(batch.rewards, batch.masks, next_values, discount, "min")
    q = critics(batch.observations, batch.actions)
    loss = critic_loss(q, target)
    return loss, {"critic_loss": loss, "q": q.mean()}


def advantage_weights(
    advantage: Float[Array, " b"], temperature: Number, most: float = 100.0
) -> Float[Array, " b"]:
    """min(exp(β A), 100), without gradient: how much a logged action is imitated."""
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(temperature * advantage), most))


def in_its_size(values: Float[Array, " b"]) -> Float[Array, ""]:
    """E Q / sg E|Q|."""
    return values.mean() / (jax.lax.stop_gradient(jnp.abs(values).mean()) + 1e-6)


def guidance(values: Float[Array, "2 b"], key: PRNGKeyArray, how: str) -> Float[Array, ""]:
    """E Q / sg E|Q|, which does not change when all critics are multiplied by the same number.

    - "random": Q_k normalized by the other critic's |Q_j|, k drawn anew at each update (DQL, CleanDiffuser);
    - "mean": the critics' mean (FQL family), "min": their least (ReBRAC), "first": Q_1 (TD3-BC), each
      normalized by its own size;
    - "unnormalized": the critics' mean as it is (FQL on OGBench), which does change with them.
    """
    if how == "unnormalized":
        return improvement(values, normalized=False)
    if how != "random":
        return in_its_size(values[0] if how == "first" else aggregate(values, how))
    means, sizes = values.mean(1), jax.lax.stop_gradient(jnp.abs(values).mean(1)) + 1e-6
    first = jax.random.bernoulli(key)
    return jnp.where(first, means[0] / sizes[1], means[1] / sizes[0])


def guided(
    critics: Critics,
    observations: Float[Array, "b s"],
    actions: Float[Array, "b a"],
    key: PRNGKeyArray,
    how: str,
) -> tuple[Float[Array, ""], Float[Array, "2 b"]]:
    """`guidance` by the critics' values, and the values, of which "random" may have exchanged the two.

    Of two random critics only Q_k has a gradient. Where launches cost nothing the critics are called apart,
    so that the products of the other's gradient are not computed.
    """
    if how != "random" or use_kernels():
        q = critics(observations, actions)
        return guidance(q, key, how), q
    first = jax.random.bernoulli(key)

    def one(is_first: Array) -> Array:
        # A choice between the two, not an index: for several members that would be a gather.
        chosen: Critics = jax.tree.map(
            lambda leaf: jnp.where(is_first, leaf[:1], leaf[1:]), critics
        )
        return chosen(observations, actions)

    q_k, q_j = one(first), jax.lax.stop_gradient(one(~first))
    return q_k.mean() / (jnp.abs(q_j).mean() + 1e-6), jnp.concatenate([q_k, q_j])


def improvement(values: Float[Array, "q b"], normalized: bool) -> Float[Array, ""]:
    """E Q̄ with Q̄ the critics' mean, divided by sg E|Q̄| if normalized: what the FQL family's actors raise."""
    mean = aggregate(values, "mean")
    return in_its_size(mean) if normalized else mean.mean()


def choose(
    sample: Callable[[Array, PRNGKeyArray], Array],
    values: Callable[[Array, Array], Array],
    observations: Float[Array, "b s"],
    key: PRNGKeyArray,
    acting: Acting,
) -> Float[Array, "b a"]:
    """Best of N: draws N candidates for each state and takes the best, or one drawn from softmax(w · Q)."""
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
    return jnp.take_along_axis(
        actions.reshape(-1, n, actions.shape[-1]), index[:, None, None], axis=1
    )[:, 0]
