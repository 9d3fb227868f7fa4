"""The paper's numbers against a sample typed in a second time, its averages, and the names used here."""

import pytest

from bfq.agents.registry import agent_names
from bfq.tasks.catalog import PAPER as TASKS
from bfq_paper.published import PAPER, Note, PaperNumber, read_tables

SCORES = ("main", "full", "ogbench")  # the tables of scores by task and agent

LOCOMOTION = "Average (MuJoCo)"
ANTMAZE = "Average (AntMaze)"

# Typed from the paper, row by row, in its order of columns; what stands behind a ± follows a slash.
SAMPLE = {
    "main": {
        "halfcheetah-medium-expert-v2": "60.2/13.2 91.5/15.8 88.3/2.8 95.8/0.1 91.3/0.6 95.5/0.1 92.2/3.0 "
        "96.5/0.9 95.2/0.4 99.8/0.1 98.6/0.1",
        "hopper-medium-v2": "52.9/0.1 56.6/9.0 61.2/6.4 72.6/0.2 70.1/2.0 96.5/1.3 95.5/2.0 81.3/5.8 "
        "103.6/0.1 74.5/0.2 103.5/0.1",
        "walker2d-medium-replay-v2": "29.0/0.5 82.5/13.6 68.3/6.4 87.0/2.6 89.1/2.4 98.2/0.1 84.6/7.1 "
        "67.8/11.8 106.2/0.6 82.1/1.2 97.5/1.2",
        LOCOMOTION: "53.8 74.9 73.2 82.4 84.1 89.0 87.1 80.0 92.5 79.2 92.8",
        "antmaze-medium-play-v2": "0.0/0.0 10.6/10.1 75.5/5.5 73.3/6.2 67.3/5.7 86.0/1.8 80.7/7.1 80.1/11.6 "
        "88.1/5.0 78.0/7.0 87.0/4.0",
        "antmaze-large-diverse-v2": "0.0/0.0 0.0/0.0 48.0/7.5 41.3/3.4 40.0/11.4 61.3/8.4 53.6/6.3 52.5/10.9 "
        "76.1/6.6 83.0/4.0 76.1/7.0",
        ANTMAZE: "0.2 4.1 60.0 50.2 59.8 81.3 73.6 65.0 84.6 79.0 83.9",
    },
    "full": {
        "walker2d-medium-expert-v2": "105.4/3.1 110.4/0.4 108.7/2.2 110.4/0.0 110.6/0.0 111.6/0.9 111.6/0.7 "
        "-1.3/0.3 114.0/2.1 109.1/1.7 113.0/0.1 100.5/0.1 113.4/0.1",
        "halfcheetah-medium-v2": "42.5/0.2 48.5/0.7 47.7/0.2 50.8/0.0 51.5/0.1 52.3/0.2 71.9/0.8 62.2/0.7 "
        "60.4/0.8 57.4/0.7 63.8/0.1 60.1/0.1 66.1/0.0",
        "walker2d-medium-v2": "72.3/3.2 83.3/7.0 78.7/4.5 86.5/0.2 86.1/0.4 86.8/0.0 84.1/0.3 86.6/7.2 "
        "84.4/4.4 77.9/2.5 87.4/0.1 72.7/0.8 91.7/0.1",
        "halfcheetah-medium-replay-v2": "34.7/1.8 44.5/0.8 42.9/1.7 44.9/0.4 46.5/0.3 47.9/0.0 62.7/0.6 "
        "47.9/0.6 51.4/3.4 48.3/0.2 51.2/0.1 51.1/0.1 52.1/0.1",
        LOCOMOTION: "53.8 74.9 73.2 82.4 84.1 89.0 89.8 52.0 87.1 80.0 92.5 79.2 92.8",
        "antmaze-large-play-v2": "0.0/0.0 0.2/0.4 38.6/4.2 33.3/1.9 48.7/4.7 83.3/2.5 0/1 0 53.6/12.5 "
        "57.3/16.4 84.0/6.1 84.0/7.0 88.5/4.8",
        "antmaze-medium-diverse-v2": "0.6/0.2 5.7/8.2 78.0/1.5 52.7/1.9 83.3/5.0 94.7/2.5 0/0 0 75.0/12.3 "
        "70.0/8.1 90.2/4.2 71.0/13.0 84.1/6.9",
        ANTMAZE: "0.2 4.1 60.0 50.2 59.8 81.3 12.3 0 73.6 65.0 84.6 79.0 83.9",
    },
    "ogbench": {
        "antmaze-large-navigate-singletask-v0": "0/0 48/9 0 42/7 1/1 70/20 24/17 93/2 93/2 0/0 80/8 91/2",
        "humanoidmaze-medium-navigate-singletask-v0": "1/0 32/7 1/1 38/19 6/2 25/8 69/19 67/4 80/8 0/0 19/12 "
        "94/3",
        "cube-single-play-singletask-v0": "3/1 85/8 96/2 80/20 12/3 24/4 16/9 99/0 82/6 0/0 97/2 90/5",
        "Average (OGBench)": "1 30 22 35 6 28 19 63 43 0 47 68",
        "pen-human-v1": "72/5 75/8 76/10 64/8 67/5 77/7 71/12 70/3 64.5/5 69/7 53/6 82/7",
        "Average (Adroit)": "62 74 70 60 65 72 76 73 69 65 64 79",
    },
    "efficiency": {
        "bfq-1": "851.2 7.8",
        "fql-1": "929.6 -",
        "fql-5": "- 7.9",
        "fql-50": "- 13.5",
        "dql-5": "238.1 11.7",
        "dql-50": "35.5 49.5",
    },
    "lambda": {
        "halfcheetah-medium-expert-v2": "80.9 96.1 98.5 94.0 -2.5",
        "halfcheetah-medium-replay-v2": "49.0 50.7 52.1 51.8 10.6",
    },
    "eta": {
        "halfcheetah-medium-expert-v2": "95.1/0.2 98.5/0.1 95.6/0.1 69.7/3.5 68.2/1.8 56.5/4.2 47.7/3.5",
        "halfcheetah-medium-v2": "50.1/0.05 58.1/0.08 60.1/0.1 65.1/0.1 66.1/0.0 63.6/0.2 59.1/0.2",
    },
    "preconditioning": {
        "halfcheetah-medium-expert-v2": "98.5/0.1 3/3.0",
        "halfcheetah-medium-v2": "66.1/0.0 14/0.3",
        "halfcheetah-medium-replay-v2": "52.1/0.1 16/0.1",
    },
    "shared_settings": {
        "learning rate": "0.0003",
        "gradient steps": "1000000",
        "Δmax": "0.001",
        "target rate": "0.005",
        "discount": "0.99",
        "discount (AntMaze-Giant, HumanoidMaze, AntSoccer)": "0.995",
    },
    "checkerboard": {
        "hidden layers": "3",
        "units in a layer": "64",
        "epochs": "100",
        "batch size": "2048",
    },
}
COLUMNS = {
    "main": "bc td3_bc iql edp idql dql srpo sorl ofql fql bfq",
    "full": "bc td3_bc iql edp idql dql cac-2 cac-1 srpo sorl ofql fql bfq",
    "ogbench": "bc iql idql cac-2 fawac fbrac ifql sorl-8 sorl-1 srpo fql bfq",
    "lambda": "1 0.75 0.5 0.25 0",
    "eta": "0.01 0.05 0.1 0.5 1 5 10",
}


def typed(text: str) -> PaperNumber | None:
    if text == "-":
        return None
    mean, *deviation = text.split("/")
    return PaperNumber(float(mean), *map(float, deviation))


def test_every_table_has_a_sample_or_is_compared_with_the_presets():
    assert set(PAPER) == {*SAMPLE, "d4rl_settings", "ogbench_settings"}


@pytest.mark.parametrize("name", SAMPLE)
def test_the_sample_agrees_and_is_a_third_of_the_table(name):
    found = PAPER[name]
    compared = 0
    for row, text in SAMPLE[name].items():
        for column, word in zip(found.columns, text.split(), strict=True):
            assert found.get(row, column) == typed(word), (row, column)
            compared += (row, column) in found.cells
    assert 3 * compared >= len(found.cells)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_in_the_papers_order(name):
    assert PAPER[name].columns == tuple(COLUMNS[name].split())


def test_rows_are_in_the_papers_order_and_averages_are_none_of_them():
    robots, sizes = ("halfcheetah", "hopper", "walker2d"), ("medium", "large")
    runs = [f"{robot}-medium{end}-v2" for end in ("-expert", "", "-replay") for robot in robots]
    mazes = [f"antmaze-{size}-{kind}-v2" for kind in ("play", "diverse") for size in sizes]
    for name in ("main", "full", "d4rl_settings"):
        assert list(PAPER[name].rows) == runs + mazes
    assert PAPER["main"].groups == {LOCOMOTION: tuple(runs), ANTMAZE: tuple(mazes)}


@pytest.mark.parametrize("name", SCORES)
def test_no_cell_of_a_score_table_is_missing(name):
    found = PAPER[name]
    assert len(found.cells) == len(found.rows) * len(found.columns)
    assert len(found.averages) == len(found.groups) * len(found.columns)


def test_the_full_table_is_the_main_one_with_cac():
    main, full = PAPER["main"], PAPER["full"]
    assert main.cells.items() <= full.cells.items()
    assert main.averages.items() <= full.averages.items()
    assert set(full.columns) - set(main.columns) == {"cac-1", "cac-2"}


# What the rows really average, where the printed average is another.
WRONG = {(LOCOMOTION, "dql"): "87.9", (LOCOMOTION, "sorl"): "75.2", (LOCOMOTION, "idql"): "83.9",
         (ANTMAZE, "srpo"): "65.7"}  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
def test_averages_agree_with_their_rows_or_a_note_says_what_they_are(name):
    found = PAPER[name]
    half = 0.5 if name == "ogbench" else 0.05  # of the last printed digit
    for (row, column), printed in found.averages.items():
        exact = found.recomputed(row, column)
        if abs(exact - printed.value) > half + 1e-9:
            right = WRONG[row, column]
            assert right == f"{exact:.1f}"
            assert any(right in note.text and note.cells for note in found.notes_on(row, column))
        else:
            assert (row, column) not in WRONG


def test_rows_of_scores_are_the_papers_tasks():
    assert {row for name in SCORES for row in PAPER[name].rows} == set(TASKS)
    for name in ("lambda", "eta", "preconditioning", "d4rl_settings", "ogbench_settings"):
        assert set(PAPER[name].rows) <= set(TASKS), name


def test_columns_of_scores_are_agents_here():
    for column in (column for name in SCORES for column in PAPER[name].columns):
        assert column.partition("-")[0] in agent_names()  # the paper prints some at several steps
    assert {row.rpartition("-")[0] for row in PAPER["efficiency"].rows} == {"bfq", "fql", "dql"}
    for name in ("d4rl_settings", "ogbench_settings"):
        assert {column.split()[0] for column in PAPER[name].columns} <= set(agent_names()), name


@pytest.mark.parametrize("name", PAPER)
def test_notes_concern_cells_that_exist(name):
    found = PAPER[name]
    for note in found.notes:
        assert note.text
        assert set(note.cells) <= found.cells.keys() | found.averages.keys()
        assert len(set(note.cells)) == len(note.cells)


def test_a_note_on_a_misspelt_cell_is_not_taken_for_one_on_the_whole_table():
    content = (
        '[t]\ntitle = ""\ncaption = ""\nunit = ""\ntable = """\n   a  b\nr  1  2±3\n"""\n'
        '[[notes]]\ntables = ["t"]\ntext = "doubtful"\ncells = [["r", "{}"]]\n'
    )
    read = read_tables(content.format("*"))["t"]
    assert read.cells == {("r", "a"): PaperNumber(1.0), ("r", "b"): PaperNumber(2.0, 3.0)}
    assert read.notes == (Note("doubtful", (("r", "a"), ("r", "b"))),)
    with pytest.raises(ValueError, match="no cell"):
        read_tables(content.format("c"))
