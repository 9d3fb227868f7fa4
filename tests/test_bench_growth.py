"""benchmarks/growth.py measures each row once, and uses what another process has compiled."""

import importlib
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # for the processes that it starts, too
    return importlib.import_module("growth")


def test_one_axis_varies_at_a_time(growth):
    base, *others = growth.points(list(growth.AXES), ["bfq"], "bfloat16", quick=False)
    assert len({base, *others}) == 1 + len(others) == 1 + 8 + 6 + 4 + 3 + 2 * 4
    assert {point.precision for point in others} == {"bfloat16"}
    for point in others:
        changed = {name for name in point._fields if getattr(point, name) != getattr(base, name)}
        assert len(changed - {"agent"}) == 1
        assert ("agent" in changed) == ("flow_steps" in changed)
    _, config = base.method()
    assert (config.width, config.critic_width, config.batch_size) == (256, 256, 256)
    assert (config.depth, config.critic_depth, base.sizes.spec) == (4, 4, (17, 6))


def test_rows_are_kept_and_not_measured_again(growth, tmp_path, monkeypatch, capsys):
    measured = []

    def fake(agent, config, rows, sizes):
        measured.append(sizes.members)
        if sizes.members == 2:
            raise MemoryError("too large\nfor this device")
        times = {"microseconds_per_update": 5.0, "spread": [4.0, 6.0]}
        return {**growth.describe_update(agent, config, sizes), **times}

    monkeypatch.setattr(growth, "time_update", fake)
    out = tmp_path / "new" / "growth.json"
    words = ["--quick", "--axes", "members,batch", "--out", str(out)]
    assert growth.main([*words, "--budget-seconds", "1e-9"]) == 1
    assert not measured
    assert growth.main(words) == 1
    assert "bfq, 2 members" in capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert [(row["members"], row["batch"]) for row in kept] == [(1, 32), (1, 128)]
    assert out.with_suffix(".png").exists()
    measured.clear()
    assert growth.main(words) == 1
    assert measured == [2]
    assert json.loads(out.read_text()) == kept


def test_the_program_of_another_process_is_used(growth, tmp_path, monkeypatch, capsys):
    unique = growth.QUICK_BASE._replace(batch=31)  # as in no other test
    monkeypatch.setattr(growth, "QUICK_BASE", unique)
    out = tmp_path / "growth.json"
    words = ["--quick", "--agent", "bc", "--axes", "members", "--out", str(out)]
    assert growth.main([*words, "--prepare", "1"]) == 0
    assert capsys.readouterr().out.count("compiled: ") == 2
    rows = json.loads(out.read_text())
    assert [(row["members"], row["from_cache"]) for row in rows] == [(1, True), (2, True)]


def test_bad_options_are_one_sentence(growth, capsys):
    for words in ("--axes depth", "--out rows.csv", "--budget-seconds 0", "--prepare -1"):
        assert growth.main(words.split()) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", ['[{"a": 1}]', "[1]", "{}"])
def test_a_file_with_other_content_is_refused_and_kept(growth, tmp_path, capsys, content):
    out = tmp_path / "growth.json"
    out.write_text(content)
    assert growth.main(["--quick", "--out", str(out)]) == 2
    assert str(out) in capsys.readouterr().err
    assert out.read_text() == content
