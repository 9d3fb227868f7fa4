"""Data made here: robots stepped as Gymnasium steps them, the same bytes by any number of processes."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bfq.cli.main import main
from bfq.data import store
from bfq.data.dataset import Dataset
from bfq.data.store import dataset_folder
from bfq.errors import BadInput, DiskTrouble
from bfq.files import read_json
from bfq.tasks import locomotion
from bfq.tasks.catalog import GENERATED, TASKS
from bfq.tasks.locomotion import LocomotionBlock, UniformPolicy, policy_file, reroll_recipe
from bfq.tasks.recipes import DataRecipe, Part, block_data, generate_dataset, part_seed, recipe_for
from bfq.tasks.sources import availability, generate_and_store, load_dataset, stored_datasets
from bfq.tasks.weights import GaussianPolicy, load_weights, save_weights

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))


def test_a_log_holds_whole_episodes_in_order():
    log = LocomotionBlock("hopper", UniformPolicy(3), episodes=3)(0, 0)
    ends = np.flatnonzero(log.episode_ends)
    assert len(ends) == 3
    assert ends[-1] == len(log) - 1
    inside = np.setdiff1d(np.arange(len(log) - 1), ends)
    np.testing.assert_array_equal(log.next_observations[inside], log.observations[inside + 1])
    assert (log.next_observations[ends[:-1]] != log.observations[ends[:-1] + 1]).any(1).all()
    np.testing.assert_array_equal(np.float32(log.infos["qpos"][:, 1:]), log.observations[:, :5])


def test_a_block_depends_on_its_seed_and_index_alone():
    block = LocomotionBlock("hopper", UniformPolicy(3), episodes=2)
    first, again, other, seeded = block(5, 1), block(5, 1), block(5, 2), block(6, 1)
    np.testing.assert_array_equal(first.observations, again.observations)
    assert not np.array_equal(first.observations[0], other.observations[0])
    assert not np.array_equal(first.observations[0], seeded.observations[0])


def tiny(name: str = "local/hopper-medium-expert", size: int = 300, seed: int = 0) -> DataRecipe:
    recipe = recipe_for(name, size, seed)
    parts = tuple(
        Part(dataclasses.replace(part.block, episodes=2), part.size) for part in recipe.parts
    )
    return dataclasses.replace(recipe, parts=parts)


def test_any_number_of_processes_makes_the_same_bytes(tmp_path):
    one = generate_dataset(tiny(), tmp_path / "one", processes=1)
    three = generate_dataset(tiny(), tmp_path / "three", processes=3)
    assert one.sha256 == three.sha256
    assert generate_dataset(tiny(seed=1), tmp_path / "other").sha256 != one.sha256
    assert len(one) == 300
    assert one.episode_ends[149]  # medium is cut off where expert begins
    assert (one.masks[~one.episode_ends] == 1).all()


@dataclasses.dataclass(frozen=True)
class Counted:
    """A block that writes down who asked for it, and stops the world at one of them."""

    folder: str
    stop_at: int = -1

    def __call__(self, seed: int, index: int) -> Dataset:
        with (Path(self.folder) / "asked").open("a") as file:
            file.write(f"{index}\n")
        if index == self.stop_at:
            time.sleep(60)
        row = np.full((5, 1), index, np.float32)
        columns = (row, row / 1000, row[:, 0], row, np.ones(5))
        return block_data(columns, np.arange(5) == 4, {})


def test_making_that_was_killed_goes_on_where_it_stood(tmp_path):
    script = (
        "from pathlib import Path\n"
        "from tests.test_making import Counted\n"
        "from bfq.tasks.recipes import DataRecipe, Part, generate_dataset\n"
        f"recipe = DataRecipe('r', 's', (Part(Counted({str(tmp_path)!r}, 7), 50),), about={{'stop': 0}})\n"
        f"generate_dataset(recipe, Path({str(tmp_path)!r}) / 'set', 1)\n"
    )
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen([sys.executable, "-c", script], cwd=root, start_new_session=True)
    journal = tmp_path / ".set.part" / "journal.json"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        journal.exists() and '"rows": 35' in journal.read_text()
    ):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "asked").unlink()
    recipe = DataRecipe("r", "s", (Part(Counted(str(tmp_path)), 50),), about={"stop": 0})
    dataset = generate_dataset(recipe, tmp_path / "set", 1)
    asked = {int(line) for line in (tmp_path / "asked").read_text().split()}
    assert min(asked) == 7  # the seven before are not made again
    np.testing.assert_array_equal(dataset.rewards, np.repeat(np.arange(10), 5))


def test_no_block_is_made_in_vain_where_its_size_is_known(tmp_path):
    parts = tuple(Part(Counted(str(tmp_path)), size, block_rows=5) for size in (15, 5, 7))
    dataset = generate_dataset(DataRecipe("r", "s", parts), tmp_path / "set", 2)
    np.testing.assert_array_equal(
        dataset.rewards, [*[0] * 5, *[1] * 5, *[2] * 5, *[0] * 5, *[0] * 5, 1, 1]
    )
    np.testing.assert_array_equal(np.flatnonzero(dataset.episode_ends), [4, 9, 14, 19, 24, 26])
    assert len((tmp_path / "asked").read_text().split()) == 6


def _failing(seed: int, index: int) -> Dataset:
    raise BadInput("there is no such world.")


def test_what_goes_wrong_in_a_process_is_told_by_the_one_who_asked(tmp_path):
    with pytest.raises(BadInput, match="no such world"):
        generate_dataset(DataRecipe("r", "s", (Part(_failing, 5),)), tmp_path / "set", 1)


def test_a_user_script_without_a_guard_can_make_data(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import bfq.tasks.sources as s\nfrom bfq.tasks.recipes import recipe_for\n"
        "print(len(s.generate_and_store(recipe_for('local/hopper-random', 100), processes=2)))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "100", done.stderr


def test_levels_are_ordered_by_their_returns(tmp_path):
    """Five episodes each: the levels lie far apart."""
    means = []
    for level in locomotion.LEVELS:
        recipe = recipe_for(f"local/hopper-{level}", 4000)
        dataset = generate_dataset(recipe, tmp_path / level)
        whole = (
            dataset.episode_returns[:-1] if level != "medium-expert" else dataset.episode_returns
        )
        means.append(whole.mean())
    assert means == sorted(means)


def test_every_recipe_has_a_card_and_names_its_simulator():
    for name in GENERATED:
        assert name in TASKS
        assert availability(name).startswith("can be generated")
    for name, recipe in GENERATED.items():
        if not recipe.endswith(":locomotion_recipe"):
            continue
        assert recipe_for(name, 10).simulator == TASKS[name].simulator


def test_made_data_is_kept_and_found_again():
    name = "local/hopper-random"
    made = generate_and_store(recipe_for(name, 200))
    assert availability(name) == "yes"
    assert name in stored_datasets()
    assert load_dataset(name).sha256 == made.sha256
    assert read_json(dataset_folder(name) / store.CARD)["made"]["seed"] == 0
    with pytest.raises(BadInput, match="here already, with 200 transitions"):
        generate_and_store(recipe_for(name, 300))
    assert len(generate_and_store(recipe_for(name, 100), replace=True)) == 100


def test_a_policy_with_more_inputs_sees_zeros_there():
    rng = np.random.default_rng(0)
    arrays = {
        "hidden_0_w": rng.normal(size=(111, 4)).astype(np.float32),
        "hidden_0_b": np.zeros(4, np.float32),
        "mean_w": rng.normal(size=(4, 8)).astype(np.float32),
        "mean_b": np.zeros(8, np.float32),
        "log_std": np.zeros(8, np.float32),
    }
    policy = GaussianPolicy(arrays, {"activation": "relu", "squash": "tanh"})
    seen = rng.normal(size=(5, 27)).astype(np.float32)
    padded = np.concatenate([seen, np.zeros((5, 84), np.float32)], axis=1)
    np.testing.assert_array_equal(policy.act(seen), policy.act(padded))


def test_a_file_without_a_robot_in_its_name_is_asked_for_one(tmp_path):
    with pytest.raises(BadInput, match="no file"):
        reroll_recipe([tmp_path / "hopper.npz"])
    source = policy_file("hopper-medium")
    (tmp_path / "policy.npz").write_bytes(source.read_bytes())
    with pytest.raises(BadInput, match="add --robot"):
        reroll_recipe([tmp_path / "policy.npz"])
    with pytest.raises(BadInput, match="not for the walker2d|motors"):
        reroll_recipe([tmp_path / "policy.npz"], robot="walker2d")
    assert reroll_recipe([tmp_path / "policy.npz"], robot="hopper").name == "rerolled/policy"


def test_a_damaged_weight_file_is_refused_in_a_sentence(tmp_path):
    content, path = policy_file("hopper-medium").read_bytes(), tmp_path / "hopper.npz"
    rng, refused, tries = np.random.default_rng(0), 0, 300
    for _ in range(tries):
        broken = bytearray(content)
        for at in rng.integers(0, len(broken), 8):
            broken[at] = rng.integers(256)
        path.write_bytes(broken[: rng.integers(len(broken) // 2, 2 * len(broken))])
        try:
            load_weights(path)
        except BadInput as error:  # and nothing else
            refused += str(error).startswith(f"{path} is not a weight file of a policy: ")
    assert refused > 0.9 * tries  # eight bytes hardly ever fall where nothing is read


def changed(path: Path, **changes: object) -> Path:
    """A sound policy of the Hopper with other arrays or, for None, without them, in a file."""
    sound = load_weights(policy_file("hopper-medium"))
    content = {"meta": json.dumps(sound.meta), **sound.arrays, **changes}
    np.savez(path, **{name: array for name, array in content.items() if array is not None})
    return path


SOUND = {"activation": "relu", "squash": "tanh"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_1_w": np.full((256, 256), np.nan)}, "hidden_1_w holds NaN or an infinite value"),
        ({"mean_b": np.full(3, 1e300)}, "mean_b holds NaN or an infinite value"),
        (
            {"log_std_b": np.array(["a", "b", "c"])},
            "log_std_b does not hold floating-point numbers",
        ),
        ({"hidden_1_w": np.zeros((255, 256))}, "the shapes of its layers do not fit together"),
        ({"hidden_1_b": np.zeros((1, 256))}, "hidden_1 is not a matrix and a vector"),
        ({"hidden_1_w": None}, "it has no hidden_1_w"),
        ({"hidden_3_w": np.zeros((256, 256))}, "it has no hidden_2_w"),
        ({"mean_b": None}, "it has no mean_b"),
        ({"log_std_w": np.zeros((256, 4))}, "log σ does not fit that of its mean"),
        ({"log_std_w": None}, "it has no log_std"),
        (
            {"log_std_w": None, "log_std": np.zeros(4)},
            r"log_std has the shape \(4,\) and not \(3,\)",
        ),
        ({"obs_mean": np.zeros(11)}, "it has no obs_std"),
        ({"obs_mean": np.zeros(9), "obs_std": np.ones(11)}, "obs_mean has the shape"),
        ({"meta": None}, "it has no meta"),
        ({"meta": "[1]"}, "not a JSON object"),
        ({"meta": "[" * 100_000}, "not a weight file"),
        ({"meta": json.dumps({**SOUND, "activation": ["relu"]})}, "not a weight file"),
        ({"meta": json.dumps({**SOUND, "snapshots": [{}]})}, "do not match its list of snapshots"),
        ({"meta": json.dumps({**SOUND, "snapshots": []})}, "list of snapshots is empty"),
    ],
)
def test_a_weight_file_that_cannot_act_is_refused_before_anything_is_rolled(
    tmp_path, changes, sentence
):
    path = changed(tmp_path / "hopper.npz", **changes)
    with pytest.raises(BadInput, match=sentence):
        reroll_recipe([path])


def test_weights_that_overflow_are_refused_before_anything_is_rolled(tmp_path):
    wild = {"hidden_0_w": np.full((11, 256), 1e38), "hidden_1_w": np.full((256, 256), 1e38)}
    path = changed(
        tmp_path / "hopper.npz", **wild, mean_w=np.tile([[1.0], [-1.0]], (128, 3))
    )  # ∞ − ∞
    with pytest.raises(BadInput, match="its weights are too large"):
        reroll_recipe([path])


def test_bad_weight_files_are_one_line_and_nothing_is_kept(tmp_path, capsys):
    path = changed(tmp_path / "hopper.npz", mean_b=np.full(3, np.nan))
    assert main(["data", "reroll", str(path), "--size", "100"]) == 2
    shown = capsys.readouterr().err
    assert (
        shown
        == f"bfq: {path} is not a weight file of a policy: mean_b holds NaN or an infinite value.\n"
    )
    assert stored_datasets() == []
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["hopper.npz"]


def test_a_weight_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    policy = load_weights(policy_file("hopper-medium"))
    save_weights(tmp_path / "a.npz", policy)
    before = (tmp_path / "a.npz").read_bytes()
    monkeypatch.setattr(
        os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    with pytest.raises(DiskTrouble, match="No space left"):
        save_weights(
            tmp_path / "a.npz", GaussianPolicy(policy.arrays, {**policy.meta, "level": "other"})
        )
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
    assert (tmp_path / "a.npz").read_bytes() == before


@pytest.mark.skipif(not SHARED.exists(), reason="the genuine policies are not here")
def test_a_rerolled_policy_returns_what_it_is_known_for(tmp_path):
    """Three episodes of HalfCheetah's; its 200 episodes have the mean 4770."""
    recipe = reroll_recipe([SHARED / "policies" / "halfcheetah-medium.npz"], size=3000)
    dataset = generate_dataset(
        dataclasses.replace(
            recipe, parts=(Part(dataclasses.replace(recipe.parts[0].block, episodes=3), 3000),)
        ),
        tmp_path / "set",
    )
    assert recipe.name == "rerolled/halfcheetah-medium"
    assert 4500 < dataset.episode_returns.mean() < 5000


def test_parts_begin_with_different_dice():
    assert len({part_seed(seed, part) for seed in range(3) for part in range(3)}) == 9
