"""Statistics over tasks and seeds, against closed forms, brute force and what they promise."""

import itertools

import numpy as np
import pytest
from scipy import stats

from bfq.reports import statistics
from bfq.reports.statistics import (
    interquartile_mean,
    mean_over_tasks,
    performance_profile,
    pooled_interquartile_mean,
    probability_of_improvement,
    stratified_bootstrap,
    summarize,
    wilson,
)


def normal(random, means, seeds):
    return {f"task {k}": random.normal(mean, 1 + k, seeds) for k, mean in enumerate(means)}


def all_draws(*samples):
    """Every equally likely outcome of resampling each sample."""
    return itertools.product(*(itertools.product(x, repeat=len(x)) for x in samples))


def test_the_summary_has_scipys_student_interval():
    values = [3.0, 5.5, 4.25, 9.0]
    mean, std, n, interval = vars(summarize(values)).values()
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (mean, n) == (np.mean(values), 4)
    assert std == pytest.approx(np.std(values, ddof=1))
    assert interval == pytest.approx(expected)
    assert tuple(vars(summarize([3.0])).values()) == (3.0, 0.0, 1, None)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 30])
def test_the_interquartile_mean_is_scipys_trimmed_mean(n):
    values = np.random.default_rng(n).normal(size=n)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_the_bootstrap_of_a_mean_is_near_the_normal_interval():
    values = np.random.default_rng(0).normal(size=200)
    low, high = stratified_bootstrap([values], lambda x: float(x.mean()), resamples=1000)
    half = 1.96 * values.std() / 200**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_the_bootstrap_resamples_within_groups():
    apart = [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]]
    assert stratified_bootstrap(apart, lambda x: float(x.mean()), resamples=50) == (3.0, 3.0)


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (499, 500)])
def test_wilsons_interval_is_scipys(successes, n):
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n) == pytest.approx((expected.low, expected.high))
    with pytest.raises(ValueError, match="impossible"):
        wilson(n + 1, n)


def test_the_mean_of_one_task_is_its_summary():
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    summary = summarize(values)
    mean, interval = mean_over_tasks({"a": values})
    assert (mean, *interval) == pytest.approx((summary.mean, *summary.interval))


def test_the_mean_of_two_tasks_is_welchs_half_difference_from_the_negative():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([3.0, 3.5, 5.0])
    welch = stats.ttest_ind(x, -y, equal_var=False).confidence_interval()
    wanted = pytest.approx((welch.low / 2, welch.high / 2))
    assert mean_over_tasks({"a": x, "b": y}).interval == wanted


def test_tasks_weigh_the_same_whatever_their_seeds():
    assert mean_over_tasks({"a": [0.0] * 9, "b": [1.0] * 3}) == (0.5, (0.5, 0.5))
    share = performance_profile({"a": [0.0] * 9, "b": [1.0] * 3}, [0.5], resamples=10).share
    assert share == pytest.approx(0.5)


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_mean_covers_the_truth_even_with_few_seeds(seeds):
    random, means = np.random.default_rng(seeds), (10.0, 0.0, 50.0)
    intervals = [mean_over_tasks(normal(random, means, seeds)).interval for _ in range(1000)]
    assert 0.93 <= np.mean([low <= 20.0 <= high for low, high in intervals]) <= 0.98


def test_with_many_seeds_the_mean_agrees_with_the_bootstrap():
    scores = normal(np.random.default_rng(0), (0.0, 5.0), 60)
    drawn = stratified_bootstrap(list(scores.values()), lambda x: float(x.mean()))
    assert mean_over_tasks(scores).interval == pytest.approx(drawn, abs=0.05)


def test_the_profile_counts_runs():
    random = np.random.default_rng(1)
    runs, tau = random.normal(size=(6, 5)), np.linspace(-2, 2, 9)
    share = performance_profile({str(k): row for k, row in enumerate(runs)}, tau).share
    assert share == pytest.approx([(runs > t).mean() for t in tau])
    assert (np.diff(share) <= 0).all()


def test_the_profiles_band_is_that_of_binomials():
    above = {"a": [1.0] * 12 + [0.0] * 8}  # one task: a resampled share is binomial
    low, high = performance_profile(above, [0.5], resamples=20_000).band
    exact = stats.binom.ppf([0.025, 0.975], 20, 0.6) / 20
    assert (low[0], high[0]) == pytest.approx(exact, abs=1e-9)


def test_the_band_is_drawn_within_tasks_and_scores_must_lie_above():
    apart = performance_profile({"a": [0.0] * 5, "b": [1.0] * 5}, [0.5, 1.0])
    for line in (apart.share, *apart.band):
        assert line.tolist() == [0.5, 0.0]


def test_the_band_covers_the_true_share():
    random, tau = np.random.default_rng(2), np.array([0.5])
    truth = np.mean(stats.norm.sf(0.5, [0.0, 1.0, 0.5, 0.0], [1, 2, 3, 4]))
    covered = []
    for _ in range(300):
        scores = normal(random, (0.0, 1.0, 0.5, 0.0), 10)
        low, high = performance_profile(scores, tau, resamples=400).band
        covered.append(low[0] <= truth <= high[0])
    assert 0.88 <= np.mean(covered) <= 0.99


def test_improvement_in_the_cases_everyone_knows():
    same = {"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0, 5.0]}
    assert probability_of_improvement(same, same).value == 0.5
    better = {"a": [4.0, 5.0], "b": [6.0, 7.0, 8.0]}
    assert probability_of_improvement(better, same) == (1.0, (1.0, 1.0))
    assert probability_of_improvement(same, better) == (0.0, (0.0, 0.0))
    half = {"a": [9.0, 9.0], "b": [0.0, 0.0]}
    assert probability_of_improvement(half, same) == (0.5, (0.5, 0.5))


def test_improvement_is_mann_and_whitneys_u():
    draw, sizes = np.random.default_rng(3).integers, {"a": 7, "b": 4}
    x, y = ({t: draw(0, 4, n).astype(float) for t, n in sizes.items()} for _ in range(2))
    u = [stats.mannwhitneyu(x[t], y[t]).statistic / sizes[t] ** 2 for t in x]
    found = probability_of_improvement(x, y)
    assert found.value == pytest.approx(np.mean(u))
    assert probability_of_improvement(x, dict(reversed(y.items()))) == found  # tasks go by name


def test_improvements_interval_is_that_of_all_draws(monkeypatch):
    x, y = [1.0, 3.0, 4.0], [2.0, 2.5, 3.0]
    every = [np.mean((np.sign(np.subtract.outer(a, b)) + 1) / 2) for a, b in all_draws(x, y)]
    for level in (0.6, 0.9):
        tails = ((1 - level) / 2, (1 + level) / 2)
        exact = np.quantile(every, tails)
        monkeypatch.setattr(statistics, "TAILS", tails)
        drawn = probability_of_improvement({"t": x}, {"t": y}, resamples=40_000).interval
        assert drawn == pytest.approx(exact, abs=1e-9)


def test_improvement_covers_the_truth():
    random, covered = np.random.default_rng(4), []
    truth = stats.norm.cdf(0.5 / np.sqrt(2))
    for _ in range(300):
        x, y = ({t: random.normal(mean, 1, 10) for t in "abcd"} for mean in (0.5, 0.0))
        low, high = probability_of_improvement(x, y, resamples=400).interval
        covered.append(low <= truth <= high)
    assert 0.88 <= np.mean(covered) <= 0.99


def test_a_seed_repeats_the_draws_and_another_does_not():
    scores = normal(np.random.default_rng(5), (0.0, 1.0), 6)
    zero = {task: np.zeros(3) for task in scores}
    for draw in (
        lambda **by: probability_of_improvement(scores, zero, **by).interval,
        lambda **by: performance_profile(scores, [0.0, 1.0], **by).band,
        lambda **by: stratified_bootstrap(list(scores.values()), **by),
    ):
        first, again, other = (draw(resamples=37, seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_the_pooled_interquartile_mean_is_of_all_seeds_and_drawn_within_tasks():
    scores = {"a": [1.0, 2.0, 3.0, 50.0], "b": [4.0, 5.0, 6.0, -50.0]}
    value, interval = pooled_interquartile_mean(scores)
    assert value == pytest.approx(stats.trim_mean([*scores["a"], *scores["b"]], 0.25)) == 3.5
    assert interval == stratified_bootstrap(list(scores.values()))
    assert pooled_interquartile_mean({"a": [1.0] * 3, "b": [5.0] * 3}).interval == (3.0, 3.0)


def test_one_seed_says_nothing_of_spread():
    one, many = {"a": [1.0], "b": [2.0, 3.0]}, {"a": [0.0, 2.0], "b": [1.0, 1.0]}
    assert mean_over_tasks(one) == (1.75, None)
    assert performance_profile(one, [1.5]).band is None
    assert pooled_interquartile_mean(one) == (2.0, None)
    assert probability_of_improvement(one, many) == (0.75, None)
    assert probability_of_improvement(many, one) == (0.25, None)


@pytest.mark.parametrize("ask", [
    mean_over_tasks, pooled_interquartile_mean, lambda x: performance_profile(x, [0.0]),
    lambda x: probability_of_improvement(x, x),
])  # fmt: skip
def test_missing_scores_are_refused(ask):
    for scores, words in ({}, "no tasks"), ({"a": []}, "no values"), ({"a": [np.nan]}, "a has a score"):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            ask(scores)


def test_methods_without_the_same_tasks_are_not_compared():
    with pytest.raises(ValueError, match="scores on b, c"):
        probability_of_improvement({"a": [1.0], "b": [1.0]}, {"a": [1.0], "c": [1.0]})
