"""Flow maps: learning the displacement from noise to action by composing short displacements.

The paper's policy operator is π(a_t, r, t; s) = a_t − d(a_t, r, t; s) with the displacement
d = ∫_r^t v dτ. A network predicts the velocity-like v_θ and the displacement is (t − r) v_θ, which makes
π the identity at r = t and lets short displacements be learned from the flow-matching velocity.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.flow.path import conditional_velocity, noisy_action
from bfq.flow.times import COMPOSITION_TIMES, Number, boundary_times, with_full_spans
from bfq.nets.velocity import EmbeddedVelocity, ResidualVelocity, Velocity

Times = Float[Array, " _"]
SHORTEST = 0.01  # spans below it count as this long where errors are divided by a span


class TimeRule(NamedTuple):
    """How (r, m, t) are drawn, and how far the states between them may go."""

    rule: str = (
        "nested"  # nested (the paper's algorithm) | ordered (its text) | sorted_below (its table)
    )
    max_offset: Number = 1e-3  # Δ_max, the longest interval of the boundary loss
    full_span_share: float = (
        0.0  # share of composition draws forced to (r, t) = (0, 1); not in the paper
    )
    bound: float = 0.0  # on the numbers of composed states; 0: none; not in the paper


class CompositionError(NamedTuple):
    """How L_comp measures the error of a row; the defaults are the paper's. Nothing else is in the paper.

    With e² the squared error of a displacement (mean over action dimensions) divided by max(t − r, 0.01)^p:
    L_comp = w E e², or w E (√(e² + c²) − c) for c > 0. At p = 2 the error is that of the velocity.
    """

    power: Number = 0.0  # p
    weight: Number = 1.0  # w
    huber: float = 0.0  # c; 0: plain squares

    def loss(self, question: "Question", output: Float[Array, "b a"]) -> Float[Array, ""]:
        """L_comp without its weight w."""
        r, t = question.query.times()
        squares = question.squares(output) / (jnp.maximum(t - r, SHORTEST) ** self.power)[:, None]
        if not self.huber:
            return squares.mean()
        return (jnp.sqrt(squares.mean(-1) + self.huber**2) - self.huber).mean()


def displacement(
    velocity: Velocity,
    x: Float[Array, "*b a"],
    r: Float[Array, "..."],
    t: Float[Array, "..."],
    observation: Float[Array, "*b s"],
    preconditioned: bool = True,
) -> Float[Array, "*b a"]:
    """d_θ(a_t, r, t; s) = (t − r) v_θ(a_t, r, t; s); without preconditioning the network's output itself."""
    output = velocity(x, r, t, observation)
    return (t - r)[..., None] * output if preconditioned else output


def flow_map(
    velocity: Velocity,
    x: Float[Array, "*b a"],
    r: Float[Array, "..."],
    t: Float[Array, "..."],
    observation: Float[Array, "*b s"],
    preconditioned: bool = True,
) -> Float[Array, "*b a"]:
    """π_θ(a_t, r, t; s) = a_t − d_θ(a_t, r, t; s)."""
    return x - displacement(velocity, x, r, t, observation, preconditioned)


def one_step(
    velocity: Velocity,
    noise: Float[Array, "*b a"],
    observation: Float[Array, "*b s"],
    preconditioned: bool = True,
) -> Float[Array, "*b a"]:
    """π_θ(ε, 0, 1; s): one network call from noise to action, not clipped."""
    return flow_map(velocity, noise, jnp.zeros(()), jnp.ones(()), observation, preconditioned)


class Query(NamedTuple):
    """Rows on which a network is called."""

    x: Float[Array, "b a"]
    r: Float[Array, " *b"]  # one a row, or one for all rows
    t: Float[Array, " *b"]
    observation: Float[Array, "b s"]

    def times(self) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
        """(r, t) of each row."""
        count = (len(self.x),)
        return jnp.broadcast_to(self.r, count), jnp.broadcast_to(self.t, count)


class Question(NamedTuple):
    """A call of the network and what is wanted of it: scale · v_θ(x, r, t; s) = target, without gradient."""

    query: Query
    scale: Float[Array, " b"]
    target: Float[Array, "b a"]

    def error(self, output: Float[Array, "b a"]) -> Float[Array, ""]:
        """E ‖scale · v_θ − target‖² (mean over action dimensions)."""
        return self.squares(output).mean()

    def squares(self, output: Float[Array, "b a"]) -> Float[Array, "b a"]:
        """(scale · v_θ − target)² of each number."""
        return jnp.square(self.scale[:, None] * output - self.target)


def ask(velocity: Velocity, *queries: Query) -> list[Float[Array, "_ a"]]:
    """The network's answer to each query, from one call: one large product is faster than several small.

    A residual network computes much from each time, so there what has one time for all rows is asked apart.
    """
    if not isinstance(velocity, ResidualVelocity):
        return _at_once(velocity, queries)
    answers = iter(_at_once(velocity, [query for query in queries if query.t.ndim]))
    return [next(answers) if query.t.ndim else velocity(*query) for query in queries]


def _at_once(velocity: Velocity, queries: Sequence[Query]) -> list[Float[Array, "_ a"]]:
    spread = [(query.x, *query.times(), query.observation) for query in queries]
    rows = [jnp.concatenate(parts) for parts in zip(*spread, strict=True)]
    ends = np.cumsum([len(query.x) for query in queries])[:-1]
    return jnp.split(velocity(*rows), ends)


def full_span(noise: Float[Array, "b a"], observation: Float[Array, "b s"]) -> Query:
    """The call that acts, (r, t) = (0, 1): its answer is the whole displacement from noise to action."""
    return Query(noise, jnp.zeros(()), jnp.ones(()), observation)


def boundary_question(
    action: Float[Array, "b a"],
    noise: Float[Array, "b a"],
    r: Float[Array, " b"],
    t: Float[Array, " b"],
    observation: Float[Array, "b s"],
    preconditioned: bool = True,
) -> Question:
    """v_θ(a_t, r, t; s) = ε − a for r within Δ_max of t.

    Without preconditioning the same condition on the map: π_θ(a_t, r, t) = a_t − (t − r)(ε − a).
    """
    target = conditional_velocity(action, noise)
    if not preconditioned:
        target = (t - r)[..., None] * target
    return Question(
        Query(noisy_action(action, noise, t), r, t, observation), jnp.ones_like(t), target
    )


def composition_question(
    velocities: tuple[Velocity, Velocity],
    action: Float[Array, "b a"],
    noise: Float[Array, "b a"],
    r: Float[Array, " b"],
    m: Float[Array, " b"],
    t: Float[Array, " b"],
    observation: Float[Array, "b s"],
    preconditioned: bool = True,
    bound: float = 0.0,
) -> Question:
    """π_θ(a_t, r, t; s) = sg π_θ(π_θ(a_t, m, t; s), r, m; s), written for the displacement a_t − π_θ.

    The two nested calls, over (m, t) and over (r, m), use the online parameters and carry no gradient. A
    bound on what they give keeps a target that the network makes for itself from growing with the network.
    """
    late, early = velocities
    a_t = noisy_action(action, noise, t)
    a_m = _within(bound, flow_map(late, a_t, m, t, observation, preconditioned))
    a_r = _within(bound, flow_map(early, a_m, r, m, observation, preconditioned))
    scale = t - r if preconditioned else jnp.ones_like(t)
    return Question(Query(a_t, r, t, observation), scale, jax.lax.stop_gradient(a_t - a_r))


def _within(bound: float, x: Float[Array, "b a"]) -> Float[Array, "b a"]:
    return jnp.clip(x, -bound, bound) if bound else x


def boundary_loss(
    velocity: Velocity,
    action: Float[Array, "b a"],
    noise: Float[Array, "b a"],
    r: Float[Array, " b"],
    t: Float[Array, " b"],
    observation: Float[Array, "b s"],
    preconditioned: bool = True,
) -> Float[Array, ""]:
    """L_bnd = E ‖v_θ(a_t, r, t; s) − (ε − a)‖² for r within Δ_max of t."""
    wanted = boundary_question(action, noise, r, t, observation, preconditioned)
    return wanted.error(velocity(*wanted.query))


class Bootstrap(NamedTuple):
    """What L_BC asked of a batch, the network's answers, and the weight of the first part."""

    boundary: Question
    composition: Question
    answers: list[Float[Array, "_ a"]]  # to the two, and to what else was asked in the same call
    weight: Number  # λ, or ξ ~ Bernoulli(λ)
    measure: CompositionError = CompositionError()

    def loss(self) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(1 − λ) w L_comp + λ L_bnd, with both parts."""
        bnd = self.boundary.error(self.answers[0])
        comp = self.measure.loss(self.composition, self.answers[1])
        parts = {"boundary_loss": bnd, "composition_loss": comp}
        return self.weight * bnd + (1.0 - self.weight) * (self.measure.weight * comp), parts


def bootstrap(
    velocity: Velocity,
    action: Float[Array, "b a"],
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    boundary_ratio: Number,
    mixing: str,
    times: TimeRule,
    preconditioned: bool = True,
    *also: Query,
    measure: CompositionError = CompositionError(),  # noqa: B008 (immutable)
) -> Bootstrap:
    """Asks what L_BC = (1 − λ) L_comp + λ L_bnd needs, in one of three ways with the same expectation.

    - "split": half of the batch estimates L_bnd, the other half L_comp, weighted λ and 1 − λ. At the
      paper's λ = ½ each sample counts the same. The shapes do not depend on λ, so λ may differ by member.
    - "update": the paper's letter, ξ ~ Bernoulli(λ) once an update chooses which loss the whole batch has.
    - "both": both losses on the whole batch.

    The rows of both losses and of `also` are answered in one call.
    """
    noise_key, boundary_key, composition_key, span_key, xi_key = jax.random.split(key, 5)
    noise = jax.random.normal(noise_key, action.shape)
    everything, half = slice(None), action.shape[0] // 2
    anchored, composed = (
        (slice(half), slice(half, None)) if mixing == "split" else (everything, everything)
    )

    near = boundary_times(boundary_key, len(action[anchored]), times.max_offset)
    spans = COMPOSITION_TIMES[times.rule](composition_key, len(action[composed]), times.max_offset)
    spans = with_full_spans(span_key, spans, times.full_span_share)
    late, early, velocity = _embedded(velocity, near, spans, also)

    bnd = boundary_question(
        action[anchored], noise[anchored], *near, observation[anchored], preconditioned
    )
    rows = action[composed], noise[composed], *spans, observation[composed]
    comp = composition_question((late, early), *rows, preconditioned, times.bound)
    weight = boundary_ratio
    if mixing == "update":
        weight = jax.random.bernoulli(xi_key, boundary_ratio).astype(action.dtype)
    return Bootstrap(bnd, comp, ask(velocity, bnd.query, comp.query, *also), weight, measure)


def _embedded(
    velocity: Velocity,
    near: tuple[Times, Times],
    spans: tuple[Times, Times, Times],
    also: Sequence[Query],
) -> list[Velocity]:
    """The velocity over (m, t), over (r, m), and at the rows of both losses and of `also`.

    All times are embedded in one call, and none twice: the inner steps take t and r from the outer one, and a
    pair that serves all rows of a query is one row.
    """
    if not isinstance(velocity, EmbeddedVelocity):
        return [velocity] * 3
    network, (r, m, t) = velocity, spans
    asked = [
        near,
        (r, t),
        (m, m),
        *((jnp.atleast_1d(query.r), jnp.atleast_1d(query.t)) for query in also),
    ]
    code = network.code(*(jnp.concatenate(times) for times in zip(*asked, strict=True)))
    of_near, of_span, of_m, *of_also = jnp.split(code, np.cumsum([len(t) for _, t in asked])[:-1])
    of_t, of_r = jnp.split(of_span, 2, axis=-1)
    m_as_t, m_as_r = jnp.split(of_m, 2, axis=-1)
    spread = [
        jnp.broadcast_to(part, (len(query.x), part.shape[1]))
        for part, query in zip(of_also, also, strict=True)
    ]

    def given(*code: Array, axis: int) -> Velocity:
        joined = jnp.concatenate(code, axis)
        return lambda x, r, t, s: network.at(joined, x, s)

    return [
        given(of_t, m_as_r, axis=-1),
        given(m_as_t, of_r, axis=-1),
        given(of_near, of_span, *spread, axis=0),
    ]


def bootstrap_loss(
    velocity: Velocity,
    action: Float[Array, "b a"],
    observation: Float[Array, "b s"],
    key: PRNGKeyArray,
    boundary_ratio: Number,
    mixing: str,
    times: TimeRule,
    preconditioned: bool = True,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """L_BC = (1 − λ) L_comp + λ L_bnd, and both parts."""
    asked = bootstrap(
        velocity, action, observation, key, boundary_ratio, mixing, times, preconditioned
    )
    return asked.loss()
