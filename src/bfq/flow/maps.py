"""Flow maps: learning the displacement from noise to action by composing short displacements.

The paper's policy operator is π(a_t, r, t; s) = a_t − d(a_t, r, t; s) with the displacement d = ∫_r^t v dτ, where
t = 0 is the action and t = 1 is noise. A network predicts the velocity-like v_θ, and the displacement is
(t − r) v_θ. This makes π the identity at r = t and lets short displacements be learned from the velocity.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Action = Float[Array, "*b a"]
Observation = Float[Array, "*b s"]
Time = Float[Array, "..."]  # one per row, or one for all rows
Times = tuple[Float[Array, " b"], Float[Array, " b"], Float[Array, " b"]]  # (r, m, t)
Number = float | Float[Array, ""]
Velocity = Callable[..., Array]  # (a_t, r, t, s) -> v
SHORTEST = 0.01  # spans below it count as this long where errors are divided by a span


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


def boundary_times(
    key: PRNGKeyArray, count: int, max_offset: Number
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
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


class Objective(NamedTuple):
    """The choices in L_BC. The defaults are the paper's; the last five are not in the paper, and off."""

    boundary_ratio: Number = 0.5  # λ
    mixing: str = "split"  # split | update (the paper's ξ) | both: see `bootstrap`
    time_rule: str = (
        "nested"  # nested (the paper's algorithm) | ordered (text) | sorted_below (table)
    )
    max_offset: Number = 1e-3  # Δ_max, the longest interval of the boundary loss
    preconditioned: bool = True  # False: the network returns the displacement itself
    full_span_share: float = 0.0  # share of composition draws with (r, t) = (0, 1)
    bound: float = 0.0  # on the numbers of a_m and a_r; 0: none
    power: Number = (
        0.0  # p: squared errors are divided by max(t − r, 0.01)^p; at 2 they are of velocities
    )
    weight: Number = 1.0  # w: factor on L_comp
    huber: float = 0.0  # c > 0: √(e² + c²) − c in place of e²


class Query(NamedTuple):
    """Rows on which a network is called."""

    x: Float[Array, "b a"]
    r: Float[Array, " *b"]  # one per row, or one for all rows
    t: Float[Array, " *b"]
    observation: Float[Array, "b s"]

    def times(self) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
        """(r, t) of each row."""
        count = (len(self.x),)
        return jnp.broadcast_to(self.r, count), jnp.broadcast_to(self.t, count)


def full_span(noise: Float[Array, "b a"], observation: Float[Array, "b s"]) -> Query:
    """The call at (r, t) = (0, 1): its answer is the displacement from noise to action."""
    return Query(noise, jnp.zeros(()), jnp.ones(()), observation)


class Condition(NamedTuple):
    """scale · v_θ(x, r, t; s) = target, which a loss measures; the target has no gradient."""

    query: Query
    scale: Float[Array, " b"]
    target: Float[Array, "b a"]

    def squares(self, output: Float[Array, "b a"]) -> Float[Array, "b a"]:
        """(scale · v_θ − target)² of each number."""
        return jnp.square(self.scale[:, None] * output - self.target)

    def error(self, velocity: Velocity) -> Float[Array, ""]:
        """The mean square."""
        return self.squares(velocity(*self.query)).mean()


def boundary_condition(
    action: Action, noise: Action, r: Time, t: Time, s: Observation, preconditioned: bool = True
) -> Condition:
    """v_θ(a_t, r, t; s) = ε − a for r within Δ_max of t; its error is L_bnd, at r = t flow matching.

    Without preconditioning the same condition on the map: π_θ(a_t, r, t) = a_t − (t − r)(ε − a).
    """
    target = conditional_velocity(action, noise)
    target = target if preconditioned else (t - r)[..., None] * target
    return Condition(Query(noisy_action(action, noise, t), r, t, s), jnp.ones_like(t), target)


def composition_condition(
    late: Velocity,
    early: Velocity,
    action: Action,
    noise: Action,
    times: Times,
    s: Observation,
    objective: Objective,
) -> Condition:
    """π_θ(a_t, r, t; s) = sg π_θ(π_θ(a_t, m, t; s), r, m; s), written for the displacement a_t − π_θ.

    The two nested calls, `late` over (m, t) and `early` over (r, m), use the online parameters and carry no
    gradient. A bound on their results keeps a self-made target from growing with the network.
    """
    (r, m, t), preconditioned, bound = times, objective.preconditioned, objective.bound
    a_t = noisy_action(action, noise, t)
    a_m = flow_map(late, a_t, m, t, s, preconditioned)
    a_m = jnp.clip(a_m, -bound, bound) if bound else a_m
    a_r = flow_map(early, a_m, r, m, s, preconditioned)
    a_r = jnp.clip(a_r, -bound, bound) if bound else a_r
    scale = t - r if preconditioned else jnp.ones_like(t)
    return Condition(Query(a_t, r, t, s), scale, jax.lax.stop_gradient(a_t - a_r))


def composition_loss(
    condition: Condition, output: Float[Array, "b a"], objective: Objective
) -> Float[Array, ""]:
    """E e² or E (√(e² + c²) − c) of each row's squared error e², without the weight w."""
    r, t = condition.query.times()
    spans = (jnp.maximum(t - r, SHORTEST) ** objective.power)[:, None]
    squares = condition.squares(output) / spans
    if not objective.huber:
        return squares.mean()
    return (jnp.sqrt(squares.mean(-1) + objective.huber**2) - objective.huber).mean()


def ask(velocity: Any, *queries: Query) -> list[Float[Array, "_ a"]]:
    """The answer to each query, from one call: one large product is faster than several small ones.

    A network with `single_times_apart` computes much from each time: it is called separately for queries
    that have one time for all rows.
    """
    apart = getattr(velocity, "single_times_apart", False)
    together = [query for query in queries if query.t.ndim or not apart]
    spread = [(query.x, *query.times(), query.observation) for query in together]
    rows = [jnp.concatenate(parts) for parts in zip(*spread, strict=True)]
    ends = np.cumsum([len(query.x) for query in together])[:-1]
    answers = iter(jnp.split(velocity(*rows), ends))
    return [next(answers) if q.t.ndim or not apart else velocity(*q) for q in queries]


def bootstrap(
    velocity: Any,
    action: Float[Array, "b a"],
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    objective: Objective,
    *others: Query,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], list[Float[Array, "_ a"]]]:
    """L_BC = (1 − λ) w L_comp + λ L_bnd, its two parts, and the answers to `others` from the same call.

    L_BC is estimated in one of three ways with the same expectation:

    - "split": half of the batch estimates L_bnd, the other half L_comp, weighted λ and 1 − λ. At the
      paper's λ = ½ each sample counts the same. The shapes do not depend on λ, so members may differ in it.
    - "update": as the paper has it, ξ ~ Bernoulli(λ) once per update chooses the loss of the whole batch.
    - "both": both losses on the whole batch.
    """
    noise_key, boundary_key, composition_key, span_key, xi_key = jax.random.split(key, 5)
    noise, half = jax.random.normal(noise_key, action.shape), len(action) // 2
    split = objective.mixing == "split"
    anchored, composed = (slice(half), slice(half, None)) if split else (slice(None), slice(None))
    counts = (half, len(action) - half) if split else (len(action), len(action))

    near = boundary_times(boundary_key, counts[0], objective.max_offset)
    draw = COMPOSITION_TIMES[objective.time_rule]
    spans = draw(composition_key, counts[1], objective.max_offset)
    spans = with_full_spans(span_key, spans, objective.full_span_share)
    late = early = velocity
    if hasattr(velocity, "embed_once"):
        late, early, velocity = velocity.embed_once(near, spans, others)

    rows = action[anchored], noise[anchored], *near, observation[anchored]
    boundary = boundary_condition(*rows, objective.preconditioned)
    composition = composition_condition(
        late, early, action[composed], noise[composed], spans, observation[composed], objective
    )
    at_boundary, at_spans, *answers = ask(velocity, boundary.query, composition.query, *others)

    weight = objective.boundary_ratio
    if objective.mixing == "update":
        weight = jax.random.bernoulli(xi_key, weight).astype(action.dtype)
    bnd = boundary.squares(at_boundary).mean()
    comp = composition_loss(composition, at_spans, objective)
    loss = weight * bnd + (1.0 - weight) * (objective.weight * comp)
    return loss, {"boundary_loss": bnd, "composition_loss": comp}, answers
