"""Deterministic and Gaussian policies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bfq.nets.kinds import NETWORKS
from bfq.nets.policies import DROPOUT, Deterministic, Gaussian, dropped_out

S = jax.random.normal(jax.random.key(0), (50, 3))


def net(kind, width=32, depth=2, key=1):
    return NETWORKS["policy"][kind](jax.random.key(key), 3, 2, width, depth)


@pytest.mark.parametrize("tanh_mean", [True, False])
@pytest.mark.parametrize("unit_std", [True, False])
def test_log_prob_is_that_of_a_gaussian(unit_std, tanh_mean):
    policy = Gaussian(net("iql"), unit_std, tanh_mean)
    std = np.ones(2)
    if not unit_std:
        policy = eqx.tree_at(lambda p: p.log_std, policy, jnp.array([-0.7, 0.4]))
        std = np.exp([-0.7, 0.4])
    actions = jax.random.uniform(jax.random.key(2), (50, 2), minval=-1, maxval=1)
    expected = stats.norm.logpdf(actions, policy(S), std).sum(-1)
    np.testing.assert_allclose(policy.log_prob(S, actions), expected, rtol=1e-4, atol=1e-5)
    assert (float(jnp.abs(policy(S)).max()) <= 1.0) or not tanh_mean


def test_a_learned_std_stays_within_its_bounds_and_a_unit_one_is_no_parameter():
    policy = eqx.tree_at(lambda p: p.log_std, Gaussian(net("iql")), jnp.array([-9.0, 9.0]))
    expected = stats.norm.logpdf(0.0, policy(S), np.exp([-5.0, 2.0])).sum(-1)
    np.testing.assert_allclose(policy.log_prob(S, jnp.zeros((50, 2))), expected, rtol=1e-4)
    same = eqx.tree_at(lambda p: p.mean, Gaussian(net("iql"), unit_std=True), policy.mean)
    assert len(jax.tree.leaves(policy)) == len(jax.tree.leaves(same)) + 1


def test_a_deterministic_policy_is_bounded_and_its_smoothing_too():
    policy = Deterministic(net("relu"))
    np.testing.assert_allclose(policy(S), jnp.tanh(policy.mean(S)))
    shift = policy.smoothed(S, jax.random.key(3), 0.2, 0.5) - policy(S)
    assert float(jnp.abs(shift).max()) <= 0.5 + 1e-6
    many = jnp.zeros((20_000, 3))
    center = policy(many[:1])[0]
    small = policy.smoothed(many, jax.random.key(3), 0.01, 0.5) - center
    np.testing.assert_allclose(small.std(0), 0.01, rtol=0.05)
    wide = policy.smoothed(100.0 * S, jax.random.key(3), 5.0, 4.0)
    assert float(jnp.abs(wide).max()) == 1.0
    np.testing.assert_array_equal(policy.smoothed(S, jax.random.key(3), 0.0, 0.5), policy(S))


def test_first_weights_are_those_of_the_reference_codes():
    rebrac = net("rebrac", width=64)
    assert all((layer.bias == 0.1).all() for layer in rebrac.hidden)
    assert float(jnp.abs(rebrac.output.weight).max()) <= 1e-3
    assert float(jnp.abs(rebrac.hidden[1].weight).max()) <= 64**-0.5
    iql = net("iql", width=64)
    gram = iql.hidden[1].weight.T @ iql.hidden[1].weight
    np.testing.assert_allclose(gram, 2.0 * np.eye(64), atol=1e-4)
    fql = net("fql", width=512)
    assert float(jnp.abs(fql.output.weight).max()) <= (3.0 * 0.01 * 2.0 / 514) ** 0.5
    assert float(jnp.abs(fql(S)).max()) < 0.5


def test_dropout_keeps_the_mean_and_drops_a_tenth():
    last = lambda mlp: (mlp.output.weight, mlp.output.bias)
    mlp = eqx.tree_at(last, net("relu", width=400, depth=1), (jnp.eye(400), jnp.zeros(400)))
    hidden = mlp(S)
    dropped = dropped_out(mlp, S, jax.random.key(4), DROPOUT)
    alive = hidden > 0
    np.testing.assert_allclose((dropped == 0)[alive].mean(), DROPOUT, atol=0.01)
    kept = alive & (dropped > 0)
    np.testing.assert_allclose(dropped[kept], hidden[kept] / (1.0 - DROPOUT), rtol=1e-5)
    policy = Gaussian(net("iql"))
    assert (policy(S, jax.random.key(5)) != policy(S)).any()
    np.testing.assert_array_equal(policy(S, jax.random.key(5)), policy(S, jax.random.key(5)))
