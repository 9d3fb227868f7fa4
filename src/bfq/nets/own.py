"""Networks of one's own, in place of an agent's: any Equinox module that maps one vector to another.

Such a network need not know batches, times or several critics: it is called with one vector that holds
everything the agent's own network would receive, [action, times, state] or only the state.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array
from jaxtyping import PRNGKeyArray as Key

from bfq.nets.velocity import columns

Make = Callable[[Key, int, int], Any]  # (key, inputs, outputs) -> a module of one vector
TIMES = {"policy": 0, "denoiser": 1, "velocity": 2}  # numbers beside action and state, by role

_given: ContextVar[tuple[Mapping[str, Make], set[str]] | None] = ContextVar("own", default=None)


@contextmanager
def use_own(networks: Mapping[str, Make]) -> Iterator[set[str]]:
    """Build these networks, "policy" or "critic", in place of the agent's; yields those that were built."""
    built: set[str] = set()
    token = _given.set((networks, built))
    try:
        yield built
    finally:
        _given.reset(token)


def own_constructor(role: str) -> Callable[..., Any] | None:
    """The constructor that takes the place of the agent's networks of this role, if there is one."""
    given = _given.get()
    place = "critic" if role == "critic" else "policy"
    if given is None or place not in given[0]:
        return None
    make, built = given[0][place], given[1]

    def construct(key: Key, *sizes: Any, **_: str) -> OwnNetwork:
        built.add(place)
        if role == "critic":
            return OwnNetwork(make(key, sizes[0], 1), 1)
        s, a, _width, _depth, *numbers = sizes
        if role == "policy":
            return OwnNetwork(make(key, s, a), a)
        times = (numbers or [0])[0] if role == "flow" else TIMES[role]
        return OwnNetwork(make(key, a + times + s, a), a)

    return construct


class OwnNetwork(eqx.Module):
    """A module of one vector, called as an agent calls its own networks."""

    arrays: Any
    rest: Any = eqx.field(static=True)  # what is no array, such as activations
    fan_out: int = eqx.field(static=True)

    def __init__(self, net: Any, fan_out: int):
        self.arrays, self.rest = eqx.partition(net, eqx.is_array)
        self.fan_out = fan_out

    @property
    def action_dim(self) -> int:
        """The number of action dimensions."""
        return self.fan_out

    def __call__(self, *inputs: Array) -> Array:
        """Apply the module to each row of [action, times, state], or of the only input."""
        first, *times, last = inputs if len(inputs) > 1 else (inputs[0][..., :0], inputs[0])
        beside = columns(last, *(time[..., None] for time in times))
        net = eqx.combine(self.arrays, self.rest)
        each = jnp.vectorize(net, signature="(i)->(o)")
        output: Array = each(jnp.concatenate([first, *beside, last], axis=-1))
        return output
