"""The contract that every agent in the registry keeps; a new agent file is covered without touching this."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents import Acting, Spec, agent_names, get_agent
from bfq.agents.agent import configure, numeric_fields
from bfq.errors import BadInput
from bfq.training.population import Member, Program, initial_states, members_of, pack, populate

SPEC = Spec(4, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 32, "steps": 50,
         "learning_rate": 1e-3}  # fmt: skip


def small(name, **values):
    agent = get_agent(name)
    known = {field.name for field in dataclasses.fields(agent.config())}
    return agent, configure(agent, {**{k: v for k, v in SMALL.items() if k in known}, **values})


def transitions(n=500, key=0):
    rng = np.random.default_rng(key)
    s = rng.normal(size=(n, 4))
    a = np.tanh(s[:, :2] + 0.1 * rng.normal(size=(n, 2)))
    arrays = {"observations": s, "actions": a, "next_observations": s + 0.1, "rewards": -np.square(s).mean(1),
              "masks": (rng.uniform(size=n) > 0.1)}  # fmt: skip
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def batch(n=32):
    return pack(transitions()).batch(jnp.arange(n))


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


VARIANTS = [(name, {}) for name in agent_names()] + [
    ("bc", {"kind": "deterministic"}),
    ("bc", {"kind": "flow"}),
    ("bc", {"unit_std": True}),
    ("bfq", {"mixing": "update"}),
    ("bfq", {"mixing": "both", "preconditioned": False, "time_rule": "ordered"}),
    ("bfq", {"architecture": "residual", "guidance": "mean", "aggregation": "mean", "critic": "fql"}),
    ("bfq", {"architecture": "raw_time", "critic": "plain", "backup_samples": 10, "schedule": "constant"}),
]


@pytest.mark.parametrize(("name", "values"), VARIANTS, ids=str)
def test_contract(name, values):
    agent, config = small(name, **values)
    state = agent.init(jax.random.key(0), SPEC, config)
    update = jax.jit(agent.update)
    after, metrics = update(state, batch(), jax.random.key(1), config)
    # shapes and types stay, metrics are finite numbers
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for old, new in zip(leaves(state), leaves(after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
    assert all(value.shape == () and np.isfinite(value) for value in metrics.values())
    # the same key gives the same bytes, another key another result or, for a method without noise, the same
    again, _ = update(state, batch(), jax.random.key(1), config)
    assert all((a == b).all() for a, b in zip(leaves(after), leaves(again), strict=True))
    # something was learnt and the step was counted
    assert any((a != b).any() for a, b in zip(leaves(state), leaves(after), strict=True))
    assert int(after.step) == 1
    # actions lie within bounds, whatever the observation
    observations = 100.0 * jax.random.normal(jax.random.key(2), (64, 4))
    actions = agent.act(after, observations, jax.random.key(3), config, Acting(candidates=4))
    assert actions.shape == (64, 2)
    assert float(jnp.abs(actions).max()) <= 1.0


@pytest.mark.parametrize("name", agent_names())
def test_jit_equals_eager(name):
    agent, config = small(name)
    state = agent.init(jax.random.key(0), SPEC, config)
    compiled, told = jax.jit(agent.update)(state, batch(), jax.random.key(1), config)
    with jax.disable_jit():
        eager, said = agent.update(state, batch(), jax.random.key(1), config)
    for a, b in zip(leaves(compiled), leaves(eager), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
    assert told.keys() == said.keys()


@pytest.mark.parametrize("name", agent_names())
def test_population_equals_single_runs(name):
    agent, config = small(name)
    second = next((name for name in numeric_fields(config) if name != "learning_rate"), "learning_rate")
    rows, members = pack(transitions()), (
        Member(3, {"learning_rate": 1e-3, second: 0.1}), Member(7, {"learning_rate": 3e-3, second: 0.4}),
    )  # fmt: skip
    together = populate(agent, config, members)
    states, metrics = Program(together, 5)(initial_states(together, SPEC), rows, jnp.int32(0))
    for k, member in enumerate(members):
        alone = populate(agent, config, [member])
        state, told = Program(alone, 5)(initial_states(alone, SPEC), rows, jnp.int32(0))
        for a, b in zip(leaves(states), leaves(state), strict=True):
            np.testing.assert_allclose(a[k], b[0], rtol=1e-3, atol=1e-5)
        for metric in metrics:
            np.testing.assert_allclose(metrics[metric][:, k], told[metric][:, 0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", agent_names())
def test_a_loss_falls(name):
    agent, config = small(name, steps=400)
    population = populate(agent, config, [Member(0, {})])
    _, metrics = Program(population, 400)(initial_states(population, SPEC), pack(transitions()), jnp.int32(0))
    losses = [np.asarray(values)[:, 0] for metric, values in metrics.items() if metric.endswith("loss")]
    assert losses, "an agent reports at least one metric whose name ends in loss"
    imitation = [np.asarray(metrics["bc_loss"])[:, 0]] if "bc_loss" in metrics else losses
    assert any(loss[-50:].mean() < loss[:50].mean() for loss in imitation)


def test_chunks_of_any_length_are_the_same_updates():
    agent, config = small("bfq")
    population, rows = populate(agent, config, [Member(0, {})]), pack(transitions())
    whole, _ = Program(population, 6)(initial_states(population, SPEC), rows, jnp.int32(0))
    state, part = initial_states(population, SPEC), Program(population, 3)
    for start in (0, 3):
        state, _ = part(state, rows, jnp.int32(start))
    for a, b in zip(leaves(whole), leaves(state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_configure_names_the_nearest_hyperparameter_and_checks_types():
    agent = get_agent("bfq")
    for values, words in [
        ({"etta": 1.0}, "did you mean 'eta'"),
        ({"width": 1.5}, "a whole number"),
        ({"eta": "x"}, "a number"),
        ({"mixing": "both-ish"}, "mixing"),
        ({"preconditioned": 1}, "true or false"),
    ]:
        with pytest.raises(BadInput, match=words):
            configure(agent, values)
    with pytest.raises(BadInput, match="did you mean 'bfq'"):
        get_agent("bqf")


def test_members_are_every_seed_with_every_value():
    members = members_of([3, 7], {"eta": [0.1, 1.0], "discount": [0.9]})
    assert [(m.seed, m.overrides["eta"]) for m in members] == [(3, 0.1), (7, 0.1), (3, 1.0), (7, 1.0)]
    assert members_of([5], {}) == (Member(5, {}),)


def test_a_structural_value_cannot_vary_within_a_population():
    agent, config = small("bfq")
    with pytest.raises(BadInput, match="structure"):
        populate(agent, config, members_of([0], {"width": [16, 32]}))
