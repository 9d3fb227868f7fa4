"""Every named defect of the register is found in the smallest example of it, and nothing in clean data."""

import gzip
import pickle
import re
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.defect_names import name_of
from tools.data_checks_page import data_checks_page

from bfq.data.arrays import from_arrays
from bfq.data.defects import NOTED, REFUSED
from bfq.data.readers.tables import read_table
from bfq.errors import BadInput

DOCS = Path(__file__).parent.parent / "docs"
EPISODES, LENGTH = 6, 25
# A file holds no such arrays, or infers the range of actions.
ARRAYS_ONLY = {"masked-array", "not-numbers", "mixed-widths", "action-beyond-range"}
N = EPISODES * LENGTH


def clean(**changes):
    """Random walks that are cut off after 25 steps, without any defect."""
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(EPISODES, LENGTH + 1, 3)).cumsum(1)
    made = {
        "observations": walks[:, :-1].reshape(-1, 3),
        "actions": rng.uniform(-1, 1, (N, 2)),
        "rewards": rng.normal(size=N),
        "timeouts": np.arange(N) % LENGTH == LENGTH - 1,
        "next_observations": walks[:, 1:].reshape(-1, 3),
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def arrays(**changes):
    """Builds a dataset from arrays; a file of the same arrays has the same defect."""

    def build(folder):
        given = clean(**changes)
        try:
            return from_arrays(**given)
        except BadInput as refused:
            name = name_of(refused)
            if name not in ARRAYS_ONLY:
                np.savez(folder / "log.npz", **given)
                with pytest.raises(BadInput, match=rf"\[{name}\]$"):
                    read_table(folder / "log.npz")
            raise

    return build


def with_value(name, row, value):
    changed = clean()[name].copy()
    changed[row] = value
    return arrays(**{name: changed})


def file(name, content, columns=None, **settings):
    """Reads a file with that content: bytes, or a function that writes it."""

    def read(folder):
        path = folder / name
        content(path) if callable(content) else path.write_bytes(content)
        return read_table(path, columns, **settings)

    return read


HEAD = b"obs_0,obs_1,action,reward,episode\n"
GOOD = b"0.5,1.5,0.5,1,0\n0.75,2.5,-0.5,2,0\n0.25,3,1,-1,1\n0,1,0.25,3,1\n"


def table(*lines, head=HEAD, **settings):
    return file("log.csv", head + GOOD + b"".join(line + b"\n" for line in lines), **settings)


def npz(**columns):
    return file("log.npz", lambda path: np.savez(path, **columns))


def observations_counting():
    rows, made = np.arange(N) % LENGTH, clean()
    shifts = {"observations": 0, "next_observations": 1}
    return {name: np.c_[made[name], rows + shift] for name, shift in shifts.items()}


def returns():
    rewards = np.random.default_rng(1).uniform(0.5, 1.5, (EPISODES, LENGTH))
    return rewards.cumsum(1).ravel()


def joined_to_itself():
    return {name: np.concatenate([value, value]) for name, value in clean().items()}


def shifted(by):
    """Next observations that are taken from another row than the one below."""
    return np.roll(clean()["observations"], -by, axis=0)


def clocked(line):
    lines = b"t,obs_0,action,reward,episode\n1,2,0.5,1,0\n2,3,1,2,0\n" + line
    return file("log.csv", lines, {"time": "t"})


def timed(times, columns=None, **settings):
    """Clean data with times, read with `time=` or with other columns."""
    given = clean(t=times)
    return file(
        "log.npz", lambda path: np.savez(path, **given), columns or {"time": "t"}, **settings
    )


def beside_nan():
    seen = clean()["observations"].copy()
    seen[9, 1] = np.nan
    return file(
        "log.npz", lambda path: np.savez(path, **clean(observations=seen)), drop_bad_rows=True
    )


STEPS = np.arange(N) * 1.0
SHORT = clean()["timeouts"] * 1.0
# name: (what reads the example, the row its sentence names or None where no single row is at fault)
EXAMPLES = {
    "empty-file": (file("log.npz", b""), None),
    "unreadable-file": (file("log.parquet", b"PAR1 and no more"), None),
    "unknown-format": (file("log.txt", b"1 2 3"), None),
    "wrong-ending": (file("log.npz", lambda path: h5py.File(path, "w").close()), None),
    "pickled-objects": (file("log.npz", pickle.dumps({"observations": [1.0]})), None),
    "no-header": (file("log.csv", GOOD), None),
    "missing-column": (table(head=HEAD.replace(b"reward", b"profit")), None),
    "unknown-column": (table(columns={"rewards": "rewrad"}), None),
    "ambiguous-columns": (table(head=b"obs_0,state_0,action,reward,episode\n"), None),
    "column-twice": (table(columns={"rewards": "action", "actions": "action"}), None),
    "columns-with-gaps": (table(head=HEAD.replace(b"obs_1", b"obs_2")), None),
    "empty-cell": (table(b"1,2,0.5,,1"), 4),
    "text": (table(b"1,2,0.5,broken,1"), 4),
    "decimal-comma": (table(b'1,2,0.5,"1,5",1'), 4),
    "ragged-row": (table(b"1,2,0.5,1"), 4),
    "not-numbers": (arrays(rewards=np.array([None] * N)), None),
    "complex-numbers": (arrays(rewards=np.ones(N) * 1j), None),
    "masked-array": (arrays(rewards=np.ma.masked_equal(clean()["rewards"], 0)), None),
    "mixed-widths": (arrays(observations=[[0.0] * (4 if row == 7 else 3) for row in range(N)]), 7),
    "images": (arrays(observations=np.zeros((N, 8, 8), np.uint8)), None),
    "wrong-shape": (arrays(rewards=np.zeros((N, 2))), None),
    "different-lengths": (arrays(rewards=np.zeros(N - 1)), None),
    "no-rows": (arrays(**{name: value[:0] for name, value in clean().items()}), None),
    "nan": (with_value("observations", 9, np.nan), 9),
    "infinite": (with_value("rewards", 11, -np.inf), 11),
    "beyond-float32": (with_value("rewards", 12, 1e300), 12),
    "not-a-flag": (arrays(timeouts=np.where(np.arange(N) == 3, 0.5, SHORT)), 3),
    "action-beyond-range": (with_value("actions", 13, 3.0), 13),
    "no-episode-end": (arrays(timeouts=None, next_observations=None), None),
    "lengths-do-not-sum": (arrays(timeouts=None, episode_lengths=[LENGTH] * (EPISODES - 1)), None),
    "episode-id-comes-back": (
        arrays(timeouts=None, episode_ids=np.repeat([0, 1, 2, 3, 1, 4], LENGTH)), 4 * LENGTH),
    "no-transition-left": (arrays(timeouts=np.ones(N), next_observations=None), None),
    "next-not-shifted": (arrays(next_observations=clean()["observations"]), 0),
    "not-a-time": (clocked(b"noon,1,0.5,1,0"), 2),
    "time-not-rising": (timed(np.where(STEPS == 7, 5.5, STEPS)), 7),
    "repeated-row": (clocked(b"2,3,1,2,0"), 2),
    "unknown-category": (
        table(b"1,9,0.5,3,1", categorical={"obs_1": ["1", "1.5", "2.5", "3"]}), 4),
    "next-shifted-wrongly": (arrays(next_observations=shifted(2)), 0),
    "dropped-rows": (beside_nan(), 9),
    "gap-in-time": (timed(STEPS + 9 * (STEPS > 30)), 30),
    "uneven-steps": (timed(STEPS + 0.2 * (STEPS % 2)), None),
    "unseen-successor": (arrays(next_observations=None), None),
    "no-end-marked": (
        arrays(**{name: value[:LENGTH] for name, value in clean(timeouts=np.zeros(N)).items()}), None),
    "rows-not-in-order": (with_value("next_observations", 6, 50.0), 6),
    "next-from-another-episode": (arrays(next_observations=shifted(1)), 24),
    "terminals-at-time-limit": (arrays(timeouts=None, terminals=SHORT), 24),
    "both-flags": (arrays(terminals=SHORT, timeouts=SHORT), 24),
    "terminals-everywhere": (arrays(terminals=np.ones(N), timeouts=None), None),
    "terminal-inside-episode": (
        arrays(timeouts=None, terminals=np.arange(N) == 30, episode_lengths=[LENGTH] * EPISODES), 30),
    "one-row-episodes": (arrays(timeouts=np.where(np.arange(N) == 25, 1.0, SHORT)), 25),
    "rewards-are-returns": (arrays(rewards=returns()), 0),
    "constant-rewards": (arrays(rewards=np.full(N, 2.0)), None),
    "constant-observations": (
        arrays(**{name: np.c_[clean()[name], np.ones(N)] for name in ("observations", "next_observations")}),
        None),
    "constant-actions": (arrays(actions=np.c_[clean()["actions"], np.ones(N)]), None),
    "step-counter": (arrays(**observations_counting()), None),
    "lost-precision": (arrays(observations=clean()["observations"] + 1e6, next_observations=None,
        timeouts=None, terminals=np.isin(np.arange(N), np.cumsum([9, 31, 24, 40, 17, 29]) - 1)), None),
    "outlier": (with_value("rewards", 17, -99999.0), 17),
    "narrow-actions": (arrays(actions=0.01 * clean()["actions"]), None),
    "discrete-actions": (
        arrays(actions=np.arange(N)[:, None] * 7 % 4, action_low=0, action_high=3), None),
    "copied-rows": (arrays(**joined_to_itself()), N),
}  # fmt: skip


def test_every_defect_has_an_example_and_every_example_a_defect():
    assert set(EXAMPLES) == REFUSED.keys() | NOTED.keys()


@pytest.mark.parametrize("name", [*REFUSED, *NOTED])
def test_a_defect_is_found_with_its_row_and_remedy(name, tmp_path):
    build, row = EXAMPLES[name]
    if name in REFUSED:
        with pytest.raises(BadInput) as raised:
            build(tmp_path)
        sentence = str(raised.value)
        assert name_of(raised.value) == name
    else:
        found = {name_of(note): note for note in build(tmp_path).notes if name_of(note)}
        assert set(found) == {name}
        sentence = found[name]
    assert sentence.endswith(f": {(REFUSED | NOTED)[name].remedy}. [{name}]")
    assert "\n" not in sentence
    if row is not None:
        assert re.search(rf"\brow {row}\b", sentence), sentence


def test_clean_data_has_no_defect(tmp_path):
    assert from_arrays(**clean()).notes == ()
    np.savez(tmp_path / "log.npz", **clean())
    assert read_table(tmp_path / "log.npz").notes == ()
    terminals = np.arange(N) == N - 1
    assert from_arrays(**clean(terminals=terminals, timeouts=SHORT * ~terminals)).notes == ()
    varied = np.isin(np.arange(N), np.cumsum([9, 31, 24, 40, 17, 29]) - 1)
    walk = clean()["observations"].cumsum(0)
    one = {"observations": walk, "next_observations": np.roll(walk, -1, 0), "timeouts": None}
    assert from_arrays(**clean(**one, terminals=varied)).notes == ()


def test_the_page_is_generated_from_the_register():
    page = (DOCS / "data-checks.md").read_text()
    assert page == data_checks_page(), "run: python -m tools.data_checks_page docs/data-checks.md"


def parquet(observations):
    """Reads a Parquet file of two rows with this column of observations."""
    columns = {"action": [0.5, 1.0], "reward": [1.0, 2.0], "done": [False, True]}
    content = pyarrow.table({**columns, "obs": observations})
    return file("log.parquet", lambda path: pyarrow.parquet.write_table(content, path))


# Other faces of the same defects.
@pytest.mark.parametrize(("build", "name"), [
    (file("log.csv.gz", gzip.compress(b"")), "no-header"),
    (file("log.csv", HEAD), "no-rows"),
    (file("log.csv", HEAD + b"\n\n"), "no-rows"),
    (file("log.csv", b"\xff\xfe" + (HEAD + GOOD).decode().encode("utf-16-le")), "unreadable-file"),
    (file("log.csv.gz", gzip.compress(HEAD + GOOD)[:-9]), "unreadable-file"),
    (file("log.csv", pickle.dumps([1])), "pickled-objects"),
    (npz(**{**clean(), "rewards": np.array([{}] * N, object)}), "pickled-objects"),
    (file("log.npz", lambda path: np.zeros(3).tofile(path)), "unreadable-file"),
    (table(head=HEAD.replace(b"obs_1", b"obs_0")), "column-twice"),
    (table(head=HEAD.replace(b"obs_1", b"reward")), "column-twice"),
    (table(b"1,2,0.5,True,1"), "text"),
    (table(b"1,2,0.5,1,1,7"), "ragged-row"),
    (table(b"1,2,0.5,nan,1"), "nan"),
    (table(b"1,2,0.5,inf,1"), "infinite"),
    (table(b"1,2,0.5,1e39,1"), "beyond-float32"),
    (file("log.csv", b"obs_0;action;reward;done\n1,5;0;1;0\n2,5;1;2;1\n"), "decimal-comma"),
    (table(columns={"rewards": "obs_"}), "ambiguous-columns"),
    (arrays(rewards=np.array(["1.5"] * N)), "text"),
    (arrays(rewards=np.array(["2024-01-01"] * N, "M8[D]")), "not-numbers"),
    (arrays(observations=np.array([np.zeros(2 + row % 2) for row in range(N)], object)), "mixed-widths"),
    (arrays(next_observations=np.zeros((N, 4))), "mixed-widths"),
    (arrays(observations=np.zeros(N)), "wrong-shape"),
    (arrays(observations=np.zeros((N, 0)), next_observations=np.zeros((N, 0))), "wrong-shape"),
    (arrays(timeouts=np.full(N, 2)), "not-a-flag"),
    (arrays(timeouts=np.full(N, np.nan)), "not-a-flag"),
    (arrays(next_observations=shifted(-1)), "next-shifted-wrongly"),
    (arrays(episode_lengths=[N / 2, N / 2 - 0.5, 0.5]), "lengths-do-not-sum"),
    (arrays(episode_lengths=[N + 1, -1]), "lengths-do-not-sum"),
    (arrays(episode_lengths=[]), "lengths-do-not-sum"),
    (arrays(episode_ids=np.full(N, np.nan)), "nan"),
    (arrays(episode_ids=np.zeros(N - 1)), "different-lengths"),
    (arrays(episode_ids=np.zeros((N, 2))), "wrong-shape"),
    (parquet([[1.0, 2.0], [1.0]]), "mixed-widths"),
    (parquet([[1.0, 2.0], [1.0, None]]), "empty-cell"),
    (parquet([[1.0, 2.0], None]), "empty-cell"),
    (parquet([[[1.0], [2.0]], [[1.0], [2.0]]]), "images"),
    (parquet(["a", "b"]), "text"),
    (parquet([b"a", b"b"]), "not-numbers"),
])  # fmt: skip
def test_a_refused_defect_has_many_faces(build, name, tmp_path):
    with pytest.raises(BadInput) as raised:
        build(tmp_path)
    assert name_of(raised.value) == name, raised.value


def test_suspicions_are_not_raised_on_what_only_looks_like_them():
    rng, rows = np.random.default_rng(2), np.arange(N)
    sparse = (rows % LENGTH > 20) * 1.0  # at the goal until the end: it rises, and is no sum
    distance = -np.abs(rng.normal(size=N))
    goal = np.tile(np.linspace(-1, 0, LENGTH) ** 3, EPISODES)  # nears its goal
    goal += 0.01 * rng.normal(size=N)
    for rewards in (sparse, distance, goal, sparse - 1.0):
        assert from_arrays(**clean(rewards=rewards)).notes == ()
    rest = clean()  # a robot that stands still for most of the log
    for name in ("observations", "next_observations"):
        rest[name][: 3 * LENGTH] = 1.0
    rest["rewards"][: 3 * LENGTH] = 0.5
    rest["actions"][: 3 * LENGTH - 1] = 0.25
    assert from_arrays(**rest).notes == ()
    swing = np.where(rows % 2, 1.0, -1.0)[:, None] * np.ones(3)  # two states by turns
    turns = {"observations": swing, "next_observations": -swing, "timeouts": rows == N - 1}
    assert from_arrays(**clean(**turns)).notes == ()
    bits = (rng.random((N, 1)) > 0.5) * 2.0 - 1.0  # left or right, as a quantity
    assert from_arrays(**clean(actions=bits)).notes == ()
    once = rng.normal(size=N)
    once[70] = 100.0  # a reward for success
    assert from_arrays(**clean(rewards=once)).notes == ()


def test_the_largest_numbers_are_taken_without_a_warning():
    huge = np.where(np.arange(N) % 2, 3e38, -3e38)
    given = clean(rewards=huge, observations=np.c_[huge, huge[::-1]], next_observations=None)
    assert len(from_arrays(**given)) == N - EPISODES


def test_numbered_choices_are_refused_with_the_reason():
    with pytest.raises(BadInput, match="bfq needs continuous actions: numbered choices do not fit"):
        from_arrays(**{**clean(), "actions": np.arange(N) % 3})
