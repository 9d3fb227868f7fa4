"""SRPO: three phases, and a surrogate whose gradient is σ² ε̂ − β ∇Q."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import agent_cases as cases
from tests.agent_cases import (
    assert_close,
    assert_mixed,
    assert_mostly_close,
    first_step,
    largest,
    same,
)

from bfq.agents import srpo as module
from bfq.agents.contract import Acting, Batch
from bfq.agents.learning import Learner
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

AGENT = get_agent("srpo")
NETWORKS = ("behavior", "value", "critics", "critics_target", "policy")


def setup(**changes):
    return cases.setup(
        "srpo", behavior_depth=1, **{"width": 8, "critic_width": 8, "steps": 9, **changes}
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_the_surrogates_gradient_is_the_closed_form(normalize):
    config, state, batch = setup(beta=0.7, normalize_gradient=normalize)
    key, s = jax.random.key(2), batch.observations

    def loss(a):
        return module.policy_loss(lambda _: a, state, batch, key, config)[0]

    found = jax.jit(jax.grad(loss))(batch.actions)
    time_key, noise_key = jax.random.split(key)
    t = np.asarray(jax.random.uniform(time_key, (32,), minval=0.02, maxval=0.98))
    assert t.min() >= 0.02
    assert t.max() <= 0.98
    log_alpha = -(t**2) * 19.9 / 4 - 0.05 * t
    alpha, sigma = np.exp(log_alpha)[:, None], np.sqrt(1 - np.exp(2 * log_alpha))[:, None]
    z = jax.random.normal(noise_key, batch.actions.shape)
    score = state.behavior.params(
        alpha * batch.actions + sigma * z, jnp.asarray(t), s
    )  # no key: no dropout
    g = (
        sum(
            jax.grad(lambda a, k=k: state.critics_target(s, a)[k].sum())(batch.actions)
            for k in range(2)
        )
        / 2
    )
    g = g / jnp.sqrt((g**2).mean(-1, keepdims=True)) if normalize else g
    np.testing.assert_allclose(32 * found, sigma**2 * score - 0.7 * g, rtol=2e-3, atol=1e-5)
    # through a network: the same direction, carried by its Jacobian
    pi = state.policy.params
    a, pull_back = jax.vjp(lambda p: p(s), pi)
    direction = jax.grad(lambda x: module.policy_loss(lambda _: x, state, batch, key, config)[0])(a)
    (expected,) = pull_back(direction)
    gradient = jax.grad(lambda p: module.policy_loss(p, state, batch, key, config)[0])(pi)
    assert_close(gradient, expected, rtol=1e-3)


def test_the_normalized_gradient_has_unit_size_in_each_row_and_survives_zero():
    slopes = jnp.array([[3.0, -4.0], [1e-3, 0.0], [0.0, 0.0]])
    critics = lambda s, a: jnp.stack([(slopes * a).sum(-1), 3 * (slopes * a).sum(-1)])
    g, _ = module.q_gradient(critics, jnp.zeros((3, 1)), jnp.ones((3, 2)), True)
    np.testing.assert_allclose(jnp.square(g).mean(-1), [1.0, 1.0, 0.0], rtol=1e-5)
    plain, q = module.q_gradient(critics, jnp.zeros((3, 1)), jnp.ones((3, 2)), False)
    np.testing.assert_allclose(plain, 2 * slopes)
    np.testing.assert_allclose(q, 2 * slopes.sum() / 3, rtol=1e-6)


def test_the_policy_step_sends_nothing_to_behavior_or_critics():
    config, state, batch = setup()

    def loss(parts):
        changed = state._replace(behavior=Learner(parts[0], None), critics_target=parts[1])
        return module.policy_loss(state.policy.params, changed, batch, jax.random.key(0), config)[0]

    gradient = jax.jit(jax.grad(loss))((state.behavior.params, state.critics_target))
    assert largest(gradient) == 0.0


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_the_policy_finds_the_optimum_of_gaussian_behavior_and_quadratic_q(beta):
    """For a ~ N(μ, s²), E ε̂ = σα (a − μ)/(α²s² + σ²), so with Q = −½ k (a − c)² the policy stands where
    C (a − μ) + βk (a − c) = 0, C = E_t σ³α/(α²s² + σ²), t ~ U(0.02, 0.98).
    """
    mu, s, k, c, n = 0.2, 0.3, 0.8, -0.6, 4096
    t = np.linspace(0.02, 0.98, 20_001)
    log_alpha = -(t**2) * 19.9 / 4 - 0.05 * t
    alpha, sigma = np.exp(log_alpha), np.sqrt(1 - np.exp(2 * log_alpha))
    pull = np.trapezoid(sigma**3 * alpha / (alpha**2 * s**2 + sigma**2), t) / 0.96
    optimum = (pull * mu + beta * k * c) / (pull + beta * k)

    def exact(noisy, t, observations, key=None):
        alpha, sigma = (x[:, None] for x in module.vp_sde(t))
        return sigma * (noisy - alpha * mu) / (alpha**2 * s**2 + sigma**2)

    critics = lambda o, a: -0.5 * k * jnp.square(a - c).sum(-1)[None].repeat(2, 0)
    zeros = jnp.zeros((n, 1))
    batch = Batch(zeros, zeros, zeros[:, 0], zeros, zeros[:, 0])

    def descend(subtract):
        config, state, _ = setup(beta=beta, subtract_noise=subtract)
        state = state._replace(behavior=Learner(exact, None), critics_target=critics)

        def gradient(a, key):
            return jax.grad(
                lambda x: module.policy_loss(lambda _: zeros + x, state, batch, key, config)[0]
            )(a)

        def step(a, i):
            return a - 1.0 / (1 + 0.1 * i) * gradient(
                a, jax.random.fold_in(jax.random.key(0), i)
            ), None

        found = jax.lax.scan(step, jnp.float32(0.9), jnp.arange(200))[0]
        at_optimum = jax.vmap(lambda key: gradient(optimum, key))(
            jax.random.split(jax.random.key(1), 64)
        )
        return found, at_optimum.mean(), at_optimum.std()

    plain, quiet = jax.jit(lambda: (descend(False), descend(True)))()
    np.testing.assert_allclose([plain[0], quiet[0]], optimum, atol=0.02)
    np.testing.assert_allclose([plain[1], quiet[1]], 0.0, atol=0.01)
    assert quiet[2] < plain[2]


def reference_critics(state, batch, c):
    """ψ and φ after one step, both from what V and Q′ were before; Adam's first step."""
    b = jax.tree.map(lambda x: x[: c.critic_batch_size], batch)
    y = b.rewards + c.discount * b.masks * state.value.params(b.next_observations)
    q_data = state.critics_target(b.observations, b.actions).min(0)

    def v_loss(net):
        u = q_data - net(b.observations)
        return (jnp.abs(c.expectile - (u < 0)) * u**2).mean()

    def q_loss(net):
        q = net(b.observations, b.actions)
        return (((q[0] - y) ** 2).mean() + ((q[1] - y) ** 2).mean()) / 2

    def step(loss, params):
        return first_step(params, jax.grad(loss)(params), c.learning_rate)

    told = v_loss(state.value.params), q_loss(state.critics.params)
    return step(v_loss, state.value.params), step(q_loss, state.critics.params), told


UPDATE = jax.jit(AGENT.update)
PHASED = {"critic_batch_size": 20, "policy_batch_size": 10, "critic_target_rate": 0.1}


def at(step, **changes):
    config, state, batch = setup(**PHASED, **changes)
    now = state._replace(step=jnp.int32(step))
    return config, batch, now, *UPDATE(now, batch, jax.random.key(step), config)


@pytest.mark.parametrize("step", [0, 3, 4, 6, 7, 8])
def test_each_phase_moves_its_own_parameters_alone(step):
    config, _, now, after, told = at(step)
    assert module.phase_ends(config) == (4, 7)
    movers = [("behavior",), ("value", "critics", "critics_target"), ("policy",)][
        (step >= 4) + (step >= 7)
    ]
    moved = {name for name in NETWORKS if not same(getattr(now, name), getattr(after, name))}
    assert moved == set(movers)
    assert int(after.step) == step + 1
    assert told.keys() == set(module.METRICS)


@pytest.mark.parametrize(("step", "phase"), [(0, 0), (4, 1), (7, 2)])
def test_the_switch_is_the_phase(step, phase):
    config, batch, now, after, _ = at(step)
    alone = jax.jit(module.PHASES[phase])(now, batch, jax.random.key(step), config)
    assert_close(alone, after._replace(step=now.step))


def test_weights_of_the_behavior_decay_and_its_random_frequencies_do_not():
    _, _, now, after, told = at(0)
    assert same(after.behavior.params.embed.frequencies, now.behavior.params.embed.frequencies)
    assert told["bc_loss"] > 0 == told["critic_loss"]


def test_the_critics_phase_is_what_the_equations_say():
    config, batch, now, after, told = at(4)
    *expected, losses = jax.jit(reference_critics)(now, batch, config)
    found = [after.value.params, after.critics.params]
    assert_mostly_close(found, expected, atol=1e-5, share=0.02)
    np.testing.assert_allclose([told["value_loss"], told["critic_loss"]], losses, rtol=1e-3)
    assert_mixed(after.critics_target, now.critics_target, after.critics.params, 0.1)


@pytest.mark.parametrize(("step", "share"), [(7, 1.0), (8, 0.5)])
def test_the_cosine_of_the_policys_rate_spans_its_own_phase(step, share):
    config, _, now, after, _ = at(step)
    old, new = (x.policy.params.mean.output.bias for x in (now, after))
    np.testing.assert_allclose(jnp.abs(new - old), share * config.learning_rate, rtol=1e-2)


@pytest.mark.parametrize("step", [4, 7])
def test_later_phases_use_the_first_rows_of_the_batch(step):
    config, batch, now, after, _ = at(step)
    rewards, observations = batch.rewards.at[20:].set(1e6), batch.observations.at[20:].set(9.0)
    other = batch._replace(rewards=rewards, observations=observations)
    assert same(after, UPDATE(now, other, jax.random.key(step), config)[0])


def test_the_official_budget_is_the_official_split():
    assert module.phase_ends(configure(AGENT, {"steps": 4_500_000})) == (2_000_000, 3_500_000)
    with pytest.raises(BadInput, match="too few"):
        configure(AGENT, {"steps": 2})


def test_a_population_computes_one_phase_an_update():
    config, state, batch = setup()
    many = jax.tree.map(lambda x: jnp.stack([x, x]), state)._replace(step=state.step)
    axes = type(state)(**{name: None if name == "step" else 0 for name in state._fields})

    def program(s, k):
        return jax.vmap(lambda s, k: AGENT.update(s, batch, k, config), in_axes=(axes, 0))(s, k)

    text = str(jax.make_jaxpr(program)(many, jax.random.split(jax.random.key(0), 2)))
    assert " cond[" in text  # a switch that survived vmap: the other branches are not run


def test_acting_needs_no_noise():
    config, state, batch = setup()
    one, two = (
        AGENT.act(state, batch.observations, jax.random.key(k), config, Acting()) for k in (0, 1)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, jnp.tanh(state.policy.params.mean(batch.observations)))
