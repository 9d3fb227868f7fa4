"""OFQL: MeanFlow's identity and its derivative, and that the agent's update is what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import assert_mostly_close, first_step, setup

from bfq.agents import ofql as module
from bfq.agents.registry import configure
from bfq.errors import BadInput
from bfq.flow.few_steps import average_velocity, interval_times, logit_normal, meanflow_loss
from bfq.flow.matching import matching_loss
from bfq.nets.velocity import EmbeddedVelocity

AGENT = module.AGENT
MEAN, STD = jnp.array([0.3, -0.5]), 0.4  # of a Gaussian behavior


def network(scale=3):
    return EmbeddedVelocity(jax.random.key(0), 3, 2, 16, 2, scale)


def points(n=6):
    keys = jax.random.split(jax.random.key(1), 4)
    a, v = jax.random.normal(keys[0], (n, 2)), jax.random.normal(keys[1], (n, 2))
    r, t = jnp.sort(jax.random.uniform(keys[2], (2, n)), axis=0)
    return a, r, t, jax.random.normal(keys[3], (n, 3)), v


def test_the_derivative_is_the_difference_along_the_path_with_r_held():
    net, (a, r, t, s, v), h = network(), points(), 1e-2
    u, target = average_velocity(net, a, r, t, s, v)
    slope = (net(a + h * v, r, t + h, s) - net(a - h * v, r, t - h, s)) / (2 * h)
    np.testing.assert_allclose(u, net(a, r, t, s), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(target, v - (t - r)[:, None] * slope, rtol=2e-3, atol=2e-3)


def spread(t):
    """The standard deviation of a_t when a ~ N(MEAN, STD²)."""
    return jnp.sqrt((1 - t) ** 2 * STD**2 + t**2)[..., None]


def exact(x, r, t, s, stretch=0.0, shift=0.0):
    """(a_t − a_r)/(t − r) along the flow of the Gaussian, whose quantiles go straight to quantiles."""
    m_r, m_t = ((1 - k)[..., None] * MEAN for k in (r, t))
    a_r = m_r + spread(r) / spread(t) * (x - m_t)
    return (1 + stretch) * (x - a_r) / (t - r)[..., None] + shift


def marginal_velocity(x, t):
    slope = (-(1 - t) * STD**2 + t)[..., None] / spread(t) ** 2
    return -MEAN + slope * (x - (1 - t)[..., None] * MEAN)


def test_the_exact_average_velocity_of_a_gaussian_is_its_own_target():
    a, r, t, s, _ = points(200)
    r, t = 0.8 * r, 0.15 + 0.8 * t
    u, target = average_velocity(exact, a, r, t, s, marginal_velocity(a, t))
    np.testing.assert_allclose(u, target, rtol=2e-3, atol=2e-3)


def test_the_loss_stands_still_at_the_exact_average_velocity():
    """Its gradient in a stretch and a shift of u is 0 within noise, and is not where u is wrong."""
    n = 100_000
    action = MEAN + STD * jax.random.normal(jax.random.key(0), (n, 2))

    def loss(change):
        def u(x, r, t, s):  # away from r = t, where the quotient above is 0/0
            return exact(x, jnp.minimum(r, t - 0.01), t, s, change[0], change[1])

        # logit-normal times lie within (0.01, 0.99) but for a few in a hundred thousand
        return meanflow_loss(u, action, jnp.zeros((n, 0)), jax.random.key(1), flow_ratio=0.0)

    gradient = jax.jit(jax.grad(loss))
    np.testing.assert_allclose(gradient(jnp.zeros(2)), 0.0, atol=0.03)
    assert float(jnp.abs(gradient(jnp.array([0.3, 0.3]))).min()) > 0.2


def test_where_r_is_t_the_loss_is_flow_matching():
    net, (action, _, _, s, _), key = network(), points(64), jax.random.key(4)
    noise_key, time_key = jax.random.split(key)
    r, t = interval_times(time_key, 64, 1.0, "uniform")
    expected = matching_loss(net, action, jax.random.normal(noise_key, (64, 2)), t, s)
    np.testing.assert_array_equal(r, t)
    found = meanflow_loss(net, action, s, key, 1.0, "uniform")
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_adaptive_weight_does_not_move_at_power_zero_and_levels_errors_at_one():
    net, (a, _, _, s, _), key = network(), points(50), jax.random.key(5)
    plain = meanflow_loss(net, a, s, key)
    np.testing.assert_allclose(meanflow_loss(net, a, s, key, adaptive_power=0.0), plain)
    assert 0.9 < float(meanflow_loss(net, a, s, key, adaptive_power=1.0)) < 1.0


@pytest.mark.parametrize("rule", ["logit_normal", "uniform"])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 1.0])
def test_times_are_sorted_and_the_flow_ratio_is_kept(rule, ratio):
    r, t = interval_times(jax.random.key(0), 1000, ratio, rule)
    assert bool(((r >= 0) & (r <= t) & (t <= 1)).all())
    assert int((r == t).sum()) == round(1000 * ratio)


def test_logit_normal_times_have_their_median():
    drawn = np.asarray(logit_normal(jax.random.key(0), (20_000,)))
    logits = np.log(drawn / (1 - drawn))
    assert logits.mean() == pytest.approx(-0.4, abs=0.03)
    assert logits.std() == pytest.approx(1.0, abs=0.03)


def reference_update(state, batch, key, c):
    """The update once more, with the agent's own keys and nothing of flow/ or learning.py."""
    critic_key, policy_key = jax.random.split(key)
    bc_key, action_key, pick_key = jax.random.split(policy_key, 3)
    noise_key, time_key = jax.random.split(bc_key)
    n, dim = batch.actions.shape

    def act(net, s, noise):
        return jnp.clip(noise - net(noise, jnp.zeros(len(s)), jnp.ones(len(s)), s), -1, 1)

    many = jnp.repeat(batch.next_observations, c.backup_samples, axis=0)
    next_actions = act(state.policy_target, many, jax.random.normal(critic_key, (len(many), dim)))
    q_next = state.critics_target(many, next_actions).reshape(2, n, c.backup_samples).max(-1).min(0)
    y = batch.rewards + c.discount * batch.masks * q_next

    def q_loss(critics):
        return ((critics(batch.observations, batch.actions) - y) ** 2).mean(1).sum()

    gradient = jax.grad(q_loss)(state.critics.params)
    critics = first_step(state.critics.params, gradient, c.learning_rate)
    eps = jax.random.normal(noise_key, (n, dim))
    drawn = jax.nn.sigmoid(-0.4 + jax.random.normal(time_key, (2, n)))
    t = drawn.max(0)
    r = jnp.where(jnp.arange(n) < c.flow_ratio * n, t, drawn.min(0))
    x = (1 - t)[:, None] * batch.actions + t[:, None] * eps
    v, s, frozen = eps - batch.actions, batch.observations, state.policy.params

    def along(h):
        return frozen(x + h * v, r, t + h, s)

    slope = jax.jacfwd(along)(0.0)

    def pi_loss(net):
        bc = ((net(x, r, t, s) - (v - (t - r)[:, None] * slope)) ** 2).mean()
        q = critics(s, act(net, s, jax.random.normal(action_key, (n, dim))))
        size = jax.lax.stop_gradient(jnp.abs(q).mean(1))
        k = jnp.where(jax.random.bernoulli(pick_key), 0, 1)
        return bc - c.eta * q.mean(1)[k] / size[1 - k]

    gradient = jax.grad(pi_loss)(state.policy.params)
    return first_step(state.policy.params, gradient, c.learning_rate), critics


def test_an_update_is_what_the_equations_say():
    values = {"learning_rate": 1e-2, "eta": 2.0, "flow_ratio": 0.3, "backup_samples": 3}
    config, state, batch = setup("ofql", schedule="constant", **values)
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(7), config)
    expected = jax.jit(reference_update)(state, batch, jax.random.key(7), config)
    assert_mostly_close((after.policy.params, after.critics.params), expected)


def test_bad_values_are_refused():
    for values, words in [
        ({"flow_ratio": 1.5}, "flow_ratio"), ({"time_rule": "uniformly"}, "one of logit_normal, uniform"),
        ({"architecture": "residual", "width": 15}, "even width"),
    ]:  # fmt: skip
        with pytest.raises(BadInput, match=words):
            configure(AGENT, values)
