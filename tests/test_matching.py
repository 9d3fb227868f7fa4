"""Flow matching from noise at t = 0 to data at t = 1, and shortcut models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose as close

from bfq.flow import few_steps
from bfq.flow.matching import UNROLLED, matching_errors, push, random_matching_errors, sample
from bfq.kernels import using

KEY = jax.random.key(0)


def nothing(x):
    return jnp.zeros((len(x), 0))


MEAN, SIZE = 0.7, 0.3


def gaussian(x, t, s):
    """E[x1 − x0 | x_t = x] for x1 ~ N(MEAN, SIZE²)."""
    t = jnp.broadcast_to(t, x.shape[:-1])[..., None]
    return MEAN + (t * SIZE**2 - (1 - t)) / ((1 - t) ** 2 + t**2 * SIZE**2) * (x - t * MEAN)


def test_euler_steps_converge_to_the_known_flow_map():
    x0 = jax.random.normal(KEY, (200, 3))
    ends = (push(gaussian, x0, nothing(x0), k) for k in (50, 100, 200))
    errors = [float(jnp.abs(end - MEAN - SIZE * x0).max()) for end in ends]
    assert errors[2] < 0.01
    close([errors[0] / errors[1], errors[1] / errors[2]], 2.0, atol=0.15)  # first order


@pytest.mark.parametrize("steps", [5, 50])  # in one turn of a GPU's loop, in two and a half
def test_steps_written_out_are_the_same_steps(steps):
    x0 = jax.random.normal(KEY, (20, 3))

    def pushed(x):
        return push(gaussian, x, nothing(x), steps)

    looped = jax.jacrev(pushed)(x0)
    with using(kernels=True):
        traced = str(jax.make_jaxpr(lambda x: pushed(x))(x0))
        assert traced.count(f"unroll={min(steps, UNROLLED)}") == 1
        close(jax.jacrev(lambda x: pushed(x))(x0), looped, rtol=1e-5, atol=1e-7)


def test_the_loss_is_least_at_the_marginal_velocity():
    keys = jax.random.split(KEY, 3)
    x1 = MEAN + SIZE * jax.random.normal(keys[0], (50_000, 1))

    def loss(shift, slope):
        field = lambda x, t, s: gaussian(x, t, s) + shift + slope * x
        return random_matching_errors(field, x1, nothing(x1), keys[1]).mean()

    close(jax.grad(loss, (0, 1))(0.0, 0.0), 0.0, atol=0.03)
    assert loss(0.0, 0.0) < min(loss(0.3, 0.0), loss(0.0, -0.3))


def test_the_target_is_data_minus_noise_at_the_point_between_them():
    x0, x1, t = jnp.zeros((2, 1)), jnp.ones((2, 1)), jnp.array([0.0, 0.25])
    seen = []
    field = lambda x, t, s: seen.append(x) or 3.0 + 0 * x
    errors = matching_errors(field, x0, x1, t, nothing(x0))
    close(seen[0][:, 0], t)
    close(errors, (3.0 - 1.0) ** 2)


def test_times_begin_at_noise_and_stop_one_step_before_data():
    field = lambda x, t, s: jnp.broadcast_to(t, x.shape)
    close(push(field, jnp.zeros((1, 1)), jnp.zeros((1, 0)), 4), (0 + 0.25 + 0.5 + 0.75) / 4)


def test_samples_are_clipped_at_the_end_alone_and_scaled_by_the_temperature():
    out_and_back = lambda x, t, s: jnp.where(t < 0.5, 8.0, -8.0) * jnp.ones_like(x)
    s = jnp.zeros((50, 2))
    still = sample(out_and_back, s, KEY, 3, 2, temperature=0.1)
    close(still, 0.1 * jax.random.normal(KEY, (50, 3)), atol=1e-6)
    assert float(jnp.abs(sample(out_and_back, s, KEY, 3, 1)).max()) == 1.0


def decay(x, t, k, s):
    """The exact shortcut of dx/dt = −x: ((e^−h) − 1) x / h with h = 2^−k."""
    h = jnp.broadcast_to(jnp.exp2(-k), x.shape[:-1])[..., None]
    return jnp.expm1(-h) * x / h


def draws(count=64, dim=2):
    keys = jax.random.split(KEY, 3)
    k = few_steps.step_indices(count, 8)
    x0, x1 = (jax.random.normal(key, (count, dim)) for key in keys[:2])
    return x0, x1, few_steps.step_times(keys[2], k), k


def test_shortcuts_that_are_exact_agree_with_themselves_and_jump_alike():
    x0, x1, t, k = draws()
    assert few_steps.half_steps_loss(decay, decay, x0, x1, t, k, nothing(x0)) < 1e-12
    for steps in (1, 2, 4, 8):
        close(few_steps.jump(decay, x0, nothing(x0), steps), x0 * np.exp(-1), rtol=1e-5)


def test_the_long_step_learns_from_the_target_networks_two_halves():
    x0, x1, t, k = draws()
    line = lambda a: lambda x, t, k, s: a * x + t[:, None] + 0.1 * k[:, None]

    def loss(online, target):
        return few_steps.half_steps_loss(line(online), line(target), x0, x1, t, k, nothing(x0))

    half = 0.5 / 2**k
    x_t = (1 - (1 - 1e-5) * t[:, None]) * x0 + t[:, None] * x1
    v1 = 0.5 * x_t + t[:, None] + 0.1 * (k + 1)[:, None]
    v2 = 0.5 * (x_t + half[:, None] * v1) + (t + half)[:, None] + 0.1 * (k + 1)[:, None]
    expected = jnp.square(line(2.0)(x_t, t, k, None) - 0.5 * (v1 + v2)).mean()
    close(loss(2.0, 0.5), expected, rtol=1e-5)
    to_online, to_target = jax.grad(loss, (0, 1))(2.0, 0.5)
    assert to_target == 0
    assert abs(to_online) > 0.1
    # no gradient either where one network has both parts
    close(jax.grad(lambda a: loss(a, a))(0.5), jax.grad(loss)(0.5, 0.5), rtol=1e-6)


def test_a_batch_is_split_over_the_longer_steps_and_the_rest_is_the_longest():
    k = np.asarray(few_steps.step_indices(256, 8))
    assert [int((k == index).sum()) for index in (2, 1, 0)] == [85, 85, 86]
    assert (np.diff(k) <= 0).all()
    assert few_steps.step_indices(2, 8).tolist() == [0.0, 0.0]


def test_times_are_where_steps_begin():
    k = few_steps.step_indices(3000, 8)
    t = few_steps.step_times(KEY, k)
    for index in (0, 1, 2):
        assert set(np.asarray(t[k == index]).tolist()) == {i / 2**index for i in range(2**index)}
    times, counts = np.unique(np.asarray(few_steps.finest_times(KEY, 8000, 8)), return_counts=True)
    np.testing.assert_array_equal(times, np.arange(8) / 8)
    close(counts, 1000, atol=150)


def test_the_flow_loss_is_asked_at_the_finest_step():
    seen = []
    field = lambda x, t, k, s: seen.append(k) or jnp.zeros_like(x)
    x0, x1, t, _ = draws(8)
    loss = few_steps.finest_steps_loss(field, x0, x1, t, nothing(x0), 8)
    close(loss, jnp.square(x1 - (1 - 1e-5) * x0).mean(), rtol=1e-6)
    assert seen[0].tolist() == [3.0] * 8
    flow, consistency = few_steps.shortcut_losses(decay, decay, x1, nothing(x1), KEY, 8)
    assert flow > 0.1
    assert consistency < 1e-12
