"""Runs as the cells tell of them, for the figures and pages that reports have: no run folder is needed."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from bfq.agents.registry import get_agent
from bfq.reports import Run
from bfq.run import MetricsRow, Numbers, RunRecord
from bfq_paper.results.cells import Cell, Outcome
from bfq_paper.results.schema import MAYBE

COPIED = (
    "task", "agent", "steps", "data", "transforms", "reference", "versions", "device", "train_seconds",
    "microseconds_per_step", "config", "command",
)  # fmt: skip
CURVES = ("return", "normalized")  # of an evaluation during training


def told_runs(outcome: Outcome) -> list[Run]:
    """The runs behind the cells, each once: a sweep's cells share one, as do two ways of acting."""
    found: dict[tuple[str, float], list[Cell]] = {}
    for cell in outcome.cells:
        if cell.readings and "members" in cell.provenance:
            place = cell.provenance["run"], cell.provenance["train_seconds"]
            found.setdefault(place, []).append(cell)
    return [_run(cells) for cells in found.values()]


def is_whole(told: dict[str, Any]) -> bool:
    """Whether the evaluations of a cell's run have a number of each member at each of their steps."""
    evaluations, count = told.get("evaluations", {}), len(told["members"])
    curves = [evaluations[name] for name in CURVES if name in evaluations]
    steps = evaluations.get("steps", [])
    even = all(isinstance(step, int) for step in steps) and all(
        len(each) == len(steps) for each in curves
    )
    rows = [row for curve in curves for row in curve]
    return even and all(
        len(row) == count and all(isinstance(v, MAYBE) for v in row) for row in rows
    )


def _run(cells: Sequence[Cell]) -> Run:
    told, first = cells[0].provenance, cells[0].readings[0].record
    members = _members(cells)
    rows = _rows(members.values())
    # Cells of old have no evaluations along the way; their first reading is the run's own all the same.
    last = rows[-1].metrics if rows else _scores(members.values())
    agent = get_agent(told["agent"])
    # What a run of old does not tell of has been added since, and is what it is by default.
    config = SimpleNamespace(**{**dataclasses.asdict(agent.config()), **told["config"]})
    record = {
        **{name: told[name] for name in COPIED},
        "title": agent.title,
        "ignores": agent.ignores(config),
        "members": [json.loads(key) for key in members],
        "scores": last,
        "protocol": told.get("evaluations", first)["protocol"],
        "simulator": told.get("simulator"),
        "episode_steps": told.get("episode_steps"),
    }
    return Run(**vars(msgspec.convert(record, RunRecord)), folder=Path(told["run"]), rows=rows)


def _members(cells: Sequence[Cell]) -> dict[str, tuple[Cell, int]]:
    """By seed and overrides: the first cell that has the member, and its place there."""
    found: dict[str, tuple[Cell, int]] = {}
    for cell in cells:
        for place, member in enumerate(cell.provenance["members"]):
            found.setdefault(json.dumps(member, sort_keys=True), (cell, place))
    return found


def _rows(members: Any) -> tuple[MetricsRow, ...]:
    """Every evaluation along the way that all members have."""
    told = [(cell.provenance.get("evaluations", {}), place) for cell, place in members]
    steps = told[0][0].get("steps", [])
    if any(each.get("steps") != steps for each, _ in told):
        return ()
    names = [name for name in CURVES if all(name in each for each, _ in told)]
    return tuple(
        MetricsRow(
            step,
            "evaluation",
            {name: [each[name][k][place] for each, place in told] for name in names},
        )
        for k, step in enumerate(steps)
    )


def _scores(members: Any) -> dict[str, Numbers]:
    """What the members were scored with in the end."""
    told = [(cell.readings[0].record.get("scores", {}), place) for cell, place in members]
    names = [name for name in CURVES if all(name in each for each, _ in told)]
    return {name: [each[name][place] for each, place in told] for name in names}
