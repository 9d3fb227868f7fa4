"""benchmarks/one_step_against_flow.py measures how far a one-step action left its flow."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest


@pytest.fixture
def compared(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "benchmarks"), *sys.path])
    return importlib.import_module("one_step_against_flow").compared


def to_a_point(pull):
    """The flow of all noise to 0.25: v = (x − 0.25)/t along it; over (0, 1) the critics pull further."""

    def velocity(x, r, t, observation):
        span = jnp.broadcast_to((t - r)[..., None], x.shape)
        late = jnp.maximum(jnp.broadcast_to(t[..., None], x.shape), 1e-6)
        return (x - 0.25) / late - jnp.where(span > 0.99, pull, 0.0)

    return velocity


@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_what_guidance_did_is_the_distance_from_the_flow(compared, pull):
    actions = jnp.full((8, 3), 0.25)
    found = compared(to_a_point(pull), jnp.zeros((8, 2)), actions, preconditioned=True)
    for name, apart in (("one step", pull), ("20 steps", 0.0), ("20 maps", 0.0)):
        assert found[name]["from_the_flow"] == pytest.approx(apart, abs=1e-4)
        assert found[name]["error_of_the_mean"] == pytest.approx(apart**2, abs=1e-4)
        assert found[name]["spread"] == pytest.approx(0.0, abs=1e-4)
