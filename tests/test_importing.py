"""What is imported under a published name: told apart from the published file, by its name and its bytes."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from bfq.data import published, store
from bfq.data.arrays import from_arrays
from bfq.data.readers import d4rl
from bfq.data.store import dataset_folder
from bfq.errors import BadInput
from bfq.tasks.sources import import_files
from bfq_paper.plan import sources


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))


def hopper_file(folder: Path, name: str = "hopper_medium-v2.hdf5") -> Path:
    rng = np.random.default_rng(0)
    observations, actions = rng.normal(size=(30, 11)), rng.uniform(-1, 1, (30, 3))
    ends = np.arange(30) % 10 == 9
    log = from_arrays(
        observations, actions, rng.normal(size=30), timeouts=ends, action_low=-1, action_high=1
    )
    d4rl.write_d4rl(log, folder / name)
    return folder / name


def row_of_hopper(monkeypatch) -> sources.Source:
    monkeypatch.setattr(sources, "_no_world", lambda data: "")
    return sources.source_of("hopper-medium-v2")


def test_another_file_than_the_published_one_is_told_wherever_its_name_is_used(
    tmp_path, monkeypatch
):
    kept = import_files([hopper_file(tmp_path)], "hopper-medium-v2")
    assert any("Not the file that is published as hopper-medium-v2" in note for note in kept.notes)
    row = row_of_hopper(monkeypatch)
    assert row.kind == "imported"
    assert "not the published file" in row.words
    assert "transitions only" in row.words


def test_the_published_file_is_known_by_its_sha256(tmp_path, monkeypatch):
    path = hopper_file(tmp_path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    (remote,) = published.remotes_for("hopper-medium-v2")
    known = (dataclasses.replace(remote, sha256=sha256),)
    monkeypatch.setattr(published, "remotes_for", lambda task: known)
    kept = import_files([path], "hopper-medium-v2")
    assert not any("Not the file" in note for note in kept.notes)
    assert store.made(dataset_folder("hopper-medium-v2"))["published"] is True
    assert row_of_hopper(monkeypatch)[2:] == ("published", "hopper-medium-v2: the published data.")


def test_where_no_sha256_is_published_the_name_counts(tmp_path, monkeypatch):
    (remote,) = published.remotes_for("hopper-medium-v2")
    unknown = (dataclasses.replace(remote, sha256=None),)
    monkeypatch.setattr(published, "remotes_for", lambda task: unknown)
    import_files([hopper_file(tmp_path)], "hopper-medium-v2")
    assert store.made(dataset_folder("hopper-medium-v2"))["published"] is None
    assert row_of_hopper(monkeypatch).kind == "published"


def test_a_file_named_after_another_task_is_refused(tmp_path):
    path = hopper_file(tmp_path, "hopper_medium_replay-v2.hdf5")
    with pytest.raises(BadInput, match="of hopper-medium-replay-v2 and not of hopper-medium-v2"):
        import_files([path], "hopper-medium-v2")
    assert not store.exists(dataset_folder("hopper-medium-v2"))
    import_files([path], "my-hopper")  # under a name of one's own it is one's own
    assert store.made(dataset_folder("my-hopper"))["published"] is None


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("pendulum-mixed", "log.npz"),
        ("local/hopper-medium", "hopper_medium-v2.hdf5"),
        ("rerolled/hopper-medium", "hopper_medium-v2.hdf5"),
        ("hopper-medium-v2", "log.npz"),
        ("hopper-medium-v2", "log.csv"),
        ("cube-single-play-singletask-v0", "log.hdf5"),
    ],
)
def test_only_its_published_files_take_the_name_of_a_built_in_task(tmp_path, name, file):
    columns = {
        "observations": np.zeros((4, 11)),
        "actions": np.zeros((4, 3)),
        "rewards": np.zeros(4),
    }
    if file.endswith(".hdf5"):
        hopper_file(tmp_path, file)
    else:
        np.savez(tmp_path / file, **columns, timeouts=[0, 0, 0, 1])
    with pytest.raises(BadInput, match=f"{name} is .*: choose another --as"):
        import_files([tmp_path / file], name)
    assert not dataset_folder(name).exists()
