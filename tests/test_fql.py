"""FQL and its family: IFQL, FBRAC, FAWAC. Updates of the first three: test_parity."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import agent_cases as cases
from tests.agent_cases import (
    FAST,
    KEY,
    SPEC,
    flat,
    largest,
    scaled,
    scanned,
    shaken,
    short_chain,
    transitions,
)

from bfq.agents import fawac, fbrac, fql, ifql
from bfq.agents.contract import Acting
from bfq.flow.matching import random_matching_errors, sample

SIZES = {"width": 8, "critic_width": 8, "flow_steps": 3, "batch_size": 16}
DATA = transitions(16)._replace(masks=jnp.ones(16))


def small(module, **changed):
    return cases.small(module.AGENT.name, **{**SIZES, **changed})


def begun(module, **changed):
    """A state with a target unlike its original."""
    config = small(module, **changed)
    state = module.init(KEY, SPEC, config)
    return state._replace(critics_target=shaken(state.critics_target)), config


def test_improvement_is_the_mean_value_and_normalized_it_has_no_scale():
    q = jnp.array([[1.0, -5.0], [3.0, -1.0]])
    np.testing.assert_allclose(fql.mean_value(q, normalized=False), -0.5)
    np.testing.assert_allclose(fql.mean_value(q, normalized=True), -0.5 / 2.5, rtol=1e-5)
    gradient = jax.grad(partial(fql.mean_value, normalized=True))
    np.testing.assert_allclose(gradient(q), 0.25 / 2.5, rtol=1e-5)  # the size itself carries none


def test_distillation_clips_the_teacher_and_not_the_student():
    far = lambda x, t, s: 9.0 - x  # beyond 1 from anywhere near 0
    student = lambda z, s: jnp.full_like(z, 3.0)
    noise = 0.1 * jax.random.normal(KEY, (4, 2))
    loss, actions = fql.distillation_loss(student, far, jnp.zeros((4, 3)), noise, 1)
    assert (loss, actions[0, 0]) == ((3.0 - 1.0) ** 2, 3.0)


def test_distillation_follows_the_flow_from_the_same_noise_and_does_not_teach_it():
    state, _ = begun(fql)
    networks, s, z = state.networks.params, jnp.ones((5, 3)), jax.random.normal(KEY, (5, 2))
    loss = lambda flow: fql.distillation_loss(networks.policy, flow, s, z, 3)[0]
    assert largest(jax.grad(loss)(networks.flow)) == 0
    drift = lambda x, t, s: jnp.full_like(x, 0.2)
    loss, _ = fql.distillation_loss(lambda z, s: jnp.clip(z + 0.2, -1, 1), drift, s, z, 7)
    assert loss < 1e-12


def guidance(module, networks, config):
    """The policy that acts, and the gradient of its loss as a function of it and the critics."""

    def loss(policy, critics):
        if module is fbrac:
            return fbrac.policy_loss(policy, critics, DATA, KEY, config)[0]
        frozen = networks._replace(critics=critics)
        return fql.policy_loss(frozen._replace(policy=policy), frozen, DATA, KEY, config)[0]

    return networks.policy if module is fql else networks.flow, jax.jit(jax.grad(loss))


@pytest.mark.parametrize("module", [fql, fbrac], ids=lambda m: m.AGENT.name)
@pytest.mark.parametrize("normalized", [True, False])
def test_only_normalized_the_policy_ignores_the_scale_of_q(module, normalized):
    state, config = begun(module, alpha=0.0, normalize_q=normalized)
    networks = state.networks.params
    policy, gradient = guidance(module, networks, config)
    once, tenfold = (flat(gradient(policy, scaled(networks.critics, k))) for k in (1.0, 10.0))
    assert float(jnp.abs(once).max()) > 1e-3
    np.testing.assert_allclose(tenfold, once if normalized else 10 * once, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("module", [fql, fbrac], ids=lambda m: m.AGENT.name)
def test_actions_beyond_the_bounds_are_not_drawn_to_higher_values(module):
    """The clip passes no gradient: where all actions lie outside, the value term leaves the policy alone."""
    state, config = begun(module, alpha=0.0)
    critics = state.networks.params.critics
    inside, gradient = guidance(module, state.networks.params, config)
    outside = eqx.tree_at(lambda net: net.trunk.output.bias, inside, jnp.array([50.0, -50.0]))
    assert largest(gradient(inside, critics)) > 1e-3
    assert largest(gradient(outside, critics)) == 0


def test_fbrac_acts_in_as_many_steps_as_asked():
    state, config = begun(fbrac)
    s = DATA.observations
    noise_key, _ = jax.random.split(KEY)
    for steps, asked in [(3, 0), (1, 1), (7, 7)]:
        expected = sample(state.networks.params.flow, s, noise_key, 2, steps)
        found = fbrac.AGENT.act(state, s, KEY, config, Acting(sampling_steps=asked))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def weighted(alpha, baseline, change=lambda n: n):
    state, config = begun(fawac, alpha=alpha, baseline=baseline)
    before = change(state.networks.params)
    loss, metrics = fawac.policy_loss(before.flow, before, DATA, KEY, config)
    flow_key, action_key = jax.random.split(KEY)
    errors = random_matching_errors(before.flow, DATA.actions, DATA.observations, flow_key)
    return before, loss, metrics, errors, action_key


@pytest.mark.parametrize("baseline", ["policy", "network"])
def test_fawac_weighs_by_the_advantage(baseline):
    before, loss, _, errors, key = weighted(0.3, baseline)
    s = DATA.observations
    proposed = sample(before.flow, s, key, 2, 3)
    v = before.value(s) if baseline == "network" else before.critics(s, proposed).mean(0)
    advantage = before.critics(s, DATA.actions).mean(0) - v
    np.testing.assert_allclose(loss, (jnp.exp(0.3 * advantage) * errors).mean(), rtol=1e-5)
    assert weighted(0.0, baseline)[1] == pytest.approx(float(errors.mean()), rel=1e-6)


def test_fawac_caps_its_weights_and_they_carry_no_gradient():
    large = lambda n: n._replace(critics=scaled(n.critics, 1e4))
    before, loss, metrics, errors, _ = weighted(1.0, "policy", large)
    assert float(metrics["weight"]) <= 100.0
    assert float(loss) <= 100.0 * float(errors.mean())
    _, config = begun(fawac)
    to_all = jax.grad(lambda n: fawac.policy_loss(n.flow, n, DATA, KEY, config)[0])(before)
    assert largest(to_all.critics) == 0


def test_fawac_without_an_advantage_is_plain_imitation():
    def blind(networks):
        first = lambda critics: critics.stacked.hidden[0].weight
        unseen = first(networks.critics).at[:, 3:].set(0.0)
        return networks._replace(critics=eqx.tree_at(first, networks.critics, unseen))

    _, loss, _, errors, _ = weighted(50.0, "policy", blind)
    np.testing.assert_allclose(loss, errors.mean(), rtol=1e-4)


def test_ifql_takes_the_action_that_the_lesser_online_critic_likes_most():
    state, config = begun(ifql)
    s = DATA.observations
    critics, flow, *_ = state.networks.params
    chosen = ifql.AGENT.act(state, s, KEY, config, Acting(candidates=32))
    noise_key, _ = jax.random.split(KEY)
    offered = sample(flow, jnp.repeat(s, 32, axis=0), noise_key, 2, 3)
    q = critics(jnp.repeat(s, 32, axis=0), offered).min(0).reshape(-1, 32)
    np.testing.assert_allclose(critics(s, chosen).min(0), q.max(1), rtol=1e-5)


def test_fql_acts_with_one_call_of_its_one_step_policy():
    state, config = begun(fql)
    s = DATA.observations
    noise_key, _ = jax.random.split(KEY)
    noise = 0.5 * jax.random.normal(noise_key, (16, 2))
    expected = jnp.clip(state.networks.params.policy(noise, s), -1, 1)
    found = fql.act(state, s, KEY, config, Acting(temperature=0.5))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("module", [fql, ifql], ids=lambda m: m.AGENT.name)
def test_values_of_a_known_chain(module):
    """Q(first) = γ where all actions end with 1; half of IFQL's end with 0, and the 0.8-expectile is 0.8."""
    config = small(module, **FAST, **({"expectile": 0.8} if module is ifql else {"flow_steps": 1}))
    data = short_chain((lambda a: (a > 0) * 1.0) if module is ifql else jnp.ones_like)
    state = scanned(module.AGENT, SPEC, data, config, 500)
    q = state.networks.params.critics(data.observations, data.actions)[:, :36]
    np.testing.assert_allclose(q.mean(1), 0.72 if module is ifql else 0.9, atol=0.06)
