"""ReBRAC: its penalty where a′ is unknown, and the values it finds. Its losses: test_parity."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import KEY, scanned, setup

from bfq.agents import rebrac
from bfq.agents.contract import Batch, Spec
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

AGENT = get_agent("rebrac")


def test_an_unknown_next_action_is_not_penalized():
    config, state, batch = setup("rebrac", critic_penalty=10.0)
    wild = batch._replace(next_known=jnp.zeros(32), next_actions=jnp.full((32, 2), 1e3))
    given, free = (state.critics.params, state, wild, KEY), {"critic_penalty": 0.0}
    unpenalized, _ = rebrac.critic_loss(*given, dataclasses.replace(config, **free))
    np.testing.assert_allclose(rebrac.critic_loss(*given, config)[0], unpenalized, rtol=1e-6)
    with pytest.raises(BadInput, match="logged after"):
        rebrac.target_penalty(wild.actions, wild._replace(next_actions=None))


@pytest.mark.parametrize(("own", "rate"), [(0.0, 0.01), (0.02, 0.02)])
def test_critics_may_have_their_own_rate(own, rate):
    config, state, batch = setup("rebrac", learning_rate=0.01, critic_learning_rate=own)
    new, _ = jax.jit(AGENT.update)(state, batch, KEY, config)
    before, after = (at.critics.params.stacked.output.bias for at in (state, new))
    np.testing.assert_allclose(jnp.abs(after - before), rate, rtol=1e-3)  # Adam's first step


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
