"""Cells of the checkerboard: how far each method's samples are from the truth."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from bfq.files import locked, make_folder, read_json, write_bytes, write_json
from bfq.run import fingerprint, folder_for
from bfq_paper.checkerboard import run_checkerboard
from bfq_paper.plan.experiments import QUICK, Experiment
from bfq_paper.results.cells import Cell, Reading
from bfq_paper.results.schema import NUMBER, require
from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Settings
from bfq_paper.work.bench import AT_WORK, Bench, Work
from bfq_paper.work.clock import finished

MEASURES = {
    "energy distance": "energy_distance",
    "sliced Wasserstein-2 distance": "sliced_wasserstein2",
    "share on filled squares": "share_on_filled",
    "squares covered, of 8": "squares_covered",
}
RECORD: dict[str, Any] = {  # what a record must hold, beside what was measured of each column
    "settings": {"epochs": int, "batches": int},
    "versions": dict,
    "train_seconds": dict,
}
QUICK_EPOCHS = 2


@dataclass(frozen=True)
class Board:
    """Both methods of the paper, all seeds at once."""

    experiment: Experiment

    @property
    def row(self) -> str:
        """All rows at once."""
        return "checkerboard"

    @property
    def name(self) -> str:
        """What is trained."""
        return "flow matching and BFQ"

    @property
    def size(self) -> str:
        """For how long."""
        return f"{len(self._seeds)} seeds, {self._epochs} epochs on the checkerboard"

    @property
    def waiting(self) -> list[Cell]:
        """Its cells before it is done."""
        why = "not run yet."
        return [
            Cell(row, f"{m}-{k}", "waiting", why, row) for row in MEASURES for m, k in _columns()
        ]

    @property
    def _seeds(self) -> list[int]:
        seeds = self.experiment.seeds
        return list(range(seeds)) if isinstance(seeds, int) else list(seeds)

    @property
    def _epochs(self) -> int:
        return QUICK_EPOCHS if self.experiment.quick else Settings().epochs

    def folder(self, bench: Bench) -> Path | None:
        """Named after its settings."""
        return folder_for(bench.runs, "checkerboard", self._settings)

    def would_make(self, cell: Cell, bench: Bench) -> bool:
        """Whether a cell has the same settings; the data is drawn from the seeds."""
        return cell.provenance.get("fingerprint") == fingerprint(self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {**Settings(epochs=self._epochs)._asdict(), "seeds": self._seeds}

    def fill(self, bench: Bench) -> list[Cell]:
        """Trains, unless that was done before."""
        folder = self.folder(bench)
        assert folder is not None
        make_folder(folder)
        with locked(folder, AT_WORK):
            if not (folder / "result.json").exists():
                self._train(folder, bench)
            return self._cells(folder)

    def _train(self, folder: Path, bench: Bench) -> None:
        words = QUICK if self.experiment.quick else ""
        settings = Settings(epochs=self._epochs)
        record, picture = run_checkerboard(self._seeds, settings, PAPER_METHODS, words, bench.quiet)
        write_bytes(folder / "toy.png", picture)
        write_json(folder / "result.json", {**record, "device": jax.devices()[0].device_kind})

    def _cells(self, folder: Path) -> list[Cell]:
        record = _read(folder / "result.json")
        kept = {name: record[name] for name in ("settings", "versions", "train_seconds")}
        steps = record["settings"]["epochs"] * record["settings"]["batches"]
        provenance = {
            **kept,
            "device": record.get("device"),  # runs of old do not say
            "precision": "float32",
            "data": {"name": "checkerboard", "source": "drawn anew from each seed", "sha256": None},
            "run": str(folder),
            "steps": steps,
            "finished": finished(folder),
            "fingerprint": fingerprint(self._settings),
        }
        return [
            Cell(row, f"{m}-{k}", "done", "", row, (_reading(row, record[m][str(k)]),), provenance)
            for row in MEASURES
            for m, k in _columns()
        ]


def boards(experiment: Experiment) -> list[Work]:
    """The one thing there is to do."""
    return [Board(experiment)]


def _columns() -> list[tuple[str, int]]:
    return [(method, steps) for method in PAPER_METHODS for steps in METHODS[method].steps]


def _read(path: Path) -> dict[str, Any]:
    """A record with every number that the cells take from it, or a sentence on what it lacks."""
    record: dict[str, Any] = read_json(path)
    require(record, RECORD, str(path))
    for method, steps in _columns():
        require(record, {method: {str(steps): {"seeds": list}}}, str(path))
        for seed in record[method][str(steps)]["seeds"]:
            require(
                seed, dict.fromkeys(MEASURES.values(), NUMBER), str(path), f"{method}: {steps}: "
            )
    return record


def _reading(row: str, measured: dict[str, Any]) -> Reading:
    return Reading(row, tuple(float(seed[MEASURES[row]]) for seed in measured["seeds"]))
