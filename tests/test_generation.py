"""Generated data: the same bytes by any number of processes, resumable; weight files; imported files."""

import dataclasses
import hashlib
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
from bfq.data import published, store
from bfq.data.arrays import from_arrays
from bfq.data.dataset import Dataset
from bfq.data.readers import d4rl
from bfq.data.store import dataset_folder
from bfq.errors import BadInput
from bfq.tasks import recipes
from bfq.tasks.catalog import GENERATED, TASKS
from bfq.tasks.locomotion import LocomotionBlock, UniformPolicy, policy_file, reroll_recipe
from bfq.tasks.recipes import DataRecipe, RecipePart, generate_dataset, recipe_for
from bfq.tasks.sources import availability, import_files
from bfq.tasks.weights import GaussianPolicy, load_weights
from bfq_paper.sources import source_of

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("BFQ_HOME", str(tmp_path / "home"))


def test_a_block_has_whole_episodes_and_depends_on_seed_and_index_alone():
    generate = LocomotionBlock("Hopper-v4", UniformPolicy(3), episodes=3)
    block = generate(0, 0)
    ends = np.flatnonzero(block.episode_ends)
    assert len(ends) == 3
    assert ends[-1] == len(block) - 1
    inside = np.setdiff1d(np.arange(len(block) - 1), ends)
    following, observations = block.next_observations, block.observations
    np.testing.assert_array_equal(following[inside], observations[inside + 1])
    assert (following[ends[:-1]] != observations[ends[:-1] + 1]).any(1).all()
    np.testing.assert_array_equal(np.float32(block.infos["qpos"][:, 1:]), observations[:, :5])
    np.testing.assert_array_equal(observations, generate(0, 0).observations)
    for other in (generate(0, 1), generate(1, 0)):
        assert not np.array_equal(observations[0], other.observations[0])


def test_any_number_of_processes_generates_the_same_bytes(tmp_path):
    def small(seed):
        recipe = recipe_for("local/hopper-medium-expert", 300, seed)
        blocks = [dataclasses.replace(part.block, episodes=2) for part in recipe.parts]
        parts = tuple(RecipePart(block, 150) for block in blocks)
        return dataclasses.replace(recipe, parts=parts)

    one = generate_dataset(small(0), tmp_path / "one", processes=1)
    assert generate_dataset(small(0), tmp_path / "three", processes=3).sha256 == one.sha256
    assert generate_dataset(small(1), tmp_path / "other").sha256 != one.sha256
    assert len(one) == 300
    assert one.episode_ends[149]  # medium is cut off where expert begins
    assert (one.masks[~one.episode_ends] == 1).all()


@dataclasses.dataclass(frozen=True)
class Counted:
    """A block that records its calls, and hangs at one of them."""

    folder: str
    stop_at: int = -1

    def __call__(self, seed: int, index: int) -> Dataset:
        with (Path(self.folder) / "asked").open("a") as file:
            file.write(f"{index}\n")
        if index == self.stop_at:
            time.sleep(60)
        row = np.full((5, 1), index, np.float32)
        return recipes.block_data(
            (row, row / 1000, row[:, 0], row, np.ones(5)), np.arange(5) == 4, {}
        )


def test_an_interrupted_process_is_resumed_where_it_stood(tmp_path):
    script = f"""
from pathlib import Path
from tests.test_generation import Counted
from bfq.tasks.recipes import DataRecipe, RecipePart, generate_dataset
part = RecipePart(Counted({str(tmp_path)!r}, 7), 50)
generate_dataset(DataRecipe('r', 's', (part,)), Path({str(tmp_path)!r}) / 'set', 1)
"""
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen([sys.executable, "-c", script], cwd=root, start_new_session=True)
    journal, deadline = tmp_path / ".set.part" / "journal.json", time.monotonic() + 60
    while not (journal.exists() and '"rows": 35' in journal.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "asked").unlink()
    recipe = DataRecipe("r", "s", (RecipePart(Counted(str(tmp_path)), 50),))
    dataset = generate_dataset(recipe, tmp_path / "set", 1)
    assert min(map(int, (tmp_path / "asked").read_text().split())) == 7
    np.testing.assert_array_equal(dataset.rewards, np.repeat(np.arange(10), 5))


def test_no_block_is_generated_in_vain_if_its_size_is_known(tmp_path):
    parts = tuple(RecipePart(Counted(str(tmp_path)), size, block_rows=5) for size in (15, 5, 7))
    dataset = generate_dataset(DataRecipe("r", "s", parts), tmp_path / "set", 2)
    expected = [*np.repeat([0, 1, 2, 0, 0], 5), 1, 1]
    np.testing.assert_array_equal(dataset.rewards, expected)
    np.testing.assert_array_equal(np.flatnonzero(dataset.episode_ends), [4, 9, 14, 19, 24, 26])
    assert len((tmp_path / "asked").read_text().split()) == 6


def _failing(seed: int, index: int) -> Dataset:
    raise BadInput("there is no such environment.")


def test_errors_in_a_worker_are_raised_by_the_parent(tmp_path):
    recipe = DataRecipe("r", "s", (RecipePart(_failing, 5),))
    with pytest.raises(BadInput, match="no such environment"):
        generate_dataset(recipe, tmp_path / "set", 1)


def test_a_script_without_a_main_guard_can_generate_data(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import bfq.tasks.sources as s\nfrom bfq.tasks.recipes import recipe_for\n"
        "print(len(s.generate_and_store(recipe_for('local/hopper-random', 100), processes=2)))\n"
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "100", done.stderr


def test_levels_are_ordered_by_their_returns(tmp_path):
    """A few episodes each: the levels lie far apart."""
    means = []
    for level in ("random", "medium-replay", "medium", "medium-expert", "expert"):
        dataset = generate_dataset(recipe_for(f"local/hopper-{level}", 2000), tmp_path / level, 1)
        whole = None if level == "medium-expert" else -1  # the last episode may be cut off
        means.append(dataset.episode_returns[:whole].mean())
    assert means == sorted(means)


def test_every_recipe_has_a_card_with_its_simulator():
    for name, function in GENERATED.items():
        assert availability(name).startswith("can be generated")
        if function.endswith(":locomotion_recipe"):
            assert recipe_for(name, 10).simulator == TASKS[name].simulator
    assert len({recipes.part_seed(seed, part) for seed in range(3) for part in range(3)}) == 9
    with pytest.raises(BadInput, match="`bfq train --task pendulum-mixed`"):
        recipe_for("pendulum-mixed")


# Weight files


def test_a_policy_with_more_inputs_gets_zeros_there():
    rng = np.random.default_rng(0)
    shapes = {"hidden_0_w": (111, 4), "hidden_0_b": 4, "mean_w": (4, 8), "mean_b": 8, "log_std": 8}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    policy = GaussianPolicy(arrays, {"activation": "relu", "squash": "tanh"})
    seen = rng.normal(size=(5, 27)).astype(np.float32)
    padded = np.pad(seen, ((0, 0), (0, 84)))
    np.testing.assert_array_equal(policy.act(seen), policy.act(padded))


def test_a_file_without_a_robot_in_its_name_needs_the_option(tmp_path):
    with pytest.raises(BadInput, match="no file"):
        reroll_recipe([tmp_path / "hopper.npz"])
    path = tmp_path / "policy.npz"
    path.write_bytes(policy_file("hopper-medium").read_bytes())
    with pytest.raises(BadInput, match="add --robot"):
        reroll_recipe([path])
    with pytest.raises(BadInput, match="not for the walker2d|motors"):
        reroll_recipe([path], robot="walker2d")
    assert reroll_recipe([path], robot="hopper").name == "rerolled/policy"


def test_a_damaged_weight_file_is_refused(tmp_path):
    content, path = policy_file("hopper-medium").read_bytes(), tmp_path / "hopper.npz"
    rng, refused, tries = np.random.default_rng(0), 0, 100
    for _ in range(tries):
        broken = bytearray(content)
        for at in rng.integers(0, len(broken), 8):
            broken[at] = rng.integers(256)
        path.write_bytes(broken[: rng.integers(len(broken) // 2, 2 * len(broken))])
        try:
            load_weights(path)
        except BadInput as error:  # and nothing else
            refused += str(error).startswith(f"{path} is not a weight file of a policy: ")
    assert refused > 0.9 * tries  # eight bytes rarely fall where nothing is read


SOUND = {"activation": "relu", "squash": "tanh"}
WILD = {
    "hidden_0_w": np.full((11, 256), 1e38),
    "hidden_1_w": np.full((256, 256), 1e38),
    "mean_w": np.tile([[1.0], [-1.0]], (128, 3)),  # ∞ − ∞
}


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"hidden_1_w": np.full((256, 256), np.nan)}, "hidden_1_w holds NaN or an infinite value"),
    ({"mean_b": np.full(3, 1e300)}, "mean_b holds NaN or an infinite value"),
    ({"log_std_b": np.array(["a", "b", "c"])}, "log_std_b does not hold floating-point"),
    ({"hidden_1_w": np.zeros((255, 256))}, "the shapes of its layers do not fit together"),
    ({"hidden_1_b": np.zeros((1, 256))}, "hidden_1 is not a matrix and a vector"),
    ({"hidden_1_w": None}, "it has no hidden_1_w"),
    ({"log_std_w": np.zeros((256, 4))}, "log σ does not fit that of its mean"),
    ({"log_std_w": None}, "it has no log_std"),
    ({"obs_mean": np.zeros(11)}, "it has no obs_std"),
    ({"meta": None}, "it has no meta"),
    ({"meta": "[1]"}, "not a JSON object"),
    ({"meta": "[" * 100_000}, "not a weight file"),
    ({"meta": json.dumps({**SOUND, "squash": "sine"})}, "squash"),
    ({"meta": json.dumps({**SOUND, "activation": ["relu"]})}, "not a weight file"),
    ({"meta": json.dumps({**SOUND, "snapshots": [{}]})}, "do not match its list of snapshots"),
    ({"meta": json.dumps({**SOUND, "snapshots": []})}, "list of snapshots is empty"),
    (WILD, "its weights are too large"),
])  # fmt: skip
def test_weights_that_cannot_act_are_refused_first(tmp_path, capsys, changes, sentence):
    sound, path = load_weights(policy_file("hopper-medium")), tmp_path / "hopper.npz"
    content = {"meta": json.dumps(sound.meta), **sound.arrays, **changes}
    np.savez(path, **{name: array for name, array in content.items() if array is not None})
    with pytest.raises(BadInput, match=sentence):
        reroll_recipe([path])
    assert main(["data", "reroll", str(path), "--size", "100"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["hopper.npz"]


@pytest.mark.skipif(not SHARED.exists(), reason="the genuine policies are not here")
def test_a_published_policy_reaches_its_known_return(tmp_path):
    """Three episodes of HalfCheetah's; its 200 episodes have the mean 4770."""
    recipe = reroll_recipe([SHARED / "policies" / "halfcheetah-medium.npz"], size=3000)
    part = RecipePart(dataclasses.replace(recipe.parts[0].block, episodes=3), 3000)
    dataset = generate_dataset(dataclasses.replace(recipe, parts=(part,)), tmp_path / "set")
    assert recipe.name == "rerolled/halfcheetah-medium"
    assert 4500 < dataset.episode_returns.mean() < 5000


# Imported files


def hopper_file(folder: Path, name: str = "hopper_medium-v2.hdf5") -> Path:
    rng, ends = np.random.default_rng(0), np.arange(30) % 10 == 9
    columns = rng.normal(size=(30, 11)), rng.uniform(-1, 1, (30, 3)), rng.normal(size=30)
    log = from_arrays(*columns, timeouts=ends, action_low=-1, action_high=1)
    d4rl.write_d4rl(log, folder / name)
    return folder / name


@pytest.mark.parametrize("same", [False, True, None])  # None: its hash is not known
def test_an_imported_file_is_compared_with_the_published_one(tmp_path, monkeypatch, same):
    path, name = hopper_file(tmp_path), "hopper-medium-v2"
    sha256 = {False: "another", True: hashlib.sha256(path.read_bytes()).hexdigest()}.get(same)
    remotes = [dataclasses.replace(one, sha256=sha256) for one in published.remotes_for(name)]
    monkeypatch.setattr(published, "remotes_for", lambda task: remotes)
    dataset = import_files([path], name)
    assert store.made(dataset_folder(name))["published"] is same
    noted = any("Not the file that is published" in note for note in dataset.notes)
    assert noted == (same is False)
    assert source_of(name).kind == ("imported" if same is False else "published")


def test_a_file_named_after_another_task_is_refused(tmp_path):
    path = hopper_file(tmp_path, "hopper_medium_replay-v2.hdf5")
    with pytest.raises(BadInput, match="named after hopper-medium-replay-v2, not hopper-medium-v2"):
        import_files([path], "hopper-medium-v2")
    assert not store.exists(dataset_folder("hopper-medium-v2"))
    import_files([path], "my-hopper")  # names that are not tasks are free
    assert store.made(dataset_folder("my-hopper"))["published"] is None


@pytest.mark.parametrize(("name", "file"), [
    ("pendulum-mixed", "log.npz"),
    ("local/hopper-medium", "hopper_medium-v2.hdf5"),
    ("rerolled/hopper-medium", "hopper_medium-v2.hdf5"),
    ("hopper-medium-v2", "log.npz"),
    ("cube-single-play-singletask-v0", "log.hdf5"),
])  # fmt: skip
def test_only_its_published_files_take_the_name_of_a_built_in_task(tmp_path, name, file):
    (tmp_path / file).write_text("")
    with pytest.raises(BadInput, match=f"{name} is .*: choose another --as"):
        import_files([tmp_path / file], name)
    assert not dataset_folder(name).exists()
