"""What agents with a policy, two critics and targets share: gradients, targets, acting and known values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import (
    KEY,
    assert_close,
    assert_mixed,
    chain,
    leaves,
    member,
    setup,
    small,
    trained,
    two_actions,
)

from bfq.agents import bfq, cac, dql
from bfq.agents.contract import Acting, Spec
from bfq.agents.registry import get_agent
from bfq.run import Member

SAMPLES = {"bfq": bfq.sample, "cac": cac.sample}
TIMES = {"policy_target_every": 2, "policy_target_start": 2, "schedule": "constant"}
SLOW = {"discount": 0.9, "critic_target_rate": 0.05, "policy_target_start": 0}


@pytest.mark.parametrize("name", ["bfq", "ofql", "dql"])
def test_targets_move_at_their_own_rates_and_times(name):
    config, state, batch = setup(name, critic_target_rate=0.1, policy_target_rate=0.2, **TIMES)
    update = jax.jit(get_agent(name).update)
    for step in range(5):
        after, _ = update(state, batch, jax.random.key(step), config)
        rate = 0.2 if step in (2, 4) else 0.0
        assert_mixed(after.policy_target, state.policy_target, after.policy.params, rate)
        assert_mixed(after.critics_target, state.critics_target, after.critics.params, 0.1)
        state = after


@pytest.mark.parametrize("name", ["bfq", "dql"])
def test_weights_of_the_policy_decay_apart_from_adam_and_those_of_the_critics_do_not(name):
    config, state, batch = setup(name, learning_rate=1e-2, weight_decay=0.5, **TIMES)
    update = jax.jit(get_agent(name).update)
    decayed, _ = update(state, batch, KEY, config)
    plain, _ = update(state, batch, KEY, dataclasses.replace(config, weight_decay=0.0))
    step = lambda new, old: new - 1e-2 * 0.5 * old
    expected = jax.tree.map(step, plain.policy.params, state.policy.params)
    assert_close(decayed.policy.params, expected, rtol=0)
    assert_close(decayed.critics.params, plain.critics.params, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["dql", "edp"])
def test_the_td_target_comes_from_the_ema_policy_and_the_target_critics(name):
    config, state, batch = setup(name, backup_samples=3, discount=0.5)
    if name == "edp":
        assert config.recipe()[1:] == ("dpm_solver", 15, "action")
    many = jnp.repeat(batch.next_observations, 3, axis=0)
    actions = dql.sample(state.policy_target, many, KEY, config)
    q = state.critics_target(many, actions).reshape(2, 32, 3).max(-1).min(0)
    y = batch.rewards + 0.5 * batch.masks * q
    expected = jnp.square(state.critics.params(batch.observations, batch.actions) - y).mean(1).sum()
    found, _ = dql.critic_loss(state.critics.params, state, batch, KEY, config)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["bfq", "ofql", "cac"])
def test_acting_uses_ema_or_online_the_temperature_and_the_number_of_steps(name):
    config, state, _ = setup(name)
    s = jnp.ones((200, 3))

    def act(**acting):
        return get_agent(name).act(state, s, KEY, config, Acting(**acting))

    ways = [{"policy": "online"}] + [{"sampling_steps": k} for k in (1, 3) if name == "cac"]
    for way in ways:
        assert not np.allclose(act(), act(**way))
    assert float(act().std(0).max()) > 0.1
    cold = act(temperature=0.0, sampling_steps=int(name == "cac"))
    assert float(cold.std(0).max()) < 1e-6


@pytest.mark.parametrize(("name", "eta"), [("bfq", 50.0), ("cac", 500.0)])
def test_strong_guidance_raises_the_value_of_the_policys_actions(name, eta):
    config, state, batch = setup(name, eta=eta, learning_rate=1e-3, schedule="constant")

    def value(policy):
        actions = SAMPLES[name](policy, batch.observations, jax.random.key(3), config)
        return float(state.critics.params(batch.observations, actions).mean())

    moved, update = state, jax.jit(get_agent(name).update)
    for k in range(10):
        moved = update(moved._replace(critics=state.critics), batch, jax.random.key(k), config)[0]
    assert value(moved.policy.params) > value(state.policy.params)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bfq", {"learning_rate": 3e-3, "architecture": "raw_time", "aggregation": "min", "steps": 3000}),
        ("bfq", {"learning_rate": 3e-3, "architecture": "raw_time", "aggregation": "mean", "steps": 3000}),
        ("dql", {"learning_rate": 1e-3, "critic_learning_rate": 3e-3, "denoising_steps": 3, "eta": 0.1,
                 "schedule": "constant", "steps": 2000}),
        ("cac", {"critic_learning_rate": 1e-2, "schedule": "cosine", "consistency_steps": 1, "steps": 1500}),
    ],
)  # fmt: skip
def test_critics_find_the_known_values_of_a_small_mdp(name, values):
    critics = member(trained(name, chain(), small(name, **SLOW, **values)), 0).critics.params
    actions = jax.random.uniform(KEY, (50, 2), minval=-1.0)
    for k, value in enumerate([0.9, 1.0, 10.0]):
        q = critics(jnp.tile(jnp.eye(3)[k], (50, 1)), actions)
        np.testing.assert_allclose(q.mean(), value, rtol=0.06, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "least"),
    [
        ("edp", {"width": 32, "steps": 1500, "learning_rate": 2e-3, "critic_learning_rate": 3e-3, "eta": 1.0,
                 "policy_target_rate": 0.05, "diffusion_times": 20, "denoising_steps": 8}, 0.6),
        ("ofql", {"width": 32, "depth": 2, "steps": 2000, "learning_rate": 3e-3, "architecture": "raw_time",
                  "eta": 0.5, "batch_size": 128}, 0.9),
    ],
)  # fmt: skip
def test_it_finds_the_better_of_two_logged_actions_and_its_value(name, values, least):
    """With guidance; the second member has none and imitates both."""
    config = small(name, policy_target_start=0, **values)
    pair = [Member(0, {}), Member(0, {"eta": 0.0})]
    states = trained(name, two_actions(), config, pair, Spec(1, 1))
    guided, plain = (member(states, k) for k in (0, 1))
    q = guided.critics.params(jnp.ones((2, 1)), jnp.array([[-0.5], [0.5]])).mean(0)
    np.testing.assert_allclose(q, [0.5, 1.5], atol=0.1)

    def positive(state):
        way = Acting(policy="online")
        actions = get_agent(name).act(state, jnp.ones((500, 1)), KEY, config, way)
        return float(np.mean(leaves(actions)[0] > 0))

    assert positive(guided) > least
    assert 0.3 < positive(plain) < 0.7
