"""Many calls of one network after another, each from what the last one made."""

from collections.abc import Callable
from typing import Any

import jax

from bfq.kernels.device import use


def chain(
    step: Callable[[Any, Any], tuple[Any, None]],
    start: Any,
    told: Any,
    a_turn: int,
    written_out: int = 1,
) -> Any:
    """`start` after a step for every row of `told`; differentiable through all of them.

    A GPU waits at every turn of a loop, so a turn has up to `a_turn` steps there, launched together.
    A CPU only compiles them for longer: there, chains of up to `written_out` steps are written out.
    """
    count = len(jax.tree.leaves(told)[0])
    turn = a_turn if use().kernels or count <= written_out else 1
    return jax.lax.scan(step, start, told, unroll=min(count, turn))[0]
