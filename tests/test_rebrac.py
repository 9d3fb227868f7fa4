"""ReBRAC: its penalized target, its two orders of steps, and the values it finds."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.agent_cases import (
    KEY,
    SPEC,
    assert_close,
    assert_mixed,
    same,
    scanned,
    shaken,
    small,
    transitions,
)

from bfq.agents import rebrac
from bfq.agents.contract import Batch, Spec
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

AGENT = get_agent("rebrac")
RATES = {"learning_rate": 1e-2, "critic_target_rate": 0.1, "policy_target_rate": 0.2}
DATA = transitions()


@cache
def start(joint):
    state = jax.jit(AGENT.init, static_argnums=1)(KEY, SPEC, small("rebrac", joint=joint))
    moved = shaken(state)  # Q of ordinary size
    return state._replace(
        policy=state.policy._replace(params=moved.policy.params),
        critics=state.critics._replace(params=moved.critics.params),
        critics_target=jax.tree.map(lambda x: 1.1 * x, moved.critics_target),
    )


def prepared(joint=False, **values):
    return start(joint), small("rebrac", joint=joint, **RATES, **values)


@cache
def updated(joint):
    """The states before and after three updates, with what each told."""
    state, config = prepared(joint)
    update = jax.jit(AGENT.update)
    states, told = [state], []
    for k in range(3):
        state, metrics = update(state, DATA, jax.random.key(k), config)
        states.append(state)
        told.append(metrics)
    return states, told


@pytest.mark.parametrize("joint", [False, True])
def test_the_critics_loss_is_the_written_one(joint):
    state, config = prepared(joint, discount=0.9, critic_penalty=0.3)
    data, key = DATA, jax.random.key(4)
    next_policy = np.asarray(state.policy_target(data.next_observations))
    noise = np.clip(0.2 * np.asarray(jax.random.normal(key, next_policy.shape)), -0.5, 0.5)
    following = np.clip(next_policy + noise, -1, 1)
    least = np.minimum(
        *np.asarray(state.critics_target(data.next_observations, jnp.asarray(following)))
    )
    penalty = np.square(following - np.asarray(data.next_actions)).sum(-1) * np.asarray(
        data.next_known
    )
    y = np.asarray(data.rewards) + 0.9 * np.asarray(data.masks) * (least - 0.3 * penalty)
    q = np.asarray(state.critics.params(data.observations, data.actions))
    each = np.square(q - y).mean(1)
    loss, _ = rebrac.critic_loss(state.critics.params, state, data, key, config)
    np.testing.assert_allclose(loss, each.mean() if joint else each.sum(), rtol=1e-5)


def test_an_unknown_next_action_is_not_penalized():
    state, config = prepared(critic_penalty=10.0)
    wild = DATA._replace(next_known=jnp.zeros(32), next_actions=jnp.full((32, 2), jnp.float32(1e3)))
    key = jax.random.key(0)
    unpenalized = rebrac.critic_loss(
        state.critics.params, state, wild, key, prepared(critic_penalty=0.0)[1]
    )[0]
    np.testing.assert_allclose(
        rebrac.critic_loss(state.critics.params, state, wild, key, config)[0],
        unpenalized,
        rtol=1e-6,
    )
    with pytest.raises(BadInput, match="logged after"):
        rebrac.target_penalty(wild.actions, wild._replace(next_actions=None))


def test_the_policys_loss_is_the_written_one():
    state, config = prepared(policy_penalty=0.7)
    data = DATA
    loss, told = rebrac.policy_loss(state.policy.params, state.critics.params, data, config)
    actions = state.policy.params(data.observations)
    q = state.critics.params(data.observations, actions).min(0)
    distance = jnp.square(actions - data.actions).sum(-1).mean()
    np.testing.assert_allclose(loss, 0.7 * distance - q.mean() / jnp.abs(q).mean(), rtol=1e-4)
    np.testing.assert_allclose(told["bc_loss"], distance, rtol=1e-5)


def test_order_of_the_authors():
    """The first update moves all: the policy by the new Q, φ′ to the new φ, θ′ to the θ before it."""
    (old, first, second, third), told = updated(False)
    _, config = prepared()
    loss, _ = rebrac.policy_loss(old.policy.params, first.critics.params, DATA, config)
    np.testing.assert_allclose(told[0]["policy_loss"], loss, rtol=1e-4)
    assert_mixed(first.critics_target, old.critics_target, first.critics.params, 0.1)
    assert_mixed(first.policy_target, old.policy_target, old.policy.params, 0.2)
    for name in ("policy", "policy_target", "critics_target", "told"):
        assert same(getattr(second, name), getattr(first, name)), name
    assert not same(second.critics.params, first.critics.params)
    assert told[1]["bc_loss"] == told[0]["bc_loss"] != told[2]["bc_loss"]
    assert not same(third.policy.params, second.policy.params)


def test_order_of_the_fql_family():
    """The second update moves the policy, by the Q before it; the targets follow the parameters before it."""
    (old, first, second, third), told = updated(True)
    _, config = prepared(True)
    assert same(first.policy.params, old.policy.params)  # there is no momentum yet
    assert same(first.critics_target, old.critics_target)
    loss, _ = rebrac.policy_loss(first.policy.params, first.critics.params, DATA, config)
    np.testing.assert_allclose(told[1]["policy_loss"], loss, rtol=1e-4)
    assert_mixed(second.critics_target, first.critics_target, first.critics.params, 0.1)
    assert_mixed(second.policy_target, first.policy_target, first.policy.params, 0.2)
    # the third goes on by Adam's momentum alone
    assert same(third.policy_target, second.policy_target)
    adam = optax.scale_by_adam()
    zero = jax.tree.map(jnp.zeros_like, second.policy.params)
    direction, _ = adam.update(zero, second.policy.moments)
    expected = jax.tree.map(lambda p, d: p - 1e-2 * d, second.policy.params, direction)
    assert_close(third.policy.params, expected)
    assert not same(third.policy.params, second.policy.params)


def test_critics_may_have_their_own_rate():
    state, config = prepared(critic_learning_rate=0.02)
    new, _ = jax.jit(AGENT.update)(state, DATA, KEY, config)
    bias = lambda at: at.critics.params.stacked.output.bias
    for after, rate in ((new, 0.02), (updated(False)[0][1], 0.01)):  # Adam's first step is the rate
        np.testing.assert_allclose(jnp.abs(bias(after) - bias(state)), rate, rtol=1e-3)


def test_the_penalized_value_of_a_small_mdp():
    """s₀ leads to s₁ whatever is done; s₁ pays 1 − a² and ends. Actions −½, 0, ½ are in the data.

    With strong imitation π(s₁) = 0, so Q(s₀, ·) = γ (1 − α₂ E(0 − a′)²) with E a′² = 1/6.
    """
    grid = np.array([-0.5, 0.0, 0.5])
    s = np.repeat(np.eye(2), 9, axis=0)
    a, after = np.tile(np.repeat(grid, 3), 2), np.tile(grid, 6)
    rewards = np.where(s[:, 1] == 1, 1.0 - a**2, 0.0)
    data = Batch(*(jnp.asarray(x, jnp.float32) for x in (
        s, a[:, None], rewards, np.tile([0.0, 1.0], (18, 1)), s[:, 0], after[:, None], s[:, 0],
    )))  # fmt: skip
    config = configure(AGENT, {
        "width": 32, "critic_width": 32, "depth": 1, "critic_depth": 1, "learning_rate": 3e-3, "steps": 1500,
        "schedule": "cosine", "policy_penalty": 100.0, "critic_penalty": 2.0, "target_noise": 0.0,
        "discount": 0.9, "critic_target_rate": 0.05, "policy_target_rate": 0.05, "batch_size": 18,
    })  # fmt: skip
    end = scanned(AGENT, Spec(2, 1), data, config, 1500)
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1], 0.0, atol=0.03)
    np.testing.assert_allclose(q[9:], rewards[9:], atol=0.03)
    np.testing.assert_allclose(q[:9].mean(), 0.9 * (1.0 - 2.0 / 6.0), atol=0.03)
