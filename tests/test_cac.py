"""CAC: the consistency function, its grid and curriculum, and what the agent's update does."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents import Acting, Batch, Spec
from bfq.agents import cac as module
from bfq.agents.registry import configure
from bfq.flow.few_steps import (
    c_out,
    c_skip,
    consistency_function,
    consistency_loss,
    grid_size,
    karras_time,
    multistep,
    neighboring_times,
    sampling_times,
)
from bfq.run import Member
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Program

AGENT = module.AGENT
SPEC = Spec(3, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32}


def test_the_function_is_the_identity_at_the_least_time_whatever_the_network():
    x = jax.random.normal(jax.random.key(0), (5, 2))
    found = consistency_function(lambda x, t: 100.0 + x, x, jnp.full(5, 0.002))
    np.testing.assert_allclose(found, x, atol=1e-6)
    assert float(c_skip(jnp.array(80.0))) == pytest.approx(0.25 / (79.998**2 + 0.25), rel=1e-5)
    assert float(c_out(jnp.array(80.0))) == pytest.approx(
        0.5 * 79.998 / math.sqrt(6400.25), rel=1e-5
    )


@pytest.mark.parametrize("size", [2, 3, 40, 150])
def test_the_grid_rises_from_the_least_time_to_the_most(size):
    t = np.asarray(karras_time(jnp.arange(size), size))
    np.testing.assert_allclose(t[[0, -1]], [0.002, 80.0], rtol=1e-4)
    assert (np.diff(t) > 0).all()
    if size == 3:
        assert t[1] == pytest.approx(((0.002 ** (1 / 7) + 80 ** (1 / 7)) / 2) ** 7, rel=1e-4)


@pytest.mark.parametrize("updates", [400, 50_000, 1_000_000])
def test_the_curriculum_is_the_formula_from_2_to_150(updates):
    ks = np.unique(np.linspace(0, updates, 300).astype(int))
    found = [int(n) for n in jax.vmap(lambda k: grid_size(k, updates))(jnp.asarray(ks, jnp.int32))]
    said = [math.ceil(math.sqrt(int(k) * (150**2 - 4) / updates + 4) - 1) + 1 for k in ks]
    assert found == said
    assert (found[0], found[-1]) == (2, 150)


def test_neighbors_are_neighbors_and_all_are_drawn():
    earlier, later = map(np.asarray, neighboring_times(jax.random.key(0), 500, jnp.int32(4)))
    grid = np.asarray(karras_time(jnp.arange(4), 4))
    pairs = {
        (np.abs(grid - a).argmin(), np.abs(grid - b).argmin())
        for a, b in zip(earlier, later, strict=True)
    }
    assert pairs == {(0, 1), (1, 2), (2, 3)}


def test_the_exact_function_of_a_point_has_no_loss():
    """All data are c: the path through x at time t began at c + (ε/t)(x − c)."""
    c, n = jnp.array([0.3, -0.7]), 64

    def exact(x, t):
        return c + (0.002 / t)[:, None] * (x - c)

    noise, action = jax.random.normal(jax.random.key(0), (n, 2)), jnp.tile(c, (n, 1))
    times = neighboring_times(jax.random.key(1), n, 10)
    assert float(consistency_loss(exact, exact, action, noise, *times, scaled=False)) < 1e-10

    def wrong(x, t):
        return exact(x, t) + t[:, None]

    gap = np.asarray(times[1] - times[0])
    plain, weighted = (
        consistency_loss(wrong, wrong, action, noise, *times, scaled=k) for k in (False, True)
    )
    np.testing.assert_allclose(plain, np.square(gap).mean(), rtol=1e-3)
    np.testing.assert_allclose(weighted, (100.0 * gap).mean(), rtol=1e-3)


def test_sampling_times():
    assert sampling_times(1) == (80.0,)
    assert sampling_times(1, literal=True) == (2.0,)
    assert sampling_times(2) == sampling_times(2, literal=True) == (80.0, 2.0)
    assert sampling_times(3) == (80.0, 41.0, 2.0)


def test_two_calls_are_what_they_say():
    noise, key = jax.random.normal(jax.random.key(0), (4, 2)), jax.random.key(1)
    seen = []

    def denoise(x, t):
        seen.append((x, float(t)))
        return 0.1 * x

    result = multistep(denoise, noise, sampling_times(2), key)
    np.testing.assert_allclose(seen[0][0], 80.0 * noise)
    fresh = jax.random.normal(jax.random.fold_in(key, 0), (4, 2))
    second = 8.0 * noise + math.sqrt(4.0 - 0.002**2) * fresh
    np.testing.assert_allclose(seen[1][0], second, rtol=1e-5)
    assert [t for _, t in seen] == [80.0, 2.0]
    np.testing.assert_allclose(result, 0.1 * second, rtol=1e-5)


def setup(**values):
    config = configure(AGENT, {**SMALL, **values})
    state = AGENT.init(jax.random.key(0), SPEC, config)
    keys = jax.random.split(jax.random.key(1), 4)
    batch = Batch(
        jax.random.normal(keys[0], (32, 3)),
        jnp.tanh(jax.random.normal(keys[1], (32, 2))),
        jax.random.normal(keys[2], (32,)),
        jax.random.normal(keys[3], (32, 3)),
        (jnp.arange(32) % 4 > 0).astype(jnp.float32),
    )
    return config, state, batch


def test_one_call_at_the_literal_time_saturates_and_at_the_right_one_does_not():
    """c_skip(2) · 80 ≈ 4.7, beyond the bounds for most noise; c_skip(80) · 80 ≈ 0.003."""
    assert float(80.0 * c_skip(jnp.array(2.0))) == pytest.approx(4.7, abs=0.05)
    saturated = []
    for literal in (True, False):
        config, state, _ = setup(consistency_steps=1, literal_one_step=literal)
        quiet = jax.tree.map(
            jnp.zeros_like, state.policy_target
        )  # what the skip connection does alone
        actions = module.sample(quiet, jnp.ones((2000, 3)), jax.random.key(0), config)
        saturated.append(float((jnp.abs(actions) == 1.0).mean()))
    assert saturated[0] > 0.8
    assert saturated[1] == 0.0


def test_the_gradient_goes_through_every_call():
    """Halving only the first call's output changes the gradient: it is no detached start."""
    _, state, batch = setup()
    noise, key = jax.random.normal(jax.random.key(2), (32, 2)), jax.random.key(3)

    def total(first, second):
        def denoise(x, t):
            return module.denoise(first if t == 80.0 else second, batch.observations)(x, t)

        return multistep(denoise, noise, sampling_times(2), key).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(state.policy.params, state.policy.params):
        assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) > 1e-4


def test_no_gradient_goes_to_the_teacher_or_to_targets():
    config, state, batch = setup(q_norm=True)

    def losses(parts):
        changed = state._replace(policy_target=parts[0], critics_target=parts[1])
        key = jax.random.key(2)
        q = module.critic_loss(state.critics.params, changed, batch, key, config)[0]
        teacher = module.imitation_loss(
            state.policy.params, parts[0], jnp.int32(9000), batch, key, config
        )
        return q + teacher

    gradient = jax.grad(losses)((state.policy_target, state.critics_target))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_the_curriculum_begins_again_unless_it_is_as_long_as_the_run():
    config, state, batch = setup(steps=1000, curriculum_updates=100)
    whole = configure(AGENT, {**SMALL, "steps": 1000, "curriculum_updates": 1000})

    def loss(step, config):
        params, target = state.policy.params, jax.tree.map(lambda p: 0.9 * p, state.policy_target)
        return float(
            module.imitation_loss(params, target, jnp.int32(step), batch, jax.random.key(0), config)
        )

    assert loss(0, config) == loss(100, config) == loss(900, config)
    assert loss(90, config) == loss(900, whole) != loss(900, config)


def reference_update(state, batch, key, c):
    """The update written out once more, with the agent's own keys and nothing of diffusion/ or learning.py."""
    critic_key, policy_key = jax.random.split(key)
    bc_key, action_key, pick_key = jax.random.split(policy_key, 3)
    noise_key, time_key = jax.random.split(bc_key)
    n, dim = batch.actions.shape

    def f(net, x, t, s):
        t = jnp.broadcast_to(t, len(s))
        skip, out = 0.25 / ((t - 0.002) ** 2 + 0.25), 0.5 * (t - 0.002) / jnp.sqrt(t**2 + 0.25)
        return skip[:, None] * x + out[:, None] * net(x, t, s)

    def act(net, s, key):
        first, chain = jax.random.split(key)
        x = f(net, 80.0 * jax.random.normal(first, (len(s), dim)), 80.0, s)
        again = jax.random.normal(jax.random.fold_in(chain, 0), x.shape)
        return jnp.clip(f(net, x + math.sqrt(4 - 0.002**2) * again, 2.0, s), -1, 1)

    many = jnp.repeat(batch.next_observations, c.backup_samples, axis=0)
    q_next = state.critics_target(many, act(state.policy_target, many, critic_key))
    q_next = q_next.reshape(2, n, c.backup_samples).max(-1).min(0)
    y = batch.rewards + c.discount * batch.masks * q_next
    y = y / (jnp.sqrt(((y - y.mean()) ** 2).sum() / (n - 1)) + 1e-6)

    def clipped(gradient, bound):
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda g: g * jnp.minimum(1.0, bound / norm), gradient), norm

    def first_step(params, gradient, rate, bound):
        gradient, norm = clipped(gradient, bound)
        return jax.tree.map(lambda p, g: p - rate * g / (jnp.abs(g) + 1e-8), params, gradient), norm

    def q_loss(critics):
        return ((critics(batch.observations, batch.actions) - y) ** 2).mean(1).sum()

    gradient = jax.grad(q_loss)(state.critics.params)
    critics, _ = first_step(
        state.critics.params, gradient, c.critic_learning_rate, c.critic_clip_norm
    )

    size = math.ceil(math.sqrt(c.start % 50 * (150**2 - 4) / 50 + 4) - 1) + 1
    i = jax.random.randint(time_key, (n,), 0, size - 1)
    low, high = 0.002 ** (1 / 7), 80 ** (1 / 7)
    t, later = ((low + k / (size - 1) * (high - low)) ** 7 for k in (i, i + 1))
    z, s, a = jax.random.normal(noise_key, (n, dim)), batch.observations, batch.actions

    def pi_loss(net):
        error = f(net, a + later[:, None] * z, later, s) - f(
            state.policy_target, a + t[:, None] * z, t, s
        )
        bc = (100 / (later - t)[:, None] * error**2).mean()
        q = critics(s, act(net, s, action_key))
        size = jax.lax.stop_gradient(jnp.abs(q).mean(1))
        k = jnp.where(jax.random.bernoulli(pick_key), 0, 1)
        return bc - c.eta * q.mean(1)[k] / size[1 - k]

    gradient = jax.grad(pi_loss)(state.policy.params)
    return first_step(state.policy.params, gradient, c.learning_rate, c.clip_norm)[0], critics


def test_an_update_is_what_the_equations_say():
    values = {"learning_rate": 1e-2, "critic_learning_rate": 3e-3, "eta": 2.0, "q_norm": True,
              "backup_samples": 3, "clip_norm": 1e-3, "critic_clip_norm": 1e-3,
              "curriculum_updates": 50}  # fmt: skip
    config, state, batch = setup(**values)
    other = AGENT.init(
        jax.random.key(5), SPEC, config
    )  # targets that are not copies of the online networks
    state = state._replace(
        policy_target=other.policy_target, critics_target=other.critics_target, step=jnp.int32(57)
    )
    after, _ = jax.jit(AGENT.update)(state, batch, jax.random.key(7), config)

    class Given:
        start = 57
        discount = 0.99

    for name, value in values.items():
        setattr(Given, name, value)
    policy, critics = jax.jit(lambda s, b: reference_update(s, b, jax.random.key(7), Given))(
        state, batch
    )
    for found, expected in ((after.policy.params, policy), (after.critics.params, critics)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            # Adam's first step is almost the sign of the gradient: where that is tiny, rounding decides it.
            assert np.mean(np.abs(a - b) > 1e-4) < 0.02


def test_acting_obeys_policy_temperature_and_number_of_calls():
    config, state, _ = setup()
    other = AGENT.init(jax.random.key(9), SPEC, config)
    state = state._replace(policy_target=other.policy_target)
    s, key = jnp.ones((100, 3)), jax.random.key(0)
    ways = {"policy": "online"}, {"sampling_steps": 1}, {"sampling_steps": 3}
    usual = AGENT.act(state, s, key, config, Acting())
    for way in ways:
        assert not np.allclose(usual, AGENT.act(state, s, key, config, Acting(**way)))
    cold = AGENT.act(state, s, key, config, Acting(temperature=0.0, sampling_steps=1))
    assert float(cold.std(0).max()) < 1e-6


def chain():
    """0 → 1 → end with reward 1 on the last step, and 2, which pays 1 for ever. γ = 0.9: Q = 0.9, 1, 10."""
    rng, n = np.random.default_rng(0), 600
    where = np.arange(n) % 3
    arrays = {
        "observations": np.eye(3)[where],
        "actions": rng.uniform(-1, 1, (n, 2)),
        "next_observations": np.eye(3)[np.array([1, 1, 2])[where]],
        "rewards": np.array([0.0, 1.0, 1.0])[where],
        "masks": np.array([1, 0, 1])[where],
    }
    return {name: value.astype(np.float32) for name, value in arrays.items()}


@pytest.mark.slow
def test_critics_find_the_known_values_of_a_small_mdp():
    config = configure(
        AGENT,
        {**SMALL, "discount": 0.9, "critic_target_rate": 0.05, "steps": 1500, "critic_learning_rate": 1e-2,
         "schedule": "cosine", "policy_target_start": 0, "consistency_steps": 1},
    )  # fmt: skip
    population = create_population(AGENT, config, [Member(0, {})])
    state, _ = Program(population, 1500)(
        initial_states(population, SPEC), pack(chain()), jnp.int32(0)
    )
    critics = jax.tree.map(lambda leaf: leaf[0], state.critics.params)
    actions = jax.random.uniform(jax.random.key(0), (50, 2), minval=-1.0)
    for k, value in enumerate([0.9, 1.0, 10.0]):
        q = critics(jnp.tile(jnp.eye(3)[k], (50, 1)), actions)
        np.testing.assert_allclose(q.mean(), value, rtol=0.06, atol=0.05)


def test_strong_guidance_raises_the_value_of_the_policys_actions():
    config, state, batch = setup(eta=500.0, learning_rate=1e-3, policy_target_start=0)

    def value(policy):
        actions = module.sample(policy, batch.observations, jax.random.key(3), config)
        return float(state.critics.params(batch.observations, actions).mean())

    before, moved, update = value(state.policy.params), state, jax.jit(AGENT.update)
    for k in range(10):
        moved = update(moved._replace(critics=state.critics), batch, jax.random.key(k), config)[0]
    assert value(moved.policy.params) > before
