"""A population's program, compiled, with the seconds that took and whether it was found in JAX's cache."""

import time
from functools import cache
from typing import Any, NamedTuple

import jax

from bfq.agents import Agent
from bfq.run import members_of
from bfq.training.population import Program, Rows, initial_states, populate

HIT = "/jax/compilation_cache/cache_hits"


class Compiled(NamedTuple):
    """A program that is ready to run, with the states it begins from."""

    program: Program
    states: Any
    seconds: float  # to have it: compiling, or fetching it from the cache
    from_cache: bool


def compiled_program(
    agent: Agent, config: Any, rows: Rows, members: int, chunk: int, half: bool = False
) -> Compiled:
    """`chunk` updates of all members as one program; for the rows, their shapes will do."""
    population = populate(agent, config, members_of(range(members), {}), half)
    states, program = initial_states(population, rows.spec), Program(population, chunk)
    hits, began = _hits(), time.perf_counter()
    before = len(hits)
    program.compile(states, rows)
    return Compiled(program, states, time.perf_counter() - began, len(hits) > before)


@cache
def _hits() -> list[str]:
    """Grows by one whenever JAX finds a program in its cache; it takes back no listener, so there is one."""
    found: list[str] = []

    def listen(event: str, **_: str | int) -> None:
        if event == HIT:
            found.append(event)

    jax.monitoring.register_event_listener(listen)
    return found
