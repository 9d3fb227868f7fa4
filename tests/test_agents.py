"""The contract that every agent in the registry keeps; a new agent file is covered without touching this.

Each agent is compiled once, as a population of four members that differ only in numbers, and all tests of the
agent share that program. Switches are traced, not compiled: that finds what cannot be run at all, and the
agents' own tests look at the numbers.
"""

import dataclasses
from contextlib import nullcontext
from functools import cache
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import leaves, member, same

from bfq.agents import fields as fields_of
from bfq.agents.contract import Acting, Batch, Spec
from bfq.agents.describe import choices_of
from bfq.agents.fields import field_types, numeric_fields
from bfq.agents.learning import Learner
from bfq.agents.registry import agent_names, check_acting, configure, get_agent
from bfq.errors import BadInput
from bfq.flow.diffusion import SCHEDULES
from bfq.flow.few_steps import DISTRIBUTIONS
from bfq.flow.maps import COMPOSITION_TIMES
from bfq.flow.samplers import SAMPLERS
from bfq.nets import Critics, Value
from bfq.nets.kinds import NETWORKS
from bfq.nets.mlp import ACTIVATIONS
from bfq.run import Member, members_of, write_record
from bfq.settings import compose, load_run
from bfq.training.checkpoint import read_checkpoint, save_checkpoint
from bfq.training.population import create_population, draw_ahead, initial_states, pack, update_keys
from bfq.training.program import Program

SPEC = Spec(4, 2)
STEPS = 240
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "behavior_depth": 1, "steps": STEPS,
         "batch_size": 24, "critic_batch_size": 24, "policy_batch_size": 24, "behavior_batch_size": 24,
         "learning_rate": 1e-3, "flow_steps": 2, "sampling_steps": 3, "policy_target_start": 0}  # fmt: skip
# Updates at which something happens: at all, at odd and even ones, and in each of several phases.
MOMENTS = (0, 1, STEPS // 2, STEPS - 2)
# What says how strongly the policy is drawn to high values, and a value that leans to the data instead.
STRENGTHS = {"eta": 0.05, "alpha": 2.0, "beta": 0.1, "policy_penalty": 2.0}
AGENTS = agent_names()


def fields(name):
    return {field.name: field for field in dataclasses.fields(get_agent(name).config())}


def small(name, **values):
    known = {field: value for field, value in SMALL.items() if field in fields(name)}
    return configure(get_agent(name), {**known, **values})


def transitions(n=400, key=0):
    rng = np.random.default_rng(key)
    s = rng.normal(size=(n, 4))
    a = np.tanh(s[:, :2] + 0.1 * rng.normal(size=(n, 2)))
    arrays = {"observations": s, "actions": a, "next_observations": s + 0.1, "rewards": -np.square(s).mean(1),
              "masks": rng.uniform(size=n) > 0.1, "next_actions": np.tanh(s[:, :2] + 0.1),
              "next_known": rng.uniform(size=n) > 0.1}  # fmt: skip
    return {name: value.astype(np.float32) for name, value in arrays.items()}


class Compiled(NamedTuple):
    """An agent's population, its program for one update, and where it starts."""

    agent: object
    config: object
    population: object
    start: object
    program: Program

    def updated(self, states, moments):
        """The states after the updates of these numbers; the states given are kept."""
        states = jax.tree.map(jnp.copy, states)
        for step in moments:
            states, metrics = self.program(states, ROWS, jnp.int32(step))
        return states, metrics


BASE, STANDING, LEANING, OTHER = range(4)
ROWS = pack(transitions())


def overrides(name):
    """The numbers in which the four members differ."""
    numeric = numeric_fields(get_agent(name).config())
    rates = [field for field in numeric if field.endswith("learning_rate")]
    leaning = {field: value for field, value in STRENGTHS.items() if field in fields(name)}
    other = {"learning_rate": 3e-3, "discount": 0.5, **leaning}
    return {}, dict.fromkeys(rates, 0.0), leaning, other


@cache
def compiled(name):
    agent, config = get_agent(name), small(name)
    members = [Member(*each) for each in zip((3, 3, 3, 7), overrides(name), strict=True)]
    population = create_population(agent, config, members)
    program = Program(population, 1)
    # Seed by seed, since compiling `init` for the whole population would take longer than all that it saves.
    keys = {seed: jax.random.fold_in(jax.random.key(seed), 0) for seed in (3, 7)}
    firsts = {seed: agent.init(key, SPEC, config) for seed, key in keys.items()}
    start = jax.tree.map(lambda *several: jnp.stack(several), *(firsts[m.seed] for m in members))
    promised = jax.eval_shape(lambda: initial_states(population, SPEC))
    assert jax.tree.structure(promised) == jax.tree.structure(start)
    program.compile(start, ROWS)
    return Compiled(agent, config, population, start, program)


@cache
def history(name):
    """The population's states before and after each of MOMENTS, and the metrics."""
    run = compiled(name)
    states, records = [run.start], []
    for step in MOMENTS:
        after, metrics = run.updated(states[-1], [step])
        states.append(after)
        records.append(metrics)
    return states, records


@pytest.mark.parametrize("name", AGENTS)
def test_shapes_stay_and_metrics_are_finite_numbers(name):
    states, records = history(name)
    for state in states[1:]:
        assert jax.tree.structure(state) == jax.tree.structure(states[0])
        for old, new in zip(leaves(states[0]), leaves(state), strict=True):
            assert old.dtype == new.dtype
            assert new.shape == old.shape or new.ndim == 0  # the number of the update
            assert np.isfinite(new).all()
    for metrics in records:
        assert metrics.keys() == records[0].keys()
        assert all(value.shape == (1, 4) and np.isfinite(value).all() for value in metrics.values())
    assert [int(np.max(state.step)) for state in states[1:]] == [step + 1 for step in MOMENTS]
    assert not same(member(states[0], BASE), member(states[-1], BASE))


@pytest.mark.parametrize("name", AGENTS)
def test_the_same_key_gives_the_same_bytes_and_another_seed_others(name):
    states, _ = history(name)
    again, _ = compiled(name).updated(states[0], MOMENTS)
    assert same(again, states[-1])
    base, other = (leaves(member(states[0], k)._replace(step=0)) for k in (BASE, OTHER))
    assert not all(np.array_equal(a, b) for a, b in zip(base, other, strict=True))


@pytest.mark.parametrize("name", AGENTS)
def test_a_compiled_population_is_its_members_updated_eagerly_one_after_the_other(name):
    run, (states, records) = compiled(name), history(name)
    config = dataclasses.replace(run.config, **overrides(name)[OTHER])
    keys, state = run.population.keys, member(run.start, OTHER)._replace(step=jnp.int32(0))
    for moment, after, metrics in zip(MOMENTS, states[1:], records, strict=True):
        step = jnp.int32(moment)
        rows = draw_ahead(keys, step, length=1, size=config.batch_size, rows=400)
        batch, key = ROWS.batch(rows[0, OTHER]), update_keys(keys[OTHER], step)[1]
        with jax.disable_jit():
            state, said = run.agent.update(state._replace(step=step), batch, key, config)
        for a, b in zip(leaves(member(after, OTHER)), leaves(state), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=5e-5)
        assert said.keys() == metrics.keys()
        state = member(after, OTHER)  # so that rounding does not add up


@pytest.mark.parametrize("name", AGENTS)
def test_a_saved_and_loaded_run_goes_on_as_if_nothing_had_happened(name, tmp_path):
    run, (states, _) = compiled(name), history(name)
    save_checkpoint(tmp_path, 2, states[2], keep=1)
    shapes = jax.eval_shape(lambda: states[2])
    loaded = read_checkpoint(tmp_path / "step-000000002", shapes).states
    resumed, _ = run.updated(loaded, MOMENTS[2:])
    assert same(resumed, states[-1])


def learners(state):
    """Everything that an optimizer moves."""
    found = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Learner))
    return [node for node in found if isinstance(node, Learner)]


def onlines(state):
    """Networks that learn: each learner's, and where one optimizer moves several, each of these."""
    several = [learner.params for learner in learners(state)]
    return several + [part for one in several if isinstance(one, tuple) for part in one]


def followers(state):
    """The networks that no optimizer moves, by name: targets and moving averages."""
    return {name: getattr(state, name) for name in state._fields if name not in ("step", "told")
            and not isinstance(getattr(state, name), Learner)}  # fmt: skip


def shaken(states):
    """Targets moved at random, so that none is what it follows."""
    rng = np.random.default_rng(5)

    def shake(leaf):  # all members alike
        return jnp.asarray(leaf + 0.1 * rng.normal(size=leaf.shape[1:]).astype(np.float32))

    moved = {name: jax.tree.map(shake, network) for name, network in followers(states).items()}
    return states._replace(**moved)


@pytest.mark.parametrize("name", AGENTS)
def test_a_learning_rate_of_zero_moves_nothing_but_targets(name):
    states, _ = history(name)
    before = learners(member(states[0], STANDING))
    for state in states[1:]:
        for old, new in zip(before, learners(member(state, STANDING)), strict=True):
            assert same(old.params, new.params)


def rate_between(old, new, online):
    """ρ with new = (1 − ρ) old + ρ online, and how far it is from that; None for another kind of network."""
    if jax.tree.structure(old) != jax.tree.structure(online):
        return None
    if any(a.shape != b.shape for a, b in zip(leaves(old), leaves(online), strict=True)):
        return None
    a, b, c = (np.concatenate([leaf.ravel().astype(np.float64) for leaf in leaves(tree)])
               for tree in (old, new, online))  # fmt: skip
    rate = float((b - a) @ (c - a) / ((c - a) @ (c - a)))
    return rate, float(np.abs(b - (1 - rate) * a - rate * c).max())


@pytest.mark.parametrize("name", AGENTS)
def test_targets_only_follow_what_is_learned(name):
    """No optimizer touches them: each is its old self, mixed with a learner before or after its step."""
    run = compiled(name)
    start, moved = shaken(run.start), set()
    for moment in MOMENTS:
        after, _ = run.updated(start, [moment])
        for k in (BASE, OTHER):
            old, new = member(start, k), member(after, k)
            for field, network in followers(new).items():
                found = [rate_between(followers(old)[field], network, one)
                         for one in (*onlines(old), *onlines(new))]  # fmt: skip
                close = (rate for rate, error in filter(None, found) if error < 1e-5)
                fits = [rate for rate in close if -1e-6 < rate <= 1.0]
                assert fits, f"{field} is no mixture of its old self and a learner"
                moved |= {field} if max(fits) > 1e-6 else set()
    assert moved == set(followers(run.start)), "a target that never moves"


def critics_of(state):
    """Critics and values: what they are, what follows them, and their moments."""
    kinds = (Critics, Value)
    found = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kinds))
    return [node for node in found if isinstance(node, kinds)]


GUIDED = [name for name in AGENTS if STRENGTHS.keys() & fields(name).keys()]


@pytest.mark.parametrize("name", GUIDED)
def test_critics_do_not_feel_the_policys_guidance(name):
    """One update with another strength leaves the critics' bytes as they are, and moves the policy."""
    run, felt = compiled(name), False
    for moment in MOMENTS:
        after, _ = run.updated(shaken(run.start), [moment])
        base, leaning = member(after, BASE), member(after, LEANING)
        assert critics_of(base)
        assert same(critics_of(base), critics_of(leaning))
        felt |= not same(*([one.params for one in learners(at)] for at in (base, leaning)))
    assert felt, "the strength of guidance changes nothing"


@pytest.mark.parametrize("name", AGENTS)
def test_a_loss_falls(name):
    """For every member that learns."""
    run = compiled(name)
    states, records = jax.tree.map(jnp.copy, run.start), []
    for step in range(STEPS):
        states, metrics = run.program(states, ROWS, jnp.int32(step))
        records.append(metrics)
    learning = [BASE, LEANING, OTHER]
    losses = [metric for metric in records[0] if metric.endswith("loss")]
    assert losses, "an agent reports at least one metric whose name ends in loss"
    judged = ["bc_loss"] if "bc_loss" in losses else losses
    series = [np.concatenate([row[metric] for row in records])[:, learning] for metric in judged]
    assert any((loss[-40:].mean(0) < loss[:40].mean(0)).all() for loss in series)


def ways_of_acting(agent):
    """The usual way; with candidates, where it can choose; by each rule, where it has several."""
    yield Acting()
    if agent.chooses:
        yield Acting(candidates=3, selection="softmax", policy="online", temperature=0.5)
    yield from (Acting(sampler=rule, sampling_steps=2) for rule in agent.samplers)


@pytest.mark.parametrize("name", AGENTS)
def test_actions_lie_within_bounds_whatever_the_observation(name):
    run, (states, _) = compiled(name), history(name)
    state = member(states[-1], OTHER)
    sizes = jnp.repeat(jnp.array([0.0, 1.0, 100.0, 1e6]), 4)[:, None]
    observations = sizes * jax.random.normal(jax.random.key(2), (16, 4))
    ways = list(ways_of_acting(run.agent))
    given, act = (state, observations, jax.random.key(3), run.config), run.agent.act
    for acting in ways:
        found = jax.eval_shape(lambda *given, acting=acting: act(*given, acting), *given)
        assert (found.shape, found.dtype) == ((16, 2), jnp.float32)
    compiled_act = jax.jit(act, static_argnums=4)
    for acting in (ways[0], *ways[1:2]):
        actions = compiled_act(*given, acting)
        assert np.isfinite(actions).all()
        assert float(jnp.abs(actions).max()) <= 1.0
        assert np.array_equal(actions, compiled_act(*given, acting))


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_ignores_what_it_says_and_nothing_else(name):
    """Of how it acts: the policy itself or its moving average, and the size of the noise."""
    run, (states, _) = compiled(name), history(name)
    state = member(states[-1], OTHER)
    observations = jax.random.normal(jax.random.key(2), (64, 4))

    def act(**acting):
        return run.agent.act(state, observations, jax.random.key(3), run.config, Acting(**acting))

    changed = {"policy": act(policy="online"), "temperature": act(temperature=0.5)}
    ignored = [each for each, actions in changed.items() if np.array_equal(actions, act())]
    assert sorted(run.agent.ignores(run.config)) == sorted(ignored)
    for each, value in (("policy", "online"), ("temperature", 0.5)):
        with pytest.raises(BadInput, match=f"leave {each}") if each in ignored else nullcontext():
            check_acting(run.agent, run.config, Acting(**{each: value}))


def alternatives(name, field):
    """What a word or a switch can be besides its default."""
    default = getattr(get_agent(name).config(), field)
    if isinstance(default, bool):
        return [not default]
    known = choices_of(get_agent(name).config(), field)
    assert default in known
    return [word for word in known if word != default]


def variants(name):
    """Switches set apart from their defaults, all that can be at once, until each choice was there."""
    default = get_agent(name).config()
    thrown = [field for field in fields(name) if isinstance(getattr(default, field), str | bool)]
    switches = {field: alternatives(name, field) for field in thrown}
    # Kinds of critics and schedules are everyone's, and tested once: some pass by here, not all.
    everyones = ("critic", "schedule", "activation", "norm", "critic_activation", "critic_norm")
    own = [some for field, some in switches.items() if field not in everyones]
    for k in range(max(map(len, own), default=0)):
        values = {}
        for field, some in switches.items():
            chosen = {**values, field: some[k % len(some)]}
            try:
                small(name, **chosen)
            except BadInput:  # not together with those before it
                continue
            values = chosen
        yield values


@pytest.mark.parametrize("name", AGENTS)
def test_every_switch_can_be_thrown(name):
    agent, key = get_agent(name), jax.random.key(0)
    batch = ROWS.batch(jnp.arange(SMALL["batch_size"]))

    def act(state, config):
        return agent.act(state, batch.observations, key, config, Acting())

    for values in variants(name):
        config = small(name, **values)
        state = jax.eval_shape(lambda c: agent.init(key, SPEC, c), config)
        after, metrics = jax.eval_shape(lambda s, c: agent.update(s, batch, key, c), state, config)
        shapes = [[(x.shape, x.dtype) for x in jax.tree.leaves(one)] for one in (state, after)]
        assert shapes[0] == shapes[1], values
        assert jax.tree.structure(state) == jax.tree.structure(after)
        assert all(metric.shape == () for metric in metrics.values()), values
        assert jax.eval_shape(act, state, config).shape == batch.actions.shape, values


@pytest.mark.parametrize("name", AGENTS)
def test_numbers_are_never_branched_on(name):
    """Every float may differ from member to member, so each must pass through tracing."""
    config = small(name)
    assert set(numeric_fields(config)) >= {"discount", "learning_rate"}
    assert {"steps", "batch_size"} <= set(fields(name))
    assert len(jax.tree.leaves(config)) == len(numeric_fields(config))


def traced_once(function, *arguments):
    """Traces it, and refuses a key that is used twice: drawn from, split or handed on a second time."""
    with jax.debug_key_reuse(True):
        return jax.eval_shape(jax.jit(lambda *given: function(*given)), *arguments)


def test_a_key_that_is_used_twice_is_found():
    """By what the next test relies on: whether it is drawn from twice, or split and drawn from."""
    key = jax.random.key(0)
    traced_once(lambda k: [jax.random.normal(one) for one in jax.random.split(k)], key)
    for again in (jax.random.uniform, jax.random.split):
        with pytest.raises(jax.errors.KeyReuseError):
            traced_once(lambda k, again=again: (jax.random.normal(k), again(k)), key)


@pytest.mark.parametrize("name", AGENTS)
def test_the_terms_of_an_update_have_independent_draws(name):
    """The critics' loss, imitation and guidance: no key serves two. The batch holds only what is needed."""
    agent, config, key = get_agent(name), small(name), jax.random.key(0)
    batch = ROWS.batch(jnp.arange(SMALL["batch_size"]))
    assert set(agent.needs) <= {"next_actions"}
    batch = batch if agent.needs else Batch(*batch[:5])
    state = jax.eval_shape(lambda c: agent.init(key, SPEC, c), config)
    traced_once(lambda s, k, c: agent.update(s, batch, k, c), state, key, config)


@pytest.mark.parametrize("name", AGENTS)
def test_a_run_is_described_by_its_configuration(name, tmp_path):
    run = compose("pendulum-mixed", name, seeds=[1, 5])
    write_record(tmp_path, run)
    assert load_run(tmp_path) == run


def test_chunks_of_any_length_are_the_same_updates():
    agent, config = get_agent("bc"), small("bc")
    population = create_population(agent, config, [Member(0, {})])
    whole, _ = Program(population, 6)(initial_states(population, SPEC), ROWS, jnp.int32(0))
    state, part = initial_states(population, SPEC), Program(population, 3)
    for start in (0, 3):
        state, _ = part(state, ROWS, jnp.int32(start))
    assert same(whole, state)


def test_members_are_every_seed_with_every_value():
    members = members_of([3, 7], {"eta": [0.1, 1.0], "discount": [0.9]})
    pairs = [(m.seed, m.overrides["eta"]) for m in members]
    assert pairs == [(3, 0.1), (7, 0.1), (3, 1.0), (7, 1.0)]
    assert members_of([5], {}) == (Member(5, {}),)


def test_a_structural_value_cannot_vary_within_a_population():
    agent, config = get_agent("bfq"), small("bfq")
    with pytest.raises(BadInput, match="structure"):
        create_population(agent, config, members_of([0], {"width": [16, 32]}))


VARIANTS = [
    ("bc", {"kind": "deterministic"}),
    ("bc", {"kind": "flow"}),
    ("bc", {"unit_std": True}),
    ("bfq", {"mixing": "update", "preconditioned": False, "time_rule": "ordered"}),
    ("bfq", {"architecture": "residual", "guidance": "mean", "aggregation": "mean", "critic": "fql"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), VARIANTS, ids=str)
def test_switches_that_change_the_method_keep_the_contract(name, values):
    agent, config = get_agent(name), small(name, **values)
    state, batch = agent.init(jax.random.key(0), SPEC, config), ROWS.batch(jnp.arange(24))
    after, metrics = jax.jit(agent.update)(state, batch, jax.random.key(1), config)
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(np.isfinite(leaf).all() for leaf in leaves(after))
    assert not same(state._replace(step=after.step), after)
    observations = 100.0 * jax.random.normal(jax.random.key(2), (64, 4))
    actions = agent.act(after, observations, jax.random.key(3), config, Acting(candidates=4))
    assert actions.shape == (64, 2)
    assert float(jnp.abs(actions).max()) <= 1.0


def test_the_choices_of_a_hyperparameter_are_those_that_exist():
    def choices(agent, field):
        return field_types(get_agent(agent).config)[field]

    for known, table in (
        (fields_of.CriticKind, NETWORKS["critic"]), (fields_of.PolicyKind, NETWORKS["policy"]),
        (fields_of.Architecture, NETWORKS["velocity"]), (fields_of.Activation, ACTIVATIONS),
        (fields_of.DenoiserKind, NETWORKS["denoiser"]), (fields_of.Sampler, SAMPLERS),
        (choices("edp", "noise_schedule"), SCHEDULES),
        (choices("bfq", "time_rule"), COMPOSITION_TIMES),
        (choices("ofql", "time_rule"), DISTRIBUTIONS),
    ):  # fmt: skip
        assert set(get_args(known)) == set(table)
