"""Flow maps: learning the displacement from noise to action by composing short displacements.

The paper's policy operator is π(a_t, r, t; s) = a_t − d(a_t, r, t; s) with the displacement d = ∫_r^t v dτ, where
t = 0 is the action and t = 1 is noise. A network predicts the velocity-like v_θ, and the displacement is
(t − r) v_θ. This makes π the identity at r = t and lets short displacements be learned from the velocity.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Action = Float[Array, "*b a"]
Observation = Float[Array, "*b s"]
Time = Float[Array, "..."]  # one per row, or one for all rows
Row = Float[Array, " b"]
Scalar = Float[Array, ""]
Times = tuple[Row, Row, Row]  # (r, m, t)
Number = float | Scalar
Velocity = Callable[..., Array]  # (a_t, r, t, s) -> v


def noisy_action(action: Action, noise: Action, t: Float[Array, "*b"]) -> Action:
    """a_t = (1 − t) a + t ε."""
    return (1.0 - t[..., None]) * action + t[..., None] * noise


def conditional_velocity(action: Action, noise: Action) -> Action:
    """v_cond = ε − a, the path's velocity given its two ends."""
    return noise - action


def flow_map(
    velocity: Velocity, x: Action, r: Time, t: Time, s: Observation, preconditioned: bool = True
) -> Action:
    """π_θ(a_t, r, t; s) = a_t − (t − r) v_θ(a_t, r, t; s); not preconditioned, a_t − v_θ."""
    output = velocity(x, r, t, s)
    return x - ((t - r)[..., None] * output if preconditioned else output)


def one_step(
    velocity: Velocity, noise: Action, s: Observation, preconditioned: bool = True
) -> Action:
    """π_θ(ε, 0, 1; s): one network call from noise to action, not clipped."""
    return flow_map(velocity, noise, jnp.zeros(()), jnp.ones(()), s, preconditioned)


def boundary_times(key: PRNGKeyArray, count: int, max_offset: Number) -> tuple[Row, Row]:
    """(r, t): t ~ U(0, 1), Δ ~ U(0, Δ_max), r = max(t − Δ, 0)."""
    u = jax.random.uniform(key, (2, count))
    return jnp.maximum(u[0] - max_offset * u[1], 0.0), u[0]


def nested_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's algorithm: t ~ U(0, 1), r ~ U(0, t − Δ_max), m ~ U(r, t)."""
    u = jax.random.uniform(key, (3, count))
    t = u[0]
    r = u[1] * jnp.maximum(t - max_offset, 0.0)
    return r, r + u[2] * (t - r), t


def ordered_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's text: three uniforms, sorted. The density of t is 3t², its mean ¾."""
    u = jnp.sort(jax.random.uniform(key, (3, count)), axis=0)
    return u[0], u[1], u[2]


def sorted_below_times(key: PRNGKeyArray, count: int, max_offset: Number) -> Times:
    """(r, m, t) as in the paper's table: t ~ U(0, 1), then r ≤ m from two uniforms below t, sorted."""
    u = jax.random.uniform(key, (3, count))
    below = jnp.sort(u[1:] * u[0], axis=0)
    return below[0], below[1], u[0]


COMPOSITION_TIMES: dict[str, Callable[[PRNGKeyArray, int, Number], Times]] = {
    "nested": nested_times,
    "ordered": ordered_times,
    "sorted_below": sorted_below_times,
}


def with_full_spans(key: PRNGKeyArray, times: Times, share: float) -> Times:
    """Move a share of the draws to (r, t) = (0, 1), where the policy acts; m keeps its relative place."""
    if share == 0.0:
        return times
    r, m, t = times
    fraction = jnp.where(t > r, (m - r) / jnp.where(t > r, t - r, 1.0), 0.5)
    moved = jax.random.uniform(key, t.shape) < share
    return jnp.where(moved, 0.0, r), jnp.where(moved, fraction, m), jnp.where(moved, 1.0, t)


class Query(NamedTuple):
    """Rows on which a network is called."""

    x: Action
    r: Float[Array, " *b"]  # one per row, or one for all rows
    t: Float[Array, " *b"]
    observation: Observation

    def times(self) -> tuple[Row, Row]:
        """(r, t) of each row."""
        count = (len(self.x),)
        return jnp.broadcast_to(self.r, count), jnp.broadcast_to(self.t, count)


def full_span(noise: Action, observation: Observation) -> Query:
    """The call at (r, t) = (0, 1): its answer is the displacement from noise to action."""
    return Query(noise, jnp.zeros(()), jnp.ones(()), observation)


class Question(NamedTuple):
    """A call of the velocity network, and what is computed from its answer."""

    query: Query
    finish: Callable[[Action], Any]

    def alone(self, velocity: Velocity) -> Any:
        """The result from a network call of its own."""
        return self.finish(velocity(*self.query))


def together(velocity: Any, *questions: Question) -> list[Any]:
    """The result of each question, from one network call: one large product is faster than several.

    A network with `single_times_apart` computes much from each time: it is called separately for queries
    that have one time for all rows.
    """
    apart = getattr(velocity, "single_times_apart", False)
    joint = [one.query for one in questions if one.query.t.ndim or not apart]
    spread = [(query.x, *query.times(), query.observation) for query in joint]
    rows = [jnp.concatenate(parts) for parts in zip(*spread, strict=True)]
    ends = np.cumsum([len(query.x) for query in joint])[:-1]
    answers = iter(jnp.split(velocity(*rows), ends))
    return [
        one.finish(next(answers)) if one.query.t.ndim or not apart else one.alone(velocity)
        for one in questions
    ]


def share_times(
    velocity: Any, near: tuple[Array, Array], spans: Times, others: Sequence[Query]
) -> Sequence[Velocity]:
    """The velocity over (m, t), over (r, m), and at the rows of `near`, (r, t) and `others`.

    A network that can embed all of these times at once does so; others are called as they are.
    """
    if hasattr(velocity, "embed_once"):
        several: Sequence[Velocity] = velocity.embed_once(near, spans, others)
        return several
    return [velocity] * 3
