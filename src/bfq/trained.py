"""A trained run: its members at a checkpoint, their scores, the record and the frames."""

import dataclasses
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax

from bfq.agents.contract import Spec
from bfq.agents.registry import check_acting, configure, get_agent
from bfq.data.dataset import Dataset
from bfq.data.transforms import Transforms
from bfq.envs.make import check_admitted
from bfq.errors import BadInput, say
from bfq.evaluation.film import strip
from bfq.evaluation.protocol import Protocol, protocol_from
from bfq.evaluation.rollout import Act, EnvironmentSpec, population_act, rollout, score_episodes
from bfq.files import write_bytes
from bfq.run import Numbers, Parent, RunConfig, RunRecord, TransformsSummary, read_metrics, versions
from bfq.settings import command, load_run
from bfq.training.checkpoint import (
    BEST,
    CHECKPOINTS,
    Checkpoint,
    checkpoint_folders,
    latest_checkpoint,
)
from bfq.training.population import Population, create_population, initial_states


def population_of(run: RunConfig) -> Population:
    """All seeds and hyperparameter settings of a run."""
    agent = get_agent(run.agent)
    half = run.precision == "bfloat16"
    config, earlier = configure(agent, run.config), run.parent.updates if run.parent else 0
    return create_population(agent, config, run.members, half, earlier)


def environment_of(run: RunConfig) -> EnvironmentSpec | None:
    """The environment of a run, if it has one; code must have been named by the user."""
    if run.simulator is None:
        return None
    check_admitted(run.simulator)
    return EnvironmentSpec(run.simulator, run.episode_steps)


def transforms_of(run: RunConfig) -> Transforms:
    """The transforms that were fitted when the run started."""
    if run.transforms is None or run.dataset is None:
        raise BadInput("config.json: transforms or dataset is missing: this run has not started.")
    return Transforms.from_record(run.transforms)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A checkpoint of a run, by default the last one, with everything needed to act."""

    run: RunConfig
    population: Population
    checkpoint: Checkpoint
    transforms: Transforms

    def protocol(self, **changes: Any) -> Protocol:
        """The protocol of the run's own evaluations, with the changes that are not None."""
        given = {name: value for name, value in changes.items() if value is not None}
        chosen = protocol_from({**self.run.evaluation, **given})
        check_acting(self.population.agent, self.population.configs, chosen.acting)
        return chosen

    def act(self, protocol: Protocol) -> Act:
        """How all members act under a protocol."""
        return population_act(self.population, self.checkpoint.states, self.transforms, protocol)

    def member(self, k: int) -> tuple[Any, Any]:
        """The state and the configuration of one member."""
        count = len(self.population.members)
        if not (isinstance(k, int) and 0 <= k < count):
            raise BadInput(f"the run has members 0 to {count - 1}, not {k}.")
        both = (self.checkpoint.states, self.population.configs)
        state, config = jax.tree.map(lambda leaf: leaf[k], both)
        return state, config

    def scores(self, environment: EnvironmentSpec, protocol: Protocol) -> dict[str, Numbers]:
        """The scores of every member, from episodes in an environment."""
        members = len(self.population.members)
        episodes = rollout(self.act(protocol), environment, protocol, members)
        return score_episodes(episodes, self.run.reference, self.run.metric)


def load_trained(folder: str | Path, checkpoint: str | None = None) -> Trained:
    """All members of a run at its last checkpoint, or at the best one where its protocol says so."""
    folder = Path(folder)
    run = load_run(folder)
    transforms, population = transforms_of(run), population_of(run)
    spec = Spec(len(transforms.observation_mean), len(transforms.action_low))
    like = jax.eval_shape(lambda: initial_states(population, spec))
    best = (checkpoint or run.evaluation["checkpoint"]) == "best"
    found = latest_checkpoint(folder / (BEST if best else CHECKPOINTS), like)
    if found is None and best:
        raise BadInput(f"the run in {folder} has no best checkpoint: train with --checkpoint best.")
    if found is None:
        raise BadInput(f"the run in {folder} has no checkpoint yet.")
    return Trained(run, population, found, transforms)


def inherit(run: RunConfig, dataset: Dataset) -> tuple[RunConfig, Any]:
    """A new run with the transforms of the run that it starts from, and its states."""
    folder = Path(str(run.start_from))
    trained = load_trained(folder, "last")
    old, bounds = trained.transforms, (dataset.action_low, dataset.action_high)
    sizes = (dataset.observation_dim, dataset.action_dim)
    spec = Spec(len(old.observation_mean), len(old.action_low))
    if sizes != spec:
        raise BadInput(
            f"the run in {folder} has {spec[0]} observations and {spec[1]} actions, but this data has "
            f"{sizes[0]} and {sizes[1]}."
        )
    if (bounds[0] < old.action_low).any() or (bounds[1] > old.action_high).any():
        raise BadInput(
            f"this data has actions outside the range of the run in {folder}: give its range, with "
            "action_low and action_high."
        )
    updates = trained.checkpoint.step + (trained.run.parent.updates if trained.run.parent else 0)
    file = checkpoint_folders(folder / CHECKPOINTS)[0] / "state.safetensors"
    parent = Parent(trained.checkpoint.step, updates, sha256(file.read_bytes()).hexdigest())
    new = dataclasses.replace(run, transforms=trained.run.transforms, parent=parent)
    wanted = jax.eval_shape(lambda: initial_states(population_of(new), spec))
    both = (wanted, trained.checkpoint.states)
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), both)
    if shapes[0] != shapes[1]:
        raise BadInput(
            f"this run cannot start from {folder}: the agent, the structure of its networks and the "
            "number of members must be the same."
        )
    return new, trained.checkpoint.states


def record_of(trained: Trained, found: dict[str, Numbers | None] | None) -> RunRecord:
    """The record of an evaluation of a run."""
    run, agent, clock = trained.run, trained.population.agent, trained.checkpoint.position.clock
    assert run.dataset is not None
    assert run.transforms is not None
    return RunRecord(
        task=run.dataset.name,
        agent=run.agent,
        title=agent.title,
        steps=trained.checkpoint.step,
        members=list(run.members),
        scores=found,
        protocol=run.evaluation,
        simulator=run.simulator,
        episode_steps=run.episode_steps if run.simulator else None,
        ignores=list(agent.ignores(trained.population.configs)),
        data=run.dataset,
        transforms=TransformsSummary(run.transforms.observations, run.transforms.reward),
        reference=run.reference,
        versions=versions(),
        device=jax.devices()[0].device_kind,
        train_seconds=clock.train_seconds,
        microseconds_per_step=clock.microseconds_per_step,
        precision=run.precision,
        online=run.online,
        config=run.config,
        command=command(run),
    )


def last_scores(
    folder: Path, members: int, step: int | None = None
) -> dict[str, Numbers | None] | None:
    """The scores of the last evaluation in metrics.jsonl, or of the one at `step`; None if there was none."""
    rows = [row for row in read_metrics(folder, members) if row.kind == "evaluation"]
    rows = [row for row in rows if step in (None, row.step)]
    return {"normalized": None, **rows[-1].metrics} if rows else None


def evaluate_run(trained: Trained, environment: EnvironmentSpec, protocol: Protocol) -> RunRecord:
    """Score every member of a run."""
    found = trained.scores(environment, protocol)
    return dataclasses.replace(
        record_of(trained, {"normalized": None, **found}),
        protocol=protocol.describe(),
        simulator=environment.simulator,
        episode_steps=environment.episode_steps,
    )


def draw_frames(folder: Path) -> None:
    """Save frames of the first member of a finished run, if missing and if this machine can render."""
    if (folder / "frames.png").exists() or not checkpoint_folders(folder / CHECKPOINTS):
        return
    trained = load_trained(folder)
    protocol, simulator = trained.protocol(), trained.run.simulator
    try:
        environment = environment_of(trained.run)
        if environment is None:
            return
        picture = strip(trained.act(protocol), environment, protocol, len(trained.run.members))
    except BadInput as error:
        say(f"note: no pictures of the policy: {error}")
        return
    except Exception as error:  # noqa: BLE001 - rendering fails in many ways, and no score depends on it
        say(f"note: no pictures of the policy: this machine cannot render {simulator}: {error!r}")
        return
    write_bytes(folder / "frames.png", picture)
