"""Pictures of a policy at work: a video, or a strip of frames for the report."""

import importlib.util
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.envs.batch import SerialEnvironments
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.evaluation.rollout import Act, World
from bfq.progress import data_bar

Frame = npt.NDArray[np.uint8]
VIDEOS = (".mp4", ".gif")
FRAMES, SPAN = 8, 120  # of a strip: frames, and the steps from the first to the last of them
HEIGHT = 240  # of a strip, about

_failures: list[str] = []  # of graphics, in this process


def check_video(path: Path) -> None:
    """Refuses a video that could not be written, before anything is simulated for it."""
    if path.suffix not in VIDEOS:
        raise BadInput(
            f"a video ends in {' or '.join(VIDEOS)}, not {path.suffix or 'nothing'}: {path}."
        )
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the video.")
    for module in ("imageio", "imageio_ffmpeg"):
        if importlib.util.find_spec(module) is None:
            raise BadInput(f"a video needs {module}: pip install 'bfq-rl[video]'.")


def watched(
    act: Act, world: World, protocol: Protocol, members: int, member: int
) -> Iterator[SerialEnvironments]:
    """One member's first episode, step by step, the others acting along unseen."""
    if _failures:
        raise BadInput(f"graphics failed before: {_failures[0]}")
    simulators = SerialEnvironments(
        world.simulator, [protocol.seed], world.episode_steps, render=True
    )
    try:
        observations, time = simulators.reset(), 0
        yield simulators
        while simulators.running.any():
            actions = act(np.broadcast_to(observations, (members, 1, observations.shape[-1])), time)
            observations, *_ = simulators.step(actions[member])
            yield simulators
            time += 1
    finally:
        simulators.close()


def _drawn(simulators: SerialEnvironments) -> Frame:
    """A frame. Graphics that failed are not asked again, by any robot: a second try may end the process."""
    try:
        return simulators.render()
    except Exception as error:  # whichever: it is remembered and raised again
        _failures.append(f"{type(error).__name__}: {error}")
        raise


def film(act: Act, world: World, protocol: Protocol, members: int, member: int, path: Path) -> None:
    """A video of one member's first episode."""
    import imageio.v3 as imageio

    frames: list[Frame] = []
    with data_bar(f"filming {world.simulator}", world.episode_steps + 1, "frames") as progress:
        for simulators in watched(act, world, protocol, members, member):
            frames.append(_drawn(simulators))
            progress(len(frames))
    settings: dict[str, Any] = {"macro_block_size": 1} if path.suffix == ".mp4" else {}
    with warnings.catch_warnings():
        # JAX warns of forks; the encoder's process replaces itself at once, so nothing of JAX lives on in it.
        warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
        imageio.imwrite(path, np.stack(frames), fps=30, **settings)


def strip(act: Act, world: World, protocol: Protocol, members: int, member: int = 0) -> bytes:
    """The beginning of one member's first episode as frames side by side: a PNG."""
    wanted = np.linspace(0, min(SPAN, world.episode_steps), FRAMES).astype(int)
    frames = []
    for time, simulators in enumerate(watched(act, world, protocol, members, member)):
        if time in wanted:
            frames.append(_smaller(_drawn(simulators)))
        if time == wanted[-1]:
            break
    return _png(np.concatenate(frames, axis=1))


def _smaller(frame: Frame) -> Frame:
    """A frame of about the strip's height, each pixel the mean of those it replaces."""
    k = max(round(len(frame) / HEIGHT), 1)
    height, width = (length // k for length in frame.shape[:2])
    blocks = frame[: height * k, : width * k].reshape(height, k, width, k, 3)
    return blocks.mean(axis=(1, 3)).astype(np.uint8)


def _png(picture: Frame) -> bytes:
    from matplotlib.image import imsave

    content = BytesIO()
    imsave(content, picture, format="png")
    return content.getvalue()
