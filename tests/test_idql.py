"""IDQL: its update from the equations, known values, its sampler and its choice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import (
    SPEC,
    assert_close,
    assert_mixed,
    assert_mostly_close,
    first_step,
    same,
    setup,
    small,
)

from bfq.agents import dql, learning
from bfq.agents import idql as module
from bfq.agents.contract import Acting, Batch
from bfq.agents.registry import get_agent
from bfq.flow.diffusion import denoise, vp_schedule

AGENT = get_agent("idql")


def reference_update(state, batch, key, c):
    """The update once more from the equations, with the agent's own keys."""
    rows = jax.tree.map(lambda x: x[: c.critic_batch_size], batch)
    q_data = state.critics_target(rows.observations, rows.actions).min(0)

    def v_loss(net):
        u = q_data - net(rows.observations)
        return (jnp.abs(c.expectile - (u < 0)) * u**2).mean()

    value = first_step(state.value.params, jax.grad(v_loss)(state.value.params), c.learning_rate)
    next_values = value(rows.next_observations)  # of V after its step
    y = rows.rewards + c.discount * rows.masks * next_values

    def q_loss(net):
        q = net(rows.observations, rows.actions)
        return ((q[0] - y) ** 2).mean() + ((q[1] - y) ** 2).mean()

    gradient = jax.grad(q_loss)(state.critics.params)
    critics = first_step(state.critics.params, gradient, c.learning_rate)

    draw_key, dropout_key = jax.random.split(key)
    noise_key, time_key = jax.random.split(draw_key)
    eps = jax.random.normal(noise_key, batch.actions.shape)
    k = jax.random.randint(time_key, (32,), 0, 5)
    alpha = jnp.array([0.99998, 0.91987, 0.70219, 0.37947, 0.00842])[k]
    noisy = alpha[:, None] * batch.actions + jnp.sqrt(1 - alpha**2)[:, None] * eps

    def bc_loss(net):
        found = net(noisy, k.astype(jnp.float32), batch.observations, dropout_key)
        return ((found - eps) ** 2).mean()

    gradient = jax.grad(bc_loss)(state.policy.params)
    policy = first_step(state.policy.params, gradient, c.learning_rate, c.weight_decay)
    return value, critics, policy, bc_loss(state.policy.params)


def test_an_update_is_what_the_equations_say():
    """CleanDiffuser's variant; test_parity has the official one."""
    config, state, batch = setup("idql", width=8, learning_rate=1e-2, expectile=0.8, critic_target_rate=0.1,
                                 policy_target_rate=0.2, weight_decay=0.5, critic_batch_size=20)  # fmt: skip
    update, key = jax.jit(AGENT.update), jax.random.key(7)
    after, metrics = update(state, batch, key, config)
    found = (after.value.params, after.critics.params, after.policy.params)
    *expected, loss = jax.jit(lambda s, b: reference_update(s, b, key, config))(state, batch)
    np.testing.assert_allclose(metrics["bc_loss"], loss, rtol=2e-3)
    assert_mostly_close(found, tuple(expected), atol=1e-3, share=0.02)
    assert_mixed(after.critics_target, state.critics_target, after.critics.params, 0.1)
    assert_mixed(after.policy_target, state.policy_target, after.policy.params, 0.2)

    # the next update is the behavior's alone, and the critics' last words are repeated
    second, again = update(after, batch, jax.random.key(8), config)
    for name in ("value", "critics", "critics_target"):
        assert same(getattr(after, name), getattr(second, name))
    assert again["critic_loss"] == metrics["critic_loss"]
    assert again["bc_loss"] != metrics["bc_loss"]

    # at the end the behavior stands still; the critics' cosine, counting their own steps, is half way
    end = state._replace(step=jnp.int32(config.steps))
    last, _ = update(end, batch, jax.random.key(9), config)
    assert_close(end.policy.params, last.policy.params, atol=1e-7)
    new, old = (at.value.params.net.output.weight for at in (last, state))
    np.testing.assert_allclose(jnp.abs(new - old).max(), 0.5 * config.learning_rate, rtol=1e-3)


def test_values_of_a_small_mdp():
    """State 0 → state 1, which pays 1 for a > 0, else 0, and ends; state 2 pays 1 for ever.

    V(1) is the κ-expectile of a fair coin, which is κ; so Q(0) = γκ, Q(1, a) = 1[a > 0], Q(2) = 1/(1 − γ).
    """
    kappa, gamma, n = 0.8, 0.9, 300
    config = small("idql", width=8, expectile=kappa, discount=gamma, critic_every=1, critic_target_rate=0.05,
                   learning_rate=5e-3, critic_width=32, critic_schedule="constant", critic_batch_size=n)  # fmt: skip
    where = np.arange(n) % 3
    actions = np.random.default_rng(0).choice([-0.5, 0.5], (n, 2)).astype(np.float32)
    rewards = np.where(where == 0, 0.0, np.where(where == 1, actions[:, 0] > 0, 1.0))
    following = np.eye(3)[np.array([1, 1, 2])[where]]
    columns = (np.eye(3)[where], actions, rewards, following, where != 1)
    batch = Batch(*(jnp.asarray(column, jnp.float32) for column in columns))
    state = AGENT.init(jax.random.key(0), SPEC, config)
    fair = float((actions[where == 1, 0] > 0).mean())
    v1 = kappa * fair / (kappa * fair + (1 - kappa) * (1 - fair))
    step = lambda _, now: module.update_critics(now, batch, config)
    state = jax.jit(lambda now: jax.lax.fori_loop(0, 2000, step, now))(state)
    q = state.critics.params(batch.observations, batch.actions)
    values = state.value.params(jnp.eye(3))
    np.testing.assert_allclose(values, [gamma * v1, v1, 10.0], rtol=0.05, atol=0.03)
    np.testing.assert_allclose(q[:, where == 0], gamma * v1, atol=0.05)
    np.testing.assert_allclose(q[:, where == 1], np.tile(rewards[where == 1], (2, 1)), atol=0.08)
    np.testing.assert_allclose(q[:, where == 2], 10.0, rtol=0.05)


def test_a_draw_by_advantage_is_a_draw_by_q():
    config, state, batch = setup("idql", width=8)
    state = state._replace(critics_target=jax.tree.map(lambda p: 3.0 * p, state.critics_target))
    acting = Acting(candidates=8, selection="softmax", softmax_weight=2.0)
    by_advantage = AGENT.act(state, batch.observations, jax.random.key(3), config, acting)
    by_q = learning.best_of_n(
        lambda s, k: dql.sample(state.policy_target, s, k, config, acting),
        lambda s, a: state.critics_target(s, a).min(0),
        batch.observations, jax.random.key(3), acting,
    )  # fmt: skip
    np.testing.assert_allclose(by_advantage, by_q, rtol=1e-4, atol=1e-6)


def official_chain(predict_noise, x, rng):
    """The official sampler in its own symbols: β, α = 1 − β, α̂ = Π α."""
    i = np.arange(1, 6)
    betas = 1 - np.exp(-0.1 / 5 - 0.5 * 9.9 * (2 * i - 1) / 25)
    hats = np.cumprod(1 - betas)
    for t in range(4, -1, -1):
        noise = betas[t] / np.sqrt(1 - hats[t]) * predict_noise(x, hats[t])
        x = (x - noise) / np.sqrt(1 - betas[t])
        x = np.clip(x + (t > 0) * np.sqrt(betas[t]) * rng.normal(size=x.shape), -1, 1)
    return x


@pytest.mark.parametrize(("mu", "s"), [(0.3, 0.1), (-0.5, 0.3)])
def test_sqrt_beta_with_the_exact_denoiser_of_a_gaussian(mu, s):
    """E[ε | x] = σ (x − αμ)/(α²s² + σ²) for a ~ N(μ, s²): moments as the official chain's.

    They are not the Gaussian's own: clipping x at every step draws the mean towards 0 (by 0.03 at μ = −0.5).
    """
    rng, n = np.random.default_rng(0), 100_000

    def noise(x, hat):
        return np.sqrt(1 - hat) * (x - np.sqrt(hat) * mu) / (hat * s**2 + 1 - hat)

    official = official_chain(noise, rng.normal(size=n), rng)
    schedule = vp_schedule(5)

    def action(x, t):
        alpha, sigma = schedule.alpha[t.astype(int)], schedule.sigma[t.astype(int)]
        return mu + alpha * s**2 / (alpha**2 * s**2 + sigma**2) * (x - alpha * mu)

    start = jax.random.normal(jax.random.key(0), (n, 1))
    x = np.asarray(denoise("sqrt_beta", action, schedule, start, jax.random.key(1), 5))[:, 0]
    for order in (1, 2, 3):
        np.testing.assert_allclose((x**order).mean(), (official**order).mean(), atol=4e-3)
    # a point mass is found exactly, from any noise
    exact = lambda x, t: 0.0 * x + mu
    point = denoise("sqrt_beta", exact, schedule, start[:50], jax.random.key(1), 5)
    np.testing.assert_allclose(point, mu, atol=1e-5)
