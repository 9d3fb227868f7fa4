"""The notebook of the documentation runs from the first cell to the last."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs the docs extra")
nbformat = pytest.importorskip("nbformat", reason="needs the docs extra")

NOTEBOOK = Path(__file__).parent.parent / "docs" / "first-policy.ipynb"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("XLA_FLAGS", "")  # it trains for longer than it compiles
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert list(tmp_path.glob("runs/*/oven.c")), "the last cell exports the policy"
