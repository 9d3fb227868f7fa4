"""Results that grow over several commands and machines: on files made up, so that nothing is trained."""

import base64
import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bfq.cli.main import main
from bfq.errors import BadInput, Busy
from bfq.files import read_json, write_json
from bfq.run import fingerprint
from bfq_paper import merge, reproduce
from bfq_paper.book import Book, alone
from bfq_paper.plan import sources
from bfq_paper.plan.experiments import EXPERIMENTS
from bfq_paper.plan.options import Options, chosen
from bfq_paper.plan.sources import Source
from bfq_paper.reproduce import plan
from bfq_paper.results.cells import Cell, Outcome, Reading
from bfq_paper.results.stored import called, read_outcome, record
from bfq_paper.results.together import together
from bfq_paper.results.told_runs import told_runs
from bfq_paper.shown.figures import figures
from bfq_paper.shown.markdown import markdown
from bfq_paper.shown.page import page_of
from bfq_paper.shown.provenance import protocols
from bfq_paper.shown.strips import file_of
from bfq_paper.work import scores
from bfq_paper.work.bench import Bench

CHEETAH, HOPPER, MAZE = "halfcheetah-medium-v2", "hopper-medium-v2", "antmaze-medium-play-v2"
PEN = "pen-human-v1"  # its data is never here
KINDS = {"local": "made here.", "rerolled": "rolled out here.", "published": "the published data."}
PNG = b"\x89PNG\r\n\x1a\n made up"
TRANSFORMS = {
    "observations": "none",
    "reward": {"name": "none", "scale": 1.0, "shift": 0.0},
}


def told(row, column, data, steps=1000, seeds=3, day=1, sha="a" * 64):
    """What a cell of a trained method depends on, as another machine wrote it."""
    kind = data.partition("/")[0] if "/" in data else "published"
    along = [[10.0 + k + s for s in range(seeds)] for k in range(2)]
    protocol = {"episodes": 50, "seed": 0, "checkpoint": "last", "candidates": 50, "selection": "argmax",
                "softmax_weight": 1.0, "temperature": 1.0, "policy": "ema"}  # fmt: skip
    return {
        "task": data, "agent": column, "steps": steps, "transforms": TRANSFORMS, "reference": None,
        "data": {"name": data, "source": "made up", "sha256": sha, "transitions": 9, "episodes": 1,
                 "return_mean": 1.0, "return_std": None, "return_max": 1.0, "normalized_mean": 5.0},
        "versions": {"jax": "0"}, "device": "NVIDIA H200", "train_seconds": 1.0 + day,
        "microseconds_per_step": 1.0, "precision": "float32", "config": {}, "command": f"bfq train {column}",
        "members": [{"seed": k, "overrides": {}} for k in range(seeds)],
        "run": f"runs/{data.replace('/', '-')}-{column}-{day:010d}",
        "source": Source(row, data, kind, f"{row}: {data}, {KINDS[kind]}")._asdict(),
        "finished": f"2030-01-{day:02d}T00:00:00+00:00", "fingerprint": "0123456789",
        "evaluations": {"protocol": protocol, "steps": [steps // 2, steps], "return": along,
                        "normalized": along},
    }  # fmt: skip


def cell(row, column, values=(60.0, 62.0, 64.0), data="", **changes):
    kept = told(
        row, column, data or f"local/{row.removesuffix('-v2')}", seeds=len(values), **changes
    )
    reading = Reading("N = 50", values, {"protocol": kept["evaluations"]["protocol"], "scores": {}})
    return Cell(row, column, "done", readings=(reading,), provenance=kept)


def outcome(*cells, name="main", command="bfq reproduce main", quick=False):
    empty = Outcome(replace(EXPERIMENTS[name], quick=quick), (), ())
    return called(empty.taken(cells), command, 1.0)


def write(made, folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", record(made))
    return folder


def planned(row, agents, made, again=False, **changes):
    wished = {"agents": agents, "tasks": [row], "seeds": 3, "steps": 1000, **changes}
    (experiment,) = chosen("main", Options(**wished))
    return plan(experiment, made, again)


def asked(row, column, **changes):
    """A cell from elsewhere with the settings and the data that would be taken here."""
    (part,) = planned(row, [column], None, **changes).works
    made = cell(row, column, data=part.run.task)
    mark = part._fingerprint(part.columns[0], part.run.task)
    return replace(made, provenance={**made.provenance, "fingerprint": mark})


@pytest.fixture
def no_data(monkeypatch):
    """No data is kept here; what is missing can be made, as on any machine."""
    monkeypatch.setattr(sources, "is_kept", lambda data: False)
    monkeypatch.setattr(scores, "at_hand", lambda data: False)


def states(made):
    return [made.state(work, Bench(evaluate=None)) for work in made.works]


# What is asked for and finished elsewhere.


def test_a_finished_cell_of_the_same_settings_counts_as_done(no_data):
    made = outcome(asked(CHEETAH, "bfq"))
    assert states(planned(CHEETAH, ["bfq"], made)) == ["finished elsewhere"]
    assert states(planned(CHEETAH, ["bfq", "dql"], made)) == ["not begun", "finished elsewhere"]
    assert states(planned(CHEETAH, ["bfq"], made, again=True)) == ["not begun"]
    for other in ({"steps": 2000}, {"seeds": 4}, {"precision": "bfloat16"}):
        (experiment,) = chosen(
            "main", Options(agents=["bfq"], tasks=[CHEETAH], **{"seeds": 3, **other})
        )
        assert states(plan(experiment, made)) == ["not begun"]


def test_settings_that_leave_the_scores_alone_do_not_count(no_data):
    made = outcome(asked(CHEETAH, "bfq"))
    (experiment,) = chosen("main", Options(agents=["bfq"], tasks=[CHEETAH], seeds=3, steps=1000))
    assert states(plan(replace(experiment, evaluations=99), made)) == ["finished elsewhere"]
    assert states(plan(replace(experiment, episodes=99), made)) == ["not begun"]
    assert states(plan(replace(experiment, candidates=(1, 7)), made)) == ["not begun"]


def test_a_switch_that_is_off_changes_no_name():
    known = {"config": {"eta": 1.0, "boundary_ratio": 0.5}, "seeds": [0, 1]}
    later = {
        "config": {**known["config"], "new": 0.0, "other": False},
        "seeds": [0, 1],
        "third": None,
    }
    assert fingerprint(later) == fingerprint(known)
    changes = ({"new": 0.01}, {"boundary_ratio": 0.0}, {"boundary_ratio": 0.25})
    names = {fingerprint({**later, "config": {**later["config"], **change}}) for change in changes}
    assert len(names | {fingerprint(known), fingerprint({**known, "seeds": [0]})}) == 5


def test_data_of_the_same_name_must_have_the_same_digest_where_it_is_here(no_data, monkeypatch):
    made = outcome(asked(CHEETAH, "bfq"))
    monkeypatch.setattr(scores, "at_hand", lambda data: True)
    for digest, state in (("a" * 64, "finished elsewhere"), ("b" * 64, "not begun")):
        dataset = type("Data", (), {"sha256": digest})
        monkeypatch.setattr(Bench, "data", lambda self, name, dataset=dataset: dataset)
        assert states(planned(CHEETAH, ["bfq"], made)) == [state]

    def damaged(self, name):
        raise BadInput("damaged.")

    monkeypatch.setattr(Bench, "data", damaged)
    assert states(planned(CHEETAH, ["bfq"], made)) == [
        "finished elsewhere"
    ]  # nobody can tell otherwise


def test_better_data_elsewhere_is_not_replaced_by_worse_data_here(no_data, monkeypatch):
    (part,) = planned(CHEETAH, ["bfq"], None).works
    assert part.run.task.startswith("local/")
    better = "rerolled/halfcheetah-medium"
    mark = part._fingerprint(part.columns[0], better)
    found = cell(CHEETAH, "bfq", data=better)
    made = outcome(replace(found, provenance={**found.provenance, "fingerprint": mark}))
    assert states(planned(CHEETAH, ["bfq"], made)) == ["finished elsewhere"]
    monkeypatch.setattr("bfq_paper.reproduce.state", lambda work, bench: "finished")
    monkeypatch.setattr(scores.Training, "folder", lambda self, bench: Path("runs/of-worse-data"))
    assert states(planned(CHEETAH, ["bfq"], made)) == ["finished elsewhere"]
    assert states(planned(CHEETAH, ["bfq"], made, again=True)) == ["finished"]
    monkeypatch.setattr(
        scores.Training, "folder", lambda self, bench: Path(found.provenance["run"])
    )
    assert states(planned(CHEETAH, ["bfq"], made)) == ["finished"]
    here = Source(
        CHEETAH, CHEETAH, "published", "published."
    )  # and worse data does not stand for better
    monkeypatch.setattr("bfq_paper.reproduce.source_of", lambda task: here)
    monkeypatch.setattr("bfq_paper.reproduce.state", lambda work, bench: "not begun")
    assert states(planned(CHEETAH, ["bfq"], made)) == ["not begun"]


def test_a_dry_run_says_what_is_finished_elsewhere(no_data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(outcome(asked(CHEETAH, "bfq"), cell(PEN, "bfq", data=PEN)), tmp_path / "results" / "main")
    words = ["reproduce", "main", "--agents", "bfq", "--tasks", f"{CHEETAH},{PEN}", "--seeds", "3"]
    words += ["--steps", "1000", "--dry-run"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "1,000 updates, finished elsewhere: bfq" in shown
    assert "pen-human-v1 cannot be filled" in shown
    assert "finished elsewhere and kept: bfq" in shown
    assert main([*words, "--again"]) == 0
    assert "not begun: bfq" in capsys.readouterr().out


def test_a_command_trains_nothing_and_loses_nothing(no_data, tmp_path, monkeypatch):
    """Its own cell is finished elsewhere, a row cannot be filled here, and another was not asked for."""
    monkeypatch.chdir(tmp_path)
    kept = [asked(CHEETAH, "bfq"), cell(HOPPER, "dql"), cell(PEN, "bfq", data=PEN)]
    folder = write(outcome(*kept), tmp_path / "results" / "main")
    before = {
        (c["row"], c["column"]): c
        for c in json.loads((folder / "result.json").read_text())["cells"]
    }
    monkeypatch.setattr(scores, "start", None)
    words = ["--agents", "bfq", "--tasks", f"{CHEETAH},{PEN}", "--seeds", "3", "--steps", "1000"]
    assert main(["reproduce", "main", *words]) == 0
    result = json.loads((folder / "result.json").read_text())
    assert {(c["row"], c["column"]): c for c in result["cells"]} == before
    assert [call["command"] for call in result["earlier"]] == ["bfq reproduce main"]
    assert {path.name for path in folder.iterdir()} >= {
        "index.html",
        "learning_curves.png",
        "scores.png",
    }
    assert not (tmp_path / "runs").exists()


def test_what_is_finished_elsewhere_needs_neither_its_precision_nor_its_data(
    no_data, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "bfq.settings.available", lambda: False
    )  # no GPU that could train in bfloat16
    write(outcome(asked(CHEETAH, "bfq", precision="bfloat16")), tmp_path / "results" / "main")
    words = [
        "reproduce",
        "main",
        "--agents",
        "bfq",
        "--tasks",
        CHEETAH,
        "--seeds",
        "3",
        "--steps",
        "1000",
    ]
    words += ["--precision", "bfloat16"]
    assert main([*words, "--dry-run"]) == 0
    assert "it is made first" not in capsys.readouterr().out
    assert main(words) == 0
    assert main([*words, "--again", "--dry-run"]) == 0
    assert "local/halfcheetah-medium, made here" in (shown := capsys.readouterr().out)
    assert "it is made first" in shown
    assert main([*words, "--again"]) == 2
    assert "bfloat16 products need an NVIDIA GPU" in capsys.readouterr().err


def test_what_fails_does_not_take_the_place_of_numbers(no_data, tmp_path, monkeypatch):
    def refuse(self, name):
        raise BadInput("no room.")

    monkeypatch.chdir(tmp_path)
    folder = write(outcome(cell(CHEETAH, "bfq")), tmp_path / "results" / "main")
    monkeypatch.setattr(Bench, "data", refuse)
    words = ["--agents", "bfq", "--tasks", CHEETAH, "--seeds", "3", "--steps", "1000"]
    assert main(["reproduce", "main", *words]) == 1
    (found,) = read_outcome(folder).cells
    assert found == cell(CHEETAH, "bfq")


@pytest.mark.parametrize(
    "change", ["cut", "foreign", "other", "quick", "values", "state", "run", "curve"]
)
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(change, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write(outcome(cell(CHEETAH, "bfq")), tmp_path / "results" / "main") / "result.json"
    told = json.loads(path.read_text())
    (first,) = told["cells"]
    changes = {
        "foreign": lambda: told.pop("cells"),
        "other": lambda: told.update(experiment="eta"),
        "quick": lambda: told.update(quick=True),
        "values": lambda: first["readings"][0].update(values=["x"]),
        "state": lambda: first.update(state="lost"),
        "run": lambda: first.update(members="0, 1, 2"),
        "curve": lambda: first["evaluations"]["normalized"].pop(),
    }
    changes.get(change, lambda: None)()
    path.write_text(json.dumps(told)[: 200 if change == "cut" else None])
    before = path.read_bytes()
    monkeypatch.setattr(scores, "start", None)  # nothing may come so far
    assert main(["reproduce", "main", "--agents", "dql", "--tasks", "pendulum-mixed"]) == 2
    shown = capsys.readouterr().err
    assert "result.json" in shown
    assert "Traceback" not in shown
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["result.json"]


# Several commands at once.


def test_what_others_write_during_a_command_stays(no_data, tmp_path, monkeypatch):
    """While one trains, another command on the same folder fills a cell and a merge brings a third."""
    monkeypatch.chdir(tmp_path)
    there = write(outcome(cell(HOPPER, "iql")), tmp_path / "there" / "main")
    words = ["--tasks", CHEETAH, "--seeds", "3", "--steps", "1000"]

    def fill(self, bench):
        if self.name == "dql":  # the first of the two; the other command ends while it is at work
            assert main(["reproduce", "main", "--agents", "bc", *words]) == 0
            merge.merge(Path("results/main"), [there])
        return [cell(CHEETAH, self.name)]

    monkeypatch.setattr(scores.Training, "fill", fill)
    assert main(["reproduce", "main", "--agents", "dql,bfq", *words]) == 0
    made = read_outcome(tmp_path / "results" / "main")
    assert [(c.row, c.column) for c in made.cells if c.ours] == [
        (CHEETAH, "bc"), (CHEETAH, "dql"), (CHEETAH, "bfq"), (HOPPER, "iql"),
    ]  # fmt: skip
    assert not [c for c in made.cells if c.state != "done"]
    page = (tmp_path / "results" / "main" / "index.html").read_text()
    assert HOPPER in page


def test_what_another_command_is_at_is_left_to_it_and_looked_at_again(
    no_data, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "PATIENCE_S", 0.0)
    words = f"reproduce main --tasks {CHEETAH} --seeds 3 --steps 1000 --agents dql,bfq".split()
    tried = []

    def fill(self, bench):
        tried.append(self.name)
        if self.name == "dql" and len(tried) < 6:
            raise Busy("another process is training in runs/dql.")
        return [cell(CHEETAH, self.name)]

    monkeypatch.setattr(scores.Training, "fill", fill)
    assert main(words) == 0
    assert tried == ["dql", "bfq", "dql", "dql", "dql", "dql"]  # until the other has ended
    assert capsys.readouterr().err.count("is training in runs/dql. It is looked at again") == 1
    made = read_outcome(tmp_path / "results" / "main")
    assert {c.column: c.state for c in made.cells} == {"dql": "done", "bfq": "done"}


def test_many_that_write_at_once_lose_nothing(tmp_path):
    rows = EXPERIMENTS["main"].rows[:8]

    def command(row):
        book = Book(EXPERIMENTS["main"], tmp_path, f"bfq reproduce main --tasks {row}")
        for column in ("dql", "fql", "bfq"):
            book.add([cell(row, column)])

    threads = [threading.Thread(target=command, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = read_outcome(tmp_path / "main")
    assert len(made.cells) == 24
    assert len(made.calls) == 8
    assert {path.name for path in (tmp_path / "main").iterdir()} == {"result.json", "table.md"}


def test_two_that_write_one_file_at_once_both_write_it_whole(tmp_path, monkeypatch):
    path, flush = tmp_path / "a.json", os.fsync

    def meanwhile(file):
        """The second begins and ends when the first has written all but not yet renamed it."""
        flush(file)
        monkeypatch.setattr(os, "fsync", flush)
        write_json(path, ["second"])
        assert json.loads(path.read_text()) == ["second"]

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_json(path, ["first"] * 100)
    assert json.loads(path.read_text()) == ["first"] * 100
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_what_a_killed_writer_left_goes_with_the_next_write_of_its_file(tmp_path):
    old, young = ".a[1].json.0123abcd.part", ".a[1].json.4567abcd.part"
    others = (".a[1].json.part", ".b.json.0123abcd.part", ".a[1].json.of-mine.part")
    for name in (old, young, *others):
        (tmp_path / name).touch()
    for name in (old, *others):
        os.utime(tmp_path / name, (0, 0))
    write_json(tmp_path / "a[1].json", [])
    assert {path.name for path in tmp_path.iterdir()} == {"a[1].json", young, *others}


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_json(tmp_path / "a.json", [])
    assert not list(tmp_path.iterdir())


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    order = []

    def second():
        with alone(tmp_path):
            order.append("second")

    with alone(tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert not list(tmp_path.iterdir())


# One table of cells from everywhere.


def test_cells_combine_in_the_papers_order():
    made = outcome(cell(HOPPER, "bfq"), cell(CHEETAH, "dql")).taken([cell(CHEETAH, "bfq")])
    assert [(c.row, c.column) for c in made.cells] == [
        (CHEETAH, "dql"),
        (CHEETAH, "bfq"),
        (HOPPER, "bfq"),
    ]
    assert together(made).rows == (CHEETAH,)
    empty = [Cell(CHEETAH, "bfq", "waiting"), Cell(CHEETAH, "iql", "waiting")]
    assert [(c.column, c.state) for c in made.taken(empty).of(CHEETAH)] == [
        ("iql", "waiting"), ("dql", "done"), ("bfq", "done"),
    ]  # fmt: skip


def test_each_cell_tells_its_own_seeds_updates_and_precision():
    half = cell(CHEETAH, "dql", (50.0, 52.0), steps=500)
    half = replace(half, provenance={**half.provenance, "precision": "bfloat16"})
    lines = markdown(outcome(cell(CHEETAH, "bfq"), half)).splitlines()
    assert any(
        line.startswith("| bfq |") and line.endswith("| 3 | 1,000 | float32 |") for line in lines
    )
    assert any(
        line.startswith("| dql |") and line.endswith("| 2 | 500 | bfloat16 |") for line in lines
    )
    alike = markdown(outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql")))
    assert "| precision |" not in alike
    assert "| episodes |" not in alike


def test_data_of_one_name_and_two_digests_is_told_apart():
    made = outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql", sha="b" * 64))
    assert "local/halfcheetah-medium, SHA-256 bbbbbbbb…" in markdown(made)
    assert together(made).rows == (CHEETAH,)  # one recipe on two machines
    kin = outcome(cell(CHEETAH, "bfq", data="rerolled/a"), cell(CHEETAH, "dql", data="rerolled/b"))
    assert "| rerolled/b |" in markdown(kin)
    assert together(kin) is None
    same = outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql"))
    assert not [each for each in figures(same, Path("nowhere")) if "different data" in each.caption]
    assert "SHA-256" not in markdown(same)


def test_times_of_several_devices_are_told_at_the_cell():
    cells = [
        Cell(
            "frequency",
            name,
            "done",
            "",
            "Hz",
            (Reading("Hz", (9.0,)),),
            {"device": device, "run": "r"},
        )
        for name, device in (("bfq-1", "cpu"), ("fql-1", "NVIDIA H200"))
    ]
    lines = markdown(outcome(*cells, name="efficiency")).splitlines()
    assert any(line.startswith("| fql-1 |") and line.endswith("| NVIDIA H200 |") for line in lines)


# What is said, and what is not there to be said.


def test_what_all_methods_of_a_row_share_is_told_once_and_not_in_columns():
    made = outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql"))
    for text in (markdown(made), page_of(made, [])):
        assert "Ours: N = 50. Each: 3 seeds, 1,000 updates." in text
        assert "N = 50</th>" not in text
        assert "| N = 50 |" not in text
    one = markdown(outcome(cell(CHEETAH, "bfq", (60.0,))))
    assert "Each: 1 seed, 1,000 updates." in one
    assert "Ours: one seed of the last checkpoint" in one


def test_a_reading_that_only_repeats_ours_has_no_column():
    both = cell(CHEETAH, "bfq")
    both = replace(both, readings=(*both.readings, Reading("N = 1", (1.0, 2.0, 3.0))))
    plain = cell(CHEETAH, "td3_bc")
    plain = replace(plain, readings=(replace(plain.readings[0], name="N = 1"),))
    text = markdown(outcome(both, plain))
    assert "|  | ours | paper | difference | N = 1 |" in text
    assert "| bfq | 62.0 ± 2.0 | 66.1 ± 0.0 | −4.1 | 2.0 ± 1.0 |" in text
    assert "Ours of bfq: N = 50." in text
    assert "A column N" in text
    assert "A column N" not in markdown(outcome(plain))


def test_words_are_of_what_stands_there():
    made = outcome(cell(CHEETAH, "bfq"), cell(HOPPER, "bfq"))
    text = markdown(made)
    assert "The paper's rows that were not run yet" in text
    assert "Ours, and in brackets the paper's.\n" in text  # no averages
    assert "Difference: ours" in text
    assert "Difference: ours" not in markdown(outcome(cell(CHEETAH, "preset"), name="switches"))
    rows = EXPERIMENTS["main"].rows
    assert "its averages are those of its rows" in markdown(
        outcome(*(cell(row, "bfq") for row in rows))
    )
    pair = outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql"))
    more = outcome(*pair.cells, cell(HOPPER, "bfq"), cell(HOPPER, "dql"))
    assert "In the last line the mean" not in markdown(pair)
    assert "In the last line the mean of the differences, with a 95% interval" in markdown(more)
    single = outcome(*(cell(CHEETAH, name, (60.0,)) for name in ("bfq", "dql")))
    assert "95%" not in markdown(single)


def captions(made):
    return {each.file: each.caption for each in figures(made, Path("nowhere"))}


def test_captions_are_of_what_is_drawn():
    sweep = [cell(CHEETAH, "bfq"), cell(CHEETAH, "bfq")]
    for each, ratio in zip(sweep, (1.0, 0.5), strict=True):
        each.provenance["members"] = [
            {"seed": k, "overrides": {"boundary_ratio": ratio}} for k in range(3)
        ]
    cells = [replace(each, column=name) for each, name in zip(sweep, ("1", "0.5"), strict=True)]
    assert captions(outcome(*cells, name="lambda"))["ablation.png"].endswith("Dashed: the paper's.")
    assert "Dashed" not in captions(outcome(*cells, name="lambda", quick=True))["ablation.png"]
    bars = outcome(cell(CHEETAH, "bfq"))
    assert captions(bars)["scores.png"].endswith("Hollow: the paper's.")
    assert "Hollow" not in captions(replace(bars, experiment=EXPERIMENTS["switches"]))["scores.png"]
    assert captions(bars)["learning_curves.png"].endswith("Dashed: mean of the data.")
    without = cell(CHEETAH, "bfq", (60.0,))
    without.provenance["data"]["normalized_mean"] = None
    found = captions(outcome(without))
    assert found["learning_curves.png"] == "Line: one seed, along training."
    assert found["scores.png"] == "Bar: one seed. Hollow: the paper's."


def test_pictures_have_headings_of_their_own():
    made = outcome(*(cell(row, "bfq") for row in EXPERIMENTS["main"].rows))
    titles = {each.file: each.title for each in figures(made, Path("nowhere"))}
    assert titles == {
        "scores.png": "Scores",
        "radar.png": "All tasks at once",
        "learning_curves.png": "Learning curves",
    }


@pytest.mark.parametrize(("count", "round_"), [(2, False), (3, True)])
def test_few_tasks_are_no_round(count, round_):
    made = outcome(*(cell(row, "bfq") for row in EXPERIMENTS["main"].rows[:count]))
    assert ("radar.png" in captions(made)) == round_


def test_one_task_is_no_profile():
    pair = [cell(CHEETAH, "bfq"), cell(CHEETAH, "dql")]
    assert "profiles.png" not in captions(outcome(*pair))
    more = outcome(*pair, cell(HOPPER, "bfq"), cell(HOPPER, "dql"))
    assert captions(more)["profiles.png"].endswith(f"Rows: {CHEETAH}, {HOPPER}.")


def test_protocols_say_whose_they_are():
    cells = [cell(row, name) for row in (CHEETAH, HOPPER) for name in ("bfq", "dql")]
    cells[2].provenance["evaluations"]["protocol"]["candidates"] = 7  # bfq's, on the second row
    for each in cells:
        each.provenance["reference"] = {
            "low": -1.5 if each.row == HOPPER else 0,
            "high": 9,
            "source": "x",
        }
        each.readings[0].record["scores"]["normalized"] = [1.0, 2.0, 3.0]
    made = outcome(*cells)
    first, second, low, high = protocols(made, told_runs(made))
    assert first.startswith(f"dql; bfq on {CHEETAH}: Each seed ran 50 episodes")
    assert second.startswith(f"bfq on {HOPPER}: Each seed")
    assert "of 7 candidates" in second
    assert low == f"{CHEETAH}: A normalized score of 0 is a return of 0, 100 is 9 (x)."
    assert high == f"{HOPPER}: A normalized score of 0 is a return of −1.5, 100 is 9 (x)."
    alone, scale = protocols(outcome(cells[0]), told_runs(outcome(cells[0])))
    assert alone.startswith("Each seed")
    assert scale.startswith("A normalized score")


def test_data_that_methods_change_in_their_own_ways_says_whose_they_are():
    one, two = cell(CHEETAH, "bfq"), cell(CHEETAH, "iql")
    one.provenance["transforms"] = {**TRANSFORMS, "observations": "standardize"}
    two.provenance["transforms"] = {**TRANSFORMS, "observations": "none"}
    page = page_of(outcome(one, two), [])
    assert "iql: unchanged; bfq: standardized" in page
    assert "<td>standardized</td>" in page_of(outcome(one), [])


# Drawn from result.json alone.


def test_pages_are_drawn_without_any_run_folder(tmp_path):
    made = outcome(cell(CHEETAH, "bfq"), cell(CHEETAH, "dql", day=2), cell(HOPPER, "bfq"))
    folder = write(made, tmp_path / "results" / "main")
    (folder / file_of(made.at(CHEETAH, "bfq"))).write_bytes(PNG)
    (folder / "frames-halfcheetah-medium-v2-bfq-old.png").write_bytes(PNG)
    merge.merge(folder)
    files = {path.name for path in folder.iterdir()}
    assert {"learning_curves.png", "scores.png", "table.md", "index.html"} < files
    page = (folder / "index.html").read_text()
    assert "The beginning of the first episode of bfq, seed 0" in page
    assert f"{HOPPER}, bfq: its run is not on this machine." in page
    assert f"{CHEETAH}, bfq: its run" not in page
    assert "frames-halfcheetah-medium-v2-bfq-old.png" not in files  # of a run that no cell is of
    assert "NVIDIA H200" in page
    assert "Each seed ran 50 episodes with the last checkpoint." in page


def test_a_run_is_told_by_all_its_cells():
    """The values of a sweep are members of one run; two ways of acting are the same members."""
    one, two = (cell(CHEETAH, "bfq", (value, value)) for value in (1.0, 2.0))
    for each, ratio in ((one, 1.0), (two, 0.5)):
        each.provenance["members"] = [{"seed": k, "overrides": {"eta": ratio}} for k in range(2)]
    made = Outcome(EXPERIMENTS["eta"], (), (replace(one, column="1"), replace(two, column="0.5")))
    (run,) = told_runs(made)
    assert [(m.seed, m.overrides["eta"]) for m in run.members] == [
        (0, 1.0),
        (1, 1.0),
        (0, 0.5),
        (1, 0.5),
    ]
    assert [(row.step, row.metrics["return"]) for row in run.rows] == [
        (500, [10.0, 11.0, 10.0, 11.0]), (1000, [11.0, 12.0, 11.0, 12.0]),
    ]  # fmt: skip
    acting = Outcome(
        EXPERIMENTS["ogbench"], (), (replace(one, column="sorl-8"), replace(one, column="sorl-1"))
    )
    assert [len(run.members) for run in told_runs(acting)] == [2]


def test_cells_of_old_have_no_curves_and_are_drawn_all_the_same():
    old = cell(CHEETAH, "bfq")
    del old.provenance["evaluations"]
    made = outcome(old, cell(CHEETAH, "dql"))
    assert [len(run.rows) for run in told_runs(made)] == [2, 0]
    assert "learning_curves.png" in [each.file for each in figures(made, Path("nowhere"))]


def test_all_experiments_are_on_one_page(tmp_path):
    results = tmp_path / "results"
    write(outcome(cell(HOPPER, "bfq"), name="switches"), results / "switches")
    (results / "eta").mkdir()
    (results / "eta" / "result.json").write_text("{")
    folder = write(outcome(cell(CHEETAH, "bfq"), cell(HOPPER, "bfq")), results / "main")
    (folder / file_of(cell(CHEETAH, "bfq"))).write_bytes(PNG)
    merge.merge(folder)
    page = (results / "index.html").read_text()
    assert re.findall('<section id="([a-z]+)"', page) == ["main", "switches"]
    assert "eta: " in page  # told, and in nobody's way
    assert 'href="main/index.html"' in page
    assert ">62.0<small>" in page
    assert "The beginning of the first episode of bfq, seed 0" in page
    assert page.count("<img") == 1 + sum(
        name.stem in ("radar", "scores", "learning_curves") for name in folder.glob("*.png")
    )


def test_a_quick_run_is_not_on_the_page_of_all(tmp_path):
    folder = write(outcome(cell(CHEETAH, "bfq"), quick=True), tmp_path / "main-quick")
    merge.merge(folder)
    assert (folder / "index.html").exists()
    assert not (tmp_path / "index.html").exists()


# Merging.


def test_a_command_given_again_elsewhere_is_told_as_it_was_there(tmp_path):
    new, old = cell(CHEETAH, "bfq", (70.0, 71.0), day=3), cell(CHEETAH, "bfq", day=2)
    ours = write(outcome(old), tmp_path / "results" / "main")
    there = write(outcome(new), tmp_path / "there" / "main")
    told = json.loads((there / "result.json").read_text())
    (there / "result.json").write_text(json.dumps({**told, "seconds": 987.0}))
    merge.merge(ours, [there])
    assert [call["seconds"] for call in read_outcome(ours).calls] == [987.0]


def test_of_one_date_the_last_named_stands_and_empty_cells_replace_nothing(tmp_path):
    first, second = cell(CHEETAH, "bfq"), cell(CHEETAH, "bfq", (1.0, 2.0))
    places = [tmp_path / name / "main" for name in "abc"]
    for made, place in zip(
        (first, second, Cell(CHEETAH, "bfq", "failed", "why")), places, strict=True
    ):
        write(outcome(made), place)
    new = tmp_path / "results" / "main"
    assert len(merge.merge(new, places)) == 2
    assert read_outcome(new).cells == (second,)


def test_other_experiments_are_not_merged(tmp_path):
    ours = write(outcome(cell(CHEETAH, "bfq")), tmp_path / "results" / "main")
    before = (ours / "result.json").read_bytes()
    quick = write(outcome(cell(CHEETAH, "bfq"), quick=True), tmp_path / "there" / "main-quick")
    with pytest.raises(BadInput, match="holds the experiment main-quick and not main"):
        merge.merge(ours, [quick])
    with pytest.raises(BadInput, match="there is no file"):
        merge.merge(ours, [tmp_path / "nowhere"])
    assert (ours / "result.json").read_bytes() == before
    assert [path.name for path in ours.iterdir()] == ["result.json"]


def test_a_lock_of_results_that_is_no_plain_file_is_refused_and_left_alone(tmp_path):
    (tmp_path / "precious").write_text("kept")
    results = tmp_path / "results"
    results.mkdir()
    for make in (lambda lock: lock.symlink_to("../precious"), os.mkfifo):
        make(results / ".lock")
        with pytest.raises(BadInput, match="not a plain file"), alone(results):
            pass
        assert (tmp_path / "precious").read_text() == "kept"
        (results / ".lock").unlink()


# Results that may be anybody's.


@pytest.mark.parametrize("link", [True, False])
@pytest.mark.parametrize("name", ["main", "toy"])
def test_what_is_no_picture_is_not_taken(name, link, tmp_path):
    """Neither by merging nor by drawing: a link may lead anywhere."""
    secret = tmp_path / "secret"
    secret.write_bytes(PNG if link else b"secret")
    told = {"run": "elsewhere/x", "versions": {}}
    timed = Cell(
        "energy distance", "bfq-1", "done", "", "", (Reading("energy distance", (1.0,)),), told
    )
    first = cell(CHEETAH, "bfq") if name == "main" else timed
    there = write(outcome(first, name=name), tmp_path / "there" / name)
    file = file_of(first) if name == "main" else "toy.png"
    if link:
        (there / file).symlink_to("../../secret")
    else:
        (there / file).write_bytes(secret.read_bytes())
    ours = tmp_path / "results" / name
    assert len(merge.merge(ours, [there])) == 1
    merge.merge(there)
    encoded = base64.b64encode(secret.read_bytes()).decode()
    for folder in (ours, there):
        assert encoded not in (folder / "index.html").read_text()
    assert not (ours / file).exists()


def changed(path, change):
    """A file of results in which something of the first cell is another."""
    told = json.loads(path.read_text())
    change(told["cells"][0])
    path.write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("main", {"agent": "newer_agent"}, "cell 0: unknown agent 'newer_agent'"),
        ("eta", {"column": "five"}, "the column 'five' is no value of η"),
        ("eta", {"column": "inf"}, "the column 'inf' is no value of η"),
        ("eta", {"column": "nan"}, "the column 'nan' is no value of η"),
        ("main", {"train_seconds": 1e30}, "has a number that is none of a score or a time"),
        ("main", {"readings": [{"name": "N = 1", "values": [1e300]}]}, "has a number that is none"),
        (
            "main",
            {"readings": [{"name": "N = 1", "values": [1.0], "scores": 5}]},
            "'scores' cannot be a int",
        ),
        (
            "main",
            {"readings": [{"name": "N = 1", "values": [1.0], "scores": {"return": [1.0]}}]},
            "for 3 memb",
        ),
        (
            "main",
            {"readings": [{"name": "N = 1", "values": [1.0], "scores": {"success": [0, 1, 2]}}]},
            "is none",
        ),
        ("main", {"config": json.loads("[" * 50 + "]" * 50)}, "is nested too deeply"),
    ],
)
def test_a_merge_that_is_refused_writes_nothing(
    name, change, sentence, tmp_path, monkeypatch, capsys
):
    column = "5" if name == "eta" else "bfq"
    good = cell(CHEETAH, column)
    good = replace(good, provenance={**good.provenance, "agent": "bfq"})
    ours = write(outcome(good, name=name), tmp_path / "results" / name)
    there = write(outcome(good, name=name), tmp_path / "there" / name)
    changed(there / "result.json", lambda first: first.update(change, finished="2031"))
    before = (ours / "result.json").read_bytes()
    monkeypatch.setattr("sys.argv", ["merge", str(ours), str(there)])
    assert merge.main() == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == {"result.json": before}


def test_what_cannot_be_drawn_replaces_no_numbers(tmp_path, monkeypatch):
    ours = write(outcome(cell(CHEETAH, "bfq")), tmp_path / "results" / "main")
    there = write(outcome(cell(CHEETAH, "bfq", (1.0, 2.0), day=2)), tmp_path / "there" / "main")
    before = (ours / "result.json").read_bytes()
    monkeypatch.setattr("bfq_paper.shown.figures.figures", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        merge.merge(ours, [there])
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == {"result.json": before}


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "1" + "0" * 400, "-" + "9" * 19, "NaN", "Infinity"]
)
def test_numbers_that_cannot_be_reckoned_with_are_refused(number, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(f'{{"a": [1, -2.5, 3e5, {10**18}], "b": {number}}}')
    with pytest.raises(BadInput, match="is not a finite number") as trouble:
        read_json(path)
    assert len(str(trouble.value)) < 200 + len(str(path))
    path.write_text(path.read_text().replace(number, "0"))
    assert read_json(path) == {"a": [1, -2.5, 3e5, 10**18], "b": 0}


def test_words_that_no_figure_knows_are_drawn(tmp_path):
    """Lone halves of letters, and numbers of steps that are none."""
    odd = [
        replace(cell(CHEETAH, "bfq"), unit="\ud800"),
        cell("\ud800", "bfq"),
        cell(HOPPER, "bfq-²"),
    ]
    odd = [replace(each, provenance={**each.provenance, "agent": "bfq"}) for each in odd]
    assert figures(outcome(*odd), tmp_path)
    told = {"run": "runs/x", "versions": {}}
    columns = ("fql-²", "fql-0", f"fql-{'9' * 400}", "fql-5")
    timed = [
        Cell("frequency", c, "done", "", "Hz", (Reading("Hz", (9.0,)),), told) for c in columns
    ]
    assert [each.file for each in figures(outcome(*timed, name="efficiency"), tmp_path)] == [
        "frequency.png"
    ]


def test_names_of_candidates_that_are_no_numbers_have_their_place():
    names = ("N = 50", "N = 7", "N = ²", f"N = {'9' * 5000}")
    made = cell(CHEETAH, "bfq")
    readings = tuple(replace(made.readings[0], name=name) for name in names)
    assert "N = ²" in markdown(outcome(replace(made, readings=readings)))


def test_a_source_that_tells_more_is_read(tmp_path):
    folder = write(outcome(cell(CHEETAH, "bfq")), tmp_path / "results" / "main")
    changed(folder / "result.json", lambda first: first["source"].update(more=1))
    told = json.loads((folder / "result.json").read_text())
    told["sources"][0]["more"] = 1
    (folder / "result.json").write_text(json.dumps(told))
    (source,) = read_outcome(folder).sources_of(CHEETAH)
    assert source.kind == "local"
    merge.merge(folder)


INJECTED = "x` | <img src=x onerror=alert(1)> ` <!-- end --> [a](javascript:b) \n\n# y"


def plain_text(text):
    """Markdown without what is escaped, and without what stands between backticks."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"\\.", "", text))
