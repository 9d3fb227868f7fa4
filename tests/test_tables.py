"""Files of a user's own: formats, column names, kinds of end, action ranges, and the page about them."""

import gzip
import re
import runpy
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.defect_names import name_of

from bfq.cli.main import main
from bfq.data.arrays import from_arrays, from_episodes
from bfq.data.checks import mark_ends
from bfq.data.ranges import complete_range
from bfq.data.readers import delimited
from bfq.data.readers.tables import read_table
from bfq.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not on this machine")
EPISODES, LENGTH = 5, 8
N = EPISODES * LENGTH


def log(**changes):
    """Five episodes of eight rows, the last one terminated; numbers that survive a CSV file."""
    rng = np.random.default_rng(0)
    made = {
        "observations": rng.normal(size=(N, 12)),
        "actions": rng.uniform(-1, 1, (N, 2)),
        "rewards": rng.normal(size=N),
        "terminals": np.arange(N) == N - 1,
        "timeouts": (np.arange(N) % LENGTH == LENGTH - 1) & (np.arange(N) < N - 1),
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def write_csv(path, columns, separator=",", mark="", words=str, newline="\n"):
    """A table with numbered columns for matrices."""
    flat = {}
    for name, values in columns.items():
        values = np.asarray(values)
        numbered = {f"{name}_{k}": column for k, column in enumerate(values.T)}
        flat |= {name: values} if values.ndim == 1 else numbered
    rows = [separator.join(map(words, row)) for row in zip(*flat.values(), strict=True)]
    content = (mark + newline.join([separator.join(flat), *rows, ""])).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(params=["pyarrow", "numpy"])
def reader(request, monkeypatch):
    """Both readers of CSV files."""
    if request.param == "numpy":
        monkeypatch.setattr(delimited, "has_pyarrow", lambda: False)
    return request.param


@pytest.mark.parametrize("style", [
    {}, {"separator": ";"}, {"separator": "\t"}, {"mark": "\ufeff"}, {"newline": "\r\n"},
    {"ending": ".csv.gz"},
    {"words": lambda value: f'"{value}"'}, {"words": lambda value: f" {value}"},
])  # fmt: skip
def test_a_csv_file_gives_what_its_arrays_give(tmp_path, reader, style):
    style = dict(style)
    path = write_csv(tmp_path / f"log{style.pop('ending', '.csv')}", log(), **style)
    data = read_table(path)
    assert data.sha256 == from_arrays(**log()).sha256
    assert data.name == "log"
    assert data.observation_dim == 12  # obs_10 comes after obs_9, not after obs_1
    assert all(name_of(note) == "unseen-successor" for note in data.notes)


def test_pyarrow_reads_the_usual_file_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(np, "loadtxt", lambda *_: pytest.fail("the slow reader was used"))
    ids = [f"run {k // LENGTH}" for k in range(N)]
    read_table(write_csv(tmp_path / "log.csv", {**log(), "episode": ids}))


def test_words_can_be_ids_and_flags_and_no_column_need_be_numbered(tmp_path, reader):
    given = log()
    ids = np.repeat(["anna", "bert", "carl", "dora", "emil"], LENGTH)
    columns = {
        "operator": ids, "speed": given["rewards"] + 3, "heat": given["rewards"] * 2,
        "push": given["actions"][:, 0], "gain": given["rewards"], "broken": given["terminals"],
    }  # fmt: skip
    path = write_csv(tmp_path / "log.csv", columns)
    mapping = {"observations": "speed+heat", "actions": "push", "rewards": "gain"}
    mapping |= {"terminals": "broken", "episode_ids": "operator"}
    data = read_table(path, mapping)
    seen = np.stack([columns["speed"], columns["heat"]], 1)
    push, gain = columns["push"], columns["gain"]
    expected = from_arrays(seen, push, gain, given["terminals"], episode_ids=ids)
    assert data.sha256 == expected.sha256
    assert data.sha256 == read_table(path, {**mapping, "observations": ["speed", "heat"]}).sha256
    assert (data.masks == 0).tolist() == [False] * (len(data) - 1) + [True]
    assert data.episode_ends.sum() == EPISODES
    only = read_table(path, {**mapping, "observations": "speed", "terminals": "none"})
    assert only.observation_dim == 1  # one column of a table is still a matrix
    assert only.masks.all()
    assert any("Columns not used: heat, broken." in note for note in only.notes)


@pytest.mark.parametrize("ending", [".npz", ".hdf5", ".h5", ".parquet"])
def test_other_formats_give_what_their_arrays_give(tmp_path, ending):
    given = log(next_observations=np.random.default_rng(1).normal(size=(N, 12)))
    path = tmp_path / f"log{ending}"
    if ending == ".npz":
        np.savez(path, **given)
    elif ending == ".parquet":
        lists = {name: value.tolist() for name, value in given.items()}
        flat = given["observations"].ravel()
        lists["observations"] = pyarrow.FixedSizeListArray.from_arrays(flat, 12)
        pyarrow.parquet.write_table(pyarrow.table(lists), path)
    else:
        with h5py.File(path, "w") as file:
            for name, value in given.items():
                file[name] = value
    assert read_table(path).sha256 == from_arrays(**given).sha256


def test_parquet_columns_may_be_numbered_words_or_decimals(tmp_path):
    given = log(terminals=None, timeouts=None)
    columns = {f"obs_{k}": column for k, column in enumerate(given["observations"].T)}
    columns |= {"act": given["actions"][:, 0], "rew": pyarrow.array([f"{k}.5" for k in range(N)]).cast(
        pyarrow.decimal128(8, 2)), "episode": pyarrow.array(["a"] * LENGTH + ["b"] * (N - LENGTH)
        ).dictionary_encode()}  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    data = read_table(tmp_path / "log.parquet")
    assert data.episode_ends.sum() == 2
    np.testing.assert_array_equal(data.rewards[:3], [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(data.observations[0], given["observations"][0].astype(np.float32))


def test_common_names_are_recognized_and_reported(tmp_path):
    given = log(terminals=None, timeouts=None)
    names = {"state": "observations", "Action": "actions", "REW": "rewards", "terminated": "terminals",
             "truncated": "timeouts", "next_state": "next_observations"}  # fmt: skip
    whole = {**given, **log(), "next_observations": np.roll(given["observations"], -1, 0)}
    np.savez(tmp_path / "log.npz", **{theirs: whole[ours] for theirs, ours in names.items()})
    data = read_table(tmp_path / "log.npz")
    assert data.sha256 == from_arrays(**whole).sha256
    for theirs, ours in names.items():
        assert f"{theirs} as {ours}" in data.notes[0]
    ours_first = {**whole, "state": np.zeros(3), "obs": np.zeros(3)}
    np.savez(tmp_path / "both.npz", **ours_first)
    assert read_table(tmp_path / "both.npz").sha256 == data.sha256  # our own name needs no deciding


@pytest.mark.parametrize(("mapping", "words"), [
    ({"observatoins": "observations_"}, "did you mean 'observations'"),
    ({"rewards": "rewrads"}, "did you mean 'rewards'"),
    ({"rewards": "none"}, "has no rewards: it holds observations_0"),
    ({"actions": "F_", "rewards": "gain"}, "numbered columns only .such as obs_0, obs_1.; F_x, F_y begin"),
    ({"actions": "F_x+F_y", "rewards": "gai"}, "did you mean 'gain'"),
])  # fmt: skip
def test_a_mapping_that_cannot_be_is_refused_with_the_nearest_name(tmp_path, mapping, words):
    more = dict.fromkeys(("F_x", "F_y", "gain"), log()["rewards"])
    path = write_csv(tmp_path / "log.csv", {**log(), **more})
    with pytest.raises(BadInput, match=words):
        read_table(path, mapping)
    with pytest.raises(BadInput, match="there is no file"):
        read_table(tmp_path / "absent.csv")


def test_columns_are_listed_in_the_order_of_the_file_and_repeated_ones_refused_first(tmp_path):
    names = [f"{letter}x" for letter in "zyxwvutsrqponmlkjihgf"]
    path = write_csv(tmp_path / "log.csv", {name: [0.5, 1.5] for name in names})
    with pytest.raises(BadInput, match=f"it holds {', '.join(names[:20])} and 1 more: "):
        read_table(path)
    path.write_text("obs_0,act,gain,heat,heat,\n1,0.5,2,3,4,\n")
    with pytest.raises(BadInput, match="several columns have the name heat") as raised:
        read_table(path, {"rewards": "profit"})
    assert name_of(raised.value) == "column-twice"


def test_common_names_stand_for_our_words_in_a_mapping(tmp_path):
    given = log()
    words = ("seen", "F", "gain", "out", "cut")
    path = write_csv(tmp_path / "log.csv", dict(zip(words, given.values(), strict=True)))
    mapping = {"obs": "seen_", "acts": "F_", "rew": "gain", "truncated": "cut", "terminated": "out"}
    assert read_table(path, mapping).sha256 == from_arrays(**given).sha256
    with pytest.raises(BadInput, match="names observations twice: state means the same"):
        read_table(path, {**mapping, "state": "gain"})


@pytest.mark.parametrize(("number", "defect", "what"), [
    (np.nan, "nan", "NaN"), (-np.inf, "infinite", "an inf"),
])  # fmt: skip
def test_a_number_that_is_not_finite_has_its_line_noted(tmp_path, reader, number, defect, what):
    given = log()
    given["actions"][[3, 5], 0] = number
    path = write_csv(tmp_path / "log.csv", given)
    where = r"line 5 of log.csv \(row 3, 2 rows in all, counted from 0\)"
    with pytest.raises(BadInput, match=f"{where} holds {what}.* for actions_0: ") as raised:
        read_table(path)
    assert name_of(raised.value) == defect


def lengths_to_flags(*lengths):
    flags = np.zeros(sum(lengths), bool)
    flags[np.cumsum(lengths) - 1] = True
    return flags


@pytest.mark.parametrize(("lengths", "timeouts"), [
    ([199, 199, 199], [0, 1, 2]),  # all the same: cut off
    ([50, 30, 50, 44, 50, 12], [0, 2, 4]),  # half at the limit: these were cut off, the others fell
    ([50, 30, 49, 44, 47, 12], []),  # no limit to be seen
    ([5, 3, 5, 4, 5, 2], []),  # short ones agree by chance
    ([1, 1, 1, 1], []),  # a bandit: nothing follows
    ([40], [0]),
])  # fmt: skip
def test_done_alone_is_sorted_into_terminals_and_time_outs(lengths, timeouts):
    done = lengths_to_flags(*lengths)
    terminal, timeout, notes = mark_ends(len(done), {"dones": done})
    ends = np.flatnonzero(done)
    assert np.flatnonzero(timeout).tolist() == ends[timeouts].tolist()
    assert (timeout ^ terminal).tolist() == done.tolist()
    assert "--columns terminals=" in notes[0]


def test_done_beside_another_flag_is_the_other_kind():
    done, some = lengths_to_flags(4, 4, 4), lengths_to_flags(4, 8)
    some[-1] = False
    terminal, _, _ = mark_ends(12, {"dones": done, "timeouts": some})
    assert np.flatnonzero(terminal).tolist() == [7, 11]
    _, timeout, notes = mark_ends(12, {"dones": done, "terminals": some})
    assert np.flatnonzero(timeout).tolist() == [7, 11]
    assert notes == []


def test_ids_lengths_and_starts_say_the_same():
    given = log(terminals=None, timeouts=None)
    starts = np.arange(N) % LENGTH == 0
    kinds = {
        "episode_ids": np.repeat([3, 1, 7, 0, 9], LENGTH), "episode_lengths": [LENGTH] * EPISODES,
        "episode_starts": starts, "timeouts": np.roll(starts, -1),
    }  # fmt: skip
    assert len({from_arrays(**given, **{kind: mark}).sha256 for kind, mark in kinds.items()}) == 1


@pytest.mark.parametrize(("actions", "low", "high"), [
    ([[-1.0], [0.7]], [-1], [1]),
    ([[-0.3], [1.00005]], [-1], [1]),  # rounding
    ([[-1.999997], [2.0]], [-2], [2]),
    ([[-1.8], [2.0]], [-2], [2]),  # nearly the same on both sides
    ([[0.003], [0.998]], [0], [1]),  # never negative, so ±1 is not its range
    ([[-0.045], [0.05]], [-0.05], [0.05]),  # a small part of ±1
    ([[0.0, -37.2], [3.0, 12.0]], [0, -38], [3, 12]),
    ([[-5.0, 2.0], [5.0, 2.0]], [-5, 1], [5, 3]),  # a dimension that never moves
])  # fmt: skip
def test_a_range_that_is_not_given_is_taken_from_the_data(actions, low, high):
    lows, highs, remark = complete_range(np.array(actions), None, None)
    np.testing.assert_allclose(lows, low, rtol=1e-6)
    np.testing.assert_allclose(highs, high, rtol=1e-6)
    assert bool(remark) == ((list(low), list(high)) != ([-1], [1]))


@pytest.mark.parametrize(("given", "missing"), [
    ((None, None), "The range"),
    ((-50.0, None), "The action_high"),
    ((None, [40, 50, 60]), "The action_low"),
    (([-40, -20, -40], None), "The action_high"),
])  # fmt: skip
def test_a_bound_that_is_missing_is_taken_from_the_data_and_noted(given, missing):
    reach = np.array([40.0, 20.0, 40.0])
    low, high, (sentence,) = complete_range(np.stack([-reach, reach]), *given)
    np.testing.assert_array_equal(low, -reach if given[0] is None else np.broadcast_to(given[0], 3))
    np.testing.assert_array_equal(high, reach if given[1] is None else np.broadcast_to(given[1], 3))
    assert sentence.startswith(f"{missing} of the actions was not given.")


def test_a_range_is_the_users_then_the_files_then_the_datas(tmp_path):
    wide = log(actions=2.5 * log()["actions"])
    np.savez(tmp_path / "log.npz", **wide)
    taken = read_table(tmp_path / "log.npz")
    np.testing.assert_allclose(taken.action_high, [2.5, 2.5])
    assert any("--action-low" in note for note in taken.notes)
    given = read_table(tmp_path / "log.npz", action_low=-3, action_high=[3, 4])
    np.testing.assert_array_equal(given.action_high, [3, 4])
    assert not any("--action-low" in note for note in given.notes)
    np.savez(tmp_path / "log.npz", **wide, action_low=-5.0, action_high=[5.0, 6.0])
    np.testing.assert_array_equal(read_table(tmp_path / "log.npz").action_high, [5, 6])
    with pytest.raises(BadInput, match="leave their range"):
        read_table(tmp_path / "log.npz", action_low=-1, action_high=1)
    for wrong in ([-50, -50, -50], [-50]):
        with pytest.raises(BadInput, match="action_low has .*, but an action has 2 numbers"):
            read_table(tmp_path / "log.npz", action_low=wrong)


def test_from_episodes_is_from_arrays(tmp_path):
    rng = np.random.default_rng(0)
    parts = [
        {"observations": rng.normal(size=(T + 1, 3)), "actions": rng.uniform(-1, 1, (T, 1)),
         "rewards": rng.normal(size=T), "terminated": ended}
        for T, ended in ((4, False), (7, True), (3, False))
    ]  # fmt: skip
    data = from_episodes(parts, action_low=-2, name="three")
    assert data.episode_ends.nonzero()[0].tolist() == [3, 10, 13]
    assert (data.masks == 0).nonzero()[0].tolist() == [10]
    after = parts[0]["observations"][4].astype(np.float32)
    np.testing.assert_array_equal(data.next_observations[3], after)
    assert (data.name, data.action_low.tolist()) == ("three", [-2.0])
    cut = [{**part, "observations": part["observations"][:-1]} for part in parts]
    cut[1] = {**cut[1], "terminals": np.arange(7) == 6}
    del cut[1]["terminated"]
    short = from_episodes(cut)
    assert len(short) == 14 - 2  # the last rows of the two that were cut off have no successor
    np.testing.assert_array_equal(short.rewards, np.delete(data.rewards, [3, 13]))


@pytest.mark.parametrize(("change", "defect"), [
    ({"observations": np.zeros((3, 3))}, "different-lengths"),
    ({"observations": np.zeros((7, 3))}, "different-lengths"),  # the first has one more than its actions
    ({"observations": np.zeros((8, 4))}, "mixed-widths"),
    ({"rewards": np.zeros(6)}, "different-lengths"),
    ({"terminals": np.zeros(8)}, "different-lengths"),
    ({"actions": np.zeros((0, 1)), "rewards": [], "observations": np.zeros((1, 3))}, "no-rows"),
    ({"rewards": None}, "missing-column"),
    ({"reward": 1.0}, None),
])  # fmt: skip
def test_episodes_that_do_not_fit_are_refused_by_their_number(change, defect):
    good = {"observations": np.ones((8, 3)), "actions": np.zeros((7, 1)), "rewards": np.zeros(7)}
    bad = {name: value for name, value in {**good, **change}.items() if value is not None}
    with pytest.raises(BadInput, match="episode 1") as raised:
        from_episodes([good, bad])
    assert name_of(raised.value) == defect
    with pytest.raises(BadInput, match="no episode"):
        from_episodes([])


def test_damaged_files_are_refused_in_a_sentence(tmp_path, reader):
    rng = np.random.default_rng(0)
    write_csv(tmp_path / "log.csv.gz", log())
    write_csv(tmp_path / "log.csv", log())
    lists = {name: list(value) for name, value in log().items()}
    pyarrow.parquet.write_table(pyarrow.table(lists), tmp_path / "log.parquet")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file.update(log())
    for name in ("log.csv.gz", "log.parquet", "log.csv", "log.h5"):
        content, refused = (tmp_path / name).read_bytes(), 0
        for _ in range(25):
            broken = bytearray(content)
            for at in rng.integers(0, len(broken), 8):
                broken[at] = rng.integers(256)
            path = tmp_path / f"broken-{name}"
            path.write_bytes(broken[: rng.integers(1, len(broken))])
            try:
                read_table(path)
            except BadInput:  # and nothing else
                refused += 1
        assert refused > 0, name


@shared
def test_a_third_partys_pendulum_log_goes_in_as_it_is():
    data = read_table(SHARED / "logged" / "pendulum_replay_v1.1.0.npz")
    assert (len(data), len(data.episode_returns)) == (99_500, 500)
    assert data.masks.all()  # a pendulum never terminates
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([-2.0], [2.0])
    notes = " ".join(data.notes)
    assert "obs as observations, new_obs as next_observations" in notes
    assert "500 of 500, at the longest length, count as time-outs" in notes
    # Its next observations at the 199th step are those of the next episode's start, which is reported.
    assert [name_of(note) for note in data.notes if name_of(note)] == ["next-from-another-episode"]
    forced = read_table(SHARED / "logged" / "pendulum_replay_v1.1.0.npz", {"terminals": "dones"})
    assert (forced.masks == 0).sum() == 500
    assert "terminals-at-time-limit" in map(name_of, forced.notes)


@shared
def test_human_demonstrations_with_episode_lengths_go_in():
    data = read_table(SHARED / "logged" / "door_human_demos.npz")
    assert (len(data), len(data.episode_returns)) == (6729 - 25, 25)
    assert data.masks.all()
    assert (data.actions >= data.action_low).all()
    assert (data.actions <= data.action_high).all()


@shared
def test_genuine_files_raise_no_false_alarm():
    usual = {f"constant-{name}" for name in ("observations", "actions", "rewards")}
    usual |= {None, "unseen-successor"}
    for path in sorted((SHARED / "d4rl_files").glob("*.hdf5")):
        found = {name_of(note) for note in read_table(path).notes} - usual
        # AntMaze marks every row at the goal, while the log goes on.
        at_goal = path.name == "antmaze-medium-diverse-v0.hdf5"
        assert found <= ({"one-row-episodes"} if at_goal else set()), path


def test_the_example_of_the_page_learns_what_the_operators_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["own_data.py", "--agent", "bc", "--steps", "300"])
    runpy.run_path(str(ROOT / "examples" / "own_data.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "5,504 transitions, 60 episodes" in printed
    cold, right, hot = (float(power) for power in re.findall(r"power (\d\.\d+)", printed))
    assert cold > right > hot
    page = (ROOT / "docs" / "your-own-data.md").read_text()
    head = "\n".join((tmp_path / "oven.csv").read_text().splitlines()[:3])
    assert head in page  # the page shows the very log that the example makes
    command = re.search(r"^bfq (data import .*?)\nbfq", page, re.DOTALL | re.MULTILINE)[1]
    assert main(command.replace("\\\n", " ").split()) == 0
    assert "5,504" in capsys.readouterr().out
