"""What an update needs of chance and data alone, computed ahead for many updates at once.

Batches, noise, times, noisy actions and learning rates do not depend on the networks. Inside the loop over
updates each would cost small kernels of its own; ahead of it, one large kernel serves a hundred updates. The
equations of the traced update are divided by what they depend on, so no agent has to know of it; every draw
stays what it was, and every number to rounding.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun


class Kind(IntEnum):
    """What a value depends on, each including the kinds before."""

    CONSTANT = 0  # nothing, and so little work that every part does it for itself
    ALWAYS = 1  # nothing: one value for all updates
    STEP = 2  # the number of the update, one for all members
    MEMBER = 3  # a member's chance and hyperparameters, and the data
    STATE = 4  # what training changes


# Of constants alone these cost nothing: the compiler fills them in wherever they are read.
TRIVIAL = {"broadcast_in_dim", "iota", "convert_element_type", "reshape", "squeeze", "concatenate"}


class Divided(NamedTuple):
    """A function of (step, member, state) in parts, each from what the parts before have foreseen."""

    traced: ClosedJaxpr
    inputs: dict[Kind, list[Var]]
    equations: dict[Kind, list[JaxprEqn]]
    foreseen: dict[Kind, list[Var]]  # values of the kinds between that later parts read
    result: Any  # its shapes

    def always(self) -> list[Any]:
        """What is the same for all updates."""
        return self._part(Kind.ALWAYS, self.foreseen[Kind.ALWAYS])()

    def common(self, step: Any, always: list[Any]) -> list[Any]:
        """What can be foreseen from the number of the update, for all members."""
        part = self._part(Kind.STEP, self.foreseen[Kind.STEP])
        return part(*jax.tree.leaves((step, always)))

    def private(self, step: Any, member: Any, always: list[Any], common: list[Any]) -> list[Any]:
        """What can be foreseen for one member."""
        part = self._part(Kind.MEMBER, self.foreseen[Kind.MEMBER])
        return part(*jax.tree.leaves((step, member, always, common)))

    def rest(
        self,
        step: Any,
        member: Any,
        state: Any,
        always: list[Any],
        common: list[Any],
        private: list[Any],
    ) -> Any:
        """The function's result."""
        part = self._part(Kind.STATE, self.traced.jaxpr.outvars)
        given = jax.tree.leaves((step, member, state, always, common, private))
        return jax.tree.unflatten(jax.tree.structure(self.result), part(*given))

    def private_bytes(self) -> int:
        """Bytes foreseen for one update of one member."""
        shapes = [getattr(var.aval, "shape", ()) for var in self.foreseen[Kind.MEMBER]]
        return sum(4 * math.prod(shape) for shape in shapes)

    def _part(self, kind: Kind, wanted: Sequence[Any]) -> Callable[..., list[Any]]:
        """The equations of this kind, as a function of all inputs and foreseen values up to it."""
        given = [var for of, mine in self.inputs.items() if of <= kind for var in mine]
        before = [var for of, mine in self.foreseen.items() if of < kind for var in mine]
        equations = [*self.equations[Kind.CONSTANT], *self.equations[kind]]
        part = self.traced.jaxpr.replace(
            invars=given + before, eqns=equations, outvars=list(wanted)
        )
        return jaxpr_as_fun(ClosedJaxpr(part, self.traced.consts))


def divide(function: Callable[[Any, Any, Any], Any], step: Any, member: Any, state: Any) -> Divided:
    """Traces function(step, member, state), of which only shapes are needed, and divides its equations."""
    traced, result = jax.make_jaxpr(function, return_shape=True)(step, member, state)
    variables = iter(traced.jaxpr.invars)
    given = {Kind.STEP: step, Kind.MEMBER: member, Kind.STATE: state}
    inputs = {
        kind: [next(variables) for _ in jax.tree.leaves(value)] for kind, value in given.items()
    }
    kinds: dict[Var, Kind] = dict.fromkeys(traced.jaxpr.constvars, Kind.CONSTANT)
    for kind, mine in inputs.items():
        kinds |= dict.fromkeys(mine, kind)

    equations: dict[Kind, list[JaxprEqn]] = {kind: [] for kind in Kind}
    made: dict[Kind, list[Var]] = {kind: [] for kind in Kind}
    read_later: set[Var] = set()
    for equation in traced.jaxpr.eqns:
        reads = _variables(equation.invars)
        least = Kind.CONSTANT if equation.primitive.name in TRIVIAL else Kind.ALWAYS
        kind = max((kinds[var] for var in reads), default=Kind.CONSTANT)
        kind = max(kind, least)
        equations[kind].append(equation)
        made[kind] += equation.outvars
        kinds |= dict.fromkeys(equation.outvars, kind)
        read_later |= {var for var in reads if kinds[var] < kind}
    read_later |= set(_variables(traced.jaxpr.outvars))
    between = (Kind.ALWAYS, Kind.STEP, Kind.MEMBER)
    foreseen = {kind: [var for var in made[kind] if var in read_later] for kind in between}
    return Divided(traced, inputs, equations, foreseen, result)


def _variables(atoms: Iterable[Any]) -> list[Var]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]
