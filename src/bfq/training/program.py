"""The compiled program: many updates of all members, with loop-invariant work hoisted out of the loop.

Batches, noise, times, noisy actions and learning rates do not depend on the networks. Inside the loop over
updates each would cost small kernels of its own; computed ahead, one large kernel serves a hundred updates.
The equations of the traced update are split by what they depend on, so agents need not know about it. Every
draw stays the same, and every number up to rounding.
"""

import math
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jaxtyping import Array, Float, Int

from bfq.agents.contract import Agent
from bfq.kernels import use, using
from bfq.kernels.leaves import with_copies, without_copies
from bfq.training.compilation import compiler_options
from bfq.training.population import Population, Transitions, draw_rows, unpack, update_keys

_shape: Any = jax.ShapeDtypeStruct
HOISTED_BYTES = 2**28  # the most memory for what is computed ahead


class Program:
    """The compiled program: `length` updates of all members, from drawing the batch to moving the targets.

    Random numbers depend on (seed, number of the update) alone, so a run can resume from any checkpoint.
    """

    def __init__(self, population: Population, length: int):
        self._population = population
        run = partial(run_updates, population.agent, population.half, length)
        self._run: Any = jax.jit(run, donate_argnums=0, compiler_options=compiler_options())

    def compile(self, states: Any, rows: Transitions) -> None:
        """Compile now, so that the first call takes no longer than the others."""
        keys, configs = self._population.keys, self._population.configs
        self._run = self._run.lower(states, keys, configs, rows, jnp.int32(0)).compile()

    def __call__(
        self, states: Any, rows: Transitions, start: Int[Array, ""]
    ) -> tuple[Any, dict[str, Float[Array, "c m"]]]:
        """The states after the updates from `start` on, and the metrics of each; donates `states`."""
        return self._run(states, self._population.keys, self._population.configs, rows, start)


def run_updates(
    agent: Agent,
    half: bool,
    length: int,
    states: Any,
    keys: Any,
    configs: Any,
    rows: Transitions,
    start: Int[Array, ""],
) -> Any:
    """Run `length` updates of all members: a scan over blocks, in each of them a scan over updates."""

    def member_update(step: Array, member: tuple[Any, Any, Any], state: Any) -> Any:
        key, config, data = member
        batch_key, update_key = update_keys(key, step)
        if rows.streamed:
            batch = unpack(data, rows.spec)
        else:
            batch = data.batch(draw_rows(batch_key, config.batch_size, len(rows.packed)))
        return agent.update(state._replace(step=step), batch, update_key, config)

    streamed = rows.streamed
    one_member = partial(jax.tree.map, lambda leaf: _shape(leaf.shape[1:], leaf.dtype))
    states = states._replace(step=jnp.zeros(len(keys), jnp.int32))
    if half and use().kernels:
        states = with_copies(states)
    data = _shape(rows.packed.shape[2:], rows.packed.dtype) if streamed else rows
    with using(members=len(keys), half=half, backward=True):
        split = split_by_dependency(
            member_update, start, (*one_member((keys, configs)), data), one_member(states)
        )

    # All members are at the same update. Without a member axis, the step can decide what is computed.
    state_axes = type(states)(**{name: None if name == "step" else 0 for name in states._fields})
    member_axes = (0, 0, 0 if streamed else None)
    per_member = jax.vmap(split.part(Kind.MEMBER), in_axes=(None, member_axes, None, None))
    rest = jax.vmap(split.part(Kind.STATE), in_axes=(None, member_axes, state_axes, None, None, 0))
    constants = split.part(Kind.ALWAYS)()

    def hoist(step: Array, batches: Array | None) -> tuple[Any, Any]:
        shared = split.part(Kind.STEP)(step, constants)
        data = batches if streamed else rows
        return shared, per_member(step, (keys, configs, data), constants, shared)

    def update(states: Any, xs: Any) -> Any:
        step, batches, (shared, own) = xs
        member = keys, configs, batches if streamed else rows
        states, metrics = rest(step, member, states, constants, shared, own)
        return states, jnp.stack(list(metrics.values()))  # written as one array per update

    def block(states: Any, xs: Any) -> Any:
        return jax.lax.scan(update, states, (*xs, jax.vmap(hoist)(*xs)))

    ahead = block_length(length, split.member_bytes() * len(keys))
    steps = (start + jnp.arange(length)).reshape(-1, ahead)
    batches = rows.packed.reshape(-1, ahead, *rows.packed.shape[1:]) if streamed else None
    states, metrics = jax.lax.scan(block, states, (steps, batches))
    names = split.result[1]
    metrics = metrics.reshape(length, len(names), len(keys))
    return without_copies(states), {name: metrics[:, k] for k, name in enumerate(names)}


def block_length(length: int, bytes_each: int) -> int:
    """Updates per block: the largest divisor of `length` whose hoisted values fit into memory."""
    most = max(min(length, HOISTED_BYTES // max(bytes_each, 1)), 1)
    return max(n for n in range(1, most + 1) if length % n == 0)


class Kind(IntEnum):
    """What a value depends on; each kind includes the kinds before it."""

    CONSTANT = 0  # nothing, and so cheap that every part computes it for itself
    ALWAYS = 1  # nothing: one value for all updates
    STEP = 2  # the number of the update, the same for all members
    MEMBER = 3  # a member's random numbers and hyperparameters, and the data
    STATE = 4  # what training changes


# With constant inputs these cost nothing: the compiler computes them wherever they are read.
TRIVIAL = {"broadcast_in_dim", "iota", "convert_element_type", "reshape", "squeeze", "concatenate"}


class SplitFunction(NamedTuple):
    """A function of (step, member, state) in parts; each part reads values hoisted by those before it."""

    traced: ClosedJaxpr
    inputs: dict[Kind, list[Var]]
    equations: dict[Kind, list[JaxprEqn]]
    hoisted: dict[Kind, list[Var]]  # values that later parts read
    result: Any  # the shapes of the function's result

    def member_bytes(self) -> int:
        """Bytes hoisted for one update of one member."""
        shapes = [getattr(var.aval, "shape", ()) for var in self.hoisted[Kind.MEMBER]]
        return sum(4 * math.prod(shape) for shape in shapes)

    def part(self, kind: Kind) -> Callable[..., Any]:
        """The equations of this kind, as a function of all inputs and hoisted values up to it.

        It returns the values that later parts read; the part of the state returns the function's result.
        """
        last = kind == Kind.STATE
        given = [var for of, inputs in self.inputs.items() if of <= kind for var in inputs]
        before = [var for of, hoisted in self.hoisted.items() if of < kind for var in hoisted]
        part = self.traced.jaxpr.replace(
            invars=given + before,
            eqns=[*self.equations[Kind.CONSTANT], *self.equations[kind]],
            outvars=self.traced.jaxpr.outvars if last else self.hoisted[kind],
        )
        compute = jaxpr_as_fun(ClosedJaxpr(part, self.traced.consts))

        def compute_tree(*arguments: Any) -> Any:
            found = compute(*jax.tree.leaves(arguments))
            return jax.tree.unflatten(jax.tree.structure(self.result), found) if last else found

        return compute_tree


def split_by_dependency(
    function: Callable[[Any, Any, Any], Any], step: Any, member: Any, state: Any
) -> SplitFunction:
    """Trace function(step, member, state), of which shapes are enough, and split its equations."""
    traced, result = jax.make_jaxpr(function, return_shape=True)(step, member, state)
    variables = iter(traced.jaxpr.invars)
    given = {Kind.STEP: step, Kind.MEMBER: member, Kind.STATE: state}
    inputs = {of: [next(variables) for _ in jax.tree.leaves(tree)] for of, tree in given.items()}
    kinds: dict[Var, Kind] = dict.fromkeys(traced.jaxpr.constvars, Kind.CONSTANT)
    for kind, own in inputs.items():
        kinds |= dict.fromkeys(own, kind)

    equations: dict[Kind, list[JaxprEqn]] = {kind: [] for kind in Kind}
    outputs: dict[Kind, list[Var]] = {kind: [] for kind in Kind}
    read_later: set[Var] = set()
    for equation in traced.jaxpr.eqns:
        reads = _variables(equation.invars)
        least = Kind.CONSTANT if equation.primitive.name in TRIVIAL else Kind.ALWAYS
        kind = max((kinds[var] for var in reads), default=Kind.CONSTANT)
        kind = max(kind, least)
        equations[kind].append(equation)
        outputs[kind] += equation.outvars
        kinds |= dict.fromkeys(equation.outvars, kind)
        read_later |= {var for var in reads if kinds[var] < kind}
    read_later |= set(_variables(traced.jaxpr.outvars))
    between = (Kind.ALWAYS, Kind.STEP, Kind.MEMBER)
    hoisted = {kind: [var for var in outputs[kind] if var in read_later] for kind in between}
    return SplitFunction(traced, inputs, equations, hoisted, result)


def _variables(atoms: Iterable[Any]) -> list[Var]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]
