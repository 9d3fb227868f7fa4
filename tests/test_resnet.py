"""The residual network of IDQL and SRPO: its formula, its dropout, its three kinds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.nets.policies import drop
from bfq.nets.residual import KINDS, NoiseResNet

KEY = jax.random.key(0)
X, S = jax.random.normal(KEY, (5, 2)), jax.random.normal(jax.random.key(1), (5, 3))
T = jnp.arange(5.0)


def net(kind, **more):
    return NoiseResNet(jax.random.key(2), 3, 2, 8, 2, kind, **more)


def mish(x):
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
    code = apply(n.embed.second, mish(apply(n.embed.first, code)))
    x = np.concatenate([X, code, S] if kind == "clean_diffuser" else [X, S, code], -1)
    x = apply(n.enter, x)
    for block in n.blocks:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + block.norm.epsilon)
        x = x + apply(block.contract, mish(apply(block.expand, y)))
    return apply(n.leave, x if kind == "clean_diffuser" else mish(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_is_its_references_formula(kind):
    n = net(kind)
    assert n.action_dim == 2
    np.testing.assert_allclose(n(X, T, S), by_hand(n, kind), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(n(X, jnp.float32(3.0), S)[3], n(X, T, S)[3], rtol=1e-4, atol=1e-5)


def test_dropout_drops_a_share_scales_the_rest_and_is_off_without_a_key():
    ones = jnp.ones((200, 100))
    assert drop(ones, 0.1, None) is ones
    dropped = np.asarray(drop(ones, 0.1, KEY))
    np.testing.assert_allclose(np.unique(dropped), [0.0, 1 / 0.9], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.1) < 0.01
    n = net("idql")
    kept, noisy, other = n(X, T, S), n(X, T, S, KEY), n(X, T, S, jax.random.key(7))
    assert not np.allclose(kept, noisy)
    assert not np.allclose(noisy, other)
    np.testing.assert_allclose(noisy, n(X, T, S, KEY))
    np.testing.assert_allclose(net("idql", dropout=0.0)(X, T, S, KEY), kept, rtol=1e-5, atol=1e-6)


def test_idql_learns_its_frequencies_and_srpo_does_not():
    for kind, learned in (("idql", True), ("srpo", False)):
        gradient = jax.grad(lambda n: jnp.square(n(X, T / 5, S)).sum())(net(kind))
        assert bool(jnp.abs(gradient.embed.frequencies).max() > 0) == learned
    wide, narrow = net("srpo").embed.frequencies, net("idql").embed.frequencies
    np.testing.assert_allclose(wide / 30.0, narrow / 0.2, rtol=1e-4)


def test_kinds_begin_as_their_frameworks_do():
    flax, torch = net("idql"), net("srpo")
    assert flax.blocks[0].norm.epsilon == 1e-6
    assert torch.blocks[0].norm.epsilon == 1e-5
    biases = eqx.filter(flax, lambda leaf: leaf.ndim == 1)
    assert float(jnp.abs(biases.leave.bias).max()) == 0.0 < float(jnp.abs(torch.leave.bias).max())
    assert float(jnp.abs(torch.enter.weight).max()) <= torch.enter.weight.shape[0] ** -0.5
