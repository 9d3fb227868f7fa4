"""Minari's datasets, read from the disk, against what Minari itself says is in them."""

import json
import warnings

import gymnasium
import h5py
import numpy as np
import pytest
from gymnasium import spaces

from bfq.cli.main import main
from bfq.data.convert import as_dataset
from bfq.data.readers.minari import find_minari, from_minari, read_minari
from bfq.errors import BadInput

WIDTHS = {"achieved_goal": 2, "desired_goal": 2, "observation": 4}  # in gymnasium's order


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Minari itself, with its datasets in a temporary folder."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return minari


@pytest.fixture
def walk(tmp_path):
    """The folder of the dataset robot/walk-v0."""
    return tmp_path / "robot" / "walk-v0"


def box(width, bound=np.inf, dtype="float64"):
    return spaces.Box(-bound, bound, (width,), dtype)


def goal_space():
    return spaces.Dict({name: box(width) for name, width in WIDTHS.items()})


def arrays_of(space, rng, rows):
    """Random observations of a space: an array, or a dict or tuple of them."""
    if hasattr(space, "spaces"):
        parts = space.spaces.items() if isinstance(space.spaces, dict) else enumerate(space.spaces)
        found = {key: arrays_of(part, rng, rows) for key, part in parts}
        return found if isinstance(space.spaces, dict) else tuple(found.values())
    return rng.normal(size=(rows, *space.shape)).astype(space.dtype)


def make(library, space, name="robot/walk-v0", lengths=(5, 3, 7), bound=1.0, infos=None, **more):
    """A dataset that Minari writes: the second episode terminates, the others are cut off."""
    rng = np.random.default_rng(0)
    buffers = [
        library.data_collector.EpisodeBuffer(
            id=k,
            observations=arrays_of(space, rng, steps + 1),
            actions=rng.uniform(-bound, bound, (steps, 2)).astype(np.float32),
            rewards=rng.normal(size=steps).tolist(),
            terminations=[k == 1 and i == steps - 1 for i in range(steps)],
            truncations=[k != 1 and i == steps - 1 for i in range(steps)],
            infos=infos(steps) if infos else None,
        )
        for k, steps in enumerate(lengths)
    ]
    given = {"observation_space": space, "action_space": box(2, bound, "float32"), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari wants an author and an address
        return library.create_dataset_from_buffers(name, buffers, **given)


def check_every_number(dataset, theirs, flat=lambda observations: observations):
    """Compares a dataset with Minari's own walk over its episodes."""
    row = 0
    for episode in theirs.iterate_episodes():
        steps, observations = len(episode), flat(episode.observations).astype(np.float32)
        rows = slice(row, row + steps)
        np.testing.assert_array_equal(dataset.observations[rows], observations[:-1])
        np.testing.assert_array_equal(dataset.next_observations[rows], observations[1:])
        np.testing.assert_array_equal(dataset.actions[rows], episode.actions)
        np.testing.assert_array_equal(dataset.rewards[rows], episode.rewards.astype(np.float32))
        np.testing.assert_array_equal(dataset.masks[rows], 1.0 - episode.terminations)
        ends = episode.terminations | episode.truncations
        np.testing.assert_array_equal(dataset.episode_ends[rows], ends)
        assert ends[-1]
        row += steps
    assert len(dataset) == row


def test_every_number_of_a_plain_dataset_is_minaris(library, tmp_path, walk):
    theirs = make(library, box(3))
    dataset = read_minari(walk)
    check_every_number(dataset, theirs)
    assert len(dataset) == 15  # 5 + 3 + 7: no row is lost
    assert np.flatnonzero(dataset.episode_ends).tolist() == [4, 7, 14]
    assert np.flatnonzero(dataset.masks == 0).tolist() == [7]
    assert (dataset.name, dataset.source) == ("robot/walk-v0", "Minari dataset robot/walk-v0")
    # Episode 10 comes after episode 9, not after episode 1.
    theirs = make(library, box(3), "robot/run-v0", lengths=range(1, 14))
    check_every_number(read_minari(tmp_path / "robot" / "run-v0"), theirs)


def test_parts_of_an_observation_are_chosen_in_the_order_asked_for(library, tmp_path, walk):
    theirs = make(library, goal_space())
    dataset = read_minari(walk, observation_keys=("observation", "desired_goal"))
    chosen = lambda parts: np.hstack([parts["observation"], parts["desired_goal"]])
    check_every_number(dataset, theirs, chosen)
    with pytest.raises(BadInput, match="observation 'desired': did you mean 'desired_g"):
        read_minari(walk, observation_keys=["desired"])
    with pytest.raises(BadInput, match="have no parts"):
        read_minari(store(tmp_path / "plain"), observation_keys=["observation"])


def test_parts_are_joined_as_gymnasium_flattens_them(library, walk):
    pair = spaces.Tuple((box(2), spaces.Box(0, 1, (2, 2), np.float32)))
    inner = spaces.Dict({"z": box(1), "y": pair})
    space = spaces.Dict({"robot": inner, "clock": box(1)})
    theirs = make(library, space)

    def flat(parts):
        one, two = parts["robot"]["y"]
        return np.array([
            spaces.flatten(space, {"clock": clock, "robot": {"y": (a, b), "z": z}})
            for clock, a, b, z in zip(parts["clock"], one, two, parts["robot"]["z"], strict=True)
        ])  # fmt: skip

    check_every_number(read_minari(walk), theirs, flat)
    assert read_minari(walk, observation_keys=["robot/y"]).observation_dim == 6
    # Without a space in the metadata, the names in the file are used.
    card = walk / "data" / "metadata.json"
    metadata = json.loads(card.read_text())
    del metadata["observation_space"]
    card.write_text(json.dumps(metadata))
    check_every_number(read_minari(walk), theirs, flat)


def test_the_range_of_actions_is_that_of_their_space_or_of_the_data(library, tmp_path, walk):
    make(library, box(3), bound=2.0)
    dataset = read_minari(walk)
    assert dataset.action_low.tolist() == [-2.0, -2.0]
    assert dataset.action_high.tolist() == [2.0, 2.0]
    space = box(2, np.inf, "float32")
    theirs = make(library, box(3), "robot/run-v0", bound=5.0, action_space=space)
    dataset = read_minari(tmp_path / "robot" / "run-v0")
    check_every_number(dataset, theirs)
    assert dataset.action_high.max() >= dataset.actions.max() > 2.0
    assert any("range of the actions was not given" in note for note in dataset.notes)
    narrow = box(2, 1.5, "float32")
    make(library, box(3), "robot/hop-v0", bound=2.0, action_space=narrow)
    dataset = read_minari(tmp_path / "robot" / "hop-v0")
    assert np.abs(dataset.actions).max() == 1.5
    assert any("were clipped to the action space" in note for note in dataset.notes)


def test_the_state_before_each_action_is_kept(library, tmp_path, walk):
    def infos(steps):
        return {"qpos": np.arange(2.0 * (steps + 1)).reshape(-1, 2), "qvel": np.arange(steps + 1.0)}

    make(library, box(3), infos=infos)
    dataset = read_minari(walk)
    assert dataset.infos["qpos"][:6, 0].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 0.0]
    assert dataset.infos["qvel"][:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 0.0]
    odd = {"infos/qpos": np.zeros(4), "infos/qvel/deep": np.zeros(5)}
    assert not read_minari(store(tmp_path / "one", **odd)).infos
    odd = {"infos/qpos": np.array([b"x"] * 5), "infos/qvel": 1.0}
    assert not read_minari(store(tmp_path / "two", **odd)).infos


def test_a_minari_dataset_gives_just_the_episodes_it_was_filtered_to(library):
    theirs = make(library, goal_space()).filter_episodes(lambda episode: len(episode) != 3)
    dataset = from_minari(theirs, observation_keys=["observation"])
    check_every_number(dataset, theirs, lambda parts: parts["observation"])
    assert len(dataset) == 12
    with pytest.raises(BadInput, match=r"minari\.load_dataset"):
        from_minari("robot/walk-v0")


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # Minari's folder
def test_what_was_recorded_from_a_simulator_names_it(library, tmp_path):
    pendulum = gymnasium.make("Pendulum-v1", max_episode_steps=20)
    recorder = library.DataCollector(pendulum, record_infos=True)
    for seed in range(2):
        recorder.reset(seed=seed)
        for _ in range(20):
            recorder.step(recorder.action_space.sample())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = recorder.create_dataset("pendulum/random-v0")
    dataset = read_minari(find_minari("pendulum/random-v0"))
    check_every_number(dataset, theirs)
    assert dataset.source == "Minari dataset pendulum/random-v0 of Pendulum-v1"
    assert dataset.action_high.tolist() == [2.0]
    assert dataset.env == dataset.save(tmp_path / "saved").env == "Pendulum-v1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = dataset.to_minari("pendulum/written-v0")
    assert as_dataset(written).sha256 == dataset.sha256
    assert as_dataset(written).env == "Pendulum-v1"
    recorder.close()


def test_a_dataset_is_found_by_its_id_or_the_nearest_is_named(library, tmp_path):
    make(library, box(3))
    assert find_minari("robot/walk-v0") == tmp_path / "robot" / "walk-v0"
    for wrong in ("robot/walk-v1", "../robot/walk-v0", "robot"):
        with pytest.raises(BadInput, match="unknown Minari dataset"):
            find_minari(wrong)


def test_where_no_dataset_is_the_command_that_fetches_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(BadInput, match="minari download D4RL/pen/human-v2"):
        find_minari("D4RL/pen/human-v2")
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / ".minari" / "datasets" / "pen" / "data"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text("{}")
    assert find_minari("pen") == folder.parent


@pytest.mark.parametrize("data_format", ["arrow", "parquet"])
def test_arrow_and_parquet_hold_the_same_as_hdf5(library, tmp_path, data_format):
    def infos(steps):
        return {"qpos": np.arange(2.0 * (steps + 1)).reshape(-1, 2), "qvel": np.arange(steps + 1.0)}

    pair = spaces.Tuple((box(2), spaces.Box(0, 1, (2, 2), np.float32)))
    space = spaces.Dict({"clock": box(1), "robot": pair})
    make(library, space, infos=infos)
    make(library, space, "robot/run-v0", infos=infos, data_format=data_format)
    one, two = (read_minari(tmp_path / "robot" / name) for name in ("walk-v0", "run-v0"))
    assert one.sha256 == two.sha256
    np.testing.assert_array_equal(one.infos["qpos"], two.infos["qpos"])
    some = read_minari(tmp_path / "robot" / "run-v0", observation_keys=["clock"], episodes=[2])
    assert (some.observation_dim, len(some)) == (1, 7)
    for file in tmp_path.glob(f"robot/run-v0/data/1/*.{data_format}"):
        file.write_bytes(b"")
    with pytest.raises(BadInput, match="not a readable"):
        read_minari(tmp_path / "robot" / "run-v0")


@pytest.mark.parametrize("image_and_more", [True, False])
def test_images_are_refused_unless_other_parts_are_chosen(library, walk, image_and_more):
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    theirs = make(library, spaces.Dict({"eye": image, "arm": box(2)}) if image_and_more else image)
    with pytest.raises(BadInput, match="are images, and bfq needs plain numbers"):
        read_minari(walk)
    if image_and_more:
        chosen = read_minari(walk, observation_keys=["arm"])
        check_every_number(chosen, theirs, lambda parts: parts["arm"])


def test_other_formats_and_discrete_actions_are_refused(library, tmp_path, walk):
    make(library, box(3))
    card = walk / "data" / "metadata.json"
    plain = card.read_text()
    card.write_text(json.dumps({**json.loads(plain), "data_format": "zarr"}))
    with pytest.raises(BadInput, match="data_format is zarr, but bfq reads only hdf5, arrow, parq"):
        read_minari(walk)
    card.write_text(plain)
    discrete = library.serialization.serialize_space(spaces.Discrete(4))
    card.write_text(json.dumps({**json.loads(card.read_text()), "action_space": discrete}))
    with pytest.raises(BadInput, match="actions of the dataset are a Discrete space"):
        read_minari(walk)


def store(folder, card=None, **changes):
    """A folder with one episode of four steps, some of its arrays changed."""
    columns = {
        "observations": np.zeros((5, 3)),
        "actions": np.zeros((4, 2), np.float32),
        "rewards": np.arange(4.0),
        "terminations": np.zeros(4, bool),
        "truncations": np.arange(4) == 3,
    }
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    card = card if isinstance(card, list) else {"total_steps": 4, **(card or {})}
    (data / "metadata.json").write_text(json.dumps(card))
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for name, column in {**columns, **changes}.items():
            if column is not None:
                file[f"episode_0/{name}"] = column
    return folder


def test_a_folder_without_a_card_is_read_as_far_as_its_arrays_tell(tmp_path):
    folder = store(tmp_path / "old")
    (folder / "data" / "metadata.json").unlink()
    dataset = read_minari(folder)
    assert dataset.name == "old"
    assert dataset.rewards.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert read_minari(folder / "data").name == "old"
    assert read_minari(folder / "data", "mine").name == "mine"


def test_an_import_proposes_the_environment_that_the_data_names(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))
    folder = store(tmp_path / "swing", {"env_spec": '{"id": "Pendulum-v1"}'})
    assert main(["data", "import", str(folder), "--as", "swing"]) == 0
    assert capsys.readouterr().out.endswith("bfq train --task swing --env Pendulum-v1\n")
    assert read_minari(store(tmp_path / "odd", {"env_spec": '{"id": "my env"}'})).env is None


def test_ends_without_a_flag_or_with_both(tmp_path):
    folder = store(tmp_path, truncations=np.zeros(4, bool))
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        file["episode_1"] = file["episode_0"]
    dataset = read_minari(folder)
    assert dataset.episode_ends.tolist() == [False, False, False, True] * 2
    assert dataset.masks.all()
    ends = {"terminations": np.arange(4) == 3, "truncations": np.zeros(4, bool)}
    dataset = read_minari(store(tmp_path / "terminal", **ends))
    assert dataset.masks.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert not any("both-flags" in note for note in dataset.notes)


@pytest.mark.parametrize(("changes", "match"), [
    ({"rewards": None}, "episode_0 has no rewards"),
    ({"observations": np.zeros((4, 3))}, r"4 rewards but observations \(4, 3\)"),
    ({"actions": np.zeros((3, 2))}, r"4 rewards but actions \(3, 2\)"),
    ({"terminations": np.bool_(False)}, "4 rewards but terminations"),
    ({"actions": np.array([b"rm -rf"] * 4)}, "are not numbers"),
    ({"observations": np.full((5, 3), np.nan)}, "NaN"),
    ({"observations": np.full((5, 3), 1e300)}, "observations hold"),
    ({"actions": h5py.ExternalLink("other.hdf5", "/actions")}, "links are not followed"),
    ({"observations": h5py.SoftLink("/episode_0/rewards")}, "links are not followed"),
    ({"card": {"action_space": "{"}}, "not readable JSON"),
    ({"card": {"action_space": '{"low": [0, 0, 0], "high": [1, 1, 1]}'}}, "does not fit the act"),
    ({"card": {"action_space": '{"low": "x", "high": 1}'}}, "does not fit the actions"),
    ({"card": {"action_space": '{"low": 1, "high": 1}'}}, "action_low must be below"),
    ({"card": {"observation_space": '{"type": "Text"}'}}, "are a Text space"),
    ({"card": {"observation_space": '{"subspaces": {"a": 3}}'}}, "observation_space: subspaces"),
    ({"card": [1, 2]}, "got `array`"),
    ({"card": {"total_steps": None}}, "total_steps"),
    ({"card": {"dataset_id": "<script>"}}, "dataset_id"),
    ({"card": {"env_spec": '{"id": "<b>"}'}}, "env_spec: id"),
    ({"card": {"observation_space": '{"subspaces":' * 5000}}, "observation_space"),
])  # fmt: skip
def test_broken_folders_are_refused_in_a_sentence(tmp_path, changes, match):
    with pytest.raises(BadInput, match=match):
        read_minari(store(tmp_path, **changes))


def test_folders_without_a_dataset_or_an_episode_are_refused(tmp_path):
    folder = store(tmp_path)
    card, file = folder / "data" / "metadata.json", folder / "data" / "main_data.hdf5"

    def refused(match, place=folder, **options):
        with pytest.raises(BadInput, match=match):
            read_minari(place, **options)

    refused("there is no Minari dataset in", tmp_path / "absent")
    refused("has no episode 7", episodes=[0, 7])
    for content in ("{}", "", "[" * 10_000, '{"total_steps": Infinity}'):
        card.write_text(content)
        refused(r"metadata\.json")
    card.write_text('{"total_steps": 4}')
    with h5py.File(file, "w") as stored:
        stored["episode_x"] = 1.0
    refused("there is no episode")
    file.write_text("not HDF5")
    refused(r"main_data\.hdf5 is not a readable HDF5 file")
    file.unlink()
    refused("there is no file")
