"""Loops over sampling steps."""

from collections.abc import Callable
from typing import Any

import jax

from bfq.nets.primitives import use_kernels


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
