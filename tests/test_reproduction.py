"""The paper's experiments as commands: what is filled, what is not and why, and what is left behind."""

import base64
import contextlib
import copy
import json
import math
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bfq.cli.main import main
from bfq.errors import BadInput
from bfq.files import locked
from bfq.reports import read_finished
from bfq.run import MetricsRow
from bfq.settings import compose
from bfq.tasks.catalog import TASKS
from bfq_paper import reproduce
from bfq_paper.cli_reproduce import _told
from bfq_paper.merge import main as merge_main
from bfq_paper.merge import merge
from bfq_paper.plan import sources
from bfq_paper.plan.experiments import EXPERIMENTS, QUICK, Column
from bfq_paper.plan.options import Options, chosen
from bfq_paper.plan.sources import source_of
from bfq_paper.published import TABLES
from bfq_paper.results.cells import Cell, Outcome, Reading
from bfq_paper.results.stored import called, read_outcome, record
from bfq_paper.results.told_runs import told_runs
from bfq_paper.shown import strips, written
from bfq_paper.shown.figures import figures
from bfq_paper.shown.front import front_page
from bfq_paper.shown.markdown import markdown
from bfq_paper.shown.markup import Drawn
from bfq_paper.shown.page import page_of
from bfq_paper.shown.written import write_numbers
from bfq_paper.toy_methods import METHODS, PAPER_METHODS
from bfq_paper.work import bench as work_bench
from bfq_paper.work import scores, speed, toy
from bfq_paper.work.scores import populations

SMALL = ["--quick", "--steps", "20", "--seeds", "0,1"]
MAIN = ["reproduce", "main", *SMALL, "--agents", "bc,bfq", "--tasks", "pendulum-mixed,pen-human-v1"]
RESULTS = Path(__file__).parents[1] / "results"
PNG = b"\x89PNG\r\n\x1a\n made up"
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which the first of two populations was trained before the command was killed."""
    folder = tmp_path_factory.mktemp("reproduction")
    real = scores.execute

    def killed(run, *rest):
        if "bfq" in run.name:
            raise KeyboardInterrupt
        return real(run, *rest)

    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "execute", killed)
        assert main(MAIN) == 130
    return folder


@pytest.fixture(scope="module")
def finished(place):
    """The same folder after the same command was given again, with what was trained in the first call."""
    (first,) = (place / "runs").glob("*-bc-*")
    before = times(first)
    partial = json.loads((place / "results" / "main-quick" / "result.json").read_text())
    with contextlib.chdir(place):
        assert main(MAIN) == 0
    return place, first, before, partial


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != ".lock"}


def result(place, name="main-quick"):
    return json.loads((place / "results" / name / "result.json").read_text())


def strip_of(place):
    """The name of the strip among the results: that of its row, its column and its run."""
    (run,) = (place / "runs").glob("*-bfq-*")
    return f"frames-pendulum-mixed-bfq-{run.name.rpartition('-')[2]}.png"


def test_a_killed_command_goes_on_without_repeating_what_was_done(finished):
    place, first, before, partial = finished
    assert times(first) == before
    states = {
        cell["column"]: cell["state"]
        for cell in partial["cells"]
        if cell["row"] == "pendulum-mixed"
    }
    assert states == {"bc": "done", "bfq": "waiting"}
    assert {cell["state"] for cell in result(place)["cells"]} == {"done", "unfilled"}


def test_every_score_carries_all_that_it_depends_on(finished):
    cells = {(c["row"], c["column"]): c for c in result(finished[0])["cells"]}
    ours = cells["pendulum-mixed", "bfq"]
    assert [reading["name"] for reading in ours["readings"]] == ["N = 1", "N = 50"]
    assert [reading["protocol"]["candidates"] for reading in ours["readings"]] == [1, 50]
    assert len(cells["pendulum-mixed", "bc"]["readings"]) == 1  # it has no critic to choose with
    assert [member["seed"] for member in ours["members"]] == [0, 1]
    assert all(len(reading["values"]) == 2 for reading in ours["readings"])
    assert ours["readings"][0]["protocol"]["checkpoint"] == "last"
    assert len(ours["data"]["sha256"]) == 64
    assert ours["source"]["kind"] == "embedded"
    for name in ("versions", "device", "command", "train_seconds", "config", "transforms"):
        assert ours[name]
    assert ours["precision"] == "float32"
    assert ours["data"]["source"]
    assert ours["run_seconds"] > ours["train_seconds"] > 0
    assert ours["readings"][1]["seconds"] > 0  # of evaluating once more
    assert ours["readings"][1]["device"] == ours["device"]


def test_a_row_without_data_is_not_filled_and_says_why(finished):
    place = finished[0]
    (cell, _) = [cell for cell in result(place)["cells"] if cell["row"] == "pen-human-v1"]
    assert cell["state"] == "unfilled"
    assert "bfq data download pen-human-v1" in cell["why"]
    assert cell["why"].count(". ") == 0  # one sentence
    for file in ("table.md", "index.html"):
        text = (place / "results" / "main-quick" / file).read_text()
        assert "bfq data download pen-human-v1" in text


def test_the_table_has_the_numbers_of_the_result(finished):
    place = finished[0]
    text = (place / "results" / "main-quick" / "table.md").read_text()
    for cell in (cell for cell in result(place)["cells"] if cell["state"] == "done"):
        line, _ = [line for line in text.splitlines() if line.startswith(f"| {cell['column']} |")]
        told = cell["readings"][0]["summary"]
        assert (
            f"{told['mean']:.1f} ± {told['std']:.1f}".replace("-", "−")
            == line.split("|")[2].strip()
        )
        assert told["mean"] == pytest.approx(sum(cell["readings"][0]["values"]) / 2)
    assert "Each: 2 seeds, 20 updates." in text  # of all methods, and so no columns


def test_everything_of_a_quick_run_says_that_it_is_one(finished):
    folder = finished[0] / "results" / "main-quick"
    assert QUICK in (folder / "table.md").read_text().splitlines()[0]
    page = (folder / "index.html").read_text()
    assert re.search(f"<title>.*{QUICK}", page)
    assert re.search(f"<h1>.*{QUICK}", page)
    assert not (folder.parent / "main").exists()


def test_the_page_holds_every_figure_and_nothing_from_elsewhere(finished):
    folder = finished[0] / "results" / "main-quick"
    page = (folder / "index.html").read_text()
    pictures = list(folder.glob("*.png"))
    names = {"scores.png", "learning_curves.png", strip_of(finished[0])}
    assert {path.name for path in pictures} == names
    for path in pictures:
        assert base64.b64encode(path.read_bytes()).decode() in page
    assert not re.search(r"https?://|@import|url\(|<script|<link", page)
    assert all(source.startswith("data:image/png") for source in re.findall(r'src="(.{14})', page))


def test_a_strip_of_the_trained_policy_is_that_of_its_run(finished):
    folder = finished[0] / "results" / "main-quick"
    (run,) = (finished[0] / "runs").glob(
        "*-bfq-*"
    )  # and not that of behavior cloning, which came first
    assert (folder / strip_of(finished[0])).read_bytes() == (run / "frames.png").read_bytes()
    assert (
        "The beginning of the first episode of bfq, seed 0" in (folder / "index.html").read_text()
    )


def test_pages_are_drawn_again_without_the_data(finished, tmp_path, monkeypatch):
    """Frames that the machine of the run could not draw are drawn from its checkpoint, the same ones.

    They go to the results, and nothing to the run's folder.
    """
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work_bench, "load_dataset", None)
    folder = tmp_path / "results" / "main-quick"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in [*folder.glob("*.png"), *tmp_path.glob("runs/*/frames.png"), folder / "index.html"]:
        path.unlink()
    merge(Path("results/main-quick"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not list(tmp_path.glob("runs/*/frames.png"))


@pytest.mark.parametrize(
    "way", ["{place}/../{run}", "../{run}", "runs/../../{run}", "runs", "runs/..", "/"]
)
def test_results_do_not_choose_what_is_read_nor_where_is_written(
    finished, tmp_path, monkeypatch, way
):
    """A whole run that lies outside of the runs folder is not looked into, and the kept strip stands."""
    (run,) = (finished[0] / "runs").glob("*-bfq-*")
    place, outside = tmp_path / "place", tmp_path / run.name
    shutil.copytree(finished[0], place)
    shutil.move(place / "runs" / run.name, outside)
    for folder in (outside, place / "runs", place):
        (folder / "frames.png").write_bytes(b"secret")
    monkeypatch.chdir(place)
    results, told = Path("results/main-quick"), result(place)
    for cell in (cell for cell in told["cells"] if "run" in cell):
        cell["run"] = way.format(place=place, run=run.name)
    for path in results.glob("frames-*.png"):
        path.unlink()
    (results / "result.json").write_text(json.dumps(told))
    before = {
        path: path.stat().st_mtime_ns
        for path in tmp_path.rglob("*")
        if results.name not in str(path)
    }
    merge(results)
    assert (
        f"its run {cell['run']} is not in the folder runs." in (results / "index.html").read_text()
    )
    assert not list(results.glob("frames-*.png"))
    assert before == {
        path: path.stat().st_mtime_ns
        for path in tmp_path.rglob("*")
        if results.name not in str(path)
    }
    (results / "kept.png").write_bytes(PNG)
    assert strips.frames(cell["run"], results / "kept.png") == PNG


def test_the_checkerboards_picture_is_that_of_a_run_of_this_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row, reading = "energy distance", (Reading("energy distance", (1.0,)),)
    for run, pictures in (
        ("runs/x", [b"x"]),
        ("elsewhere/x", []),
        (str(tmp_path / "runs/x"), [b"x"]),
    ):
        Path(run).mkdir(parents=True, exist_ok=True)
        (Path(run) / "toy.png").write_bytes(b"x")
        cell = Cell(row, "bfq-1", "done", "", row, reading, {"run": run, "versions": {}})
        made = Outcome(EXPERIMENTS["toy"], (), (cell,))
        assert [drawn.png for drawn in figures(made, tmp_path / "results")] == pictures


def test_the_checkerboards_caption_says_whose_picture_it_is(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.png").write_bytes(PNG)
    kept = {"run": "elsewhere/x", "versions": {}, "settings": {"seeds": [3, 4]}}
    reading = (Reading("energy distance", (1.0, 2.0)),)
    made = Outcome(
        EXPERIMENTS["toy"], (), (Cell("energy distance", "bfq-1", "done", "", "", reading, kept),)
    )
    (drawn,) = figures(made, tmp_path)
    assert drawn.title == "Samples"
    assert drawn.caption.endswith("The picture is of seed 3, the table has means over seeds.")


@pytest.mark.parametrize("row", ["{place}/escaped", "../../escaped", "scores", "escaped"])
def test_no_row_of_times_names_a_file(row, tmp_path, capsys, monkeypatch):
    kept = {"run": "runs/x", "versions": {}}
    cells = [
        Cell("frequency", f"fql-{k}", "done", "", "Hz", (Reading("Hz", (9.0,)),), kept)
        for k in (1, 5)
    ]
    made = Outcome(EXPERIMENTS["efficiency"], (), tuple(cells))
    write_numbers(called(made, "bfq reproduce efficiency", 1.0), tmp_path / "results")
    told = (tmp_path / "results/efficiency/result.json").read_text()
    named = json.dumps(row.format(place=tmp_path))
    (tmp_path / "results/efficiency/result.json").write_text(told.replace('"frequency"', named))
    monkeypatch.setattr("sys.argv", ["merge", str(tmp_path / "results/efficiency")])
    assert merge_main() == 0
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize("file", ["../escaped.png", "/tmp/escaped.png", "a/b.png", "", ".."])
def test_a_picture_outside_of_the_results_is_refused(file):
    with pytest.raises(BadInput, match="it would lie outside of the results"):
        written.check_names(["scores.png", file])


def test_a_machine_that_cannot_draw_says_so_on_the_page(finished, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no display\nanywhere")

    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(strips, "strip", refuse)
    for path in tmp_path.rglob("frames*.png"):
        path.unlink()
    merge(Path("results/main-quick"))
    page = (tmp_path / "results" / "main-quick" / "index.html").read_text()
    assert "pendulum-mixed, bfq: could not be drawn here: no display anywhere" in page
    assert not list(tmp_path.rglob("frames*.png"))


def test_nothing_is_trained_again_where_only_small_files_came_back(
    finished, tmp_path, monkeypatch, capsys
):
    """The runs were made on a machine that is gone: first their checkpoints are, then the whole of them."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bfq.experiment._train", None)
    folder, gone = tmp_path / "results" / "main-quick", list(tmp_path.glob("runs/*/checkpoints"))
    before = {
        name: (folder / name).read_bytes()
        for name in ("table.md", "index.html", strip_of(tmp_path))
    }
    cells = result(tmp_path)["cells"]
    assert gone
    for lost in (gone, [tmp_path / "runs"]):
        for path in lost:
            shutil.rmtree(path)
        assert main(MAIN) == 0
        assert result(tmp_path)["cells"] == cells
        assert {name: (folder / name).read_bytes() for name in before} == before
    assert "bfq, 2 members, 20 updates: finished elsewhere" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    merge(Path("results/main-quick"))
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_cells_tell_all_that_figures_need_of_their_runs(finished):
    names = ("return", "normalized")
    with contextlib.chdir(finished[0]):
        told = told_runs(read_outcome(Path("results/main-quick")))
        assert len(told) == 2
        for run in told:
            real = read_finished(run.folder)
            along = [row for row in real.rows if row.kind == "evaluation"]
            rows = tuple(
                replace(row, metrics={name: row.metrics[name] for name in names}) for row in along
            )
            assert rows
            assert run == replace(
                real, rows=rows, scores={name: real.scores[name] for name in names}
            )


def test_what_a_command_does_not_ask_for_stays(finished, tmp_path, monkeypatch):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "main", *SMALL, "--agents", "bc", "--tasks", "pendulum-mixed"]
    cells, table = result(tmp_path)["cells"], (tmp_path / "results/main-quick/table.md").read_text()
    assert main(words) == 0
    assert result(tmp_path)["cells"] == cells
    assert (tmp_path / "results/main-quick/table.md").read_text() == table
    assert result(tmp_path)["command"] == f"bfq {' '.join(words)}"
    assert len(result(tmp_path)["earlier"]) == 1


def test_an_outcome_survives_its_file(finished):
    folder = finished[0] / "results" / "main-quick"
    assert markdown(read_outcome(folder)) == (folder / "table.md").read_text()
    with pytest.raises(BadInput, match="not what `bfq reproduce` writes"):
        read_outcome(Path(__file__).parent.parent / "results" / "halfcheetah-mini")


def test_a_damaged_file_is_refused_or_can_be_shown(finished, tmp_path):
    rng, told = random.Random(0), result(finished[0])
    folder = tmp_path / "main-quick"
    folder.mkdir()
    refused = 0
    for _ in range(300):
        damaged, value = (
            copy.deepcopy(told),
            rng.choice([None, -1, "x", [], {}, math.nan, True, 1e300]),
        )
        inside = damaged
        while True:
            place = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if (
                not isinstance(inside[place], dict | list)
                or not inside[place]
                or rng.random() < 0.2
            ):
                break
            inside = inside[place]
        inside[place] = value
        (folder / "result.json").write_text(json.dumps(damaged))
        try:
            outcome = read_outcome(folder)
        except BadInput:
            refused += 1
        else:
            assert json.dumps(record(outcome))
            assert markdown(outcome)
    assert 50 < refused < 300


def test_what_cannot_be_shown_replaces_nothing(finished, tmp_path, monkeypatch):
    folder = tmp_path / "main-quick"
    shutil.copytree(finished[0] / "results" / "main-quick", folder)
    before = (folder / "result.json").read_bytes()
    monkeypatch.setattr(written, "markdown", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        written.write_numbers(read_outcome(folder), tmp_path)
    assert (folder / "result.json").read_bytes() == before


def measured(path, tmp_path, window=500, **scripts):
    """What scripts find on a page in a window of this width; the console is silent."""
    told = "; ".join(f"document.body.dataset.{name} = {script}" for name, script in scripts.items())
    copy = tmp_path / "page.html"
    page = path.read_text().replace(
        "<head>", f'<head><base href="{path.absolute().parent.as_uri()}/">', 1
    )
    copy.write_text(page + f"<script>window.onload = () => {{ {told} }}</script>")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", f"--window-size={window},800",
             f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0"]  # fmt: skip
    told = subprocess.run(
        [str(CHROMIUM), *words, "--dump-dom", copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "CONSOLE" not in told.stderr
    found = [re.findall(rf'data-{name}="([^"]*)"', told.stdout) for name in scripts]
    return [[int(each) for each in numbers.split(",")] for (numbers,) in found]


def browsed(path, tmp_path):
    """The widths of a page's images, and its own, in a narrow window."""
    widths, (width,) = measured(
        path,
        tmp_path,
        widths="[...document.images].map(i => i.naturalWidth).join()",
        wide="document.documentElement.scrollWidth",
    )
    return widths, width


@in_a_browser
def test_a_browser_shows_the_page(finished, tmp_path):
    widths, width = browsed(finished[0] / "results" / "main-quick" / "index.html", tmp_path)
    assert len(widths) == 3
    assert all(widths)
    assert width <= 500  # nothing sticks out of a narrow screen


@in_a_browser
@pytest.mark.parametrize(
    "page", sorted(RESULTS.glob("**/index.html")), ids=lambda path: path.parent.name
)
def test_a_browser_shows_the_pages_of_the_results(page, tmp_path):
    widths, width = browsed(page, tmp_path)
    assert widths
    assert all(widths)
    assert width <= 500


@in_a_browser
@pytest.mark.parametrize("name", ["ogbench", "main"])
def test_names_of_methods_stand_in_a_line_and_tables_in_the_column(name, tmp_path):
    heights, beyond = measured(
        RESULTS / name / "index.html",
        tmp_path,
        window=1280,
        tall="[...document.querySelectorAll('.scores tbody th')].map(e => e.offsetHeight).join()",
        beyond="[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth).join()",
    )
    assert max(heights) < 50  # in pixels: a line, and not one a letter
    assert not any(beyond)


@in_a_browser
def test_a_single_frame_is_not_blown_up(tmp_path):
    (picture,) = (RESULTS / "halfcheetah-mini").glob("frames.png")
    page = tmp_path / "frame.html"
    page.write_text(
        page_of(outcome(), [Drawn("a.png", "A", picture.read_bytes(), "words", photo=True)])
    )
    narrow = "document.images[0].style.aspectRatio = '1'"  # as one frame would be
    ((height,),) = measured(
        page, tmp_path, 1280, tall=f"({narrow}, document.images[0].offsetHeight)"
    )
    assert height <= 256


def test_the_page_of_all_experiments_is_of_their_files():
    """`python -m bfq_paper.merge results/main` writes it anew."""
    assert (RESULTS / "index.html").read_text() == front_page(RESULTS)


def test_a_seed_without_a_score_fails_its_cell_and_a_changed_setting_has_another_folder(
    finished, capsys
):
    place, first, _, _ = finished
    shutil.copytree(place, place.parent / "broken", dirs_exist_ok=True)
    place = place.parent / "broken"
    path = place / "runs" / first.name / "result.json"
    told = json.loads(path.read_text())
    told["scores"]["normalized"][1] = None
    path.write_text(json.dumps(told))
    with contextlib.chdir(place):
        assert main([*MAIN, "--json"]) == 1
        (shown,) = json.loads(capsys.readouterr().out)
        failed = [cell for cell in shown["cells"] if cell["state"] == "failed"]
        assert [cell["why"] for cell in failed] == ["diverged: no score of seed 1."]
        assert failed[0]["readings"][0]["summary"]["n"] == 1
        assert [c["state"] for c in shown["cells"] if c["column"] == "bfq"] == ["done", "unfilled"]
        (other,) = chosen("main", Options(True, ["bc"], ["pendulum-mixed"], [0, 1], 21))
        (part,) = reproduce.plan(other).works
        bench = reproduce.Bench(evaluate=None)
        assert part.folder(bench).name not in {folder.name for folder in (place / "runs").iterdir()}
        (same,) = chosen("main", Options(True, ["bc"], ["pendulum-mixed"], [0, 1], 20))
        assert reproduce.plan(same).works[0].folder(bench).name == first.name


def test_what_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise BadInput("the disk of data is gone.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scores, "start", refuse)
    assert main(["reproduce", "preconditioning", *SMALL]) == 1
    assert "failed: the disk of data is gone." in capsys.readouterr().err
    cells = result(tmp_path, "preconditioning-quick")["cells"]
    assert [cell["state"] for cell in cells] == ["failed", "failed"]
    assert (
        "the disk of data is gone."
        in (tmp_path / "results/preconditioning-quick/index.html").read_text()
    )


def test_data_that_cannot_be_read_fails_its_own_row(tmp_path, monkeypatch, capsys):
    def damaged(name, *_):
        raise BadInput(f"{name} is damaged.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work_bench, "load_dataset", damaged)
    assert main(["reproduce", "eta", *SMALL, "--dry-run"]) == 0
    assert "its data is damaged: bfq with η = 0.01" in capsys.readouterr().out
    assert main(["reproduce", "eta", *SMALL]) == 1
    assert {cell["why"] for cell in result(tmp_path, "eta-quick")["cells"]} == {
        "pendulum-mixed is damaged."
    }


def test_the_values_of_a_grid_train_as_one_population(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "lambda", *SMALL]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    config = json.loads((run / "config.json").read_text())
    assert config["varied"] == {"boundary_ratio": [1.0, 0.75, 0.5, 0.25, 0.0]}
    cells = result(tmp_path, "lambda-quick")["cells"]
    assert [cell["column"] for cell in cells] == ["1", "0.75", "0.5", "0.25", "0"]
    for cell in cells:
        assert [m["overrides"]["boundary_ratio"] for m in cell["members"]] == [
            float(cell["column"])
        ] * 2
    means = [cell["readings"][0]["summary"]["mean"] for cell in cells]
    assert len(set(means)) == 5
    folder = tmp_path / "results" / "lambda-quick"
    assert (folder / "ablation.png").exists()
    first = json.loads((run / "result.json").read_text())["members"][
        0
    ]  # the one that is seen at work
    assert first == {"seed": 0, "overrides": {"boundary_ratio": 1.0}}
    assert (
        "The beginning of the first episode of λ = 1, seed 0" in (folder / "index.html").read_text()
    )


def test_ogbench_has_the_mean_of_the_last_evaluations_as_well(tmp_path, monkeypatch):
    run = compose("local/cube-single-play", "bc", seeds=2, steps=50)
    part = scores.Training(EXPERIMENTS["ogbench"], None, run, (Column("bc", "bc"),))
    rows = [
        MetricsRow(step, "evaluation", {"normalized": (step * 1.0, None)})
        for step in (10, 20, 30, 50)
    ]
    monkeypatch.setattr(scores, "read_finished", lambda folder: SimpleNamespace(rows=rows))
    (reading,) = part._averaged(Column("bc", "bc"), tmp_path, [0, 1])
    assert reading.values == (pytest.approx(100 / 3), None)
    assert reading.record["steps"] == [20, 30, 50]
    assert not part._averaged(Column("sorl-1", "sorl", acting={"sampling_steps": 1}), tmp_path, [0])
    pendulum = replace(part, run=compose("pendulum-mixed", "bc"))
    assert not pendulum._averaged(Column("bc", "bc"), tmp_path, [0])
    whole = scores._run(EXPERIMENTS["ogbench"], "local/cube-single-play", (Column("bc", "bc"),))
    assert whole.evaluations == [
        200_000,
        500_000,
        800_000,
        900_000,
        1_000_000,
    ]  # FQL's are the last three


def test_columns_share_a_population_unless_their_structure_differs():
    for name, count in (
        ("eta", 1),
        ("lambda", 1),
        ("preconditioning", 2),
        ("main", 13),
        ("ogbench", 11),
    ):
        assert len(populations(EXPERIMENTS[name].columns)) == count


def test_a_dry_run_tells_everything_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [
        "reproduce",
        "ogbench",
        "--agents",
        "bfq,sorl",
        "--tasks",
        "cube-single-play-singletask-v0,pen-human-v1",
    ]
    assert main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "cube-single-play-singletask-v0: local/cube-single-play, made here" in shown
    assert "pen-human-v1 cannot be filled" in shown
    assert "2 parts of 6 members, 1,000,000 updates, not begun: sorl-8, sorl-1; bfq" in shown
    assert main([*words, "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert [source["kind"] for source in plan["sources"]] == ["local", "none"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mainn"], "did you mean 'main'"),
        (["main", "--tasks", "hopper-medium"], "unknown task"),
        (["main", "--tasks", "checkerboard"], "bfq reproduce toy"),
        (["main", "--agents", "bqf"], "unknown agent"),
        (["main", "--steps", "0"], "steps must be"),
        (["main", "--seeds", "1,1"], "twice"),
        (["main", "--quick", "--out", "file"], "cannot write"),
        (["lambda", "--agents", "bc"], "has no --agents"),
        (["efficiency", "--steps", "5"], "has no --steps"),
        (["efficiency", "--precision", "bfloat16"], "has no --precision"),
        (["toy", "--precision", "float32"], "has no --precision"),
        (["efficiency", "--precision", "foo", "--dry-run"], "precision must be one of"),
        (["all", "--precision", "foo", "--dry-run"], "precision must be one of"),
        (["efficiency", "--tasks", "pendulum-mixed"], "bfq bench"),
        (["toy", "--seeds", "0"], "seeds must be"),
        (["all", "--tasks", "pendulum-mixed"], "is for one experiment"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    words, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["reproduce", *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert "Traceback" not in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_what_is_trained_for_scores_takes_a_precision():
    made = {each.name: each.precision for each in chosen("all", Options(precision="bfloat16"))}
    assert {name for name, word in made.items() if word == "float32"} == {"efficiency", "toy"}


def test_every_cell_of_the_paper_has_its_place():
    for experiment in EXPERIMENTS.values():
        if experiment.table is None:
            continue
        table, labels = TABLES[experiment.table], [column.label for column in experiment.columns]
        if experiment.kind == "speed":
            assert list(table.rows()) == labels
        else:
            assert set(table.rows()) == set(experiment.rows)
            assert list(table.columns()) == labels
        assert set(experiment.rows) <= set(TASKS)


def test_the_best_data_there_is_fills_a_row(monkeypatch):
    here = set()
    monkeypatch.setattr(sources, "is_stored", here.__contains__)
    monkeypatch.setattr(
        sources, "availability", lambda data: "yes" if data in here else "needs a file"
    )
    monkeypatch.setattr(sources, "_no_world", lambda data: "")
    names = (
        "local/hopper-medium",
        "rerolled/hopper-medium",
        "rerolled/hopper-medium-old-masses",
        "hopper-medium-v2",
    )
    assert source_of("hopper-medium-v2").data is None
    for name, kind in zip(names, ("local", "rerolled", "rerolled", "published"), strict=True):
        here.add(name)
        assert source_of("hopper-medium-v2")[1:3] == (name, kind)
    monkeypatch.setattr(sources, "_no_world", lambda data: "its simulator is not: pip install it.")
    assert source_of("hopper-medium-v2").data is None
    assert "pip install" in source_of("hopper-medium-v2").words


def outcome(quick=False):
    """An outcome of numbers made up."""
    experiment = replace(
        EXPERIMENTS["main"], quick=quick, usual=("halfcheetah-medium-v2", "hopper-medium-v2")
    )
    kept = {"steps": 1000, "run": "runs/x", "versions": {"jax": "0"}}
    cells = [
        Cell(row, column, "done", readings=(Reading("N = 50", values),), provenance=kept)
        for row, column, values in (
            ("halfcheetah-medium-v2", "dql", (52.0, 53.0)),
            ("halfcheetah-medium-v2", "bfq", (70.0, 72.0)),
            ("hopper-medium-v2", "dql", (None, 50.0)),
            ("hopper-medium-v2", "bfq", (80.0, 82.0)),
        )
    ]
    return Outcome(experiment, (), tuple(cells))


def test_ours_stands_beside_the_papers_with_a_difference_and_footnotes():
    made = outcome()
    by = {(cell.row.partition("-")[0], cell.column): cell for cell in made.cells}
    assert made.difference(by["halfcheetah", "bfq"]) == pytest.approx(71.0 - 66.1)
    verdicts = [made.verdict(cell) for cell in by.values()]
    assert verdicts == ["same", "gain", "loss", "loss"]
    text = markdown(made)
    assert "| bfq | 71.0 ± 1.4 | 66.1 ± 0.0 | +4.9 |" in text
    assert "Ours: N = 50. Each: 2 seeds, 1,000 updates." in text
    assert "| dql | 50.0 | 96.5 ± 1.3" in text
    assert "1 of 2" in text
    notes = [note.text for note in TABLES["full"].notes_on("hopper-medium-v2", "dql")]
    assert notes
    assert all(note[:40] in text for note in notes)
    page = page_of(made, [Drawn("a.png", "A", b"png", "words")])
    assert page.count('class="gain"') == 2  # in the overview and in its own table
    assert "71.0<small>(66.1)</small>" in page


def test_a_quick_run_is_held_against_nothing():
    made = outcome(quick=True)
    assert all(made.difference(cell) is None and made.verdict(cell) == "" for cell in made.cells)


def test_averages_are_of_whole_groups_and_of_the_papers_rows():
    table = TABLES["full"]
    rows = table.groups["Average (MuJoCo)"]
    cells = tuple(
        Cell(
            row, "dql", "done", readings=(Reading("N = 50", (table.get(row, "dql").value + 1.0,)),)
        )
        for row in rows
    )
    made = Outcome(EXPERIMENTS["main"], (), cells)
    (average,) = made.averages()
    assert average.printed == 89.0
    assert average.paper == pytest.approx(87.9, abs=0.05)  # what its rows say
    assert average.ours == pytest.approx(average.paper + 1.0)
    assert "| Average (MuJoCo) | 88.9 (87.9) |" in markdown(made)
    assert not replace(made, cells=cells[1:]).averages()


def test_speed_is_drawn_against_scores_where_there_are_both(tmp_path):
    kept = {"run": "runs/x", "versions": {}}
    timed = [("bfq-1", 5000.0), ("fql-1", 6000.0), ("dql-5", 900.0), ("dql-50", 90.0)]
    cells = [Cell("frequency", c, "done", "", "Hz", (Reading("Hz", (v,)),), kept) for c, v in timed]
    made = Outcome(EXPERIMENTS["efficiency"], (), tuple(cells))
    assert [each.file for each in figures(made, tmp_path)] == ["frequency.png"]
    scored = outcome()

    def drawn(change):
        """With another data of the last cell, which is BFQ's on Hopper."""
        *first, last = scored.cells
        last = replace(last, provenance={**last.provenance, "data": change})
        whole = replace(scored, experiment=EXPERIMENTS["main"], cells=(*first, last))
        write_numbers(called(whole, "bfq reproduce main", 1.0), tmp_path)
        return figures(made, tmp_path)[0]

    both = drawn({})
    assert both.file == "frequency_and_score.png"
    assert both.caption.endswith(
        "2 rows of the experiment main: halfcheetah-medium-v2, hopper-medium-v2."
    )
    assert both.png.startswith(b"\x89PNG")
    assert drawn({"sha256": "b"}).caption.endswith("From different data: hopper-medium-v2.")
    assert drawn({"name": "local/hopper-medium"}).caption.endswith("main: halfcheetah-medium-v2.")
    alone = replace(made, cells=made.cells[:2])  # of which only BFQ was scored
    assert [each.file for each in figures(alone, tmp_path)] == ["frequency.png"]


def test_times_are_better_when_they_are_shorter():
    kept = {"run": "runs/x", "versions": {}}
    cells = tuple(
        Cell(row, "bfq-1", "done", "", unit, (Reading(unit, (value,)),), kept)
        for row, unit, value in (("frequency", "Hz", 900.0), ("training time", "hours", 0.2))
    )
    made = Outcome(EXPERIMENTS["efficiency"], (), cells)
    assert [made.paper(cell).value for cell in cells] == [851.2, 7.8]
    assert [made.verdict(cell) for cell in cells] == ["gain", "gain"]


def test_times_are_not_colored_since_the_papers_are_another_devices():
    kept = {"run": "runs/x", "versions": {}}
    cells = [
        Cell("frequency", name, "done", "", "Hz", (Reading("Hz", (900.0,)),), kept)
        for name in ("bfq-1", "fql-1")
    ]
    page = page_of(Outcome(EXPERIMENTS["efficiency"], (), tuple(cells)), [])
    assert "+48.8" in page
    assert not re.findall('class="(gain|loss|same)"', page)
    assert "Green" not in page


def test_times_are_measured_once_and_only_those_that_the_paper_has(tmp_path, monkeypatch, capsys):
    measured = []

    def acting(agent, config, *_):
        measured.append(("acting", agent.name))
        return {"batches_per_second": 100.0}

    def training(agent, config, *_):
        measured.append(("training", agent.name, config.flow_steps, config.width))
        return {"microseconds_per_update": 1800.0}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(speed, "time_acting", acting)
    monkeypatch.setattr(speed, "time_update", training)
    words = ["reproduce", "efficiency", "--quick", "--agents", "fql-1,fql-20", "--json"]
    assert main(words) == 0
    (first,) = json.loads(capsys.readouterr().out)
    assert measured == [("acting", "fql"), ("training", "fql", 20, 256)]
    assert main(words) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert len(measured) == 2
    assert first["cells"] == again["cells"]
    shutil.rmtree("runs")
    assert main(words) == 0
    (elsewhere,) = json.loads(capsys.readouterr().out)
    assert len(measured) == 2
    assert elsewhere["cells"] == first["cells"]
    assert main([*words, "--again"]) == 0
    assert len(measured) == 4
    page = Path("results/efficiency-quick/index.html").read_text()
    assert "This is a quick run: few updates and actions are timed" in page
    assert "small networks" not in page
    assert main([*words[:-1], "--dry-run"]) == 0
    assert "2 parts of timing at the sizes of " in capsys.readouterr().out
    assert [(c["row"], c["readings"][0]["values"]) for c in first["cells"]] == [
        ("frequency", [100.0]),
        ("training time", [0.5]),
    ]


WITHOUT_DATA = {
    "efficiency": Options(quick=True, agents=["fql-1", "fql-20"]),
    "toy": Options(quick=True, seeds=1),
}
COMMANDS = {
    "efficiency": ["reproduce", "efficiency", "--quick", "--agents", "fql-1,fql-20"],
    "toy": ["reproduce", "toy", "--quick", "--seeds", "1"],
}


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """What is measured and trained in an empty folder, where either takes no time."""
    done = []

    def noted(name, found):
        return lambda *_: (done.append(name), found)[1]

    seed = {
        "energy_distance": 1.0,
        "sliced_wasserstein2": 1.0,
        "share_on_filled": 1.0,
        "squares_covered": 8,
    }
    measured = {
        name: {str(k): {"seeds": [seed]} for k in METHODS[name].steps} for name in PAPER_METHODS
    }
    record = {
        **measured,
        "settings": {"epochs": 2, "batches": 1},
        "versions": {},
        "train_seconds": {},
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(speed, "time_acting", noted("acting", {"batches_per_second": 100.0}))
    monkeypatch.setattr(
        speed, "time_update", noted("training", {"microseconds_per_update": 1800.0})
    )
    monkeypatch.setattr(toy, "checkerboard", noted("board", (record, b"png")))
    return done


@pytest.mark.parametrize(("name", "before", "after"), [("efficiency", ["training"], "acting"),
                                                       ("toy", [], "board")])  # fmt: skip
def test_what_another_command_measures_or_trains_is_left_to_it(
    name, before, after, counted, monkeypatch, capsys
):
    """The first part's folder is held by another until the second look."""
    (asked,) = chosen(name, WITHOUT_DATA[name])
    folder = reproduce.plan(asked).works[0].folder(reproduce.Bench(evaluate=None))
    folder.mkdir(parents=True)
    other, looks = contextlib.ExitStack(), []
    other.enter_context(locked(folder))

    def patience(_):
        looks.append(list(counted))
        if len(looks) == 2:
            other.close()

    monkeypatch.setattr(reproduce, "time", SimpleNamespace(sleep=patience))
    assert main(COMMANDS[name]) == 0
    assert looks == [before, before]
    assert counted == [*before, after]
    assert (
        capsys.readouterr().err.count(f"at work in {folder}. It is looked at again in the end.")
        == 1
    )
    assert {cell["state"] for cell in result(Path(), f"{name}-quick")["cells"]} == {"done"}


@pytest.mark.parametrize("damage", [{"normalized": [1.0]}, {"return": ["x", 1.0]}, {"normalized": "many"},
                                    {"return": [[1.0], 2.0]}, []])  # fmt: skip
def test_a_damaged_evaluation_fails_its_cell_alone(damage, finished, tmp_path, monkeypatch, capsys):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    path, *_ = Path("runs").glob("*-bfq-*/evaluations/*.json")
    told = json.loads(path.read_text())
    path.write_text(
        json.dumps({**told, "scores": {**told["scores"], **damage} if damage else damage})
    )
    shutil.rmtree("results")  # where numbers would stand in the place of a failure
    assert main(MAIN) == 1
    shown = capsys.readouterr().err
    assert f"pendulum-mixed, bfq failed: {path}" in shown
    assert "Traceback" not in shown
    states = {
        cell["column"]: cell["state"]
        for cell in result(tmp_path)["cells"]
        if cell["state"] != "unfilled"
    }
    assert states == {"bc": "done", "bfq": "failed"}


TOY_RECORD = {"settings": {"epochs": 2, "batches": 1}, "versions": {}, "train_seconds": {}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("efficiency", []),
        ("efficiency", {"versions": {}}),
        ("efficiency", {"versions": {}, "acting": {"batches_per_second": "many"}}),
        ("efficiency", {"acting": {"batches_per_second": 1.0}}),
        ("toy", []),
        ("toy", {}),
        ("toy", {**TOY_RECORD, "fm": {}}),
        ("toy", {**TOY_RECORD, "fm": {"1": {"seeds": [{}]}}}),
    ],
)
def test_a_damaged_file_of_some_work_fails_it_alone(name, content, counted, capsys):
    assert main(COMMANDS[name]) == 0
    folders = {"efficiency": "efficiency-fql-1-*/h*.json", "toy": "checkerboard-*/result.json"}
    (path,) = Path("runs").glob(folders[name])
    path.write_text(json.dumps(content))
    shutil.rmtree("results")  # where numbers would stand in the place of a failure
    assert main(COMMANDS[name]) == 1
    assert f"failed: {path}" in capsys.readouterr().err
    states = [cell["state"] for cell in result(Path(), f"{name}-quick")["cells"]]
    assert states == (["failed", "done"] if name == "efficiency" else ["failed"] * 20)


def test_the_checkerboard_is_drawn_and_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "toy", "--quick", "--seeds", "1", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    first = [cell for cell in told["cells"] if cell["row"] == "energy distance"]
    assert [cell["column"] for cell in first] == ["fm-1", "fm-2", "fm-5", "fm-10", "bfq-1"]
    picture = tmp_path / "results" / "toy-quick" / "toy.png"
    before = picture.read_bytes()
    shutil.rmtree("runs")
    assert main(["reproduce", "toy", "--quick", "--seeds", "1"]) == 0
    assert "finished elsewhere" in capsys.readouterr().err
    assert picture.read_bytes() == before
    assert base64.b64encode(before).decode() in picture.with_name("index.html").read_text()
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("out", [["--out", "elsewhere/of mine"], ["--out=elsewhere"], []])
def test_results_do_not_keep_the_place_they_were_written_to(out):
    assert _told(["reproduce", "main", *out, "--agents", "bc"]) == "bfq reproduce main --agents bc"
