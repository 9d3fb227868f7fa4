"""Timing of repeated calls, the limits of the device, and the minimum cost of an update."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from bfq.agents.contract import Agent, Spec
from bfq.kernels import using
from bfq.training.population import unpack

_finish: Any = jax.block_until_ready


class Timing(NamedTuple):
    """Seconds per call: the median, the extremes and the number of repeats."""

    median: float
    low: float
    high: float
    repeats: int


def timed(work: Callable[[], Any], repeats: int, enough: float = math.inf) -> Timing:
    """Call `work` once to warm up, then time up to `repeats` calls.

    Each call is timed until the device has finished. No further call starts after `enough` seconds.
    """
    _finish(work())
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < enough:
        start = time.perf_counter()
        _finish(work())
        seconds.append(time.perf_counter() - start)
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


class DeviceLimits(NamedTuple):
    """The highest rates that the device reaches."""

    flops: float  # float32 operations per second, in one large product at JAX's default precision
    bytes: float  # bytes per second, read and written by one large addition


@cache
def device_limits() -> DeviceLimits:
    """Measure the limits of the default device, once per process."""
    large = jax.default_backend() != "cpu"
    size, count = (8192, 2**28) if large else (1536, 2**25)
    product, addition = jax.jit(lambda a: a @ a), jax.jit(lambda x: x + 1.0)
    square, vector = jnp.ones((size, size)), jnp.ones(count)
    best_product = timed(lambda: product(square), 5).low
    best_addition = timed(lambda: addition(vector), 5).low
    return DeviceLimits(2.0 * size**3 / best_product, 8.0 * count / best_addition)


class UpdateCost(NamedTuple):
    """The minimum cost of one update of one member."""

    flops: float  # multiplications and additions of its matrix products
    bytes: float  # the state, read and written once, and the batch


def minimum_cost(agent: Agent, config: Any, spec: Spec) -> UpdateCost:
    """Count the operations of the traced update in plain JAX; nothing is computed."""
    key, (s, a) = jax.random.key(0), spec
    columns = 2 * s + a + 2 + (a + 1 if "next_actions" in agent.needs else 0)
    batch = jax.eval_shape(lambda: unpack(jnp.zeros((config.batch_size, columns)), spec))
    state = jax.eval_shape(lambda: agent.init(key, spec, config))
    with using(kernels=False):
        traced = jax.make_jaxpr(lambda s, b, k: agent.update(s, b, k, config))(state, batch, key)
    state_bytes, batch_bytes = (
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
        for tree in (state, batch)
    )
    return UpdateCost(_product_flops(traced.jaxpr), 2.0 * state_bytes + batch_bytes)


def _product_flops(jaxpr: Jaxpr) -> float:
    """Operations of all products; loops count every iteration, branches their most expensive case."""
    total = 0.0
    for equation in jaxpr.eqns:
        nested = [_product_flops(part) for part in _nested(equation.params)]
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            left, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape  # type: ignore[attr-defined]
            total += 2.0 * math.prod(left[axis] for axis in contracted) * math.prod(result)
        elif equation.primitive.name == "cond":
            total += max(nested)
        else:
            total += sum(nested) * equation.params.get("length", 1)
    return total


def _nested(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs that an equation runs."""
    for value in jax.tree.leaves(params, is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)):
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
