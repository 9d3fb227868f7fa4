"""Networks: Equinox modules whose leaves are all arrays, so that they can be stacked and vmapped.

The tables name the networks that an agent's config can choose. Each is imported when it is first used.
"""

from collections.abc import Callable, Iterator, Mapping
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


class Table(Mapping[str, Callable[..., Any]]):
    """Constructors by name, from the places "module:function" in this package."""

    def __init__(self, **places: str):
        self._places = places

    def __getitem__(self, name: str) -> Callable[..., Any]:
        module, function = self._places[name].split(":")
        make: Callable[..., Any] = getattr(import_module(f"bfq.nets.{module}"), function)
        return make

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


# v_θ(a_t, r, t; s), made by (key, observation_dim, action_dim, width, depth, time_scale)
VELOCITIES = Table(
    embedded="velocity:EmbeddedVelocity",
    residual="residual:ResidualVelocity",
    raw_time="velocity:RawTimeVelocity",
)
# ε_θ(a_t, t; s), made by (key, observation_dim, action_dim, width, depth)
DENOISERS = Table(
    clean_diffuser="velocity:clean_diffuser_denoiser",
    official="velocity:official_denoiser",
    edp="velocity:edp_denoiser",
)
# Q(s, a) or V(s), made by (key, fan_in, width, depth)
CRITICS = Table(
    clean_diffuser="kinds:clean_diffuser_critic",
    plain="kinds:plain_critic",
    fql="kinds:fql_critic",
    relu="kinds:relu_critic",
    iql="kinds:iql_critic",
    rebrac="kinds:rebrac_critic",
    norm_mish="kinds:norm_mish_critic",
)
# μ(s), made by (key, observation_dim, action_dim, width, depth)
POLICIES = Table(
    relu="kinds:relu_policy",
    iql="kinds:iql_policy",
    rebrac="kinds:rebrac_policy",
    fql="kinds:fql_policy",
)
