"""ReBRAC: its penalized target, its two orders of steps, and the values it finds."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bfq.agents import Batch, Spec, rebrac
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

AGENT = get_agent("rebrac")
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "learning_rate": 1e-2,
         "critic_target_rate": 0.1, "policy_target_rate": 0.2}  # fmt: skip


@cache
def start(joint):
    config = configure(AGENT, {**SMALL, "joint": joint})
    state = jax.jit(AGENT.init, static_argnums=1)(jax.random.key(0), Spec(3, 2), config)
    # Q of ordinary size, and targets that differ from their originals, so that a test can tell them apart
    moved = jax.tree.map(
        lambda x: x + 0.1 * jnp.cos(7.0 * jnp.arange(x.size)).reshape(x.shape), state
    )
    return state._replace(
        policy=state.policy._replace(params=moved.policy.params),
        critics=state.critics._replace(params=moved.critics.params),
        critics_target=jax.tree.map(lambda x: 1.1 * x, moved.critics_target),
    )


def made(joint=False, **values):
    return start(joint), configure(AGENT, {**SMALL, "joint": joint, **values})


def batch(n=32):
    keys = jax.random.split(jax.random.key(9), 7)
    return Batch(
        jax.random.normal(keys[0], (n, 3)),
        jax.random.uniform(keys[1], (n, 2), minval=-1, maxval=1),
        jax.random.normal(keys[2], (n,)),
        jax.random.normal(keys[3], (n, 3)),
        jax.random.bernoulli(keys[4], 0.8, (n,)).astype(jnp.float32),
        jax.random.uniform(keys[5], (n, 2), minval=-1, maxval=1),
        jax.random.bernoulli(keys[6], 0.7, (n,)).astype(jnp.float32),
    )


@cache
def updated(joint):
    """The states before and after three updates, with what each told."""
    state, config = made(joint)
    update = jax.jit(AGENT.update)
    states, told = [state], []
    for k in range(3):
        state, metrics = update(state, batch(), jax.random.key(k), config)
        states.append(state)
        told.append(metrics)
    return states, told


def same(a, b):
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def assert_mixed(new, old, online, rate):
    for x, y, z in zip(*(jax.tree.leaves(tree) for tree in (new, old, online)), strict=True):
        np.testing.assert_allclose(x, (1 - rate) * y + rate * z, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("joint", [False, True])
def test_the_critics_loss_is_the_written_one(joint):
    state, config = made(joint, discount=0.9, critic_penalty=0.3)
    data, key = batch(), jax.random.key(4)
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
    state, config = made(critic_penalty=10.0)
    wild = batch()._replace(
        next_known=jnp.zeros(32), next_actions=jnp.full((32, 2), jnp.float32(1e3))
    )
    key = jax.random.key(0)
    unpenalized = rebrac.critic_loss(
        state.critics.params, state, wild, key, made(critic_penalty=0.0)[1]
    )[0]
    np.testing.assert_allclose(
        rebrac.critic_loss(state.critics.params, state, wild, key, config)[0],
        unpenalized,
        rtol=1e-6,
    )
    with pytest.raises(BadInput, match="logged after"):
        rebrac.target_penalty(wild.actions, wild._replace(next_actions=None))


def test_the_policys_loss_is_the_written_one():
    state, config = made(policy_penalty=0.7)
    data = batch()
    loss, told = rebrac.policy_loss(state.policy.params, state.critics.params, data, config)
    actions = state.policy.params(data.observations)
    q = state.critics.params(data.observations, actions).min(0)
    distance = jnp.square(actions - data.actions).sum(-1).mean()
    np.testing.assert_allclose(loss, 0.7 * distance - q.mean() / jnp.abs(q).mean(), rtol=1e-4)
    np.testing.assert_allclose(told["bc_loss"], distance, rtol=1e-5)


def test_guidance_does_not_feel_the_critics_scale():
    state, config = made()
    data = batch()

    def gradient(factor):
        def critics(s, a):
            return factor * state.critics.params(s, a)

        return jax.grad(lambda p: rebrac.policy_loss(p, critics, data, config)[0])(
            state.policy.params
        )

    for a, b in zip(jax.tree.leaves(gradient(1.0)), jax.tree.leaves(gradient(10.0)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_no_gradient_reaches_the_targets():
    state, config = made()

    def loss(targets):
        at = state._replace(policy_target=targets[0], critics_target=targets[1])
        return rebrac.critic_loss(state.critics.params, at, batch(), jax.random.key(0), config)[0]

    gradient = jax.grad(loss)((state.policy_target, state.critics_target))
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))


def test_order_of_the_authors():
    """The first update moves all: the policy by the new Q, φ′ to the new φ, θ′ to the θ before it."""
    (old, first, second, third), told = updated(False)
    _, config = made()
    loss, _ = rebrac.policy_loss(old.policy.params, first.critics.params, batch(), config)
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
    _, config = made(True)
    assert same(first.policy.params, old.policy.params)  # there is no momentum yet
    assert same(first.critics_target, old.critics_target)
    loss, _ = rebrac.policy_loss(first.policy.params, first.critics.params, batch(), config)
    np.testing.assert_allclose(told[1]["policy_loss"], loss, rtol=1e-4)
    assert_mixed(second.critics_target, first.critics_target, first.critics.params, 0.1)
    assert_mixed(second.policy_target, first.policy_target, first.policy.params, 0.2)
    # the third goes on by Adam's momentum alone
    assert same(third.policy_target, second.policy_target)
    adam = optax.scale_by_adam()
    zero = jax.tree.map(jnp.zeros_like, second.policy.params)
    direction, _ = adam.update(zero, second.policy.moments)
    for new, before, d in zip(
        *(jax.tree.leaves(tree) for tree in (third.policy.params, second.policy.params, direction)),
        strict=True,
    ):
        np.testing.assert_allclose(new, before - 1e-2 * d, rtol=1e-4, atol=1e-6)
    assert not same(third.policy.params, second.policy.params)


def test_critics_may_have_their_own_rate():
    state, config = made(critic_learning_rate=0.02)
    new, _ = jax.jit(AGENT.update)(state, batch(), jax.random.key(0), config)
    moved = jnp.abs(
        new.critics.params.stacked.output.bias - state.critics.params.stacked.output.bias
    )
    np.testing.assert_allclose(moved, 0.02, rtol=1e-3)  # Adam's first step is the rate itself
    with_one = updated(False)[0][1]
    moved = jnp.abs(
        with_one.critics.params.stacked.output.bias - state.critics.params.stacked.output.bias
    )
    np.testing.assert_allclose(moved, 0.01, rtol=1e-3)


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

    @jax.jit
    def train(keys):
        state = AGENT.init(jax.random.key(0), Spec(2, 1), config)
        return jax.lax.scan(lambda at, k: AGENT.update(at, data, k, config), state, keys)[0]

    end = train(jax.random.split(jax.random.key(1), 1500))
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1], 0.0, atol=0.03)
    np.testing.assert_allclose(q[9:], rewards[9:], atol=0.03)
    np.testing.assert_allclose(q[:9].mean(), 0.9 * (1.0 - 2.0 / 6.0), atol=0.03)
