"""SAC-N, EDAC and CQL: the squashed policy's density, the temperature, and both penalties in closed form."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import (
    KEY,
    assert_close,
    assert_mixed,
    assert_mostly_close,
    chain,
    first_step,
    member,
    same,
    setup,
    small,
    trained,
)

from bfq.agents import cql, edac, sac_n
from bfq.agents.contract import Batch
from bfq.agents.registry import get_agent
from bfq.nets.policies import Squashed

ALL = ("sac_n", "edac", "cql")


def constant_policy(mean, log_std):
    """A policy with the same Gaussian everywhere."""
    return Squashed(
        lambda s: jnp.broadcast_to(jnp.array([*mean, *log_std]), (len(s), 2 * len(mean))), -5.0, 0.0
    )


class Known(eqx.Module):
    """Critics of a known formula, called with [s, a]."""

    stacked: object
    formula: object = eqx.field(static=True)

    def __call__(self, observations, actions):
        inputs = jnp.concatenate([observations, actions], axis=-1)
        return jax.vmap(lambda net: net(inputs))(self.stacked)[..., 0]


class Line(eqx.Module):
    """Q(s, a) = s₁ + w · a for states of one number."""

    w: jax.Array

    def __call__(self, x):
        return (x[..., :1].sum(-1) + x[..., 1:] @ self.w)[..., None]


def lines(*slopes):
    return Known(jax.vmap(Line)(jnp.array(slopes)), None)


def test_the_density_of_a_squashed_action_integrates_to_one_and_is_that_of_its_draws():
    policy = constant_policy([0.4], [-0.3])
    a = jnp.linspace(-1 + 1e-5, 1 - 1e-5, 200_001)
    u = jnp.arctanh(a)
    exact = jax.scipy.stats.norm.logpdf(u, 0.4, jnp.exp(-0.3)) - jnp.log1p(-jnp.square(a))
    assert float(jnp.trapezoid(jnp.exp(exact), a)) == pytest.approx(1.0, abs=2e-3)
    actions, log_prob = policy.draw(jnp.zeros((500, 1)), KEY)
    inside = jnp.abs(actions[:, 0]) < 0.999
    np.testing.assert_allclose(
        log_prob[inside], jnp.interp(actions[:, 0], a, exact)[inside], atol=1e-2
    )
    np.testing.assert_allclose(policy(jnp.zeros((2, 1))), np.tanh(0.4), rtol=1e-6)
    _, extreme = constant_policy([9.0], [-5.0]).draw(jnp.zeros((4, 1)), KEY)
    assert np.isfinite(extreme).all()


def test_the_temperature_falls_while_the_entropy_is_above_its_target():
    for entropy, sign in ((-1.5, 1.0), (-2.5, -1.0)):
        gradient = jax.grad(lambda log, h=entropy: sac_n.temperature_loss(log, h, 2)[0])(
            jnp.zeros(())
        )
        assert float(gradient) == pytest.approx(sign * 0.5)


@pytest.mark.parametrize("name", ALL)
def test_an_update_steps_policy_temperature_critics_and_target_in_this_order(name):
    config, state, batch = setup(
        name, learning_rate=1e-3, critic_learning_rate=2e-3, critic_target_rate=0.3
    )
    module = {"sac_n": sac_n, "edac": edac, "cql": cql}[name]
    after, metrics = jax.jit(get_agent(name).update)(state, batch, KEY, config)
    policy_key, critic_key = jax.random.split(KEY)
    gradient = jax.jit(
        jax.grad(lambda p: sac_n.policy_loss(p, state, batch, policy_key, config)[0])
    )
    expected = first_step(state.policy.params, gradient(state.policy.params), 1e-3)
    assert_mostly_close(after.policy.params, expected)
    sign = jnp.sign(metrics["entropy"] + 2.0)
    np.testing.assert_allclose(after.temperature.params, -1e-3 * sign, rtol=1e-4)
    now = state._replace(policy=after.policy, temperature=after.temperature)
    loss = lambda c: module.critic_loss(c, now, batch, critic_key, config)[0]
    expected = first_step(state.critics.params, jax.jit(jax.grad(loss))(state.critics.params), 2e-3)
    assert_mostly_close(after.critics.params, expected)
    assert_mixed(after.critics_target, state.critics_target, after.critics.params, 0.3)


def test_the_target_is_the_least_critic_without_the_price_of_its_action():
    config, state, batch = setup("sac_n", critic_count=5, discount=0.5)
    state = state._replace(temperature=state.temperature._replace(params=jnp.log(0.3)))
    actions, log_prob = state.policy.params.draw(batch.next_observations, KEY)
    q = state.critics_target(batch.next_observations, actions)
    assert q.shape == (5, 32)
    expected = batch.rewards + 0.5 * batch.masks * (q.min(0) - 0.3 * log_prob)
    np.testing.assert_allclose(sac_n.soft_target(state, batch, KEY, config), expected, rtol=1e-5)


def test_similarity_of_linear_critics():
    """Σ_{i≠j} cos(w_i, w_j) / (N − 1): alike 3, opposite −1 for two, at right angles 0; length is no matter."""
    s, a = jnp.ones((7, 1)), jnp.zeros((7, 2))
    for slopes, expected in (
        ([[1, 0], [2, 0], [5, 0]], 3.0),
        ([[1, 1], [-3, -3]], -2.0),
        ([[1, 0], [0, 4]], 0.0),
        ([[1, 0], [1, 1], [0, 2]], 2 * (0.5**0.5 + 0.5**0.5) / 2),
        ([[0, 0], [1, 0]], 0.0),
    ):
        critics = lines(*(jnp.array(w, jnp.float32) for w in slopes))
        found = edac.similarity_loss(critics, s, a)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        gradient = jax.grad(lambda c: edac.similarity_loss(c, s, a))(critics)
        assert np.isfinite(gradient.stacked.w).all()
    # Turning the second of two lines away from the first is downhill, along the circle only.
    critics = lines(jnp.array([1.0, 0.0]), jnp.array([1.0, 1.0]))
    slope = jax.grad(lambda c: edac.similarity_loss(c, s, a))(critics).stacked.w[1]
    np.testing.assert_allclose(slope, [2 * 0.5**1.5, -2 * 0.5**1.5], rtol=1e-5)


def test_without_weight_edac_is_sac_n():
    config, state, batch = setup("edac", critic_count=4, diversity=0.0)
    one, _ = jax.jit(get_agent("edac").update)(state, batch, KEY, config)
    other, _ = jax.jit(get_agent("sac_n").update)(state, batch, KEY, config)
    assert_close(one, other)


def test_the_penalty_estimates_the_integral_of_a_linear_q():
    """Q(s, a) = s + w a with one action: log ∫ exp Q da = s + log((e^w − e^−w)/w); the sum has 3n terms."""
    w, n = 1.5, 4000
    policy = constant_policy([0.2], [-0.1])
    s = jnp.array([[0.0], [2.0]])
    batch = Batch(s, jnp.zeros((2, 1)), jnp.zeros(2), s + 1.0, jnp.ones(2))
    found = cql.log_sum_exp(lines([w], [0.0]), policy, batch, KEY, n) - np.log(3 * n)
    exact = s[:, 0] + np.log((np.exp(w) - np.exp(-w)) / w)
    np.testing.assert_allclose(found[0], exact, atol=0.06)
    np.testing.assert_allclose(found[1], s[:, 0] + np.log(2.0), atol=0.06)


def test_the_penalty_pushes_down_where_exp_q_has_its_mass_and_up_at_the_data():
    """∂/∂w [log ∫ exp(w · a) da − w · a_data] = (coth w₁ − 1/w₁, 0) − a_data at w = (w₁, 0)."""
    _, _, batch = setup("cql")
    s, policy = batch.observations[:, :1], constant_policy([0.0, 0.0], [0.0, 0.0])
    batch = batch._replace(observations=s, next_observations=s)

    def penalty(c):
        values = cql.log_sum_exp(c, policy, batch, KEY, 50)
        return (values - c(batch.observations, batch.actions)).mean()

    pushed = jax.grad(penalty)(lines([1.0, 0.0])).stacked.w[0]
    expected = jnp.array([1 / np.tanh(1.0) - 1.0, 0.0]) - batch.actions.mean(0)
    np.testing.assert_allclose(pushed, expected, atol=0.05)


def test_the_penalty_moves_the_critics_and_not_the_policy():
    config, state, batch = setup("cql")
    update = jax.jit(get_agent("cql").update)
    one, _ = update(state, batch, KEY, config)
    other, _ = update(state, batch, KEY, dataclasses.replace(config, conservatism=100.0))
    assert same(one.policy, other.policy)
    assert not same(one.critics, other.critics)


def test_values_of_a_known_chain():
    """Without its penalty CQL is plain policy evaluation, because its target has no entropy."""
    fast = {
        "discount": 0.9,
        "critic_target_rate": 0.05,
        "steps": 1500,
        "critic_learning_rate": 3e-3,
    }
    state = trained("cql", chain(), small("cql", **fast, conservatism=0.0))
    q = member(state, 0).critics.params(jnp.eye(3), jnp.zeros((3, 2))).mean(0)
    np.testing.assert_allclose(q, [0.9, 1.0, 10.0], rtol=0.1)
