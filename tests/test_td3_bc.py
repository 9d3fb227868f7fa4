"""TD3-BC: its two losses, its delay, and the values it finds."""

import jax
import jax.numpy as jnp
import numpy as np
from tests.agent_cases import assert_mixed, same, scanned, setup

from bfq.agents import td3_bc
from bfq.agents.contract import Batch, Spec
from bfq.agents.registry import configure, get_agent

AGENT = get_agent("td3_bc")


def test_the_critics_loss_is_the_written_one():
    config, state, data = setup("td3_bc", discount=0.9)
    key = jax.random.key(4)
    next_policy = np.asarray(state.policy_target(data.next_observations))
    noise = np.clip(0.2 * np.asarray(jax.random.normal(key, next_policy.shape)), -0.5, 0.5)
    following = jnp.asarray(np.clip(next_policy + noise, -1, 1))
    least = np.minimum(*np.asarray(state.critics_target(data.next_observations, following)))
    y = np.asarray(data.rewards) + 0.9 * np.asarray(data.masks) * least
    q = np.asarray(state.critics.params(data.observations, data.actions))
    expected = np.square(q[0] - y).mean() + np.square(q[1] - y).mean()
    loss, _ = td3_bc.critic_loss(state.critics.params, state, data, key, config)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_the_policys_loss_is_the_written_one_and_uses_the_first_critic():
    config, state, data = setup("td3_bc", eta=2.5)
    loss, metrics = td3_bc.policy_loss(state.policy.params, state.critics.params, data, config)
    actions = state.policy.params(data.observations)
    q = state.critics.params(data.observations, actions)[0]
    mse = jnp.square(actions - data.actions).mean()
    np.testing.assert_allclose(loss, mse - 2.5 * q.mean() / jnp.abs(q).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q_policy"], q.mean(), rtol=1e-5)


def test_policy_and_targets_move_at_every_second_update_only():
    config, state, batch = setup("td3_bc", critic_target_rate=0.1, policy_target_rate=0.2)
    update = jax.jit(AGENT.update)
    first, _ = update(state, batch, jax.random.key(1), config)
    assert not same(first.critics.params, state.critics.params)
    for name in ("policy", "policy_target", "critics_target", "told"):
        assert same(getattr(first, name), getattr(state, name)), name
    second, metrics = update(first, batch, jax.random.key(2), config)
    assert not same(second.policy.params, state.policy.params)
    third, repeated = update(second, batch, jax.random.key(3), config)
    assert same(third.policy, second.policy)
    assert float(repeated["bc_loss"]) == float(metrics["bc_loss"]) > 0.0
    # both targets follow the new parameters
    new, old = second, first
    assert_mixed(new.critics_target, old.critics_target, new.critics.params, 0.1)
    assert_mixed(new.policy_target, old.policy_target, new.policy.params, 0.2)


def test_the_policy_sees_the_critics_after_their_step():
    config, state, data = setup("td3_bc", policy_every=1)
    key = jax.random.key(1)
    new, metrics = jax.jit(AGENT.update)(state, data, key, config)
    loss, _ = td3_bc.policy_loss(state.policy.params, new.critics.params, data, config)
    np.testing.assert_allclose(metrics["policy_loss"], loss, rtol=1e-4)


def test_it_finds_the_best_action_and_its_value():
    """Two states: s₀ leads to s₁ whatever is done, s₁ pays 1 − (a − ½)² and ends.

    With little imitation π(s₁) = ½, so Q(s₁, a) = 1 − (a − ½)² and Q(s₀, a) = γ.
    """
    actions = np.linspace(-1, 1, 21)
    state_of = np.eye(2)
    s = np.repeat(state_of, 21, axis=0)
    a = np.tile(actions, 2)
    rewards = np.where(s[:, 1] == 1, 1 - np.square(a - 0.5), 0.0)
    data = Batch(*(jnp.asarray(x, jnp.float32) for x in (
        s, a[:, None], rewards, np.tile(state_of[1], (42, 1)), s[:, 0],
    )))  # fmt: skip
    config = configure(AGENT, {
        "width": 32, "critic_width": 32, "learning_rate": 3e-3, "eta": 50.0, "discount": 0.9, "steps": 1500,
        "target_noise": 0.0, "critic_target_rate": 0.05, "policy_target_rate": 0.05, "schedule": "cosine",
    })  # fmt: skip
    end = scanned(AGENT, Spec(2, 1), data, config, 1500)
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1], 0.5, atol=0.05)
    np.testing.assert_allclose(q[21:], rewards[21:], atol=0.06)
    np.testing.assert_allclose(q[:21], 0.9, atol=0.04)
