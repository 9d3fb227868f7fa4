"""DQL: the gradient goes through the whole chain; acting by other rules and numbers of steps."""

import jax
import jax.numpy as jnp
import numpy as np
from tests.agent_cases import KEY, setup

from bfq.agents.contract import Acting
from bfq.agents.registry import get_agent
from bfq.flow.diffusion import cosine_schedule, generate

OFFICIAL = {"noise_schedule": "vp", "sampler": "posterior", "denoiser": "official", "critic": "plain"}  # fmt: skip


def test_guidance_reaches_the_actor_through_every_step():
    config, state, batch = setup("dql", denoising_steps=5, **OFFICIAL)

    def end(scale):  # of a chain with predictions multiplied by a number for each time
        def net(x, t, s):
            return scale[t.astype(int)] * state.policy.params(x, t, s)

        return generate(net, batch.observations, 2, jax.random.key(3), config.recipe()).sum()

    assert (np.abs(jax.jit(jax.grad(end))(jnp.ones(5))) > 1e-4).all()


def test_acting_by_another_rule_and_number_of_steps():
    config, state, batch = setup("dql", denoising_steps=4)
    agent, s = get_agent("dql"), batch.observations
    one = agent.act(state, s, KEY, config, Acting(sampler="ddim", sampling_steps=1))
    start = jax.random.normal(jax.random.split(jax.random.split(KEY)[0])[0], (32, 2))
    schedule = cosine_schedule(4)
    noise = state.policy_target(start, jnp.float32(3), s)
    action = jnp.clip((start - schedule.sigma[3] * noise) / schedule.alpha[3], -1, 1)
    pull = (start - schedule.alpha[3] * action) / schedule.sigma[3]
    expected = schedule.alpha[0] * action + schedule.sigma[0] * pull
    np.testing.assert_allclose(one, jnp.clip(expected, -1, 1), atol=1e-4)
    assert not np.allclose(one, agent.act(state, s, KEY, config, Acting()))
