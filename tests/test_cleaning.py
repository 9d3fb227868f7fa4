"""From a plant's log to a policy: names and units, bad rows, time, categories, and rewards from columns."""

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow.parquet
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


LOG = """time,run,temp [degC],mode,power,cost
2026-01-01T00:00:00,a,20.0,heat,0.1,1
2026-01-01T00:01:00,a,20.1,heat,0.2,1
2026-01-01T00:02:00,a,,heat,0.3,1
2026-01-01T00:03:00,a,20.3,off,0.4,1
2026-01-01T00:04:00,a,20.4,off,0.5,1
2026-01-01T00:04:00,a,20.4,off,0.5,1
2026-01-01T00:05:00,a,20.5,off,0.6,1
2026-01-01T00:15:00,a,20.6,cool,0.7,1
2026-01-01T00:16:00,a,20.7,cool,0.8,1
2026-01-01T00:17:00,a,nan,cool,n/a,2
2026-01-01T00:18:00,a,20.9,cool,0.9,1
2026-01-01T00:19:00,a,21.0,cool,0.9,1
noon,a,21.0,cool,0.9,1
2026-01-01T00:18:30,a,21.0,cool,0.9,1
2026-01-01T00:20:00,a,21.0,cool,0.9
2026-01-02T00:00:00,b,20.0,heat,0.1,1
2026-01-02T00:01:00,b,20.0,heat,0.1,3
2026-01-02T00:02:00,b,20.0,off,0.1,3
"""
ROLES = {"observations": "temp+mode", "actions": "power", "rewards": "cost", "episode_ids": "run"}
TIMED = {**ROLES, "time": "time"}
CLEAN = {"drop_bad_rows": True, "categorical": {"mode": []}}
FLAGS = [word for name in ROLES for word in ("--columns", f"{name}={ROLES[name]}")]
DEFECTS = [
    (4, "temp", "empty-cell"), (7, "time", "repeated-row"), (9, "time", "gap-in-time"),
    (11, "power", "text"), (11, "temp", "nan"), (14, "time", "not-a-time"),
    (15, "time", "time-not-rising"), (16, "", "ragged-row"),
]  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_bad_rows_are_dropped_and_episodes_cut_there(log):
    data = bfq.load_dataset(log, TIMED, **CLEAN)
    temps = np.stack([data.observations[:, 0], data.next_observations[:, 0]], 1)
    follow = [[20, 20.1], [20.3, 20.4], [20.4, 20.5], [20.6, 20.7], [20.9, 21], [20, 20], [20, 20]]
    np.testing.assert_allclose(temps, follow, rtol=1e-6)
    assert data.episode_ends.tolist() == [True, False, True, True, True, False, True]
    assert data.masks.all()  # a hole is no end of the environment
    notes = " ".join(data.notes)
    assert "Dropped 6 of 18 rows with 7 defects" in notes
    assert "temp has no value in line 4; time repeats the row before in line 7" in notes
    assert (
        "1 gap of more than 1.5 steps of 60 s, up to 600 s, and the first follows line 8" in notes
    )
    # Without times, a row that was logged twice and one that comes too late cannot be recognized.
    untimed = bfq.load_dataset(log, ROLES, **CLEAN)
    assert len(untimed) == len(data) + 4


def test_a_hole_cuts_whatever_marks_the_ends(tmp_path):
    rows, bad = np.arange(12), [2, 5, 6, 11]  # within, across an end, and the very last row
    seen = np.where(np.isin(rows, bad), np.nan, rows)[:, None] * np.ones(2)
    given = {"observations": seen, "actions": rows / 12, "rewards": rows * 1.0}
    last = rows % 6 == 5
    ids = np.repeat(["a", "b"], 6).astype(object)
    ids[2] = None
    for mark in ({"episode_ids": ids}, {"timeouts": last}, {"dones": last}, {"episode_lengths": [6, 6]},
                 {"episode_starts": rows % 6 == 0}):  # fmt: skip
        data = bfq.load_dataset({**given, **mark}, drop_bad_rows=True)
        assert data.observations[:, 0].tolist() == [0, 3, 7, 8, 9], mark
        assert data.next_observations[:, 0].tolist() == [1, 4, 8, 9, 10]
        assert data.episode_ends.tolist() == [True, True, False, False, True]
    ended = bfq.load_dataset({**given, "terminals": rows == 4}, drop_bad_rows=True)
    assert ended.observations[ended.terminals, 0].tolist() == [4]
    with pytest.raises(bfq.BadInput, match="no episode end is given"):
        bfq.load_dataset(given, drop_bad_rows=True)
    following = {"next_observations": seen + 1.0}  # known beside each row: only bad rows are lost
    assert len(bfq.load_dataset({**given, **following}, drop_bad_rows=True)) == 8


def test_other_tables_are_cleaned_alike(log, tmp_path):
    rows = [dict(row) for row in csv.DictReader(LOG.splitlines()[:13])]
    for row in rows:
        for name in ("temp [degC]", "power", "cost"):
            row[name] = None if row[name] in ("", "nan", "n/a") else float(row[name])
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = {name: pyarrow.array([row[name] for row in rows]) for name in rows[0]}
    columns["mode"] = columns["mode"].dictionary_encode()
    moments = [datetime.fromisoformat(row["time"]) for row in rows]
    table = pyarrow.table({**columns, "time": pyarrow.array(moments)})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    log.write_text("\n".join(LOG.splitlines()[:13]))
    wanted = bfq.load_dataset(log, TIMED, **CLEAN)
    for data in (tmp_path / "log.jsonl", tmp_path / "log.parquet", table):
        assert bfq.load_dataset(data, TIMED, **CLEAN).sha256 == wanted.sha256
        with pytest.raises(bfq.BadInput, match=r"^row 2 of .* (has no value|holds NaN) for temp"):
            bfq.load_dataset(data, TIMED, categorical={"mode": []})


def test_every_defect_is_reported_by_line_and_column(log, capsys):
    command = ["data", "import", str(log), "--as", "plant", *FLAGS, "--columns", "time=time"]
    command += ["--categorical", "mode", "--report", "out/defects.csv"]
    for clean in (False, True):
        assert main([*command, *(["--drop-bad-rows"] if clean else [])]) == (0 if clean else 2)
        with open("out/defects.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        found = [(int(row["line"]), row["column"], row["defect"]) for row in rows]
        assert found == [one for one in DEFECTS if clean or one[2] != "gap-in-time"]
        assert {row["file"] for row in rows} == {"log.csv"}
    err = capsys.readouterr().err
    assert "line 4 of log.csv (row 2, 6 rows in all, counted from 0) has no value for temp" in err
    listed = []
    bfq.load_dataset(log, TIMED, report=listed, **CLEAN)
    assert [(one.line, one.column, one.kind) for one in listed] == DEFECTS
    many = "\n".join(f"{k},{k % 3 or 'x'},0.5,1" for k in range(90))
    log.write_text(f"t,obs,act,rew\n{many}\n")
    long = bfq.load_dataset(log, {"time": "t"}, drop_bad_rows=True)
    assert "obs is not a number in lines 2, 5, 8" in long.notes[1]
    assert "lines 2, 5" in long.notes[1]
    assert "; and 10 more: " in long.notes[1]


def test_nothing_is_written_when_a_log_is_refused(log, tmp_path, capsys):
    command = ["data", "import", str(log), "--as", "plant", *FLAGS]
    for more, words in [
        ([], "line 4 of log.csv .* has no value for temp"),
        (["--drop-bad-rows"], "the column mode of log.csv holds a number in no row, but words such as 'heat'"),
        (["--drop-bad-rows", "--categorical", "cost"], "cost is not among the observations"),
        (["--drop-bad-rows", "--categorical", "mode=heat+off"],
         "line 9 of log.csv .* holds 'cool' for mode, which has heat, off only"),
        (["--resample", "30"], "resampling needs the times"),
        (["--resample", "0"], "--resample must be a finite number"),
        (["--report", "log.csv/x.csv"], "is not a writable folder"),
    ]:  # fmt: skip
        assert main([*command, *more]) == 2
        err = capsys.readouterr().err
        assert re.search(words, err), err
        assert err.count("\n") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != log]


def test_rows_are_put_on_a_regular_grid(log):
    data = bfq.load_dataset(log, TIMED, resample=30, **CLEAN)
    assert len(data) == 14
    np.testing.assert_allclose(data.observations[:2, 0], [20.0, 20.05], rtol=1e-6)
    np.testing.assert_allclose(data.observations[8:10, 0], [20.9, 20.95], rtol=1e-6)
    np.testing.assert_allclose(data.actions[:2, 0], [0.1, 0.1], rtol=1e-6)  # held
    np.testing.assert_allclose(data.rewards[-4:], [1, 2, 3, 3])  # interpolated
    assert data.observations[-2:, 1:].tolist() == [[0, 1, 0], [0, 1, 0]]  # heat until it is off
    with pytest.raises(bfq.BadInput, match="choose a larger step"):
        bfq.load_dataset(log, TIMED, resample=1e-3, **CLEAN)
    rng = np.random.default_rng(0)
    uneven = np.cumsum(rng.uniform(0.7, 1.3, 50))
    columns = {"obs": 3 * uneven, "act": uneven % 1, "rew": uneven % 1, "t": uneven,
               "done": np.arange(50) == 49}  # fmt: skip
    roles = {
        "observations": "obs+rew",
        "time": "t",
        "terminals": "done",
        "rewards": "act",
        "actions": "t",
    }
    arrays = {**columns, "out": columns["act"], "gain": columns["rew"]}
    roles |= {"actions": "out", "rewards": "gain"}
    plain = bfq.load_dataset(arrays, roles)
    assert any("of the steps of t differ by more than 10%" in note for note in plain.notes)
    even = bfq.load_dataset(arrays, roles, resample=0.5)
    steps = np.diff(even.observations[:, 0])
    np.testing.assert_allclose(steps, 1.5, rtol=1e-3)
    assert even.terminals.tolist() == [False] * (len(even) - 1) + [True]


def test_a_clock_alone_marks_the_ends(tmp_path):
    given = {"obs": np.arange(9.0), "act": np.arange(9) / 9, "rew": np.ones(9)}
    given["t"] = np.array([0, 1, 2, 3, 0, 1, 2, 9, 10.0])
    data = bfq.load_dataset({**given, "a": given["obs"]}, {"observations": "obs+a", "time": "t"})
    assert data.observations[data.episode_ends, 0].tolist() == [2, 5, 7]
    assert any("t goes back in 1 row, which begin new episodes" in note for note in data.notes)


def test_categories_are_encoded_alike_in_a_later_file(log, tmp_path):
    data = bfq.load_dataset(log, TIMED, **CLEAN)
    assert data.labels.categories == {"mode": ["cool", "heat", "off"]}
    assert [str(one) for one in data.labels.observations] == [
        "temp [degC]", "mode=cool", "mode=heat", "mode=off",
    ]  # fmt: skip
    later = tmp_path / "later.csv"
    later.write_text("\n".join([LOG.splitlines()[0], *LOG.splitlines()[-3:]]) + "\n")
    encoded = bfq.load_dataset(later, TIMED, categorical=data.labels.categories)
    assert encoded.labels == data.labels
    assert encoded.observations[:, 1:].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert bfq.load_dataset(later, TIMED, categorical={"mode": []}).labels != data.labels
    numbers = later.read_text().replace("heat", "10").replace("off", "2.0")
    later.write_text(numbers)
    coded = bfq.load_dataset(later, TIMED, categorical={"mode": []})
    assert coded.labels.categories == {"mode": ["2", "10"]}
