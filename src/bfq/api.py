"""The library in a few lines: train, evaluate."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from bfq.agents.registry import check_acting
from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.deploy.policy import Policy, load_policy
from bfq.errors import BadInput, unknown
from bfq.evaluation.film import check_video, film
from bfq.evaluation.protocol import protocol_from
from bfq.evaluation.rollout import population_act, rollout
from bfq.evaluation.scores import Scores, scores
from bfq.experiment import complete, load_trained, new_folder, read_run, start, world_of
from bfq.provenance import versions
from bfq.settings import command, compose, limited, reference_of
from bfq.tasks.catalog import DEFAULT_TASK

OWN_DATA = "data.store"  # a dataset given from Python, kept inside its run folder


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, and what its result.json says."""

    folder: Path
    record: dict[str, Any]

    def __repr__(self) -> str:
        members = len(self.record["members"])
        return f"Result({self.record['agent']} on {self.record['task']}, {members} members, in {self.folder})"

    @property
    def scores(self) -> dict[str, list[float]] | None:
        """`return` and `normalized`, one number a member; None where there was no simulator."""
        found: dict[str, list[float]] | None = self.record["scores"]
        return found

    def policy(
        self,
        member: int = 0,
        *,
        candidates: int | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> Policy:
        """A trained member, which acts as the run's protocol says unless told otherwise."""
        return load_policy(
            self.folder, member, candidates=candidates, temperature=temperature, seed=seed
        )


def train(
    task: str | Path | Dataset = DEFAULT_TASK,
    agent: str = "bfq",
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] = 5,
    values: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    baselines: Sequence[str] = (),
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Trains a population on a task, a file or a dataset of your own, and evaluates it.

    `values` are hyperparameters; a list of numbers makes one member of each. `settings` are those of
    `bfq.settings.compose`, such as `evaluation={"episodes": 10}` and `simulator="Pendulum-v1"`. A dataset is
    kept in the run folder, so that the run can be resumed.
    """
    strange = set(settings) - set(inspect.signature(compose).parameters)
    if strange:
        raise unknown("setting", sorted(strange)[0], inspect.signature(compose).parameters)
    name = OWN_DATA if isinstance(task, Dataset) else str(task)
    run = compose(
        name, agent, steps=steps, seeds=seeds, values=values, baselines=baselines, **settings
    )
    folder = Path(out) if out is not None else new_folder(run)
    if isinstance(task, Dataset):
        if (folder / "config.json").exists():
            raise BadInput(f"{folder} holds a run already: choose another folder.")
        place = folder / name
        start(
            replace(run, task=str(place.absolute())),
            folder,
            task,
            keep=lambda: store.save(task, place),
        )
    else:
        start(run, folder)
    return Result(folder, complete(folder, quiet=quiet))


def evaluate(
    folder: str | Path,
    *,
    video: str | Path | None = None,
    member: int = 0,
    episode_steps: int | None = None,
    **protocol: Any,
) -> dict[str, Any]:
    """Scores the saved members of a run again, under its own protocol or a changed one.

    What comes back has the keys of result.json; versions and device are those of now, `command` trains.
    `episode_steps` is another limit of episodes, for data of your own. `protocol` may change `episodes`,
    `seed`, `candidates`, `selection`, `temperature`, `policy`, …
    """
    run, kept = read_run(Path(folder))
    if not 0 <= member < len(run.seeds) * math.prod(map(len, run.varied.values())):
        raise BadInput(f"the run has no member {member}.")
    if video is not None:
        check_video(Path(video))
    world = world_of(limited(run, episode_steps))
    if world is None:
        raise BadInput(f"the run in {folder} has no simulator to be judged in.")
    trained = load_trained(folder)
    changed = {name: value for name, value in protocol.items() if value is not None}
    chosen = protocol_from({**trained.protocol.describe(), **changed})
    check_acting(trained.population.agent, trained.population.configs, chosen.acting)
    act = population_act(trained.population, trained.checkpoint.states, trained.transforms, chosen)
    count = len(trained.population.members)
    if video is not None:
        film(act, world, chosen, count, member, Path(video))
    found: Scores = scores(rollout(act, world, chosen, count), reference_of(run), run.metric)
    members = [{"seed": m.seed, "overrides": m.overrides} for m in trained.population.members]
    return {
        "task": run.task,
        "agent": run.agent,
        "steps": trained.checkpoint.step,
        "members": members,
        "scores": found,
        "protocol": chosen.describe(),
        "simulator": world.simulator,
        "episode_steps": world.episode_steps,
        "ignores": list(trained.population.agent.ignores(trained.population.configs)),
        "data": {"sha256": kept.get("data_sha256")},
        "transforms": trained.transforms.describe(),
        "reference": run.reference,
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "precision": run.precision,
        "config": run.config,
        "command": command(run),
    }
