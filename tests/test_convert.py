"""Data of other libraries and programs, in layouts written by hand from their documentation."""

import base64
import json
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import bfq
from bfq.data.arrays import from_arrays, from_episodes
from bfq.data.convert import as_dataset
from bfq.errors import BadInput
from bfq.settings import compose

EPISODES, STEPS = 4, 25
N = EPISODES * STEPS


def log(several=EPISODES, seed=0):
    """Random walks: columns (episodes, steps, …); the second one ends in a terminal."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(several, STEPS + 1, 3)).cumsum(1).astype(np.float32)
    last = np.arange(STEPS) == STEPS - 1
    return {
        "observations": seen[:, :-1],
        "actions": rng.uniform(-1, 1, (several, STEPS, 2)).astype(np.float32),
        "rewards": rng.normal(size=(several, STEPS)).astype(np.float32),
        "next_observations": seen[:, 1:],
        "terminals": last & (np.arange(several)[:, None] == 1),
        "timeouts": last & (np.arange(several)[:, None] != 1),
    }


def flat(columns):
    return {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}


def expected(columns=None, **settings):
    return from_arrays(**flat(columns or log()), **settings)


def without_successors(**settings):
    """What is left if next observations are not logged: time-outs lose their last row."""
    return from_arrays(**{**flat(log()), "next_observations": None}, **settings)


def noted(dataset, words):
    return any(words in note for note in dataset.notes)


# d3rlpy


def d3rlpy_episodes():
    seen, actions, rewards, _, terminals, _ = log().values()
    columns = zip(seen, actions, rewards[..., None], terminals.any(1).tolist(), strict=True)
    names = ("observations", "actions", "rewards", "terminated")
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in columns]


def write_d3rlpy(path, episodes):
    with h5py.File(path, "w") as file:
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"], file["version"] = len(episodes), "2.1"
        for k, episode in enumerate(episodes):
            for name, value in vars(episode).items():
                parts = value if isinstance(value, tuple) else [value]
                for part, array in enumerate(parts):
                    suffix = f"_{part}" if isinstance(value, tuple) else ""
                    file[f"{name}_{k}{suffix}"] = array
    return path


def test_d3rlpy_files_and_buffers(tmp_path):
    episodes = d3rlpy_episodes()
    from_file = as_dataset(write_d3rlpy(tmp_path / "buffer.h5", episodes))
    assert from_file.sha256 == without_successors().sha256
    assert from_file.name == "buffer"
    from_object = as_dataset(SimpleNamespace(episodes=episodes))
    assert from_object.sha256 == from_file.sha256
    for episode in episodes:  # a tuple of observations
        episode.observations = (episode.observations[:, :1], episode.observations[:, 1:])
    assert as_dataset(write_d3rlpy(tmp_path / "two.h5", episodes)).sha256 == from_file.sha256
    wide = as_dataset(tmp_path / "two.h5", action_low=-3, action_high=3)
    assert wide.action_high.tolist() == [3, 3]
    with pytest.raises(BadInput, match="has fixed columns: leave rewards out"):
        as_dataset(tmp_path / "two.h5", {"rewards": "rewards_0"})
    del episodes[1].actions
    with pytest.raises(BadInput, match="episode 1 has no actions"):
        as_dataset(write_d3rlpy(tmp_path / "torn.h5", episodes))


# Stable-Baselines3


def sb3_arrays(columns):
    """Arrays as in a ReplayBuffer: (steps, environments, …), dones with the time-outs in them."""
    arrays = {name: np.swapaxes(column, 0, 1) for name, column in columns.items()}
    dones = arrays.pop("terminals") | arrays["timeouts"]
    return {**arrays, "dones": dones.astype(np.float32)}


@pytest.mark.parametrize("several", [1, EPISODES])
def test_sb3_arrays_have_an_axis_of_environments(tmp_path, several):
    columns = log(several)
    np.savez(tmp_path / "sb3.npz", **sb3_arrays(columns))
    dataset = as_dataset(tmp_path / "sb3.npz")
    assert dataset.sha256 == expected(columns).sha256
    assert noted(dataset, f"read as 25 steps of {several} environment")
    turned = {name: np.swapaxes(array, 0, 1) for name, array in sb3_arrays(columns).items()}
    assert as_dataset(turned).sha256 == dataset.sha256  # (environments, steps, …)


def test_sb3_environments_that_are_cut_off_do_not_run_into_each_other():
    arrays = sb3_arrays(log())
    arrays["timeouts"] = np.zeros_like(arrays["timeouts"])
    arrays["dones"][-1] = 0
    dataset = as_dataset(arrays)
    assert dataset.masks.all()
    assert np.flatnonzero(dataset.episode_ends).tolist() == [24, 49, 74, 99]


def test_sb3_actions_are_scaled_to_the_range_that_is_given():
    arrays = sb3_arrays(log())
    scaled = as_dataset(arrays, action_low=[-2, 0], action_high=2)
    wanted = (flat(log())["actions"] + [0, 1]) * [2, 1]
    np.testing.assert_allclose(scaled.actions, wanted, atol=1e-6)
    assert noted(scaled, "they were scaled to the given range")
    assert noted(as_dataset(arrays), "if the environment has another range, give it")
    assert not noted(as_dataset(arrays, action_low=-1, action_high=1), "Stable-Baselines3 scales")
    wide = as_dataset({**arrays, "actions": 2 * arrays["actions"]}, action_low=-2, action_high=2)
    np.testing.assert_array_equal(wide.actions, 2 * flat(log())["actions"])


@pytest.mark.parametrize("full", [False, True])
def test_sb3_buffers_start_at_their_oldest_row(full):
    position = 10 if full else STEPS
    ring = lambda x: np.roll(x, position, 0) if full else np.concatenate([x, 0 * x])
    stored = {name: ring(array) for name, array in sb3_arrays(log()).items()}
    space = SimpleNamespace(low=np.full(2, -3.0), high=np.full(2, 3.0))
    buffer = SimpleNamespace(**stored, pos=position, full=full, action_space=space)
    dataset = as_dataset(buffer)
    assert dataset.action_high.tolist() == [3, 3]
    np.testing.assert_allclose(dataset.actions, 3 * flat(log())["actions"], atol=1e-6)
    for name in ("observations", "terminals"):
        np.testing.assert_array_equal(getattr(dataset, name), flat(log())[name])
    for name in ("observations", "next_observations"):
        setattr(buffer, name, {"b": stored[name][..., 1:], "a": stored[name][..., :1]})
    assert as_dataset(buffer).sha256 == dataset.sha256
    buffer.action_space = "Discrete(2)"
    with pytest.raises(BadInput, match="Discrete"):
        as_dataset(buffer)


# Tianshou


def write_tianshou(path, several, shift=0, **changes):
    """A VectorReplayBuffer with a ring per environment, or a ReplayBuffer with one."""
    columns = flat(log())
    names = {"observations": "obs", "actions": "act", "rewards": "rew", "terminals": "terminated",
             "timeouts": "truncated", "next_observations": "obs_next"}  # fmt: skip
    arrays = {f"_meta/{names[name]}": column for name, column in columns.items()}
    arrays["_meta/done"] = columns["terminals"] | columns["timeouts"]
    size = N // several
    for name, array in arrays.items():
        rings = array.reshape(several, size, *array.shape[1:])
        arrays[name] = np.roll(rings, shift, 1).reshape(array.shape)
    offset = np.arange(several) * size
    arrays["last_index"] = offset + (shift - 1) % size
    if several > 1:
        arrays |= {"_offset": offset, "_lengths": np.full(several, size)}
    with h5py.File(path, "w") as file:
        file.attrs["_size"] = file.attrs["maxsize"] = N
        file["options"] = np.frombuffer(b"a pickle", np.uint8)  # never read
        for name, array in (arrays | changes).items():
            file[name] = array
    return path


def test_tianshou_rings_are_unrolled(tmp_path):
    path = tmp_path / "tianshou.hdf5"
    right = expected().sha256
    for several, shift in ((1, 0), (1, 25), (4, 0), (4, 7), (2, 30)):
        assert as_dataset(write_tianshou(path, several, shift)).sha256 == right
    with pytest.raises(BadInput, match="its rows 0 to 101 are not in its 100 rows"):
        as_dataset(write_tianshou(path, 1, _lengths=np.array([101]), _offset=np.array([0])))
    with pytest.raises(BadInput, match="not a readable HDF5 file"):
        as_dataset(write_tianshou(path, 1, last_index=np.zeros(3)))


# RLlib


def sample_batch(rows, **changes):
    columns = flat(log())
    batch = {
        "obs": columns["observations"], "actions": columns["actions"], "rewards": columns["rewards"],
        "new_obs": columns["next_observations"], "terminateds": columns["terminals"],
        "truncateds": columns["timeouts"], "eps_id": np.repeat([7, 8, 9, 10], STEPS),
        "t": np.tile(np.arange(STEPS), EPISODES),
    }  # fmt: skip
    return {name: column[rows].tolist() for name, column in batch.items()} | changes


def write_lines(path, *objects):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    return path


def test_rllib_batches_in_json(tmp_path):
    right, path = expected().sha256, tmp_path / "output.json"
    rows = np.arange(N)
    pieces = [rows[10:60], rows[:10], rows[60:]]  # workers write in any order
    batches = [{"type": "SampleBatch", **sample_batch(piece)} for piece in pieces]
    assert as_dataset(write_lines(path, *batches)).sha256 == right
    head = {"type": "MultiAgentBatch", "count": 10}
    policies = [head | {"policy_batches": {"p": sample_batch(piece)}} for piece in pieces]
    assert as_dataset(write_lines(path, *policies)).sha256 == right
    policies[0]["policy_batches"]["q"] = {}
    with pytest.raises(BadInput, match=r"several policies \(p, q\)"):
        as_dataset(write_lines(path, *policies))
    batches[0]["obs"] = base64.b64encode(b"lz4 of a pickle").decode()
    with pytest.raises(BadInput, match=r"packed the column obs .*compress_columns"):
        as_dataset(write_lines(path, *batches))


def test_rllib_tables_in_parquet(tmp_path):
    batch = sample_batch(np.arange(N))
    pa.parquet.write_table(pa.table(batch), tmp_path / "rllib.parquet")
    dataset = as_dataset(str(tmp_path / "rllib.parquet"))
    assert dataset.sha256 == expected().sha256
    assert noted(dataset, "Columns not used: t.")
    episodes = pa.table({"item": [b"msgpack"], "id_": ["a"]})
    pa.parquet.write_table(episodes, tmp_path / "episodes.parquet")
    with pytest.raises(BadInput, match="has no observations: it holds item, id_"):
        as_dataset(tmp_path / "episodes.parquet")


# LeRobot


def write_lerobot(folder, version="v3.0", rewards=True):
    """Two files of two episodes (v3), or a file per episode (v2), with a camera elsewhere."""
    columns = log()
    number = lambda width, kind="float32": {"dtype": kind, "shape": [width], "names": None}
    camera = {"dtype": "video", "shape": [96, 96, 3], "names": ["height", "width", "channel"]}
    features = {
        "observation.images.top": camera, "observation.state": number(2),
        "observation.velocity": number(1), "action": number(2), "next.done": number(1, "bool"),
        "episode_index": number(1, "int64"), "frame_index": number(1, "int64"),
    }  # fmt: skip
    if rewards:
        features["next.reward"] = number(1)
    (folder / "meta").mkdir(parents=True)
    info = {"codebase_version": version, "fps": 10, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    groups = [[0, 1], [2, 3]] if version == "v3.0" else [[k] for k in range(EPISODES)]
    for k, group in enumerate(groups):
        some = flat({name: column[group] for name, column in columns.items()})
        table = {
            "observation.state": some["observations"][:, :2].tolist(),
            "observation.velocity": some["observations"][:, 2].tolist(),
            "action": some["actions"].tolist(),
            "next.reward": some["rewards"],
            "next.done": some["terminals"] | some["timeouts"],
            "episode_index": np.repeat(group, STEPS),
            "frame_index": np.tile(np.arange(STEPS), len(group)),
        }
        name = f"file-{k:03d}" if version == "v3.0" else f"episode_{k:06d}"
        path = folder / "data" / "chunk-000" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: column for name, column in table.items() if name in features}
        pa.parquet.write_table(pa.table(kept), path)
    return folder


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot_folders(tmp_path, version):
    dataset = as_dataset(write_lerobot(tmp_path / "cubes", version))
    columns = {**flat(log()), "next_observations": None, "terminals": None}
    ends = columns.pop("timeouts") | log()["terminals"].reshape(-1)
    assert dataset.sha256 == from_arrays(**columns, timeouts=ends).sha256
    assert noted(dataset, "were left out: observation.images.top.")
    assert noted(dataset, "Columns not used: frame_index.")
    assert (dataset.name, dataset.source) == ("cubes", f"LeRobot dataset cubes, {version}")
    narrow = as_dataset(tmp_path / "cubes", {"observations": "observation.velocity"})
    assert narrow.observation_dim == 1


def test_lerobot_without_a_reward_takes_a_column_or_a_function(tmp_path):
    folder = write_lerobot(tmp_path / "cubes", rewards=False)
    with pytest.raises(BadInput, match=r"cubes has no rewards.*columns; a function"):
        as_dataset(folder)
    frames = as_dataset(folder, {"rewards": "frame_index"})
    assert frames.rewards.max() == STEPS - 2  # the last rows have no successor
    near = as_dataset(folder, {"rewards": lambda rows: -np.abs(rows["observation.state"][:, 0])})
    np.testing.assert_array_equal(near.rewards, -np.abs(near.observations[:, 0]))
    with pytest.raises(BadInput, match="did you mean 'action'"):
        as_dataset(folder, {"rewards": lambda rows: rows["actoin"]})
    with pytest.raises(BadInput, match="differ in length"):
        as_dataset(folder, {"rewards": lambda rows: rows["action"][3:, 0]})
    for file in folder.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(BadInput, match="holds no Parquet files"):
        as_dataset(folder)
    (folder / "meta" / "info.json").write_text('{"features": 3}')
    with pytest.raises(BadInput, match="info.json: features"):
        as_dataset(folder)


# Tables


def numbered():
    columns = flat(log())
    names = {"observations": "obs", "actions": "act", "next_observations": "next_obs"}
    split = {
        f"{names[name]}_{k}": column for name in names for k, column in enumerate(columns[name].T)
    }
    return split | {name: columns[name] for name in ("rewards", "terminals", "timeouts")}


class Series(np.ndarray):
    """What is used of a pandas column."""

    def to_numpy(self):
        return np.asarray(self)

    def isna(self):
        return np.array([value is None for value in self])


def pandas_like(columns):
    """What is used of a pandas data frame."""
    series = {name: np.asarray(column).view(Series) for name, column in columns.items()}
    methods = {"columns": list(columns), "iloc": None, "__getitem__": lambda _, name: series[name]}
    return type("DataFrame", (), methods)()


def test_data_frames(tmp_path):
    columns, right = numbered(), expected().sha256
    table = pa.table(columns)
    polars = SimpleNamespace(columns=list(columns), to_arrow=lambda: table)
    frame = pandas_like(columns | {"run": np.repeat(["a", "b", "c", "d"], STEPS).astype(object)})
    for data in (table, polars, frame, {**flat(log())}):
        assert as_dataset(data).sha256 == right
    assert noted(as_dataset(frame), "Columns not used: run.")
    assert as_dataset(frame, {"episode_ids": "run"}).sha256 == right
    nullable = columns["rewards"].astype(object)
    assert as_dataset(pandas_like(columns | {"rewards": nullable})).sha256 == right
    nullable[17] = None
    with pytest.raises(BadInput, match="column rewards has no value in row 17"):
        as_dataset(pandas_like(columns | {"rewards": nullable}))
    pandas = pytest.importorskip("pandas")
    assert as_dataset(pandas.DataFrame(columns).convert_dtypes()).sha256 == right


def test_files_of_tables(tmp_path):
    columns, right = numbered(), expected().sha256
    table = pa.table(columns)
    pa.feather.write_feather(table, tmp_path / "log.feather")
    with pa.ipc.new_stream(str(tmp_path / "log.arrow"), table.schema) as stream:
        stream.write_table(table)
    seen = [{"place": row[:2], "speed": row[2]} for row in flat(log())["observations"].tolist()]
    pa.parquet.write_table(table.append_column("obs", pa.array(seen)), tmp_path / "nested.parquet")
    rows = pa.table({name: column.astype(float) for name, column in columns.items()}).to_pylist()
    write_lines(tmp_path / "log.jsonl", *rows)
    (tmp_path / "log.json").write_text(json.dumps(rows))
    for name in ("log.feather", "log.arrow", "log.jsonl", "log.json"):
        assert as_dataset(str(tmp_path / name)).sha256 == right, name
    given = {"observations": "obs.place+obs.speed"}
    assert as_dataset(tmp_path / "nested.parquet", given).sha256 == right
    del rows[3]["rewards"]
    with pytest.raises(BadInput, match=r"row 3 .* has no value for rewards"):
        as_dataset(write_lines(tmp_path / "log.jsonl", *rows))
    for content, words in (
        ("", "is empty"), ("{}\n{", "line 2 of log.jsonl is not readable JSON"), ("[]", "no object"),
        ("3", "line 1 of log.jsonl: its content: Expected `object`"), ("[[1]]", "Expected `object`"),
    ):  # fmt: skip
        (tmp_path / "log.jsonl").write_text(content)
        with pytest.raises(BadInput, match=words):
            as_dataset(tmp_path / "log.jsonl")
    (tmp_path / "torn.feather").write_bytes(b"ARROW1 and no more")
    with pytest.raises(BadInput, match="torn.feather is not a readable Arrow file"):
        as_dataset(tmp_path / "torn.feather")


def test_matrices_are_joined_and_arrays_that_are_not_used_are_named(tmp_path):
    columns = flat(log())
    seen = columns.pop("observations")
    columns.pop("next_observations")
    np.savez(tmp_path / "motor.npz", state=seen[:, :2], reference=seen[:, 2:], **columns)
    with h5py.File(tmp_path / "motor.hdf5", "w") as file:
        file["state"], file["reference"] = seen[:, :2], seen[:, 2]
        for name, column in columns.items():
            file[name] = column
    for name in ("motor.npz", "motor.hdf5"):
        assert noted(as_dataset(tmp_path / name), "Columns not used: reference.")
        joined = as_dataset(tmp_path / name, {"observations": "state+reference"})
        assert joined.sha256 == without_successors().sha256
        assert not noted(joined, "not used")


# Anything else


def test_episodes_and_datasets():
    columns, names = log(), ("observations", "actions", "rewards", "terminals")
    episodes = [{name: columns[name][k] for name in names} for k in range(EPISODES)]
    dataset = as_dataset(episodes)
    assert dataset.sha256 == from_episodes(episodes).sha256
    assert as_dataset(dataset) is dataset
    with pytest.raises(BadInput, match="a Dataset has fixed columns: leave action_low out"):
        as_dataset(dataset, action_low=-2)
    with pytest.raises(BadInput, match="a list has fixed columns: leave rewards out"):
        as_dataset(episodes, {"rewards": "x"})


def test_load_dataset_takes_names_and_all_other_data(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    assert bfq.load_dataset(pa.table(numbered()), action_low=-2).action_low.tolist() == [-2, -2]
    with pytest.raises(BadInput, match="pendulum-mixed has its own columns and range"):
        bfq.load_dataset("pendulum-mixed", {"rewards": "x"})
    with pytest.raises(BadInput, match="unknown task or file 'pendulum-mixd': did you mean"):
        bfq.load_dataset("pendulum-mixd")
    with pytest.raises(BadInput, match="there is no file"):
        bfq.load_dataset("absent.csv")
    expected().save(tmp_path / "saved")
    run = compose(str(tmp_path / "saved"), agent="bc")
    assert bfq.load_dataset(run.task).sha256 == expected().sha256


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "x" * 300 + ".csv"])
def test_impossible_names_are_refused(name):
    for load in (as_dataset, bfq.load_dataset):
        with pytest.raises(BadInput, match=r"cannot name a file|there is no|unknown task"):
            load(name)


@pytest.mark.parametrize("data", [3, None, [1, 2], object(), np.zeros((3, 3)), lambda: None])
def test_what_is_no_data_is_refused_with_what_would_be(data):
    with pytest.raises(BadInput, match="cannot read data from a .*: give a Dataset, a path"):
        as_dataset(data)


def test_several_files_say_what_each_of_them_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    from bfq.tasks.sources import import_files

    for k, several in enumerate((2, 2, 3)):
        columns = flat(log(several, seed=k))
        del columns["terminals"]
        columns["ids"] = np.repeat(np.arange(several), STEPS)
        np.savez(tmp_path / f"{k}.npz", **columns)
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    dataset = import_files(paths, "mine", {"episode_ids": "ids"}, action_low=-1, action_high=1)
    assert len(dataset.episodes) == 7
    assert noted(dataset, "0.npz and 1.npz: No terminals are given: the ends of all 2 episodes")
    assert noted(dataset, "2.npz: No terminals are given: the ends of all 3 episodes")


# Datasets


def test_episodes_are_chosen_joined_and_split(tmp_path):
    data = expected(name="walks", infos={"qpos": np.arange(float(N))})
    assert data.terminals.sum() == 1
    assert data.timeouts.sum() == 3
    assert [len(episode) for episode in data] == [STEPS] * EPISODES
    two = data[1:3]
    assert (len(two), two.infos["qpos"][0]) == (2 * STEPS, STEPS)
    assert data[-1].sha256 == data.episodes[-1].sha256
    mask = np.array([True, False, False, True])
    assert data[mask].sha256 == data[[0, 3]].sha256 == (data[0] + data[3]).sha256
    assert data[mask].infos["qpos"][STEPS] == 3 * STEPS
    assert data.filter(lambda episode: episode.terminals.any()).sha256 == data[1].sha256
    rest, held = data.split(0.25, seed=1)
    assert (len(rest.episodes), len(held.episodes)) == (3, 1)
    assert data.split(0.25, seed=1)[1].sha256 == held.sha256
    assert sorted([*rest.episode_returns, *held.episode_returns]) == sorted(data.episode_returns)
    joined = data + expected(log(seed=2), name="others")
    assert (joined.name, len(joined), joined.infos) == ("walks + others", 2 * N, {})
    joined.save(tmp_path / "both")
    assert bfq.load_dataset(tmp_path / "both").sha256 == joined.sha256
    assert data.describe()["episodes"] == EPISODES


@pytest.mark.parametrize(("action", "words"), [
    (lambda data: data[4], "there are 4 episodes in walks"),
    (lambda data: data[[True] * 3], "there are 4 episodes in walks"),
    (lambda data: data[4:], "no episode of walks is chosen"),
    (lambda data: data.filter(lambda episode: False), "no episode of walks is chosen"),
    (lambda data: data.split(1.0), "a share of 1.0 leaves none"),
    (lambda data: data[0].split(), "has 1 episodes"),
    (lambda data: data + expected(action_low=-2), "action_low is .* and"),
])  # fmt: skip
def test_episodes_that_do_not_exist_are_refused(action, words):
    with pytest.raises(BadInput, match=words):
        action(expected(name="walks"))
