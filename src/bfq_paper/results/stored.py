"""The numbers of an experiment as its file result.json holds them, with all that they depend on."""

import math
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import jax

from bfq.agents.registry import get_agent
from bfq.errors import BadInput
from bfq.files import read_json
from bfq.run import versions
from bfq_paper.plan.experiments import EXPERIMENTS, Experiment
from bfq_paper.plan.sources import Source
from bfq_paper.results import successes
from bfq_paper.results.cells import Cell, Outcome, Reading
from bfq_paper.results.rivals import rivals
from bfq_paper.results.schema import MAYBE, MEMBER, NUMBER, RESULT, WORLD, numbers, require
from bfq_paper.results.together import together
from bfq_paper.results.told_runs import COPIED, is_whole

LARGEST = 1e30  # what scores, times and settings stay below
DEEPEST = 20  # levels inside a cell
SAID = (  # of a cell in result.json, beside what it depends on
    "row", "column", "state", "why", "unit", "paper", "difference", "notes", "readings", "successes",
)  # fmt: skip
STATES = ("done", "failed", "unfilled", "waiting")
CALL: dict[str, Any] = {  # of each command that worked on an experiment
    "versions": dict, "device": str, "command": str, "seconds": NUMBER,
}  # fmt: skip
Calls = tuple[dict[str, Any], ...]
SOURCE: dict[str, Any] = {"task": str, "data": (str, NoneType), "kind": str, "words": str}
READING: dict[str, Any] = {"name": str, "values": list}
CELL: dict[str, Any] = {
    "row": str, "column": str, "state": str, "why": str, "unit": str, "readings": list,
}  # fmt: skip
DEPENDS: dict[str, Any] = {  # what a cell depends on, where it tells it
    "source": SOURCE,
    "data": dict,
    "precision": (str, NoneType),
    "device": (str, NoneType),
    "versions": dict,
    "steps": int,
    "run": str,
    "run_seconds": MAYBE,
    "settings": dict,
    "finished": str,
    "fingerprint": str,
    **WORLD,
}
MEASURED = ("run", "versions")  # what every cell with numbers tells
DATA: dict[str, Any] = {"name": str, "sha256": (str, NoneType)}  # of data; cells of old do not say
SAMPLED: dict[str, Any] = {
    "sampling_steps": int,
    "sampler": str,
}  # of a protocol; those of old do not say
OF_RUN: dict[str, Any] = {"run": str, **{name: RESULT[name] for name in COPIED}}


def called(outcome: Outcome, command: str, seconds: float) -> Outcome:
    """The outcome as a command that runs here leaves it; given twice, the later stands for both."""
    device = jax.devices()[0].device_kind
    call = {"versions": versions(), "device": device, "command": command, "seconds": seconds}
    return replace(outcome, calls=merged_calls(outcome.calls, (call,)))


def merged_calls(*lists: Calls) -> Calls:
    """Calls in their order, a command on a device once: the last time."""
    calls = [call for each in lists for call in each]
    last = {_which(call): k for k, call in enumerate(calls)}
    return tuple(calls[k] for k in sorted(last.values()))


def renewed(calls: Calls, others: Calls) -> Calls:
    """The calls, where others made them again as those made them."""
    again = {_which(call): call for call in others}
    return tuple(again.get(_which(call), call) for call in calls)


def _which(call: dict[str, Any]) -> tuple[str, str]:
    return call["command"], call["device"]


def folder_of(experiment: Experiment, out: Path) -> Path:
    """A quick run does not take the place of a real one."""
    return out / (f"{experiment.name}-quick" if experiment.quick else experiment.name)


def results_of(outcome: Outcome, folder: Path) -> Path:
    """The folder around an experiment's own, which must have its name."""
    out = folder.absolute().parent
    own = folder_of(outcome.experiment, out)
    if own != folder.absolute():
        raise BadInput(f"{folder} holds the experiment {own.name}: name the folder so.")
    return out


def heading_of(outcome: Outcome, place: str) -> str:
    """The title of an experiment's results at a place as main or, of another device, cpu/efficiency."""
    *apart, _ = place.split("/")
    return ", ".join((outcome.experiment.heading, *apart))


def record(outcome: Outcome) -> dict[str, Any]:
    """The content of result.json."""
    experiment, whole, rivalry = outcome.experiment, together(outcome), rivals(outcome)
    return {
        "experiment": experiment.name,
        "title": experiment.heading,
        "quick": experiment.quick,
        "about": experiment.about,
        "table": experiment.table,
        "sources": [source._asdict() for row in outcome.rows for source in outcome.sources_of(row)],
        "cells": [_cell(outcome, cell) for cell in outcome.cells],
        "averages": [average._asdict() for average in outcome.averages()],
        "together": whole.describe() if whole else None,
        "rivals": rivalry.describe() if rivalry else None,
        "earlier": list(outcome.calls[:-1]),
        **(outcome.calls[-1] if outcome.calls else {}),
    }


def read_outcome(folder: Path) -> Outcome:
    """The outcome whose record a folder holds."""
    path = folder / "result.json"
    told = read_json(path)
    try:
        experiment = EXPERIMENTS[told["experiment"]]
        require(told, {"quick": bool}, str(path))
        cells = tuple(
            _read_cell(cell, experiment, f"{path}: cell {k}")
            for k, cell in enumerate(told["cells"])
        )
        sources = tuple(_read_source(source, f"{path}: source") for source in told["sources"])
        calls = tuple(
            _read_call(each, f"{path}: command") for each in (*told.get("earlier", []), told)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path} is not what `bfq reproduce` writes: {error!r}.") from error
    return Outcome(replace(experiment, quick=told["quick"]), sources, cells, calls)


def earlier_of(experiment: Experiment, out: Path) -> Outcome | None:
    """What commands of before left of an experiment; a file that holds something else is refused."""
    folder = folder_of(experiment, out)
    if not (folder / "result.json").exists():
        return None
    return of_experiment(read_outcome(folder), experiment, folder)


def of_experiment(outcome: Outcome, experiment: Experiment, folder: Path) -> Outcome:
    """The outcome of a folder, if it is one of this experiment."""
    found, wished = (folder_of(each, Path()) for each in (outcome.experiment, experiment))
    if found != wished:
        raise BadInput(
            f"{folder / 'result.json'} holds the experiment {found} and not {wished}: move it away."
        )
    return outcome


def _read_source(told: Any, where: str) -> Source:
    require(told, SOURCE, where)
    return Source.told(told)


def _read_call(told: Any, where: str) -> dict[str, Any]:
    require(told, CALL, where)
    return {name: told[name] for name in CALL}


def _read_cell(told: dict[str, Any], experiment: Experiment, where: str) -> Cell:
    require(told, CELL, where)
    _check_sizes(told, where)
    told_of = [name for name in DEPENDS if name in told or (told["readings"] and name in MEASURED)]
    require(told, {name: DEPENDS[name] for name in told_of}, where)
    _check_told(told.get("data", {}), DATA, where)
    for each in told["readings"]:
        require(each, READING, where)
        if "protocol" in each:
            _check_protocol(each["protocol"], where)
        _check_scores(each, len(told.get("members", each["values"])), where)
    if "members" in told:
        _check_run(told, where)
    if experiment.symbol:
        _check_value(told["column"], experiment.symbol, where)
    values = [value for each in told["readings"] for value in each["values"]]
    if told["state"] not in STATES or not all(isinstance(value, MAYBE) for value in values):
        raise BadInput(f"{where} is damaged.")
    readings = tuple(
        Reading(
            each["name"],
            tuple(each["values"]),
            {
                name: value
                for name, value in each.items()
                if name not in ("name", "values", "summary")
            },
        )
        for each in told["readings"]
    )
    kept = {name: value for name, value in told.items() if name not in SAID}
    plain = {name: told[name] for name in ("row", "column", "state", "why", "unit")}
    return Cell(**plain, readings=readings, provenance=kept)


def _check_sizes(told: dict[str, Any], where: str) -> None:
    """Refuses numbers so large that no mean can be taken, and what is nested too deeply to be written."""
    layer: list[Any] = [told]
    for _ in range(DEEPEST):
        inside = [each.values() if isinstance(each, dict) else each for each in layer]
        layer = [value for values in inside for value in values]
        if any(isinstance(value, NUMBER) and abs(value) >= LARGEST for value in layer):
            raise BadInput(f"{where} has a number that is none of a score or a time.")
        layer = [value for value in layer if isinstance(value, dict | list)]
    if layer:
        raise BadInput(f"{where} is nested too deeply.")


def _check_value(column: str, symbol: str, where: str) -> None:
    """Refuses a column of a sweep that is no number: there is no place for it along an axis."""
    try:
        told = float(column)
    except ValueError:
        told = math.inf
    if not abs(told) < LARGEST:
        raise BadInput(f"{where}: the column {column!r} is no value of {symbol}.")


def _check_run(told: dict[str, Any], where: str) -> None:
    """Refuses a cell that does not tell enough of its run to draw it."""
    require(told, OF_RUN, where)
    for member in told["members"]:
        require(member, MEMBER, where)
    first = told["readings"][0] if told["readings"] else {}
    _check_protocol(told.get("evaluations", first).get("protocol"), where)
    if not is_whole(told):
        raise BadInput(f"{where} is damaged.")
    try:
        get_agent(told["agent"])  # which draws it
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _check_protocol(told: Any, where: str) -> None:
    require(told, RESULT["protocol"], where, "protocol: ")
    _check_told(told, SAMPLED, where)
    if told["episodes"] < 0:
        raise BadInput(f"{where}: there cannot be {told['episodes']} episodes.")


def _check_scores(reading: dict[str, Any], count: int, where: str) -> None:
    """Refuses scores beside a reading's own that are not a number a member."""
    _check_told(reading, {"scores": dict}, where)
    for name, values in reading.get("scores", {}).items():
        if values is not None:
            found = numbers(values, count, f"{where}: {name}")
            if name == "success" and not all(
                0 <= share <= 1 for share in found if share is not None
            ):
                raise BadInput(f"{where}: a share of episodes that succeed is none.")


def _check_told(told: dict[str, Any], schema: dict[str, Any], where: str) -> None:
    """Refuses another type of what is told; what is not passes."""
    require(told, {name: kind for name, kind in schema.items() if name in told}, where)


def _cell(outcome: Outcome, cell: Cell) -> dict[str, Any]:
    printed, counted = outcome.paper(cell), successes.pooled(cell)
    rates = [each.describe() for each in successes.by_seed(cell)]
    return {
        "row": cell.row,
        "column": cell.column,
        "state": cell.state,
        "why": cell.why,
        "unit": cell.unit,
        "paper": printed._asdict() if printed else None,
        "difference": outcome.difference(cell),
        "notes": [note.text for note in outcome.notes(cell)],
        "readings": [reading.describe() for reading in cell.readings],
        "successes": {**counted.describe(), "by_seed": rates} if counted else None,
        **cell.provenance,
    }
