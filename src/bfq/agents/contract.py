"""The contract of an agent: a Config, three functions (init, update, act), and facts about the method.

An agent is one Python file that ends with `AGENT = Agent(...)`. The fields of its Config declare ranges and
choices as types. Numeric fields are leaves of a pytree, so each member of a population can have its own value;
all other fields are static and shared.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray

Key = PRNGKeyArray
Observations = Float[Array, "b s"]
Actions = Float[Array, "b a"]
Metrics = dict[str, Float[Array, ""]]
Loss = tuple[Float[Array, ""], Metrics]  # its value, and what to record


class Batch(NamedTuple):
    """Transitions as an agent sees them: normalized observations, actions in [−1, 1]."""

    observations: Observations
    actions: Actions
    rewards: Float[Array, " b"]
    next_observations: Observations
    masks: Float[Array, " b"]  # 0 where the future must not be bootstrapped
    # Only for agents that need "next_actions":
    next_actions: Actions | None = None  # a′, the next logged action
    next_known: Float[Array, " b"] | None = None  # 0 where the log ends before a′


class Spec(NamedTuple):
    """The sizes of the problem."""

    observation_dim: int
    action_dim: int


@dataclasses.dataclass(frozen=True)
class Acting:
    """How a trained agent selects an action; part of the protocol of every score."""

    candidates: int = 1  # N: actions drawn for each state
    selection: str = "argmax"  # argmax | softmax over the candidates' target-critic values
    softmax_weight: float = 1.0  # w in softmax(w · Q)
    temperature: float = 1.0  # factor on the initial noise
    policy: str = "ema"  # ema | online
    sampling_steps: int = 0  # network calls from noise to action; 0: as in training
    sampler: str = "trained"  # sampling rule of these steps; trained: as in training


def _nothing(config: Any) -> tuple[str, ...]:
    return ()


class Agent(NamedTuple):
    """A method: its configuration, how it starts, learns and acts, and facts about it."""

    name: str
    title: str
    config: Callable[..., Any]
    init: Callable[[Key, Spec, Any], Any]
    update: Callable[[Any, Batch, Key, Any], tuple[Any, Metrics]]
    act: Callable[[Any, Observations, Key, Any, Acting], Actions]
    chooses: bool = True  # whether it can select among several candidates
    needs: tuple[str, ...] = ()  # columns of a batch beyond (s, a, r, s′, mask): next_actions
    reference: str = ""  # authors, title, venue and year
    defaults: str = ""  # origin of the default hyperparameters
    samplers: tuple[str, ...] = ()  # sampling rules, for agents that sample in several steps
    ignores: Callable[[Any], tuple[str, ...]] = _nothing  # config -> unused fields of Acting
    # (state, policy) -> the network that acts in one call, and "ema" or "online". Agents with it can be
    # exported. None: acting takes several calls.
    network: Callable[[Any, str], tuple[Any, str] | None] | None = None
    watched: tuple[str, ...] = ()  # metrics that stop a run by huge values: errors of actions
