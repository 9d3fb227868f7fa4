"""OGBench's worlds, with what keeps them from being repeated, many and silent put right."""

import copy
import functools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from bfq.errors import BadInput

_PICTURE = {"width": 320, "height": 320}  # the package's own 200 is small for a video


def make(name: str, episode_steps: int, render: bool) -> Any:
    """The single-task world of that name; the package must have been imported, which registers its worlds."""
    if "-singletask" not in name:
        raise BadInput(
            f"ogbench/{name} has no reward: name one task of it, "
            "such as ogbench/cube-single-singletask-task2-v0."
        )
    if "maze" in name:
        return _Repeatable(_fresh(name, episode_steps, render))
    return _ArmWorld(_twin(_prototype(name, episode_steps, render)))


def _fresh(name: str, episode_steps: int, render: bool) -> Any:
    options = _PICTURE if render else {}
    # It draws pictures without having declared it, to which Gymnasium's checker objects.
    world = gymnasium.make(
        name, max_episode_steps=episode_steps, disable_env_checker=True, **options
    )
    _forget_model_file(getattr(world.unwrapped, "fullpath", None))
    return world


# Gymnasium is not read by mypy, so its classes are Any to it.
class _Repeatable(gymnasium.Wrapper):  # type: ignore[misc]
    """A world whose episodes begin by their seed alone, in silence."""

    def __init__(self, world: Any):
        super().__init__(world)
        with _unrounded():  # settled once: the arm's worlds build them anew at every look
            self._observation_space, self._action_space = (
                world.observation_space,
                world.action_space,
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Begins an episode; the mazes draw from NumPy's global generator besides their own."""
        if seed is None:
            with _unrounded():
                return super().reset(options=options)
        with _unrounded(), numpy_seeded(seed):
            return super().reset(seed=seed, options=options)

    def close(self) -> None:
        """Gives the renderer back, of which the world itself does not think."""
        for name in ("custom_renderer", "_renderer"):
            if (renderer := getattr(self.unwrapped, name, None)) is not None:
                renderer.close()
                setattr(self.unwrapped, name, None)
        super().close()


class _ArmWorld(_Repeatable):
    """A world of the arm: it shares its model with its twins, and keeps what it changes there, the locks."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Begins an episode and remembers its locks."""
        begun = super().reset(seed=seed, options=options)
        self._locks = self.unwrapped._model.dof_damping.copy()
        return begun

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """A step under this world's own locks."""
        model = self.unwrapped._model
        model.dof_damping[:] = self._locks
        happened = super().step(action)
        self._locks[:] = model.dof_damping
        return happened


@functools.lru_cache(maxsize=1)
def _prototype(name: str, episode_steps: int, render: bool) -> Any:
    world = _fresh(name, episode_steps, render)
    with _unrounded():
        world.reset()  # builds the model
    return world


def _twin(world: Any) -> Any:
    """A world of its own state and of the same model: one takes a second to build and 110 MB to keep."""
    parts = vars(world.unwrapped)
    shared = [
        parts["_mjcf_model"],
        parts["_model"],
        parts["_ik"],
    ]  # the last solves and keeps nothing
    shared += [
        value for value in parts.values() if isinstance(value, list)
    ]  # names and numbers of the parts
    copies = {id(value): value for value in shared}
    copies[id(parts["_data"])] = copy.copy(
        parts["_data"]
    )  # a deep copy of it would copy the model too
    return copy.deepcopy(world, copies)


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """Seeds NumPy's global generator for a while and puts it back after."""
    state = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(state)


@contextmanager
def _unrounded() -> Iterator[None]:
    """Silences the word that bounds of ±1 were rounded to 32 bits, which loses nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*precision lowered by casting", category=UserWarning
        )
        yield


def _forget_model_file(path: str | None) -> None:
    """A maze leaves its model in a temporary file, and that file open: many worlds would use up both."""
    if path is None or Path(path).parent != Path(tempfile.gettempdir()):
        return
    file = os.stat(path)
    for handle in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the listing's own handle is closed by now
            if os.path.samestat(os.fstat(handle), file):
                os.close(handle)
    os.unlink(path)
