"""Whether a simulator moves as the data did: it is set to logged states, and its steps are compared.

Agents are scored in a simulator of today; the data may come from an older one. Where the log keeps the
simulator's whole state (qpos, qvel), one step from it with the logged action must land on the logged next
observation, up to the rounding of 32-bit numbers.
"""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset
from bfq.data.statistics import spaced
from bfq.envs.states import STATE, ReplayEnvironment, open_replay
from bfq.errors import BadInput

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
HORIZONS = (1, 10, 100)  # steps after which the drift of whole episodes is told
EPISODES = 20  # replayed from their first state alone, at most
SAMPLE = 10_000  # rows that give the standard deviation of each observation
SAME, CLOSE = 1e-4, 0.25  # 95 % of the numbers lie within so many standard deviations
SLIGHT = 1e-3  # standard deviations of the reward that rounding cannot explain
QUANTILES = {"median": 0.5, "q95": 0.95, "max": 1.0}


class Chosen(NamedTuple):
    """Rows to step from, where the state before each is kept, and the share that was passed over."""

    rows: Rows
    states: Rows
    clipped: float


class Away(NamedTuple):
    """How far the simulator lands from the log."""

    observations: Doubles  # (rows, numbers compared)
    rewards: Doubles  # (rows,)


def replay(dataset: Dataset, simulator: str, rows: int = 1000) -> dict[str, Any]:
    """Steps `simulator` from states of the log, and tells how far it lands from what was logged.

    Errors are told in the observation's own units and relative to its standard deviation in the data.
    """
    if not dataset.infos.keys() >= set(STATE):
        raise BadInput(
            f"{dataset.name} has no stored states (qpos and qvel) that a simulator could be set to: only "
            "data that keeps them, such as D4RL's locomotion files, can be replayed."
        )
    when = stored_when(dataset)
    chosen = chosen_rows(dataset, when, rows)
    spread = np.asarray(dataset.observations[spaced(len(dataset), SAMPLE)], np.float64).std(0)
    with open_replay(simulator) as world:
        one = _steps(world, dataset, chosen)
        drifts = [_drift(world, dataset, *episode) for episode in _episodes(dataset, when)]
        warnings = len(world.warnings)
    spread = spread[: one.observations.shape[1]]
    facts = {
        "simulator": simulator,
        "versions": {name: version(name) for name in ("gymnasium", "mujoco")},
        "stored": when,
        "rows": len(chosen.rows),
        "clipped": chosen.clipped,
        "warnings": warnings,
        "compared": len(spread),
        **_errors(one, spread, float(np.std(dataset.rewards[spaced(len(dataset), SAMPLE)]))),
        "drift": list(_drifts(drifts, spread)),
    }
    return facts | {
        "verdict": verdict(facts),
        "notes": list(_notes(facts, dataset.observation_dim)),
    }


def told(replayed: dict[str, Any]) -> list[tuple[str, str]]:
    """The findings a terminal has room for: labels and values."""
    drifts = [f"{at['median']:.2g} after {at['steps']}" for at in replayed["drift"]]
    return [
        ("replayed in", f"{replayed['simulator']}, MuJoCo {replayed['versions']['mujoco']}"),
        ("verdict", replayed["verdict"]),
        ("step off by", f"{_told(replayed['relative'])} standard deviations"),
        ("reward off by", _told(replayed["reward"])),
        (
            "drift of episodes",
            f"{', '.join(drifts)} steps" if drifts else "no episode is long enough",
        ),
        *(("note", note) for note in replayed["notes"]),
    ]


def verdict(facts: dict[str, Any]) -> str:
    """The answer in a sentence."""
    middle, high = facts["relative"]["median"], facts["relative"]["q95"]
    if high < SAME:
        return f"{facts['simulator']} moves as the data did, to rounding."
    how = "moves nearly as the data did" if high < CLOSE else "does not move as the data did"
    return (
        f"{facts['simulator']} {how}: after one step, numbers are off by {middle:.2g} standard deviations in "
        f"the median, and 1 in 20 by {high:.2g} or more."
    )


def stored_when(dataset: Dataset) -> str:
    """Whether a row's state is that before or after its action: the one whose observation shows it.

    Most of qpos and qvel are seen as they are: a column of the state counts as seen where it is, in nine of
    ten rows, a column of the observations.
    """
    inside = _inside(dataset)
    rows = inside[spaced(len(inside), 500)]
    state = np.concatenate(
        [np.asarray(dataset.infos[name][rows]).reshape(len(rows), -1) for name in STATE], 1
    )
    seen = []
    for shown in (dataset.observations, dataset.next_observations):
        same = np.isclose(
            state[:, :, None], np.asarray(shown[rows])[:, None, :], rtol=1e-5, atol=1e-6
        )
        seen.append(int((same.mean(0).max(1) > 0.9).sum()))
    return "unknown" if seen[0] == seen[1] else "before" if seen[0] > seen[1] else "after"


def chosen_rows(dataset: Dataset, when: str, wanted: int) -> Chosen:
    """Evenly spaced rows that do not end an episode and whose state is whole.

    Some logs took velocities from observations that clip them (Hopper and Walker2d at ±10): the true velocity
    of such a row is lost. A largest velocity that several rows share is such a bound.
    """
    inside = _inside(dataset)
    if when == "after":  # the state before a row is then kept in the row before
        inside = inside[np.isin(inside - 1, inside)]
    rows = inside[spaced(len(inside), wanted)]
    if not len(rows):
        raise BadInput(f"{dataset.name} has no step inside an episode that could be replayed.")
    states = rows - (when == "after")
    speeds = np.abs(np.asarray(dataset.infos["qvel"][states]).reshape(len(rows), -1))
    clipped = (speeds == speeds.max()).any(1)
    if clipped.sum() == 1 or clipped.all():
        clipped[:] = False  # the fastest row of all, or a log at rest
    return Chosen(rows[~clipped], states[~clipped], float(clipped.mean()))


def _inside(dataset: Dataset) -> Rows:
    """Rows with a successor in their episode."""
    rows = np.flatnonzero(~np.asarray(dataset.episode_ends[:-1]))
    if not len(rows):
        raise BadInput(
            f"{dataset.name} has no two rows in one episode, so there is no step to replay."
        )
    return rows


def _episodes(dataset: Dataset, when: str) -> Iterator[tuple[int, int, int]]:
    """Where the state is, the first row and the row after the last, of some episodes evenly spaced."""
    last = np.append(np.flatnonzero(dataset.episode_ends[:-1]), len(dataset) - 1)
    state = np.append(0, last[:-1] + 1)
    first = state + (when == "after")
    long = np.flatnonzero(last > first)
    for k in long[spaced(len(long), EPISODES)].tolist():
        yield int(state[k]), int(first[k]), int(min(last[k], first[k] + max(HORIZONS)))


def _steps(world: ReplayEnvironment, dataset: Dataset, chosen: Chosen) -> Away:
    """One step from the state before every chosen row."""
    away = []
    for row, state in zip(chosen.rows.tolist(), chosen.states.tolist(), strict=True):
        world.set_state(dataset.infos, state)
        away.append(_step(world, dataset, row))
    return Away(np.stack([each[0] for each in away]), np.array([each[1] for each in away]))


def _drift(world: ReplayEnvironment, dataset: Dataset, state: int, begin: int, end: int) -> Doubles:
    """Errors along an episode that is replayed from its first state alone: (steps, numbers compared)."""
    world.set_state(dataset.infos, state)
    return np.stack([_step(world, dataset, row)[0] for row in range(begin, end)])


def _step(world: ReplayEnvironment, dataset: Dataset, row: int) -> tuple[Doubles, float]:
    """How far one step lands from the logged next observation and reward.

    A simulator may show less or more than the log (Ant's contact forces): what both begin with is compared.
    """
    observation, reward = world.step(np.asarray(dataset.actions[row]))
    width = min(len(observation), dataset.observation_dim)
    away = np.abs(observation[:width] - dataset.next_observations[row, :width])
    return away, abs(reward - float(dataset.rewards[row]))


def _errors(one: Away, spread: Doubles, reward_spread: float) -> dict[str, Any]:
    live = spread > 0
    dimensions = {
        name: np.quantile(one.observations, at, axis=0).tolist() for name, at in QUANTILES.items()
    }
    return {
        "observation": _quantiles(one.observations),
        "relative": _quantiles(one.observations[:, live] / spread[live]),
        "reward": {"std": reward_spread, **_quantiles(one.rewards)},
        "dimensions": {"std": spread.tolist(), **dimensions},
    }


def _quantiles(values: Doubles) -> dict[str, float]:
    return {
        name: float(np.quantile(values, at)) if values.size else 0.0
        for name, at in QUANTILES.items()
    }


def _drifts(drifts: list[Doubles], spread: Doubles) -> Iterator[dict[str, Any]]:
    """After each horizon √mean(error / std)² over the observations: its median and most over episodes."""
    live = spread > 0
    for steps in HORIZONS:
        ends = [drift[steps - 1, live] / spread[live] for drift in drifts if len(drift) >= steps]
        if ends and live.any():
            far = np.sqrt(np.square(ends).mean(1))
            yield {
                "steps": steps,
                "episodes": len(ends),
                "median": float(np.median(far)),
                "max": float(far.max()),
            }


def _notes(facts: dict[str, Any], width: int) -> Iterator[str]:
    if facts["stored"] == "after":
        yield "States are stored after the row's action, so each was stepped from that of the row before."
    if facts["stored"] == "unknown":
        yield "The observations do not show whether a state is that before its row's action; it was taken so."
    if facts["compared"] < width:
        yield f"{facts['simulator']} shows less: only the first {facts['compared']} of {width} were compared."
    if facts["clipped"]:
        yield f"{facts['clipped']:.1%} of the rows were passed over: their velocities are clipped in the log."
    if SAME <= facts["relative"]["q95"] < CLOSE:
        yield (
            "Errors of this size can come from another version of MuJoCo (before 2.1.2, and so in D4RL, "
            "capsules had other masses) or from parts of the state that the log lacks."
        )
    if (
        facts["relative"]["median"] < SAME
        and facts["reward"]["median"] > SLIGHT * facts["reward"]["std"]
    ):
        yield "The simulator pays other rewards for the same moves: its reward function is another one."
    if facts["warnings"]:
        yield f"MuJoCo warned {facts['warnings']} times of an unstable simulation."


def _told(error: dict[str, float]) -> str:
    return f"{error['median']:.2g} in the median, {error['q95']:.2g} at 95 %, {error['max']:.2g} at most"
