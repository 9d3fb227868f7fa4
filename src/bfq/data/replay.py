"""Check a simulator against the data: set it to logged states and compare its steps with the log.

Agents are evaluated in a current simulator; the data may come from an older one. If the log has the full
state of the simulator (qpos, qvel), one step with the logged action must reproduce the logged next
observation up to float32 rounding.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.coverage import evenly_spaced
from bfq.data.dataset import Dataset, Doubles
from bfq.envs.states import STATE, ReplayEnvironment, open_replay
from bfq.errors import BadInput

Rows = npt.NDArray[np.int64]
HORIZONS = (1, 10, 100)  # steps after which the drift of whole episodes is measured
EPISODES = 20  # at most, replayed from their first state only
SAMPLE = 10_000  # rows that give the standard deviation of each observation
SAME, CLOSE = 1e-4, 0.25  # 95 % of the numbers lie within so many standard deviations
SLIGHT = 1e-3  # standard deviations of the reward that rounding cannot explain
QUANTILES = {"median": 0.5, "q95": 0.95, "max": 1.0}


def replay(dataset: Dataset, simulator: str, rows: int = 1000) -> dict[str, Any]:
    """Step `simulator` from states of the log and measure the errors of its steps.

    Errors are in the units of the observation and relative to its standard deviation in the data.
    """
    if not dataset.infos.keys() >= set(STATE):
        raise BadInput(
            f"{dataset.name} has no stored simulator states (qpos and qvel): only data with states, such as "
            "D4RL's locomotion files, can be replayed."
        )
    when = stored_when(dataset)
    chosen, states, clipped = _choose_rows(dataset, when, rows)
    sample = evenly_spaced(len(dataset), SAMPLE)
    spread = np.asarray(dataset.observations[sample], np.float64).std(0)
    with open_replay(simulator) as environment:
        starts = zip(states.tolist(), chosen.tolist(), strict=True)
        steps = [_play(environment, dataset, state, [row]) for state, row in starts]
        errors, reward_errors = (np.concatenate(part) for part in zip(*steps, strict=True))
        drifts = [_play(environment, dataset, *episode)[0] for episode in _episodes(dataset, when)]
        warnings = len(environment.warnings)
    spread = spread[: errors.shape[1]]
    live = spread > 0
    dimensions = np.quantile(errors, list(QUANTILES.values()), axis=0).tolist()
    facts = {
        "simulator": simulator,
        "versions": {name: version(name) for name in ("gymnasium", "mujoco")},
        "stored": when,
        "rows": len(chosen),
        "clipped": clipped,
        "warnings": warnings,
        "compared": len(spread),
        "observation": _quantiles(errors),
        "relative": _quantiles(errors[:, live] / spread[live]),
        "reward": {"std": float(np.std(dataset.rewards[sample])), **_quantiles(reward_errors)},
        "dimensions": {"std": spread.tolist(), **dict(zip(QUANTILES, dimensions, strict=True))},
        "drift": list(_drifts(drifts, spread)),
    }
    notes = list(_notes(facts, dataset.observation_dim))
    return facts | {"verdict": describe_agreement(facts), "notes": notes}


def replay_rows(replayed: dict[str, Any]) -> list[tuple[str, str]]:
    """The findings that are printed: labels and values."""
    drifts = [f"{at['median']:.2g} after {at['steps']}" for at in replayed["drift"]]
    return [
        ("replayed in", f"{replayed['simulator']}, MuJoCo {replayed['versions']['mujoco']}"),
        ("verdict", replayed["verdict"]),
        ("step off by", f"{_quantile_text(replayed['relative'])} standard deviations"),
        ("reward off by", _quantile_text(replayed["reward"])),
        ("drift of episodes", f"{', '.join(drifts) or 'no episode is long enough, in'} steps"),
        *(("note", note) for note in replayed["notes"]),
    ]


def describe_agreement(facts: dict[str, Any]) -> str:
    """The result in one sentence."""
    middle, high = facts["relative"]["median"], facts["relative"]["q95"]
    if high < SAME:
        return f"{facts['simulator']} moves as the data did, up to rounding."
    how = "moves nearly as the data did" if high < CLOSE else "does not move as the data did"
    return (
        f"{facts['simulator']} {how}: after one step, numbers are off by {middle:.2g} standard deviations in "
        f"the median, and 1 in 20 by {high:.2g} or more."
    )


def stored_when(dataset: Dataset) -> str:
    """Whether the state of a row is from before or after its action, judged by the observations.

    Most of qpos and qvel appear in the observation: a column of the state counts as visible if it equals a
    column of the observations in nine of ten rows.
    """
    inside = _inside(dataset)
    rows = inside[evenly_spaced(len(inside), 500)]
    columns = [np.asarray(dataset.infos[name][rows]).reshape(len(rows), -1) for name in STATE]
    state, seen = np.concatenate(columns, 1)[:, :, None], []
    for shown in (dataset.observations, dataset.next_observations):
        same = np.isclose(state, np.asarray(shown[rows])[:, None, :], rtol=1e-5, atol=1e-6)
        seen.append(int((same.mean(0).max(1) > 0.9).sum()))
    return "unknown" if seen[0] == seen[1] else "before" if seen[0] > seen[1] else "after"


def _choose_rows(dataset: Dataset, when: str, wanted: int) -> tuple[Rows, Rows, float]:
    """Evenly spaced rows with a complete state, the rows of these states, and the share left out.

    Some logs took velocities from observations that clip them (Hopper and Walker2d at ±10), so the true
    velocity is lost. A largest velocity shared by several rows is such a bound.
    """
    inside = _inside(dataset)
    if when == "after":  # the state before a row is then in the row above
        inside = inside[np.isin(inside - 1, inside)]
    rows = inside[evenly_spaced(len(inside), wanted)]
    if not len(rows):
        raise BadInput(f"{dataset.name} has no step inside an episode that could be replayed.")
    states = rows - (when == "after")
    speeds = np.abs(np.asarray(dataset.infos["qvel"][states]).reshape(len(rows), -1))
    clipped = (speeds == speeds.max()).any(1)
    if clipped.sum() == 1 or clipped.all():
        clipped[:] = False  # a single fastest row, or a log at rest
    return rows[~clipped], states[~clipped], float(clipped.mean())


def _inside(dataset: Dataset) -> Rows:
    """Rows with a successor in their episode."""
    rows = np.flatnonzero(~np.asarray(dataset.episode_ends[:-1]))
    if not len(rows):
        raise BadInput(f"{dataset.name} has no two rows in one episode, and so no step to replay.")
    return rows


def _episodes(dataset: Dataset, when: str) -> Iterator[tuple[int, range]]:
    """The row of the first state and the rows of the steps, of evenly spaced episodes."""
    last = dataset.last_rows
    state = np.append(0, last[:-1] + 1)
    first = state + (when == "after")
    long = np.flatnonzero(last > first)
    for k in long[evenly_spaced(len(long), EPISODES)].tolist():
        yield int(state[k]), range(int(first[k]), int(min(last[k], first[k] + max(HORIZONS))))


def _play(
    environment: ReplayEnvironment, dataset: Dataset, state: int, rows: Iterable[int]
) -> tuple[Doubles, Doubles]:
    """The errors of observations (steps, numbers compared) and rewards, stepping from one state.

    A simulator may observe less or more than the log (contact forces of Ant): the common prefix is compared.
    """
    environment.set_state(dataset.infos, state)
    errors, reward_errors = [], []
    for row in rows:
        observation, reward = environment.step(np.asarray(dataset.actions[row]))
        width = min(len(observation), dataset.observation_dim)
        errors.append(np.abs(observation[:width] - dataset.next_observations[row, :width]))
        reward_errors.append(abs(reward - float(dataset.rewards[row])))
    return np.stack(errors), np.array(reward_errors)


def _quantiles(values: Doubles) -> dict[str, float]:
    found = np.quantile(values, list(QUANTILES.values())).tolist() if values.size else [0.0] * 3
    return dict(zip(QUANTILES, found, strict=True))


def _drifts(drifts: list[Doubles], spread: Doubles) -> Iterator[dict[str, Any]]:
    """√mean((error / std)²) after each horizon: its median and maximum over episodes."""
    live = spread > 0
    for steps in HORIZONS:
        ends = [drift[steps - 1, live] / spread[live] for drift in drifts if len(drift) >= steps]
        if ends and live.any():
            drift = np.sqrt(np.square(ends).mean(1))
            middle, most = float(np.median(drift)), float(drift.max())
            yield {"steps": steps, "episodes": len(ends), "median": middle, "max": most}


def _notes(facts: dict[str, Any], width: int) -> Iterator[str]:
    if facts["stored"] == "after":
        yield "States are stored after the row's action, so each step starts from the state of the row above."
    if facts["stored"] == "unknown":
        yield "The observations do not show whether states are from before or after the action; before was assumed."
    if facts["compared"] < width:
        yield f"{facts['simulator']} observes less: only the first {facts['compared']} of {width} were compared."
    if facts["clipped"]:
        yield f"{facts['clipped']:.1%} of the rows were skipped: their velocities are clipped in the log."
    if SAME <= facts["relative"]["q95"] < CLOSE:
        yield (
            "Errors of this size can come from another version of MuJoCo (before 2.1.2, and so in D4RL, "
            "capsules had other masses) or from parts of the state that the log lacks."
        )
    reward = facts["reward"]
    if facts["relative"]["median"] < SAME and reward["median"] > SLIGHT * reward["std"]:
        yield "The simulator gives other rewards for the same motion: its reward function differs."
    if facts["warnings"]:
        yield f"MuJoCo warned {facts['warnings']} times of an unstable simulation."


def _quantile_text(error: dict[str, float]) -> str:
    return f"{error['median']:.2g} in the median, {error['q95']:.2g} at 95 %, {error['max']:.2g} at most"
