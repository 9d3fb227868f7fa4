"""Where the policy of a run is scored: in the simulator of its task, in an environment of the user, or nowhere."""

import dataclasses
from typing import Any

from bfq.errors import BadInput, unknown
from bfq.options import OPTIONS
from bfq.records import check_value
from bfq.run import RunConfig
from bfq.tasks.catalog import TASKS, Task
from bfq.tasks.sources import is_path, is_stored, stored_datasets

USUAL_STEPS = 1000  # the episode limit where the environment has none


def scored_in(
    task: str, card: Task | None, env: str | None, episode_steps: int | None
) -> dict[str, Any]:
    """Where the policy is scored: the task's simulator, the one named for a file, or nowhere."""
    if card is None:
        if not is_path(task) and not is_stored(task):
            raise unknown("task", task, [*TASKS, *stored_datasets()])
        return _own_environment(env, episode_steps)
    if env not in (None, card.simulator) or episode_steps not in (None, card.episode_steps):
        raise BadInput(
            f"{card.name} is scored in {card.simulator} with {card.episode_steps} steps per episode: "
            "another environment or episode limit is for your own data."
        )
    return {
        "simulator": card.simulator,
        "episode_steps": card.episode_steps,
        "reference": card.reference,
        "metric": card.metric,
    }


def _own_environment(env: str | None, episode_steps: int | None) -> dict[str, Any]:
    if env and episode_steps is None:
        from bfq.envs.make import registered_limit

        episode_steps = registered_limit(env)
    return {"simulator": env, "episode_steps": episode_steps or USUAL_STEPS, "reference": None}


def with_environment(run: RunConfig, env: str | None, episode_steps: int | None) -> RunConfig:
    """The run in another environment or with another limit; those of a task are part of its scores."""
    if episode_steps is not None:
        check_value("episode_steps", episode_steps, OPTIONS["episode_steps"].type)
    if run.task in TASKS:
        changes = scored_in(run.task, TASKS[run.task], env, episode_steps)
    elif env in (None, run.simulator):
        changes = {"episode_steps": episode_steps or run.episode_steps}
    else:
        changes = _own_environment(env, episode_steps)
    return dataclasses.replace(run, **changes)
