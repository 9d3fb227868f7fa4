"""From the id of a simulator to the simulator, importing the package that holds it only when it is asked for.

`ogbench/NAME` is a single-task world of OGBench, `bfq/NAME` a world of ours (`bfq/Hopper-d4rl-v0` is Hopper
as heavy as D4RL's), any other id one of Gymnasium's.
"""

import warnings
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium

from bfq.envs.optional import choose_graphics, package
from bfq.errors import BadInput
from bfq.options import Simulator
from bfq.records import check_value

OLD_MASSES = "-d4rl-v0"
RUNNING = ("HalfCheetah", "Hopper", "Walker2d", "Ant-")
World: TypeAlias = "gymnasium.Env[Any, Any]"


def make_world(simulator: str, episode_steps: int, render: bool = False) -> World:
    """The simulator of that id, whose episodes are cut off after `episode_steps` steps."""
    check_value(
        "simulator", simulator, Simulator
    )  # Gymnasium would import the module of `module:Id`
    choose_graphics()
    try:
        return _made(simulator, episode_steps, render)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise BadInput(f"the simulator {simulator} cannot be made here: {error}") from error


def usual_steps(simulator: str) -> int | None:
    """After how many steps the episodes of one of Gymnasium's simulators are cut off, if they are."""
    check_value("simulator", simulator, Simulator)
    if "/" in simulator:
        return None
    try:
        return gymnasium.spec(simulator).max_episode_steps
    except gymnasium.error.Error:
        return None  # whoever makes it says what is wrong


def _made(simulator: str, episode_steps: int, render: bool) -> World:
    if simulator.startswith("ogbench/"):
        package("ogbench", "ogbench")  # importing it registers its worlds, and fetches nothing
        from bfq.envs import ogbench

        return ogbench.make(simulator.removeprefix("ogbench/"), episode_steps, render)
    if simulator.startswith("bfq/") and simulator.endswith(OLD_MASSES):
        return _with_old_masses(simulator, episode_steps, render)
    if simulator.startswith("bfq/"):
        return gymnasium.wrappers.TimeLimit(
            _ours(simulator.removeprefix("bfq/"), render), episode_steps
        )
    if simulator.startswith("AdroitHand"):
        with redirect_stderr(
            StringIO()
        ):  # it warns of worlds that no card uses: door, hammer, relocate
            gymnasium.register_envs(package("gymnasium_robotics", "adroit"))
    return _gymnasium(simulator, episode_steps, render)


def _gymnasium(simulator: str, episode_steps: int, render: bool) -> World:
    options = {"render_mode": "rgb_array"} if render else {}
    if render and simulator.startswith(RUNNING):
        options["camera_name"] = "track"  # the usual camera stays where the robot began
    with warnings.catch_warnings():
        # The papers' numbers are of the v4 robots: that there are newer ones is no news to act on.
        warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
        return gymnasium.make(simulator, max_episode_steps=episode_steps, **options)


def _with_old_masses(simulator: str, episode_steps: int, render: bool) -> World:
    """A robot of Gymnasium's v4 tasks as heavy as it was when D4RL was made."""
    from bfq.envs.masses import robot_file, weigh_as_mujoco_2

    world = _gymnasium(
        f"{simulator.removeprefix('bfq/').removesuffix(OLD_MASSES)}-v4", episode_steps, render
    )
    bare: Any = world.unwrapped
    weigh_as_mujoco_2(bare.model, robot_file(Path(bare.fullpath).name))
    return world


def _ours(name: str, render: bool) -> World:
    package("mujoco", "mujoco")
    from bfq.envs import antmaze

    return antmaze.make(name, render)
