"""IQL: expectiles in closed form and the values it finds. Its losses and order of steps: test_parity."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from tests.agent_cases import largest, setup

from bfq.agents import iql
from bfq.agents.contract import Acting, Batch, Spec
from bfq.agents.registry import configure, get_agent

AGENT = get_agent("iql")


def uniform_expectile(kappa):
    """κ (1 − v)² = (1 − κ) v² for U(0, 1)."""
    return kappa**0.5 / (kappa**0.5 + (1.0 - kappa) ** 0.5)


def normal_expectile(kappa):
    """κ E(x − v)₊ = (1 − κ) E(v − x)₊ for N(0, 1), by E(x − v)₊ = φ(v) − v (1 − Φ(v))."""

    def excess(v):
        above = stats.norm.pdf(v) - v * stats.norm.sf(v)
        return kappa * above - (1.0 - kappa) * (above + v)

    return optimize.brentq(excess, -5, 5)


@pytest.mark.parametrize("kappa", [0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize(
    ("law", "expectile"), [(stats.uniform, uniform_expectile), (stats.norm, normal_expectile)]
)
def test_the_value_is_the_expectile(kappa, law, expectile):
    """The loss of a constant V is stationary at the expectile of Q, known in closed form."""
    quantiles = jnp.asarray(law.ppf((np.arange(20_000) + 0.5) / 20_000), jnp.float32)
    n = len(quantiles)
    data = Batch(jnp.zeros((n, 1)), jnp.zeros((n, 1)), quantiles, jnp.zeros((n, 1)), jnp.ones(n))

    def loss(v):
        critics = lambda s, a: jnp.stack([quantiles + 1.0, quantiles])  # the lesser one counts
        return iql.expectile_value_loss(lambda s: jnp.full(n, v), critics, data, kappa)[0]

    slope = jax.grad(loss)
    v = expectile(kappa)
    assert abs(slope(v)) < 2e-3
    assert slope(v - 0.1) < -5e-3
    assert slope(v + 0.1) > 5e-3


def test_weights_are_bounded_and_carry_no_gradient():
    config, state, data = setup("iql", beta=1000.0)

    def loss(judges):
        critics, value = judges
        return iql.policy_loss(state.policy.params, critics, value, data, jax.random.key(0), config)

    judges = (state.critics_target, state.value.params)
    gradient, metrics = jax.grad(loss, has_aux=True)(judges)
    assert largest(gradient) == 0.0
    assert 0.0 < float(metrics["weight"]) <= 100.0


def test_dropout_is_for_training_only():
    config, state, data = setup("iql", dropout=True)
    policy, keys, s = state.policy.params, jax.random.split(jax.random.key(0), 2), data.observations
    judges = state.critics_target, state.value.params
    losses = [iql.policy_loss(policy, *judges, data, key, config)[0] for key in keys]
    assert losses[0] != losses[1]
    acted = [AGENT.act(state, s, key, config, Acting()) for key in keys]
    np.testing.assert_array_equal(acted[0], acted[1])
    np.testing.assert_allclose(acted[0], jnp.tanh(policy.mean(s)), rtol=1e-6)


ACTIONS = np.linspace(-0.8, 0.8, 9)
PAY = 1.0 - np.square(ACTIONS - 0.4)


def expectile_of(values, kappa):
    slope = lambda v: np.where(values > v, kappa, 1 - kappa) @ (values - v)
    return optimize.brentq(slope, 0.0, 1.0)


KAPPAS = np.array([0.7, 0.97])


@cache
def trained():
    """IQL on the small MDP below, once for each κ."""
    s = np.repeat(np.eye(2), 9, axis=0)
    rewards = np.where(s[:, 1] == 1, np.tile(PAY, 2), 0.0)
    data = Batch(*(jnp.asarray(x, jnp.float32) for x in (
        s, np.tile(ACTIONS, 2)[:, None], rewards, np.tile([0.0, 1.0], (18, 1)), s[:, 0],
    )))  # fmt: skip
    config = configure(AGENT, {
        "width": 32, "critic_width": 32, "learning_rate": 3e-3, "beta": 5.0, "steps": 1500,
        "discount": 0.9, "critic_target_rate": 0.05,
    })  # fmt: skip

    def train(kappa, keys):
        at = dataclasses.replace(config, expectile=kappa)
        state = AGENT.init(jax.random.key(0), Spec(2, 1), at)
        return jax.lax.scan(lambda now, k: AGENT.update(now, data, k, at), state, keys)[0]

    keys = jax.random.split(jax.random.key(1), 1500)
    ends = jax.jit(jax.vmap(train, (0, None)))(jnp.asarray(KAPPAS, jnp.float32), keys)
    return ends, data


@pytest.mark.parametrize("k", [0, 1])
def test_values_and_policy_of_a_small_mdp(k):
    """s₀ leads to s₁ whatever is done; s₁ pays 1 − (a − 0.4)² and ends. Nine actions are in the data.

    V(s₁) is the expectile of the nine, Q(s₀, ·) = γ V(s₁), and the policy's mean is their weighted mean.
    """
    ends, data = trained()
    end = jax.tree.map(lambda x: x[k], ends)
    best = expectile_of(PAY, KAPPAS[k])
    np.testing.assert_allclose(end.value.params(jnp.eye(2))[1], best, atol=0.03)
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(q[:9], 0.9 * best, atol=0.04)
    np.testing.assert_allclose(q[9:], PAY, atol=0.06)
    mean = np.average(ACTIONS, weights=np.exp(5.0 * (PAY - best)))
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1, 0], mean, atol=0.05)
