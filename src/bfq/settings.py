"""From the options of a run to its complete configuration, and back to a command line."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import bfq.agents.registry as registry
from bfq.agents.contract import Acting, Agent, Spec
from bfq.agents.fields import numeric_fields
from bfq.errors import BadInput, unknown
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.kernels import available
from bfq.options import ACTING, OPTIONS, DataOptions, Name, check_options, spell
from bfq.presets import Preset, preset
from bfq.records import check_value
from bfq.run import OnlineConfig, RunConfig, as_json, read_config
from bfq.scoring import scored_in
from bfq.tasks.catalog import DEFAULT_TASK, TASKS, Task
from bfq.tasks.sources import is_path

# Updates per compiled call, by whether they run on a CPU: few there, so that Ctrl-C works quickly, and many
# elsewhere, so that calls cost nothing. The result does not depend on it.
CHUNKS = {True: 20, False: 500}
# What a baseline shares with the run, besides the episodes of the evaluations.
SHARED = ("steps", "seeds", "evaluations", "episode_steps", "keep_going", "precision", "chunk")
ALWAYS_SPELLED = ("eval_episodes", "candidates", "temperature")  # in the command of a run


def compose(task: str | None = None, agent: str | Agent | None = None, **options: Any) -> RunConfig:
    """Complete the options of a run (those of RunOptions) from the task and from the agent's preset.

    A run that starts from another one has the options of that run where none are given.
    """
    asked = {"task": task, "agent": agent, **options}
    asked = {name: value for name, value in asked.items() if value is not None}
    if "start_from" in asked:
        asked = _inherited(asked)
    return _complete(**{"task": DEFAULT_TASK, "agent": "bfq", **asked})


def _complete(task: str, agent: str | Agent, **options: Any) -> RunConfig:
    method = (
        agent if isinstance(agent, Agent) else registry.get_agent(check_value("agent", agent, Name))
    )
    given = {**_DEFAULTS, **check_options(options, OPTIONS)}
    card = TASKS.get(check_value("task", task, Name))
    if card is not None and not card.simulator:
        raise BadInput(f"{card.name} has no states and no rewards: `bfq toy` trains on it.")
    task = _absolute(task)
    known = preset(method.name, card.like if card else task, card.family if card else "own")
    chosen, varied = _split(method, given.get("values", {}))
    lengths = [given[name] for name in ("steps", "online") if name in given]
    if len(lengths) + ("steps" in chosen) > 1:
        raise BadInput("steps are given twice: as an option, as a hyperparameter or by --online.")
    chosen |= {"steps": lengths[0]} if lengths else {}
    discount = {"discount": card.discount} if card else {}
    config = registry.configure(method, {**discount, **_values(known, "config"), **chosen})
    _check_varied(config, varied)
    protocol = _protocol(card, known, given)
    registry.check_acting(method, config, protocol.acting)
    _try_acting(method, config, protocol.acting)
    run = RunConfig(
        task=task,
        agent=method.name,
        config=dataclasses.asdict(config),
        varied=varied,
        seeds=_seeds(given["seeds"]),
        data=_transforms(card, known, given.get("transforms", {})),
        evaluation=protocol.describe(),
        evaluations=_evaluations(given["evaluations"], config.steps),
        chunk=given.get("chunk", CHUNKS["online" in given or jax.default_backend() == "cpu"]),
        keep_going=given["keep_going"],
        baselines=_baselines(method.name, given["baselines"]),
        precision=given["precision"],
        start_from=given.get("start_from"),
        online=_online(given),
        **scored_in(task, card, given.get("env"), given.get("episode_steps")),
    )
    if run.online and run.simulator is None:
        raise BadInput("--online needs an environment to act in: name one with --env.")
    for name in run.baselines:
        baseline_of(run, name)  # refuse an impossible baseline now, not after hours of training
    return run


def _absolute(task: str) -> str:
    """The task; a file by its whole path, so that a run can be resumed from any folder."""
    if not is_path(task):
        return task
    return str(Path(task).expanduser().absolute())


_DEFAULTS = {name: o.default for name, o in OPTIONS.items() if o.default is not None}


def _inherited(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the run that this one starts from, with those that are given."""
    folder = Path(check_value("start_from", asked["start_from"], Name)).expanduser().absolute()
    parent = load_run(folder)
    own = {**_options_of(parent), "start_from": str(folder)}
    fitted = own.get("transforms", {})
    if {**fitted, **asked.get("transforms", {})} != fitted:
        raise BadInput("the weights of another run need its transforms: leave out --transform.")
    dropped = {"baselines", *(("steps", "online") if {"steps", "online"} & set(asked) else ())}
    values = {**own.get("values", {}), **asked.get("values", {})}
    kept = {name: value for name, value in own.items() if name not in dropped}
    return {**kept, **asked, "start_from": str(folder), "values": values, "transforms": fitted}


def _online(given: Mapping[str, Any]) -> OnlineConfig | None:
    for name in ("replay", "exploration"):
        if "online" not in given and given[name] != OPTIONS[name].default:
            raise BadInput(f"{OPTIONS[name].flag} is for a run with --online.")
    return OnlineConfig(given["replay"], given["exploration"]) if "online" in given else None


def _protocol(card: Task | None, known: Preset, given: Mapping[str, Any]) -> Protocol:
    """Options come before the preset, and the preset before the task."""
    of_task = {"episodes": card.eval_episodes} if card else {}
    asked = {name: given[option] for name, option in _PROTOCOL.items() if option in given}
    return protocol_from({**of_task, **_values(known, "evaluation"), **asked})


_PROTOCOL = {"episodes": "eval_episodes", "seed": "eval_seed", "checkpoint": "checkpoint"} | {
    name: name for name in ACTING
}


def _transforms(card: Task | None, known: Preset, asked: Mapping[str, str]) -> DataOptions:
    """The transforms of the data: as asked, else the preset's, else the task's."""
    of_task = {"reward": card.reward_transform} if card else {}
    usual = {"observations": "standardize", "reward": "none", **of_task, **_values(known, "data")}
    for name in asked:
        if name not in usual:
            raise unknown("data transform", name, usual)
    chosen = {**usual, **asked}
    return DataOptions(observations=chosen["observations"], reward=chosen["reward"])


def _try_acting(agent: Agent, config: Any, acting: Acting) -> None:
    """Let the agent refuse a way of sampling before it has trained for hours."""
    if acting.sampling_steps or acting.sampler != "trained":
        key, spec = jax.random.key(0), Spec(2, 2)
        states = jax.eval_shape(lambda: agent.init(key, spec, config))
        jax.eval_shape(lambda one: agent.act(one, jnp.zeros((1, 2)), key, config, acting), states)


def check_precision(precision: str) -> None:
    """Refuse a precision that this machine cannot compute."""
    check_value("precision", precision, OPTIONS["precision"].type)
    if precision == "bfloat16" and not available():
        raise BadInput(
            "bfloat16 products need an NVIDIA GPU of compute capability 8 or more, and kernels, which "
            "BFQ_NO_KERNELS=1 switches off: use float32 here."
        )


def _baselines(agent: str, named: Sequence[str]) -> list[str]:
    """The agents to train as well, each once; `all` stands for every other agent."""
    asked = [name for one in named for name in (registry.agent_names() if one == "all" else [one])]
    chosen = [
        registry.get_agent(name).name for name in asked if name != agent or "all" not in named
    ]
    return list(dict.fromkeys(chosen))


def baseline_of(run: RunConfig, agent: str) -> RunConfig:
    """The same run with another agent and the preset of that agent."""
    episodes, seed = run.evaluation["episodes"], run.evaluation["seed"]
    shared = {name: getattr(run, name) for name in SHARED} | {"env": run.simulator}
    return compose(run.task, agent, eval_episodes=episodes, eval_seed=seed, **shared)


def load_run(path: Path) -> RunConfig:
    """The configuration in a run folder, or in a file of this form, checked completely."""
    run = read_config(path)
    try:
        _check_run(run)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return run


def _check_run(run: RunConfig) -> None:
    """Refuse what the types allow and the agent does not."""
    agent = registry.get_agent(run.agent)
    config = registry.configure(agent, run.config)
    for name in set(dataclasses.asdict(config)) - set(run.config):
        raise BadInput(f"config.{name} is missing.")
    _, varied = _split(agent, run.varied)
    _check_varied(config, varied)
    registry.check_acting(agent, config, protocol_from(run.evaluation).acting)
    _seeds(run.seeds)
    _evaluations(run.evaluations, run.steps)
    for name in run.baselines:
        registry.get_agent(name)


def check_same(run: RunConfig, folder: Path) -> None:
    """Refuse a folder that holds a run with other settings."""
    if (folder / "config.json").exists():
        there = load_run(folder).planned
        if dataclasses.replace(there, chunk=run.chunk) != run:
            raise BadInput(f"{folder} holds a run with other settings: choose another --out.")


def check_agrees(options: Mapping[str, Any], run: RunConfig, folder: Path) -> None:
    """Refuse options that differ from those of a run that is to be continued."""
    stored = _options_of(run)
    for name, value in options.items():
        if name == "agent":
            agrees = getattr(value, "name", value) == run.agent
        elif name == "task":
            agrees = _absolute(value) == run.task
        else:
            changed = {**stored[name], **value} if isinstance(stored.get(name), dict) else value
            asked = compose(**{**stored, name: changed})
            chunk = asked.chunk if run.online else run.chunk
            agrees = dataclasses.replace(asked, chunk=chunk) == run.planned
        if not agrees:
            flag = OPTIONS[name].flag
            raise BadInput(
                f"{flag} differs from the run in {folder}, which began with: {command(run)}. Leave it out "
                "to continue the run."
            )


def options_of_run(run: RunConfig) -> dict[str, Any]:
    """The options that compose this run; what a preset or a default gives is left out."""
    usual = compose(run.task, run.agent)
    varied = {name: list(values) for name, values in run.varied.items()}
    spelled = {"steps", *varied}
    changed = {k: v for k, v in run.config.items() if k not in spelled and v != usual.config[k]}
    now, before = as_json(run), as_json(usual)
    protocol = {
        option: now["evaluation"][name]
        for name, option in _PROTOCOL.items()
        if option in ALWAYS_SPELLED or now["evaluation"][name] != before["evaluation"][name]
    }
    own = run.simulator is not None and run.task not in TASKS
    plain = {**(as_json(run.online) if run.online else {}), "precision": run.precision}
    given = {
        "task": run.task,
        "agent": registry.spell_agent(run.agent),
        "steps": None if run.online else run.steps,
        "online": run.steps if run.online else None,
        **{name: value for name, value in plain.items() if value != OPTIONS[name].default},
        "start_from": run.start_from,
        "seeds": run.seeds,
        "values": {**changed, **varied},
        **protocol,
        "transforms": {k: v for k, v in now["data"].items() if v != before["data"][k]},
        "evaluations": run.evaluations,
        "env": run.simulator if own else None,
        "episode_steps": run.episode_steps if own else None,
        "baselines": run.baselines,
        "keep_going": run.keep_going,
    }
    return {
        name: value
        for name, value in given.items()
        if value is not False and value not in (None, [], {})
    }


def _options_of(run: RunConfig) -> dict[str, Any]:
    """The options of a run, with the agent by its name, so that no file is needed."""
    return {**options_of_run(run), "agent": run.agent}


def command(run: RunConfig) -> str:
    """The command line that trains this run."""
    return command_line("train", options_of_run(run))


def command_line(verb: str, given: Mapping[str, Any]) -> str:
    """The command with these options."""
    words = [spell(option, given[name]) for name, option in OPTIONS.items() if name in given]
    return shlex.join(["bfq", verb, *(word for several in words for word in several)])


def _values(known: Preset, section: str) -> dict[str, Any]:
    return {name: sourced.value for name, sourced in known[section].items()}


def _split(
    agent: Agent, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[int | float]]]:
    """Hyperparameters with one value, and those with several, with checked names and types."""
    config = agent.config()
    numeric = numeric_fields(config)
    single: dict[str, Any] = {}
    varied: dict[str, list[int | float]] = {}
    for name, value in values.items():
        if name in ACTING and not hasattr(config, name):
            flag = ACTING[name].flag
            raise BadInput(f"{name} is part of the evaluation, not of {agent.name}: use {flag}.")
        several = value if isinstance(value, list) else [value]
        if not several:
            raise BadInput(f"{name} has no value.")
        several = [registry.typed(agent, {name: one})[name] for one in several]
        if len(set(several)) < len(several):
            raise BadInput(f"{name} has the same value twice: both would train the same policy.")
        if len(several) == 1:
            single[name] = several[0]
        elif name not in numeric:
            raise BadInput(
                f"{name} is part of the structure of {agent.name}, so one run has one value of it: "
                "use `bfq sweep`."
            )
        else:
            varied[name] = several
    return single, varied


def _check_varied(config: Any, varied: Mapping[str, Sequence[float]]) -> None:
    """Refuse a value that does not fit the rest of the configuration."""
    for name, several in varied.items():
        for one in several:
            registry.check_config(dataclasses.replace(config, **{name: one}))


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, int):
        return list(range(seeds))
    if not seeds:
        raise BadInput("seeds must be a number of seeds, or a list with at least one seed.")
    if len(set(seeds)) < len(seeds):
        raise BadInput("a seed is given twice: both would train the same policy.")
    return list(seeds)


def _evaluations(asked: int | Sequence[int], steps: int) -> int | list[int]:
    if isinstance(asked, int):
        if asked >= 1000 and 10 * asked > steps:
            raise BadInput(
                f"{asked:,} evaluations are too many for {steps:,} updates; "
                f"for one after {asked:,} updates write {asked}, with a comma."
            )
        return asked
    if not asked or max(asked) > steps:
        raise BadInput(
            "evaluations must be a number of them, or a list of the updates after which to evaluate, "
            f"from 1 to {steps:,}."
        )
    return sorted(set(asked))
