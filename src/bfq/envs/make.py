"""From the id of a simulator to an environment; optional packages are imported on use.

`ogbench/NAME` is a single-task environment of OGBench and `bfq/NAME` one of bfq; any other id is one of
Gymnasium's.
"""

import ctypes
import importlib
import os
import sys
import warnings
from contextlib import redirect_stderr, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeAlias

from bfq.errors import BadInput
from bfq.options import Simulator
from bfq.records import check_value

if TYPE_CHECKING:
    import gymnasium  # takes a while to import, and worker processes do not need it

    from bfq.envs.own import OwnEnvironment

OLD_MASSES = "-d4rl-v0"  # robots with the masses of MuJoCo 2.0, as in D4RL
TRACKED = ("HalfCheetah", "Hopper", "Walker2d", "Ant-")  # robots that a camera follows
BUILDERS = {  # the beginning of an id, and the function that makes such an environment
    "ogbench/": "bfq.envs.ogbench:make_ogbench",
    "bfq/AntMaze-": "bfq.envs.antmaze:make_antmaze",
    "bfq/": "bfq.envs.robots:make_with_old_masses",
}
Environment: TypeAlias = "gymnasium.Env[Any, Any]"
OWN: dict[str, "OwnEnvironment"] = {}  # what `bfq.envs.own.admit` has admitted, by name


def resolve(target: str) -> Any:
    """Import `module:name`, an entry of a table in this package."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def make_environment(simulator: str, episode_steps: int, render: bool = False) -> Environment:
    """Make the environment with this id; its episodes are truncated after `episode_steps` steps."""
    check_admitted(simulator)
    choose_graphics()
    import gymnasium

    from bfq.envs.spaces import Checked, as_vectors

    if simulator in OWN:
        return OWN[simulator].make(simulator, episode_steps, render)

    prefix = next((start for start in BUILDERS if simulator.startswith(start)), None)
    try:
        build = resolve(BUILDERS[prefix]) if prefix else make_gymnasium
        environment = as_vectors(build(simulator, episode_steps, render), simulator)
        known = prefix or str(environment.spec.entry_point).startswith("gymnasium")
        return environment if known else Checked(environment, simulator)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise BadInput(f"the simulator {simulator} cannot be made here: {error}") from error


def check_admitted(simulator: str) -> None:
    """Refuse code that only a file names: Gymnasium would import the module in `module:Id`."""
    check_value("simulator", simulator, Simulator)
    if ":" in simulator and simulator not in OWN:
        raise BadInput(
            f"{simulator} is code of your own, which bfq imports only if you name it: add --env {simulator} "
            "(in Python, env=…)."
        )


def make_gymnasium(simulator: str, episode_steps: int, render: bool) -> Environment:
    """Make an environment that is registered with Gymnasium."""
    import gymnasium

    if simulator.startswith("AdroitHand"):
        with redirect_stderr(StringIO()):  # warnings about environments that no task uses
            gymnasium.register_envs(package("gymnasium_robotics", "adroit"))
    options = {"render_mode": "rgb_array"} if render else {}
    if render and simulator.startswith(TRACKED):
        options["camera_name"] = "track"  # the default camera stays at the start
    with warnings.catch_warnings():
        # The published scores are those of the v4 robots, so the hint at newer versions does not help.
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        return gymnasium.make(simulator, max_episode_steps=episode_steps, **options)


def registered_limit(simulator: str) -> int | None:
    """Return the episode limit that Gymnasium has registered for this id, if any."""
    check_admitted(simulator)
    if simulator in OWN:
        return OWN[simulator].limit()
    if "/" in simulator:
        return None
    import gymnasium

    try:
        return gymnasium.spec(simulator).max_episode_steps
    except gymnasium.error.Error:
        return None  # make_environment reports what is wrong


def package(name: str, extra: str) -> Any:
    """Import an optional package; BadInput names the extra that installs it."""
    choose_graphics()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(f"this needs {name}: pip install 'bfq-rl[{extra}]'.") from error


def choose_graphics() -> None:
    """Select off-screen rendering. MuJoCo reads the variable once, when it is imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("MUJOCO_GL"):
        return
    for backend, library in (("egl", "libEGL.so.1"), ("osmesa", "libOSMesa.so.8")):
        with suppress(OSError):  # not installed
            ctypes.CDLL(library)
            os.environ["MUJOCO_GL"] = backend
            return
