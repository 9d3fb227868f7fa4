"""Transitions from the device or from the disk: the run is the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bfq.agents.registry import configure, get_agent
from bfq.data.arrays import from_arrays
from bfq.data.transforms import apply_transforms, fit_transforms
from bfq.errors import BadInput
from bfq.run import Member
from bfq.training import population as module
from bfq.training.population import (
    OnDevice,
    Streamed,
    create_population,
    draw_ahead,
    feed,
    initial_states,
    memory_budget,
)
from bfq.training.program import Program

TINY = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16, "steps": 10}


@pytest.fixture(scope="module")
def parts():
    """A dataset, a population of two members, and a function that reads rows."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=(200, 3)).astype(np.float32)
    a = rng.uniform(-1, 1, (200, 2)).astype(np.float32)
    ends = np.arange(200) % 10 == 9
    data = from_arrays(s, a, s[:, 0], timeouts=ends, next_observations=s + 1)
    agent, transforms = get_agent("bfq"), fit_transforms(data)
    members = [Member(0, {}), Member(7, {"eta": 0.3})]

    def fetch(which):
        rows = data.rows(which) if isinstance(which, slice) else data.take(np.asarray(which))
        return apply_transforms(transforms, rows)

    return data, create_population(agent, configure(agent, TINY), members), fetch


def test_streamed_training_equals_training_from_the_device(parts):
    data, population, fetch = parts
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


def test_rows_drawn_ahead_are_those_of_each_member_and_update(parts):
    _, population, _ = parts
    whole = draw_ahead(population.keys, jnp.int32(0), length=4, size=16, rows=200)
    later = draw_ahead(population.keys, jnp.int32(2), length=2, size=16, rows=200)
    np.testing.assert_array_equal(whole[2:], later)
    assert whole.shape == (4, 2, 16)
    assert len(np.unique(np.asarray(whole).reshape(8, 16), axis=0)) == 8
    assert 0 <= whole.min() <= whole.max() < 200


def test_only_the_drawn_rows_are_read(parts):
    data, population, fetch = parts
    reads = []

    def recorded(which):
        reads.append(which)
        return fetch(which)

    batches = Streamed(population, len(data), recorded).take(0, 2)
    assert batches.packed.shape == (2, 2, 16, 2 * 3 + 2 + 2)
    assert [getattr(which, "size", 1) for which in reads] == [1, 64]
    index = np.asarray(reads[1]).reshape(2, 2, 16)
    np.testing.assert_array_equal(batches.packed[1, 0, :, :3], fetch(index[1, 0])["observations"])


def test_data_is_streamed_where_it_does_not_fit(parts, monkeypatch):
    data, population, fetch = parts
    monkeypatch.delenv("BFQ_MEMORY_GB", raising=False)
    assert isinstance(feed(population, len(data), data.row_bytes, fetch), OnDevice)
    monkeypatch.setattr(module, "free_memory", lambda: 9e9)
    assert memory_budget() == 3e9
    monkeypatch.setenv("BFQ_MEMORY_GB", "0.000001")
    assert isinstance(feed(population, len(data), data.row_bytes, fetch), Streamed)
    monkeypatch.setenv("BFQ_MEMORY_GB", "much")
    with pytest.raises(BadInput, match="BFQ_MEMORY_GB must be a number"):
        memory_budget()
