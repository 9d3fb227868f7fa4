"""The contract of an agent, and the registry that finds them.

An agent is a module of this package that ends with `AGENT = Agent(...)`. Its numeric hyperparameters
(the `float` fields of its Config) are leaves of a pytree: each member of a population may have its own.
Everything else in the Config is structure and is shared.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
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
    """An agent with a moving average and noise heeds all of `Acting`."""
    return ()


class Agent(NamedTuple):
    """A method: its configuration, and how it begins, learns and acts."""

    name: str
    title: str
    config: Callable[..., Any]
    init: Callable[[PRNGKeyArray, Spec, Any], Any]
    update: Callable[[Any, Batch, PRNGKeyArray, Any], tuple[Any, Metrics]]
    act: Callable[[Any, Float[Array, "b s"], PRNGKeyArray, Any, Acting], Float[Array, "b a"]]
    chooses: bool = True  # whether it has a critic that can choose among candidates
    needs: tuple[str, ...] = ()  # what it wants of a batch beyond (s, a, r, s′, mask): next_actions
    reference: str = ""  # who proposed it, where and when
    defaults: str = ""  # whose settings the defaults of its Config are
    samplers: tuple[
        str, ...
    ] = ()  # the rules by which it can sample, where it does so in several steps
    ignores: Callable[[Any], tuple[str, ...]] = (
        _nothing  # of its Config: the keys of IGNORED that it has not
    )


IGNORED = {"policy": "has no moving average of its policy", "temperature": "acts without noise"}


def check_acting(agent: Agent, config: Any, acting: Acting) -> None:
    """Refuses a way of acting that the agent would silently ignore."""
    for name in agent.ignores(config):
        usual = getattr(Acting(), name)
        if getattr(acting, name) != usual:
            raise BadInput(f"{agent.name} {IGNORED[name]}: leave {name} at {usual}.")
    if acting.candidates > 1 and not agent.chooses:
        raise BadInput(f"{agent.name} cannot choose among candidates: leave candidates at 1.")
    if acting.sampling_steps and not agent.samplers:
        raise BadInput(
            f"{agent.name} acts in a fixed number of network calls: leave sampling_steps at 0."
        )
    if acting.sampler != "trained" and acting.sampler not in agent.samplers:
        raise unknown(f"sampler of {agent.name}", acting.sampler, ["trained", *agent.samplers])


C = TypeVar("C")
# A number that is the same for all members, so that at 0 what it governs need not be computed.
Fixed = Annotated[float, "fixed"]
LARGEST = 2**31 - 1  # counts are 32-bit on the device
LARGEST_FLOAT = 3e38  # and so are other numbers
LARGEST_NETWORK = {"width": 2**16, "depth": 2**8}  # by the last word of a name


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


def configure(agent: Agent, values: Mapping[str, Any]) -> Any:
    """The agent's Config with some values replaced, each checked for its name and type, then all together."""
    config = dataclasses.replace(agent.config(), **typed(agent, values))
    config.check()
    return config


def typed(agent: Agent, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the types of the agent's hyperparameters; what they are together is not looked at."""
    fields = {f.name: f for f in dataclasses.fields(agent.config())}
    strange = [name for name in values if name not in fields]
    if strange:
        raise unknown(f"hyperparameter of {agent.name}", strange[0], fields)
    return {
        name: _typed(agent.name, name, value, fields[name].type) for name, value in values.items()
    }


def _typed(agent: str, name: str, value: Any, kind: Any) -> Any:
    """The value as the field's type, or a sentence saying why not.

    No hyperparameter is negative; counts and sizes begin at 1, except those that say when something starts.
    """
    if kind in (int, float, Fixed):
        return _number(agent, name, value, int if kind is int else float)
    if not isinstance(value, kind):
        raise BadInput(f"{agent}'s {name} must be {_words(kind)}, not {value!r}.")
    return value


def _number(agent: str, name: str, value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{agent}'s {name} must be {_words(kind)}, not {value!r}.")
    least = 1 if kind is int and not name.endswith("_start") else 0
    most = LARGEST_NETWORK.get(name.rpartition("_")[2], LARGEST) if kind is int else LARGEST_FLOAT
    if not least <= value <= most:
        raise BadInput(
            f"{agent}'s {name} must be finite and from {least} to {most:,}, not {value}."
        )
    if kind(value) != value:
        raise BadInput(f"{agent}'s {name} must be {_words(kind)}, not {value!r}.")
    return kind(value)


def _words(kind: Any) -> str:
    return {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}[kind]


def fractions(config: Any, *names: str) -> None:
    """Refuses a share, rate or discount beyond 1."""
    for name in names:
        if getattr(config, name) > 1.0:
            raise BadInput(f"{name} must lie between 0 and 1, not {getattr(config, name):g}.")


def one_of(name: str, value: str, choices: Any) -> None:
    """Refuses a word that is not among a setting's choices."""
    if value not in choices:
        raise unknown(name, value, choices)


def _files() -> list[str]:
    """The modules of this package, agents and others, without importing them."""
    return [
        module.name
        for module in pkgutil.iter_modules(importlib.import_module("bfq.agents").__path__)
    ]


@cache
def _registry() -> dict[str, Agent]:
    """Every agent by its name, which is that of its file."""
    found = {name: _agent_in(name) for name in _files()}
    return {name: agent for name, agent in found.items() if agent is not None}


def _agent_in(file: str) -> Agent | None:
    """The agent that a module of this package ends with; one that cannot be used is told by its file."""
    try:
        agent: Agent | None = getattr(importlib.import_module(f"bfq.agents.{file}"), "AGENT", None)
    except SyntaxError as error:
        raise BadInput(
            f"{error.filename} is no Python, at line {error.lineno}: {error.msg}."
        ) from error
    if agent is not None and agent.name != file:
        raise BadInput(
            f"the agent in {file}.py calls itself {agent.name}: it must have its file's name."
        )
    return agent


def agent_names() -> list[str]:
    """Every agent there is, by name."""
    return sorted(_registry())


def get_agent(name: str) -> Agent:
    """The agent of that name, or a sentence with the nearest one; no other agent is imported for it."""
    agent = _agent_in(name) if name in _files() else None
    if agent is None:
        raise unknown("agent", name, _registry())
    return agent
