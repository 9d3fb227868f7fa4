"""Diffusion: the schedules' values, the forward process, and samplers that find known distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from bfq.flow import diffusion, samplers
from bfq.flow.diffusion import (
    SCHEDULES,
    Schedule,
    cosine_schedule,
    denoise,
    linear_schedule,
    vp_schedule,
)
from bfq.flow.samplers import SAMPLERS
from bfq.kernels import using
from bfq_paper.checkerboard import energy_distance

KEY = jax.random.key(0)


def test_the_schedules_have_their_published_values():
    kept = np.asarray(vp_schedule(5).alpha) ** 2
    close(kept, [0.804, 0.435, 0.159, 0.039, 0.0064], atol=6e-4)
    betas = 1 - kept / np.concatenate([[1], kept[:-1]])
    close(betas, [0.196, 0.459, 0.636, 0.755, 0.835], atol=6e-4)
    close(cosine_schedule(5).alpha, [0.99998, 0.91987, 0.70219, 0.37947, 0.00842], atol=6e-6)
    kept = np.asarray(linear_schedule(100).alpha) ** 2
    close(kept[0], 1 - 1e-3, rtol=1e-6)
    close(1 - kept[-1] / kept[-2], 0.2, rtol=1e-5)
    for make in SCHEDULES.values():
        made = make(20)
        close(made.alpha**2 + made.sigma**2, 1.0, atol=1e-6)
        assert (np.diff(made.alpha) < 0).all()


def test_noise_and_action_predict_each_other():
    action, noise = jax.random.normal(KEY, (2, 7, 3))
    schedule = cosine_schedule(7)
    noisy = diffusion.add_noise(action, noise, schedule.alpha, schedule.sigma)
    found = diffusion.action_from_noise(noisy, noise, schedule.alpha, schedule.sigma)
    close(found, action, atol=1e-4)
    alpha, sigma = schedule.alpha[:, None], schedule.sigma[:, None]
    close((noisy - alpha * action) / sigma, noise, atol=1e-4)
    predict = diffusion.action_predictor(lambda x, index: noise, schedule)
    close(predict(noisy, jnp.arange(7.0)), action, atol=1e-4)


def test_the_losses_vanish_at_the_truth_and_sum_or_average_over_dimensions():
    actions, schedule = 0.5 * jax.random.normal(KEY, (64, 3)), vp_schedule(5)

    def true_noise(x, t):
        alpha, sigma = (part[t.astype(int)][:, None] for part in (schedule.alpha, schedule.sigma))
        return (x - alpha * actions) / sigma

    assert diffusion.noise_loss(true_noise, schedule, actions, KEY) < 1e-9
    drawn = diffusion.draw_noisy(schedule, actions, KEY)
    found = diffusion.action_predictor(true_noise, schedule)(drawn.noisy, drawn.time)
    assert diffusion.squared_error(found, actions) < 1e-9
    predict = diffusion.action_predictor(lambda x, t: actions, schedule, "action")
    assert diffusion.squared_error(predict(drawn.noisy, drawn.time), actions) == 0
    zero = lambda x, t: 0 * x
    mean, total = (diffusion.noise_loss(zero, schedule, actions, KEY, k) for k in (False, True))
    close(total, 3 * mean, rtol=1e-5)
    drawn = diffusion.draw_noisy(schedule, jnp.zeros((5000, 1)), KEY)
    close(np.bincount(drawn.time.astype(int)) / 5000, 0.2, atol=0.03)


def test_posterior_steps_are_bayes_rule():
    """q(x_s | x_t, x_0) from the joint Gaussian of (x_s, x_t), by conditioning."""
    schedule = vp_schedule(5)
    times = samplers.sampling_indices(schedule, 5)
    steps = samplers.posterior_steps(times)
    alpha, sigma = np.asarray(times.alpha, float), np.asarray(times.sigma, float)
    for i in range(5):
        (at, as_), (st, ss) = alpha[i : i + 2], sigma[i : i + 2]
        covariance = at / as_ * ss**2  # of x_s and x_t given x_0
        keep = covariance / st**2
        close(steps.keep[i], keep, rtol=1e-4, atol=1e-6)
        close(steps.pull[i], as_ - keep * at, rtol=1e-4)
        close(steps.fresh[i] ** 2, ss**2 - covariance**2 / st**2, rtol=1e-3, atol=1e-6)


def test_the_path_visits_the_references_indices():
    def visited(schedule, steps):
        return np.asarray(samplers.sampling_indices(schedule, steps).time).astype(int).tolist()

    assert visited(cosine_schedule(5), 5) == [4, 3, 2, 1]  # and then 0, twice
    assert visited(cosine_schedule(50), 15) == np.linspace(0, 49, 16).astype(int)[:0:-1].tolist()
    assert visited(vp_schedule(5), 5) == [4, 3, 2, 1, 0]
    assert visited(vp_schedule(5), 1) == visited(cosine_schedule(5), 1) == [4]
    assert float(samplers.sampling_indices(vp_schedule(5), 5).sigma[-1]) == 0.0
    close(samplers.sampling_indices(cosine_schedule(5), 5).sigma[-1], cosine_schedule(5).sigma[0])


def test_ancestral_steps_are_cleandiffusers():
    """Written out once more with ε̂, its clipping and all six indices; the network is just a function."""
    schedule, x = cosine_schedule(5), jax.random.normal(KEY, (40, 2))
    net = lambda x, t: jnp.sin(3 * x) + 0.1 * t  # a stand-in for ε̂
    key = jax.random.key(3)
    predict = diffusion.action_predictor(net, schedule)
    found = denoise("ancestral", predict, schedule, x, key, 5)
    index = [0, 0, 1, 2, 3, 4]
    alpha, sigma = (np.asarray(values, float)[index] for values in (schedule.alpha, schedule.sigma))
    z = [jax.random.normal(k, x.shape) for k in jax.random.split(key, 4)] + [0.0]
    for i in range(5, 0, -1):
        low, high = (x - alpha[i]) / sigma[i], (x + alpha[i]) / sigma[i]
        eps = jnp.clip(net(x, index[i]), low, high)
        std = sigma[i - 1] / sigma[i] * np.sqrt(1 - (alpha[i] / alpha[i - 1]) ** 2)
        x = alpha[i - 1] / alpha[i] * (x - sigma[i] * eps)
        x = x + np.sqrt(sigma[i - 1] ** 2 - std**2 + 1e-8) * eps + std * z[5 - i]
    close(found, x, atol=2e-4)


@pytest.mark.parametrize(
    "schedule", [cosine_schedule(30), linear_schedule(30)], ids=["cosine", "linear"]
)
def test_dpm_solver_with_a_constant_prediction_stays_on_the_straight_line(schedule):
    c, start = jnp.array([0.3, -0.4]), jax.random.normal(KEY, (5, 2))
    times = samplers.sampling_indices(schedule, 5)
    for last in (1, 2, 5):
        part = Schedule(*(each[last::-1] for each in (times.alpha, times.sigma)), ends_noisy=False)
        x = denoise("dpm_solver", lambda x, t: jnp.broadcast_to(c, x.shape), part, start, KEY, last)
        noise = (start - times.alpha[0] * c) / times.sigma[0]
        close(x, times.alpha[last] * c + times.sigma[last] * noise, atol=1e-4)


def test_dpm_solver_survives_a_schedule_that_has_its_noisiest_time_twice():
    schedule = cosine_schedule(200)
    assert schedule.alpha[-1] == schedule.alpha[-2]
    noise, predict = jax.random.normal(KEY, (8, 2)), lambda x, t: jnp.full_like(x, 0.3)
    found = denoise("dpm_solver", predict, schedule, noise, jax.random.key(1), 200)
    close(found, schedule.alpha[0] * 0.3, atol=0.03)  # σ_0 of the noise is left


def test_one_step_of_ddim():
    net = lambda x, t: jnp.tanh(x) + t
    x = jax.random.normal(KEY, (9, 2))
    for schedule in (cosine_schedule(5), vp_schedule(5)):
        found = denoise("ddim", diffusion.action_predictor(net, schedule), schedule, x, KEY, 1)
        alpha, sigma = schedule.alpha[-1], schedule.sigma[-1]
        action = jnp.clip((x - sigma * net(x, 4.0)) / alpha, -1, 1)
        left, noise = schedule.sigma[0], (x - alpha * action) / sigma
        expected = action if schedule.ends_noisy else schedule.alpha[0] * action + left * noise
        close(found, expected, atol=1e-5)


def exact_denoiser(schedule, means, std):
    """E[x_0 | x_t] for an equal mixture of N(m, std²) in each coordinate."""
    means = jnp.asarray(means)

    def predict(x, t):
        alpha, sigma = schedule.alpha[t.astype(int)], schedule.sigma[t.astype(int)]
        variance = alpha**2 * std**2 + sigma**2
        away = x[..., None] - alpha * means
        weight = jax.nn.softmax(-jnp.square(away) / (2 * variance), axis=-1)
        return (weight * (means + alpha * std**2 / variance * away)).sum(-1)

    return predict


SHARP = dict.fromkeys(("ancestral", "ddim", "dpm_solver"), cosine_schedule(400))
SHARP["posterior"] = vp_schedule(400)


@pytest.mark.parametrize("name", SHARP)
def test_samplers_recover_a_gaussian(name):
    schedule, steps = SHARP[name], 60 if name == "dpm_solver" else 400
    noise = jax.random.normal(KEY, (4000, 1))
    noise = (noise - noise.mean()) / noise.std()
    x = denoise(name, exact_denoiser(schedule, [0.3], 0.15), schedule, noise, KEY, steps)
    close([x.mean(), x.std()], [0.3, 0.15], atol=0.012)


@pytest.mark.parametrize("name", SHARP)
def test_samplers_recover_a_mixture(name):
    schedule, steps, means, std = SHARP[name], 60 if name == "dpm_solver" else 400, [-0.5, 0.5], 0.1
    noise = jax.random.normal(KEY, (2000, 1))
    x = denoise(name, exact_denoiser(schedule, means, std), schedule, noise, KEY, steps)
    sides = jax.random.choice(jax.random.key(1), jnp.array(means), (2000, 1))
    wanted = sides + std * jax.random.normal(jax.random.key(2), (2000, 1))
    close(x.mean(), 0.0, atol=0.05)
    close(jnp.square(x).mean(), 0.26, atol=0.01)
    close((x**4).mean(), 0.5**4 + 6 * 0.25 * 0.01 + 3 * 1e-4, atol=0.01)
    assert float(energy_distance(x, wanted)) < 0.01
    assert float(energy_distance(0 * x, wanted)) > 0.1


def test_ddim_is_of_first_order_and_dpm_solver_of_second():
    """Half the step halves DDIM's error and quarters DPM-Solver++'s, on times that are even in log(α/σ)."""
    alpha = jax.nn.sigmoid(2 * jnp.linspace(1.5, -1.5, 81)) ** 0.5
    schedule = Schedule(alpha, jnp.sqrt(1 - alpha**2), ends_noisy=False)
    noise = jax.random.normal(KEY, (50, 1))
    scale = jnp.sqrt((alpha * 0.3) ** 2 + schedule.sigma**2)  # the ODE keeps (x − α μ)/scale
    exact = alpha[0] * 0.1 + scale[0] / scale[-1] * (noise - alpha[-1] * 0.1)

    def error(name, steps):
        found = denoise(name, exact_denoiser(schedule, [0.1], 0.3), schedule, noise, KEY, steps)
        return float(jnp.abs(found - exact).max())

    assert 1.7 < error("ddim", 20) / error("ddim", 40) < 2.5
    assert 3.0 < error("dpm_solver", 20) / error("dpm_solver", 40) < 5.5


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_prediction_beyond_the_bounds_has_no_gradient(name):
    """Clipped, it is ±1 whatever the network; one within the bounds does reach the network."""

    def end(predicted):
        noise = jax.random.normal(KEY, (6, 2))
        predict = lambda x, t: jnp.broadcast_to(predicted, x.shape)
        return denoise(name, predict, vp_schedule(5), noise, KEY, 5).sum()

    gradient = jax.jit(jax.grad(end))
    np.testing.assert_array_equal(gradient(jnp.array([5.0, -5.0])), 0.0)
    assert (gradient(jnp.array([0.1, -0.1])) > 0.1).all()


def test_an_action_beyond_the_bounds_has_no_gradient():
    """One step of DDIM that keeps much of its noise: some of its ends lie outside, though no prediction."""
    alpha = jnp.array([0.6, 0.3])
    schedule = Schedule(alpha, jnp.sqrt(1 - alpha**2), ends_noisy=False)
    recipe = diffusion.Recipe(schedule, "ddim", 1, "action")
    predicted = jnp.full((40, 2), 0.5)

    def ends(predicted):
        return diffusion.generate(lambda x, t, s: predicted, jnp.zeros((40, 3)), 2, KEY, recipe)

    outside = np.abs(ends(predicted)) == 1.0
    assert 0 < outside.sum() < outside.size
    gradient = jax.grad(lambda predicted: ends(predicted).sum())(predicted)
    np.testing.assert_array_equal(gradient != 0, ~outside)


@pytest.mark.parametrize("steps_a_turn", [1, 2])
def test_unrolled_and_looped_chains_agree(monkeypatch, steps_a_turn):
    schedule, x = cosine_schedule(5), jax.random.normal(KEY, (4, 2))

    def sample(w):
        return denoise("ancestral", lambda x, t: jnp.tanh(w * x + t), schedule, x, KEY, 5).sum()

    unrolled = jax.value_and_grad(sample)(0.3)
    monkeypatch.setattr(diffusion, "UNROLLED", steps_a_turn)
    with using(kernels=steps_a_turn > 1):  # a CPU's loop, and a GPU's of two turns and a half
        assert f"unroll={steps_a_turn}" in str(jax.make_jaxpr(lambda w: sample(w))(0.3))
        close(unrolled, jax.value_and_grad(lambda w: sample(w))(0.3), rtol=1e-5)
    assert abs(float(unrolled[1])) > 1e-3
