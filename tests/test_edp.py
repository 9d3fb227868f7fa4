"""EDP: the one-step approximation of the action, and its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import setup

from bfq.agents import edp as module
from bfq.agents.contract import Batch
from bfq.agents.registry import configure
from bfq.errors import BadInput
from bfq.flow.diffusion import SCHEDULES


def noisy(config, actions, key):
    """a_t and t of one draw, written out."""
    schedule = SCHEDULES[config.noise_schedule](config.diffusion_times)
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, actions.shape)
    k = jax.random.randint(time_key, (len(actions),), 0, config.diffusion_times)
    alpha, sigma = schedule.alpha[k][:, None], schedule.sigma[k][:, None]
    return alpha * actions + sigma * noise, k.astype(jnp.float32)


def test_the_loss_is_what_the_equations_say():
    """CleanDiffuser's variant; test_parity has the official one."""
    config, state, batch = setup("edp", eta=0.7)
    net, critics, key = state.policy.params, state.critics.params, jax.random.key(2)
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    s, a = batch.observations, batch.actions
    bc = jnp.square(net(*noisy(config, a, bc_key), s) - a).mean()
    q = critics(s, net(*noisy(config, a, action_key), s))  # not clipped
    k = 0 if jax.random.bernoulli(critic_key) else 1
    expected = bc - 0.7 * q[k].mean() / (jnp.abs(q[1 - k]).mean() + 1e-6)
    found, metrics = module.policy_loss(net, critics, batch, key, config)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["bc_loss"], bc, rtol=1e-5)


def test_the_two_terms_have_independent_draws(monkeypatch):
    config, state, _ = setup("edp")
    s, a = jnp.zeros((4000, 3)), jnp.zeros((4000, 2))
    batch = Batch(s, a, s[:, 0], s, s[:, 0])
    draws, true_draw = [], module.draw_noisy

    def kept(*arguments):
        draws.append(true_draw(*arguments))
        return draws[-1]

    monkeypatch.setattr(module, "draw_noisy", kept)
    module.policy_loss(state.policy.params, state.critics.params, batch, jax.random.key(2), config)
    first, second = draws
    assert abs(np.corrcoef(first.noise[:, 0], second.noise[:, 0])[0, 1]) < 0.06
    assert abs(np.corrcoef(first.time, second.time)[0, 1]) < 0.06


def test_the_linear_schedule_needs_many_times():
    with pytest.raises(BadInput, match="more than 20"):
        configure(module.AGENT, {"noise_schedule": "linear", "diffusion_times": 20})
