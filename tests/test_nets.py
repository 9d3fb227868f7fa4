"""Networks against their definitions."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from bfq.kernels import using
from bfq.nets import Critics
from bfq.nets.kinds import NETWORKS, orthogonal
from bfq.nets.mlp import MLP, LayerNorm, mish, torch_uniform, variance_scaling
from bfq.nets.policies import drop
from bfq.nets.residual import KINDS, NoiseResNet, ResidualVelocity
from bfq.nets.velocity import EmbeddedVelocity, FlowNet, TimeEmbedding, sines_first, sinusoidal

KEY = jax.random.key(0)
X, S = jax.random.normal(KEY, (5, 2)), jax.random.normal(jax.random.key(1), (5, 3))
T = jnp.arange(5.0)


def test_mish_is_x_tanh_softplus_with_its_gradient():
    x = jnp.concatenate([jnp.linspace(-30.0, 30.0, 601), jnp.array([-100.0, 100.0, 1e4])])
    reference = lambda v: v * jnp.tanh(jax.nn.softplus(v))
    close(mish(x), reference(x), rtol=2e-5, atol=1e-7)
    slope, expected = (jax.vmap(jax.grad(f))(x) for f in (mish, reference))
    close(slope, expected, rtol=2e-4, atol=1e-6)


def test_embeddings_of_time_have_the_stated_frequencies_order_and_scale():
    code = sinusoidal(jnp.array([0.0, 2.0]), 64)
    frequencies = 10000.0 ** (-np.arange(32) / 32)
    close(code[0], [1.0] * 32 + [0.0] * 32, atol=1e-7)
    close(code[1], [*np.cos(2 * frequencies), *np.sin(2 * frequencies)], rtol=1e-5, atol=1e-6)
    frequencies = np.exp(-np.arange(8) * np.log(1e4) / 7)
    official = np.concatenate([np.sin(3 * frequencies), np.cos(3 * frequencies)])
    close(sines_first(jnp.array([3.0]), 16)[0], official, atol=1e-6)
    slow, fast = (TimeEmbedding(KEY, 16, 8, 4, scale) for scale in (1, 100))
    close(slow(jnp.array([50.0])), fast(jnp.array([0.5])), rtol=1e-5)


def test_layer_norm_and_its_gradient_are_the_same_by_sums_and_by_products():
    x, upstream = jax.random.normal(KEY, (2, 10, 32)) * 5.0 + 3.0
    by_products, gradient = jax.vjp(LayerNorm(32), x)
    with using(kernels=True):  # which sum by themselves
        by_sums, expected = jax.vjp(LayerNorm(32), x)
    close(by_products, by_sums, rtol=1e-5, atol=1e-5)
    close(*(back(upstream)[0] for back in (gradient, expected)), rtol=1e-4, atol=1e-5)


def test_initializers_have_the_stated_spread():
    weight, bias = torch_uniform(KEY, 100, 4000)
    assert max(float(jnp.abs(part).max()) for part in (weight, bias)) <= 0.1
    close(weight.std(), 0.1 / 3**0.5, rtol=1e-2)
    weight, bias = variance_scaling(1.0)(KEY, 100, 300)
    close(weight.var(), 1 / 200, rtol=2e-2)
    assert (bias == 0).all()


@pytest.mark.parametrize("norm", ["none", "before", "after"])
def test_mlp_puts_its_norm_where_it_says(norm):
    net = MLP(KEY, 3, 2, 8, 1, "relu", norm=norm)
    x = jax.random.normal(KEY, (5, 3))
    hidden = x @ net.hidden[0].weight + net.hidden[0].bias
    normed = lambda h: (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
    hidden = normed(hidden) if norm == "before" else hidden
    hidden = jax.nn.relu(hidden)
    hidden = normed(hidden) if norm == "after" else hidden
    expected = hidden @ net.output.weight + net.output.bias
    close(net(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(NETWORKS["critic"]))
def test_stacked_critics_are_the_critics_one_by_one(kind):
    critics = Critics(KEY, 3, 2, kind, 8, 2)
    s, a = jnp.ones((6, 3)), jax.random.normal(KEY, (6, 2))
    values = critics(s, a)
    assert values.shape == (2, 6)
    assert not np.allclose(values[0], values[1])
    assert (critics.stacked.activations == ("tanh", "mish")) == (kind == "clean_diffuser")
    for k in range(2):
        single = jax.tree.map(lambda leaf, k=k: leaf[k], critics.stacked)
        close(values[k], single(jnp.concatenate([s, a], -1))[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("architecture", sorted(NETWORKS["velocity"]))
def test_one_time_for_all_rows_is_the_same_as_repeating_it(architecture):
    net = NETWORKS["velocity"][architecture](KEY, 3, 2, 16, 2, 100)
    for_all = net(X, jnp.asarray(0.2), jnp.asarray(0.9), S)
    one_each = net(X, jnp.full(5, 0.2), jnp.full(5, 0.9), S)
    close(for_all, one_each, rtol=1e-5, atol=1e-6)


def test_layers_of_the_residual_network_start_at_zero_or_with_a_variance_of_a_hundredth():
    net = ResidualVelocity(KEY, 120, 8, 128, 2, 1)
    block = net.blocks[0]
    times = (net.embed_t.first, net.embed_t.second, net.embed_r.first, net.embed_r.second)
    for linear in (net.token, *times, block.value, block.project, block.expand, block.contract):
        close(linear.weight.std(), 0.1 * len(linear.weight) ** -0.5, rtol=0.03)
        assert (linear.bias == 0).all()
    for linear in (net.output, net.final_modulation, block.modulation):
        assert (linear.weight == 0).all()


def test_residual_network_starts_at_zero_and_learns_from_every_part():
    net = ResidualVelocity(KEY, 3, 2, 16, 3, 100)
    x, s, t = jnp.ones((5, 2)), jnp.ones((5, 3)), jnp.full(5, 0.5)
    assert (net(x, t, t, s) == 0).all()
    moved = jax.tree.map(lambda p: p + 0.05 * jax.random.normal(KEY, p.shape), net)
    gradient = jax.jit(jax.grad(lambda n: jnp.square(n(x, 0.1 * t, t, s)).sum()))(moved)
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradient))


def test_a_residual_network_computes_from_one_time_once():
    def work(t):
        lowered = jax.jit(lambda *x: net(*x)).lower(jnp.ones((64, 2)), t, t, jnp.ones((64, 3)))
        return lowered.compile().cost_analysis()["flops"]

    net = ResidualVelocity(KEY, 3, 2, 32, 2, 1)
    block = 64 * 2 * (2 * 32 * 32 + 2 * 32 * 128)  # of 64 rows: value, project, expand, contract
    assert work(jnp.ones(())) < 2.5 * block < work(jnp.ones(64))


def test_embedded_network_has_the_stated_inputs():
    net = EmbeddedVelocity(KEY, 17, 6, 256, 3, 100)
    assert net.trunk.hidden[0].weight.shape == (6 + 64 + 64 + 17, 256)
    assert len(net.trunk.hidden) == 3
    assert net.embed.first.weight.shape == (2, 64, 128)
    assert not np.allclose(*net.embed.first.weight)


def test_networks_take_r_and_t_in_their_places():
    r, t = jnp.full(5, 0.2), jnp.full(5, 0.9)
    a = EmbeddedVelocity(KEY, 3, 2, 16, 2, 100)
    of_t, of_r = (jax.tree.map(lambda leaf, k=k: leaf[k], a.embed) for k in range(2))
    by_hand = a.trunk(jnp.concatenate([X, of_t(t), of_r(r), S], -1))
    close(a(X, r, t, S), by_hand, rtol=1e-5, atol=1e-6)
    raw = NETWORKS["velocity"]["raw_time"](KEY, 3, 2, 16, 2, 1)
    by_hand = raw.trunk(jnp.concatenate([S, X, t[:, None], r[:, None]], -1))
    close(raw(X, r, t, S), by_hand, rtol=1e-5, atol=1e-6)


def test_residual_block_is_a_tenth_of_the_way():
    net = ResidualVelocity(KEY, 3, 2, 16, 1, 100)
    block = jax.tree.map(lambda p: p + 0.1 * jax.random.normal(KEY, p.shape), net.blocks[0])
    x, code = jax.random.normal(KEY, (5, 16)), jax.random.normal(KEY, (5, 16))
    parts = jnp.split(block.modulation(jax.nn.silu(code)), 6, -1)
    shift, scale, gate, shift_m, scale_m, gate_m = parts
    norm = lambda v, gain: v / jnp.sqrt((v**2).mean(-1, keepdims=True) + 1e-6) * 4.0 * gain
    y = x + gate * block.project(block.value(norm(x, block.gain_attention) * (1 + scale) + shift))
    wide = block.expand(norm(y, block.gain_mlp) * (1 + scale_m) + shift_m)
    hidden = jax.nn.gelu(wide, approximate=True)
    expected = x + 0.1 * (y + gate_m * block.contract(hidden) - x)
    close(block(x, code), expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(64, 64), (5, 64), (64, 3)])
def test_orthogonal_weights_are_orthogonal_and_have_their_gain(shape):
    weight, bias = orthogonal(2.0)(jax.random.key(0), *shape)
    squares = weight.T @ weight if shape[0] >= shape[1] else weight @ weight.T
    close(squares, 4.0 * np.eye(min(shape)), atol=1e-5)
    assert not bias.any()


def test_orthogonal_weights_can_be_drawn_for_several_members_at_once():
    """In a separate process with a time limit: a QR mapped over members deadlocks on two cores."""
    code = """
import jax
from bfq.nets.kinds import orthogonal
draw = jax.jit(jax.vmap(lambda key: orthogonal(1.0)(key, 64, 64)[0]))
print(draw(jax.random.split(jax.random.key(0), 4)).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "(4, 64, 64)", done.stderr


def test_the_network_reads_state_action_and_numbers_in_this_order():
    net = FlowNet(KEY, 2, 3, 16, 2, numbers=2)
    s, x = jax.random.normal(KEY, (5, 2)), jax.random.normal(jax.random.key(1), (5, 3))
    t, k = jnp.linspace(0, 1, 5), jnp.full(5, 2.0)
    by_hand = net.trunk(jnp.concatenate([s, x, t[:, None], k[:, None]], axis=1))
    close(net(x, t, k, s), by_hand, rtol=1e-6)
    close(net(x, t[1], k[0], s), net(x, jnp.full(5, t[1]), k, s), rtol=1e-6)
    assert (net.action_dim, net.trunk.norm, set(net.trunk.activations)) == (3, "none", {"gelu"})
    assert all((layer.bias == 0).all() for layer in (*net.trunk.hidden, net.trunk.output))
    bound = (6 / (7 + 16)) ** 0.5
    assert 0.9 * bound < float(jnp.abs(net.trunk.hidden[0].weight).max()) < bound


@pytest.mark.parametrize("kind", NETWORKS["denoiser"])
def test_denoisers_take_a_time_a_row_or_one_for_all(kind):
    net = NETWORKS["denoiser"][kind](KEY, 4, 2, 16, 3)
    a, s = jax.random.normal(KEY, (6, 2)), jax.random.normal(KEY, (6, 4))
    close(net(a, jnp.full(6, 3.0), s), net(a, jnp.float32(3.0), s), rtol=1e-5)
    dim = {"clean_diffuser": 64, "official": 16, "edp": 16}[kind]
    layers = (net.embed.first, net.embed.second, net.trunk.hidden[0])
    sizes = [(dim, 2 * dim), (2 * dim, dim), (2 + dim + 4, 16)]
    assert [layer.weight.shape for layer in layers] == sizes


def noise_net(kind, **more):
    return NoiseResNet(jax.random.key(2), 3, 2, 8, 2, kind, **more)


def np_mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


def by_hand(n, kind):
    """The three references, written out once more."""
    t = np.asarray(T)[:, None]
    if kind == "clean_diffuser":
        angles = t * 10000.0 ** (-np.arange(32) / 32)
    else:
        angles = 2 * np.pi * t * np.asarray(n.embed.frequencies)
    waves = [np.cos(angles), np.sin(angles)]
    code = np.concatenate(waves[::-1] if kind == "srpo" else waves, -1)
    apply = lambda layer, x: x @ np.asarray(layer.weight) + np.asarray(layer.bias)
    code = apply(n.embed.second, np_mish(apply(n.embed.first, code)))
    x = np.concatenate([X, code, S] if kind == "clean_diffuser" else [X, S, code], -1)
    x = apply(n.enter, x)
    for block in n.blocks:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + block.norm.epsilon)
        x = x + apply(block.contract, np_mish(apply(block.expand, y)))
    return apply(n.leave, x if kind == "clean_diffuser" else np_mish(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_is_its_references_formula(kind):
    n = noise_net(kind)
    close(n(X, T, S), by_hand(n, kind), rtol=1e-3, atol=1e-4)
    close(n(X, jnp.float32(3.0), S)[3], n(X, T, S)[3], rtol=1e-4, atol=1e-5)


def test_dropout_drops_a_share_scales_the_rest_and_is_off_without_a_key():
    ones = jnp.ones((200, 100))
    assert drop(ones, 0.1, None) is ones
    dropped = np.asarray(drop(ones, 0.1, KEY))
    close(np.unique(dropped), [0.0, 1 / 0.9], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.1) < 0.01
    n = noise_net("idql")
    kept, noisy, other = n(X, T, S), n(X, T, S, KEY), n(X, T, S, jax.random.key(7))
    assert not np.allclose(kept, noisy)
    assert not np.allclose(noisy, other)
    close(noisy, n(X, T, S, KEY))
    close(noise_net("idql", dropout=0.0)(X, T, S, KEY), kept, rtol=1e-5, atol=1e-6)


def test_idql_learns_its_frequencies_and_srpo_does_not():
    for kind, learned in (("idql", True), ("srpo", False)):
        gradient = jax.grad(lambda n: jnp.square(n(X, T / 5, S)).sum())(noise_net(kind))
        assert bool(jnp.abs(gradient.embed.frequencies).max() > 0) == learned
    wide, narrow = noise_net("srpo").embed.frequencies, noise_net("idql").embed.frequencies
    close(wide / 30.0, narrow / 0.2, rtol=1e-4)


def test_kinds_begin_as_their_frameworks_do():
    flax, torch = noise_net("idql"), noise_net("srpo")
    assert (flax.blocks[0].norm.epsilon, torch.blocks[0].norm.epsilon) == (1e-6, 1e-5)
    assert (flax.leave.bias == 0).all()
    assert (torch.leave.bias != 0).any()
    assert float(jnp.abs(torch.enter.weight).max()) <= torch.enter.weight.shape[0] ** -0.5
