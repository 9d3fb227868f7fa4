"""BFQ itself: what its update does, and that it finds known values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents import Acting, Batch, Spec
from bfq.agents import bfq as module
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput
from bfq.flow.maps import one_step
from bfq.run import Member
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Program

AGENT = get_agent("bfq")
SPEC = Spec(3, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32}


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


def policy_gradient(state, batch, config, critics):
    gradient = jax.grad(
        lambda p: module.policy_loss(p, critics, batch, jax.random.key(2), config)[0]
    )
    return jax.tree.leaves(gradient(state.policy.params))


def scaled_by_ten(critics):
    output = critics.stacked.output
    import equinox as eqx

    return eqx.tree_at(
        lambda c: (c.stacked.output.weight, c.stacked.output.bias),
        critics,
        (10 * output.weight, 10 * output.bias),
    )


@pytest.mark.parametrize("how", ["random", "mean"])
def test_ten_times_the_critics_leave_the_actors_gradient_unchanged(how):
    config, state, batch = setup(guidance=how, eta=2.0)
    critics = state.critics.params
    plain = policy_gradient(state, batch, config, critics)
    tenfold = policy_gradient(state, batch, config, scaled_by_ten(critics))
    without = policy_gradient(state, batch, configure(AGENT, {**SMALL, "eta": 0.0}), critics)
    assert any(np.abs(a - b).max() > 1e-4 for a, b in zip(plain, without, strict=True))
    for a, b in zip(plain, tenfold, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_squares_summed_and_q_as_it_is_are_the_mean_ones_in_other_units():
    """Divided by an action's dimensions, the loss is that of normalized guidance with η E|Q| / dimensions."""
    config, state, batch = setup(guidance="unnormalized", squares="sum", eta=0.3)
    critics, key = state.critics.params, jax.random.key(2)
    noise = jax.random.normal(jax.random.split(key, 3)[1], batch.actions.shape)
    actions = jnp.clip(one_step(state.policy.params, noise, batch.observations), -1.0, 1.0)
    size = float(jnp.abs(critics(batch.observations, actions).mean(0)).mean())
    assert size > 1e-3
    other, _, _ = setup(guidance="mean", eta=0.3 * size / SPEC.action_dim)
    found = policy_gradient(state, batch, config, critics)
    wanted = policy_gradient(state, batch, other, critics)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a / SPEC.action_dim, b, rtol=2e-4, atol=2e-6)


def test_the_critic_step_sends_nothing_to_policy_or_targets():
    config, state, batch = setup()

    def loss(parts):
        changed = state._replace(policy_target=parts[0], critics_target=parts[1])
        return module.critic_loss(state.critics.params, changed, batch, jax.random.key(2), config)[
            0
        ]

    gradient = jax.grad(loss)((state.policy_target, state.critics_target))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_targets_move_at_their_own_rates_and_times():
    config, state, batch = setup(
        critic_target_rate=0.1, policy_target_rate=0.2, policy_target_every=2, policy_target_start=2
    )
    update = jax.jit(AGENT.update)
    for step in range(6):
        after, _ = update(state, batch, jax.random.key(step), config)
        moved = step >= 2 and step % 2 == 0
        policies = zip(*map(jax.tree.leaves, (state.policy_target, after.policy.params, after.policy_target)),
                       strict=True)  # fmt: skip
        for old, online, new in policies:
            np.testing.assert_allclose(
                new, 0.8 * old + 0.2 * online if moved else old, rtol=1e-5, atol=1e-6
            )
        networks = (state.critics_target, after.critics.params, after.critics_target)
        critics = zip(*map(jax.tree.leaves, networks), strict=True)
        for old, online, new in critics:
            np.testing.assert_allclose(new, 0.9 * old + 0.1 * online, rtol=1e-5, atol=1e-6)
        state = after


def test_the_policys_weights_decay_apart_from_adam_and_the_critics_do_not():
    config, state, batch = setup(learning_rate=1e-2, schedule="constant", weight_decay=0.5)
    update, without = jax.jit(AGENT.update), configure(AGENT, {**SMALL, "learning_rate": 1e-2})
    after, _ = update(state, batch, jax.random.key(0), config)
    plain, _ = update(state, batch, jax.random.key(0), without)
    networks = (state.policy.params, after.policy.params, plain.policy.params)
    for old, decayed, kept in zip(*map(jax.tree.leaves, networks), strict=True):
        np.testing.assert_allclose(decayed, kept - 1e-2 * 0.5 * old, atol=1e-6)
    for a, b in zip(
        *map(jax.tree.leaves, (after.critics.params, plain.critics.params)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_cosine_schedule_ends_in_standstill():
    config, state, batch = setup(steps=3, critic_target_rate=1.0)
    state = state._replace(step=jnp.int32(3))
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(0), config)
    for a, b in zip(*map(jax.tree.leaves, (state.policy.params, after.policy.params)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_the_critics_may_have_a_constant_rate_of_their_own():
    config, state, batch = setup(steps=3, critic_learning_rate=1e-2, constant_critic_rate=True)
    late, update = (
        state._replace(step=jnp.int32(3)),
        jax.jit(AGENT.update),
    )  # where the policy stands still
    after, _ = update(late, batch, jax.random.key(0), config)
    usual, _ = update(
        state, batch, jax.random.key(0), configure(AGENT, {**SMALL, "learning_rate": 1e-2})
    )
    for a, b in zip(*map(jax.tree.leaves, (late.policy.params, after.policy.params)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    for a, b in zip(
        *map(jax.tree.leaves, (after.critics.params, usual.critics.params)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_acting_uses_ema_or_online_and_its_temperature():
    config, state, _ = setup()
    other = AGENT.init(jax.random.key(9), SPEC, config)
    state = state._replace(policy_target=other.policy_target)
    s, key = jnp.ones((200, 3)), jax.random.key(0)
    ema, online = (AGENT.act(state, s, key, config, Acting(policy=p)) for p in ("ema", "online"))
    assert not np.allclose(ema, online)
    cold = AGENT.act(state, s, key, config, Acting(temperature=0.0))
    assert float(cold.std(0).max()) < 1e-6
    assert float(ema.std(0).max()) > 0.1


def chain():
    """Three states: 0 → 1 → end with reward 1 on the last step, and 2, which pays 1 for ever (logged with
    time-outs, so its mask stays 1). With γ = 0.9: Q = 0.9, 1, 10 whatever the action.
    """
    rng = np.random.default_rng(0)
    n = 600
    where = np.arange(n) % 3
    follows, mask = np.array([1, 1, 2])[where], np.array([1, 0, 1])[where]
    return {
        "observations": np.eye(3, dtype=np.float32)[where],
        "actions": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "next_observations": np.eye(3, dtype=np.float32)[follows],
        "rewards": np.array([0.0, 1.0, 1.0], np.float32)[where],
        "masks": mask.astype(np.float32),
    }


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["min", "mean"])
def test_critics_find_the_known_values_of_a_small_mdp(aggregation):
    config = configure(
        AGENT,
        {**SMALL, "aggregation": aggregation, "discount": 0.9, "critic_target_rate": 0.05, "steps": 3000,
         "learning_rate": 3e-3, "architecture": "raw_time", "policy_target_start": 0},
    )  # fmt: skip
    population = create_population(AGENT, config, [Member(0, {})])
    state, _ = Program(population, 3000)(
        initial_states(population, SPEC), pack(chain()), jnp.int32(0)
    )
    critics = jax.tree.map(lambda leaf: leaf[0], state.critics.params)
    actions = jax.random.uniform(jax.random.key(0), (50, 2), minval=-1.0)
    for k, value in enumerate([0.9, 1.0, 10.0]):
        q = critics(jnp.tile(jnp.eye(3)[k], (50, 1)), actions)
        np.testing.assert_allclose(q.mean(), value, rtol=0.06, atol=0.05)


def reference_update(state, batch, key, c):
    """The update written out once more from the paper's equations, with the agent's own keys.

    Nothing of flow/ or learning.py is used; Adam's first step is −rate · sign-like m̂/(√v̂ + ε).
    """
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

    def first_step(params, gradient):
        return jax.tree.map(
            lambda p, g: p - c.learning_rate * g / (jnp.abs(g) + 1e-8), params, gradient
        )

    critics = first_step(state.critics.params, jax.grad(q_loss)(state.critics.params))

    eps = jax.random.normal(noise_key, (n, dim))
    half = n // 2
    u, w = jax.random.uniform(bnd_key, (2, half)), jax.random.uniform(comp_key, (3, n - half))
    s, a = batch.observations, batch.actions

    def pi_loss(net):
        t = u[0]
        x = (1 - t)[:, None] * a[:half] + t[:, None] * eps[:half]
        bnd = (
            (net(x, jnp.maximum(t - c.max_offset * u[1], 0), t, s[:half]) - (eps - a)[:half]) ** 2
        ).mean()
        t = w[0]
        r = w[1] * jnp.maximum(t - c.max_offset, 0)
        m = r + w[2] * (t - r)
        x = (1 - t)[:, None] * a[half:] + t[:, None] * eps[half:]
        frozen = jax.lax.stop_gradient(net)
        middle = x - (t - m)[:, None] * frozen(x, m, t, s[half:])
        end = middle - (m - r)[:, None] * frozen(middle, r, m, s[half:])
        errors = (x - (t - r)[:, None] * net(x, r, t, s[half:]) - end) ** 2
        errors = errors.mean(1) / jnp.maximum(t - r, 0.01) ** c.composition_power
        c_huber = c.composition_huber
        comp = (
            c.composition_weight
            * (jnp.sqrt(errors + c_huber**2) - c_huber if c_huber else errors).mean()
        )
        q = critics(s, act(net, s, jax.random.normal(action_key, (n, dim))))
        size = jax.lax.stop_gradient(jnp.abs(q).mean(1)) + 1e-6
        k = jnp.where(jax.random.bernoulli(pick_key), 0, 1)
        value = q.mean(1)[k] / size[1 - k]
        return c.boundary_ratio * bnd + (1 - c.boundary_ratio) * comp - c.eta * value

    policy = first_step(state.policy.params, jax.grad(pi_loss)(state.policy.params))
    return policy, critics, y


@pytest.mark.parametrize(
    "changes",
    [
        {"eta": 2.0, "boundary_ratio": 0.3, "max_offset": 0.1, "backup_samples": 3},
        {
            "eta": 0.7,
            "aggregation": "mean",
            "architecture": "raw_time",
            "critic": "plain",
            "discount": 0.5,
        },
        {"composition_power": 3.0, "composition_weight": 4.0, "composition_huber": 0.1},
        {"composition_power": 2.0, "composition_weight": 0.5},
    ],
)
def test_an_update_is_what_the_equations_say(changes):
    config, state, batch = setup(schedule="constant", learning_rate=1e-2, **changes)
    other = AGENT.init(
        jax.random.key(5), SPEC, config
    )  # targets that are not copies of the online networks
    state = state._replace(policy_target=other.policy_target, critics_target=other.critics_target)
    batch = batch._replace(masks=(jnp.arange(32) % 4 > 0).astype(jnp.float32))
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(7), config)
    policy, critics, _ = jax.jit(lambda s, b: reference_update(s, b, jax.random.key(7), config))(
        state, batch
    )
    for found, expected in ((after.policy.params, policy), (after.critics.params, critics)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            # Adam's first step is almost the sign of the gradient: where that is tiny, rounding decides it.
            assert np.mean(np.abs(a - b) > 1e-4) < 0.01


def test_members_of_a_population_may_measure_the_composition_error_in_their_own_way():
    """One program with two members, against a run of each; the switches are off by default."""
    overrides = [{}, {"composition_power": 3.0, "composition_weight": 4.0}]

    def trained(members, **values):
        population = create_population(AGENT, configure(AGENT, {**SMALL, **values}), members)
        states, _ = Program(population, 5)(
            initial_states(population, SPEC), pack(chain()), jnp.int32(0)
        )
        return jax.tree.leaves(states.policy.params)

    both = trained([Member(0, values) for values in overrides])
    for k, values in enumerate(overrides):
        for a, b in zip(both, trained([Member(0, {})], **values), strict=True):
            np.testing.assert_allclose(a[k], b[0], atol=1e-5)


@pytest.mark.parametrize("name", ["composition_power", "composition_weight", "composition_huber"])
def test_how_the_composition_error_is_measured_has_no_negative_number(name):
    with pytest.raises(BadInput, match=name):
        configure(AGENT, {name: -0.1})


def test_the_bound_penalty_pulls_proposals_inside():
    config, state, batch = setup(eta=0.0)
    loud = jax.tree.map(lambda p: 5.0 * p, state.policy.params)

    def loss(weight):
        changed = configure(AGENT, {**SMALL, "eta": 0.0, "bound_penalty": weight})
        return module.policy_loss(loud, state.critics.params, batch, jax.random.key(2), changed)[0]

    action_key = jax.random.split(jax.random.key(2), 3)[1]
    noise = jax.random.normal(action_key, batch.actions.shape)
    proposed = one_step(loud, noise, batch.observations)
    expected = jnp.maximum(proposed - 1, 0).mean() + jnp.maximum(-1 - proposed, 0).mean()
    assert expected > 0.1
    np.testing.assert_allclose(loss(2.0) - loss(0.0), 2.0 * expected, rtol=1e-3)


def test_strong_guidance_raises_the_value_of_the_policys_actions():
    config, state, batch = setup(
        eta=50.0, learning_rate=1e-3, schedule="constant", policy_target_start=0
    )

    def value(policy):
        actions = module.sample(policy, batch.observations, jax.random.key(3), config, 1.0)
        return float(state.critics.params(batch.observations, actions).mean())

    before, moved = value(state.policy.params), state
    update = jax.jit(AGENT.update)
    for k in range(5):
        moved = update(moved._replace(critics=state.critics), batch, jax.random.key(k), config)[0]
    assert value(moved.policy.params) > before
