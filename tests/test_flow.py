"""The mathematics of flow maps, against closed forms."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from bfq.agents.bfq import (
    Config,
    bootstrap_loss,
    boundary_loss,
    composed_displacement,
    composition_loss,
)
from bfq.agents.learning import descend, learner, learning_rate
from bfq.flow.maps import (
    COMPOSITION_TIMES,
    Query,
    Question,
    boundary_times,
    conditional_velocity,
    flow_map,
    full_span,
    noisy_action,
    one_step,
    together,
    with_full_spans,
)
from bfq.flow.matching import euler
from bfq.nets.kinds import NETWORKS
from bfq.nets.velocity import RawTimeVelocity

MU, S = 0.7, 0.3  # the Gaussian target N(μ, s² I)


def spread(t):
    return jnp.sqrt((1 - t) ** 2 * S**2 + t**2)


def exact_map(x, r, t):
    """The flow map of a Gaussian target: it carries N((1−t)μ, σ_t²) to N((1−r)μ, σ_r²) affinely."""
    r, t = r[..., None], t[..., None]
    return (1 - r) * MU + spread(r) / spread(t) * (x - (1 - t) * MU)


def exact_velocity(x, t):
    t = t[..., None]
    return -MU + (t - (1 - t) * S**2) / spread(t) ** 2 * (x - (1 - t) * MU)


class ExactNet:
    """The average velocity of the exact map, as a network that had learned it perfectly."""

    action_dim = 2

    def __call__(self, x, r, t, observation):
        span = jnp.where(t > r, t - r, 1.0)[..., None]
        average = (x - exact_map(x, r, t)) / span
        return jnp.where((t > r)[..., None], average, exact_velocity(x, t))


def draws(n=512, key=0):
    keys = jax.random.split(jax.random.key(key), 4)
    action = MU + S * jax.random.normal(keys[0], (n, 2))
    noise = jax.random.normal(keys[1], (n, 2))
    return action, noise, jnp.zeros((n, 0)), keys[2], keys[3]


def network(key=0, width=32, dim=2):
    return RawTimeVelocity(jax.random.key(key), 0, dim, width, 2, activation="mish")


def test_path_ends_and_velocity():
    action, noise, *_ = draws(8)
    close(noisy_action(action, noise, jnp.zeros(8)), action)
    close(noisy_action(action, noise, jnp.ones(8)), noise, rtol=1e-6)
    t, h = jnp.full(8, 0.4), 1e-2
    slope = (noisy_action(action, noise, t + h) - noisy_action(action, noise, t - h)) / (2 * h)
    close(slope, conditional_velocity(action, noise), atol=1e-4)


def nested(n=64, gap=1e-3):
    """Noisy actions at the largest of three nested times, with what they were drawn from."""
    action, noise, none, time_key, _ = draws(n)
    times = COMPOSITION_TIMES["nested"](time_key, n, gap)
    return noisy_action(action, noise, times[2]), action, noise, times, none


def composition(net, action, noise, times, none, **values):
    """L_comp in separate network calls."""
    (r, _, t), config = times, Config(**values)
    a_t = noisy_action(action, noise, t)
    target = composed_displacement(net, net, a_t, times, none, config)
    return composition_loss(a_t, target, r, t, none, config).alone(net)


@pytest.mark.parametrize("rule", COMPOSITION_TIMES)
def test_composition_error_vanishes_for_the_exact_map_and_for_a_constant_velocity(rule):
    action, noise, none, time_key, _ = draws()
    times = COMPOSITION_TIMES[rule](time_key, len(action), 1e-3)
    constant = lambda x, r, t, s: jnp.full_like(x, 0.37)
    for net in (ExactNet(), constant):
        assert composition(net, action, noise, times, none) < 1e-12


@pytest.mark.parametrize("architecture", sorted(NETWORKS["velocity"]))
def test_identity_at_equal_times_is_exact(architecture):
    net = NETWORKS["velocity"][architecture](jax.random.key(0), 3, 2, 16, 2, 100)
    x, s = jax.random.normal(jax.random.key(1), (5, 2)), jnp.ones((5, 3))
    t = jnp.linspace(0.0, 1.0, 5)
    assert (flow_map(net, x, t, t, s) == x).all()


def test_displacement_without_preconditioning_is_the_output():
    x = jnp.ones((4, 2))
    given = network(), x, jnp.full(4, 0.2), jnp.full(4, 0.7), jnp.zeros((4, 0))
    close(x - flow_map(*given), 0.5 * (x - flow_map(*given, False)), rtol=1e-6)


def test_nested_calls_carry_no_gradient():
    net, (a_t, action, noise, (r, m, t), none) = network(), nested()
    target = flow_map(net, flow_map(net, a_t, m, t, none), r, m, none)

    def precomputed(n):
        return jnp.square(flow_map(n, a_t, r, t, none) - target).mean()

    expected = eqx.filter_grad(precomputed)(net)
    found = eqx.filter_grad(lambda n: composition(n, action, noise, (r, m, t), none))(net)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(a, b, rtol=1e-5, atol=1e-8)


def test_composition_loss_is_the_weighted_velocity_error():
    # L_comp = E (t − r)² ‖v(a_t, r, t) − v̂‖², v̂ the time-weighted mean of the two nested velocities.
    net, (a_t, action, noise, (r, m, t), none) = network(), nested()
    first = net(a_t, m, t, none)
    second = net(a_t - (t - m)[:, None] * first, r, m, none)
    mean = ((t - m)[:, None] * first + (m - r)[:, None] * second) / (t - r)[:, None]
    expected = ((t - r)[:, None] ** 2 * (net(a_t, r, t, none) - mean) ** 2).mean()
    close(composition(net, action, noise, (r, m, t), none), expected, rtol=1e-4)


ERRORS, SPANS = jnp.array([[0.3, 0.1], [0.02, 0.0]]), jnp.array([0.5, 0.001])


def composition_of(errors, spans, **values):
    """L_comp for displacements with these errors over these spans."""
    nothing, config = jnp.zeros_like(errors), Config(preconditioned=False, **values)
    question = composition_loss(nothing, nothing, 0 * spans, spans, nothing, config)
    return question.finish(errors)


@pytest.mark.parametrize("power", [0.0, 2.0, 3.0])
def test_the_composition_error_in_other_units_is_the_closed_form(power):
    # e² = 0.05 / 0.5^p and 0.0002 / 0.01^p: spans below 0.01 count as 0.01.
    squares = [0.05 / 0.5**power, 0.0002 / 0.01**power]
    plain = composition_of(ERRORS, SPANS, composition_power=power)
    close(plain, sum(squares) / 2, rtol=1e-5)
    rounded = composition_of(ERRORS, SPANS, composition_power=power, composition_huber=0.1)
    expected = sum((e + 0.01) ** 0.5 - 0.1 for e in squares) / 2
    close(rounded, expected, rtol=1e-5)
    assert composition_of(ERRORS, SPANS) == jnp.square(ERRORS).mean()  # the default


def test_a_bound_on_composed_states_leaves_alone_what_is_within_it():
    a_t, _, _, times, none = nested()
    configs = [Config(composition_bound=bound) for bound in (0.0, 6.0)]
    for net, cut in ((ExactNet(), False), (lambda x, r, t, s: 1e3 * x, True)):
        free, bounded = (composed_displacement(net, net, a_t, times, none, c) for c in configs)
        assert (free != bounded).any() == cut
        assert jnp.abs(a_t - bounded).max() <= 6.0 + 1e-3


@pytest.mark.parametrize(("bound", "grows"), [(0.0, True), (6.0, False)])
def test_a_target_that_the_network_makes_for_itself_grows_unless_it_is_bounded(bound, grows):
    # without preconditioning, where the paper has its collapse
    config = Config(preconditioned=False, composition_bound=bound)

    @jax.jit
    def step(state, key):
        data_key, loss_key = jax.random.split(key)
        action = jax.random.uniform(data_key, (256, 2), minval=-1.0)

        def loss(net):
            return bootstrap_loss(net, action, jnp.zeros((256, 0)), loss_key, config)[:2]

        state, _, parts = descend(state, loss, 1e-3)
        return state, parts["composition_loss"]

    keys = jax.random.split(jax.random.key(0), 500)
    _, losses = jax.lax.scan(step, learner(network(width=64)), keys)
    assert (losses.max() > 1e6) == grows
    assert grows or losses.max() < 36.0


def test_boundary_loss_without_preconditioning_scales_its_target():
    zero = lambda x, r, t, s: jnp.zeros_like(x)
    action, noise, none, *_ = draws(64)
    given = action, noise, jnp.full(64, 0.4), jnp.full(64, 0.5), none
    kinds = (Config(preconditioned=kind) for kind in (True, False))
    plain, scaled = (boundary_loss(*given, config).alone(zero) for config in kinds)
    close(scaled, 0.01 * plain, rtol=1e-4)


def mixed_loss(net, key, ratio, mixing):
    """The loss on a fresh batch: the estimates agree over data and noise together."""
    data_key, loss_key = jax.random.split(key)
    action = MU + S * jax.random.normal(data_key, (32, 2))
    config = Config(boundary_ratio=ratio, mixing=mixing)
    return bootstrap_loss(net, action, jnp.zeros((32, 0)), loss_key, config)[0]


@pytest.mark.parametrize("ratio", [0.3, 1.0])
def test_three_mixings_agree_in_expectation(ratio):
    net, keys = network(width=8), jax.random.split(jax.random.key(3), 3000)

    @partial(jax.jit, static_argnums=0)
    def moments(mixing):
        gradient = eqx.filter_grad(lambda n, k: mixed_loss(n, k, ratio, mixing))
        gradients = jax.tree.leaves(jax.vmap(gradient, (None, 0))(net, keys))
        flat = jnp.concatenate([leaf.reshape(3000, -1) for leaf in gradients], axis=1)
        return flat.mean(0), flat.std(0) / 3000**0.5

    mean, error = map(np.asarray, moments("both"))
    assert np.abs(mean).max() > 20 * error.max()  # there is something to agree on
    for mixing in ("split", "update"):
        other, its_error = map(np.asarray, moments(mixing))
        z = np.abs(other - mean) / (np.hypot(its_error, error) + 1e-9)
        assert np.quantile(z, 0.9) < 2.5  # nine tenths of standard normals lie below 1.64
        assert z.max() < 6.0


def test_split_has_less_variance_than_update():
    net, keys = network(width=8), jax.random.split(jax.random.key(3), 1000)
    losses = jax.vmap(mixed_loss, (None, 0, None, None))
    split, update = (losses(net, keys, 0.5, mixing) for mixing in ("split", "update"))
    assert split.std() < 0.5 * update.std()


@pytest.mark.parametrize("rule", sorted(COMPOSITION_TIMES))
def test_times_are_ordered_and_distributed_as_said(rule):
    r, m, t = COMPOSITION_TIMES[rule](jax.random.key(0), 200_000, 1e-3)
    assert ((r >= 0) & (r <= m) & (m <= t) & (t <= 1)).all()
    expected = {"nested": (0.25, 0.375, 0.5), "ordered": (0.25, 0.5, 0.75),
                "sorted_below": (1 / 6, 1 / 3, 0.5)}  # fmt: skip
    close([r.mean(), m.mean(), t.mean()], expected[rule], atol=5e-3)


def test_times_keep_to_the_offset():
    r, _, t = COMPOSITION_TIMES["nested"](jax.random.key(0), 100_000, 0.1)
    assert (r <= jnp.maximum(t - 0.1, 0.0) + 1e-6).all()
    assert (r[t < 0.1] == 0).all()
    r, t = boundary_times(jax.random.key(0), 100_000, 0.05)
    assert ((r >= 0) & (t - r <= 0.05 + 1e-6)).all()
    close((t - r)[t > 0.05].mean(), 0.025, rtol=2e-2)


def test_full_spans_move_the_share_asked_for():
    times = COMPOSITION_TIMES["nested"](jax.random.key(0), 20_000, 1e-3)
    r, m, t = with_full_spans(jax.random.key(1), times, 0.25)
    full = (r == 0) & (t == 1)
    close(full.mean(), 0.25, atol=1e-2)
    assert ((m >= r) & (m <= t)).all()
    untouched = with_full_spans(jax.random.key(1), times, 0.0)
    assert all((a == b).all() for a, b in zip(untouched, times, strict=True))


def test_euler_integrates_the_exact_flow():
    noise = jax.random.normal(jax.random.key(0), (50, 2))
    end = exact_map(noise, jnp.zeros(50), jnp.ones(50))
    errors = [jnp.abs(euler(exact_velocity, noise, k) - end).max() for k in (10, 100, 1000)]
    assert errors[2] < 2e-3
    close(errors[0] / errors[1], 10, rtol=0.6)  # first order
    assert euler(lambda x, t: 2.0 * x, jnp.ones((1, 1)), 1)[0, 0] == -1.0  # the sign convention


def test_one_step_is_noise_minus_velocity():
    velocity = lambda x, r, t, s: 0.5 * x + 0.1 * (t - r)[..., None]
    noise = jnp.array([[0.4], [-9.0], [9.0]])
    close(one_step(velocity, noise, jnp.zeros((3, 0))), [[0.1], [-4.6], [4.4]], atol=1e-6)


@pytest.mark.slow
def test_a_trained_map_matches_the_closed_form():
    @jax.jit
    def train(state, key):
        def step(state, k):
            data_key, loss_key = jax.random.split(jax.random.fold_in(key, k))
            action = MU + S * jax.random.normal(data_key, (256, 2))

            def loss(net):
                return bootstrap_loss(net, action, jnp.zeros((256, 0)), loss_key, Config())[:2]

            return descend(state, loss, learning_rate(3e-3, "cosine", k, 4000))[:2]

        return jax.lax.scan(step, state, jnp.arange(4000))

    state, _ = train(learner(network(width=64)), jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (2000, 2))
    none = jnp.zeros((2000, 0))
    # The nested rule hardly ever draws the full span (0, 1), so there the error is largest.
    for r, t, bound in ((0.0, 1.0, 0.08), (0.3, 0.9, 0.05), (0.0, 0.5, 0.05)):
        start = (1 - t) * MU + spread(jnp.asarray(t)) * x
        rs, ts = jnp.full(2000, r), jnp.full(2000, t)
        error = flow_map(state.params, start, rs, ts, none) - exact_map(start, rs, ts)
        assert jnp.abs(error).mean() < bound, (r, t)
    sample = one_step(state.params, x, none)
    close(sample.mean(0), MU, atol=0.08)
    close(sample.std(0), S, atol=0.08)


def test_queries_are_answered_alike_together_and_apart():
    keys = jax.random.split(jax.random.key(3), 4)
    x, s = jax.random.normal(keys[0], (6, 2)), jax.random.normal(keys[1], (6, 3))
    times = jnp.linspace(0.1, 0.4, 6), jnp.linspace(0.5, 0.9, 6)
    for name, make in NETWORKS["velocity"].items():
        away = lambda p: p + 0.1 * jax.random.normal(keys[3], p.shape)  # from zeros
        net = jax.tree.map(away, make(keys[2], 3, 2, 16, 2, 10))

        def answers(net, x=x, s=s):
            queries = full_span(x, s), Query(x, *times, s), full_span(-x, s)
            return together(net, *(Question(query, lambda v: v) for query in queries))

        def one_by_one(net, x=x, s=s):
            zero, one = jnp.zeros(6), jnp.ones(6)
            return [net(x, zero, one, s), net(x, *times, s), net(-x, zero, one, s)]

        squares = lambda n, f: (sum(jnp.square(a).sum() for a in f(n)), f(n))
        both = jax.jit(jax.grad(squares, has_aux=True), static_argnums=1)
        (slopes, found), (expected_slopes, expected) = both(net, answers), both(net, one_by_one)
        for a, b in zip(found, expected, strict=True):
            close(a, b, rtol=1e-4, atol=1e-5, err_msg=name)
        for a, b in zip(*map(jax.tree.leaves, (slopes, expected_slopes)), strict=True):
            close(a, b, rtol=1e-3, atol=1e-4, err_msg=name)
