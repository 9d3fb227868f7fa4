"""TD3-BC: its target, its normalized guidance, its delay, and the values it finds."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents import Batch, Spec, td3_bc
from bfq.agents.registry import configure, get_agent

AGENT = get_agent("td3_bc")
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1}


@cache
def start():
    return jax.jit(AGENT.init, static_argnums=1)(
        jax.random.key(0), Spec(3, 2), configure(AGENT, SMALL)
    )


def made(**values):
    return start(), configure(AGENT, {**SMALL, **values})


def batch(n=32):
    keys = jax.random.split(jax.random.key(9), 5)
    return Batch(
        jax.random.normal(keys[0], (n, 3)),
        jax.random.uniform(keys[1], (n, 2), minval=-1, maxval=1),
        jax.random.normal(keys[2], (n,)),
        jax.random.normal(keys[3], (n, 3)),
        jax.random.bernoulli(keys[4], 0.8, (n,)).astype(jnp.float32),
    )


def same(a, b):
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_the_critics_loss_is_the_written_one():
    state, config = made(discount=0.9)
    data, key = batch(), jax.random.key(4)
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
    state, config = made(eta=2.5)
    data = batch()
    loss, told = td3_bc.policy_loss(state.policy.params, state.critics.params, data, config)
    actions = state.policy.params(data.observations)
    q = state.critics.params(data.observations, actions)[0]
    mse = jnp.square(actions - data.actions).mean()
    np.testing.assert_allclose(loss, mse - 2.5 * q.mean() / jnp.abs(q).mean(), rtol=1e-4)
    np.testing.assert_allclose(told["q_policy"], q.mean(), rtol=1e-5)


def test_guidance_does_not_feel_the_critics_scale():
    state, config = made()
    data = batch()

    def gradient(factor):
        def critics(s, a):
            return factor * state.critics.params(s, a)

        return jax.grad(lambda p: td3_bc.policy_loss(p, critics, data, config)[0])(
            state.policy.params
        )

    for a, b in zip(jax.tree.leaves(gradient(1.0)), jax.tree.leaves(gradient(10.0)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_no_gradient_reaches_the_targets():
    state, config = made()

    def loss(targets):
        at = state._replace(policy_target=targets[0], critics_target=targets[1])
        return td3_bc.critic_loss(state.critics.params, at, batch(), jax.random.key(0), config)[0]

    gradient = jax.grad(loss)((state.policy_target, state.critics_target))
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))


def test_policy_and_targets_move_at_every_second_update_only():
    state, config = made(critic_target_rate=0.1, policy_target_rate=0.2)
    update = jax.jit(AGENT.update)
    first, _ = update(state, batch(), jax.random.key(1), config)
    assert not same(first.critics.params, state.critics.params)
    for name in ("policy", "policy_target", "critics_target", "told"):
        assert same(getattr(first, name), getattr(state, name)), name
    second, told = update(first, batch(), jax.random.key(2), config)
    assert not same(second.policy.params, state.policy.params)
    third, repeated = update(second, batch(), jax.random.key(3), config)
    assert same(third.policy, second.policy)
    assert float(repeated["bc_loss"]) == float(told["bc_loss"]) > 0.0
    # both targets follow the new parameters
    for target, online, rate in (
        ("critics_target", second.critics.params, 0.1), ("policy_target", second.policy.params, 0.2),
    ):  # fmt: skip
        before, after = (
            jax.tree.leaves(getattr(state, target)),
            jax.tree.leaves(getattr(second, target)),
        )
        for old, new, to in zip(before, after, jax.tree.leaves(online), strict=True):
            np.testing.assert_allclose(new, (1 - rate) * old + rate * to, rtol=1e-4, atol=1e-6)


def test_the_policy_sees_the_critics_after_their_step():
    state, config = made(policy_every=1)
    key, data = jax.random.key(1), batch()
    new, told = jax.jit(AGENT.update)(state, data, key, config)
    loss, _ = td3_bc.policy_loss(state.policy.params, new.critics.params, data, config)
    np.testing.assert_allclose(told["policy_loss"], loss, rtol=1e-4)


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

    @jax.jit
    def train(keys):
        state = AGENT.init(jax.random.key(0), Spec(2, 1), config)
        return jax.lax.scan(lambda at, k: AGENT.update(at, data, k, config), state, keys)[0]

    end = train(jax.random.split(jax.random.key(1), 1500))
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1], 0.5, atol=0.05)
    np.testing.assert_allclose(q[21:], rewards[21:], atol=0.06)
    np.testing.assert_allclose(q[:21], 0.9, atol=0.04)
