"""BFQ itself: its update is what the paper's equations say, and what its switches do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import (
    KEY,
    SPEC,
    assert_close,
    assert_mostly_close,
    chain,
    first_step,
    leaves,
    setup,
    shaken,
    small,
    trained,
)

from bfq.agents import bfq as module
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput
from bfq.flow.maps import COMPOSITION_TIMES, boundary_times, noisy_action, one_step
from bfq.run import Member

AGENT = get_agent("bfq")


GUIDED = jax.random.key(2)


@jax.jit
def policy_gradient(state, batch, config):
    loss = lambda p: module.policy_loss(p, state.critics.params, batch, GUIDED, config)[0]
    return jax.grad(loss)(state.policy.params)


def test_summed_squares_and_unnormalized_q_are_the_mean_ones_in_other_units():
    """Divided by an action's dimensions, the loss is that of normalized guidance with η E|Q| / dimensions."""
    config, state, batch = setup("bfq", guidance="unnormalized", squares="sum", eta=0.3)
    noise = jax.random.normal(jax.random.split(GUIDED, 3)[1], batch.actions.shape)
    actions = jnp.clip(one_step(state.policy.params, noise, batch.observations), -1.0, 1.0)
    size = float(jnp.abs(state.critics.params(batch.observations, actions).mean(0)).mean())
    assert size > 1e-3
    other = small("bfq", guidance="mean", eta=0.3 * size / SPEC.action_dim)
    found = policy_gradient(state, batch, config)
    found = jax.tree.map(lambda g: g / SPEC.action_dim, found)
    assert_close(found, policy_gradient(state, batch, other), rtol=2e-4, atol=2e-6)


def test_the_cosine_ends_at_zero_and_the_critics_may_have_a_constant_rate():
    own = {"critic_learning_rate": 1e-2, "constant_critic_rate": True}
    config, state, batch = setup("bfq", steps=3, critic_target_rate=1.0, **own)
    update = jax.jit(AGENT.update)
    last, _ = update(state._replace(step=jnp.int32(3)), batch, KEY, config)
    first, _ = update(state, batch, KEY, small("bfq", learning_rate=1e-2, critic_target_rate=1.0))
    assert_close(last.policy.params, state.policy.params, atol=1e-7)
    assert_close(last.critics.params, first.critics.params)


def apart(policy, critics, batch, key, c):
    """The policy's loss with a network call for each of its terms."""
    bc_key, action_key, critic_key = jax.random.split(key, 3)
    noise_key, near_key, span_key, *_ = jax.random.split(bc_key, 5)
    (a, s), n = (batch.actions, batch.observations), len(batch.actions)
    eps, noise = (jax.random.normal(k, a.shape) for k in (noise_key, action_key))
    near = boundary_times(near_key, n, c.max_offset)
    r, _, t = times = COMPOSITION_TIMES["nested"](span_key, n, c.max_offset)
    a_t = noisy_action(a, eps, t)
    target = module.composed_displacement(policy, policy, a_t, times, s, c)
    boundary = module.boundary_loss(a, eps, *near, s, c).alone(policy)
    composition = module.composition_loss(a_t, target, r, t, s, c).alone(policy)
    value, *_ = module.guidance(critics, noise, s, critic_key, c).alone(policy)
    loss = c.boundary_ratio * boundary + (1 - c.boundary_ratio) * composition - c.eta * value
    return loss, (boundary, composition)


@pytest.mark.parametrize("architecture", ["embedded", "residual", "raw_time"])
def test_the_terms_have_the_same_values_and_gradients_together_and_apart(architecture):
    values = {"mixing": "both", "boundary_ratio": 0.3, "eta": 0.5, "max_offset": 0.1}
    config, state, batch = setup("bfq", architecture=architecture, **values)
    policy, critics, key = shaken(state.policy.params), state.critics.params, jax.random.key(3)

    def loss(kind):
        with_gradient = jax.value_and_grad(kind, has_aux=True)
        return jax.jit(with_gradient)(policy, critics, batch, key, config)

    (fused, parts), gradient = loss(module.policy_loss)
    (separate, terms), expected = loss(apart)
    found = [fused, parts["boundary_loss"], parts["composition_loss"]]
    np.testing.assert_allclose(found, [separate, *terms], rtol=1e-5)
    assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


def reference_update(state, batch, key, c):
    """The update once more from the paper's equations, with its own keys; nothing of flow/ or learning.py."""
    critic_key, policy_key = jax.random.split(key)
    bc_key, action_key, pick_key = jax.random.split(policy_key, 3)
    noise_key, bnd_key, comp_key, _, _ = jax.random.split(bc_key, 5)
    n, dim = batch.actions.shape

    def act(net, s, noise):
        ones = jnp.ones(len(s))
        return jnp.clip(noise - net(noise, 0 * ones, ones, s), -1, 1)

    many = jnp.repeat(batch.next_observations, c.backup_samples, axis=0)
    next_actions = act(state.policy_target, many, jax.random.normal(critic_key, (len(many), dim)))
    q_next = state.critics_target(many, next_actions).reshape(2, n, c.backup_samples).max(-1)
    q_next = q_next.min(0) if c.aggregation == "min" else q_next.mean(0)
    y = batch.rewards + c.discount * batch.masks * q_next

    def q_loss(critics):
        q = critics(batch.observations, batch.actions)
        return ((q[0] - y) ** 2).mean() + ((q[1] - y) ** 2).mean()

    gradient = jax.grad(q_loss)(state.critics.params)
    critics = first_step(state.critics.params, gradient, c.learning_rate)

    eps = jax.random.normal(noise_key, (n, dim))
    half = n // 2
    u, w = jax.random.uniform(bnd_key, (2, half)), jax.random.uniform(comp_key, (3, n - half))
    s, a = batch.observations, batch.actions

    def pi_loss(net):
        t = u[0]
        x = (1 - t)[:, None] * a[:half] + t[:, None] * eps[:half]
        r = jnp.maximum(t - c.max_offset * u[1], 0)
        bnd = ((net(x, r, t, s[:half]) - (eps - a)[:half]) ** 2).mean()
        t = w[0]
        r = w[1] * jnp.maximum(t - c.max_offset, 0)
        m = r + w[2] * (t - r)
        x = (1 - t)[:, None] * a[half:] + t[:, None] * eps[half:]
        frozen = jax.lax.stop_gradient(net)
        middle = x - (t - m)[:, None] * frozen(x, m, t, s[half:])
        end = middle - (m - r)[:, None] * frozen(middle, r, m, s[half:])
        errors = (x - (t - r)[:, None] * net(x, r, t, s[half:]) - end) ** 2
        errors = errors.mean(1) / jnp.maximum(t - r, 0.01) ** c.composition_power
        huber = c.composition_huber
        errors = jnp.sqrt(errors + huber**2) - huber if huber else errors
        comp = c.composition_weight * errors.mean()
        q = critics(s, act(net, s, jax.random.normal(action_key, (n, dim))))
        size = jax.lax.stop_gradient(jnp.abs(q).mean(1)) + 1e-6
        k = jnp.where(jax.random.bernoulli(pick_key), 0, 1)
        value = q.mean(1)[k] / size[1 - k]
        return c.boundary_ratio * bnd + (1 - c.boundary_ratio) * comp - c.eta * value

    gradient = jax.grad(pi_loss)(state.policy.params)
    return first_step(state.policy.params, gradient, c.learning_rate), critics


@pytest.mark.parametrize(
    "changes",
    [
        {"eta": 2.0, "boundary_ratio": 0.3, "max_offset": 0.1, "backup_samples": 3},
        {"eta": 0.7, "aggregation": "mean", "architecture": "raw_time", "critic": "plain", "discount": 0.5},
        {"composition_power": 3.0, "composition_weight": 4.0, "composition_huber": 0.1},
        {"composition_power": 2.0, "composition_weight": 0.5},
    ],
)  # fmt: skip
def test_an_update_is_what_the_equations_say(changes):
    config, state, batch = setup("bfq", schedule="constant", learning_rate=1e-2, **changes)
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(7), config)
    expected = jax.jit(reference_update)(state, batch, jax.random.key(7), config)
    assert_mostly_close((after.policy.params, after.critics.params), expected)


def test_members_of_a_population_may_measure_the_composition_error_in_their_own_way():
    """One program with two members, against a run of each; the switches are off by default."""
    changes = [{}, {"composition_power": 3.0, "composition_weight": 4.0}]
    both = trained("bfq", chain(), small("bfq", steps=5), [Member(0, values) for values in changes])
    for k, values in enumerate(changes):
        alone = trained("bfq", chain(), small("bfq", steps=5, **values))
        for a, b in zip(leaves(both.policy.params), leaves(alone.policy.params), strict=True):
            np.testing.assert_allclose(a[k], b[0], atol=1e-5)


@pytest.mark.parametrize("name", ["composition_power", "composition_weight", "composition_huber"])
def test_the_measure_of_the_composition_error_has_no_negative_number(name):
    with pytest.raises(BadInput, match=name):
        configure(AGENT, {name: -0.1})


def test_the_bound_penalty_pulls_proposals_inside():
    _, state, batch = setup("bfq")
    loud, key = jax.tree.map(lambda p: 5.0 * p, state.policy.params), jax.random.key(2)

    def loss(weight):
        config = small("bfq", eta=0.0, bound_penalty=weight)
        return module.policy_loss(loud, state.critics.params, batch, key, config)[0]

    noise = jax.random.normal(jax.random.split(key, 3)[1], batch.actions.shape)
    proposed = one_step(loud, noise, batch.observations)
    expected = jnp.maximum(proposed - 1, 0).mean() + jnp.maximum(-1 - proposed, 0).mean()
    assert expected > 0.1
    np.testing.assert_allclose(loss(2.0) - loss(0.0), 2.0 * expected, rtol=1e-3)
