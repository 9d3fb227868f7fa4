"""FQL and its family: IFQL, FBRAC, FAWAC."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import agent_cases as cases
from tests.agent_cases import KEY, SPEC, flat, largest, scaled, shaken, transitions

from bfq.agents import fawac, fbrac, fql, ifql, iql, learning
from bfq.agents.contract import Acting, Batch
from bfq.flow.matching import random_matching_errors, sample

FAMILY = [fql, ifql, fbrac, fawac]
SIZES = {"width": 8, "critic_width": 8, "flow_steps": 3, "batch_size": 16}
DATA = transitions(16)._replace(masks=jnp.ones(16))


def small(module, **changed):
    return cases.small(module.AGENT.name, **{**SIZES, **changed})


def begun(module, **changed):
    """A state with a target unlike its original."""
    config = small(module, **changed)
    state = module.init(KEY, SPEC, config)
    return state._replace(critics_target=shaken(state.critics_target)), config


def test_the_critics_loss_is_the_mean_over_critics_too():
    q, y = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.zeros(2)
    assert learning.critic_loss(q, y, averaged=True) == (1 + 4 + 9 + 16) / 4
    assert learning.critic_loss(q, y) == (1 + 4 + 9 + 16) / 2


def test_improvement_is_the_mean_value_and_normalized_it_has_no_scale():
    q = jnp.array([[1.0, -5.0], [3.0, -1.0]])
    np.testing.assert_allclose(fql.mean_value(q, normalized=False), -0.5)
    np.testing.assert_allclose(fql.mean_value(q, normalized=True), -0.5 / 2.5, rtol=1e-5)
    gradient = jax.grad(partial(fql.mean_value, normalized=True))
    np.testing.assert_allclose(gradient(q), 0.25 / 2.5, rtol=1e-5)  # the size itself carries none


def td_error(critics, before, state, data, key):
    """The loss of the critics alone, written out."""
    if hasattr(before, "policy"):
        following = fql.sample(before.policy, data.next_observations, key)
    else:
        following = sample(before.flow, data.next_observations, key, 2, 3)
    y = data.rewards + 0.99 * data.masks * state.critics_target(
        data.next_observations, following
    ).min(0)
    return jnp.square(critics(data.observations, data.actions) - y).mean()


@pytest.mark.parametrize("module", FAMILY, ids=lambda m: m.AGENT.name)
def test_one_adam_step_on_the_sum_with_frozen_critics_and_a_target_that_lags(module):
    state, config = begun(module, **({} if module is ifql else {"aggregation": "min"}))
    before, data = state.networks.params, DATA

    @jax.jit
    def everything(state, before):
        gradient = jax.grad(lambda n: module.total_loss(n, state, data, KEY, config)[0])(before)
        alone = jax.grad(td_error)(before.critics, before, state, data, jax.random.split(KEY)[0])
        return module.AGENT.update(state, data, KEY, config)[0], gradient, alone

    after, gradient, alone = everything(state, before)
    # Adam's first step is lr · g / (|g| + 1e-8)
    expected = jax.tree.map(lambda p, g: p - 3e-4 * g / (jnp.abs(g) + 1e-8), before, gradient)
    np.testing.assert_allclose(flat(after.networks.params), flat(expected), atol=2e-6)
    lagging = learning.polyak(state.critics_target, before.critics, 0.005)
    np.testing.assert_allclose(flat(after.critics_target), flat(lagging), rtol=1e-5, atol=1e-7)
    assert all(largest(part) > 0 for part in gradient if part is not None)
    if module is not ifql:  # no part of the policy's loss reaches the critics
        np.testing.assert_allclose(flat(gradient.critics), flat(alone), rtol=1e-4, atol=1e-6)


def test_distillation_clips_the_teacher_and_not_the_student():
    far = lambda x, t, s: 9.0 - x  # beyond 1 from anywhere near 0
    student = lambda z, s: jnp.full_like(z, 3.0)
    noise = 0.1 * jax.random.normal(KEY, (4, 2))
    loss, actions = fql.distillation_loss(student, far, jnp.zeros((4, 3)), noise, 1)
    assert (loss, actions[0, 0]) == ((3.0 - 1.0) ** 2, 3.0)


def test_distillation_follows_the_flow_from_the_same_noise_and_does_not_teach_it():
    state, _ = begun(fql)
    networks, s, z = state.networks.params, jnp.ones((5, 3)), jax.random.normal(KEY, (5, 2))
    to_flow = jax.grad(lambda flow: fql.distillation_loss(networks.policy, flow, s, z, 3)[0])(
        networks.flow
    )
    assert largest(to_flow) == 0
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


def test_fbrac_differentiates_through_all_its_steps():
    """Against central differences, along a random direction; one that stops at the last step is far off."""
    state, config = begun(fbrac, alpha=0.0, normalize_q=False, flow_steps=5, critic="plain")
    networks = state.networks.params

    @jax.jit
    @jax.value_and_grad
    def loss(flow):
        return fbrac.policy_loss(flow, networks.critics, DATA, KEY, config)[0]

    _, gradient = loss(networks.flow)
    keys = iter(jax.random.split(KEY, 100))
    way = jax.tree.map(lambda leaf: jax.random.normal(next(keys), leaf.shape), networks.flow)
    slope = float(flat(gradient) @ flat(way))
    by = lambda h: float(loss(jax.tree.map(lambda p, d: p + h * d, networks.flow, way))[0])
    np.testing.assert_allclose((by(2e-3) - by(-2e-3)) / 4e-3, slope, rtol=0.03)


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
    data = DATA
    if baseline == "network":
        v = before.value(data.observations)
    else:
        v = before.critics(
            data.observations, sample(before.flow, data.observations, key, 2, 3)
        ).mean(0)
    advantage = before.critics(data.observations, data.actions).mean(0) - v
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
    fixed = jax.grad(lambda flow: fawac.policy_loss(flow, before, DATA, KEY, config)[0])(
        before.flow
    )
    np.testing.assert_allclose(flat(to_all.flow), flat(fixed), rtol=1e-6)


def test_fawac_without_an_advantage_is_plain_imitation():
    def blind(networks):
        hidden = networks.critics.stacked.hidden[0].weight
        return networks._replace(
            critics=eqx.tree_at(
                lambda c: c.stacked.hidden[0].weight, networks.critics, hidden.at[:, 3:].set(0.0)
            )
        )

    _, loss, _, errors, _ = weighted(50.0, "policy", blind)
    np.testing.assert_allclose(loss, errors.mean(), rtol=1e-4)


def test_ifql_fits_v_to_the_least_target_and_q_to_v():
    state, config = begun(ifql, expectile=0.8)
    networks, data = state.networks.params, DATA
    u = state.critics_target(data.observations, data.actions).min(0) - networks.value(
        data.observations
    )
    expected = (jnp.where(u < 0, 0.2, 0.8) * u**2).mean()
    found, _ = iql.expectile_value_loss(
        networks.value, state.critics_target, data, config.expectile
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    y = data.rewards + 0.99 * networks.value(data.next_observations)
    q = networks.critics(data.observations, data.actions)
    expected = jnp.square(q[0] - y).mean() + jnp.square(q[1] - y).mean()
    found, _ = iql.value_backup_loss(networks.critics, networks.value, data, config.discount)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    backup = lambda v: iql.value_backup_loss(networks.critics, v, data, config.discount)[0]
    to_value = jax.grad(backup)(networks.value)
    assert largest(to_value) == 0


def test_ifql_takes_the_action_that_the_lesser_online_critic_likes_most():
    state, config = begun(ifql)
    s = DATA.observations
    critics, _, flow = state.networks.params
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


FIRST, SECOND = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0])


def chain(reward):
    """Two states in a row under actions from all over the square; the second ends with a reward."""
    grid = jnp.linspace(-1.0, 1.0, 6)
    actions = jnp.tile(jnp.stack(jnp.meshgrid(grid, grid), axis=-1).reshape(-1, 2), (2, 1))
    last = jnp.arange(len(actions)) >= len(actions) // 2
    s, following = jnp.where(last[:, None], SECOND, FIRST), jnp.where(last[:, None], FIRST, SECOND)
    rewards = jnp.where(last, reward(actions[:, 0]), 0.0)
    return Batch(s, actions, rewards, following, 1.0 - last)


@pytest.mark.parametrize("module", [fql, ifql], ids=lambda m: m.AGENT.name)
def test_values_of_a_known_chain(module):
    """Q(first) = γ where all actions end with 1; half of IFQL's end with 0, and the 0.8-expectile is 0.8."""
    fast = {"discount": 0.9, "learning_rate": 1e-2, "critic_target_rate": 0.2, "critic_width": 32}
    config = small(module, **fast, **({"expectile": 0.8} if module is ifql else {"flow_steps": 1}))
    data = chain(lambda a: (a > 0) * 1.0) if module is ifql else chain(jnp.ones_like)

    def step(state, key):
        return module.AGENT.update(state, data, key, config)[0], None

    state = module.init(KEY, SPEC, config)
    state = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(KEY, 500))[0])(state)
    q = state.networks.params.critics(data.observations, data.actions)[:, :36]
    np.testing.assert_allclose(q.mean(1), 0.72 if module is ifql else 0.9, atol=0.06)
