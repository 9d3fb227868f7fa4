"""How derivatives and loops are traced."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax

from bfq.nets.primitives import use_kernels

_FORWARD_MODE: ContextVar[bool] = ContextVar("forward_mode", default=False)


@contextmanager
def forward_mode() -> Iterator[None]:
    """Use only formulas that have Jacobian-vector products; kernels have gradients alone."""
    token = _FORWARD_MODE.set(True)
    try:
        yield
    finally:
        _FORWARD_MODE.reset(token)


def in_forward_mode() -> bool:
    """Whether the code that is being traced needs Jacobian-vector products."""
    return _FORWARD_MODE.get()


def scan_steps(
    step: Callable[[Any, Any], tuple[Any, None]],
    start: Any,
    rows: Any,
    unrolled: int,
    unrolled_on_cpu: int = 1,
) -> Any:
    """`start` after a step for every row of `rows`; differentiable through all of them.

    A GPU waits between two turns of a loop, so there a turn has up to `unrolled` steps. A CPU only compiles
    them for longer: there, a loop of up to `unrolled_on_cpu` steps is unrolled.
    """
    count = len(jax.tree.leaves(rows)[0])
    turn = unrolled if use_kernels() or count <= unrolled_on_cpu else 1
    return jax.lax.scan(step, start, rows, unroll=min(count, turn))[0]
