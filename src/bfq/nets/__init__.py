"""Networks: Equinox modules whose leaves are all arrays, so that they can be stacked and vmapped."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from jaxtyping import Array


class ActionNetwork(Protocol):
    """A network that returns a vector of the action's size: a velocity, or a denoiser."""

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        ...

    def __call__(self, noisy_action: Array, *inputs: Array) -> Array:
        """Evaluate the network at a_t, its times (one per row, or one for all rows) and s."""
        ...


def constructor(role: str, kind: str) -> Callable[..., Any]:
    """The constructor of a network: a critic, policy, velocity, flow or denoiser of some kind.

    An agent depends on no architecture: `bfq.nets.kinds`, which holds the table, is imported here.
    """
    make: Callable[..., Any] = import_module("bfq.nets.kinds").NETWORKS[role][kind]
    return make
