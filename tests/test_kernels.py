"""Kernels compute what the plain formulas compute. They are interpreted here, so that no GPU is needed."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose as close

from bfq.agents import learning
from bfq.kernels import Use, available, leaves, use, using
from bfq.kernels.layers import suits
from bfq.kernels.leaves import BLOCK, Rounded, rounded, without_copies
from bfq.nets import Critics
from bfq.nets.mlp import MLP
from bfq.nets.primitives import map_leaves
from bfq.nets.residual import Block, NoiseResNet, ResidualBlock, ResidualVelocity
from bfq.nets.velocity import TimeEmbedding

KEY = jax.random.key(0)
INTERPRETED = {"kernels": True, "interpreted": True}


def relative(a, b):
    error = lambda x, y: float(jnp.abs(x - y).max() / (jnp.abs(y).max() + 1e-9))
    return max(jax.tree.leaves(jax.tree.map(error, a, b)))


def both_ways(function, *inputs, **changes):
    """With kernels and without; each is traced again, since JAX does not see that the use has changed."""
    plain = jax.jit(lambda *x: function(*x))(*inputs)
    with using(**INTERPRETED, **changes):
        return jax.jit(lambda *x: function(*x))(*inputs), plain


KINDS = [("none", "mish"), ("before", "mish"), ("after", "gelu")]


@pytest.mark.parametrize(("norm", "activation"), KINDS)
@pytest.mark.parametrize("rows", [16, 150])  # 150: several pieces of the sums, the last not full
def test_a_network_and_all_its_gradients_are_the_same_in_kernels(norm, activation, rows):
    def loss(net, x):
        return jnp.square(net(x)).mean() + net(2.0 * x).sum()

    make = jax.vmap(lambda k: MLP(k, 5, 3, 32, 2, activation, norm=norm))
    members = make(jax.random.split(KEY, 3))
    x = jax.random.normal(KEY, (3, rows, 5))
    gradients = jax.vmap(jax.value_and_grad(loss, argnums=(0, 1)))
    fast, plain = both_ways(gradients, members, x)
    assert relative(fast, plain) < 1e-5
    assert "pallas" in primitives(gradients, members, x)


def primitives(function, *inputs):
    with using(**INTERPRETED):
        return str(jax.make_jaxpr(lambda *x: function(*x))(*inputs))


def test_layers_of_several_widths_are_computed_without_kernels():
    net, x = MLP(KEY, 5, 3, "32x64", 0, "mish", norm="before"), jax.random.normal(KEY, (37, 5))
    fast, plain = both_ways(jax.grad(lambda n: jnp.square(n(x)).sum()), net)
    assert relative(fast, plain) < 1e-5


@pytest.mark.parametrize("rows", [16, 150])
def test_an_output_of_one_number_is_part_of_the_last_kernel(rows):
    critics = Critics(KEY, 4, 2, "clean_diffuser", 32, 2)
    s, a = jax.random.normal(KEY, (rows, 4)), jax.random.normal(KEY, (rows, 2))

    def loss(networks, action):
        return jnp.square(networks(s, action) - 1.0).mean()

    gradients = jax.value_and_grad(loss, argnums=(0, 1))
    fast, plain = both_ways(gradients, critics, a)
    assert relative(fast, plain) < 1e-5
    assert primitives(critics, s, a).count("dot_general[") == 2  # hidden layers alone


def test_bfloat16_products_are_off_by_their_rounding_and_no_more():
    net = MLP(KEY, 6, 2, 64, 3, "mish", norm="before")
    x = jax.random.normal(KEY, (32, 6))
    rounded, plain = both_ways(net, x, half=True)
    assert rounded.dtype == jnp.float32
    assert 1e-4 < relative(rounded, plain) < 3e-2


def residual_velocity():
    """With weights that start at zero set to others, so that every layer matters."""
    net = ResidualVelocity(KEY, 4, 2, 32, 2, 1)
    keys = iter(jax.random.split(KEY, len(jax.tree.leaves(net))))
    return jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(next(keys), leaf.shape), net)


VELOCITY = residual_velocity()
RESIDUAL = {
    "velocity": (VELOCITY, lambda net, a, t, s: net(a, 0.5 * t, t, s)),
    "one time for all rows": (VELOCITY, lambda net, a, t, s: net(a, 0.5 * t[0], t[0], s)),
    "noise": (NoiseResNet(KEY, 4, 2, 32, 2, "idql"), lambda net, a, t, s: net(a, t, s)),
}


@pytest.mark.parametrize("name", RESIDUAL)
def test_residual_networks_and_their_gradients_are_off_by_the_rounding_of_bfloat16(name):
    net, call = RESIDUAL[name]
    a, s = jax.random.normal(KEY, (48, 2)), jax.random.normal(KEY, (48, 4))
    t = jax.random.uniform(KEY, (48,))

    def loss(network, action):
        return jnp.square(call(network, action, t, s) - 1.0).mean()

    gradients = jax.value_and_grad(loss, argnums=(0, 1))
    rounded, plain = both_ways(gradients, net, a, half=True)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(rounded))
    distance = lambda x, y: float(jnp.linalg.norm(x - y) / jnp.linalg.norm(y))
    off = jax.tree.map(distance, rounded, plain)
    assert 1e-4 < max(jax.tree.leaves(off)) < 3e-2
    same, _ = both_ways(gradients, net, a)  # float32 products asked for
    assert relative(same, plain) < 1e-5


@pytest.mark.parametrize("width", [8, 48, 2048])
def test_what_kernels_cannot_do_is_left_to_the_plain_formulas(width):
    x = jnp.ones((32, 4))
    assert not suits(x, width)
    assert suits(x, 64)
    assert not suits(x[:8], 64)  # few rows: a single observation, say
    fast, plain = both_ways(MLP(KEY, 4, 2, width, 1, "relu"), x)
    np.testing.assert_array_equal(fast, plain)


def test_every_leaf_is_changed_and_nothing_beside_it():
    sizes = {"small": (3,), "matrix": (7, 11), "several blocks": (BLOCK * 2 + 5,), "one": ()}
    a = {name: jax.random.normal(KEY, shape) for name, shape in sizes.items()}
    b = jax.tree.map(lambda x: x + 1.0, a)

    def change(k, x, y):
        return map_leaves(lambda c, p, q, r: (c * p + q, p - r), (k,), x, y, y, changed=2)

    scalars = jnp.array([2.0, -1.0])  # of two members, for the same trees
    fast, plain = both_ways(jax.vmap(change, in_axes=(0, None, None)), scalars, a, b)
    assert relative(fast, plain) < 1e-6
    for name, value in a.items():
        close(plain[0][name][1], b[name] - value, rtol=1e-5)
        close(plain[1][name][0], value - b[name], rtol=1e-5)


def test_a_network_of_many_arrays_takes_more_than_one_launch(monkeypatch):
    a = {str(k): jnp.full(k + 1, float(k)) for k in range(9)}
    monkeypatch.setattr(leaves, "MOST_POINTERS", 24)  # 4 arrays a launch, of 2 trees and a result

    def change(x):
        return map_leaves(lambda c, p, q: (p + c * q,), (2.0,), x, x, changed=1)

    fast, plain = both_ways(change, a)
    assert relative(fast, plain) == 0.0
    assert primitives(change, a).count("pallas_call[") == 3


@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_a_target_that_does_not_move_is_left_as_it_is_with_its_copy(rate):
    two = lambda value: {"w": rounded(value * jnp.ones((40, 32))), "b": value * jnp.ones(3)}
    online, target = two(1.01), two(3.03)
    # A copy of zeros shows whether the kernel writes it.
    target["w"] = Rounded(target["w"].full, jnp.zeros_like(target["w"].half))
    moved, _ = both_ways(learning.polyak, target, online, jnp.float32(rate))
    expected = (1.0 - rate) * 3.03 + rate * 1.01
    close(moved["w"].full, expected, rtol=1e-6)
    close(moved["b"], expected, rtol=1e-6)
    copy = jnp.bfloat16(expected) if rate else jnp.bfloat16(0.0)
    assert (moved["w"].half == copy).all()


def copied_weights(network):
    """The weights that have copies, in an MLP or in residual blocks."""
    if isinstance(network, MLP):
        return [linear.weight for linear in network.hidden]
    kind = ResidualBlock if isinstance(network, ResidualVelocity) else Block
    multiplied, _ = leaves.MULTIPLIED[kind]
    assert len(multiplied(network.blocks[0])) == (5 if kind is ResidualBlock else 2)
    return [weight for block in network.blocks for weight in multiplied(block)]


@pytest.mark.parametrize("name", ["mlp", "velocity", "noise"])
def test_copies_of_weights_are_their_rounding_after_every_update(name):
    """Products of the copies equal products of weights that are rounded where they are read."""
    x = jax.random.normal(KEY, (20, 5))
    net, call = RESIDUAL.get(name) or (MLP(KEY, 5, 3, 32, 3, "mish", norm="before"), None)

    def loss(network):
        found = call(network, x[:, :2], x[:, 2], x[:, 1:]) if call else network(x)
        return jnp.square(found - 1.0).mean(), {}

    def trained(network, copy):
        state, target = learning.learner(network)._replace(params=copy(network)), copy(network)
        for _ in range(2):
            state, target, *_ = learning.descend_with_target(state, target, loss, 0.01, 0.2)
        return state.params, target

    with using(**INTERPRETED, half=True):
        carried = jax.jit(lambda network: trained(network, leaves.with_copies))(net)
        plain = jax.jit(lambda network: trained(network, lambda same: same))(net)
    for network in carried:
        for weight in copied_weights(network):
            assert (weight.half == weight.full.astype(jnp.bfloat16)).all()
            assert weight.half.dtype == jnp.bfloat16
    assert relative(without_copies(carried), plain) < 1e-6


def test_a_gradient_of_the_input_alone_needs_no_sums():
    """Guidance: the critics judge an action, and only the action's gradient is wanted."""
    critics = Critics(KEY, 4, 2, "clean_diffuser", 32, 2)
    s, a = jax.random.normal(KEY, (20, 4)), jax.random.normal(KEY, (20, 2))
    of_action = jax.grad(lambda action: critics(s, action).sum())
    fast, plain = both_ways(of_action, a)
    assert relative(fast, plain) < 1e-5
    assert "added_up" not in primitives(of_action, a)
    of_weights = jax.grad(lambda net: net(s, a).sum())
    assert "added_up" in primitives(of_weights, critics)


def test_one_time_is_embedded_in_one_launch():
    embed = jax.vmap(lambda k: TimeEmbedding(k, 32, 64, 32, 100))(jax.random.split(KEY, 2))

    def squares(nets, times):
        return jnp.square(jax.vmap(lambda net, t: net(t))(nets, times)).sum()

    times = jnp.array([0.25, 1.0])
    fast, plain = both_ways(jax.value_and_grad(squares, argnums=(0, 1)), embed, times)
    assert relative(fast, plain) < 1e-4  # of the time: its sinusoids turn a hundred times as fast
    assert "two_layers" in primitives(squares, embed, times)


def test_adam_and_the_target_are_those_of_optax_and_polyak():
    params = {"w": jax.random.normal(KEY, (40, 30)), "b": jnp.zeros(30)}
    adam = optax.scale_by_adam()

    def loss(p):
        return jnp.square(jnp.sin(p["w"]) - 0.3).sum() + jnp.square(p["b"] - 1.0).sum(), {}

    def by_hand(p, target, steps):
        moments = adam.init(p)
        for _ in range(steps):
            direction, moments = adam.update(jax.grad(lambda q: loss(q)[0])(p), moments)
            p = jax.tree.map(lambda x, d: x - 0.01 * (d + 0.1 * x), p, direction)
            target = jax.tree.map(lambda t, x: 0.8 * t + 0.2 * x, target, p)
        return p, target

    def ours(p, target, steps):
        state = learning.learner(p)
        for _ in range(steps):
            given = state, target, loss, 0.01, 0.2
            state, target, *_ = learning.descend_with_target(*given, weight_decay=0.1)
        return state.params, target

    expected = by_hand(params, params, 4)
    for found in both_ways(lambda p: ours(p, p, 4), params):
        assert relative(found, expected) < 1e-5


def test_the_use_of_kernels_is_a_matter_of_the_device_and_of_what_is_asked(monkeypatch):
    assert use() == Use(kernels=available())
    with using(kernels=True, members=6):
        assert use().members == 6
        with using(half=True):
            assert use() == Use(True, 6, half=True)
    assert use() == Use(kernels=available())
    for version, can in (("9.0", True), ("7.5", False), ("gfx942", False), ("", False)):
        device = SimpleNamespace(platform="gpu", compute_capability=version)
        monkeypatch.setattr(jax, "devices", lambda device=device: [device])
        assert available() == can
    monkeypatch.setenv("BFQ_NO_KERNELS", "1")
    assert not available()


def test_rows_that_do_not_fill_the_last_program_are_left_alone():
    """With many members a program takes several rows: 37 in programs of 16, the last not full."""
    net, x = MLP(KEY, 5, 3, 32, 2, "mish", norm="before"), jax.random.normal(KEY, (37, 5))
    gradients = jax.grad(lambda n: jnp.square(n(x)).sum())
    fast, plain = both_ways(gradients, net, members=64)
    assert relative(fast, plain) < 1e-5
