"""EDP: the one-step action approximation, its draws, and known values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents import Acting, Batch, Spec, dql
from bfq.agents import edp as module
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput
from bfq.flow.diffusion import SCHEDULES
from bfq.run import Member
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Program

AGENT = get_agent("edp")
SPEC = Spec(3, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32,
         "schedule": "constant", "policy_target_start": 0}  # fmt: skip
OFFICIAL = {"predicts": "noise", "noise_schedule": "linear", "diffusion_times": 100, "critic": "plain",
            "approximation": "shared", "sampler": "posterior", "denoiser": "official"}  # fmt: skip


def setup(**values):
    config = configure(AGENT, {**SMALL, **values})
    state = AGENT.init(jax.random.key(0), SPEC, config)
    keys = jax.random.split(jax.random.key(1), 4)
    batch = Batch(
        jax.random.normal(keys[0], (32, 3)),
        jnp.tanh(jax.random.normal(keys[1], (32, 2))),
        jax.random.normal(keys[2], (32,)),
        jax.random.normal(keys[3], (32, 3)),
        jnp.ones(32),
    )
    return config, state, batch


def noisy(config, actions, key):
    """a_t, t, α, σ and ε of one draw, written out."""
    schedule = SCHEDULES[config.noise_schedule](config.diffusion_times)
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, actions.shape)
    k = jax.random.randint(time_key, (len(actions),), 0, config.diffusion_times)
    alpha, sigma = schedule.alpha[k][:, None], schedule.sigma[k][:, None]
    return alpha * actions + sigma * noise, k.astype(jnp.float32), alpha, sigma, noise


@pytest.mark.parametrize(
    "values", [{"eta": 0.7}, {"eta": 0.7, **OFFICIAL}], ids=["clean_diffuser", "official"]
)
def test_the_loss_is_what_the_equations_say(values):
    config, state, batch = setup(**values)
    net, critics, key = state.policy.params, state.critics.params, jax.random.key(2)
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    s, a = batch.observations, batch.actions
    x, t, alpha, sigma, noise = noisy(config, a, bc_key)
    if config.predicts == "action":
        bc = jnp.square(net(x, t, s) - a).mean()
        x, t, *_ = noisy(config, a, action_key)
        action = net(x, t, s)  # not clipped
    else:
        bc = jnp.square(net(x, t, s) - noise).mean()
        action = jnp.clip((x - sigma * net(x, t, s)) / alpha, -1, 1)
    q = critics(s, action)
    k = 0 if jax.random.bernoulli(critic_key) else 1
    expected = bc - 0.7 * q[k].mean() / (jnp.abs(q[1 - k]).mean() + 1e-6)
    found, metrics = module.policy_loss(net, critics, batch, key, config)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["bc_loss"], bc, rtol=1e-5)


def test_the_two_terms_have_independent_draws(monkeypatch):
    config, state, _ = setup()
    n = 4000
    batch = Batch(
        jnp.zeros((n, 3)), jnp.zeros((n, 2)), jnp.zeros(n), jnp.zeros((n, 3)), jnp.ones(n)
    )
    draws, true_draw = [], module.draw

    def kept(*arguments):
        draws.append(true_draw(*arguments))
        return draws[-1]

    monkeypatch.setattr(module, "draw", kept)
    module.policy_loss(state.policy.params, state.critics.params, batch, jax.random.key(2), config)
    first, second = draws
    assert abs(np.corrcoef(first.noise[:, 0], second.noise[:, 0])[0, 1]) < 0.06
    assert abs(np.corrcoef(first.told, second.told)[0, 1]) < 0.06


def test_the_critics_learn_only_from_their_own_loss_and_targets_get_nothing():
    config, state, batch = setup()

    def loss(parts):
        changed = state._replace(policy_target=parts[0], critics_target=parts[1])
        return dql.critic_loss(state.critics.params, changed, batch, jax.random.key(2), config)[0]

    gradient = jax.jit(jax.grad(loss))((state.policy_target, state.critics_target))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))
    frozen = dataclasses.replace(config, critic_learning_rate=0.0)
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(1), frozen)
    for a, b in zip(
        *map(jax.tree.leaves, (state.critics.params, after.critics.params)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_the_td_target_samples_fifteen_steps_of_the_ema_policy():
    config, state, batch = setup(backup_samples=2, discount=0.5)
    other = AGENT.init(jax.random.key(9), SPEC, config)
    state = state._replace(policy_target=other.policy_target)
    key = jax.random.key(4)
    many = jnp.repeat(batch.next_observations, 2, axis=0)
    assert config.recipe()[1:] == ("dpm_solver", 15, "action")
    actions = dql.sample(state.policy_target, many, key, config)
    y = batch.rewards + 0.5 * state.critics_target(many, actions).reshape(2, 32, 2).max(-1).min(0)
    expected = jnp.square(state.critics.params(batch.observations, batch.actions) - y).mean(1).sum()
    found, _ = dql.critic_loss(state.critics.params, state, batch, key, config)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_linear_schedule_needs_many_times():
    with pytest.raises(BadInput, match="more than 20"):
        configure(AGENT, {"noise_schedule": "linear", "diffusion_times": 20})


@pytest.mark.slow
def test_it_finds_the_better_of_two_actions_and_its_value():
    """One state, actions ±0.5 logged alike, reward 1 + a, no future: Q(a) = 1 + a; guidance goes to +0.5."""
    rng = np.random.default_rng(0)
    a = 0.5 * rng.choice([-1.0, 1.0], (600, 1)) + 0.05 * rng.normal(size=(600, 1))
    rows = {"observations": np.zeros((600, 1)), "actions": a, "next_observations": np.zeros((600, 1)),
            "rewards": a[:, 0] + 1.0, "masks": np.zeros(600)}  # fmt: skip
    config = configure(AGENT, {
        **SMALL, "width": 32, "steps": 1500, "learning_rate": 2e-3, "critic_learning_rate": 3e-3,
        "policy_target_rate": 0.05, "diffusion_times": 20, "denoising_steps": 8})  # fmt: skip
    population = create_population(AGENT, config, [Member(0, {})])
    arrays = pack({name: value.astype(np.float32) for name, value in rows.items()})
    state, _ = Program(population, 1500)(
        initial_states(population, Spec(1, 1)), arrays, jnp.int32(0)
    )
    state = jax.tree.map(lambda leaf: leaf[0], state)
    for action in (-0.5, 0.5):
        q = state.critics.params(jnp.zeros((1, 1)), jnp.full((1, 1), action))
        np.testing.assert_allclose(q, 1.0 + action, atol=0.1)
    acted = AGENT.act(state, jnp.zeros((400, 1)), jax.random.key(0), config, Acting())
    assert float((acted > 0).mean()) > 0.6
