"""CAC: the consistency function, its grid and curriculum, and what the agent's update does."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import assert_mostly_close, first_step, largest, setup, small

from bfq.agents import cac as module
from bfq.flow.few_steps import (
    c_out,
    c_skip,
    consistency_function,
    consistency_loss,
    grid_size,
    karras_time,
    multistep,
    neighboring_times,
    sampling_times,
)

AGENT = module.AGENT


def test_the_function_is_the_identity_at_the_least_time_whatever_the_network():
    x = jax.random.normal(jax.random.key(0), (5, 2))
    found = consistency_function(lambda x, t: 100.0 + x, x, jnp.full(5, 0.002))
    np.testing.assert_allclose(found, x, atol=1e-6)
    assert float(c_skip(jnp.array(80.0))) == pytest.approx(0.25 / (79.998**2 + 0.25), rel=1e-5)
    assert float(c_out(jnp.array(80.0))) == pytest.approx(
        0.5 * 79.998 / math.sqrt(6400.25), rel=1e-5
    )


@pytest.mark.parametrize("size", [2, 3, 40, 150])
def test_the_grid_rises_from_the_least_time_to_the_most(size):
    t = np.asarray(karras_time(jnp.arange(size), size))
    np.testing.assert_allclose(t[[0, -1]], [0.002, 80.0], rtol=1e-4)
    assert (np.diff(t) > 0).all()
    if size == 3:
        assert t[1] == pytest.approx(((0.002 ** (1 / 7) + 80 ** (1 / 7)) / 2) ** 7, rel=1e-4)


@pytest.mark.parametrize("updates", [400, 50_000, 1_000_000])
def test_the_curriculum_is_the_formula_from_2_to_150(updates):
    ks = np.unique(np.linspace(0, updates, 300).astype(int))
    found = [int(n) for n in jax.vmap(lambda k: grid_size(k, updates))(jnp.asarray(ks, jnp.int32))]
    said = [math.ceil(math.sqrt(int(k) * (150**2 - 4) / updates + 4) - 1) + 1 for k in ks]
    assert found == said
    assert (found[0], found[-1]) == (2, 150)


def test_neighbors_are_neighbors_and_all_are_drawn():
    earlier, later = map(np.asarray, neighboring_times(jax.random.key(0), 500, jnp.int32(4)))
    grid = np.asarray(karras_time(jnp.arange(4), 4))
    pairs = {
        (np.abs(grid - a).argmin(), np.abs(grid - b).argmin())
        for a, b in zip(earlier, later, strict=True)
    }
    assert pairs == {(0, 1), (1, 2), (2, 3)}


def test_the_exact_function_of_a_point_has_no_loss():
    """All data are c: the path through x at time t began at c + (ε/t)(x − c)."""
    c, n = jnp.array([0.3, -0.7]), 64

    def exact(x, t):
        return c + (0.002 / t)[:, None] * (x - c)

    noise, action = jax.random.normal(jax.random.key(0), (n, 2)), jnp.tile(c, (n, 1))
    times = neighboring_times(jax.random.key(1), n, 10)
    assert float(consistency_loss(exact, exact, action, noise, *times, scaled=False)) < 1e-10

    def wrong(x, t):
        return exact(x, t) + t[:, None]

    gap = np.asarray(times[1] - times[0])
    plain, weighted = (
        consistency_loss(wrong, wrong, action, noise, *times, scaled=k) for k in (False, True)
    )
    np.testing.assert_allclose(plain, np.square(gap).mean(), rtol=1e-3)
    np.testing.assert_allclose(weighted, (100.0 * gap).mean(), rtol=1e-3)


def test_sampling_times():
    assert sampling_times(1) == (80.0,)
    assert sampling_times(1, literal=True) == (2.0,)
    assert sampling_times(2) == sampling_times(2, literal=True) == (80.0, 2.0)
    assert sampling_times(3) == (80.0, 41.0, 2.0)


def test_two_calls_are_what_they_say():
    noise, key = jax.random.normal(jax.random.key(0), (4, 2)), jax.random.key(1)
    seen = []

    def denoise(x, t):
        seen.append((x, float(t)))
        return 0.1 * x

    result = multistep(denoise, noise, sampling_times(2), key)
    np.testing.assert_allclose(seen[0][0], 80.0 * noise)
    fresh = jax.random.normal(jax.random.fold_in(key, 0), (4, 2))
    second = 8.0 * noise + math.sqrt(4.0 - 0.002**2) * fresh
    np.testing.assert_allclose(seen[1][0], second, rtol=1e-5)
    assert [t for _, t in seen] == [80.0, 2.0]
    np.testing.assert_allclose(result, 0.1 * second, rtol=1e-5)


def test_one_call_at_the_literal_time_saturates_and_at_the_right_one_does_not():
    """c_skip(2) · 80 ≈ 4.7, beyond the bounds for most noise; c_skip(80) · 80 ≈ 0.003."""
    assert float(80.0 * c_skip(jnp.array(2.0))) == pytest.approx(4.7, abs=0.05)
    saturated = []
    for literal in (True, False):
        config, state, _ = setup("cac", consistency_steps=1, literal_one_step=literal)
        quiet = jax.tree.map(
            jnp.zeros_like, state.policy_target
        )  # what the skip connection does alone
        actions = module.sample(quiet, jnp.ones((2000, 3)), jax.random.key(0), config)
        saturated.append(float((jnp.abs(actions) == 1.0).mean()))
    assert saturated[0] > 0.8
    assert saturated[1] == 0.0


def test_the_gradient_goes_through_every_call():
    """Halving only the first call's output changes the gradient: it is no detached start."""
    _, state, batch = setup("cac")
    noise, key = jax.random.normal(jax.random.key(2), (32, 2)), jax.random.key(3)

    def total(first, second):
        def denoise(x, t):
            return module.consistency_of(first if t == 80.0 else second, batch.observations)(x, t)

        return multistep(denoise, noise, sampling_times(2), key).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(state.policy.params, state.policy.params):
        assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) > 1e-4


def test_no_gradient_goes_to_the_teacher():
    config, state, batch = setup("cac")

    def loss(teacher):
        step, key = jnp.int32(9000), jax.random.key(2)
        return module.imitation_loss(state.policy.params, teacher, step, batch, key, config)

    assert largest(jax.grad(loss)(state.policy_target)) == 0.0


def test_the_curriculum_begins_again_unless_it_is_as_long_as_the_run():
    config, state, batch = setup("cac", steps=1000, curriculum_updates=100)
    whole = small("cac", steps=1000, curriculum_updates=1000)

    def loss(step, config):
        params, target = state.policy.params, jax.tree.map(lambda p: 0.9 * p, state.policy_target)
        return float(
            module.imitation_loss(params, target, jnp.int32(step), batch, jax.random.key(0), config)
        )

    assert loss(0, config) == loss(100, config) == loss(900, config)
    assert loss(90, config) == loss(900, whole) != loss(900, config)


def reference_update(state, batch, key, c):
    """The update written out once more, with the agent's own keys and nothing of diffusion/ or learning.py."""
    critic_key, policy_key = jax.random.split(key)
    bc_key, action_key, pick_key = jax.random.split(policy_key, 3)
    noise_key, time_key = jax.random.split(bc_key)
    n, dim = batch.actions.shape

    def f(net, x, t, s):
        t = jnp.broadcast_to(t, len(s))
        skip, out = 0.25 / ((t - 0.002) ** 2 + 0.25), 0.5 * (t - 0.002) / jnp.sqrt(t**2 + 0.25)
        return skip[:, None] * x + out[:, None] * net(x, t, s)

    def act(net, s, key):
        first, chain = jax.random.split(key)
        x = f(net, 80.0 * jax.random.normal(first, (len(s), dim)), 80.0, s)
        again = jax.random.normal(jax.random.fold_in(chain, 0), x.shape)
        return jnp.clip(f(net, x + math.sqrt(4 - 0.002**2) * again, 2.0, s), -1, 1)

    many = jnp.repeat(batch.next_observations, c.backup_samples, axis=0)
    q_next = state.critics_target(many, act(state.policy_target, many, critic_key))
    q_next = q_next.reshape(2, n, c.backup_samples).max(-1).min(0)
    y = batch.rewards + c.discount * batch.masks * q_next
    y = y / (jnp.sqrt(((y - y.mean()) ** 2).sum() / (n - 1)) + 1e-6)

    def stepped(params, gradient, rate, bound):
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
        shorter = jax.tree.map(lambda g: g * jnp.minimum(1.0, bound / norm), gradient)
        return first_step(params, shorter, rate)

    def q_loss(critics):
        return ((critics(batch.observations, batch.actions) - y) ** 2).mean(1).sum()

    gradient = jax.grad(q_loss)(state.critics.params)
    critics = stepped(state.critics.params, gradient, c.critic_learning_rate, c.critic_clip_norm)

    size = math.ceil(math.sqrt(57 % 50 * (150**2 - 4) / 50 + 4) - 1) + 1
    i = jax.random.randint(time_key, (n,), 0, size - 1)
    low, high = 0.002 ** (1 / 7), 80 ** (1 / 7)
    t, later = ((low + k / (size - 1) * (high - low)) ** 7 for k in (i, i + 1))
    z, s, a = jax.random.normal(noise_key, (n, dim)), batch.observations, batch.actions

    def pi_loss(net):
        error = f(net, a + later[:, None] * z, later, s) - f(
            state.policy_target, a + t[:, None] * z, t, s
        )
        bc = (100 / (later - t)[:, None] * error**2).mean()
        q = critics(s, act(net, s, action_key))
        size = jax.lax.stop_gradient(jnp.abs(q).mean(1))
        k = jnp.where(jax.random.bernoulli(pick_key), 0, 1)
        return bc - c.eta * q.mean(1)[k] / size[1 - k]

    gradient = jax.grad(pi_loss)(state.policy.params)
    return stepped(state.policy.params, gradient, c.learning_rate, c.clip_norm), critics


def test_an_update_is_what_the_equations_say():
    config, state, batch = setup(
        "cac", learning_rate=1e-2, critic_learning_rate=3e-3, eta=2.0, q_norm=True, backup_samples=3,
        clip_norm=1e-3, critic_clip_norm=1e-3, curriculum_updates=50,
    )  # fmt: skip
    state = state._replace(step=jnp.int32(57))
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(7), config)
    policy, critics = jax.jit(reference_update)(state, batch, jax.random.key(7), config)
    assert_mostly_close(after.policy.params, policy, share=0.02)
    assert_mostly_close(after.critics.params, critics, share=0.02)
