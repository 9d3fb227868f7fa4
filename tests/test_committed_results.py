"""The results in the repository are found again by the code beside them, so that nothing is trained twice."""

from pathlib import Path

import pytest

from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.plan.options import Options, chosen
from bfq_paper.plan.sources import Source
from bfq_paper.results.stored import read_outcome
from bfq_paper.work.scores import trainings

RESULTS = Path(__file__).parents[1] / "results"
SCORED = [
    name
    for name, experiment in EXPERIMENTS.items()
    if experiment.kind == "scores" and (RESULTS / name / "result.json").exists()
]


def fingerprints(name, cell):
    """What a cell's settings would be called if it were asked for now, with its own seeds and updates."""
    told = cell.provenance
    seeds = [member["seed"] for member in told["members"]]
    wished = {
        "tasks": [cell.row],
        "seeds": seeds,
        "steps": told["steps"],
        "precision": told["precision"],
    }
    takes = {k: v for k, v in wished.items() if k in EXPERIMENTS[name].takes}
    (experiment,) = chosen(name, Options(**takes))
    source = Source(**told["source"])
    return {
        part._fingerprint(column, source.data)
        for part in trainings(experiment, [source])
        for column in part.columns
        if column.label == cell.column
    }


@pytest.mark.parametrize("name", SCORED)
def test_every_cell_is_known_by_its_settings(name):
    cells = [cell for cell in read_outcome(RESULTS / name).cells if cell.readings]
    assert cells
    for cell in cells:
        assert cell.provenance["fingerprint"] in fingerprints(name, cell), (cell.row, cell.column)
