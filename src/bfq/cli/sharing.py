"""More processes at one command's work: each does what no other is at, and saves and stops with the first."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from bfq.files import make_folder

# JAX would let the first process take most of a GPU's memory, and leave none for the others.
TOGETHER = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@contextlib.contextmanager
def helped(count: int, words: Sequence[str], logs: Path) -> Iterator[None]:
    """Runs `bfq WORDS` in as many processes while the block does; what they say goes into `logs`."""
    if count:
        make_folder(logs)
    helpers = [_helper(words, logs / f"{k + 1}.log") for k in range(count)]
    try:
        yield
    finally:
        for helper in helpers:
            if helper.stdin:
                helper.stdin.close()  # by which `end_with_the_first` knows
        for helper in helpers:
            helper.wait()


def _helper(words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "bfq.cli.main", *words],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C is for the first, which tells the others
        )


def end_with_the_first() -> None:
    """Saves and stops this process when the one that started it has ended, however that was."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)  # nothing ever comes but the end
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
