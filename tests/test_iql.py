"""IQL: expectiles in closed form, its order of steps, and the values it finds."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from tests.agent_cases import assert_close, assert_mixed, largest, setup

from bfq.agents import iql
from bfq.agents.contract import Acting, Batch, Spec
from bfq.agents.learning import descend, learner
from bfq.agents.registry import configure, get_agent

AGENT = get_agent("iql")
FQL = {"policy": "fql", "critic": "fql", "unit_std": True, "tanh_mean": False, "joint": True,
       "advantage": "online"}  # fmt: skip


def prepared(family=False, **values):
    config, state, data = setup(
        "iql", **{"schedule": "constant", **(FQL if family else {}), **values}
    )
    return state, config, data


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
    config = configure(AGENT, {"expectile": kappa})
    n = len(quantiles)
    data = Batch(jnp.zeros((n, 1)), jnp.zeros((n, 1)), quantiles, jnp.zeros((n, 1)), jnp.ones(n))

    def loss(v):
        critics = lambda s, a: jnp.stack([quantiles + 1.0, quantiles])  # the lesser one counts
        return iql.expectile_value_loss(lambda s: jnp.full(n, v), critics, data, config.expectile)[
            0
        ]

    slope = jax.grad(loss)
    v = expectile(kappa)
    assert abs(slope(v)) < 2e-3
    assert slope(v - 0.1) < -5e-3
    assert slope(v + 0.1) > 5e-3


def test_order_of_the_authors():
    """V by Q′; the policy by Q′ and the new V; Q by the new V; the target by the new Q."""
    rates = {"learning_rate": 1e-2, "critic_target_rate": 0.1}
    state, config, data = prepared(beta=2.0, expectile=0.8, **rates)
    key = jax.random.key(1)
    new, told = jax.jit(AGENT.update)(state, data, key, config)
    u = state.critics_target(data.observations, data.actions).min(0) - state.value.params(
        data.observations
    )
    expected = (jnp.where(u > 0, 0.8, 0.2) * u**2).mean()
    np.testing.assert_allclose(told["value_loss"], expected, rtol=1e-4)
    v_new = new.value.params
    advantage = state.critics_target(data.observations, data.actions).min(0) - v_new(
        data.observations
    )
    weights = jnp.minimum(jnp.exp(2.0 * advantage), 100.0)
    log_prob = state.policy.params.log_prob(data.observations, data.actions)
    np.testing.assert_allclose(told["policy_loss"], -(weights * log_prob).mean(), rtol=1e-4)
    y = data.rewards + 0.99 * data.masks * v_new(data.next_observations)
    q = state.critics.params(data.observations, data.actions)
    np.testing.assert_allclose(
        told["critic_loss"], ((q[0] - y) ** 2 + (q[1] - y) ** 2).mean(), rtol=1e-4
    )
    assert_mixed(new.critics_target, state.critics_target, new.critics.params, 0.1)


def test_order_of_the_fql_family():
    """All by the parameters before the update, the policy by the online Q, and the target lags one update."""
    rates = {"learning_rate": 1e-2, "critic_target_rate": 0.1}
    state, config, data = prepared(True, beta=2.0, expectile=0.9, **rates)
    key = jax.random.key(1)
    new, told = jax.jit(AGENT.update)(state, data, key, config)
    value = state.value.params
    advantage = state.critics.params(data.observations, data.actions).min(0) - value(
        data.observations
    )
    weights = jnp.minimum(jnp.exp(2.0 * advantage), 100.0)
    mean = state.policy.params.mean(data.observations)
    log_prob = stats.norm.logpdf(data.actions, mean, 1.0).sum(-1)
    np.testing.assert_allclose(told["policy_loss"], -(weights * log_prob).mean(), rtol=1e-4)
    y = data.rewards + 0.99 * data.masks * value(data.next_observations)
    q = state.critics.params(data.observations, data.actions)
    np.testing.assert_allclose(told["critic_loss"], ((q - y) ** 2).sum(0).mean(), rtol=1e-4)
    assert_mixed(new.critics_target, state.critics_target, state.critics.params, 0.1)

    # one Adam over the sum of the losses is one for each: no loss moves another's parameters
    def total(networks):
        policy, value, critics = networks
        frozen = state.value.params
        return (
            iql.expectile_value_loss(value, state.critics_target, data, config.expectile)[0]
            + iql.policy_loss(policy, state.critics.params, frozen, data, key, config)[0]
            + iql.value_backup_loss(critics, frozen, data, config.discount)[0]
        ), None

    together = learner((state.policy.params, state.value.params, state.critics.params))
    stepped, _, _ = jax.jit(lambda at: descend(at, total, 1e-2))(together)
    assert_close(stepped.params, (new.policy.params, new.value.params, new.critics.params))


def test_weights_are_bounded_and_carry_no_gradient():
    state, config, data = prepared(beta=1000.0)

    def loss(judges):
        critics, value = judges
        return iql.policy_loss(state.policy.params, critics, value, data, jax.random.key(0), config)

    judges = (state.critics_target, state.value.params)
    gradient, told = jax.grad(loss, has_aux=True)(judges)
    assert largest(gradient) == 0.0
    assert 0.0 < float(told["weight"]) <= 100.0


def test_no_gradient_reaches_v_or_q_through_a_target():
    state, config, data = prepared()
    by_value = jax.grad(
        lambda v: iql.value_backup_loss(state.critics.params, v, data, config.discount)[0]
    )(state.value.params)
    assert largest(by_value) == 0.0


def test_only_the_policys_rate_falls():
    state, config, data = prepared(schedule="cosine", steps=10)
    last = state._replace(step=jnp.int32(10))  # where the cosine is 0
    new, _ = jax.jit(AGENT.update)(last, data, jax.random.key(0), config)
    assert_close(new.policy.params, state.policy.params)
    assert largest(jax.tree.map(jnp.subtract, new.value.params, state.value.params)) > 1e-4


def test_dropout_is_for_training_only():
    state, config, data = prepared(dropout=True)
    losses = [
        iql.policy_loss(
            state.policy.params, state.critics_target, state.value.params, data, key, config
        )[0]
        for key in jax.random.split(jax.random.key(0), 2)
    ]
    assert losses[0] != losses[1]
    s = data.observations
    acted = [
        AGENT.act(state, s, key, config, Acting()) for key in jax.random.split(jax.random.key(0), 2)
    ]
    np.testing.assert_array_equal(acted[0], acted[1])
    np.testing.assert_allclose(acted[0], jnp.tanh(state.policy.params.mean(s)), rtol=1e-6)


ACTIONS = np.linspace(-0.8, 0.8, 9)
PAY = 1.0 - np.square(ACTIONS - 0.4)


def expectile_of(values, kappa):
    return optimize.brentq(
        lambda v: np.where(values > v, kappa * (values - v), (1 - kappa) * (values - v)).sum(),
        0.0,
        1.0,
    )


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
    weights = np.exp(5.0 * (PAY - best))
    np.testing.assert_allclose(
        end.policy.params(jnp.eye(2))[1, 0], (weights * ACTIONS).sum() / weights.sum(), atol=0.05
    )


def test_expectiles_approach_the_best_action_of_the_data():
    found = [expectile_of(PAY, kappa) for kappa in (0.5, 0.7, 0.9, 0.999)]
    np.testing.assert_allclose(found[0], PAY.mean(), rtol=1e-6)
    assert found == sorted(found)
    np.testing.assert_allclose(found[-1], PAY.max(), atol=0.01)
