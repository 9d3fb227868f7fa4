"""From a plant's log to a policy: names and units, bad rows, time, categories, and rewards from columns."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import bfq
from bfq.cli.main import main
from bfq.data.readers.tables import read_table
from bfq.deploy.numpy_policy import load
from bfq.records import Labels, Quantity

HEAD = "run,temp [degC],fan (%),flow_kW,x[0],valve\n"
USED = {"observations": "temp [degC]+fan+flow_kW+x[0]", "actions": "valve", "episode_ids": "run"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def plant(path, rows=60, head=HEAD):
    rng = np.random.default_rng(0)
    lines = [
        f"{k // 20},{20 + rng.normal():.3f},{rng.normal():.3f},{rng.normal():.3f},{rng.normal():.3f},"
        f"{rng.uniform(-1, 1):.3f}"
        for k in range(rows)
    ]
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def test_names_and_units_come_from_the_header_and_from_the_user(tmp_path):
    path = plant(tmp_path / "log.csv")
    columns = {**USED, "rewards": "temp"}
    columns["observations"] = "fan+flow_kW+x[0]"
    data = read_table(path, columns, units={"x[0]": "m", "flow_kW": "none"})
    names = [Quantity("fan", "%"), Quantity("flow_kW"), Quantity("x[0]", "m")]
    assert data.labels == Labels(names, [Quantity("valve")])
    assert read_table(path, columns).labels.observations[1] == Quantity("flow_kW", "kW")
    with pytest.raises(bfq.BadInput, match="unknown column in units 'tmp': did you mean 'temp'"):
        read_table(path, columns, units={"tmp": "K"})
    arrays = {"s": np.ones((9, 2)), "power": np.ones(9), "r": np.ones(9), "done": np.arange(9) == 8}
    given = {"observations": "s", "actions": "power", "rewards": "r"}
    assert bfq.load_dataset(arrays, given).labels is None
    arrays |= {"heat": arrays["r"], "cold": arrays["r"]}
    named = bfq.load_dataset(arrays, {**given, "observations": "cold+heat"})
    assert named.labels.observations == [Quantity("cold"), Quantity("heat")]
    with pytest.raises(bfq.BadInput, match="unknown option 'unit': did you mean 'units'"):
        bfq.load_dataset(arrays, given, unit={})
    same = data + replace(data, labels=None)
    assert same.labels == data.labels == data[1:].labels
    with pytest.raises(bfq.BadInput, match="their columns differ"):
        _ = data + replace(data, labels=replace(data.labels, actions=[Quantity("power")]))


def test_names_and_units_are_stored_shown_and_exported(tmp_path, capsys):
    plant(tmp_path / "log.csv", head=HEAD.replace("x[0]", "a*/b"))
    columns = "observations=temp+fan+a*/b,actions=valve,rewards=flow_kW,episode_ids=run"
    command = ["data", "import", "log.csv", "--as", "plant", "--columns", columns]
    assert main([*command, "--units", "valve=rad"]) == 0
    assert "3: temp [degC], fan [%], a*/b" in capsys.readouterr().out
    stored = bfq.load_dataset("plant")
    assert stored.labels.actions == [Quantity("valve", "rad")]
    assert main(["data", "inspect", "plant"]) == 0
    page = (tmp_path / "runs" / "data-plant" / "data.html").read_text()
    assert '<th scope="row">temp [degC]</th>' in page
    assert "<b>valve [rad]</b>" in page
    run = bfq.train("plant", "bc", steps=2, seeds=1, values={"width": 8}, quiet=True).folder
    assert "temp [degC], fan [%]" in (run / "report.html").read_text()
    wanted = [{"name": "temp", "unit": "degC"}, {"name": "fan", "unit": "%"}]
    for name in ("policy.npz", "policy.c", "policy.onnx"):
        assert bfq.export(run, run / name).metadata["inputs"][:2] == wanted
    assert load(run / "policy.npz").metadata["outputs"] == [{"name": "valve", "unit": "rad"}]
    source = (run / "policy.c").read_text()
    assert re.search(r"BFQ_IN_FAN = 1, /\* fan, % \*/\n    BFQ_IN_A_B = 2 /\* a\* /b \*/", source)
    assert "BFQ_OUT_VALVE = 0 /* valve, rad */" in source
    if compiler := shutil.which("cc"):
        flags = ["-std=c99", "-Wall", "-Werror", "-c", "policy.c", "-o", "policy.o"]
        subprocess.run([compiler, *flags], cwd=run, check=True)
    onnx = pytest.importorskip("onnx")
    props = {one.key: one.value for one in onnx.load(run / "policy.onnx").metadata_props}
    assert json.loads(props["inputs"])[:2] == wanted
