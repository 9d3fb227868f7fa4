"""The time of a population's update, of a policy's actions, and of an evaluation."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents.contract import Acting, Agent, Spec
from bfq.agents.registry import configure
from bfq.bench.timing import device_limits, minimum_cost, timed
from bfq.data.transforms import Transforms
from bfq.envs.batch import SerialEnvironments
from bfq.envs.worker_pool import cores
from bfq.evaluation.protocol import Protocol
from bfq.evaluation.rollout import EnvironmentSpec, EpisodeResults, population_act, rollout
from bfq.run import RewardTransform, members_of
from bfq.training.population import Population, Transitions, create_population, initial_states, pack
from bfq.training.program import Program

# The names under which agents keep the number of network calls in a training sample.
INNER_STEPS = ("flow_steps", "denoising_steps", "diffusion_steps", "consistency_steps")
ACTION_BATCH = 2500  # actions per call: 50 environments with 50 candidates each
LONGEST_S = 4.0  # a slow policy is timed over fewer calls
WARM_UP = 2  # calls of a policy before the clock starts: they compile and load everything
CACHE_HIT = "/jax/compilation_cache/cache_hits"


class Sizes(NamedTuple):
    """What the time of an update depends on besides the agent."""

    members: int = 1
    transitions: int = 1_000_000
    spec: Spec = Spec(17, 6)
    chunk: int = 500  # updates in one compiled call
    repeats: int = 5  # timed calls
    precision: str = "float32"  # of matrix products
    enough: float = math.inf  # seconds after which no further call is timed


def inner_steps_field(config: Any) -> str | None:
    """The agent's own name for the inner steps of its training, if it has them."""
    return next((name for name in INNER_STEPS if hasattr(config, name)), None)


def resize(
    agent: Agent,
    base: Mapping[str, Any],
    values: Mapping[str, Any],
    width: int | None = None,
    batch: int | None = None,
    flow_steps: int | None = None,
) -> Any:
    """Return the agent's Config at `base` with other sizes; `values` take precedence.

    Fields that the agent does not have are skipped.
    """
    sizes = {"width": width, "critic_width": width, "batch_size": batch}
    inner = inner_steps_field(agent.config())
    if inner:
        sizes[inner] = flow_steps
    changed = {**{name: size for name, size in sizes.items() if size is not None}, **values}
    return configure(agent, {**base, **{k: v for k, v in changed.items() if k in base}})


def random_transitions(sizes: Sizes, needs: tuple[str, ...] = ()) -> Transitions:
    """Random transitions on the device; the time of an update does not depend on their values."""
    rng = np.random.default_rng(0)
    n, (s, a) = sizes.transitions, sizes.spec
    arrays = {
        "observations": rng.standard_normal((n, s), np.float32),
        "actions": rng.random((n, a), np.float32) * 2 - 1,
        "next_observations": rng.standard_normal((n, s), np.float32),
        "rewards": rng.standard_normal(n, np.float32),
        "masks": np.ones(n, np.float32),
    }
    if "next_actions" in needs:
        arrays |= {"next_actions": arrays["actions"], "next_known": np.ones(n, np.float32)}
    return pack(arrays)


class Compiled(NamedTuple):
    """A compiled population with its initial states."""

    program: Program
    states: Any
    seconds: float  # to compile it, or to fetch it from JAX's cache
    from_cache: bool


def compile_population(agent: Agent, config: Any, rows: Transitions, sizes: Sizes) -> Compiled:
    """Compile `sizes.chunk` updates of all members; the shapes of the rows are enough."""
    population = create_population(
        agent, config, members_of(range(sizes.members), {}), sizes.precision == "bfloat16"
    )
    states, program = initial_states(population, rows.spec), Program(population, sizes.chunk)
    hits, start = _cache_hits(), time.perf_counter()
    before = len(hits)
    program.compile(states, rows)
    return Compiled(program, states, time.perf_counter() - start, len(hits) > before)


@cache
def _cache_hits() -> list[str]:
    """A list that grows with every cache hit; JAX cannot remove listeners, so there is only one."""
    found: list[str] = []

    def listen(event: str, **_: str | int) -> None:
        if event == CACHE_HIT:
            found.append(event)

    jax.monitoring.register_event_listener(listen)
    return found


def time_update(agent: Agent, config: Any, rows: Transitions, sizes: Sizes) -> dict[str, Any]:
    """Microseconds per update with their spread, compilation time, and shares of the device limits.

    Operations and bytes are the minimum that an update needs. A share is the time that the device would
    need for them at its limits, divided by the measured time.
    """
    # A run as long as one call, so that a call contains every phase of a run.
    whole = dataclasses.replace(config, steps=sizes.chunk)
    compiled = compile_population(agent, whole, rows, sizes)
    states = compiled.states

    def work() -> Any:
        nonlocal states
        states, metrics = compiled.program(states, rows, jnp.int32(0))
        return metrics

    timing = timed(work, sizes.repeats, sizes.enough)
    median, low, high = (seconds / sizes.chunk for seconds in timing[:3])
    cost, limits = minimum_cost(agent, config, sizes.spec), device_limits()
    flops, moved = sizes.members * cost.flops, sizes.members * cost.bytes
    return {
        **describe_update(agent, config, sizes),
        "microseconds_per_update": 1e6 * median,
        "spread": [1e6 * low, 1e6 * high],
        "repeats": timing.repeats,
        "compile_seconds": compiled.seconds,
        "from_cache": compiled.from_cache,
        "flops": flops,
        "bytes": moved,
        "share_of_flops": flops / median / limits.flops,
        "share_of_bytes": moved / median / limits.bytes,
        "device_bytes": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use"),
    }


def describe_update(agent: Agent, config: Any, sizes: Sizes) -> dict[str, Any]:
    """Everything a time depends on: two measurements with equal descriptions can be compared."""
    fields = dataclasses.asdict(config)
    return {
        "agent": agent.name,
        **{name: getattr(sizes, name) for name in ("members", "precision", "transitions", "chunk")},
        **{name: fields.get(name) for name in ("width", "depth")},
        "batch": fields["batch_size"],
        "flow_steps": fields.get(inner_steps_field(config) or ""),
        "device": jax.devices()[0].device_kind,
    }


def _describe(config: Any, acting: Acting) -> dict[str, Any]:
    """What the time of an action depends on."""
    return {
        "width": getattr(config, "width", None),
        "depth": getattr(config, "depth", None),
        "candidates": acting.candidates,
        "sampling_steps": acting.sampling_steps,
        "device": jax.devices()[0].device_kind,
    }


def time_acting(
    agent: Agent,
    config: Any,
    acting: Acting,
    spec: Spec,
    batch: int = ACTION_BATCH,
    calls: int = 300,
    longest: float = LONGEST_S,
) -> dict[str, Any]:
    """Calls per second that each compute `batch` actions from as many observations, with new noise.

    At most `calls` calls are timed together, fewer if they would take longer than `longest` seconds.
    """
    state = agent.init(jax.random.key(0), spec, config)
    observations = jax.random.normal(jax.random.key(1), (batch, spec.observation_dim))

    # One call per batch of actions, in a Python loop as a user would write it. The key stays on the device,
    # and the weights are part of the program, as in an exported policy.
    @jax.jit
    def act(key: Any, observations: Any) -> tuple[Any, Any]:
        key, act_key = jax.random.split(key)
        return key, agent.act(state, observations, act_key, config, acting)

    one = timed(lambda: act(jax.random.key(2), observations), 1).median
    calls = max(1, min(calls, int(longest / one)))

    def work() -> Any:
        key, last = jax.random.key(2), jnp.zeros(())
        for _ in range(calls):
            key, last = act(key, observations)
        return last

    timing = timed(work, 5)
    return {
        "agent": agent.name,
        **_describe(config, acting),
        "batch": batch,
        "calls": calls,
        "batches_per_second": calls / timing.median,
        "spread": [calls / timing.high, calls / timing.low],
    }


class RolloutTiming(NamedTuple):
    """Seconds of one rollout, and the steps of all its simulators together."""

    seconds: float
    opening: float  # before the first call of the policy: simulators are created
    policy: float  # in the policy, including transfers to and from the device
    steps: int

    @property
    def stepping(self) -> float:
        """Seconds in the simulators."""
        return self.seconds - self.opening - self.policy


def time_rollout(
    rollout: Callable[[Any], EpisodeResults], act: Callable[[Any, int], Any]
) -> RolloutTiming:
    """Time a rollout of a policy, and each call of the policy in it."""
    calls: list[tuple[float, float]] = []

    def timed_act(observations: Any, time_step: int) -> Any:
        start = time.perf_counter()
        actions = act(observations, time_step)
        calls.append((start, time.perf_counter()))
        return actions

    start = time.perf_counter()
    steps = rollout(timed_act).steps
    policy = sum(end - begin for begin, end in calls)
    return RolloutTiming(time.perf_counter() - start, calls[0][0] - start, policy, steps)


def time_evaluation(
    population: Population,
    environment: EnvironmentSpec,
    protocol: Protocol,
    steps: int | None,
    repeats: int,
) -> dict[str, Any]:
    """Seconds of an evaluation of freshly initialized members, and the shares of its parts.

    Every episode ends after `steps` steps if given. Values are those of the median of `repeats` evaluations.
    """
    one = SerialEnvironments(environment.simulator, [0], environment.episode_steps)
    spec = Spec(one.observations.shape[1], len(one.action_low))
    zeros, unchanged = np.zeros(spec.observation_dim, np.float32), RewardTransform("none", 1.0, 0.0)
    transforms = Transforms(zeros, zeros + 1, one.action_low, one.action_high, unchanged, "none")
    one.close()
    act = population_act(population, initial_states(population, spec), transforms, protocol)
    members = len(population.members)

    def timing(limit: int | None) -> RolloutTiming:
        return time_rollout(lambda act: rollout(act, environment, protocol, members, limit), act)

    timing(WARM_UP)
    timings = sorted(timing(steps) for _ in range(repeats))
    median = timings[len(timings) // 2]
    return {
        "simulator": environment.simulator,
        "members": members,
        "episodes": protocol.episodes,
        **_describe(population.configs, protocol.acting),
        "cores": cores(),
        "simulator_steps": median.steps,
        "seconds": median.seconds,
        "spread": [timings[0].seconds, timings[-1].seconds],
        "simulator_steps_per_second": median.steps / median.seconds,
        "policy_share": median.policy / median.seconds,
        "simulator_share": median.stepping / median.seconds,
        "opening_share": median.opening / median.seconds,
    }
