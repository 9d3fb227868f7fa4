import argparse
import json
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bfq.errors import BadInput
from bfq.flow.diffusion import SCHEDULES
from bfq_paper import cli_toy as verb
from bfq_paper.checkerboard import (
    SQUARES,
    compare_clouds,
    draw_clouds,
    energy_distance,
    mean_distance,
    measure_clouds,
    on_filled,
    sample_board,
    sample_clouds,
    sliced_wasserstein2,
    squares,
    squares_covered,
    stream,
    train_and_sample,
    train_method,
)
from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Settings, consistent, unconditional


def test_mean_and_energy_distance_are_those_of_the_whole_matrix():
    x, y = (jax.random.normal(jax.random.key(k), (n, 3)) for k, n in ((0, 700), (1, 901)))
    whole = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(y)[None], axis=-1).mean()
    assert float(mean_distance(x, y)) == pytest.approx(whole, rel=1e-5)
    x, y = jnp.zeros((50, 2)), jnp.tile(jnp.array([3.0, 4.0]), (70, 1))
    assert energy_distance(x, y) == pytest.approx(10.0, rel=1e-5)  # twice how far they are apart


def test_energy_distance_agrees_with_scipy_on_a_line():
    """SciPy's is the square root of the biased estimate, which pairs points with themselves."""
    x = jax.random.normal(jax.random.key(0), (400, 1))
    y = 0.5 + 1.5 * jax.random.normal(jax.random.key(1), (300, 1))
    biased = 2 * mean_distance(x, y) - mean_distance(x, x) - mean_distance(y, y)
    scipy_squared = stats.energy_distance(np.asarray(x)[:, 0], np.asarray(y)[:, 0]) ** 2
    assert float(biased) == pytest.approx(scipy_squared, rel=1e-3)
    extra = mean_distance(x, x) / 399 + mean_distance(y, y) / 299
    assert energy_distance(x, y) == pytest.approx(float(biased - extra), rel=1e-3)


def test_distances_of_the_board_to_itself_vanish_within_noise():
    x, y = (sample_board(jax.random.key(k), 10_000) for k in (0, 1))
    found = compare_clouds(x, y, jax.random.key(2))
    assert abs(found["energy_distance"]) < 1e-3
    assert found["sliced_wasserstein2"] < 0.05
    assert found["share_on_filled"] == 1.0
    assert found["squares_covered"] == SQUARES


def test_sliced_wasserstein_of_a_shifted_copy():
    """W₂ along u is |⟨u, shift⟩|, whose mean square over directions of the plane is ‖shift‖² / 2."""
    x = jax.random.normal(jax.random.key(0), (500, 2))
    found = sliced_wasserstein2(x, x + jnp.array([3.0, 4.0]), jax.random.key(1), directions=20_000)
    assert found == pytest.approx(5.0 / 2.0**0.5, rel=0.01)
    assert sliced_wasserstein2(x, x, jax.random.key(1)) == 0.0


def test_a_square_counts_with_a_quarter_of_its_share():
    board = np.asarray(sample_board(jax.random.key(0), 8000))
    column, row = np.asarray(squares(jnp.asarray(board))).T
    first = (column == 0) & (row == 0)
    for kept, covered in ((0, SQUARES - 1), (180, SQUARES - 1), (260, SQUARES)):
        points = np.concatenate([board[~first], board[first][:kept]])
        assert squares_covered(jnp.asarray(points)) == covered
    assert squares_covered(jnp.full((10, 2), 100.0)) == 0


def test_the_board_has_eight_equal_squares_and_unit_variance():
    board = sample_board(jax.random.key(0), 40_000)
    assert bool(on_filled(board).all())
    column, row = squares(board).T
    counts = np.unique(np.asarray(4 * column + row), return_counts=True)[1]
    assert len(counts) == SQUARES
    assert stats.chisquare(counts).pvalue > 1e-4
    np.testing.assert_allclose(np.asarray(board.std(0)), 1.0, atol=0.02)


SMALL = Settings(epochs=1, batches=3, batch_size=64, samples=100)
EVERYTHING = tuple(METHODS)


@pytest.fixture(scope="module")
def clouds():
    """Every method, after three updates of two seeds."""
    return train_and_sample([0, 1], SMALL, lambda step, losses: None, EVERYTHING)


def test_every_method_yields_points_for_every_number_of_calls(clouds):
    assert tuple(clouds.samples) == EVERYTHING
    assert set(PAPER_METHODS) < set(EVERYTHING)
    for name, by_steps in clouds.samples.items():
        assert tuple(by_steps) == METHODS[name].steps
        for points in by_steps.values():
            assert points.shape == (2, 100, 2)
            assert bool(jnp.isfinite(points).all())
        assert all((a != b).any() for a, b in pairwise(map(np.asarray, by_steps.values())))


def test_seeds_and_methods_do_not_depend_on_their_company(clouds):
    keys = jnp.stack([jax.random.key(1)])
    alone, _ = train_method(METHODS["bfq"].loss, keys, SMALL, lambda step, losses: None)
    truth, points = sample_clouds({"bfq": alone}, stream(keys, 2), SMALL)
    np.testing.assert_allclose(clouds.samples["bfq"][1][1], points["bfq"][1][0], atol=1e-4)
    np.testing.assert_array_equal(clouds.truth[1], truth[0])


class Exact:
    """A board that is one point, c: what each method's network says when it knows that."""

    c = jnp.array([1.2, -0.8])  # beyond ±1: nothing may clip it

    @classmethod
    def velocity(cls, x, r, t, s):
        """From x at t to c at 0 on a straight line; the average over any interval is the same."""
        return (x - cls.c) / jnp.maximum(t, 1e-6)[..., None]

    @classmethod
    def forward(cls, x, k, t, s):
        """The same with time reversed, whatever the length of the step."""
        return (cls.c - x) / jnp.maximum(1.0 - t, 1e-6)[..., None]


@pytest.mark.parametrize(("name", "net"), [("fm", Exact.velocity), ("meanflow", Exact.velocity),
                                           ("bfq", Exact.velocity), ("shortcut", Exact.forward)])  # fmt: skip
def test_a_network_that_knows_the_board_has_no_loss_and_draws_it(name, net):
    method, key = METHODS[name], jax.random.key(0)
    points = jnp.tile(Exact.c, (512, 1))
    assert float(method.loss(net, points, key, jnp.int32(0), SMALL)) < 1e-3
    for steps in method.steps:
        drawn = method.sample(net, jax.random.normal(key, (50, 2)), key, steps, SMALL)
        np.testing.assert_allclose(drawn, np.tile(Exact.c, (50, 1)), atol=1e-3)


def test_a_denoiser_that_knows_the_board_draws_it_where_clipping_at_one_would_not():
    schedule_size, key = SMALL.noise_times, jax.random.key(0)
    schedule = SCHEDULES[SMALL.noise_schedule](schedule_size)

    def net(x, r, t, s):
        k = jnp.round(t * schedule_size).astype(jnp.int32)
        return (x - schedule.alpha[k][..., None] * 0.5 * Exact.c) / schedule.sigma[k][..., None]

    method, points = METHODS["ddpm"], jnp.tile(Exact.c, (512, 1))
    assert float(method.loss(net, points, key, jnp.int32(0), SMALL)) < 1e-6
    for steps in method.steps:
        drawn = method.sample(net, jax.random.normal(key, (50, 2)), key, steps, SMALL)
        np.testing.assert_allclose(drawn, np.tile(Exact.c, (50, 1)), atol=0.1)


def test_the_consistency_function_starts_as_the_identity_and_sees_inputs_of_unit_size():
    seen = []

    def net(x, r, t, s):
        seen.append((x, t))
        return x

    x, t = 80.0 * jax.random.normal(jax.random.key(0), (2000, 2)), jnp.full(2000, 80.0)
    consistent(net)(x, t)
    assert float(seen[0][0].std()) == pytest.approx(1.0, abs=0.05)
    assert float(jnp.abs(seen[0][1]).max()) < 2.0
    np.testing.assert_allclose(consistent(net)(x, jnp.full(2000, 0.002)), x, rtol=1e-5)
    assert unconditional(x).shape == (2000, 0)


def arguments(*words):
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args(words)


def test_a_short_run_beats_one_euler_step_and_writes_its_files(tmp_path, capsys):
    assert verb.run(arguments("--epochs", "5", "--out", str(tmp_path))) == 0
    result = json.loads((tmp_path / "toy.json").read_text())
    assert capsys.readouterr().out.count("FM ") == len(METHODS["fm"].steps)
    assert set(result["fm"]) == {str(steps) for steps in METHODS["fm"].steps}
    assert not set(result) & (set(EVERYTHING) - set(PAPER_METHODS))
    assert [row["seed"] for row in result["bfq"]["1"]["seeds"]] == [0]
    assert result["settings"]["seeds"] == [0]
    assert result["settings"]["samples"] >= 10_000
    assert result["bfq"]["1"]["energy_distance"] < result["fm"]["1"]["energy_distance"] / 10
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert {file.name for file in tmp_path.iterdir()} == {"toy.json", "toy.png"}


def test_every_method_is_measured_and_drawn(clouds):
    result = measure_clouds(clouds, [0, 1], SMALL)
    assert result["shortcut"]["8"].keys() == result["bfq"]["1"].keys()
    assert result["train_seconds"].keys() == METHODS.keys()
    png = draw_clouds(clouds, result)
    size = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert size == (2520, 2 * 432)  # 14 panels in two rows


def test_all_trains_every_method(tmp_path, monkeypatch):
    asked = []

    def short(seeds, settings, progress, names):
        asked.append((tuple(seeds), tuple(names)))
        raise BadInput("enough.")

    monkeypatch.setattr("bfq_paper.checkerboard.train_and_sample", short)
    for words in (["--all", "--seeds", "3"], []):
        with pytest.raises(BadInput, match="enough"):
            verb.run(arguments(*words, "--out", str(tmp_path)))
    assert asked == [((0, 1, 2), EVERYTHING), ((0,), PAPER_METHODS)]
