"""A run is a population: members that differ in seed and in numeric hyperparameters, trained at once."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, Int, Key

from bfq.agents import Agent, Batch, Spec, numeric_fields
from bfq.errors import BadInput
from bfq.kernels.copies import with_copies
from bfq.kernels.device import use, using
from bfq.kernels.rounded import without_copies
from bfq.run import Member
from bfq.training.compiled import compiler_options
from bfq.training.foresight import divide

_shape: Any = jax.ShapeDtypeStruct
AHEAD_BYTES = 2**28  # most memory for what is computed ahead


class Population(NamedTuple):
    """What stays the same while a population trains: a member axis on every leaf."""

    agent: Agent
    configs: Any  # the agent's Config with leaves of shape (M,)
    keys: Key[Array, " m"]
    members: tuple[Member, ...]
    half: bool = False  # products of bfloat16 numbers


@partial(jax.tree_util.register_dataclass, data_fields=["packed"], meta_fields=["spec"])
@dataclasses.dataclass(frozen=True)
class Rows:
    """The transitions side by side in one array: drawing a batch is then a single gather."""

    packed: Float[Array, "n d"]
    spec: Spec

    def batch(self, index: Int[Array, " b"]) -> Batch:
        """The transitions of these rows."""
        return _unpacked(self.packed[index], self.spec)


@partial(jax.tree_util.register_dataclass, data_fields=["packed"], meta_fields=["spec"])
@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of the next updates, drawn outside the program: for data too large for the device."""

    packed: Float[Array, "c m b d"]
    spec: Spec


def _unpacked(rows: Float[Array, "b d"], spec: Spec) -> Batch:
    s, a = spec
    observations, actions, following, rewards, masks, after = jnp.split(
        rows, [s, s + a, 2 * s + a, 2 * s + a + 1, 2 * s + a + 2], axis=-1
    )
    batch = Batch(observations, actions, rewards[:, 0], following, masks[:, 0])
    if after.shape[-1]:
        batch = batch._replace(next_actions=after[:, :a], next_known=after[:, a])
    return batch


def side_by_side(
    arrays: dict[str, npt.NDArray[np.float32]],
) -> tuple[npt.NDArray[np.float32], Spec]:
    """Prepared transitions as rows of one array."""
    order = (
        "observations",
        "actions",
        "next_observations",
        "rewards",
        "masks",
        "next_actions",
        "next_known",
    )
    columns = [arrays[name].reshape(len(arrays["masks"]), -1) for name in order if name in arrays]
    return np.concatenate(columns, axis=1), Spec(columns[0].shape[1], columns[1].shape[1])


def pack(arrays: dict[str, npt.NDArray[np.float32]]) -> Rows:
    """Puts prepared transitions on the device."""
    packed, spec = side_by_side(arrays)
    return Rows(jnp.asarray(packed), spec)


def populate(
    agent: Agent, config: Any, members: Sequence[Member], half: bool = False
) -> Population:
    """Stacks the members' hyperparameters along the member axis."""
    varied = {name for member in members for name in member.overrides}
    fixed = varied - set(numeric_fields(config))
    if fixed:
        name = sorted(fixed)[0]
        raise BadInput(
            f"{name} is part of {agent.name}'s structure, so it cannot take several values in one run: "
            "give one value, and start one run for each."
        )
    singles = [dataclasses.replace(config, **member.overrides) for member in members]
    configs = jax.tree.map(lambda *leaves: jnp.asarray(leaves, jnp.float32), *singles)
    keys = jnp.stack([jax.random.key(member.seed) for member in members])
    return Population(agent, configs, keys, tuple(members), half)


def initial_states(population: Population, spec: Spec) -> Any:
    """Every member's state before its first update."""
    init = population.agent.init

    def start(key: Key[Array, ""], config: Any) -> Any:
        return init(jax.random.fold_in(key, 0), spec, config)

    return jax.jit(jax.vmap(start))(population.keys, population.configs)


class Program:
    """The compiled program: `length` updates of all members, from drawing the batch to moving the targets.

    Randomness comes from (seed, number of the update) alone, so a run can go on from any checkpoint.
    """

    def __init__(self, population: Population, length: int):
        self._population = population
        run = partial(_chunk, population.agent, population.half, length)
        self._run: Any = jax.jit(run, donate_argnums=0, compiler_options=compiler_options())

    def compile(self, states: Any, rows: Rows | Batches) -> None:
        """Compiles now, so that the first call takes no longer than the others."""
        self._run = self._run.lower(*self._arguments(states, rows, jnp.int32(0))).compile()

    def __call__(
        self, states: Any, rows: Rows | Batches, start: Int[Array, ""]
    ) -> tuple[Any, dict[str, Float[Array, "c m"]]]:
        """The states after the updates from `start` on, and the metrics of each; `states` is used up."""
        return self._run(*self._arguments(states, rows, start))

    def _arguments(
        self, states: Any, rows: Rows | Batches, start: Int[Array, ""]
    ) -> tuple[Any, ...]:
        return states, self._population.keys, self._population.configs, rows, start


def _keys(key: Key[Array, ""], step: Int[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The keys of an update's batch and of the update itself."""
    batch_key, update_key = jax.random.split(jax.random.fold_in(key, step + 1))
    return batch_key, update_key


def _draw(batch_key: Key[Array, ""], size: int, rows: int) -> Int[Array, " b"]:
    return jax.random.randint(batch_key, (size,), 0, rows)


@partial(jax.jit, static_argnames=("length", "size", "rows"))
def drawn(
    keys: Key[Array, " m"], start: Int[Array, ""], *, length: int, size: int, rows: int
) -> Int[Array, "c m b"]:
    """The rows that the program would draw for its next updates."""

    def one(step: Array, key: Key[Array, ""]) -> Array:
        return _draw(_keys(key, step)[0], size, rows)

    over_members = jax.vmap(one, in_axes=(None, 0))
    return jax.vmap(over_members, in_axes=(0, None))(start + jnp.arange(length), keys)


def _chunk(
    agent: Agent,
    half: bool,
    length: int,
    states: Any,
    keys: Any,
    configs: Any,
    rows: Rows | Batches,
    start: Int[Array, ""],
) -> Any:
    def member_update(step: Array, member: tuple[Any, Any, Any], state: Any) -> Any:
        key, config, given = member
        batch_key, update_key = _keys(key, step)
        if isinstance(rows, Rows):
            batch = given.batch(_draw(batch_key, config.batch_size, len(rows.packed)))
        else:
            batch = _unpacked(given, rows.spec)
        return agent.update(state._replace(step=step), batch, update_key, config)

    streamed = isinstance(rows, Batches)
    one_member = partial(jax.tree.map, lambda leaf: _shape(leaf.shape[1:], leaf.dtype))
    states = states._replace(step=jnp.zeros(len(keys), jnp.int32))
    if half and use().kernels:
        states = with_copies(states)
    data = _shape(rows.packed.shape[2:], rows.packed.dtype) if streamed else rows
    with using(members=len(keys), half=half, backward=True):
        divided = divide(
            member_update, start, (*one_member((keys, configs)), data), one_member(states)
        )

    # All members are at the same update: kept without a member axis, its number can decide what is computed.
    state_axes = type(states)(**{name: None if name == "step" else 0 for name in states._fields})
    member_axes = (0, 0, 0 if streamed else None)
    private = jax.vmap(divided.private, in_axes=(None, member_axes, None, None))
    rest = jax.vmap(divided.rest, in_axes=(None, member_axes, state_axes, None, None, 0))
    always = divided.always()

    def foresee(step: Array, given: Array | None) -> tuple[Any, Any]:
        common = divided.common(step, always)
        return common, private(step, (keys, configs, given if streamed else rows), always, common)

    def update(states: Any, xs: Any) -> Any:
        step, given, (common, mine) = xs
        member = keys, configs, given if streamed else rows
        states, metrics = rest(step, member, states, always, common, mine)
        return states, jnp.stack(
            list(metrics.values())
        )  # one array to write an update, not one a metric

    def block(states: Any, xs: Any) -> Any:
        return jax.lax.scan(update, states, (*xs, jax.vmap(foresee)(*xs)))

    ahead = _block_length(length, divided.private_bytes() * len(keys))
    steps = (start + jnp.arange(length)).reshape(-1, ahead)
    given = rows.packed.reshape(-1, ahead, *rows.packed.shape[1:]) if streamed else None
    states, metrics = jax.lax.scan(block, states, (steps, given))
    names = divided.result[1]
    metrics = metrics.reshape(length, len(names), len(keys))
    return without_copies(states), {name: metrics[:, k] for k, name in enumerate(names)}


def _block_length(length: int, bytes_each: int) -> int:
    """Updates whose chance is computed ahead: the largest divisor of `length` that memory allows."""
    most = max(min(length, AHEAD_BYTES // max(bytes_each, 1)), 1)
    return max(n for n in range(1, most + 1) if length % n == 0)
