"""Small networks, batches, problems with known answers, and comparisons for the tests of agents."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents.contract import Batch, Spec
from bfq.agents.registry import configure, get_agent
from bfq.run import Member
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Program

KEY = jax.random.key(0)
SPEC = Spec(3, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32}


def small(name, **values):
    """The Config of an agent with small networks."""
    agent = get_agent(name)
    known = {field.name for field in dataclasses.fields(agent.config())}
    sizes = {field: value for field, value in SMALL.items() if field in known}
    return configure(agent, {**sizes, **values})


def transitions(n=32):
    keys = jax.random.split(jax.random.key(9), 7)
    return Batch(
        jax.random.normal(keys[0], (n, 3)),
        jnp.tanh(jax.random.normal(keys[1], (n, 2))),
        jax.random.normal(keys[2], (n,)),
        jax.random.normal(keys[3], (n, 3)),
        jax.random.bernoulli(keys[4], 0.8, (n,)).astype(jnp.float32),
        jax.random.uniform(keys[5], (n, 2), minval=-1, maxval=1),
        jax.random.bernoulli(keys[6], 0.7, (n,)).astype(jnp.float32),
    )


def shaken(tree, by=0.1):
    """The tree with other numbers, so that a test can tell it from its original."""
    wave = lambda x: jnp.cos(7.0 * jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape)
    return jax.tree.map(lambda x: x + by * wave(x), tree)


def setup(name, **values):
    """A Config, a state with targets unlike their originals, and a batch."""
    config = small(name, **values)
    state = jax.jit(get_agent(name).init, static_argnums=1)(KEY, SPEC, config)
    targets = [field for field in state._fields if field.endswith("_target")]
    state = state._replace(**{field: shaken(getattr(state, field)) for field in targets})
    return config, state, transitions()


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def flat(tree):
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


def largest(tree):
    return max(float(np.abs(leaf).max()) for leaf in leaves(tree))


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def assert_close(one, other, rtol=1e-4, atol=1e-6):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_mixed(new, old, online, rate):
    """new = (1 − rate) old + rate online."""
    assert_close(new, jax.tree.map(lambda a, b: (1 - rate) * a + rate * b, old, online))


def assert_mostly_close(one, other, atol=1e-4, share=0.01):
    """Adam's first step is almost the sign of the gradient: where that is tiny, rounding decides it."""
    for a, b in zip(leaves(one), leaves(other), strict=True):
        assert np.mean(np.abs(a - b) > atol) < share


def first_step(params, gradient, rate, decay=0.0):
    """Adam's first step is −rate · g/(|g| + ε); AdamW's has −rate · decay · p as well."""
    step = lambda p, g: p - rate * (g / (jnp.abs(g) + 1e-8) + decay * p)
    return jax.tree.map(step, params, gradient)


def scaled(critics, factor):
    """The same critics, their values multiplied."""
    last = lambda c: (c.stacked.output.weight, c.stacked.output.bias)
    return eqx.tree_at(last, critics, tuple(factor * leaf for leaf in last(critics)))


def columns(**arrays):
    return pack({name: np.asarray(value, np.float32) for name, value in arrays.items()})


def chain(n=600):
    """0 → 1 → end with reward 1 on the last step; 2 pays 1 for ever (time-outs, so its mask stays 1).

    With γ = 0.9, Q = 0.9, 1 and 10 whatever the action.
    """
    where = np.arange(n) % 3
    return columns(
        observations=np.eye(3)[where],
        actions=np.random.default_rng(0).uniform(-1, 1, (n, 2)),
        next_observations=np.eye(3)[np.array([1, 1, 2])[where]],
        rewards=np.array([0.0, 1.0, 1.0])[where],
        masks=np.array([1, 0, 1])[where],
    )


FAST = {"discount": 0.9, "learning_rate": 1e-2, "critic_target_rate": 0.2, "critic_width": 32}


def short_chain(reward):
    """Two states in a row under actions from all over the square; the second ends with a reward."""
    grid = jnp.linspace(-1.0, 1.0, 6)
    actions = jnp.tile(jnp.stack(jnp.meshgrid(grid, grid), axis=-1).reshape(-1, 2), (2, 1))
    last = np.arange(72) // 36
    s, following = jnp.eye(3)[last], jnp.eye(3)[1 - last]
    return Batch(s, actions, last * reward(actions[:, 0]), following, jnp.asarray(1.0 - last))


def two_actions(n=600):
    """One state, actions near ±0.5 logged alike, reward 1 + a, no future: Q(a) = 1 + a."""
    rng = np.random.default_rng(0)
    a = 0.5 * rng.choice([-1.0, 1.0], (n, 1)) + 0.05 * rng.normal(size=(n, 1))
    s, r = np.ones((n, 1)), 1.0 + a[:, 0]
    return columns(observations=s, actions=a, next_observations=s, rewards=r, masks=0 * r)


def trained(name, rows, config, members=None, spec=SPEC):
    """The states after all updates of a run on these rows."""
    population = create_population(get_agent(name), config, members or [Member(0, {})])
    program = Program(population, config.steps)
    return program(initial_states(population, spec), rows, jnp.int32(0))[0]


def member(states, k):
    """One member's state; all share the number of the update."""
    return jax.tree.map(lambda leaf: leaf[k] if jnp.ndim(leaf) else leaf, states)


def scanned(agent, spec, data, config, steps):
    """The state after updates on the whole of `data`."""

    @jax.jit
    def run(keys):
        step = lambda state, key: (agent.update(state, data, key, config)[0], None)
        return jax.lax.scan(step, agent.init(KEY, spec, config), keys)[0]

    return run(jax.random.split(jax.random.key(1), steps))
