"""Gradient steps, schedules and targets."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bfq.agents.learning import descend, due, learner, learning_rate, towards


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
    np.testing.assert_allclose(towards(target, online, 0.005)["x"], 0.005, rtol=1e-6)  # not 0.995


def test_cosine_begins_at_the_rate_and_ends_at_zero():
    rates = [learning_rate(1e-3, "cosine", jnp.int32(k), 100) for k in (0, 50, 100)]
    np.testing.assert_allclose(rates, [1e-3, 5e-4, 0.0], atol=1e-9)
    assert learning_rate(1e-3, "constant", jnp.int32(99), 100) == jnp.float32(1e-3)


def test_warm_up_rises_over_a_twentieth_and_falls_to_a_tenth():
    rates = [
        learning_rate(1.0, "warmup_cosine", jnp.int32(k), 1000) for k in (0, 25, 50, 525, 1000)
    ]
    np.testing.assert_allclose(rates, [0.0, 0.5, 1.0, 0.55, 0.1], atol=1e-5)


def test_due_counts_from_its_start():
    found = [float(due(jnp.int32(k), every=5, start=10)) for k in range(21)]
    assert [k for k, value in enumerate(found) if value] == [10, 15, 20]
