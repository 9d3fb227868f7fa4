"""Gradient steps, schedules, TD targets, guidance and best-of-N selection."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bfq.agents.contract import Acting
from bfq.agents.learning import (
    aggregate,
    backup_values,
    best_of_n,
    critic_loss,
    descend,
    due,
    guidance_from,
    learner,
    learning_rate,
    polyak,
    q_guidance,
    td_target,
)
from bfq.nets import Critics


def quadratic(params):
    return jnp.square(params["x"] - 3.0).sum(), None


def test_descend_is_adam():
    params = {"x": jnp.array([0.0, 10.0])}
    adam, state = optax.adam(0.1), learner(params)
    reference = adam.init(params)
    for _ in range(20):
        gradient = jax.grad(lambda p: quadratic(p)[0])(params)
        updates, reference = adam.update(gradient, reference)
        params = optax.apply_updates(params, updates)
        state, value, _ = descend(state, quadratic, 0.1)
    np.testing.assert_allclose(state.params["x"], params["x"], rtol=1e-5)
    assert value > 0


@pytest.mark.parametrize(("clip", "expected"), [(0.0, 20.0), (1.0, 1.0), (100.0, 20.0)])
def test_clip_norm_bounds_the_gradient(clip, expected):
    state, _, _ = descend(learner({"x": jnp.array([13.0])}), quadratic, 0.1, clip)
    np.testing.assert_allclose(state.moments.mu["x"], 0.1 * expected, rtol=1e-5)  # μ = (1 − 0.9) g


def test_targets_move_towards_the_online_network():
    target, online = {"x": jnp.zeros(3)}, {"x": jnp.ones(3)}
    np.testing.assert_allclose(polyak(target, online, 0.005)["x"], 0.005, rtol=1e-6)  # not 0.995


@pytest.mark.parametrize(("schedule", "at", "shares"), [
    ("constant", (0, 990, 1000), (1.0, 1.0, 1.0)),
    ("cosine", (0, 500, 1000), (1.0, 0.5, 0.0)),
    ("warmup_cosine", (0, 25, 50, 525, 1000), (0.0, 0.5, 1.0, 0.55, 0.1)),
])  # fmt: skip
def test_schedules(schedule, at, shares):
    rates = [learning_rate(1e-3, schedule, jnp.int32(k), 1000) for k in at]
    np.testing.assert_allclose(rates, 1e-3 * np.array(shares), atol=1e-8)


def test_due_counts_from_its_start():
    found = [float(due(jnp.int32(k), every=5, start=10)) for k in range(21)]
    assert [k for k, value in enumerate(found) if value] == [10, 15, 20]


KEY = jax.random.key(0)


@pytest.mark.parametrize(("how", "least"), [("min", 8.0), ("mean", 9.0)])
def test_td_target_bootstraps_through_time_outs_and_not_through_terminals(how, least):
    values = jnp.array([[10.0, 10.0], [8.0, 12.0]])
    target = td_target(jnp.array([1.0, 1.0]), jnp.array([1.0, 0.0]), values, 0.5, how)
    np.testing.assert_allclose(target, [1.0 + 0.5 * least, 1.0])
    assert aggregate(values, how)[0] == least


def test_max_q_backup_takes_the_best_of_each_state_for_each_critic():
    states = jnp.array([[0.0], [100.0], [200.0]])
    offered = []

    def sample(s, key):
        offered.append(jax.random.normal(key, (len(s), 1)))
        return offered[-1]

    critics = lambda s, a: jnp.stack([(s + a)[:, 0], (s - a)[:, 0]])
    values = backup_values(critics, sample, states, KEY, samples=10)
    actions = offered[0].reshape(3, 10)
    assert len(np.unique(actions)) == 30  # every copy has its own noise
    np.testing.assert_allclose(values[0], states[:, 0] + actions.max(1), rtol=1e-5)
    np.testing.assert_allclose(values[1], states[:, 0] - actions.min(1), rtol=1e-5)


def test_best_of_n_backup_takes_what_the_critics_mean_prefers():
    critics = lambda s, a: jnp.stack([a[:, 0], 3.0 - 2.0 * a[:, 0]])
    sample = lambda s, key: jnp.array([[0.0], [1.0], [2.0]])
    values = backup_values(critics, sample, jnp.zeros((1, 1)), KEY, samples=3, best="together")
    np.testing.assert_allclose(values, [[0.0], [3.0]])  # the means are 1.5, 1, 0.5


def test_critic_loss_averages_over_the_batch_and_sums_or_averages_over_critics():
    values, target = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([0.0, 0.0])
    assert critic_loss(values, target) == (1 + 4) / 2 + (9 + 16) / 2
    assert critic_loss(values, target, averaged=True) == (1 + 4 + 9 + 16) / 4


@pytest.mark.parametrize("how", ["random", "mean"])
def test_guidance_and_its_gradient_ignore_the_scale_of_q(how):
    def value(action, scale):
        q = scale * jnp.stack([5.0 + action, 3.0 + 2.0 * action])
        return guidance_from(q, KEY, how)

    action = jnp.array([0.1, -0.2, 0.3])
    plain, tenfold = (jax.grad(value)(action, scale) for scale in (1.0, 10.0))
    assert float(jnp.abs(plain).max()) > 0.01
    np.testing.assert_allclose(tenfold, plain, rtol=1e-5)


def test_unnormalized_guidance_is_the_mean_of_all_values():
    q = jnp.array([[2.0, 4.0], [-8.0, -2.0]])
    assert guidance_from(q, KEY, "unnormalized") == -1.0
    assert guidance_from(10 * q, KEY, "unnormalized") == -10.0


def test_random_guidance_divides_by_the_other_critic():
    q = jnp.array([[2.0, 2.0], [-8.0, -8.0]])
    found = {round(float(guidance_from(q, jax.random.key(k), "random")), 4) for k in range(20)}
    assert found == {round(2.0 / 8.0, 4), round(-8.0 / 2.0, 4)}


@pytest.mark.parametrize("how", ["random", "mean"])
def test_guidance_is_guidance_from_all_critics_with_its_gradient(how):
    """Whichever critic is drawn, and for several members at once."""
    critics = Critics(KEY, 3, 2, "clean_diffuser", 16, 2)
    states, actions = jax.random.normal(KEY, (8, 3)), jax.random.normal(jax.random.key(1), (8, 2))
    keys = jax.random.split(KEY, 8)
    assert len(np.unique(jax.vmap(jax.random.bernoulli)(keys))) == 2

    def apart(a, key):
        value, q = q_guidance(critics, states, a, key, how)
        return value, q.mean()

    def together(a, key):
        q = critics(states, a)
        return guidance_from(q, key, how), q.mean()

    slopes = (jax.value_and_grad(f, has_aux=True) for f in (apart, together))
    found, wanted = (jax.jit(jax.vmap(f, (None, 0)))(actions, keys) for f in slopes)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_best_of_n_takes_the_best():
    sample = lambda s, key: jax.random.uniform(key, (len(s), 2), minval=-1.0)
    values = lambda s, a: a[:, 0]
    observations = jnp.zeros((50, 3))
    one = best_of_n(sample, values, observations, KEY, Acting(candidates=1))
    best = best_of_n(sample, values, observations, KEY, Acting(candidates=64))
    assert one.shape == best.shape == (50, 2)
    largest = 1 - 2 / 65  # the mean of the largest of 64
    np.testing.assert_allclose(best[:, 0].mean(), largest, atol=0.02)
    assert abs(float(one[:, 0].mean())) < 0.3


def test_softmax_draw_follows_its_weights():
    actions = jnp.array([[-1.0], [0.0], [1.0]])
    sample = lambda s, key: jnp.tile(actions, (len(s) // 3, 1))
    values = lambda s, a: a[:, 0]
    acting = Acting(candidates=3, selection="softmax", softmax_weight=1.0)
    drawn = best_of_n(sample, values, jnp.zeros((20_000, 1)), KEY, acting)[:, 0]
    shares = [float((drawn == value).mean()) for value in (-1.0, 0.0, 1.0)]
    np.testing.assert_allclose(shares, np.exp([-1, 0, 1]) / np.exp([-1, 0, 1]).sum(), atol=0.015)
