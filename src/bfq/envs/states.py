"""A simulator that can be set to a state of a log, and says in a sentence what goes wrong with that."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.envs.optional import package
from bfq.envs.worlds import make_world
from bfq.errors import BadInput

Doubles = npt.NDArray[np.float64]
STATE = ("qpos", "qvel")
WHOLE = {"button_states"}  # whole numbers, however a log keeps them
FOREVER = 10**9  # steps: no episode is cut off


@dataclass(frozen=True)
class Stage:
    """A simulator with its id, and what MuJoCo warned of so far."""

    simulator: str
    world: Any
    warnings: list[str]

    def place(self, columns: Mapping[str, npt.NDArray[Any]], row: int) -> None:
        """Sets the simulator to the state in a row of `columns`: qpos, qvel, and whatever else it asks for.

        Adroit's worlds count a door's place or a pen's target to their state, OGBench's scene its buttons.
        """
        bare = self.world.unwrapped
        try:
            if hasattr(bare, "set_env_state"):
                bare.set_env_state(_state(columns, bare.get_env_state(), row))
            else:
                bare.set_state(**_state(columns, signature(bare.set_state).parameters, row))
        except Exception as error:  # a simulator may raise anything
            why = str(error) or "it has another number of joints"
            raise BadInput(
                f"{self.simulator} cannot be set to the state of row {row}: {why}."
            ) from error

    def step(self, action: npt.NDArray[Any]) -> tuple[Doubles, float]:
        """The next observation and the reward."""
        try:
            observation, reward, *_ = self.world.step(action)
            return _finite(observation), float(_finite(reward)[0])
        except Exception as error:  # a simulator may raise anything
            raise BadInput(
                f"{self.simulator} cannot take an action of this data: {error}."
            ) from error


@contextlib.contextmanager
def stage(simulator: str) -> Iterator[Stage]:
    """The simulator of that id, while it is needed."""
    world: Any = make_world(simulator, FOREVER)
    try:
        if not hasattr(world.unwrapped, "set_state"):
            raise BadInput(
                f"{simulator} cannot be set to a state: only MuJoCo's worlds can replay data."
            )
        _begin(world, simulator)
        with _collected() as warnings:
            yield Stage(simulator, world, warnings)
    finally:
        world.close()


def _begin(world: Any, simulator: str) -> None:
    try:
        world.reset(seed=0)
    except Exception as error:  # a simulator may raise anything
        raise BadInput(f"{simulator} cannot begin an episode: {error}.") from error


@contextlib.contextmanager
def _collected() -> Iterator[list[str]]:
    """MuJoCo's warnings, which it would else write into a file in the present folder."""
    mujoco = package("mujoco", "mujoco")
    heard: list[str] = []
    mujoco.set_mju_user_warning(heard.append)
    try:
        yield heard
    finally:
        mujoco.set_mju_user_warning(None)


def _state(
    columns: Mapping[str, npt.NDArray[Any]], names: Iterable[str], row: int
) -> dict[str, npt.NDArray[Any]]:
    lacking = [name for name in names if name not in columns]
    if lacking:
        raise ValueError(f"the data lacks {', '.join(lacking)}")
    state = {name: _finite(columns[name][row]) for name in names}
    counted = {name for name in names if name in WHOLE or columns[name].dtype.kind in "iub"}
    whole = {name: state[name].astype(int) for name in counted}
    return state | whole


def _finite(values: Any) -> Doubles:
    numbers = np.ravel(np.asarray(values, np.float64))
    if not np.isfinite(numbers).all():
        raise ValueError("there is NaN or an infinite value in it")
    return numbers
