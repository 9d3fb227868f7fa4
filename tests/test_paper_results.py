"""Results of experiments: cells and their file, comparisons over rows, tables, pages and merging."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

from bfq import BadInput
from bfq.reports.statistics import pooled_interquartile_mean, probability_of_improvement, wilson
from bfq_paper.cells import (
    SUCCESS,
    Cell,
    Reading,
    Results,
    add_results,
    read_results,
    results_in,
    write_results,
)
from bfq_paper.comparisons import (
    compare_methods,
    compare_with_best,
    data_label,
    shared_scores,
    successes,
)
from bfq_paper.document import escape, html, markdown
from bfq_paper.experiments import EXPERIMENTS, Options, select_experiments
from bfq_paper.figures import figures, frames_file
from bfq_paper.merge import front_page, merge, merge_command, page
from bfq_paper.parts import Training, populations
from bfq_paper.published import PAPER
from bfq_paper.sources import Source
from bfq_paper.tables import tables

ROOT = Path(__file__).parents[1]
CHEETAH, HOPPER, MAZE = "halfcheetah-medium-v2", "hopper-medium-v2", "antmaze-medium-play-v2"
SCORES = {
    (CHEETAH, "dql"): (52.0, 53.0, 54.0),
    (CHEETAH, "bfq"): (60.0, 66.0, 72.0),
    (HOPPER, "dql"): (70.0, 60.0, 50.0),
    (HOPPER, "bfq"): (80.0, 65.0, 50.0),
    (MAZE, "bfq"): (90.0, 80.0, 100.0),
}
PNG = b"\x89PNG\r\n\x1a\n and so on"


def cell(row, column, values, **run):
    protocol = {"episodes": 10, "candidates": 50}
    shares = {"success": [None if v is None else v / 100 for v in values]} if row == MAZE else {}
    single = tuple(value and value - 1 for value in values)
    readings = (
        Reading("N = 50", values, {"protocol": protocol, "scores": shares}),
        Reading("N = 1", single, {"protocol": {**protocol, "candidates": 1}}),
    )
    kept = {"steps": 1000, "versions": {"jax": "0"}, "device": "a GPU", "run": "runs/x-123",
            "precision": "bfloat16", "data": {"name": row, "sha256": "a" * 64}} | run  # fmt: skip
    unit = SUCCESS if row == MAZE else "normalized score"
    state = "failed" if None in values else "done"
    return Cell(row, column, unit, readings, state, "diverged" if state == "failed" else "", kept)


def results(scores=SCORES, name="main", **changes):
    cells = [cell(*place, values) for place, values in scores.items()]
    return Results(replace(EXPERIMENTS[name], **changes)).with_cells(cells)


def text_of(found):
    return markdown(found.experiment.heading, tables(found))


def test_methods_are_compared_on_rows_that_all_have():
    found = compare_methods(results())
    assert (found.foremost, found.rows) == ("bfq", (CHEETAH, HOPPER))
    ours, theirs = ({r: SCORES[r, c] for r in (CHEETAH, HOPPER)} for c in ("bfq", "dql"))
    first, second = found.methods
    assert (first.column, second.column) == ("bfq", "dql")
    assert first.mean.value == pytest.approx((66 + 65) / 2)
    assert first.improvement is None
    assert second.interquartile_mean == pooled_interquartile_mean(theirs)
    assert second.improvement == probability_of_improvement(ours, theirs)
    assert second.improvement.value == pytest.approx((1 + 5.5 / 9) / 2)


def test_a_method_that_lacks_a_row_is_left_out():
    found = compare_methods(results({**SCORES, (CHEETAH, "iql"): (40.0, 41.0, 42.0)}))
    assert (found.rows, found.left_out) == ((CHEETAH, HOPPER), ("iql",))
    lost = {**SCORES, (HOPPER, "dql"): (70.0, None, 50.0)}
    assert compare_methods(results(lost)).rows == (CHEETAH,)


@pytest.mark.parametrize("second", ["bfq", "dql", None])
def test_without_common_rows_there_is_no_comparison(second):
    kept = [(CHEETAH, "bfq"), (HOPPER, second)] if second else []
    found = results({place: SCORES[place] for place in kept})
    assert compare_methods(found) is None
    assert shared_scores(found) == {}
    assert "profiles.png" not in [each.file for each in figures(found, Path("nowhere"))]


def test_each_row_has_its_best_other_method():
    third = {(HOPPER, "iql"): (61.0, 63.0, 62.0), (MAZE, "iql"): (95.0, None, 99.0)}
    found = compare_with_best(results({**SCORES, **third}))
    first, second = map(tuple, found.rows)
    assert (first, second) == ((CHEETAH, "dql", 66.0, 53.0), (HOPPER, "iql", 65.0, 62.0))
    value, (low, high) = found.difference
    assert value == pytest.approx((13 + 3) / 2)
    variances = np.array([36.0, 1.0, 225.0, 1.0]) / 3  # of ours and theirs, three seeds each
    freedom = variances.sum() ** 2 / np.sum(variances**2 / 2)
    half = stdtrit(freedom, 0.975) * np.sqrt(variances.sum()) / 2
    assert (low, high) == (pytest.approx(8 - half), pytest.approx(8 + half))
    assert "| hopper-medium-v2 | 65.0 | 62.0 iql | +3.0 |" in text_of(results({**SCORES, **third}))


def test_a_table_of_one_method_or_a_sweep_has_no_rivals():
    assert compare_with_best(results({(CHEETAH, "bfq"): (1.0, 2.0)})) is None
    assert compare_with_best(results({(CHEETAH, c): (1.0, 2.0) for c in ("dql", "iql")})) is None
    grid = results({(CHEETAH, "1"): (1.0, 2.0), (CHEETAH, "0.5"): (3.0, 4.0)}, "lambda")
    assert compare_with_best(grid) is None
    assert compare_methods(grid).foremost == ""
    assert "| λ = 0.5 | 3.5" in text_of(grid)


def test_successes_are_counted_with_wilsons_interval():
    found = results()
    assert successes(found.at(MAZE, "bfq")) == (27, 30)
    low, high = wilson(27, 30)
    assert f"27 of 30 [{100 * low:.1f}, {100 * high:.1f}]" in html("", tables(found))
    assert successes(found.at(CHEETAH, "bfq")) is None
    assert successes(cell(MAZE, "bfq", (90.0, None, 100.0))) == (19, 20)
    unknown = replace(found.at(MAZE, "bfq"), readings=(Reading("N = 50", (90.0,)),))
    assert successes(unknown) is None


def test_ours_is_compared_with_the_papers():
    found = results()
    bfq, dql = (found.at(CHEETAH, column) for column in ("bfq", "dql"))
    assert found.paper(bfq).value == 66.1
    assert found.difference(bfq) == pytest.approx(66.0 - 66.1)
    assert (found.verdict(bfq), found.verdict(dql)) == ("same", "same")
    assert found.verdict(found.at(HOPPER, "dql")) == "loss"
    assert found.verdict(found.at(MAZE, "bfq")) == "gain"
    quick = replace(found, experiment=replace(found.experiment, quick=True))
    assert quick.difference(bfq) is None
    frequency = Cell("frequency", "bfq-1", "Hz", (Reading("Hz", (9e9,)),))
    times = Results(EXPERIMENTS["efficiency"], (frequency,))
    assert times.paper(times.cells[0]).value == 851.2
    assert times.verdict(times.cells[0]) == ""


def test_averages_are_of_complete_groups():
    table = PAPER["full"]
    rows = table.groups["Average (MuJoCo)"]
    found = results({(row, "bfq"): (50.0, 70.0) for row in rows})
    (average,) = found.averages()
    assert (average.ours, average.paper) == (60.0, table.recomputed("Average (MuJoCo)", "bfq"))
    assert results({(row, "bfq"): (50.0,) for row in rows[1:]}).averages() == []


def test_cells_are_in_the_order_of_the_paper():
    found = results().with_cells([cell(HOPPER, "bc", (1.0,)), cell("my-task", "new", (1.0,))])
    assert found.columns == ["bc", "dql", "bfq", "new"]
    assert found.rows == [HOPPER, CHEETAH, MAZE, "my-task"] or found.rows[-1] == "my-task"
    changed = found.with_cells([cell(HOPPER, "bc", (2.0,)), Cell(CHEETAH, "bfq")])
    assert changed.at(HOPPER, "bc").ours.mean == 2.0
    assert changed.at(CHEETAH, "bfq").ours.mean == 66.0  # a cell without numbers replaces nothing


def test_different_data_in_a_row_is_shown():
    def on(column, kind, name, digest):
        data, source = {"name": name, "sha256": digest}, {"kind": kind, "words": ""}
        return cell(HOPPER, column, (1.0, 2.0), data=data, source=source)

    def labels(*cells):
        found = Results(EXPERIMENTS["main"]).with_cells(cells)
        return [data_label(found, each) for each in found.cells]

    first = on("dql", "local", "a", "1" * 64)
    assert labels(first, on("bfq", "local", "a", "1" * 64)) == ["", ""]
    assert labels(first, on("bfq", "rerolled", "b", "2" * 64)) == ["local data", "rerolled data"]
    assert labels(first, on("bfq", "local", "b", "2" * 64)) == ["a", "b"]
    shown = labels(first, on("bfq", "local", "a", "2" * 64))
    assert shown == ["a, SHA-256 11111111…", "a, SHA-256 22222222…"]


def test_results_survive_their_file(tmp_path):
    found = results().with_command(call())
    write_results(found, tmp_path)
    read = read_results(tmp_path)
    assert (read.rows, read.columns, read.commands) == (found.rows, found.columns, found.commands)
    assert [c.readings for c in read.cells] == [c.readings for c in found.cells]
    assert [c.run for c in read.cells] == [c.run for c in found.cells]
    assert text_of(read) == text_of(found)


def call(command="bfq reproduce main", seconds=1.0):
    return {"command": command, "device": "cpu", "versions": {}, "seconds": seconds}


def test_a_repeated_command_is_recorded_once():
    found = results().with_command(call()).with_command(call("b")).with_command(call(seconds=2.0))
    assert found.commands == (call("b"), call(seconds=2.0))


@pytest.mark.parametrize("change", [
    lambda content: content["cells"][0].pop("row"),
    lambda content: content["cells"][0].update(readings=[{"name": "N", "values": ["x"]}]),
    lambda content: content["cells"][0].update(readings=[{"name": "N", "values": [1e300]}]),
    lambda content: content["cells"][0].update(members=[{"seed": "0"}]),
    lambda content: content["cells"][0].update(state="great"),
    lambda content: content.update(experiment="nothing"),
    lambda content: content.update(cells=None),
])  # fmt: skip
def test_a_damaged_file_is_refused_and_left_alone(change, tmp_path, capsys):
    write_results(results(), tmp_path / "main")
    path = tmp_path / "main" / "result.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    before = path.read_bytes()
    with pytest.raises(BadInput, match="result.json"):
        results_in(tmp_path, EXPERIMENTS["main"])
    assert main_with(tmp_path / "main") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert path.read_bytes() == before
    assert str(tmp_path) in front_page(tmp_path)  # the page of all experiments says so


def main_with(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["merge", *map(str, words)])
        return merge_command()


def test_cells_of_two_commands_add_up(tmp_path):
    experiment = EXPERIMENTS["main"]
    for column in ("dql", "bfq"):
        new = Results(experiment, commands=(call(column),))
        add_results(tmp_path, new, [c for c in results().cells if c.column == column])
    found = results_in(tmp_path, experiment)
    assert len(found.cells) == len(SCORES)
    assert [each["command"] for each in found.commands] == ["dql", "bfq"]


def test_a_merge_takes_new_and_later_cells_with_their_frames(tmp_path, capsys):
    ours, theirs = tmp_path / "main", tmp_path / "elsewhere" / "main"
    old = cell(HOPPER, "bfq", (1.0, 2.0), finished="2026-01-02")
    write_results(Results(EXPERIMENTS["main"]).with_cells([old]), ours)
    pairs = ((HOPPER, (9.0, 9.0)), (CHEETAH, (3.0, 4.0)))
    new = [cell(row, "bfq", values, finished="2026-01-01") for row, values in pairs]
    write_results(Results(EXPERIMENTS["main"]).with_cells(new).with_command(call()), theirs)
    for each in new:
        (theirs / frames_file(each)).write_bytes(PNG)
    assert merge(ours, [theirs]) == [f"{CHEETAH}, bfq: from {theirs}"]
    found = read_results(ours)
    assert found.at(HOPPER, "bfq").ours.mean == 1.5
    assert (ours / frames_file(new[1])).read_bytes() == PNG
    assert found.commands == (call(),)
    assert frames_file(new[1]) in (ours / "index.html").read_text()
    assert (tmp_path / "index.html").exists()
    assert main_with(ours / "result.json", theirs) == 0
    assert "index.html" in capsys.readouterr().out  # nothing new


def test_other_experiments_are_not_merged(tmp_path):
    write_results(results(), tmp_path / "main")
    write_results(results(name="ogbench"), tmp_path / "ogbench")
    with pytest.raises(BadInput, match="has the results of ogbench"):
        merge(tmp_path / "main", [tmp_path / "ogbench"])
    (tmp_path / "main").rename(tmp_path / "other")
    with pytest.raises(BadInput, match="has the results of main"):
        merge(tmp_path / "other")


@pytest.mark.parametrize("text", ["x" * 300, "\x1b[2J", "../../../x", "²", "<b>|`*"])
@pytest.mark.parametrize("field", ["row", "column", "why"])
def test_any_text_in_results_is_shown_as_text(field, text, tmp_path):
    odd = replace(cell(HOPPER, "bfq", (1.0, 2.0)), **{field: text})
    write_results(Results(EXPERIMENTS["main"]).with_cells([odd]), tmp_path / "main")
    merge(tmp_path / "main")
    for file in ("table.md", "index.html"):
        shown = (tmp_path / "main" / file).read_text()
        assert "<b>|" not in shown.replace("<b>Scores", "")
        assert "\x1b" not in escape(shown)
    assert not list(tmp_path.glob("*.png"))


def test_no_picture_is_taken_from_a_link_or_another_file(tmp_path):
    found = results({(HOPPER, "bfq"): (1.0, 2.0)})
    name, folder = frames_file(found.cells[0]), tmp_path / "main"
    folder.mkdir()
    for make in (lambda path: path.write_bytes(b"no"), lambda path: path.symlink_to("/etc/passwd")):
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
        assert name not in [each.file for each in figures(found, tmp_path)]
    (folder / name).unlink()
    (folder / name).write_bytes(PNG)
    assert name in [each.file for each in figures(found, tmp_path)]


def test_speed_is_drawn_against_scores(tmp_path):
    write_results(results({**SCORES, (CHEETAH, "fql"): (60.0, 61.0)}), tmp_path / "main")
    speed = (Reading("Hz", (10.0, 20.0)),)
    cells = [Cell("frequency", f"{agent}-1", "Hz", speed) for agent in ("bfq", "fql")]
    times = Results(EXPERIMENTS["efficiency"]).with_cells(cells)
    names = {each.file: each for each in figures(times, tmp_path)}
    assert CHEETAH in names["frequency_and_score.png"].caption
    assert "frequency.png" in names


SCORED = [n for n, e in EXPERIMENTS.items() if (ROOT / "results" / n / "result.json").exists()]


@pytest.mark.parametrize("name", SCORED)
def test_committed_results_are_recognized_as_finished(name):
    """If a hyperparameter was added, add it with its default to the configurations in the file."""
    found, experiment = read_results(ROOT / "results" / name), EXPERIMENTS[name]
    assert found.cells
    for each in found.cells if experiment.kind == "scores" else ():
        run = each.run
        asked = {"tasks": [each.row], "seeds": [member["seed"] for member in run["members"]],
                 "steps": run["steps"], "precision": run["precision"]}  # fmt: skip
        options = {k: v for k, v in asked.items() if k in experiment.options}
        (chosen,) = select_experiments(name, Options(**options))
        for group in populations(chosen.columns):
            for column in (column for column in group if column.label == each.column):
                part = Training(chosen, Source(**run["source"]), group)
                assert part.made(each, column), (each.row, each.column)


def test_committed_pages_are_up_to_date():
    for name in SCORED:
        found = read_results(ROOT / "results" / name)
        written = (ROOT / "results" / name / "table.md").read_text()
        content = f"run `python -m bfq_paper.merge results/{name}`"
        assert markdown(found.experiment.heading, page(found)) == written, content
