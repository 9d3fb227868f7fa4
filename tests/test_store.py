"""The store: what is written is what is read, whole or not at all, without holding it in memory."""

import functools
import itertools
import json
import mmap
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bfq.data import store
from bfq.data.dataset import (
    CHUNK,
    Dataset,
    Moments,
    chunks,
    release_pages,
    summarize_columns,
)
from bfq.data.store import dataset_folder, home
from bfq.errors import BadInput, Busy, DiskTrouble
from bfq.tasks import sources


def piece(rows: int, seed: int = 0, width: int = 3) -> Dataset:
    rng = np.random.default_rng(seed)
    s, n = rng.normal(size=(2, rows, width)).astype(np.float32)
    a = rng.uniform(-2, 2, (rows, 2)).astype(np.float32)
    ends = np.arange(rows) % 4 == 3
    ends[-1] = True
    masks = np.where(np.arange(rows) % 8 == 3, 0.0, 1.0).astype(np.float32)
    rewards = rng.normal(size=rows).astype(np.float32)
    bound = np.full(2, 2.0, np.float32)
    infos = {"qpos": rng.normal(size=(rows, 2)), "time": np.arange(rows)}
    columns = s, a, rewards, n, masks, ends
    return Dataset(*columns, -bound, bound, "piece", "dice", ("a note",), infos)


def test_what_is_saved_is_what_is_loaded(tmp_path):
    saved, path = piece(50), tmp_path / "deep" / "set"
    loaded = store.save_dataset(saved, path, {"seed": 3})
    for name, column in saved.columns.items():
        np.testing.assert_array_equal(getattr(loaded, name), column)
    for name, column in saved.infos.items():
        np.testing.assert_array_equal(loaded.infos[name], column)
    assert (loaded.sha256, loaded.source, loaded.notes) == (saved.sha256, "dice", ("a note",))
    np.testing.assert_array_equal(loaded.episode_returns, saved.episode_returns)
    np.testing.assert_array_equal(loaded.summary.observation_std, saved.summary.observation_std)
    assert json.loads((path / store.CARD).read_text())["made"] == {"seed": 3}
    assert not [name for name in os.listdir(path.parent) if name.startswith(".")]


def test_a_writer_goes_on_after_the_pieces_of_a_killed_one(tmp_path):
    whole, recipe = piece(40), {"seed": 1}
    with store.Writer(tmp_path / "set", recipe) as first:
        first.append(whole.rows(slice(0, 16)), label=0)
        # Killed in the middle of the next piece: its bytes are there, its entry in the journal is not.
        with (tmp_path / ".set.part" / "transitions.npy").open("ab") as file:
            file.write(b"half a row")
    assert not store.exists(tmp_path / "set")
    shutil.copytree(tmp_path / ".set.part", tmp_path / ".other.part")
    with store.Writer(tmp_path / "other", {"seed": 2}) as third:
        assert third.rows == 0  # pieces of another recipe are not taken
    with store.Writer(tmp_path / "set", recipe) as second:
        assert (second.rows, second.pieces(0), second.pieces(1)) == (16, 1, 0)
        second.append(whole.rows(slice(16, 17)), label=1)
        second.append(whole.rows(slice(17, 40)), label=1)
        assert second.finish("piece", "dice").sha256 == whole.sha256


def test_what_cannot_be_written_is_refused_and_leaves_nothing(tmp_path):
    with store.Writer(tmp_path / "set") as writer:
        with pytest.raises(BadInput, match="no transition"):
            writer.finish("none", "nowhere")
        writer.append(piece(4))
        with pytest.raises(BadInput, match="does not fit"):
            writer.append(piece(4, width=5))
    assert not list(tmp_path.iterdir())
    first, second = (store.Writer(tmp_path / "set", {"seed": 1}) for _ in range(2))
    with first, pytest.raises(BadInput, match="another process is writing"), second:
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskTrouble, match="cannot write"):
        store.save_dataset(piece(4), tmp_path / "file" / "set")


def test_a_dataset_is_replaced_only_on_request(tmp_path):
    store.save_dataset(piece(8), tmp_path / "set")
    with pytest.raises(BadInput, match="already"), store.Writer(tmp_path / "set"):
        pass
    assert os.listdir(tmp_path) == ["set"]
    with store.Writer(tmp_path / "set", replace=True) as writer:
        writer.append(piece(4))
        writer.finish("piece", "dice")
    assert len(store.open_dataset(tmp_path / "set")) == 4


def test_a_name_that_holds_other_datasets_is_not_taken(tmp_path):
    store.save_dataset(piece(8), tmp_path / "group" / "one")
    writer = store.Writer(tmp_path / "group", replace=True)
    with pytest.raises(BadInput, match="folder of other datasets"), writer:
        pass
    with pytest.raises(BadInput, match="no other can be inside it"):
        store.save_dataset(piece(8), tmp_path / "group" / "one" / "two")
    assert len(store.open_dataset(tmp_path / "group" / "one")) == 8


DAMAGES = {
    "transitions.npy, missing": lambda folder: (folder / "transitions.npy").unlink(),
    "transitions.npy, cut": lambda folder: os.truncate(folder / "transitions.npy", 200),
    "transitions.npy, in float64": lambda folder: np.save(
        folder / "transitions.npy", np.load(folder / "transitions.npy").astype(np.float64)),
    "episode_ends.npy, short": lambda folder: np.save(folder / "episode_ends.npy", np.zeros(3, bool)),
    "episode_ends.npy, objects": lambda folder: np.save(
        folder / "episode_ends.npy", np.array([{}] * 10), allow_pickle=True),
    "returns.npy, short": lambda folder: np.save(folder / "returns.npy", np.zeros(1)),
    "infos-qpos.npy, a table": lambda folder: (folder / "infos-qpos.npy").write_bytes(b"PK\x03\x04"),
    "dataset.json, missing": lambda folder: (folder / "dataset.json").unlink(),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_refused_with_the_name_of_the_file(tmp_path, damage):
    store.save_dataset(piece(10), tmp_path / "set")
    DAMAGES[damage](tmp_path / "set")
    with pytest.raises(BadInput, match=damage.split(",")[0]) as raised:
        store.open_dataset(tmp_path / "set")
    assert "\n" not in str(raised.value)


def fields(content: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The path of every value in a card, except inside `made`, which is free."""
    yield path
    if isinstance(content, dict) and path != ("made",):
        for name, value in content.items():
            yield from fields(value, (*path, name))
    if isinstance(content, list) and content:
        yield from fields(content[0], (*path, 0))


WRONG = [None, [], {}, [1], [None], True, -1, 7.5, 1e300, 10**30, "x<y", "", {"a": 1}]


# The values of WRONG that are right in a field.
VALID = {
    "name": [], "source": ["x<y", ""], "notes": [[]], "notes.0": ["x<y", ""], "infos": [[]],
    "made": [{}, {"a": 1}], "env": [None], "action_low.0": [-1], "action_high.0": [-1, 7.5, 10**30],
    "summary.reward_mean": [-1], "summary.reward_low": [-1], "summary.reward_high": [7.5, 10**30],
    "summary.reward_std": [7.5, 10**30], "summary.observation_std.0": [7.5, 10**30],
    "summary.observation_mean.0": [-1, 7.5, 10**30],
}  # fmt: skip


@pytest.fixture
def refused(tmp_path):
    """Replaces the card of a dataset, and checks that opening it is refused in one line."""
    store.save_dataset(piece(10), tmp_path / "set")
    file = tmp_path / "set" / "dataset.json"

    def check(text: str, words: str) -> None:
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(BadInput) as raised:
            store.open_dataset(tmp_path / "set")
        assert "dataset.json" in str(raised.value)
        assert words in str(raised.value), (text, str(raised.value))
        assert "\n" not in str(raised.value)

    check.card = file.read_text()
    return check


def test_every_altered_field_of_a_card_is_refused_by_its_name(refused):
    paths = list(fields(json.loads(refused.card)))
    assert {".".join(map(str, path)) for path in paths} >= VALID.keys()
    for *outer, last in filter(None, paths):
        name = next(part for part in (last, *reversed(outer)) if isinstance(part, str))
        right = VALID.get(".".join(map(str, (*outer, last))), [])
        for value in WRONG:
            if any(value is one or value == one for one in right):
                continue
            card = json.loads(refused.card)
            target = functools.reduce(lambda part, key: part[key], outer, card)
            target[last] = value
            refused(json.dumps(card), name)
        if isinstance(last, str) and last not in ("format", "env"):
            del target[last]
            refused(json.dumps(card), name)


def test_a_card_that_is_no_card_is_refused(refused):
    nested = ("[" * 10_000, '{"a":' * 10_000)
    for text in ("", "{", "[]", "5", "null", '{"format": 1}', "\xff", "NaN", *nested):
        refused(text, "")
    names = ("action_low", "action_high", "reward_mean")
    for field, number in itertools.product(names, ("Infinity", "-Infinity", "NaN", "1e999")):
        text = re.sub(rf'("{field}": \[?\s*)[-\d.e]+', rf"\g<1>{number}", refused.card)
        assert number in text
        refused(text, "")
    refused(refused.card.replace('"qpos"', '"../../secret"'), "infos[")


def test_the_home_is_the_users_choice(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path))
    assert home() == tmp_path
    assert dataset_folder("local/x-y") == tmp_path / "datasets" / "local" / "x-y"
    monkeypatch.delenv("BFQ_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert home() == tmp_path / "cache" / "bfq"


@pytest.mark.parametrize("name", ["", "a//b", "../x", "a/..", "/etc", "a\\b", "a\nb", "<script>"])
def test_a_name_cannot_leave_the_home(name):
    with pytest.raises(BadInput, match="cannot name a dataset"):
        dataset_folder(name)


def test_moments_in_pieces_are_the_moments_of_the_whole():
    rows = np.random.default_rng(0).normal(1e4, 1.0, (1000, 3))  # where naive sums fail
    moments = Moments()
    for part in np.split(rows, [1, 400, 650]):
        moments.add(part)
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.std, rows.std(0), rtol=1e-10)


def test_a_fingerprint_tells_every_change():
    columns = piece(6).columns
    rewards, actions = columns["rewards"] + np.float32(1e-6), columns["actions"].reshape(4, 3)
    masks = columns["masks"].astype(np.float64)
    changes = ({}, {"rewards": rewards}, {"actions": actions}, {"masks": masks})
    assert len({summarize_columns({**columns, **each}, {}).sha256 for each in changes}) == 4


def test_a_summary_does_not_depend_on_the_chunks():
    big = piece(CHUNK + 7)
    whole, seen = summarize_columns(big.columns, {}), big.observations
    np.testing.assert_allclose(whole.observation_mean, seen.mean(0, dtype=np.float64), rtol=1e-9)
    np.testing.assert_allclose(whole.observation_std, seen.std(0, dtype=np.float64), rtol=1e-9)
    assert (whole.reward_low, whole.reward_high) == (big.rewards.min(), big.rewards.max())
    assert len(whole.episode_returns) == big.episode_ends.sum()
    assert sum(len(chunk["rewards"]) for chunk in chunks(big.columns)) == len(big)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no pages can be given back")
def test_pages_that_were_read_are_given_back(tmp_path):
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    np.save(tmp_path / "big.npy", np.zeros((20_000, 500), np.float32))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    before = resident()
    assert mapped.sum() == 0
    held = resident()
    release_pages({"observations": mapped[:, :5]})
    assert held - before > 30e6  # the 40 MB were counted as ours
    assert resident() - before < 10e6


def test_nobody_writes_into_a_dataset_that_is_being_finished(tmp_path, monkeypatch):
    """Another writer that comes between the last bytes and the renaming has to wait."""
    real, met = os.replace, []

    def late(source, target):
        if Path(target) == tmp_path / "set":
            other = store.Writer(tmp_path / "set", {"a": 1})
            with pytest.raises(Busy, match="another process is writing"), other:
                pass
            met.append(target)
        real(source, target)

    with store.Writer(tmp_path / "set", {"a": 1}) as writer:
        writer.append(piece(8))
        monkeypatch.setattr(os, "replace", late)
        assert writer.finish("piece", "dice").sha256 == piece(8).sha256
    assert len(met) == 1
    assert ".lock" not in os.listdir(tmp_path / "set")
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("moment", ["before the lock", "before its opening"])
def test_a_dataset_that_another_has_just_finished_is_busy(tmp_path, monkeypatch, moment):
    real = store.locked

    def late(part, refusal):
        monkeypatch.setattr(store, "locked", real)
        if moment == "before the lock":
            store.save_dataset(piece(8), tmp_path / "other")
            os.replace(tmp_path / "other", tmp_path / "set")
        else:  # this takes the folder of the pieces along
            store.save_dataset(piece(8), tmp_path / "set")
        return real(part, refusal)

    monkeypatch.setattr(store, "locked", late)
    with pytest.raises(Busy, match="another process"), store.Writer(tmp_path / "set"):
        pass
    assert store.open_dataset(tmp_path / "set").sha256 == piece(8).sha256
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("moment", [0, 1])
def test_one_killed_while_replacing_leaves_the_data_to_the_next(tmp_path, monkeypatch, moment):
    """After one renaming the former data are put back; after both they go, and none stays in the way."""
    store.save_dataset(piece(8), tmp_path / "set")
    with monkeypatch.context() as killing:
        real, left = os.replace, [moment]

        def killed(source, target):
            real(source, target)
            if Path(target).name in (".set.before", "set"):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt

        killing.setattr(store.os, "replace", killed)
        killing.setattr(store.shutil, "rmtree", lambda *a, **k: None)
        with store.Writer(tmp_path / "set", {"a": 1}, replace=True) as first:
            first.append(piece(4))
            with pytest.raises(KeyboardInterrupt):
                first.finish("piece", "dice")
    assert (tmp_path / ".set.before").exists()
    assert store.exists(tmp_path / "set") == bool(moment)
    with store.Writer(tmp_path / "set", {"a": 1}, replace=True) as second:
        assert len(store.open_dataset(tmp_path / "set")) == (4 if moment else 8)
        second.append(piece(6))
        assert len(second.finish("piece", "dice")) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_writer_that_has_finished_leaves_the_next_one_alone(tmp_path):
    with store.Writer(tmp_path / "set") as first:
        first.append(piece(8))
        first.finish("piece", "dice")
        second = store.Writer(tmp_path / "set", replace=True)
        second.__enter__()
        second.append(piece(4))
    assert len(second.finish("piece", "dice")) == 4
    second.__exit__()


def test_data_of_another_process_is_used_or_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path))
    name = "local/hopper-random"
    busy = pytest.raises(Busy, match="another process is writing")
    with store.Writer(dataset_folder(name), {"a": 1}), busy:
        sources.load_dataset(name)

    def quicker(*_):
        store.save_dataset(piece(8), dataset_folder(name))
        raise Busy("another process has just written it.")

    monkeypatch.setattr(sources, "generate_dataset", quicker)
    assert sources.load_dataset(name).sha256 == piece(8).sha256
