"""More processes at one command's work: each does what no other is at, and saves and stops with the first."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bfq.envs.worker_pool import same_modules
from bfq.errors import BadInput
from bfq.files import make_folder

PATIENCE_S = 10.0  # between two wishes that a process may stop

# JAX would let the first process take most of a GPU's memory, and leave none for the others.
TOGETHER = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@contextlib.contextmanager
def helped(
    count: int, words: Sequence[str], logs: Path, say: Callable[[str], None] = print
) -> Iterator[None]:
    """Runs `bfq WORDS` in as many processes while the block does; what they say goes into `logs`.

    One that has failed by the end of the block is told of.
    """
    if count:
        make_folder(logs)
    paths = [logs / f"{os.getpid()}-{k + 1}.log" for k in range(count)]
    helpers = [_helper(words, path) for path in paths]
    try:
        yield
        for helper, path in zip(helpers, paths, strict=True):
            if helper.poll():
                say(
                    f"note: one of those that share the parts has ended with code {helper.poll()}: see {path}"
                )
    finally:
        for helper in helpers:
            if helper.stdin:
                helper.stdin.close()  # by which `end_with_the_first` knows
        for helper in helpers:
            helper.wait()


def _helper(words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    try:
        with log.open("xb") as file:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "bfq.cli.main", *words],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=same_modules(),  # the same bfq as this one
                start_new_session=True,  # Ctrl-C is for the first, which tells the others
            )
    except OSError as error:
        raise BadInput(f"cannot write to {log}: {error.strerror or error}.") from error


def end_with_the_first() -> None:
    """Saves and stops this process when the one that started it has ended, however that was."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)  # nothing ever comes but the end
        while True:  # what is asked at an unlucky moment is asked again
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(PATIENCE_S)

    threading.Thread(target=watch, daemon=True).start()
