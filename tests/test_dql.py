"""DQL: gradients through the whole chain, its targets, and known values."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents import Acting, Batch, Spec
from bfq.agents import dql as module
from bfq.agents.registry import configure, get_agent
from bfq.flow.diffusion import cosine_schedule, generate
from bfq.run import Member
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Program

AGENT = get_agent("dql")
SPEC = Spec(3, 2)
SMALL = {
    "width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32, "denoising_steps": 3,
    "schedule": "constant", "policy_target_every": 2, "policy_target_start": 2,
}  # fmt: skip
UPDATE = jax.jit(AGENT.update)  # compiled once for all tests with the same structure
OFFICIAL = {
    "noise_schedule": "vp",
    "sampler": "posterior",
    "denoiser": "official",
    "critic": "plain",
}


def setup(**values):
    config = configure(AGENT, {**SMALL, **values})
    state = AGENT.init(jax.random.key(0), SPEC, config)
    keys = jax.random.split(jax.random.key(1), 4)
    batch = Batch(
        jax.random.normal(keys[0], (32, 3)),
        jnp.tanh(jax.random.normal(keys[1], (32, 2))),
        jax.random.normal(keys[2], (32,)),
        jax.random.normal(keys[3], (32, 3)),
        (jnp.arange(32) % 4 > 0).astype(jnp.float32),
    )
    return config, state, batch


def largest(tree):
    return max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


def test_guidance_reaches_the_actor_through_every_step_and_ignores_the_critics_scale():
    config, state, batch = setup(eta=2.0, **{**OFFICIAL, "denoising_steps": 5})

    def end(scale):  # of a chain whose predictions are multiplied by a number for each time
        def net(x, t, s):
            return scale[t.astype(int)] * state.policy.params(x, t, s)

        return generate(net, batch.observations, 2, jax.random.key(3), config.recipe()).sum()

    assert (np.abs(jax.jit(jax.grad(end))(jnp.ones(5))) > 1e-4).all()

    def loss(policy, critics, config):
        return module.policy_loss(policy, critics, batch, jax.random.key(2), config)[0]

    gradient = jax.jit(jax.grad(loss))
    critics, policy = state.critics.params, state.policy.params
    tenfold = eqx.tree_at(
        lambda c: (c.stacked.output.weight, c.stacked.output.bias),
        critics,
        (10 * critics.stacked.output.weight, 10 * critics.stacked.output.bias),
    )
    plain, scaled, without = (gradient(policy, q, c) for q, c in (
        (critics, config), (tenfold, config), (critics, dataclasses.replace(config, eta=0.0))
    ))  # fmt: skip
    assert largest(jax.tree.map(jnp.subtract, plain, without)) > 1e-3
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(scaled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_critics_learn_only_from_their_own_loss():
    """The policy's step leaves them, and the TD target sends nothing to the targets."""
    config, state, batch = setup()
    frozen = configure(AGENT, {**SMALL, "critic_learning_rate": 0.0})
    after, _ = UPDATE(state, batch, jax.random.key(1), frozen)
    for a, b in zip(
        *map(jax.tree.leaves, (state.critics.params, after.critics.params)), strict=True
    ):
        np.testing.assert_array_equal(a, b)

    def loss(parts):
        changed = state._replace(policy_target=parts[0], critics_target=parts[1])
        return module.critic_loss(state.critics.params, changed, batch, jax.random.key(2), config)[
            0
        ]

    assert largest(jax.jit(jax.grad(loss))((state.policy_target, state.critics_target))) == 0.0


def test_the_td_target_is_made_by_the_ema_policy_and_the_target_critics():
    config, state, batch = setup(backup_samples=3, discount=0.5)
    other = AGENT.init(jax.random.key(9), SPEC, config)
    state = state._replace(policy_target=other.policy_target, critics_target=other.critics_target)
    key = jax.random.key(4)
    many = jnp.repeat(batch.next_observations, 3, axis=0)
    actions = module.sample(state.policy_target, many, key, config)
    q = state.critics_target(many, actions).reshape(2, 32, 3).max(-1).min(0)
    y = batch.rewards + 0.5 * batch.masks * q
    expected = jnp.square(state.critics.params(batch.observations, batch.actions) - y).mean(1).sum()
    found, _ = module.critic_loss(state.critics.params, state, batch, key, config)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_weights_decay_and_targets_move_at_their_own_times():
    config, state, batch = setup(
        learning_rate=1e-2, weight_decay=0.5, critic_target_rate=0.1, policy_target_rate=0.2
    )
    plain, _ = UPDATE(
        state, batch, jax.random.key(0), dataclasses.replace(config, weight_decay=0.0)
    )
    first, _ = UPDATE(state, batch, jax.random.key(0), config)
    networks = (state.policy.params, first.policy.params, plain.policy.params)
    for old, decayed, without in zip(*map(jax.tree.leaves, networks), strict=True):
        np.testing.assert_allclose(decayed, without - 1e-2 * 0.5 * old, atol=1e-6)
    for step in range(5):
        after, _ = UPDATE(state, batch, jax.random.key(step), config)
        for share, before, online, now in (
            (
                0.2 if step in (2, 4) else 0.0,
                state.policy_target,
                after.policy.params,
                after.policy_target,
            ),
            (0.1, state.critics_target, after.critics.params, after.critics_target),
        ):
            for a, b, c in zip(*map(jax.tree.leaves, (before, online, now)), strict=True):
                np.testing.assert_allclose(c, (1 - share) * a + share * b, rtol=1e-4, atol=1e-6)
        state = after


def test_acting_by_another_rule_and_number_of_steps():
    config, state, _ = setup(denoising_steps=4)
    s, key = jax.random.normal(jax.random.key(5), (50, 3)), jax.random.key(0)
    one = AGENT.act(state, s, key, config, Acting(sampler="ddim", sampling_steps=1))
    start = jax.random.normal(jax.random.split(jax.random.split(key)[0])[0], (50, 2))
    schedule = cosine_schedule(4)
    noise = state.policy_target(start, jnp.float32(3), s)
    action = jnp.clip((start - schedule.sigma[3] * noise) / schedule.alpha[3], -1, 1)
    expected = (
        schedule.alpha[0] * action
        + schedule.sigma[0] * (start - schedule.alpha[3] * action) / schedule.sigma[3]
    )
    np.testing.assert_allclose(one, jnp.clip(expected, -1, 1), atol=1e-4)
    assert not np.allclose(one, AGENT.act(state, s, key, config, Acting()))


def chain():
    """0 → 1 → end with reward 1 on the last step, and 2, which pays 1 for ever: Q = 0.9, 1, 10 at γ = 0.9."""
    rng, where = np.random.default_rng(0), np.arange(600) % 3
    return {
        "observations": np.eye(3, dtype=np.float32)[where],
        "actions": rng.uniform(-1, 1, (600, 2)).astype(np.float32),
        "next_observations": np.eye(3, dtype=np.float32)[np.array([1, 1, 2])[where]],
        "rewards": np.array([0.0, 1.0, 1.0], np.float32)[where],
        "masks": np.array([1.0, 0.0, 1.0], np.float32)[where],
    }


@pytest.mark.slow
def test_critics_find_the_known_values_of_a_small_mdp():
    config = configure(AGENT, {
        **SMALL, "discount": 0.9, "critic_target_rate": 0.05, "steps": 2000, "learning_rate": 1e-3,
        "critic_learning_rate": 3e-3, "eta": 0.1})  # fmt: skip
    population = create_population(AGENT, config, [Member(0, {})])
    state, _ = Program(population, 2000)(
        initial_states(population, SPEC), pack(chain()), jnp.int32(0)
    )
    critics = jax.tree.map(lambda leaf: leaf[0], state.critics.params)
    actions = jax.random.uniform(jax.random.key(0), (50, 2), minval=-1.0)
    for k, value in enumerate([0.9, 1.0, 10.0]):
        q = critics(jnp.tile(jnp.eye(3)[k], (50, 1)), actions)
        np.testing.assert_allclose(q.mean(), value, rtol=0.06, atol=0.05)
