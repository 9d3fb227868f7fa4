"""Which weights are multiplied as bfloat16 numbers, and the copies of them that kernels read."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import optax
from jaxtyping import Array

from bfq.kernels.rounded import rounded, with_copy
from bfq.nets.mlp import MLP, Linear
from bfq.nets.residual import Block, ResidualBlock
from bfq.nets.velocity import TimeEmbedding

T = TypeVar("T")


def _weights(*layers: Linear) -> list[Any]:
    return [layer.weight for layer in layers]


# By the kind of network: its weights that kernels multiply, and what gives them a copy.
MULTIPLIED: dict[type, tuple[Callable[[Any], list[Any]], Callable[[Array], Any]]] = {
    MLP: (lambda net: _weights(*net.hidden), rounded),
    TimeEmbedding: (lambda net: _weights(net.first), rounded),
    ResidualBlock: (
        lambda net: _weights(net.modulation, net.value, net.project, net.expand, net.contract),
        with_copy,
    ),
    Block: (lambda net: _weights(net.expand, net.contract), with_copy),
}


def with_copies(state: T) -> T:
    """The state with weights that carry their bfloat16 copies, where kernels multiply them.

    Moments are left alone: nothing multiplies by them.
    """

    def copied(node: Any) -> Any:
        for kind, (multiplied, copy) in MULTIPLIED.items():
            if isinstance(node, kind):
                return eqx.tree_at(multiplied, node, replace_fn=copy)
        return node

    kinds = (*MULTIPLIED, optax.ScaleByAdamState)
    return jax.tree.map(copied, state, is_leaf=lambda node: isinstance(node, kinds))
