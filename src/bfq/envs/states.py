"""An environment that can be set to logged states; its failures become one-sentence errors."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.envs.make import make_environment, package
from bfq.errors import BadInput

Doubles = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]
STATE = ("qpos", "qvel")
INTEGERS = {"button_states"}  # integers, whatever type a log stores
UNLIMITED = 10**9  # steps: episodes are not truncated


@dataclass(frozen=True)
class ReplayEnvironment:
    """An environment with its id, and the warnings that MuJoCo has raised."""

    simulator: str
    environment: Any
    warnings: list[str]

    def set_state(self, columns: Columns, row: int) -> None:
        """Set the simulator to a logged state: qpos, qvel, and what else it requires.

        Adroit's states include the position of a door or the target of a pen, OGBench's scene its buttons.
        """
        bare = self.environment.unwrapped
        with _explained(f"{self.simulator} cannot be set to the state of row {row}"):
            if hasattr(bare, "set_env_state"):
                bare.set_env_state(_state(columns, bare.get_env_state(), row))
            else:
                bare.set_state(**_state(columns, signature(bare.set_state).parameters, row))

    def step(self, action: npt.NDArray[Any]) -> tuple[Doubles, float]:
        """Return the next observation and the reward."""
        with _explained(f"{self.simulator} cannot take an action of this data"):
            observation, reward, *_ = self.environment.step(action)
            return _finite(observation), float(_finite(reward)[0])


@contextlib.contextmanager
def open_replay(simulator: str) -> Iterator[ReplayEnvironment]:
    """Open the environment with this id for replaying logged states."""
    environment: Any = make_environment(simulator, UNLIMITED)
    try:
        if not hasattr(environment.unwrapped, "set_state"):
            raise BadInput(
                f"{simulator} cannot be set to a state: only MuJoCo simulators can replay data."
            )
        with _explained(f"{simulator} cannot start an episode"):
            environment.reset(seed=0)
        with _collected_warnings() as warnings:
            yield ReplayEnvironment(simulator, environment, warnings)
    finally:
        environment.close()


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn anything that a simulator raises into a sentence; MuJoCo's mismatches have no words."""
    try:
        yield
    except Exception as error:
        raise BadInput(f"{what}: {str(error) or 'it has another number of joints'}.") from error


@contextlib.contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect MuJoCo's warnings, which otherwise go to a file in the current folder."""
    mujoco = package("mujoco", "mujoco")
    warnings: list[str] = []
    mujoco.set_mju_user_warning(warnings.append)
    try:
        yield warnings
    finally:
        mujoco.set_mju_user_warning(None)


def _state(columns: Columns, names: Iterable[str], row: int) -> dict[str, npt.NDArray[Any]]:
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"the data lacks {', '.join(missing)}")
    state: dict[str, npt.NDArray[Any]] = {name: _finite(columns[name][row]) for name in names}
    for name in state:
        if name in INTEGERS or columns[name].dtype.kind in "iub":
            state[name] = state[name].astype(int)
    return state


def _finite(values: Any) -> Doubles:
    numbers = np.ravel(np.asarray(values, np.float64))
    if not np.isfinite(numbers).all():
        raise ValueError("it contains NaN or an infinite value")
    return numbers
