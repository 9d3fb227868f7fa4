import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bfq.cli import toy as verb
from bfq.data.checkerboard import SQUARES, cells, checkerboard, on_filled
from bfq.errors import BadInput
from bfq.evaluation.distributions import (
    compare,
    energy_distance,
    mean_distance,
    sliced_wasserstein2,
    squares_covered,
)
from bfq.training.toy import FM_STEPS, Clouds, Settings, experiment, flow_map_loss, sample, stream, train


def test_mean_distance_is_the_mean_of_the_whole_matrix():
    x, y = (jax.random.normal(jax.random.key(k), (n, 3)) for k, n in ((0, 700), (1, 901)))
    whole = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(y)[None], axis=-1).mean()
    assert float(mean_distance(x, y)) == pytest.approx(whole, rel=1e-5)


def test_energy_distance_of_two_points_is_twice_how_far_they_are_apart():
    x, y = jnp.zeros((50, 2)), jnp.tile(jnp.array([3.0, 4.0]), (70, 1))
    assert energy_distance(x, y) == pytest.approx(10.0, rel=1e-5)


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
    x, y = (checkerboard(jax.random.key(k), 10_000) for k in (0, 1))
    found = compare(x, y, jax.random.key(2))
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
    board = np.asarray(checkerboard(jax.random.key(0), 8000))
    column, row = np.asarray(cells(jnp.asarray(board))).T
    first = (column == 0) & (row == 0)
    for kept, covered in ((0, SQUARES - 1), (180, SQUARES - 1), (260, SQUARES)):
        points = np.concatenate([board[~first], board[first][:kept]])
        assert squares_covered(jnp.asarray(points)) == covered
    assert squares_covered(jnp.full((10, 2), 100.0)) == 0


def test_the_board_has_eight_equal_squares_and_unit_variance():
    board = checkerboard(jax.random.key(0), 40_000)
    assert bool(on_filled(board).all())
    column, row = cells(board).T
    counts = np.unique(np.asarray(4 * column + row), return_counts=True)[1]
    assert len(counts) == SQUARES
    assert stats.chisquare(counts).pvalue > 1e-4
    np.testing.assert_allclose(np.asarray(board.std(0)), 1.0, atol=0.02)


SMALL = Settings(epochs=1, batches=3, batch_size=64, samples=100)


@pytest.fixture(scope="module")
def clouds() -> Clouds:
    return experiment([0, 1], SMALL, lambda step, losses: None)


def test_seeds_do_not_depend_on_their_company(clouds):
    keys = jnp.stack([jax.random.key(1)])
    alone, _ = train(flow_map_loss, keys, SMALL, lambda step, losses: None)
    _, _, points = sample(alone, alone, stream(keys, 2), SMALL.samples)
    np.testing.assert_allclose(np.asarray(clouds.bfq[1][1]), np.asarray(points[1][0]), atol=1e-4)


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args(words)


def test_a_short_run_beats_one_euler_step_and_writes_its_files(tmp_path, capsys):
    assert verb.run(arguments("--epochs", "5", "--out", str(tmp_path), "--json")) == 0
    result = json.loads((tmp_path / "toy.json").read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert set(result["fm"]) == {str(steps) for steps in FM_STEPS}
    assert [row["seed"] for row in result["bfq"]["1"]["seeds"]] == [0]
    assert result["settings"]["seeds"] == [0]
    assert result["settings"]["samples"] >= 10_000
    assert result["bfq"]["1"]["energy_distance"] < result["fm"]["1"]["energy_distance"] / 10
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert {file.name for file in tmp_path.iterdir()} == {"toy.json", "toy.png"}


def test_the_table_has_a_row_a_method(clouds, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    verb._show(verb.measure(clouds, [0, 1], SMALL), tmp_path)
    told = capsys.readouterr().out
    assert told.count("FM") == len(FM_STEPS)
    assert told.count("BFQ") == 1
    assert str(tmp_path / "toy.png") in told


@pytest.mark.parametrize("words", [["--seeds", "0"], ["--epochs", "-1"], ["--out", "/proc/nowhere"]])
def test_bad_input_is_one_sentence(words):
    with pytest.raises(BadInput, match=r"^[^\n]+\.$"):
        verb.run(arguments(*words))
