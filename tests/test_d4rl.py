"""D4RL's files: transitions by D4RL's rule, the marks they are known by, the policies stored in them."""

import zlib
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest

import bfq
from bfq.data.readers.binary import hdf5_names, read_hdf5
from bfq.data.readers.d4rl import is_d4rl, read_d4rl, task_name, write_d4rl
from bfq.errors import BadInput
from bfq.tasks.weights import load_weights, read_stored_policy

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = SHARED / "d4rl_files"
genuine = pytest.mark.skipif(not FILES.is_dir(), reason="the genuine D4RL files are not here")

# Each file has two episodes. With N rows, the last row never is a transition (nothing follows it), and a row
# with a time-out is none either. So the count is N − 1 − (time-outs before the last row), and rows after a
# dropped one move up by one. Columns: N, time-outs, terminals in the file; transitions; the last row of each
# episode and the terminals among the transitions; returns without the reward of the dropped rows.
EXPECTED = {
    # Time-outs in rows 999 and 1999 = N − 1: 2000 − 1 − 1 = 1998 transitions, 999 an episode.
    "ant_medium-v2": (2000, [999, 1999], [], 1998, [998, 1997], [], [3968.5659, 3563.1733]),
    "halfcheetah_medium-v2": (2000, [999, 1999], [], 1998, [998, 1997], [], [4668.4235, 4874.2342]),
    "halfcheetah_medium_replay-v1": (2000, [999, 1999], [], 1998, [998, 1997], [], [-292.3858, -316.1236]),
    "walker2d_medium-v2": (2000, [999, 1999], [], 1998, [998, 1997], [], [3495.7934, 3658.8754]),
    # The hopper falls in rows 469 and 910 = N − 1: only the last row goes, and with it its terminal.
    "hopper_medium-v2": (911, [], [469, 910], 910, [469, 909], [469], [1465.1845, 1409.1271]),
    # AntMaze v0 flags a time-out every 999 rows: rows 998 and 1997 = N − 1.
    "antmaze-large-diverse-v0": (1998, [998, 1997], [], 1996, [997, 1995], [], [0.0, 0.0]),
    "antmaze-large-play-v0": (1998, [998, 1997], [], 1996, [997, 1995], [], [0.0, 0.0]),
    "antmaze-medium-play-v0": (1998, [998, 1997], [], 1996, [997, 1995], [], [0.0, 0.0]),
    # At the goal in rows 64, 65 and 66 = N − 1, a reward of 1 in each: row 65 is an episode of its own.
    "antmaze-medium-diverse-v0": (67, [], [64, 65, 66], 66, [64, 65], [64, 65], [1.0, 1.0]),
    # Adroit is cut off after 200 steps (door) and 100 (pen); people took 300 and 200.
    "door-cloned-v1": (400, [199, 399], [], 398, [198, 397], [], [-62.5068, -61.6541]),
    "door-expert-v1": (400, [199, 399], [], 398, [198, 397], [], [3019.9020, 2998.6399]),
    "door-human-v1": (600, [299, 599], [], 598, [298, 597], [], [510.4494, 220.1693]),
    "pen-cloned-v1": (200, [99, 199], [], 198, [98, 197], [], [22.9673, 2742.9059]),
    "pen-expert-v1": (200, [99, 199], [], 198, [98, 197], [], [45.3782, 2698.0360]),
    "pen-human-v1": (400, [199, 399], [], 398, [198, 397], [], [376.3461, 9788.3527]),
}  # fmt: skip


def by_the_rule(file, episode_steps=None):
    """D4RL's rule as a loop, one row after the other, with the number of each row that is kept."""
    raw = {name: column[()] for name, column in file.items() if isinstance(column, h5py.Dataset)}
    kept, step = [], 0
    for i in range(len(raw["rewards"]) - 1):
        cut = bool(raw["timeouts"][i]) if "timeouts" in raw else step == episode_steps - 1
        if not cut:
            kept.append(i)
        step = 0 if cut or raw["terminals"][i] else step + 1
    return kept, {
        "observations": np.array([raw["observations"][i] for i in kept], np.float32),
        "actions": np.array([raw["actions"][i] for i in kept], np.float32),
        "rewards": np.array([np.float32(raw["rewards"][i].item()) for i in kept]),
        "next_observations": np.array([raw["observations"][i + 1] for i in kept], np.float32),
        "masks": np.array([0.0 if raw["terminals"][i] else 1.0 for i in kept], np.float32),
    }


def boundaries_of_iql(dataset):
    """IQL's test: the next row's observation is not this row's next observation, or the row is terminal."""
    jumps = np.linalg.norm(dataset.observations[1:] - dataset.next_observations[:-1], axis=1) > 1e-6
    return np.array([*(jumps | (dataset.masks[:-1] == 0)), True])


@genuine
@pytest.mark.parametrize("stem", EXPECTED)
def test_a_genuine_file_gives_the_transitions_worked_out_by_hand_and_by_a_loop(stem):
    size, timeouts, terminals, count, ends, terminal_rows, returns = EXPECTED[stem]
    path = FILES / f"{stem}.hdf5"
    raw = read_hdf5(path, ["rewards", "timeouts", "terminals"])
    assert len(raw["rewards"]) == size
    assert np.flatnonzero(raw["timeouts"]).tolist() == timeouts
    assert np.flatnonzero(raw["terminals"]).tolist() == terminals
    dataset = read_d4rl(path)
    assert len(dataset) == count == size - 1 - sum(row < size - 1 for row in timeouts)
    assert np.flatnonzero(dataset.episode_ends).tolist() == ends
    assert np.flatnonzero(dataset.masks == 0).tolist() == terminal_rows
    np.testing.assert_allclose(dataset.episode_returns, returns, atol=1e-3)
    with h5py.File(path) as file:
        kept, wanted = by_the_rule(file)
        for name, column in wanted.items():
            np.testing.assert_array_equal(getattr(dataset, name), column, err_msg=name)
        for name, column in dataset.infos.items():
            if name not in ("qpos", "qvel"):
                np.testing.assert_array_equal(column, file[f"infos/{name}"][()][kept])
    np.testing.assert_array_equal(dataset.episode_ends, boundaries_of_iql(dataset))
    assert is_d4rl(path)
    assert dataset.name == stem.replace("_", "-")


@genuine
def test_states_are_those_before_the_action_also_where_the_file_has_them_a_row_late():
    widths = {"pen-human-v1": (0, 24), "halfcheetah_medium-v2": (1, 9), "hopper_medium-v2": (1, 6)}
    for stem, shown in widths.items():
        dataset = read_d4rl(FILES / f"{stem}.hdf5")
        qpos = dataset.infos["qpos"][:, slice(*shown)].astype(np.float32)
        np.testing.assert_array_equal(dataset.observations[:, : qpos.shape[1]], qpos)
    ant = read_d4rl(FILES / "antmaze-medium-play-v0.hdf5")
    stored = read_hdf5(FILES / "antmaze-medium-play-v0.hdf5", ["infos/qpos"])["infos/qpos"]
    # One row late in the file.
    np.testing.assert_array_equal(ant.infos["qpos"][1:500], stored[:499])
    states = np.hstack([ant.infos["qpos"], ant.infos["qvel"]])
    np.testing.assert_array_equal(states, ant.observations)
    assert any("one row late" in note for note in ant.notes)
    dataset = read_d4rl(FILES / "halfcheetah_medium_replay-v1.hdf5")
    assert sorted(dataset.infos) == ["action_log_probs"]
    assert any("are constant while" in note for note in dataset.notes)


@genuine
def test_an_end_that_antmaze_v0_does_not_flag_is_told_and_kept():
    # The ant of this file jumps 25 meters from row 1000 to row 1001, but the time-out is flagged in row 998.
    dataset = read_d4rl(FILES / "antmaze-large-diverse-v0.hdf5")
    step = np.linalg.norm(dataset.next_observations[:, :2] - dataset.observations[:, :2], axis=1)
    assert np.flatnonzero(step > 1).tolist() == [999]  # row 1000 of the file, one row up
    assert any("first: row 1000 of the file" in note for note in dataset.notes)
    others = read_d4rl(FILES / "ant_medium-v2.hdf5").notes
    assert not any("does not flag" in note for note in others)


@pytest.mark.parametrize(("file", "task"), [
    ("halfcheetah_medium_expert-v2", "halfcheetah-medium-expert-v2"),
    ("Ant_maze_u-maze_noisy_multistart_False_multigoal_False_sparse_fixed", "antmaze-umaze-v2"),
    ("Ant_maze_u-maze_noisy_multistart_True_multigoal_True_sparse_fixed", "antmaze-umaze-diverse-v2"),
    ("Ant_maze_big-maze_noisy_multistart_True_multigoal_False_sparse_fixed", "antmaze-medium-play-v2"),
    ("Ant_maze_hardest-maze_noisy_multistart_True_multigoal_True_sparse", "antmaze-large-diverse-v0"),
])  # fmt: skip
def test_file_names_of_d4rl_lead_to_its_tasks(file, task):
    assert task_name(Path(f"{file}.hdf5")) == task


def columns(n=12, **changes):
    rng = np.random.default_rng(0)
    made = {
        "observations": rng.normal(size=(n, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        "rewards": np.arange(n, dtype=np.float32),
        "terminals": np.arange(n) == 6,
        "timeouts": np.arange(n) == 3,
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def written(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def log(folder, **changes):
    return read_d4rl(written(folder / "log.hdf5", columns(**changes)))


def test_every_layout_of_the_same_log_gives_the_same_transitions(tmp_path):
    plain = columns()
    wanted = read_d4rl(written(tmp_path / "plain.hdf5", plain))
    # Rows 0 to 10 but not 3: rewards 0+1+2, then 4+5+6, then 7+8+9+10.
    assert wanted.rewards.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert wanted.masks.tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert wanted.episode_returns.tolist() == [3.0, 15.0, 34.0]
    infos = {"infos/qpos": np.arange(24.0).reshape(12, 2) / 7, "infos/goal": np.arange(12)}
    kept = read_d4rl(written(tmp_path / "log.hdf5", {**plain, **infos})).infos
    assert kept["goal"].tolist() == wanted.rewards.tolist()
    assert kept["qpos"].dtype == np.float64  # infos keep their own precision
    np.testing.assert_array_equal(kept["qpos"][3], infos["infos/qpos"][4])
    numbers, flags = ("observations", "actions", "rewards"), ("terminals", "timeouts")
    for changes in (
        {name: plain[name][:, None] for name in ("rewards", "terminals")},
        {name: plain[name].astype(np.float64) for name in numbers},
        {name: plain[name].astype(np.float64) for name in flags},
        {name: plain[name].astype(np.uint8) for name in flags},
        {"next_observations": np.roll(plain["observations"], -1, 0)},
        {"infos/words": np.array([b"a"] * 12), "infos/short": np.ones(3)},
        {"infos/qpos": np.zeros(12), "infos/qvel": np.zeros((12, 2, 2)), "infos/one": 3.0},
    ):
        got = read_d4rl(written(tmp_path / "other.hdf5", {**plain, **changes}))
        assert got.sha256 == wanted.sha256, changes
        assert not got.infos


@pytest.mark.parametrize("episode_steps", [1, 2, 3, 4, 5, 100])
def test_without_time_outs_the_steps_of_an_episode_are_counted(tmp_path, episode_steps):
    path = written(tmp_path / "log.hdf5", columns(timeouts=None))
    with h5py.File(path) as file:
        kept, wanted = by_the_rule(file, episode_steps)
    if not kept:
        refused(path, "no transition", episode_steps=episode_steps)
        return
    dataset = read_d4rl(path, episode_steps)
    for name, column in wanted.items():
        np.testing.assert_array_equal(getattr(dataset, name), column, err_msg=name)
    if episode_steps == 4:
        # Cut in rows 3 and 10 (6 is terminal, so 7 is a first step again): rows 0-2, 4-6, 7-9.
        assert np.flatnonzero(dataset.episode_ends).tolist() == [2, 5, 8]


def test_ends_of_every_kind(tmp_path):
    refused(written(tmp_path / "log.hdf5", columns(timeouts=None)), "give episode_steps")
    # Row 3 is a time-out too: dropped, as D4RL does.
    both = log(tmp_path, terminals=np.arange(12) == 3)
    assert 3.0 not in both.rewards
    assert both.masks.all()
    assert np.flatnonzero(both.episode_ends).tolist() == [2, 9]
    none = log(tmp_path, terminals=np.zeros(12), timeouts=np.zeros(12))
    assert np.flatnonzero(none.episode_ends).tolist() == [10]
    assert any("No episode end is marked" in note for note in none.notes)
    # Row 6 is terminal, row 7 a time-out: the episode of row 7 alone gives nothing.
    assert log(tmp_path, timeouts=np.arange(12) == 7).episode_returns.tolist() == [21.0, 27.0]


def test_actions_a_little_beyond_one_are_clipped_with_a_note_and_others_refused(tmp_path):
    actions = columns()["actions"]
    actions[5, 1] = -1.3662
    dataset = log(tmp_path, actions=actions)
    assert dataset.actions.min() == -1.0
    assert any("1 row, up to ±1.37, were clipped" in note for note in dataset.notes)
    actions[5, 1] = -1.00001  # rounding
    assert not any("clipped" in note for note in log(tmp_path, actions=actions).notes)
    with pytest.raises(BadInput, match="actions reach 20"):
        log(tmp_path, actions=20 * np.sign(actions))


def test_a_written_dataset_comes_back_without_its_time_out_rows_and_its_last_row(tmp_path):
    rng, n = np.random.default_rng(1), 10
    observations, rows = rng.normal(size=(n, 3)).astype(np.float32), np.arange(n)
    dataset = bfq.from_arrays(
        observations, rng.uniform(-2, 2, (n, 1)), rows, rows == 6, np.isin(rows, (3, 9)),
        np.roll(observations, -1, 0), infos={"qpos": rows / 3}, action_low=-2.0, action_high=2.0,
    )  # fmt: skip
    write_d4rl(dataset, tmp_path / "log.hdf5")
    assert [path.name for path in tmp_path.iterdir()] == ["log.hdf5"]
    assert is_d4rl(tmp_path / "log.hdf5")
    back = read_d4rl(tmp_path / "log.hdf5")
    kept = [0, 1, 2, 4, 5, 6, 7, 8]
    for name in ("observations", "actions", "rewards", "next_observations", "masks"):
        np.testing.assert_array_equal(getattr(back, name), getattr(dataset, name)[kept], name)
    np.testing.assert_array_equal(back.infos["qpos"], np.arange(n)[kept] / 3)
    assert (back.action_low, back.action_high) == (-2.0, 2.0)


def test_a_plain_table_is_not_taken_for_d4rl(tmp_path):
    table, path = columns(next_observations=np.zeros((12, 3))), tmp_path / "log.hdf5"
    assert not is_d4rl(path)
    for content in (columns(), {**table, "infos/goal": np.zeros(12)}):
        assert is_d4rl(written(path, content))
    for content in (table, {"a": np.zeros(3)}):
        assert not is_d4rl(written(path, content))
    path.write_text("observations,actions\n")
    assert not is_d4rl(path)


def refused(path, match, read=read_d4rl, **options):
    with pytest.raises(BadInput, match=match):
        read(path, **options)


@pytest.mark.parametrize(("changes", "match"), [
    ({"rewards": None}, "has no rewards: it holds actions, observations, terminals, timeouts"),
    ({"rewards": np.zeros(11)}, r"differ in length \(observations 12, actions 12, rewards 11"),
    ({"rewards": np.full(12, np.nan)}, "NaN"),
    ({"rewards": 1.0}, "one number per transition"),
    ({"observations": np.zeros(12)}, "shape"),
    ({"observations": np.zeros((12, 2, 2))}, "shape"),
    ({"observations": np.array([b"import os"] * 12)}, "hold text"),
    ({"terminals": np.full(12, 2)}, "must be 0 or 1"),
    ({"timeouts": np.full(12, 0.5)}, "must be 0 or 1"),
    ({"timeouts": np.zeros(5)}, "differ in length"),
    ({"timeouts": np.ones(12, bool)}, "no transition"),
    ({"action_low": np.zeros(7)}, "action_low"),
    ({"n": 1}, "no transition"),
])  # fmt: skip
def test_broken_columns_are_refused_in_a_sentence(tmp_path, changes, match):
    refused(written(tmp_path / "log.hdf5", columns(**changes)), match)


def test_files_that_are_none_are_refused(tmp_path):
    refused(tmp_path / "absent.hdf5", "there is no file")
    refused(tmp_path, "there is no file")
    whole = written(tmp_path / "whole.hdf5", columns(1000)).read_bytes()
    torn = [whole[:size] for size in (0, 100, 2000, len(whole) // 2, len(whole) - 1)]
    for content in (b"observations,actions\n1,2\n", b"\x80\x04\x95cposix\nsystem\n", *torn):
        (tmp_path / "bad.hdf5").write_bytes(content)
        refused(tmp_path / "bad.hdf5", "not a readable HDF5 file")


def test_links_and_arrays_kept_elsewhere_are_not_followed(tmp_path):
    written(tmp_path / "secret.hdf5", columns())
    (tmp_path / "raw").write_bytes(bytes(96))
    outside = h5py.ExternalLink("secret.hdf5", "/rewards")
    for link in (outside, h5py.SoftLink("/timeouts"), h5py.SoftLink("/nowhere")):
        refused(written(tmp_path / "log.hdf5", columns(rewards=link)), "links are not followed")
    layout = h5py.VirtualLayout((12,), "f4")
    layout[:] = h5py.VirtualSource(tmp_path / "secret.hdf5", "rewards", (12,))
    outside = [(str(tmp_path / "raw"), 0, 96)]
    for make in (
        lambda file: file.create_dataset("rewards", (12,), "f8", external=outside),
        lambda file: file.create_virtual_dataset("rewards", layout),
        lambda file: file.create_dataset("rewards/inner", (12,), "f4"),
    ):
        path = written(tmp_path / "log.hdf5", columns(rewards=None))
        with h5py.File(path, "a") as file:
            make(file)
        refused(path, "not an array of the file's own")
    content = {"a": np.zeros(2), "g/b": np.zeros(2), "soft": h5py.SoftLink("/a")}
    path = written(tmp_path / "circle.hdf5", content)
    with h5py.File(path, "a") as file:
        file["g/back"] = file["/"]
    assert sorted(hdf5_names(path)) == sorted(read_hdf5(path)) == ["a", "g/b"]


def test_a_shape_that_the_file_cannot_have_filled_is_refused_before_memory_is_asked_for(tmp_path):
    path = written(tmp_path / "log.hdf5", columns(observations=None))
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (10**9, 100), "f4", chunks=(1000, 100))
    refused(path, "declare 400,000,000,")


def test_a_bomb_of_compressed_zeros_is_refused(tmp_path):
    path = tmp_path / "bomb.hdf5"
    chunk = zlib.compress(bytes(2**24), 9)
    with h5py.File(path, "w") as file:
        shape, block = (2**20 * 200, 4), (2**20, 4)
        array = file.create_dataset("a", shape, "f4", chunks=block, compression="gzip")
        for k in range(200):
            array.id.write_direct_chunk((k * 2**20, 0), chunk)
    refused(path, "declare 3,355,443,200 bytes", read_hdf5)


def test_objects_in_a_file_are_never_made(tmp_path):
    path = tmp_path / "odd.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("ragged", (3,), h5py.vlen_dtype(np.float32))
        file.create_dataset("pointers", (3,), h5py.ref_dtype)
        file["empty"] = h5py.Empty("f4")
        file["words"] = "of any length"
        file["fixed"] = np.bytes_("héllo".encode())
        file["broken"] = np.bytes_(b"\xff")
    for name in ("ragged", "pointers", "empty", "words"):
        refused(path, "neither numbers nor text of a fixed length", read_hdf5, names=[name])
    read = read_hdf5(path, ["fixed", "broken", "absent", "fixed/inner", "no/where"])
    found = {name: str(value) for name, value in read.items()}
    assert found == {"fixed": "héllo", "broken": "\ufffd"}


@genuine
@pytest.mark.parametrize("robot", ["ant", "halfcheetah", "hopper", "walker2d"])
def test_the_stored_policy_is_the_published_one_and_has_the_logged_probabilities(robot):
    found = read_stored_policy(FILES / f"{robot}_medium-v2.hdf5")
    published = load_weights(SHARED / "policies" / f"{robot}-medium.npz")
    assert found.arrays.keys() == published.arrays.keys()
    for name, array in published.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert (found.meta["activation"], found.meta["squash"]) == ("relu", "tanh")
    assert found.meta["algorithm"] == "SAC"
    assert found.meta["source"] == f"policy stored in {robot}_medium-v2.hdf5"
    # log p(a) = Σ log N(artanh a; μ, σ) − Σ log(1 − a² + 10⁻⁶), where a = tanh u, is in the log.
    dataset = read_d4rl(FILES / f"{robot}_medium-v2.hdf5")
    mean, log_std = found.gaussian(dataset.observations)
    actions = dataset.actions.astype(np.float64)
    noise = (np.arctanh(actions) - mean) / np.exp(log_std)
    each = -0.5 * (noise**2 + np.log(2 * np.pi)) - log_std - np.log(1 - actions**2 + 1e-6)
    log_p = each.sum(1)
    np.testing.assert_allclose(log_p, dataset.infos["action_log_probs"], atol=0.02)
    assert np.abs(log_p - dataset.infos["action_log_probs"]).mean() < 1e-3
    assert abs(noise.std() - 1) < 0.03


@genuine
@pytest.mark.parametrize("hand", ["pen", "door"])
def test_policies_of_adroit_agree_with_their_logs(hand):
    dataset = read_d4rl(FILES / f"{hand}-cloned-v1.hdf5")
    policy = read_stored_policy(FILES / f"{hand}-cloned-v1.hdf5")
    for rng in (None, np.random.default_rng(0)):
        acts = policy.act(dataset.observations, rng)
        np.testing.assert_allclose(acts, dataset.actions, atol=1e-4)
    # The file holds the layer of the mean in place of that of log σ: taken at its word, σ would be wrong.
    path = FILES / f"{hand}-expert-v1.hdf5"
    dataset = read_d4rl(path)
    mean, log_std = read_stored_policy(path).gaussian(dataset.observations)
    np.testing.assert_allclose(mean, dataset.infos["action_mean"], atol=1e-5)
    np.testing.assert_array_equal(log_std, dataset.infos["action_log_std"])


def network(widths=(3, 5, 5, 2), turned=True, output="tanh_gaussian", **changes):
    rng, stored = np.random.default_rng(2), {}
    names = [*(f"fc{k}" for k in range(len(widths) - 2)), "last_fc", "last_fc_log_std"]
    for name, shape in zip(names, [*pairwise(widths), widths[-2:]], strict=True):
        stored[f"{name}/weight"] = rng.normal(size=shape[::-1] if turned else shape)
        stored[f"{name}/bias"] = rng.normal(size=shape[1])
    words = {"nonlinearity": np.bytes_("relu"), "output_distribution": np.bytes_(output)}
    stored |= {**words, **changes}
    return {f"metadata/policy/{k}": array for k, array in stored.items() if array is not None}


@pytest.mark.parametrize(("widths", "turned"), [
    ((3, 5, 5, 2), True), ((3, 5, 5, 2), False), ((4, 4, 4, 2), False), ((2, 4, 4, 4), False), ((4,) * 4, True),
])  # fmt: skip
def test_weights_are_found_the_right_way_round(tmp_path, widths, turned):
    # Square layers do not tell: the others do, and where there are none, the layout of most files is taken.
    stored = network(widths, turned)
    found = read_stored_policy(written(tmp_path / "log.hdf5", stored)).arrays
    for ours, theirs in (("hidden_0_w", "fc0"), ("hidden_1_w", "fc1"), ("mean_w", "last_fc"),
                         ("log_std_w", "last_fc_log_std")):  # fmt: skip
        weight = stored[f"metadata/policy/{theirs}/weight"].astype(np.float32)
        np.testing.assert_array_equal(found[ours], weight.T if turned else weight)


@pytest.mark.parametrize(("changes", "match"), [
    ({"nonlinearity": np.bytes_("gelu")}, "nonlinearity is 'gelu'"),
    ({"nonlinearity": None}, "has no metadata/policy/nonlinearity"),
    ({"output_distribution": np.bytes_("mixture")}, "output_distribution is 'mixture'"),
    ({"last_fc/bias": None}, "has no metadata/policy/last_fc/bias"),
    ({"last_fc_log_std/weight": None}, "has no metadata/policy/last_fc_log_std/weight"),
    ({"fc1/weight": np.zeros((7, 5))}, "do not fit together"),
    ({"fc1/weight": np.zeros(5)}, "not a matrix"),
    ({"fc0/bias": np.full(5, np.nan)}, "NaN"),
    ({"last_fc_log_std/bias": np.zeros(3)}, "does not fit"),
])  # fmt: skip
def test_a_policy_that_cannot_be_read_is_refused(tmp_path, changes, match):
    refused(written(tmp_path / "log.hdf5", network(**changes)), match, read_stored_policy)


def test_a_mean_stored_twice_without_a_logged_deviation_is_refused(tmp_path):
    stored, last = network(output="gaussian"), "metadata/policy/last_fc"
    for part in ("weight", "bias"):
        stored[f"{last}_log_std/{part}"] = stored[f"{last}/{part}"]
    varying = {"infos/action_log_std": np.arange(6.0).reshape(3, 2)}
    for more in ({}, varying, {"infos/action_log_std": np.zeros((3, 5))}):
        path = written(tmp_path / "log.hdf5", {**stored, **more})
        refused(path, "repeats the mean", read_stored_policy)
    refused(written(tmp_path / "log.hdf5", columns()), "stores no policy", read_stored_policy)
    constant = {"infos/action_log_std": np.full((3, 2), -0.5)}
    found = read_stored_policy(written(tmp_path / "log.hdf5", {**stored, **constant}))
    assert found.arrays["log_std"].tolist() == [-0.5, -0.5]
