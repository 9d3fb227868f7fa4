"""A crew of processes that make blocks of episodes.

Each is a Python of its own that is told what to make through a pipe. (The pools of the standard library would
import the user's script again in every process, and so run it again where it has no guard against that.)
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bfq.data.making.log import Block, Log

AHEAD = 2  # blocks asked for, a process


class Crew:
    """Processes that live as long as the `with` block."""

    def __init__(self, processes: int):
        # One thread of linear algebra each: the crew itself uses the cores, and sums must not depend on them.
        settings = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")}
        settings["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", "bfq.data.making.worker"]
        self._members = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings)
            for _ in range(processes)
        ]
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for member in self._members:
            self._idle.put(member)
        self._threads = ThreadPoolExecutor(processes)

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *trouble: object) -> None:
        for member in self._members:
            member.kill()  # whatever is still under way is not wanted any more
        self._threads.shutdown(cancel_futures=True)
        for member in self._members:
            member.wait()
            for pipe in (member.stdin, member.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]  # both were asked for as pipes

    @property
    def room(self) -> int:
        """Blocks that should be under way, so that no process waits for another."""
        return AHEAD * len(self._members)

    def ask(self, block: Block, seed: int, index: int) -> Future[Log]:
        """The block, some time later."""
        return self._threads.submit(self._ask, block, seed, index)

    def _ask(self, block: Block, seed: int, index: int) -> Log:
        member = self._idle.get()
        try:
            pickle.dump((block, seed, index), member.stdin)
            member.stdin.flush()
            answer = pickle.load(member.stdout)  # noqa: S301 - from a process we started, not from a file
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise RuntimeError(f"a process that makes data has died (exit code {member.poll()})") from error
        finally:
            self._idle.put(member)
        if isinstance(answer, Exception):
            raise answer
        return answer
