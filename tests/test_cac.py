"""CAC: the consistency function, its grid and curriculum. The agent's update: test_parity."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import setup, small

from bfq.agents import cac as module
from bfq.flow.few_steps import (
    c_out,
    c_skip,
    consistency_function,
    consistency_loss,
    grid_size,
    karras_time,
    multistep,
    neighboring_times,
    sampling_times,
)

AGENT = module.AGENT


def test_the_function_is_the_identity_at_the_least_time_whatever_the_network():
    x = jax.random.normal(jax.random.key(0), (5, 2))
    found = consistency_function(lambda x, t: 100.0 + x, x, jnp.full(5, 0.002))
    np.testing.assert_allclose(found, x, atol=1e-6)
    most = jnp.array(80.0)
    np.testing.assert_allclose(c_skip(most), 0.25 / (79.998**2 + 0.25), rtol=1e-5)
    np.testing.assert_allclose(c_out(most), 0.5 * 79.998 / math.sqrt(6400.25), rtol=1e-5)


@pytest.mark.parametrize("size", [2, 3, 40, 150])
def test_the_grid_rises_from_the_least_time_to_the_most(size):
    t = np.asarray(karras_time(jnp.arange(size), size))
    np.testing.assert_allclose(t[[0, -1]], [0.002, 80.0], rtol=1e-4)
    assert (np.diff(t) > 0).all()
    if size == 3:
        assert t[1] == pytest.approx(((0.002 ** (1 / 7) + 80 ** (1 / 7)) / 2) ** 7, rel=1e-4)


@pytest.mark.parametrize("updates", [400, 50_000, 1_000_000])
def test_the_curriculum_is_the_formula_from_2_to_150(updates):
    ks = np.unique(np.linspace(0, updates, 300).astype(int))
    found = [int(n) for n in jax.vmap(lambda k: grid_size(k, updates))(jnp.asarray(ks, jnp.int32))]
    said = [math.ceil(math.sqrt(int(k) * (150**2 - 4) / updates + 4) - 1) + 1 for k in ks]
    assert found == said
    assert (found[0], found[-1]) == (2, 150)


def test_neighbors_are_neighbors_and_all_are_drawn():
    earlier, later = map(np.asarray, neighboring_times(jax.random.key(0), 500, jnp.int32(4)))
    grid = np.asarray(karras_time(jnp.arange(4), 4))
    places = [np.abs(grid - times[:, None]).argmin(1).tolist() for times in (earlier, later)]
    assert set(zip(*places, strict=True)) == {(0, 1), (1, 2), (2, 3)}


def test_the_exact_function_of_a_point_has_no_loss():
    """All data are c: the path through x at time t began at c + (ε/t)(x − c)."""
    c, n = jnp.array([0.3, -0.7]), 64

    def exact(x, t):
        return c + (0.002 / t)[:, None] * (x - c)

    noise, action = jax.random.normal(jax.random.key(0), (n, 2)), jnp.tile(c, (n, 1))
    times = neighboring_times(jax.random.key(1), n, 10)
    assert float(consistency_loss(exact, exact, action, noise, *times, scaled=False)) < 1e-10

    def wrong(x, t):
        return exact(x, t) + t[:, None]

    gap = np.asarray(times[1] - times[0])
    given = wrong, wrong, action, noise, *times
    plain, weighted = (consistency_loss(*given, scaled=k) for k in (False, True))
    np.testing.assert_allclose(plain, np.square(gap).mean(), rtol=1e-3)
    np.testing.assert_allclose(weighted, (100.0 * gap).mean(), rtol=1e-3)


def test_sampling_times():
    assert sampling_times(1) == (80.0,)
    assert sampling_times(1, literal=True) == (2.0,)
    assert sampling_times(2) == sampling_times(2, literal=True) == (80.0, 2.0)
    assert sampling_times(3) == (80.0, 41.0, 2.0)


def test_two_calls_are_what_they_say():
    noise, key = jax.random.normal(jax.random.key(0), (4, 2)), jax.random.key(1)
    seen = []

    def denoise(x, t):
        seen.append((x, float(t)))
        return 0.1 * x

    result = multistep(denoise, noise, sampling_times(2), key)
    np.testing.assert_allclose(seen[0][0], 80.0 * noise)
    fresh = jax.random.normal(jax.random.fold_in(key, 0), (4, 2))
    second = 8.0 * noise + math.sqrt(4.0 - 0.002**2) * fresh
    np.testing.assert_allclose(seen[1][0], second, rtol=1e-5)
    assert [t for _, t in seen] == [80.0, 2.0]
    np.testing.assert_allclose(result, 0.1 * second, rtol=1e-5)


def test_one_call_at_the_literal_time_saturates_and_at_the_right_one_does_not():
    """c_skip(2) · 80 ≈ 4.7, beyond the bounds for most noise; c_skip(80) · 80 ≈ 0.003."""
    assert float(80.0 * c_skip(jnp.array(2.0))) == pytest.approx(4.7, abs=0.05)
    saturated = []
    for literal in (True, False):
        config, state, _ = setup("cac", consistency_steps=1, literal_one_step=literal)
        quiet = jax.tree.map(jnp.zeros_like, state.policy_target)  # the skip connection alone
        actions = module.sample(quiet, jnp.ones((2000, 3)), jax.random.key(0), config)
        saturated.append(float((jnp.abs(actions) == 1.0).mean()))
    assert saturated[0] > 0.8
    assert saturated[1] == 0.0


def test_the_gradient_goes_through_every_call():
    """Halving only the first call's output changes the gradient: it is no detached start."""
    _, state, batch = setup("cac")
    noise, key = jax.random.normal(jax.random.key(2), (32, 2)), jax.random.key(3)

    def total(first, second):
        def denoise(x, t):
            return module.consistency_of(first if t == 80.0 else second, batch.observations)(x, t)

        return multistep(denoise, noise, sampling_times(2), key).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(state.policy.params, state.policy.params):
        assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) > 1e-4


def test_the_curriculum_begins_again_unless_it_is_as_long_as_the_run():
    config, state, batch = setup("cac", steps=1000, curriculum_updates=100)
    whole = small("cac", steps=1000, curriculum_updates=1000)

    def loss(step, config):
        params, target = state.policy.params, jax.tree.map(lambda p: 0.9 * p, state.policy_target)
        rest = (batch, jax.random.key(0), config)
        return float(module.imitation_loss(params, target, jnp.int32(step), *rest))

    assert loss(0, config) == loss(100, config) == loss(900, config)
    assert loss(90, config) == loss(900, whole) != loss(900, config)
