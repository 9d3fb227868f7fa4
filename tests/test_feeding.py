"""Transitions from the device or from the disk: the run is the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents.registry import configure, get_agent
from bfq.data.dataset import from_arrays
from bfq.data.transforms import apply, fit
from bfq.errors import BadInput
from bfq.run import Member
from bfq.training import feeding
from bfq.training.feeding import OnDevice, Streamed, budget, feed
from bfq.training.population import Program, drawn, initial_states, populate

TINY = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16, "steps": 10}


def dataset(rows=200):
    rng = np.random.default_rng(0)
    s = rng.normal(size=(rows, 3)).astype(np.float32)
    a = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    return from_arrays(s, a, s[:, 0], timeouts=np.arange(rows) % 10 == 9, next_observations=s + 1)


def parts():
    data, agent = dataset(), get_agent("bfq")
    transforms = fit(data)
    population = populate(agent, configure(agent, TINY), [Member(0, {}), Member(7, {"eta": 0.3})])

    def fetch(which):
        rows = data.rows(which) if isinstance(which, slice) else data.drawn(np.asarray(which))
        return apply(transforms, rows)

    return data, population, fetch


def test_streamed_training_is_the_training_from_the_device():
    data, population, fetch = parts()
    results = []
    for source in (OnDevice(fetch(slice(None))), Streamed(population, len(data), fetch)):
        program, states = Program(population, 3), initial_states(population, source.spec)
        for start in (0, 3):
            states, metrics = program(states, source.take(start, 3), jnp.int32(start))
            source.prepare(start + 3, 3)
        results.append((states, metrics))
    (there, metrics), (here, streamed) = results
    for name, values in metrics.items():
        np.testing.assert_allclose(values, streamed[name], rtol=1e-5, atol=1e-6)
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_rows_drawn_ahead_are_those_of_each_member_and_update():
    _, population, _ = parts()
    whole = drawn(population.keys, jnp.int32(0), length=4, size=16, rows=200)
    later = drawn(population.keys, jnp.int32(2), length=2, size=16, rows=200)
    np.testing.assert_array_equal(whole[2:], later)
    assert whole.shape == (4, 2, 16)
    assert len(np.unique(np.asarray(whole).reshape(8, 16), axis=0)) == 8
    assert whole.min() >= 0
    assert whole.max() < 200


def test_only_the_drawn_rows_are_fetched():
    data, population, fetch = parts()
    asked = []

    def counted(which):
        asked.append(which)
        return fetch(which)

    source = Streamed(population, len(data), counted)
    batches = source.take(0, 2)
    assert batches.packed.shape == (2, 2, 16, 2 * 3 + 2 + 2)
    assert [getattr(which, "size", 1) for which in asked] == [1, 64]
    index = np.asarray(asked[1]).reshape(2, 2, 16)
    np.testing.assert_array_equal(batches.packed[1, 0, :, :3], fetch(index[1, 0])["observations"])


def test_data_that_fits_goes_to_the_device_and_other_data_is_streamed(monkeypatch):
    data, population, fetch = parts()
    assert isinstance(feed(population, len(data), data.row_bytes, fetch), OnDevice)
    monkeypatch.setenv("BFQ_MEMORY_GB", "0.000001")
    assert isinstance(feed(population, len(data), data.row_bytes, fetch), Streamed)
    monkeypatch.setenv("BFQ_MEMORY_GB", "much")
    with pytest.raises(BadInput, match="BFQ_MEMORY_GB must be a number"):
        budget()


def test_the_budget_is_a_share_of_what_is_free(monkeypatch):
    monkeypatch.delenv("BFQ_MEMORY_GB", raising=False)
    monkeypatch.setattr(feeding, "_free_memory", lambda: 9e9)
    assert budget() == 3e9
