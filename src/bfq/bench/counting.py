"""The least work of an update: its matrix products, and the memory that it cannot but read and write."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from bfq.agents import Agent, Batch, Spec
from bfq.kernels.device import using

_shape: Any = jax.ShapeDtypeStruct


class Work(NamedTuple):
    """Of one update of one member."""

    flops: float  # multiplications and additions of its matrix products
    bytes: float  # the state, read and written once, and the batch


def least_work(agent: Agent, config: Any, spec: Spec) -> Work:
    """Counted in the traced update, by the plain formulas; nothing is computed."""
    key, batch = jax.random.key(0), _batch(config.batch_size, spec, agent.needs)
    state = jax.eval_shape(lambda: agent.init(key, spec, config))
    with using(kernels=False):
        traced = jax.make_jaxpr(lambda s, b, k: agent.update(s, b, k, config))(state, batch, key)
    kept, drawn = (
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(t)) for t in (state, batch)
    )
    return Work(_products(traced.jaxpr), 2.0 * kept + drawn)


def _batch(size: int, spec: Spec, needs: tuple[str, ...]) -> Batch:
    def numbers(*shape: int) -> Any:
        return _shape((size, *shape), jnp.float32)

    s, a = spec
    batch = Batch(numbers(s), numbers(a), numbers(), numbers(s), numbers())
    if "next_actions" not in needs:
        return batch
    return batch._replace(next_actions=numbers(a), next_known=numbers())


def _products(jaxpr: Jaxpr) -> float:
    """The operations of all products, those of loops as often as they run, of choices the costliest."""
    total = 0.0
    for equation in jaxpr.eqns:
        inside = [_products(part) for part in _parts(equation.params)]
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            left, result = _lengths(equation.invars[0]), _lengths(equation.outvars[0])
            total += 2.0 * math.prod(left[axis] for axis in contracted) * math.prod(result)
        elif equation.primitive.name == "cond":
            total += max(inside)
        else:
            total += sum(inside) * equation.params.get("length", 1)
    return total


def _lengths(variable: Any) -> tuple[int, ...]:
    return tuple(variable.aval.shape)


def _parts(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs that an equation runs."""
    for value in jax.tree.leaves(params, is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)):
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
