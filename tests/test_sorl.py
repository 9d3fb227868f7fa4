"""SORL: critics that know the number of steps, and steps that are drawn. Its update: test_parity."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import agent_cases as cases
from tests.agent_cases import FAST, KEY, SPEC, flat, scanned, shaken, short_chain, transitions

from bfq.agents import sorl
from bfq.agents.contract import Acting
from bfq.agents.learning import Learner
from bfq.errors import BadInput
from bfq.flow.few_steps import jump

SIZES = {"width": 8, "critic_width": 8, "flow_steps": 4, "batch_size": 16}
DATA = transitions(16)._replace(masks=jnp.ones(16))


def small(**changed):
    return cases.small("sorl", **{**SIZES, **changed})


def begun(**changed):
    """A state with targets unlike their originals."""
    config = small(**changed)
    state = sorl.init(KEY, SPEC, config)
    targets = {name: shaken(getattr(state, name)) for name in ("critics_target", "policy_target")}
    return state._replace(**targets), config


def remembering(values, seen):
    """Critics that record the number of steps that they get."""

    def critics(s, a):
        seen.append(np.unique(np.asarray(a[:, -1])).tolist())
        return values * jnp.ones((2, len(s))) * a[:, 0]

    return critics


@pytest.mark.parametrize("k", [0, 1, 2])
def test_online_and_target_critics_get_the_same_number_of_steps(k):
    state, config = begun()
    seen = []
    networks = sorl.Networks(remembering(1.0, seen), state.networks.params.policy)
    state = state._replace(networks=Learner(networks, None), critics_target=remembering(2.0, seen))
    index, data = jnp.int32(k), DATA
    loss, _ = sorl.critic_loss(networks.critics, state, data, KEY, index, config)
    sorl.policy_loss(networks.policy, state, data, KEY, index, config)
    assert seen == [[2.0**k]] * 3
    noise = jax.random.normal(KEY, (16, 2))
    following = jnp.clip(jump(networks.policy, noise, data.next_observations, 2**k), -1, 1)
    y = data.rewards + 0.99 * 2.0 * following[:, 0]
    np.testing.assert_allclose(loss, jnp.square(data.actions[:, 0] - y).mean(), rtol=1e-4)


def test_actions_beyond_the_bounds_are_not_drawn_to_higher_values():
    """The clip passes no gradient: where all actions lie outside, the value term leaves the policy alone."""
    state, config = begun(bc_weight=0.0, consistency_weight=0.0, eta=1.0, flow_steps=2)

    @jax.jit
    def gradient(policy, k):
        loss = lambda now: sorl.policy_loss(now, state, DATA, KEY, k, config)[0]
        return flat(jax.grad(loss)(policy))

    inside = state.networks.params.policy
    outside = eqx.tree_at(lambda net: net.trunk.output.bias, inside, jnp.array([50.0, -50.0]))
    for k in (jnp.int32(0), jnp.int32(1)):
        assert float(jnp.abs(gradient(inside, k)).max()) > 1e-3
        np.testing.assert_array_equal(gradient(outside, k), 0.0)


def test_numbers_of_steps_are_uniform_and_drawn_twice():
    config = small(flow_steps=8)
    k = np.asarray(jax.vmap(lambda step: sorl.drawn_indices(step, config))(jnp.arange(4000)))
    pairs, counts = np.unique(k, axis=0, return_counts=True)
    assert len(pairs) == 16  # all of {1, 2, 4, 8}²
    np.testing.assert_allclose(counts, 250, atol=60)


def test_a_population_computes_only_the_steps_that_are_drawn():
    """The choice stays a choice under vmap; were it made for each member, it would be a select of all."""
    state, config = begun()
    axes = sorl.State(0, 0, 0, None)
    several = jax.vmap(sorl.update, in_axes=(axes, None, 0, None))
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)._replace(step=state.step)
    program = str(jax.make_jaxpr(several)(states, DATA, jax.random.split(KEY), config))
    assert program.count("cond[") >= 2


def test_it_acts_in_one_step_or_in_several_with_either_policy():
    state, config = begun()
    s, (noise_key, _) = DATA.observations, jax.random.split(KEY)
    noise = jax.random.normal(noise_key, (16, 2))
    for steps, asked, policy in [(4, 0, "online"), (1, 1, "online"), (2, 2, "ema")]:
        net = state.networks.params.policy if policy == "online" else state.policy_target
        found = sorl.act(state, s, KEY, config, Acting(sampling_steps=asked, policy=policy))
        np.testing.assert_allclose(found, jnp.clip(jump(net, noise, s, steps), -1, 1), rtol=1e-5)
    for wrong in (3, 8):
        with pytest.raises(BadInput, match="power of two"):
            sorl.act(state, s, KEY, config, Acting(sampling_steps=wrong))
    with pytest.raises(BadInput, match="power of two"):
        small(flow_steps=6)


def test_candidates_are_compared_by_the_online_critics_for_their_number_of_steps():
    state, config = begun()
    networks, s = state.networks.params, DATA.observations
    acting = Acting(candidates=8, sampling_steps=2, policy="online")
    chosen = sorl.act(state, s, KEY, config, acting)
    repeated = jnp.repeat(s, 8, axis=0)
    offered = sorl.sample(networks.policy, repeated, jax.random.split(KEY)[0], 2)
    q = sorl.with_steps(networks.critics, 2.0)
    best = q(repeated, offered).mean(0).reshape(-1, 8).max(1)
    np.testing.assert_allclose(q(s, chosen).mean(0), best, rtol=1e-5)


def test_values_of_a_known_chain():
    """The first state leads to the second, which ends with 1: Q = γ and 1, whatever M and the action."""
    config = small(**FAST, flow_steps=2, clip_norm=0.0)
    data = short_chain(jnp.ones_like)
    state = scanned(sorl.AGENT, SPEC, data, config, 500)
    for count in (1.0, 2.0):
        critics = sorl.with_steps(state.networks.params.critics, count)
        q = critics(data.observations, data.actions).mean(0)
        np.testing.assert_allclose([q[:36].mean(), q[36:].mean()], [0.9, 1.0], atol=0.06)
