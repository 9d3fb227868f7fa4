"""Inspection shows what is in a dataset, and a replay whether a simulator moves as it did."""

import io
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from matplotlib.image import imread

from bfq.data import coverage
from bfq.data.coverage import (
    count_cells,
    count_repeats,
    evenly_spaced,
    histograms,
    participation,
    principal,
    spacing,
)
from bfq.data.dataset import Dataset, chunks
from bfq.data.inspect import fact_rows, inspect, whole_histogram
from bfq.data.replay import replay, replay_rows, stored_when
from bfq.envs.make import make_environment
from bfq.envs.states import ReplayEnvironment
from bfq.errors import BadInput
from bfq.reports.drawing import heat
from bfq.reports.report import data_page

HOSTILE = '<script>alert(1)</script>&"$'
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "d4rl_files"


def dataset(observations, actions, rewards, **changes):
    """A dataset of one episode that is cut off at its end, unless `changes` say otherwise."""
    seen, acts = np.asarray(observations, np.float32), np.asarray(actions, np.float32)
    given = {
        "next_observations": np.concatenate([seen[1:], seen[-1:]]), "name": "tiny",
        "masks": np.ones(len(seen), np.float32), "source": "made by hand",
        "episode_ends": np.arange(len(seen)) == len(seen) - 1,
        "action_low": np.full(acts.shape[1], -1, np.float32),
        "action_high": np.full(acts.shape[1], 1, np.float32),
    }  # fmt: skip
    return Dataset(seen, acts, np.asarray(rewards, np.float32), **{**given, **changes})


@pytest.fixture
def tiny():
    """Three episodes: three rows that end in a terminal, two that time out, and one row alone."""
    return dataset(
        [[0, 5], [1, 5], [2, 5], [0, 5], [3, 5], [9, 5]],
        [[-1], [1], [0], [0.5], [0.9995], [-0.5]],
        [1, 2, 3, 0, 0, -1],
        next_observations=np.array([[1, 5], [2, 5], [3, 5], [3, 5], [4, 5], [9, 5]], np.float32),
        masks=np.array([1, 1, 0, 1, 1, 1], np.float32),
        episode_ends=np.array([0, 0, 1, 0, 1, 1], bool),
    )


def cloud(size, **changes):
    """Random rows in episodes of 50."""
    rng = np.random.default_rng(0)
    ends = np.arange(size) % 50 == 49
    ends[-1] = True
    seen, acts = rng.normal(size=(size, 4)), np.tanh(rng.normal(size=(size, 2)))
    return dataset(seen, acts, rng.normal(size=size), episode_ends=ends, **changes)


def cut_small(monkeypatch, rows):
    monkeypatch.setattr(coverage, "CHUNK_ROWS", rows)
    monkeypatch.setattr(chunks, "__defaults__", (rows,))


# Facts


def test_everything_about_three_small_episodes(tiny):
    facts = inspect(tiny)
    assert (facts["counts"]["transitions"], facts["counts"]["episodes"]) == (6, 3)
    assert facts["counts"]["bytes"] == 6 * (4 * (2 + 1 + 1 + 2 + 1) + 1)
    ends = facts["episodes"]
    assert (ends["terminated"], ends["timed_out"], ends["masked_inside"]) == (1, 2, 0)
    assert (ends["length"]["min"], ends["length"]["median"], ends["length"]["max"]) == (1, 2, 3)
    assert ends["return"]["mean"] == pytest.approx(5 / 3)
    assert ends["return"]["std"] == pytest.approx(np.std([6, 0, -1]))
    assert (ends["return"]["q25"], ends["return"]["q75"]) == (-0.5, 3.0)
    assert facts["rewards"]["zeros"] == pytest.approx(1 / 3)
    assert [value for value, _ in facts["rewards"]["values"]] == [-1, 0, 1, 2, 3]
    seen = facts["observations"]
    assert (seen["low"], seen["high"], seen["mean"]) == ([0, 5], [9, 5], [2.5, 5])
    assert seen["std"] == [pytest.approx(np.std([0, 1, 2, 0, 3, 9])), 0]
    assert facts["actions"]["at_bound"] == [0.5]  # −1, 1 and 0.9995: within 0.001 of the range
    assert facts["duplicates"] == {"transitions": 0, "observations": 1}
    assert facts["consistency"] == {"compared": 3, "equal": 1.0, "max_deviation": 0.0}
    assert facts["coverage"]["varying"] == 1
    assert facts["coverage"]["effective_dimension"] == pytest.approx(1)
    assert facts["remarks"] == []
    rows = dict(fact_rows(facts))
    assert rows["episodes"] == "3: 1 terminated, 2 timed out"
    assert rows["return"] == "mean 1.667 ± 3.091, -1 to 6"
    assert rows["distinct rewards"].startswith("-1 (16.7%), 0 (33.3%)")


def test_facts_do_not_depend_on_how_rows_are_cut(monkeypatch):
    whole = inspect(cloud(1000))
    assert whole["rewards"]["values"] is None  # too many to list
    cut_small(monkeypatch, 7)
    found = inspect(cloud(1000))
    assert jax.tree.structure(found) == jax.tree.structure(whole)
    for a, b in zip(*map(jax.tree.leaves, (found, whole)), strict=True):
        assert a == (pytest.approx(b, rel=0, abs=1e-9) if isinstance(b, float) else b)


def test_mapped_files_are_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    size = 40_000
    tall = np.lib.format.open_memmap(tmp_path / "tall.npy", "w+", np.float32, (size, 100))
    tall[:] = np.random.default_rng(0).normal(size=tall.shape)
    thin = np.zeros(size, np.float32)
    ends = np.arange(size) % 1000 == 999
    logged = dataset([[0.0]], [[0.0]], [0.0], masks=thin, episode_ends=ends)
    wide = {"observations": tall, "next_observations": tall}
    logged = replace(logged, **wide, actions=thin[:, None], rewards=thin)
    cut_small(monkeypatch, 1_000)
    monkeypatch.setattr(coverage, "SAMPLE_NUMBERS", 200_000)
    tracemalloc.start()
    inspect(logged)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < tall.nbytes / 2


def test_odd_rows_are_remarked_or_refused(tiny):
    broken = tiny.next_observations.copy()
    broken[0, 0] += 0.5
    facts = inspect(replace(tiny, next_observations=broken))
    assert facts["consistency"] == {"compared": 3, "equal": 2 / 3, "max_deviation": 0.5}
    assert len(facts["remarks"]) == 1
    facts = inspect(replace(tiny, masks=np.array([1, 0, 0, 1, 1, 1], np.float32)))
    assert (facts["episodes"]["terminated"], facts["episodes"]["masked_inside"]) == (1, 1)
    assert len(facts["remarks"]) == 1
    seen = tiny.observations.copy()
    seen[2, 0] = np.nan
    with pytest.raises(BadInput, match="observations hold NaN"):
        inspect(replace(tiny, observations=seen))
    acts, rewards = np.zeros((20_000, 2)), np.zeros(20_000)
    acts[:15_000, 1], rewards[3] = 1, 1e6
    remarks = inspect(dataset(np.arange(20_000)[:, None], acts, rewards))["remarks"]
    assert "A reward lies 141 standard deviations" in " ".join(remarks)
    assert len(remarks) == 3  # and one on each dimension of the actions


def test_histograms_count_every_row_once():
    values = np.array([[0.0, -9.0], [0.49, 0.5], [0.5, 1.0], [1.0, 7.0]])
    counts = histograms(values, np.zeros(2), np.ones(2), 2)
    np.testing.assert_array_equal(counts, [[2, 2], [1, 3]])
    made = whole_histogram(np.arange(1, 101))  # integers: no bin is favored
    assert made["counts"] == [3] * 33 + [1]
    assert made["edges"][:2] == [0.5, 3.5]
    assert sum(whole_histogram(np.array([7, 7, 7]))["counts"]) == 3


# Coverage


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.99])
def test_the_effective_dimension_of_a_gaussian_is_its_closed_form(correlation):
    rng, rows = np.random.default_rng(1), 40_000
    x, y = rng.normal(size=(2, rows))
    seen = np.stack([x, 100 * (correlation * x + np.sqrt(1 - correlation**2) * y)], 1)
    found = inspect(dataset(seen, np.zeros((rows, 1)), np.zeros(rows)))["coverage"]
    assert found["effective_dimension"] == pytest.approx(2 / (1 + correlation**2), rel=0.02)
    assert found["explained"][0] == pytest.approx((1 + correlation) / 2, abs=0.01)


def test_measures_of_small_clouds():
    assert participation(np.ones(7)) == pytest.approx(7)
    assert participation(np.array([4.0, 1.0])) == pytest.approx(25 / 17)
    assert participation(np.zeros(3)) == 0
    along = np.linspace(-1, 1, 50)[:, None]
    variances, axes = principal(along * [-3.0, -4.0])
    np.testing.assert_allclose(axes[0], [0.6, 0.8])  # turned so that the largest entry is positive
    np.testing.assert_allclose(variances, [25 * np.var(along), 0], atol=1e-12)
    grid = np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3)
    assert spacing(0.3 * grid)["median"] == pytest.approx(0.3 / np.sqrt(3))
    assert spacing(grid[:1]) is None
    seen = np.array([[0.1], [0.9], [1.1], [-0.1], [5000.0], [9000.0]])  # the last two are one cell
    assert count_cells(seen, np.array([0]), np.zeros(1), np.ones(1)) == 4
    assert evenly_spaced(10, 4).tolist() == [0, 3, 6, 9]
    assert evenly_spaced(3, 10).tolist() == [0, 1, 2]


def test_the_picture_holds_every_row_and_is_the_right_way_up():
    plane = inspect(cloud(3000))["coverage"]["plane"]
    counts = np.array(plane["counts"])
    assert counts.sum() == 3000
    assert plane["visited"] == (counts > 0).mean()
    x, y = np.tile(np.linspace(0, 1, 9), 3), np.repeat([0.0, 0.5, 1.0], 9)
    x, y = np.append(x, [1.0] * 99), np.append(y, [0.0] * 99)  # most rows are at the lower right
    seen = np.stack([x, x, x, y], 1)  # three columns agree, so the first axis is along x
    plane = inspect(dataset(seen, np.zeros((len(x), 1)), np.zeros(len(x))))["coverage"]["plane"]
    row, column = np.unravel_index(np.argmax(plane["counts"]), (64, 64))
    assert column > 32 > row
    picture = imread(io.BytesIO(heat([[0, 9], [0, 0]])))  # the first row of counts is the lowest
    np.testing.assert_array_equal((picture[:, :, :3] < 1).any(-1), [[False, False], [False, True]])


def test_repeats_are_counted_or_estimated(monkeypatch):
    seen = np.array([[0.0, 1], [-0.0, 1], [0, 2], [0, 1], [0, 2]], np.float32)  # −0 is 0
    assert count_repeats([seen]) == 3
    assert count_repeats([seen, np.arange(5, dtype=np.float32)]) == 0
    half = np.random.default_rng(0).normal(size=(20_000, 2)).astype(np.float32)
    monkeypatch.setattr(coverage, "HASHED", 4_000)  # one in ten is kept
    assert count_repeats([np.concatenate([half, half])]) == pytest.approx(20_000, rel=0.06)
    assert count_repeats([half]) == pytest.approx(0, abs=1_200)


# Replay


def logged(simulator, episodes=2, steps=40):
    """Random actions in a MuJoCo simulator, with the state before each."""
    one, rng, rows = make_environment(simulator, steps), np.random.default_rng(0), []
    for seed in range(episodes):
        seen, _ = one.reset(seed=seed)
        for _ in range(steps):
            state = one.unwrapped.data.qpos.copy(), one.unwrapped.data.qvel.copy()
            action = 0.3 * rng.uniform(-1, 1, one.action_space.shape).astype(np.float32)
            following, reward, *_ = one.step(action)
            rows.append((seen, action, reward, following, *state))
            seen = following
    one.close()
    s, a, r, following, qpos, qvel = map(np.array, zip(*rows, strict=True))
    ends = np.arange(episodes * steps) % steps == steps - 1
    infos = {"qpos": qpos, "qvel": qvel}
    return dataset(s, a, r, next_observations=np.float32(following), episode_ends=ends, infos=infos)


@pytest.fixture(scope="module")
def cheetah():
    return logged("HalfCheetah-v4", episodes=3, steps=120)


def test_a_simulator_replays_its_own_data_to_rounding(cheetah):
    found = replay(cheetah, "HalfCheetah-v4", rows=50)
    json.dumps(found, allow_nan=False)
    assert (found["stored"], found["rows"]) == ("before", 50)
    assert max(found["relative"]["max"], found["reward"]["max"]) < 1e-6
    assert [(at["steps"], at["episodes"]) for at in found["drift"]] == [(1, 3), (10, 3), (100, 3)]
    assert found["drift"][1]["max"] < 1e-5
    assert found["verdict"] == "HalfCheetah-v4 moves as the data did, up to rounding."
    assert found["notes"] == []
    assert dict(replay_rows(found))["verdict"] == found["verdict"]


def test_differences_between_data_and_simulator_are_measured(cheetah):
    def check(**changes):
        return replay(replace(cheetah, **changes), "HalfCheetah-v4", rows=50)

    assert "does not move as the data did" in check(actions=0.5 * cheetah.actions)["verdict"]
    paid = check(rewards=cheetah.rewards + 0.25)
    assert paid["reward"]["median"] == pytest.approx(0.25, abs=1e-5)
    assert "its reward function differs" in paid["notes"][0]
    shifted = cheetah.next_observations.copy()
    shifted[:, 3] += 0.125
    found = check(next_observations=shifted)
    assert found["dimensions"]["median"][3] == pytest.approx(0.125, abs=1e-5)
    assert found["dimensions"]["median"][4] < 1e-5
    deviations = 0.125 / cheetah.observations[:, 3].std()
    assert found["relative"]["max"] == pytest.approx(deviations, rel=1e-3)
    late = check(infos={name: np.roll(column, -1, 0) for name, column in cheetah.infos.items()})
    assert late["stored"] == "after"
    assert late["relative"]["max"] < 1e-6
    assert late["drift"][0]["max"] < 1e-6
    nothing = np.zeros_like(cheetah.observations)
    hidden = replace(cheetah, observations=nothing, next_observations=nothing)
    assert stored_when(hidden) == "unknown"


def test_rows_with_clipped_velocities_are_passed_over():
    hopper = logged("Hopper-v4", episodes=4, steps=60)
    bound = float(np.quantile(np.abs(hopper.infos["qvel"]), 0.97))
    clipped = {**hopper.infos, "qvel": np.clip(hopper.infos["qvel"], -bound, bound)}
    found = replay(replace(hopper, infos=clipped), "Hopper-v4")
    lost = (np.abs(hopper.infos["qvel"]) >= bound).any(1) & ~hopper.episode_ends
    assert found["clipped"] == pytest.approx(lost.sum() / (~hopper.episode_ends).sum())
    assert found["relative"]["max"] < 1e-4  # the rows that are left have whole states
    assert "velocities are clipped" in " ".join(found["notes"])


@pytest.mark.parametrize(("simulator", "changes", "says"), [
    ("HalfCheetah-v4", {"infos": {}}, "has no stored simulator states"),
    ("Hopper-v4", {}, "cannot be set to the state of row 0: it has another number of joints"),
    ("Pendulum-v1", {}, "cannot be set to a state"),
    ("Nothing-v0", {}, "cannot be made here"),
    ("HalfCheetah-v4", {"actions": np.zeros((360, 2), np.float32)}, "cannot take an action"),
    ("HalfCheetah-v4", {"episode_ends": np.ones(360, bool)}, "no two rows in one episode"),
])  # fmt: skip
def test_what_cannot_be_replayed_is_refused(cheetah, simulator, changes, says):
    with pytest.raises(BadInput, match=says):
        replay(replace(cheetah, **changes), simulator, rows=5)


def test_all_that_a_simulator_counts_to_its_state_is_set():
    class Lamp:
        """A simulator whose state has a switch beside qpos and qvel."""

        unwrapped = property(lambda self: self)

        def set_state(self, qpos, qvel, switch):
            self.state = (qpos.tolist(), qvel.tolist(), switch.tolist())

    lamp, columns = Lamp(), {"qpos": np.array([[1.0], [2.0]]), "qvel": np.array([[3.0], [4.0]])}
    with pytest.raises(BadInput, match="row 1: the data lacks switch"):
        ReplayEnvironment("lamp", lamp, []).set_state(columns, 1)
    columns["switch"] = np.array([[0, 0], [0, 1]])
    ReplayEnvironment("lamp", lamp, []).set_state(columns, 1)
    assert lamp.state == ([2.0], [4.0], [0, 1])
    assert all(isinstance(value, int) for value in lamp.state[2])


def test_wild_states_leave_no_file_behind(cheetah, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wild = cheetah.infos["qvel"].copy()
    broken = replace(cheetah, infos={**cheetah.infos, "qvel": wild})
    wild[:, 2] = np.nan
    with pytest.raises(BadInput, match="NaN"):
        replay(broken, "HalfCheetah-v4", rows=5)
    wild[:, 2] = 1e300
    assert "MuJoCo warned" in " ".join(replay(broken, "HalfCheetah-v4", rows=5)["notes"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("file", "simulator", "clipped"), [
    ("halfcheetah_medium-v2", "HalfCheetah-v4", 0.0),
    ("hopper_medium-v2", "Hopper-v4", 0.165),
    ("walker2d_medium-v2", "Walker2d-v4", 0.283),
    ("ant_medium-v2", "Ant-v4", 0.0),
])  # fmt: skip
def test_genuine_d4rl_files_move_nearly_as_todays_simulators(file, simulator, clipped):
    if not SHARED.is_dir():
        pytest.skip("the genuine files are not on this machine")
    from bfq.data.readers import d4rl

    found = replay(d4rl.read_d4rl(SHARED / f"{file}.hdf5"), simulator)
    assert found["stored"] == "before"
    assert found["clipped"] == pytest.approx(clipped, abs=0.01)
    assert 1e-5 < found["relative"]["median"] < 0.01
    assert 1e-3 < found["relative"]["q95"] < 0.05
    assert "moves nearly as the data did" in found["verdict"]


# The page


def test_the_page_shows_everything_and_hostile_text_stays_text(cheetah, tiny, parse_page):
    facts = json.loads(json.dumps(inspect(replace(cheetah, notes=("A note.",)))))  # as from a file
    replayed = json.loads(json.dumps(replay(cheetah, "HalfCheetah-v4", rows=20)))
    page = parse_page(data_page(facts, replayed))
    for words in ("tiny", "A note.", "Returns", "Action 5", "moves as the data did", "sha256"):
        assert words in page.text
    assert page.count("svg") == 3 + 6  # returns, lengths, rewards, and each action
    assert page.count("img") == 1
    hostile = replace(tiny, name=HOSTILE, source=HOSTILE + "\ud800", notes=(HOSTILE,))
    text = data_page(inspect(hostile), None)
    assert "<script" not in text
    text.encode()
    assert parse_page(text).text.count(HOSTILE) == 4  # title, heading, source and note
    rng = np.random.default_rng(0)
    wide = dataset(rng.normal(size=(30, 210)), rng.uniform(-1, 1, (30, 25)), rng.normal(size=30))
    page = parse_page(data_page(inspect(wide), None))
    assert ("Action 23" in page.text, "Action 24" in page.text) == (True, False)
    facts = inspect(dataset([[1.0]], [[0.0]], [0.0]))  # one row, in which nothing varies
    json.dumps(facts, allow_nan=False)
    assert facts["coverage"]["plane"] is facts["consistency"]["equal"] is None
    parse_page(data_page(facts, None))


def test_bars_are_as_tall_as_their_counts_and_as_wide_as_their_shares(tiny, parse_page):
    page = parse_page(data_page(inspect(cloud(2000)), None))
    heights = [float(at["height"] or 0) for name, at in page.elements if name == "rect"]
    assert max(heights) == 100
    titles = page.text.count(" from ")
    assert titles >= len(heights)
    assert "40 from 50 to 50" in page.text  # 40 episodes of 50 rows
    page = parse_page(data_page(inspect(tiny), None))
    widths = [at["style"] for _, at in page.elements if at.get("class") == "share"]
    assert widths == [f"width: {100 * rows / 6:.2f}%" for rows in (1, 2, 1, 1, 1)]
