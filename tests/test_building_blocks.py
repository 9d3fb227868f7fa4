"""Widths, activations, norms, several critics, learning rates and networks of one's own, for every agent."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.agent_cases import KEY, SPEC, assert_close, leaves, same, setup, small, transitions

from bfq.agents import learning
from bfq.agents.callables import with_networks
from bfq.agents.contract import Acting
from bfq.agents.registry import agent_names, configure, get_agent
from bfq.errors import BadInput
from bfq.nets import Critics, constructor
from bfq.nets.mlp import MLP

VALUED = [n for n in agent_names() if issubclass(get_agent(n).config, learning.ValueBased)]


def stepped(agent, config):
    """The state before and after an update, and actions."""
    state = jax.jit(agent.init, static_argnums=1)(KEY, SPEC, config)
    after, _ = jax.jit(agent.update)(state, transitions(), KEY, config)
    actions = agent.act(after, jnp.ones((5, 3)), KEY, config, Acting())
    assert actions.shape == (5, 2)
    assert all(np.isfinite(leaf).all() for leaf in leaves(after))
    return state, after


def test_widths_of_each_layer():
    net = MLP(KEY, 3, 2, "16x8", 5, "relu", norm="after")
    assert [layer.weight.shape for layer in net.hidden] == [(3, 16), (16, 8)]
    assert [norm.scale.shape for norm in net.norms] == [(16,), (8,)]
    assert net.output.weight.shape == (8, 2)
    assert same(MLP(KEY, 3, 2, "16x16", 7, "mish"), MLP(KEY, 3, 2, 16, 2, "mish"))
    for wrong in ("16x", "0x8", "x", "16,8", "99999999"):
        with pytest.raises(
            BadInput, match="width must be a whole number from 1 to .* or widths such as 256x128"
        ):
            configure(get_agent("td3_bc"), {"width": wrong})
    for name in ("idql", "srpo"):
        with pytest.raises(BadInput, match="a residual network has one width"):
            configure(get_agent(name), {"width": "16x8"})
    with pytest.raises(BadInput, match="a residual network has one even width"):
        configure(get_agent("bfq"), {"width": "16x8", "architecture": "residual"})


def test_another_activation_or_norm_takes_the_place_of_the_kinds():
    critics = Critics(KEY, 3, 2, "clean_diffuser", 8, 2, activation="relu", norm="none")
    assert critics.stacked.activations == ("relu", "relu")
    assert critics.stacked.norm == "none"
    velocity = constructor("velocity", "embedded")(KEY, 3, 2, 8, 2, 1, norm="before")
    assert (velocity.trunk.norm, velocity.trunk.activations) == ("before", ("mish", "mish"))
    plain, other = (small("td3_bc", norm=norm) for norm in ("", "after"))
    assert get_agent("td3_bc").init(KEY, SPEC, plain).policy.params.mean.norm == "none"
    assert get_agent("td3_bc").init(KEY, SPEC, other).policy.params.mean.norm == "after"
    with pytest.raises(BadInput, match="and its own norm"):
        configure(get_agent("ofql"), {"norm": "after", "architecture": "residual"})


@pytest.mark.parametrize("name", VALUED)
def test_every_agent_takes_all_blocks_at_once(name):
    blocks = {"critic_width": "16x8", "critic_norm": "after", "critic_activation": "silu", "critic_count": 3,
              "aggregation": "lower", "pessimism": 2.0}  # fmt: skip
    values = get_agent(name).config()
    blocks |= {"width": "16x8"} if name not in ("idql", "srpo") else {}
    blocks |= {"activation": "tanh", "norm": "before"} if name != "idql" else {}
    blocks |= {"guidance": "mean"} if hasattr(values, "guidance") else {}
    state, after = stepped(get_agent(name), small(name, **blocks))
    critics = [
        x
        for x in jax.tree.leaves(after, is_leaf=lambda x: isinstance(x, Critics))
        if isinstance(x, Critics)
    ]
    assert {len(c.stacked.output.bias) for c in critics} == {3}
    assert jax.tree.structure(state) == jax.tree.structure(after)


def test_several_critics_as_one_value():
    q = jnp.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    np.testing.assert_allclose(learning.aggregate(q, "min"), [1, 5])
    np.testing.assert_allclose(learning.aggregate(q, "mean"), [4, 5])
    found = learning.aggregate(q, "lower", 0.5)
    np.testing.assert_allclose(found, [4 - 0.5 * np.std([1, 3, 8]), 5], rtol=1e-5)
    assert np.isfinite(jax.grad(lambda q: learning.aggregate(q, "lower").sum())(q)).all()
    config, state, batch = setup("td3_bc", critic_count=4, aggregation="lower", pessimism=1.5)
    values = state.critics_target(batch.next_observations, batch.actions)
    y = batch.rewards + 0.99 * batch.masks * (values.mean(0) - 1.5 * values.std(0))
    np.testing.assert_allclose(learning.backup(batch, values, config), y, rtol=1e-4)
    with pytest.raises(BadInput, match="guidance random needs two critics"):
        configure(get_agent("bfq"), {"critic_count": 5})


@pytest.mark.parametrize(
    "name", [n for n in VALUED if hasattr(get_agent(n).config(), "critic_learning_rate")]
)
def test_critics_have_a_learning_rate_of_their_own(name):
    """1e-30 stops the critics and nothing else."""
    config, state, batch = setup(name, critic_learning_rate=1e-30, steps=9)
    state = state._replace(step=jnp.int32(4)) if name == "srpo" else state
    after, _ = jax.jit(get_agent(name).update)(state, batch, KEY, config)
    assert_close(after.critics.params, state.critics.params, rtol=0, atol=1e-20)
    usual, _ = jax.jit(get_agent(name).update)(
        state, batch, KEY, dataclasses.replace(config, critic_learning_rate=1e-3)
    )
    assert not same(usual.critics.params, state.critics.params)


def plain(key, inputs, outputs):
    return eqx.nn.MLP(inputs, outputs, 8, 1, activation=jnp.tanh, key=key)


@pytest.mark.parametrize("name", ["td3_bc", "iql", "bfq", "fql", "sorl", "dql", "cql"])
def test_networks_of_ones_own_learn_in_place_of_the_agents(name):
    own = with_networks(name, f"{name}_own", policy=plain, critic=plain)
    state, after = stepped(own, small(name))
    assert own.name == f"{name}_own"
    assert not same(state, after)
    arrays = [x for x in leaves(after) if x.ndim]
    assert not any(16 in x.shape for x in arrays), "a network of the agent is left"
    critics = after.networks.params.critics if hasattr(after, "networks") else after.critics.params
    s, a = jnp.ones((6, 3)), jnp.zeros((6, 2 + (name == "sorl")))
    one = jax.tree.map(lambda leaf: leaf[1], critics.stacked)
    net = eqx.combine(one.arrays, one.rest)
    np.testing.assert_allclose(
        critics(s, a)[1], jax.vmap(net)(jnp.concatenate([s, a], -1))[:, 0], rtol=1e-5
    )


def test_a_network_that_an_agent_does_not_have_is_refused():
    with pytest.raises(BadInput, match="idql has no policy that can be replaced"):
        with_networks("idql", "mine", policy=plain).init(KEY, SPEC, small("idql"))
