"""TD3-BC: its delay, and the values it finds. Its losses are those of the authors' code (test_parity)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import same, scanned, setup

from bfq.agents.contract import Batch, Spec
from bfq.agents.registry import configure, get_agent

AGENT = get_agent("td3_bc")


@pytest.mark.parametrize(("name", "first"), [("td3_bc", 1), ("rebrac", 0)])
def test_the_policy_moves_at_every_second_update_and_its_metrics_are_repeated(name, first):
    config, state, batch = setup(name)
    update = jax.jit(get_agent(name).update)
    for k in range(4):
        before, (state, _) = state, update(state, batch, jax.random.key(k), config)
        assert not same(state.critics.params, before.critics.params)
        for part in ("policy", "policy_target", "critics_target", "told"):
            assert same(getattr(state, part), getattr(before, part)) == (k % 2 != first), part


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
    end = scanned(AGENT, Spec(2, 1), data, config, 1500)
    q = np.asarray(end.critics.params(data.observations, data.actions)).mean(0)
    np.testing.assert_allclose(end.policy.params(jnp.eye(2))[1], 0.5, atol=0.05)
    np.testing.assert_allclose(q[21:], rewards[21:], atol=0.06)
    np.testing.assert_allclose(q[:21], 0.9, atol=0.04)
