"""The contract of an agent: what it is given, what it returns, and what is special about it.

An agent is one Python file that ends with `AGENT = Agent(...)`. Its numeric hyperparameters
(the `float` fields of its Config) are leaves of a pytree: each member of a population may have its own.
Everything else in the Config is structure and is shared.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.errors import BadInput, unknown

Metrics = dict[str, Float[Array, ""]]


class Batch(NamedTuple):
    """A batch of transitions as an agent sees them: normalized observations, actions in [−1, 1]."""

    observations: Float[Array, "b s"]
    actions: Float[Array, "b a"]
    rewards: Float[Array, " b"]
    next_observations: Float[Array, "b s"]
    masks: Float[Array, " b"]  # 0 where the future must not be bootstrapped
    # Only for agents that need "next_actions":
    next_actions: Float[Array, "b a"] | None = None  # a′, the action logged after this one
    next_known: Float[Array, " b"] | None = None  # 0 where the log ends before a′


class Spec(NamedTuple):
    """The sizes of the problem."""

    observation_dim: int
    action_dim: int


@dataclasses.dataclass(frozen=True)
class Acting:
    """How a trained agent turns its network into an action: part of every score's protocol."""

    candidates: int = 1  # N: actions drawn for each state
    selection: str = "argmax"  # which of them is taken: argmax | softmax, by the target critic
    softmax_weight: float = 1.0  # w in softmax(w · Q)
    temperature: float = 1.0  # factor on the initial noise
    policy: str = "ema"  # ema | online
    sampling_steps: int = 0  # network calls from noise to action; 0: as many as in training
    sampler: str = "trained"  # which rule makes these steps; trained: the agent's own


def _nothing(config: Any) -> tuple[str, ...]:
    return ()


class Agent(NamedTuple):
    """A method: its configuration, how it begins, learns and acts, and what is special about it."""

    name: str
    title: str
    config: Callable[..., Any]
    init: Callable[[PRNGKeyArray, Spec, Any], Any]
    update: Callable[[Any, Batch, PRNGKeyArray, Any], tuple[Any, Metrics]]
    act: Callable[[Any, Float[Array, "b s"], PRNGKeyArray, Any, Acting], Float[Array, "b a"]]
    chooses: bool = True  # whether its critic can choose among candidates
    needs: tuple[str, ...] = ()  # columns of a batch beyond (s, a, r, s′, mask): next_actions
    reference: str = ""  # who proposed it, where and when
    defaults: str = ""  # the origin of the default hyperparameters
    samplers: tuple[str, ...] = ()  # sampling rules, for agents that sample in several steps
    ignores: Callable[[Any], tuple[str, ...]] = _nothing  # config -> unused fields of Acting
    # (state, policy) -> the network that acts in one call, and whether it is "ema" or "online"; a file of
    # the policy can be exported if there is one. None: acting takes several calls.
    network: Callable[[Any, str], tuple[Any, str] | None] | None = None
    watched: tuple[str, ...] = ()  # mean squared errors between actions: huge ones stop a run


def online_network(state: Any, policy: str) -> tuple[Any, str]:
    """The trained policy, for agents without a moving average of it."""
    return state.policy.params, "online"


C = TypeVar("C")
# A number that is the same for all members, so that at 0 what it governs need not be computed.
Fixed = Annotated[float, "fixed"]
LARGEST = 2**31 - 1  # counts are 32-bit on the device
LARGEST_FLOAT = 3e38  # and so are other numbers


@dataclass_transform(frozen_default=True)
def hyperparameters(cls: type[C]) -> type[C]:
    """Makes a dataclass a frozen configuration whose float fields are pytree leaves and the rest static."""
    data_class = dataclasses.dataclass(frozen=True)(cls)
    # mypy does not see that the class above is a dataclass.
    fields = dataclasses.fields(data_class)  # type: ignore[arg-type]
    numeric = [f.name for f in fields if f.type is float]
    static = [f.name for f in fields if f.type is not float]
    return jax.tree_util.register_dataclass(data_class, data_fields=numeric, meta_fields=static)


def numeric_fields(config: Any) -> list[str]:
    """The hyperparameters that a population may vary."""
    return [f.name for f in dataclasses.fields(config) if f.type is float]


def fractions(config: Any, *names: str) -> None:
    """Refuses a share, rate or discount beyond 1."""
    for name in names:
        if getattr(config, name) > 1.0:
            raise BadInput(f"{name} must lie between 0 and 1, not {getattr(config, name):g}.")


def one_of(name: str, value: str, choices: Any) -> None:
    """Refuses a word that is not among a setting's choices."""
    if value not in choices:
        raise unknown(name, value, choices)
