"""From a few words of the user to the complete description of a run, which is its config.json."""

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp

from bfq.agents import Acting, Agent, Spec, numeric_fields
from bfq.agents.registry import agent_names, check_acting, configure, get_agent, typed
from bfq.errors import BadInput, unknown
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.kernels.device import available
from bfq.presets import Preset, preset
from bfq.run import Reference
from bfq.tasks.catalog import DEFAULT_TASK, TASKS, Task
from bfq.tasks.sources import is_kept, kept

FORMAT = 1
PRECISIONS = ("float32", "bfloat16")
MOST_SEEDS = 10_000
EVALUATION_FLAGS = {
    "--eval-episodes": "episodes",
    "--candidates": "candidates",
    "--temperature": "temperature",
    "--eval-seed": "seed",
    "--selection": "selection",
    "--softmax-weight": "softmax_weight",
    "--policy": "policy",
    "--sampling-steps": "sampling_steps",
    "--sampler": "sampler",
}
ALWAYS_TOLD = ("episodes", "candidates", "temperature")  # the rest where it is not the preset's
# Updates in one compiled call, by whether it runs on a CPU: short enough there that a run soon heeds Ctrl-C,
# long enough elsewhere that calls cost nothing. The result does not depend on it.
CHUNKS = {True: 20, False: 500}
USUAL_STEPS = 1000  # of an episode whose simulator has no limit of its own


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Everything needed to repeat a run, and nothing that depends on when or where it ran."""

    task: str  # a task's name, or the path of a file
    agent: str
    config: dict[str, Any]  # every hyperparameter of the agent
    varied: dict[str, list[float]]  # those with several values, a member each
    seeds: list[int]
    data: dict[str, str]  # the transforms
    evaluation: dict[str, Any]  # the protocol
    evaluations: int | list[int]  # how many times during the run, or after which updates
    simulator: str | None
    episode_steps: int
    reference: dict[str, Any] | None
    chunk: int  # updates in one compiled call
    stop_on_divergence: bool = True
    metric: str = "return"  # what an episode is scored by: return or success
    baselines: tuple[str, ...] = ()  # agents trained in the same way and shown beside this one
    precision: str = (
        "float32"  # of the numbers that products multiply; sums and parameters are float32
    )
    format: int = FORMAT

    @property
    def steps(self) -> int:
        """Updates of each member."""
        return int(self.config["steps"])


def compose(
    task: str = DEFAULT_TASK,
    agent: str = "bfq",
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] = 5,
    values: Mapping[str, Any] | None = None,
    data: Mapping[str, str] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    evaluations: int | Sequence[int] = 8,
    simulator: str | None = None,
    episode_steps: int | None = None,
    chunk: int | None = None,
    stop_on_divergence: bool = True,
    baselines: Sequence[str] = (),
    precision: str = "float32",
) -> RunConfig:
    """Fills in what was not said from the task's card and the agent's preset.

    `values` are hyperparameters; a list of several numbers makes a member of each.
    """
    method, card = get_agent(agent), TASKS.get(task)
    if card is not None and not card.simulator:
        raise BadInput(f"the {card.name} has no states and no rewards: `bfq toy` trains on it.")
    if card is None and Path(task).suffix and not is_kept(task):
        task = str(
            Path(task).expanduser().absolute()
        )  # so that the run can be resumed from anywhere
    known = preset(agent, card.like if card else task, card.family if card else "own")
    chosen, varied = _split(method, values or {})
    base = {"discount": card.discount} if card else {}
    if steps is not None:
        if "steps" in chosen:
            raise BadInput("steps are given twice: as steps and among the hyperparameters.")
        chosen["steps"] = steps
    config = configure(method, {**base, **_values(known, "config"), **chosen})
    _check_varied(method, config, varied)
    protocol = _protocol(card, known, evaluation or {})
    check_acting(method, config, protocol.acting)
    _try_acting(method, config, protocol.acting)
    place = _place(task, card, simulator, episode_steps)
    run = RunConfig(
        task=task,
        agent=agent,
        config=dataclasses.asdict(config),
        varied=varied,
        seeds=_seeds(seeds),
        data=_data(card, known, data or {}),
        evaluation=protocol.describe(),
        evaluations=_evaluations(evaluations, config.steps),
        chunk=_at_least(
            1, "chunk", CHUNKS[jax.default_backend() == "cpu"] if chunk is None else chunk
        ),
        stop_on_divergence=stop_on_divergence,
        baselines=_baselines(agent, baselines),
        precision=precision,
        **place,
    )
    _check_word(precision)
    for name in run.baselines:
        baseline_of(run, name)  # a baseline that cannot be is refused now, not when its turn comes
    return run


def _protocol(card: Task | None, known: Preset, wished: Mapping[str, Any]) -> Protocol:
    """The card's and the preset's, but for what is wished."""
    episodes = {"episodes": card.eval_episodes} if card else {}
    asked = {name: value for name, value in wished.items() if value is not None}
    return protocol_from({**episodes, **_values(known, "evaluation"), **asked})


def _data(card: Task | None, known: Preset, wished: Mapping[str, str]) -> dict[str, str]:
    """The transforms: the card's and the preset's, but for what is wished."""
    of_card = {"reward": card.reward_transform} if card else {}
    usual = {"observations": "standardize", "reward": "none", **of_card, **_values(known, "data")}
    strange = sorted(set(wished) - set(usual))
    if strange:
        raise unknown("data transform", strange[0], usual)
    return {**usual, **wished}


def _try_acting(agent: Agent, config: Any, acting: Acting) -> None:
    """Lets the agent refuse a wished way of sampling before it has trained for hours."""
    if acting.sampling_steps or acting.sampler != "trained":
        key, spec = jax.random.key(0), Spec(2, 2)
        states = jax.eval_shape(lambda: agent.init(key, spec, config))
        jax.eval_shape(
            lambda state: agent.act(state, jnp.zeros((1, 2)), key, config, acting), states
        )


def check_precision(precision: str) -> None:
    """Refuses a word that is none, and what this machine cannot compute."""
    _check_word(precision)
    if precision == "bfloat16" and not available():
        raise BadInput(
            "bfloat16 products need an NVIDIA GPU of compute capability 8 or more, and kernels, which "
            "BFQ_NO_KERNELS=1 switches off: use float32 here."
        )


def _check_word(precision: str) -> None:
    """Settings may be of a run on another machine, so only the word is looked at."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)


def _baselines(agent: str, named: Sequence[str]) -> tuple[str, ...]:
    """The agents to be trained beside this one, each once; "all" are all others."""
    wished = [name for one in named for name in (agent_names() if one == "all" else [one])]
    return tuple(
        dict.fromkeys(
            get_agent(name).name for name in wished if name != agent or "all" not in named
        )
    )


def baseline_of(run: RunConfig, agent: str) -> RunConfig:
    """The same run with another agent at that agent's own hyperparameters."""
    return compose(
        run.task,
        agent,
        seeds=run.seeds,
        steps=run.steps,
        evaluation={name: run.evaluation[name] for name in ("episodes", "seed")},
        evaluations=run.evaluations,
        simulator=run.simulator,
        episode_steps=run.episode_steps,
        chunk=run.chunk,
        stop_on_divergence=run.stop_on_divergence,
        precision=run.precision,
    )


def checked(run: RunConfig) -> RunConfig:
    """The run, once everything in it has been seen to be possible; for what was read from a file."""
    agent = get_agent(run.agent)
    config = configure(agent, run.config)
    if set(run.config) != set(dataclasses.asdict(agent.config())):
        raise BadInput(f"the hyperparameters are not those of {agent.name}.")
    single, varied = _split(agent, run.varied)
    if single:  # it would stand among the hyperparameters
        raise BadInput(
            f"the varied hyperparameters are lists of several values, but {min(single)} is none."
        )
    _check_varied(agent, config, varied)
    for name, least in (("chunk", 1), ("episode_steps", 1)):
        _at_least(least, name, getattr(run, name))
    if not isinstance(run.task, str) or not isinstance(run.simulator, str | None):
        raise BadInput("task and simulator must be words.")
    check_acting(agent, config, protocol_from(run.evaluation).acting)
    if run.metric not in ("return", "success"):
        raise unknown("metric", run.metric, ("return", "success"))
    if run.precision not in PRECISIONS:
        raise unknown("precision", run.precision, PRECISIONS)
    reference = reference_of(run)
    if reference is not None and not reference.low < reference.high:
        raise BadInput("the reference returns must differ.")
    if set(run.data) != {"observations", "reward"}:
        raise BadInput("the data transforms are named observations and reward.")
    return dataclasses.replace(
        run,
        seeds=_seeds(list(run.seeds)),
        baselines=tuple(get_agent(name).name for name in run.baselines),
        evaluations=_evaluations(run.evaluations, run.steps),
    )


def command(run: RunConfig) -> str:
    """The command line that trains this run again: what differs from its presets, spelled out."""
    usual = compose(run.task, run.agent)
    told = ("steps", *run.varied)
    changed = {k: v for k, v in run.config.items() if k not in told and v != usual.config[k]}
    values = {
        **changed,
        **{name: ",".join(map(str, several)) for name, several in run.varied.items()},
    }
    words = ["bfq", "train", "--task", run.task, "--agent", run.agent, "--steps", str(run.steps)]
    words += ["--seeds", _told(run.seeds)]
    for name, value in values.items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    for flag, name in EVALUATION_FLAGS.items():
        if name in ALWAYS_TOLD or run.evaluation[name] != usual.evaluation[name]:
            words += [flag, str(run.evaluation[name])]
    for name, transform in run.data.items():
        if transform != usual.data[name]:
            words += ["--data", f"{name}={transform}"]
    words += ["--evaluations", _told(run.evaluations)]
    if run.simulator and run.task not in TASKS:
        words += ["--simulator", run.simulator, "--episode-steps", str(run.episode_steps)]
    for name in run.baselines:
        words += ["--baseline", name]
    if run.precision != "float32":
        words += ["--precision", run.precision]
    return shlex.join([*words, *(() if run.stop_on_divergence else ("--keep-going",))])


def _told(numbers: int | Sequence[int]) -> str:
    """A count as `6`, a list as `3,7` or `3,`: how the command line tells one from the other."""
    if isinstance(numbers, int):
        return str(numbers)
    return ",".join(map(str, numbers)) + ("," if len(numbers) == 1 else "")


def _place(
    task: str, card: Task | None, simulator: str | None, episode_steps: int | None
) -> dict[str, Any]:
    """Where the policy is judged: the card's simulator, the one named for a file, or nowhere."""
    if card is None:
        if not Path(task).suffix and not is_kept(task):
            raise unknown("task", task, [*TASKS, *kept()])
        limit = _at_least(
            1, "episode_steps", _limit(simulator) if episode_steps is None else episode_steps
        )
        return {
            "simulator": simulator,
            "episode_steps": limit,
            "reference": None,
            "metric": "return",
        }
    if simulator not in (None, card.simulator) or episode_steps not in (None, card.episode_steps):
        raise BadInput(
            f"{card.name} is judged in {card.simulator} for {card.episode_steps} steps: another simulator or "
            "episode limit is for data of your own."
        )
    reference = dataclasses.asdict(card.reference) if card.reference else None
    return {
        "simulator": card.simulator,
        "episode_steps": card.episode_steps,
        "reference": reference,
        "metric": card.metric,
    }


def _limit(simulator: str | None) -> int:
    """After how many steps episodes end: the simulator's own limit, where it has one."""
    if simulator is None:
        return USUAL_STEPS
    from bfq.envs.make import registered_limit

    return registered_limit(simulator) or USUAL_STEPS


def limited(run: RunConfig, episode_steps: int | None) -> RunConfig:
    """The run with another limit of episodes; that of a task is part of its scores."""
    if episode_steps is None:
        return run
    if run.task in TASKS:
        raise BadInput(
            f"episodes of {run.task} have {run.episode_steps} steps: only your own data has others."
        )
    return dataclasses.replace(run, episode_steps=_at_least(1, "episode_steps", episode_steps))


def reference_of(run: RunConfig) -> Reference | None:
    """The returns that this run's normalized score is measured between."""
    return Reference(**run.reference) if run.reference else None


def _values(known: Preset, section: str) -> dict[str, Any]:
    return {name: sourced.value for name, sourced in known[section].items()}


def _split(
    agent: Agent, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Hyperparameters with one value, and those with several, whose names and types are checked here."""
    numeric = numeric_fields(agent.config())
    single: dict[str, Any] = {}
    varied: dict[str, list[float]] = {}
    for name, value in values.items():
        several = list(value) if isinstance(value, list | tuple) else [value]
        if not several:
            raise BadInput(f"{name} is given no value.")
        several = [typed(agent, {name: one})[name] for one in several]
        if len(set(several)) < len(several):
            raise BadInput(
                f"{name} is given the same value twice: it would only train the same member again."
            )
        if len(several) == 1:
            single[name] = several[0]
        elif name not in numeric:
            raise BadInput(
                f"{name} is part of {agent.name}'s structure, so it cannot take several values in one run: "
                "start one run for each."
            )
        else:
            varied[name] = several
    return single, varied


def _check_varied(agent: Agent, config: Any, varied: Mapping[str, Sequence[float]]) -> None:
    """Refuses a value that cannot be with the rest of the configuration."""
    for name, several in varied.items():
        for one in several:
            dataclasses.replace(config, **{name: one}).check()


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if _is_whole(seeds):
        if not 1 <= seeds <= MOST_SEEDS:
            raise BadInput(
                f"seeds must be from 1 to {MOST_SEEDS:,}, not {seeds}; a list has a comma, as 3,7."
            )
        return list(range(seeds))
    listed = list(seeds) if isinstance(seeds, Iterable) else []
    if not listed or not all(_is_whole(seed) and 0 <= seed < 2**31 for seed in listed):
        raise BadInput("seeds must be a number of seeds, or a list of whole numbers from 0 up.")
    if len(set(listed)) < len(listed):
        raise BadInput("a seed is given twice: it would only train the same member again.")
    return [int(seed) for seed in listed]


def _evaluations(wished: int | Sequence[int], steps: int) -> int | list[int]:
    if _is_whole(wished):
        if wished >= 1000 and 10 * wished > steps:
            raise BadInput(
                f"{wished:,} evaluations are too many for {steps:,} updates; "
                f"for one after {wished:,} updates write {wished}, with a comma."
            )
        return _at_least(0, "evaluations", int(wished))
    listed = list(wished) if isinstance(wished, Iterable) else []
    if not listed or not all(_is_whole(step) and 1 <= step <= steps for step in listed):
        raise BadInput(
            "evaluations must be a number of them, or a list of the updates after which one is made, "
            f"from 1 to {steps:,}."
        )
    return sorted({int(step) for step in listed})


def _is_whole(number: Any) -> TypeGuard[int]:
    """Whether it counts something: NumPy's whole numbers do, yes and no do not."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def _at_least(least: int, name: str, value: int) -> int:
    if not _is_whole(value) or value < least:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return value
