"""benchmarks/growth.py measures each row once, and finds what another process has compiled."""

import importlib
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # where processes that are started here look, too
    return importlib.import_module("growth")


def test_one_axis_at_a_time_from_the_base(growth):
    found = growth.points(list(growth.AXES), ["bfq"], "bfloat16", quick=False)
    assert len(found) == len(set(found)) == 1 + 8 + 6 + 4 + 3 + 2 * 4
    assert {point.precision for point in found} == {"bfloat16"}
    base = found[0]
    for point in found:
        changed = {name for name in point._fields if getattr(point, name) != getattr(base, name)}
        assert len(changed - {"agent"}) == (point != base)
        assert ("agent" in changed) == ("flow_steps" in changed)
    agent, config = base.method()
    assert (config.width, config.critic_width, config.depth, config.critic_depth) == (
        256,
        256,
        4,
        4,
    )
    assert (config.batch_size, base.sizes.spec) == (256, (17, 6))


def test_rows_are_kept_and_not_measured_again(growth, tmp_path, monkeypatch, capsys):
    def fake(agent, config, rows, sizes):
        if sizes.members == 2:
            raise MemoryError("too large\nfor this device")
        times = {"microseconds_per_update": 5.0, "spread": [4.0, 6.0]}
        return {**growth.describe_update(agent, config, sizes), **times}

    monkeypatch.setattr(growth, "time_update", fake)
    out = tmp_path / "new" / "growth.json"
    words = ["--quick", "--axes", "members,batch", "--out", str(out)]
    assert growth.main([*words, "--budget-seconds", "1e-9"]) == 1
    assert capsys.readouterr().out.count("the time was up") == 3
    assert growth.main(words) == 1
    assert "left out: bfq, 2 members" in capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert [(row["members"], row["batch"]) for row in kept] == [(1, 32), (1, 128)]
    assert out.with_suffix(".png").exists()

    asked = []
    monkeypatch.setattr(
        growth, "time_update", lambda *of: asked.append(of[3].members) or fake(*of[:3], of[3])
    )
    assert growth.main(words) == 1
    assert asked == [2]
    assert json.loads(out.read_text()) == kept


def test_the_program_of_another_process_is_found(growth, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        growth, "QUICK_BASE", growth.QUICK_BASE._replace(batch=31)
    )  # as in no other test
    out = tmp_path / "growth.json"
    words = ["--quick", "--agent", "bc", "--axes", "members", "--out", str(out)]
    assert growth.main([*words, "--prepare", "1"]) == 0
    assert capsys.readouterr().out.count("compiled: ") == 2
    rows = json.loads(out.read_text())
    assert [(row["members"], row["from_cache"]) for row in rows] == [(1, True), (2, True)]


def test_words_that_are_none_are_refused(growth, capsys):
    for words in (
        ["--axes", "depth"],
        ["--out", "rows.csv"],
        ["--budget-seconds", "0"],
        ["--prepare", "-1"],
    ):
        assert growth.main(words) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_file_of_something_else_is_refused_and_stays(growth, tmp_path, capsys):
    out = tmp_path / "growth.json"
    for content in ('[{"a": 1}]', "[1]", "{}"):
        out.write_text(content)
        assert growth.main(["--quick", "--out", str(out)]) == 2
        assert "does not hold rows" in capsys.readouterr().err
        assert out.read_text() == content
