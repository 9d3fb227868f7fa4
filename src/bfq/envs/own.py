"""Environments of the user: an instance, a class, a function, or code that the user names.

`admit` is the only place that imports such code. A name that was read from a file is not admitted, so it
cannot cause an import.
"""

import copy
import importlib
import os
import sys
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, NamedTuple

import gymnasium

from bfq.envs.make import OWN, Environment
from bfq.envs.spaces import Checked, as_vectors
from bfq.errors import BadInput, unknown
from bfq.options import Simulator
from bfq.records import check_value


class OwnEnvironment(NamedTuple):
    """How to make one environment more, or to copy the only one."""

    create: Callable[..., Any]
    importable: bool  # by other processes, under its name
    single: bool = False  # an instance that cannot be copied

    def make(self, name: str, episode_steps: int, render: bool) -> Environment:
        """Make an environment that is truncated after `episode_steps` steps."""
        options = {"render_mode": "rgb_array"} if render and _renders(self.create) else {}
        try:
            bare = self.create(**options)
        except Exception as error:
            raise BadInput(f"the environment {name} cannot be made: {error!r}.") from error
        if not isinstance(bare, gymnasium.Env):
            raise BadInput(f"{name} makes a {type(bare).__name__}, not a Gymnasium environment.")
        if render and bare.render_mode != "rgb_array":
            raise BadInput(f"{name} does not render: it was made without render_mode='rgb_array'.")
        limited = gymnasium.wrappers.TimeLimit(as_vectors(bare, name), episode_steps)
        return Reused(limited, name) if self.single else Checked(limited, name)

    def limit(self) -> int | None:
        """The episode limit that its specification states, if any."""
        try:
            bare = self.create()
            return bare.spec.max_episode_steps if bare.spec else None
        except Exception:  # noqa: BLE001 - `make` reports what is wrong
            return None


class Reused(Checked):
    """The only instance, which stays open."""

    def close(self) -> None:
        """Leave the instance to its owner."""


def admit(env: Any) -> str | None:
    """Return the name of an environment that the user gave, under which this process can make it.

    A registered id is its own name. The code of `module:Name` is imported. None stays None.
    """
    if env is None:
        return None
    if isinstance(env, str):
        name: str = check_value("env", env, Simulator)
        if ":" in name:
            OWN[name] = OwnEnvironment(_imported(name), importable=True)
        return name
    if isinstance(env, gymnasium.Env):
        name = f"{type(env.unwrapped).__module__}:{type(env.unwrapped).__name__}"
        OWN[name] = _copies(env)
        return name
    if not callable(env):
        raise BadInput(
            "env must be an id, module:Class, a Gymnasium environment, a class, or a function that makes "
            f"one, not {type(env).__name__}."
        )
    module, known = getattr(env, "__module__", "__main__"), getattr(env, "__name__", "function")
    name = f"{module}:{known.strip('<>')}"
    shared = module != "__main__" and getattr(sys.modules.get(module), known, None) is env
    OWN[name] = OwnEnvironment(env, importable=shared)
    return name


def _copies(env: Environment) -> OwnEnvironment:
    """An instance is copied for each episode, or used for one after the other."""
    try:
        copy.deepcopy(env)
    except Exception:  # noqa: BLE001 - copying fails in many ways
        return OwnEnvironment(lambda: env, importable=False, single=True)
    return OwnEnvironment(lambda: copy.deepcopy(env), importable=False)


def _imported(name: str) -> Callable[..., Any]:
    """What `module:Name` names: a class or a function, or an id that the module registers."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        code = importlib.import_module(module)
    except Exception as error:
        raise BadInput(f"the module of the environment {name} fails: {error!r}.") from error
    if attribute in gymnasium.registry:
        return lambda **options: gymnasium.make(attribute, **options)
    found: Callable[..., Any] | None = getattr(code, attribute, None)
    if not callable(found):
        names = [key for key, value in vars(code).items() if isinstance(value, type)]
        raise unknown(f"environment in {module}", attribute, names)
    return found


def _renders(create: Callable[..., Any]) -> bool:
    """Whether it takes a `render_mode`."""
    try:
        parameters = signature(create).parameters.values()
    except ValueError:  # a class without a signature
        return False
    return any(p.name == "render_mode" or p.kind is Parameter.VAR_KEYWORD for p in parameters)
