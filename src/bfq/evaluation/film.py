"""Pictures of a policy in its environment: a video, or a strip of frames for the report."""

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
from bfq.evaluation.rollout import Act, EnvironmentSpec
from bfq.progress import data_bar

Frame = npt.NDArray[np.uint8]
VIDEOS = (".mp4", ".gif")
RATE = 30  # frames per second of a video
FRAMES, SPAN = 8, 120  # of a strip: frames, and steps from the first frame to the last
HEIGHT = 240  # approximate height of a strip

render_failures: list[str] = []  # in this process


def check_video(path: Path) -> None:
    """Check that a video can be written, before anything is simulated for it."""
    if path.suffix not in VIDEOS:
        raise BadInput(f"a video must end in {' or '.join(VIDEOS)}: {path}.")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the video.")
    for module in ("imageio", "imageio_ffmpeg"):
        if importlib.util.find_spec(module) is None:
            raise BadInput(f"a video needs {module}: pip install 'bfq-rl[video]'.")


def _episode(
    act: Act, environment: EnvironmentSpec, protocol: Protocol, members: int, member: int
) -> Iterator[SerialEnvironments]:
    """One member's first episode, step by step; the other members act without being simulated."""
    if render_failures:
        raise BadInput(f"rendering failed before: {render_failures[0]}")
    simulators = SerialEnvironments(
        environment.simulator, [protocol.seed], environment.episode_steps, render=True
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


def _render(simulators: SerialEnvironments) -> Frame:
    """Render a frame. After a failure no environment renders again: a second try can crash the process."""
    try:
        return simulators.render()
    except Exception as error:  # of any kind: it is recorded and raised again
        render_failures.append(f"{type(error).__name__}: {error}")
        raise


def film(
    act: Act,
    environment: EnvironmentSpec,
    protocol: Protocol,
    members: int,
    member: int,
    path: Path,
) -> None:
    """Write a video of one member's first episode."""
    import imageio.v3 as imageio

    frames: list[Frame] = []
    title = f"filming {environment.simulator}"
    with data_bar(title, environment.episode_steps + 1, "frames") as progress:
        for simulators in _episode(act, environment, protocol, members, member):
            frames.append(_render(simulators))
            progress(len(frames))
    movie: dict[str, Any] = {"fps": RATE, "macro_block_size": 1}
    settings = movie if path.suffix == ".mp4" else {"duration": 1000 / RATE}
    with warnings.catch_warnings():
        # JAX warns about forks; the encoder's process replaces itself at once and keeps nothing of JAX.
        warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
        try:
            imageio.imwrite(path, np.stack(frames), **settings)
        except OSError as error:
            raise BadInput(
                f"cannot write the video {path}: {str(error).split(chr(10))[0]}."
            ) from error


def strip(act: Act, environment: EnvironmentSpec, protocol: Protocol, members: int) -> bytes:
    """The start of the first member's first episode as a row of frames, in a PNG."""
    from matplotlib.image import imsave

    wanted = np.linspace(0, min(SPAN, environment.episode_steps), FRAMES).astype(int)
    frames = []
    episode = _episode(act, environment, protocol, members, member=0)
    for time, simulators in enumerate(episode):
        if time in wanted:
            frames.append(_downscale(_render(simulators)))
        if time == wanted[-1]:
            break
    content = BytesIO()
    imsave(content, np.concatenate(frames, axis=1), format="png")
    return content.getvalue()


def _downscale(frame: Frame) -> Frame:
    """A frame of about the strip's height; each pixel is the mean of a block."""
    k = max(round(len(frame) / HEIGHT), 1)
    height, width = (length // k for length in frame.shape[:2])
    blocks = frame[: height * k, : width * k].reshape(height, k, width, k, 3)
    return blocks.mean(axis=(1, 3)).astype(np.uint8)
