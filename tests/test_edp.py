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

OFFICIAL = {"predicts": "noise", "noise_schedule": "linear", "diffusion_times": 100, "critic": "plain",
            "approximation": "shared", "sampler": "posterior", "denoiser": "official"}  # fmt: skip


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
    config, state, batch = setup("edp", **values)
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
    config, state, _ = setup("edp")
    n = 4000
    batch = Batch(
        jnp.zeros((n, 3)), jnp.zeros((n, 2)), jnp.zeros(n), jnp.zeros((n, 3)), jnp.ones(n)
    )
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
