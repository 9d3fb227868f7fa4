"""`bfq.evaluate_offline`: from runs, files and functions to a table, a picture and a record."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bfq.data.dataset import Dataset
from bfq.errors import BadInput
from bfq.files import check_place, locked, make_folder, write_bytes
from bfq.offline.estimators import Evaluation, fingerprint_of
from bfq.offline.judged import controller, joined, members_of_run
from bfq.offline.log import split_log
from bfq.offline.record import OfflineRecord, write_offline
from bfq.offline.training import EstimatorSizes, Work
from bfq.options import Natural, Positive
from bfq.records import check_value
from bfq.tasks.sources import load_dataset
from bfq.trained import Trained, load_trained

WORK = "offline"  # the folder of unfinished networks
BUSY = "another process is evaluating {folder} offline: wait for it."
SMALL = 8  # numbers in an observation and an action up to which small networks are enough
DISCOUNT = 0.99  # without a run


def evaluate_offline(
    policy: Any,
    data: Any = None,
    *,
    beside: Sequence[Any] | Mapping[str, Any] = (),
    discount: float | None = None,
    held_out: float = 0.2,
    updates: int = 10_000,
    networks: int = 5,
    width: int | None = None,
    seed: int = 0,
    checkpoint: str | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    **acting: Any,
) -> OfflineRecord:
    """Judge policies by a log alone, without a simulator.

    Args:
        policy: A run folder or a result (all its members are judged), an exported .npz or .onnx file, or any
            function from observations to actions, in the units of the log.
        data: The log, as in `bfq.train`; by default what the run was trained on.
        beside: More of the same, such as the present controller: a list, or a dict with their names.
        discount: γ of the values; by default that of the run, or 0.99.
        held_out: The share of episodes that estimates are made from; estimators are fitted on the others.
        updates: Gradient updates of each critic and of the model.
        networks: Critics of each policy, and networks of the model.
        width: Width of these networks; by default 64 for small problems, otherwise 128.
        seed: Of the split, the networks and the batches.
        checkpoint: "last" or "best", for runs.
        out: Where offline.json and offline.png are written; by default the run folder, else nowhere. What a
            killed call had trained is kept there, and the same call continues it.
        quiet: Show no progress.
        acting: How runs act: `candidates`, `temperature` and so on, as in `bfq.evaluate`.

    Returns:
        A record; print it for the table with its explanation.
    """
    named = beside.items() if isinstance(beside, Mapping) else ((None, one) for one in beside)
    sources = [(name, _open(one, checkpoint)) for name, one in [(None, policy), *named]]
    runs = [run for _, (_, run) in sources if run]
    if data is None and not runs:
        raise BadInput("there is no run whose data could be used: give the log as data.")
    dataset = load_dataset(runs[0].run.task if data is None else data)
    if discount is None:
        discount = float(runs[0].run.config["discount"]) if runs else DISCOUNT
    log = split_log(dataset, discount, held_out, seed)
    groups = []
    for name, (given, run) in sources:
        prefix = name or (Path(given).name if run and len(runs) > 1 else None)
        one = (
            members_of_run(run, dataset, prefix, acting)
            if run
            else controller(given, dataset, name)
        )
        groups.append(one)
    judged, settings = joined(groups), _settings(dataset, networks, updates, width, seed)
    seen = any(run.run.dataset and run.run.dataset.sha256 == dataset.sha256 for run in runs)
    folder = Path(out) if out else Path(policy) if sources[0][1][1] else None
    key = fingerprint_of(
        log, judged, settings
    )  # a policy that fails does so before files are written
    if folder:
        check_place(folder)
        make_folder(folder)
    with locked(folder, BUSY) if folder else nullcontext():
        place = folder and folder / WORK / key
        record = Evaluation(log, judged, settings, Work(place, quiet)).record(seen)
        if folder:
            from bfq.offline.picture import draw_offline

            write_bytes(folder / "offline.png", draw_offline(record))
            write_offline(folder, record)
            shutil.rmtree(folder / WORK, ignore_errors=True)
    return record


def _open(given: Any, checkpoint: str | None) -> tuple[Any, Trained | None]:
    """What was given, and the run if it is one."""
    if callable(given):
        return given, None
    path = Path(given)
    if path.suffix in (".npz", ".onnx") or (":" in str(given) and not path.exists()):
        return given, None
    return given, load_trained(path, checkpoint)


def _settings(
    dataset: Dataset, networks: int, updates: int, width: int | None, seed: int
) -> EstimatorSizes:
    wide = 64 if dataset.observation_dim + dataset.action_dim <= SMALL else 128
    given = {"networks": networks, "updates": updates, "width": width or wide}
    for name, value in given.items():
        check_value(name, value, Positive)
    return EstimatorSizes(**given, seed=check_value("seed", seed, Natural))
