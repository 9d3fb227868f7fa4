"""Hoisting changes when something is computed, and no number beyond rounding."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents.contract import Spec
from bfq.agents.registry import agent_names, configure, get_agent
from bfq.kernels import using
from bfq.run import members_of
from bfq.training import program as module
from bfq.training.population import create_population, initial_states, pack
from bfq.training.program import Kind, Program, block_length, run_updates, split_by_dependency

SPEC = Spec(3, 2)
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "batch_size": 16, "steps": 20}  # fmt: skip


def transitions(n=50):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    s, a, following = draw(n, 3), np.tanh(draw(n, 2)), draw(n, 3)
    return {"observations": s, "actions": a, "next_observations": following, "rewards": draw(n),
            "masks": np.ones(n, np.float32)}  # fmt: skip


def population(name, **varied):
    agent = get_agent(name)
    fields = {field.name for field in dataclasses.fields(agent.config)}
    config = configure(agent, {k: v for k, v in SMALL.items() if k in fields})
    return create_population(agent, config, members_of(range(2), varied))


@pytest.mark.parametrize("name", ["bfq", "td3_bc"])  # td3_bc: the policy at every second update
def test_a_program_equals_its_updates_one_after_the_other(name):
    """The same draws bit for bit, and the same numbers up to rounding."""
    members, rows = population(name), pack(transitions())
    start = initial_states(members, SPEC)

    update = jax.jit(members.agent.update)
    expected, metrics = start, []
    for step in range(6):
        moved = []
        for k in range(2):
            both = (expected, members.configs)
            mine, config = jax.tree.map(lambda leaf, k=k: leaf[k], both)
            batch_key, update_key = jax.random.split(jax.random.fold_in(members.keys[k], step + 1))
            batch = rows.batch(jax.random.randint(batch_key, (16,), 0, 50))
            moved.append(update(mine._replace(step=jnp.int32(step)), batch, update_key, config))
        expected, seen = jax.tree.map(lambda *leaves: jnp.stack(leaves), *moved)
        metrics.append(seen)
    states, found = Program(members, 6)(start, rows, jnp.int32(0))
    assert set(found) == set(metrics[0])
    wanted = {each: np.stack([seen[each] for seen in metrics]) for each in found}
    for a, b in zip(*map(jax.tree.leaves, ((states, found), (expected, wanted))), strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=2e-3, atol=2e-4)


def test_the_memory_for_hoisting_changes_nothing(monkeypatch):
    members, rows = population("bfq", eta=[0.5, 2.0]), pack(transitions())
    results = []
    for budget in (1, 2**28):  # one update per block, or all in one
        monkeypatch.setattr(module, "HOISTED_BYTES", budget)
        results.append(Program(members, 6)(initial_states(members, SPEC), rows, jnp.int32(3)))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_equations_are_split_by_what_they_depend_on():
    def function(step, member, state):
        key, factor = member
        noise = jax.random.normal(key, (4,)) * factor
        rate = jnp.cos(step * 0.1)
        return {"new": state + rate * noise, "chance": noise.sum(), "rate": rate}

    inputs = jnp.float32(2.0), (jax.random.key(1), jnp.float32(3.0)), jnp.arange(4.0)
    split = split_by_dependency(function, *inputs)
    assert [var.aval.shape for var in split.hoisted[Kind.STEP]] == [()]
    assert (4,) in [var.aval.shape for var in split.hoisted[Kind.MEMBER]]
    assert {e.primitive.name for e in split.equations[Kind.STATE]} <= {"mul", "add"}
    assert split.member_bytes() >= 16

    constants = split.part(Kind.ALWAYS)()
    shared = split.part(Kind.STEP)(inputs[0], constants)
    own = split.part(Kind.MEMBER)(inputs[0], inputs[1], constants, shared)
    expected = function(*inputs)
    found = split.part(Kind.STATE)(*inputs, constants, shared, own)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_hoisted_values_need_no_network():
    """The batch, the noise, the times and the noisy actions of BFQ are computed ahead."""
    members, rows = population("bfq"), pack(transitions())

    def one(tree):
        return jax.tree.map(lambda leaf: leaf[0], tree)

    def update(step, member, state):
        key, config = member
        batch = rows.batch(jax.random.randint(key, (16,), 0, 50))
        return members.agent.update(state._replace(step=step), batch, key, config)

    state, member = one(initial_states(members, SPEC)), (members.keys[0], one(members.configs))
    split = split_by_dependency(update, jnp.int32(0), member, state)
    late = [equation.primitive.name for equation in split.equations[Kind.STATE]]
    assert not any("random" in name or "gather" in name or "threefry" in name for name in late)
    assert late.count("dot_general") > 20
    assert not any(e.primitive.name == "dot_general" for e in split.equations[Kind.MEMBER])


def test_the_block_divides_the_chunk_and_fits_the_memory():
    for length, each, ahead in (500, 2**20, 250), (7, 1, 7), (6, 2**27, 2), (5, 2**40, 1):
        assert block_length(length, each) == ahead


@pytest.mark.parametrize("name", agent_names())
def test_every_agent_compiles_for_a_gpu(name):
    """Lowered, not run: a kernel that cannot be lowered or has no derivative fails here."""
    members, arrays = population(name), transitions()
    rows = pack({**arrays, "next_actions": arrays["actions"], "next_known": arrays["masks"]})
    run = partial(run_updates, members.agent, True, 2)
    states = jax.eval_shape(lambda: initial_states(members, SPEC))
    with using(kernels=True):
        traced = jax.jit(run).trace(states, members.keys, members.configs, rows, jnp.int32(0))
        program = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "map_leaves" in program
    assert "finish_gradient" in program
