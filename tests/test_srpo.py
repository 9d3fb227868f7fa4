"""SRPO: three phases, and the optimum of its surrogate. What each phase computes: test_parity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import agent_cases as cases
from tests.agent_cases import same

from bfq.agents import srpo as module
from bfq.agents.contract import Acting, Batch
from bfq.agents.learning import Learner
from bfq.agents.registry import configure, get_agent
from bfq.errors import BadInput

AGENT = get_agent("srpo")
NETWORKS = ("behavior", "value", "critics", "critics_target", "policy")


def setup(**changes):
    sizes = {"behavior_depth": 1, "width": 8, "critic_width": 8, "steps": 9}
    return cases.setup("srpo", **sizes, **changes)


def test_the_normalized_gradient_has_unit_size_in_each_row_and_survives_zero():
    slopes = jnp.array([[3.0, -4.0], [1e-3, 0.0], [0.0, 0.0]])
    critics = lambda s, a: jnp.stack([(slopes * a).sum(-1), 3 * (slopes * a).sum(-1)])
    g, _ = module.q_gradient(critics, jnp.zeros((3, 1)), jnp.ones((3, 2)), True)
    np.testing.assert_allclose(jnp.square(g).mean(-1), [1.0, 1.0, 0.0], rtol=1e-5)
    plain, q = module.q_gradient(critics, jnp.zeros((3, 1)), jnp.ones((3, 2)), False)
    np.testing.assert_allclose(plain, 2 * slopes)
    np.testing.assert_allclose(q, 2 * slopes.sum() / 3, rtol=1e-6)


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

        def loss(a, key):
            return module.policy_loss(lambda _: zeros + a, state, batch, key, config)[0]

        def step(a, i):
            slope = jax.grad(loss)(a, jax.random.fold_in(jax.random.key(0), i))
            return a - slope / (1 + 0.1 * i), None

        found = jax.lax.scan(step, jnp.float32(0.9), jnp.arange(200))[0]
        keys = jax.random.split(jax.random.key(1), 64)
        at_optimum = jax.vmap(jax.grad(loss), (None, 0))(optimum, keys)
        return found, at_optimum.mean(), at_optimum.std()

    plain, quiet = jax.jit(lambda: (descend(False), descend(True)))()
    np.testing.assert_allclose([plain[0], quiet[0]], optimum, atol=0.02)
    np.testing.assert_allclose([plain[1], quiet[1]], 0.0, atol=0.01)
    assert quiet[2] < plain[2]


UPDATE = jax.jit(AGENT.update)
PHASED = {"critic_batch_size": 20, "policy_batch_size": 10, "critic_target_rate": 0.1}


def at(step, **changes):
    config, state, batch = setup(**PHASED, **changes)
    now = state._replace(step=jnp.int32(step))
    return config, batch, now, *UPDATE(now, batch, jax.random.key(step), config)


@pytest.mark.parametrize("step", [0, 3, 4, 6, 7, 8])
def test_each_phase_moves_its_own_parameters_alone(step):
    config, _, now, after, metrics = at(step)
    assert module.phase_ends(config) == (4, 7)
    movers = [{"behavior"}, {"value", "critics", "critics_target"}, {"policy"}]
    moved = {name for name in NETWORKS if not same(getattr(now, name), getattr(after, name))}
    assert moved == movers[(step >= 4) + (step >= 7)]
    assert int(after.step) == step + 1
    assert metrics.keys() == set(module.METRICS)


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
    s = batch.observations
    one, two = (AGENT.act(state, s, jax.random.key(k), config, Acting()) for k in (0, 1))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, jnp.tanh(state.policy.params.mean(s)))
