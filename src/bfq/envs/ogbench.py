"""OGBench's environments, made repeatable by their seed, silent, and cheap to have many of."""

import copy
import functools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from bfq.envs.make import package
from bfq.errors import BadInput

_PICTURE = {"width": 320, "height": 320}  # the package's default of 200 is small for a video


def make_ogbench(simulator: str, episode_steps: int, render: bool) -> Any:
    """Make the single-task environment `ogbench/NAME`."""
    package("ogbench", "ogbench")  # importing it registers its environments
    if "-singletask" not in simulator:
        raise BadInput(
            f"{simulator} has no reward: name one of its tasks, "
            "such as ogbench/cube-single-singletask-task2-v0."
        )
    name = simulator.removeprefix("ogbench/")
    if "maze" in name:
        return _Repeatable(_new(name, episode_steps, render))
    return _Arm(_copy(_prototype(name, episode_steps, render)))


def _new(name: str, episode_steps: int, render: bool) -> Any:
    # Its environments render without declaring it, which Gymnasium's checker refuses.
    options = {"disable_env_checker": True, **(_PICTURE if render else {})}
    environment = gymnasium.make(name, max_episode_steps=episode_steps, **options)
    _delete_model_file(getattr(environment.unwrapped, "fullpath", None))
    return environment


# mypy does not read Gymnasium, so its classes have the type Any.
class _Repeatable(gymnasium.Wrapper):  # type: ignore[misc]
    """An environment whose episodes depend on their seed alone and cause no warnings."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        with _without_cast_warning():  # stored, because the arm rebuilds its spaces at every access
            self._observation_space = environment.observation_space
            self._action_space = environment.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Start an episode; the mazes also draw from NumPy's global generator."""
        with _without_cast_warning(), nullcontext() if seed is None else numpy_seeded(seed):
            return super().reset(seed=seed, options=options)

    def close(self) -> None:
        """Close the renderer, which the environment itself leaves open."""
        for name in ("custom_renderer", "_renderer"):
            if (renderer := getattr(self.unwrapped, name, None)) is not None:
                renderer.close()
                setattr(self.unwrapped, name, None)
        super().close()


class _Arm(_Repeatable):
    """An arm that shares its model with its copies and stores what it changes there: the locks."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Start an episode and store its locks."""
        first = super().reset(seed=seed, options=options)
        self._locks = self.unwrapped._model.dof_damping.copy()
        return first

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step with this environment's own locks."""
        model = self.unwrapped._model
        model.dof_damping[:] = self._locks
        result = super().step(action)
        self._locks[:] = model.dof_damping
        return result


@functools.lru_cache(maxsize=1)
def _prototype(name: str, episode_steps: int, render: bool) -> Any:
    environment = _new(name, episode_steps, render)
    with _without_cast_warning():
        environment.reset()  # builds the model
    return environment


def _copy(environment: Any) -> Any:
    """Copy the state and share the model, which takes a second to build and 110 MB."""
    parts = vars(environment.unwrapped)
    shared = [parts["_mjcf_model"], parts["_model"], parts["_ik"]]  # the solver has no state
    shared += [value for value in parts.values() if isinstance(value, list)]  # names and ids
    copies = {id(value): value for value in shared}
    copies[id(parts["_data"])] = copy.copy(parts["_data"])  # a deep copy would copy the model too
    return copy.deepcopy(environment, copies)


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, and restore its state afterwards."""
    state = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(state)


@contextmanager
def _without_cast_warning() -> Iterator[None]:
    """Ignore the warning that bounds of ±1 are cast to 32 bits, which loses nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*lowered by casting", category=UserWarning)
        yield


def _delete_model_file(path: str | None) -> None:
    """Close and delete the temporary file of a maze's model, which would accumulate."""
    if path is None or Path(path).parent != Path(tempfile.gettempdir()):
        return
    file = os.stat(path)
    for handle in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the handle of the listing itself is closed already
            if os.path.samestat(os.fstat(handle), file):
                os.close(handle)
    os.unlink(path)
